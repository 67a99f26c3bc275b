//! Packets of both directions on an interface, live.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use onbeat_delay::capture::{LinkType, Packet};
use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::matching::{Event, Matcher};
use onbeat_delay::pairing::{SideCriterion, Sorter};
use onbeat_link::raw::{CaptureClock, CaptureOptions, CaptureSocket, CapturedFrame, StampPolicy};
use onbeat_netdev::{Handle, Namespace};
use onbeat_realtime::{clock, interrupt};
use onbeat_report::Progress;
use onbeat_report::format::{count, parse_duration};

use super::{MirrorOptions, MirrorReading};
use crate::captures;
use crate::error::{Error, Result};
use crate::reading::Reading;
use crate::sink::DelaySink;

/// Maximum wait for packets: the response time to Ctrl-C.
const LOOK_NS: u64 = 50_000_000;
/// Maximum number of batches between two checks of the time: the content of the largest ring.
const BATCHES: usize = 512;

/// Options of capturing an interface.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct LiveOptions {
    /// Capture an interface for this time [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Capture an interface until NUMBER packets are matched; packets of equal content do not count
    #[arg(short, long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Source of an interface's time stamps: the NIC, the kernel, or the NIC if it can stamp every packet, else the
    /// kernel (best) [default: best]
    #[arg(long, value_name = "SOURCE", value_parser = stamps())]
    stamps: Option<StampPolicy>,
}

fn stamps() -> impl TypedValueParser<Value = StampPolicy> {
    PossibleValuesParser::new(["best", "nic", "kernel"]).map(|name| match name.as_str() {
        "nic" => StampPolicy::Nic,
        "kernel" => StampPolicy::Kernel,
        _ => StampPolicy::Best,
    })
}

/// Counts of packets, including unusable ones.
#[derive(Default)]
struct LivePacketCounts {
    without_time: u64,
    downs: u64,
}

impl LiveOptions {
    /// The number of matches at which the measurement stops.
    pub(super) fn count(&self) -> Option<u64> {
        self.count.map(NonZeroU64::get)
    }

    pub(super) fn refuse_for_a_file(&self) -> Result<()> {
        let option = match self {
            LiveOptions { length: Some(_), .. } => "--for",
            LiveOptions { count: Some(_), .. } => "--count",
            LiveOptions { stamps: Some(_), .. } => "--stamps",
            _ => return Ok(()),
        };
        Err(Error::option(format!("{option} is for an interface; a capture is read to its end")))
    }

    /// Matches live packets, until the end of the measurement.
    pub(super) fn watch(
        &self,
        mirror: &MirrorOptions,
        matching: &MatchingOptions,
        sink: &mut DelaySink,
        progress: &mut Progress,
    ) -> Result<MirrorReading> {
        let name = mirror.source.to_string_lossy();
        let sides = mirror.side.sides()?;
        if matches!(sides, SideCriterion::Interfaces { .. }) {
            return Err(Error::option(format!(
                "--interface requires a pcapng file, unlike {name}; distinguish the sides by --mac, --vlan or \
                 --direction"
            )));
        }
        let mut socket = self.open(&name, &sides)?;
        // A tunnel has no address, and packets without an Ethernet header.
        let has_address = Handle::in_namespace(&Namespace::current()?)?.link(&name)?.mac.is_some();
        let link = if has_address { LinkType::ETHERNET } else { LinkType::RAW_IP };
        let _signals = interrupt::Guard::install();
        let recognition = mirror.packets.recognition();
        let window = mirror.packets.window();
        let mut matcher = Matcher::new(window);
        let filters = mirror.packets.selection.filters(None);
        let mut sorter = Sorter::new(sides, recognition).filtered(filters);
        let mut lost = LivePacketCounts::default();
        let mut take = |event: Event<()>| sink.take(&event);
        let end_ns = self.length.map_or(u64::MAX, |length| {
            clock::now_ns().saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
        });
        loop {
            let last = interrupt::check().is_err() || clock::now_ns() >= end_ns;
            let wait_ns = LOOK_NS.min(end_ns.saturating_sub(clock::now_ns()));
            if !last && !socket.wait(wait_ns)? {
                lost.downs += 1;
            }
            // Packets from before this were in the ring when it was emptied, except for the kernel's disorder.
            let now_ns = clock::now_ns() as i64;
            let mut unreadable = None;
            let emptied = (0..BATCHES).any(|_| {
                0 == socket.take(|frame| {
                    let number = sorter.tally().packets + 1;
                    let Some(packet) = packet(&frame, number, link) else {
                        lost.without_time += 1;
                        return;
                    };
                    let taken = sorter.take(&packet, (), &mut matcher, &mut take);
                    unreadable = unreadable.take().or(taken.err());
                })
            });
            if let Some(error) = unreadable {
                return Err(captures::failure(&mirror.source, error));
            }
            if emptied && socket.clock() == CaptureClock::Monotonic {
                matcher.pass(now_ns.saturating_sub(window.disorder_ns), &mut take);
            }
            let (packets, matched) = (sorter.tally().packets, matcher.counts().measured());
            progress.update(|| {
                format!("{name}: {}, {matched} matched; Ctrl-C stops", count(packets, "packet"))
            });
            if last || self.count.is_some_and(|count| matched >= count.get()) {
                break;
            }
        }
        matcher.finish(&mut take);
        let tally = sorter.tally();
        let mut notes = notes(&name, &mut socket, &lost)?;
        notes.extend(captures::notes(&name, &tally, false, (lost.without_time, 0), &recognition));
        let reading = Reading::new(*matcher.counts(), &sorter.evidence(1), matching, notes);
        Ok(MirrorReading { tally, reading })
    }

    fn open(&self, name: &str, sides: &SideCriterion) -> Result<CaptureSocket> {
        let stamps = self.stamps.unwrap_or_default();
        let options = CaptureOptions { outgoing: *sides == SideCriterion::Direction, stamps };
        CaptureSocket::open(
            &Namespace::current()?,
            name,
            options,
            Path::new(CaptureSocket::DIRECTORY),
        )
        .map_err(|error| Error::input(name, format!("no such file, and {error}")))
    }
}

/// A frame as in captures; `None`: its time is unknown.
fn packet<'a>(frame: &CapturedFrame<'a>, number: u64, link: LinkType) -> Option<Packet<'a>> {
    use onbeat_delay::capture::Direction::{Inbound, Outbound};
    Some(Packet {
        number,
        time_ns: i64::try_from(frame.time_ns?).ok()?,
        interface: 0,
        interface_name: None,
        direction: Some(if frame.outgoing { Outbound } else { Inbound }),
        link,
        wire_len: u32::try_from(frame.wire_len).unwrap_or(u32::MAX),
        octets: frame.octets,
    })
}

fn notes(name: &str, socket: &mut CaptureSocket, lost: &LivePacketCounts) -> Result<Vec<String>> {
    let mut notes = vec![format!("{name}: stamped by {}", socket.clock())];
    if let Some(reason) = socket.nic_unavailable_reason() {
        notes.push(format!("not by the NIC: {reason}"));
    }
    let drops = socket.drops()?;
    notes.push(match drops {
        0 => "the ring dropped no packet".to_owned(),
        _ => format!(
            "the ring dropped {}, because this host read it too slowly; they may count as lost or as not \
             arrived",
            count(drops, "packet")
        ),
    });
    if socket.steps() > 0 {
        notes.push(format!("steps of the time of day: {}", socket.steps()));
    }
    if lost.downs > 0 {
        notes.push(format!("{name} went down {}", count(lost.downs, "time")));
    }
    Ok(notes)
}
