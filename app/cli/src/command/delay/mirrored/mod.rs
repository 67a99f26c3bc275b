//! `onbeat delay mirror`

mod live;

use std::path::{Path, PathBuf};

use onbeat_delay::capture::{Packet, Reader};
use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::matching::{Event, Matcher};
use onbeat_delay::pairing::{InterfaceId, Mirror as Mirrored, Plan, Sides, Tally};
use onbeat_report::format::count_of;
use onbeat_report::{Progress, Run};
use onbeat_wire::MacAddress;

use self::live::Live;
use super::captures;
use super::command_line::CommandLine;
use super::judgement::{self, Source};
use super::method::{Measured, Method};
use super::options::{Options, Show};
use super::outcome::{self, Origin};
use super::reading::{self, Reading};
use super::sink::Sink;
use onbeat_terminal::exit::{Failure, Result};

/// Match packets of both directions in one mirrored capture, or live
///
/// One capture that a mirror port, or the hop itself, made of what goes in and what comes out, stamped
/// by one clock; or an interface of this host at a mirror port, watched until Ctrl-C. What is on which side
/// is told by the hop's own MAC addresses, by VLAN, by interface or by direction.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay mirror span.pcap --mac 02:00:00:00:00:01,02:00:00:00:00:02
  onbeat delay mirror rspan.pcap --vlan 101,102 --html delay.html
  onbeat delay mirror hop.pcapng.zst --interface eth0,eth1 --json
  onbeat delay mirror eth2 --vlan 101,102 --for 60s --parquet delays.parquet

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the cause is \
named), 2 error (the capture cannot be read, or the interface cannot be captured: CAP_NET_RAW is \
required).")]
pub(super) struct Mirror {
    /// The capture (- for standard input), or an interface that both directions are mirrored to
    #[arg(value_name = "FILE|IFACE")]
    source: PathBuf,
    #[command(flatten)]
    side: Side,
    #[command(flatten)]
    live: Live,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Side {
    /// The hop's own MAC addresses: what is sent to one arrives, what comes from one leaves
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    mac: Vec<MacAddress>,
    /// The VLAN of packets that arrive, and that of those that leave
    #[arg(long, value_name = "IN,OUT", value_parser = two::<u16>)]
    vlan: Option<(u16, u16)>,
    /// The interface of a pcapng file, by number from 0 on or by name, where packets arrive, and where
    /// they leave
    #[arg(long, value_name = "IN,OUT", value_parser = two::<InterfaceId>)]
    interface: Option<(InterfaceId, InterfaceId)>,
    /// What a pcapng file says of each packet, or the interface that is watched: inbound packets arrive,
    /// outbound ones leave
    #[arg(long)]
    direction: bool,
}

impl Side {
    /// The option, as it was given.
    fn given(&self) -> Option<(&'static str, Option<String>)> {
        Some(match (self.vlan, &self.interface) {
            (Some((arrivals, departures)), _) => {
                ("--vlan", Some(format!("{arrivals},{departures}")))
            }
            (_, Some((arrivals, departures))) => {
                ("--interface", Some(format!("{arrivals},{departures}")))
            }
            _ if self.direction => ("--direction", None),
            _ => {
                let addresses: Vec<String> = self.mac.iter().map(ToString::to_string).collect();
                ("--mac", Some(addresses.join(",")))
            }
        })
    }

    fn sides(&self) -> Result<Sides> {
        let same = |what: &str| Failure::new(format!("{what}: the two sides are the same"));
        Ok(match (self.vlan, &self.interface) {
            (Some((arrivals, departures)), _) if arrivals == departures => {
                return Err(same("--vlan"));
            }
            (Some((arrivals, departures)), _) => Sides::Vlans { arrivals, departures },
            (_, Some((arrivals, departures))) if arrivals == departures => {
                return Err(same("--interface"));
            }
            (_, Some((arrivals, departures))) => {
                let (arrivals, departures) = (arrivals.clone(), departures.clone());
                Sides::Interfaces { arrivals, departures }
            }
            _ if self.direction => Sides::Direction,
            _ => Sides::Addresses(self.mac.clone()),
        })
    }
}

/// What a capture, or an interface, held.
struct Seen {
    tally: Tally,
    reading: Reading,
}

impl Method for Mirror {
    const NAME: &'static str = "mirror";

    fn show(&self) -> &Show {
        &self.options.show
    }

