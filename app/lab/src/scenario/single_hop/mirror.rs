//! Captures on both sides of the hop, matched, as those of a mirror port.
//!
//! The captures are at the far ends of the hop's links, where frames redirected by XDP are visible as
//! well. So the delays include a veth pair on each side. One clock stamps both.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_delay::capture::{LinkType, Packet};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Event, Matcher, Observation, Window};
use onbeat_delay::pairing::Side;
use onbeat_delay::probe::Sample;
use onbeat_netdev::{PacketSocket, ReceivedFrame};
use onbeat_realtime::clock::realtime_offset;
use onbeat_report::format::count;

use super::frame::sequence;
use super::measurement::{Measurement, Method, MethodResult};
use super::rig::{Hop, Rig};
use crate::traffic::{Receiver, socket};
use crate::worker::Worker;
use crate::{Error, Result};

/// Polling interval of the captures. A blocking reader would be woken by the thread that forwards a
/// packet: a wake-up of another CPU takes longer than a hop, and would add to the packet's delay.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum deviation of the real-time clock that is no clock step, in nanoseconds beyond the
/// measurement error.
const SLACK_NS: u64 = 1_000;

/// The method of captures.
pub(super) struct Mirror;

impl Method for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measurement>>> {
        let mut captures = Vec::new();
        for station in ["sender", "receiver"] {
            if station == "receiver" && rig.hop == Hop::Reflector {
                continue;
            }
            let socket = socket::monitor(rig.world.namespace(station)?, "eth0")?;
            captures.push(Capture::start(socket, rig.hop, station == "sender")?);
        }
        Ok(Some(Box::new(MirrorCaptures { captures, offset: realtime_offset() })))
    }
}

struct MirrorCaptures {
    captures: Vec<Capture>,
    offset: (i64, u64),
}

impl Measurement for MirrorCaptures {
    fn end(self: Box<Self>, _: &[Sample]) -> Result<MethodResult> {
        let mut seen = Vec::new();
        for capture in self.captures {
            seen.extend(capture.stop()?);
        }
        let (offset, within) = realtime_offset();
        if offset.abs_diff(self.offset.0) > within + self.offset.1 + SLACK_NS {
            return Err(Error::Invalid("the system time was changed during the capture".into()));
        }
        seen.sort_by_key(|one| (one.time_ns, one.side == Side::Departures));
        let mut found = MethodResult::default();
        let mut take = |event: Event<()>| match event {
            Event::Matched { arrival, departure, verdict } => {
                let delay_ns = departure.time_ns - arrival.time_ns;
                found.record(arrival.time_ns, delay_ns, verdict);
            }
            Event::Lost(_) => found.lose(),
            Event::Unmatched(_) | Event::Duplicate(_) => found.unmatched += 1,
        };
        let mut matcher = Matcher::new(Window { longest_ns: i64::MAX / 4, ..Window::default() });
        for ProbeSighting { time_ns, side, key } in seen {
            let passage = Observation { time_ns, tag: () };
            match side {
                Side::Arrivals => matcher.arrive(key, passage, &mut take),
                Side::Departures => matcher.depart(key, passage, &mut take),
            }
        }
        matcher.finish(&mut take);
        // Packets that have not left at the end, after a wait, are lost.
        let under_way = matcher.counts().under_way;
        found.lost += under_way;
        Ok(found)
    }
}

/// A probe captured at one side.
#[derive(Debug, Clone, Copy)]
struct ProbeSighting {
    time_ns: i64,
    side: Side,
    key: u64,
}

/// A running capture.
struct Capture(Worker<io::Result<CaptureLog>>);

#[derive(Default)]
struct CaptureLog {
    seen: Vec<ProbeSighting>,
    unstamped: u64,
    drops: u64,
}

impl Capture {
    fn start(socket: PacketSocket, hop: Hop, at_sender: bool) -> Result<Self> {
        let receiver = Receiver::new(socket);
        let run = move |stop: &AtomicBool| capture(receiver, hop, at_sender, stop);
        Ok(Self(Worker::start("lab-mirror", run)?))
    }

    fn stop(self) -> Result<Vec<ProbeSighting>> {
        let taken = self.0.stop().map_err(|error| Error::io("capture frames", error))?;
        if taken.drops + taken.unstamped > 0 {
            return Err(Error::Invalid(format!(
                "a capture dropped {} and has {} without a time stamp; use a lower rate",
                count(taken.drops, "frame"),
                count(taken.unstamped, "frame")
            )));
        }
        Ok(taken.seen)
    }
}

fn capture(
    mut receiver: Receiver,
    hop: Hop,
    at_sender: bool,
    stop: &AtomicBool,
) -> io::Result<CaptureLog> {
    let mut taken = CaptureLog::default();
    loop {
        // Read before the socket is emptied: frames before the stop are included.
        let last = stop.load(Ordering::Acquire);
        if !last {
            thread::sleep(LOOK);
        }
        while receiver.receive(|frame| take(&mut taken, &frame, hop, at_sender))? > 0 {}
        taken.drops += receiver.socket().take_drops()?;
        if last {
            return Ok(taken);
        }
    }
}

fn take(taken: &mut CaptureLog, frame: &ReceivedFrame<'_>, hop: Hop, at_sender: bool) {
    let Some(probe) = sequence(frame.octets) else { return };
    let side = match (at_sender, frame.outgoing, probe.answer) {
        (true, true, false) => Side::Arrivals,
        (true, false, true) if hop == Hop::Reflector => Side::Departures,
        (false, false, false) => Side::Departures,
        _ => return,
    };
    let Some(time_ns) = frame.realtime_ns else {
        taken.unstamped += 1;
        return;
    };
    let time_ns = time_ns as i64;
    let packet = Packet {
        number: 1,
        time_ns,
        interface: 0,
        interface_name: None,
        direction: None,
        link: LinkType::ETHERNET,
        wire_len: frame.octets.len() as u32,
        octets: frame.octets,
    };
    let key = match hop {
        // A reply has another content than its probe, but the same number.
        Hop::Reflector => Ok(probe.sequence.into()),
        _ => Recognition::default().key(&packet),
    };
    // The probe is complete, as it was decoded.
    taken.seen.extend(key.ok().map(|key| ProbeSighting { time_ns, side, key }));
}
