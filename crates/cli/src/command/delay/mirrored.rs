//! `onbeat delay mirror`

use std::path::PathBuf;

use onbeat_delay::capture::Packet;
use onbeat_delay::matching::{Event, Matcher};
use onbeat_delay::pairing::{Mirror as Mirrored, Sides};
use onbeat_report::{Progress, Run};
use onbeat_wire::MacAddress;

use super::captures;
use super::method::{Measured, Method};
use super::options::{Options, Show};
use super::outcome::{self, Origin};
use super::sink::Sink;
use crate::exit::{Failure, Result};

/// Match packets of both directions in one mirrored capture
///
/// One capture that a mirror port, or the hop itself, made of what goes in and what comes out, stamped
/// by one clock. What is on which side is told by the hop's own MAC addresses, by VLAN, by interface or
/// by what a pcapng file says of each packet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay mirror span.pcap --mac 02:00:00:00:00:01,02:00:00:00:00:02
  onbeat delay mirror rspan.pcap --vlan 101,102 --html delay.html
  onbeat delay mirror hop.pcapng.zst --interface 0,1 --json

Exit code: 0 it is done, 1 delays were negative (clocks or capture are at fault), 2 the capture cannot \
be read.")]
pub(super) struct Mirror {
    /// The capture; - for standard input
    file: PathBuf,
    #[command(flatten)]
    side: Side,
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
    /// The interface of a pcapng file, from 0 on, where packets arrive, and where they leave
    #[arg(long, value_name = "IN,OUT", value_parser = two::<u32>)]
    interface: Option<(u32, u32)>,
    /// What a pcapng file says of each packet: inbound packets arrive, outbound ones leave
    #[arg(long)]
    direction: bool,
}

impl Side {
    fn sides(&self) -> Result<Sides> {
        let same = |what: &str| Failure::new(format!("{what}: the two sides are the same"));
        Ok(match (self.vlan, self.interface) {
            (Some((arrivals, departures)), _) if arrivals == departures => {
                return Err(same("--vlan"));
            }
            (Some((arrivals, departures)), _) => Sides::Vlans { arrivals, departures },
            (_, Some((arrivals, departures))) if arrivals == departures => {
                return Err(same("--interface"));
            }
            (_, Some((arrivals, departures))) => Sides::Interfaces { arrivals, departures },
            _ if self.direction => Sides::Direction,
            _ => Sides::Addresses(self.mac.clone()),
        })
    }
}

impl Method for Mirror {
    const NAME: &'static str = "mirror";

    fn show(&self) -> &Show {
        &self.options.show
    }

    fn measure(&self) -> Result<Measured> {
        let telling = self.options.check()?;
        let sides = self.side.sides()?;
        let run = Run::begin(Self::result());
        let mut sink = Sink::new(&self.options.show.files)?;
        let mut progress = Progress::new(self.options.show.quiet);
        let recognition = self.options.recognition();
        let capture = captures::open(&self.file)?;
        let mut mirror = Mirrored::new(capture, sides, recognition, |_: &Packet<'_>| ());
        let mut matcher = Matcher::new(self.options.window());
        let mut take = |event: Event<()>| sink.take(&event);
        let broken = |error| captures::failure(&self.file, error);
        while mirror.feed(captures::BATCH, &mut matcher, &mut take).map_err(broken)? {
            progress.update(|| {
                captures::progress("matching", mirror.tally().packets, mirror.reader().position())
            });
        }
        matcher.finish(&mut take);
        progress.clear();
        sink.finish()?;

        let mut outcome = run.finish();
        outcome::count(&mut outcome, matcher.counts(), &self.options);
        outcome::fill(&mut outcome, &sink, Origin::Arrival, &telling);
        let (tally, reader) = (mirror.tally(), mirror.reader());
        if tally.other > 0 {
            outcome
                .note(format!("{} of {} packets are on neither side", tally.other, tally.packets));
        }
        let name = self.file.display().to_string();
        outcome.notes.extend(captures::notes(
            &name,
            tally,
            reader.cut_off(),
            reader.without_time(),
            &recognition,
        ));
        Ok(Measured { outcome, delays: sink.collected.delays })
    }
}

/// Two numbers: `101,102`.
fn two<T: std::str::FromStr>(text: &str) -> std::result::Result<(T, T), String> {
    let parts = text.split_once(',');
    let numbers = parts.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    numbers.ok_or_else(|| "two numbers, of what arrives and of what leaves: 101,102".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::parse;

    #[test]
    fn sides_are_told_in_one_way() {
        for good in ["--mac 02:00:00:00:00:01", "--vlan 1,2", "--interface 0,1", "--direction"] {
            assert!(parse(&format!("delay mirror a.pcap {good}")).is_ok(), "{good}");
        }
        for bad in [
            "",
            "--mac 02:00",
            "--vlan 1",
            "--vlan 1,99999",
            "--interface a,b",
            "--direction --vlan 1,2",
        ] {
            assert!(parse(&format!("delay mirror a.pcap {bad}")).is_err(), "{bad}");
        }
        let same = Side { mac: Vec::new(), vlan: Some((5, 5)), interface: None, direction: false };
        assert!(same.sides().is_err());
    }
}