    fn measure(&self) -> Result<Measured> {
        let telling = self.options.check()?;
        let sides = self.side.sides()?;
        let is_file = captures::is_input(&self.source) || self.source.is_file();
        if is_file {
            self.live.refuse_for_a_file()?;
        }
        let run = Run::begin(Self::result());
        let mut sink = Sink::new(&self.options.show.files)?;
        let mut progress = Progress::new(self.options.show.quiet);
        let count = self.live.count();
        let matching = self.options.matching(false, count);
        let seen = match is_file {
            true => self.read(&sides, &matching, &mut sink, &mut progress)?,
            false => self.live.watch(self, sides, &matching, &mut sink, &mut progress)?,
        };
        progress.clear();
        sink.finish()?;

        let mut outcome = run.finish();
        let Seen { tally, reading } = seen;
        outcome::count(&mut outcome, &reading.counts, &self.options);
        outcome::fill(&mut outcome, &sink, Origin::Arrival, &telling);
        if tally.other > 0 {
            let packets = count_of(tally.other, tally.packets, "packet");
            outcome.note(format!("on neither side: {packets}"));
        }
        let matched = sink.matched(&reading);
        outcome.notes.extend(reading.notes);
        let name = self.source.display().to_string();
        let source = if is_file { Source::Mirrored(&name) } else { Source::Live(&name) };
        let matching = (&matching, reading.planned);
        let command = CommandLine::new(Self::NAME, &[&name])
            .given(self.side.given())
            .given(self.options.given());
        judgement::judge(&mut outcome, &reading.diagnosis, &matched, matching, (source, &command));
        Ok(Measured { outcome, delays: sink.collected.delays })
    }
}

impl Mirror {
    /// Reads a capture to its end, and a second time where the first reading shows how more packets
    /// match.
    fn read(
        &self,
        sides: &Sides,
        matching: &MatchingOptions,
        sink: &mut Sink,
        progress: &mut Progress,
    ) -> Result<Seen> {
        let can_repeat = captures::can_be_read_again(&self.source);
        let mut tally = Tally::default();
        let files = &self.options.show.files;
        let reading = reading::read(can_repeat, files, sink, |plan, what, events| {
            let seen = self.feed(sides.clone(), (plan, matching), progress, what, events)?;
            tally = seen.tally;
            Ok(seen.reading)
        })?;
        Ok(Seen { tally, reading })
    }

    /// Reads a capture through.
    fn feed(
        &self,
        sides: Sides,
        (plan, matching): (Plan, &MatchingOptions),
        progress: &mut Progress,
        what: &str,
        mut events: &mut dyn FnMut(Event<()>),
    ) -> Result<Seen> {
        let recognition = self.options.recognition();
        let capture = captures::open(&self.source)?;
        let window = self.options.window().with_disorder(plan.disorder_ns);
        let mut matcher = Matcher::new(window);
        let mut mirror = Mirrored::new(capture, sides, recognition, |_: &Packet<'_>| ())
            .filtered(self.options.selection.filters())
            .planned(plan);
        let broken = |error| captures::failure(&self.source, error);
        while mirror.feed(captures::BATCH, &mut matcher, &mut events).map_err(broken)? {
            progress.update(|| {
                captures::progress(what, mirror.tally().packets, mirror.reader().position())
            });
        }
        matcher.finish(&mut events);
        let (tally, reader) = (mirror.tally(), mirror.reader());
        if let Some((arrivals, departures)) = &self.side.interface {
            [arrivals, departures]
                .into_iter()
                .try_for_each(|id| known(id, reader, &self.source))?;
        }
        let name = self.source.display().to_string();
        let (cut_off, without_time) = (reader.cut_off(), reader.without_time());
        let notes = captures::notes(&name, &tally, cut_off, without_time, &recognition);
        let reading = Reading::new(*matcher.counts(), &mirror.evidence(), matching, notes);
        Ok(Seen { tally, reading })
    }
}

/// Refuses an interface that a capture, which was read to its end, does not have.
fn known<R>(id: &InterfaceId, reader: &Reader<R>, path: &Path) -> Result<()> {
    let name = |number| reader.interface_name(number);
    let numbers = 0..reader.interfaces();
    let is_there = match id {
        InterfaceId::Number(number) => numbers.contains(number),
        InterfaceId::Name(id) => numbers.clone().any(|number| name(number) == Some(id)),
    };
    if is_there {
        return Ok(());
    }
    let there = numbers.map(|number| match name(number) {
        Some(name) => format!("{number} ({name})"),
        None => number.to_string(),
    });
    let there: Vec<String> = there.collect();
    let there = match there.is_empty() {
        true => "it names none, as only pcapng files do".to_owned(),
        false => format!("it has {}", there.join(", ")),
    };
    Err(captures::failure(path, format!("--interface: there is no interface {id}: {there}")))
}

/// What arrives and what leaves: `101,102`.
fn two<T: std::str::FromStr>(text: &str) -> std::result::Result<(T, T), String> {
    let parts = text.split_once(',');
    let numbers = parts.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    numbers.ok_or_else(|| "two, of what arrives and of what leaves: 101,102".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::parse;

    #[test]
    fn sides_are_told_in_one_way() {
        for good in ["--mac 02:00:00:00:00:01", "--vlan 1,2", "--interface 0,eth1", "--direction"] {
            assert!(parse(&format!("delay mirror a.pcap {good}")).is_ok(), "{good}");
        }
        for bad in [
            "",
            "--mac 02:00",
            "--vlan 1",
            "--vlan 1,99999",
            "--interface eth0",
            "--interface eth0,",
            "--direction --vlan 1,2",
        ] {
            assert!(parse(&format!("delay mirror a.pcap {bad}")).is_err(), "{bad}");
        }
        for (line, good) in
            [("eth1 --mac 02:00:00:00:00:01 --for 1s --count 5", true), ("eth1 --count 5", false)]
        {
            assert_eq!(parse(&format!("delay mirror {line}")).is_ok(), good, "{line}");
        }
        let same = Side { mac: Vec::new(), vlan: Some((5, 5)), interface: None, direction: false };
        assert!(same.sides().is_err());
    }
}
