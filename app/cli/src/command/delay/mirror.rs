//! `onbeat delay mirror`

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_delay::pairing::{InterfaceId, Sides};
use onbeat_delay_run::{LiveOptions, MirrorOptions};
use onbeat_link::raw::Wanted;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::values::duration;
use onbeat_wire::MacAddress;

use super::options::{MethodCommand, Options};

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

/// How an interface is watched.
#[derive(Debug, clap::Args)]
pub(super) struct Live {
    /// Watch an interface for this time; until Ctrl-C, without
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Watch an interface until this number of packets is matched, packets alike not counted
    #[arg(long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Who stamps what passes an interface: the NIC where it can stamp every packet and else the kernel,
    /// the NIC, or the kernel
    #[arg(long, value_name = "WHO", value_enum)]
    stamps: Option<Stamps>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stamps {
    Best,
    Nic,
    Kernel,
}

impl Side {
    fn sides(self) -> Result<Sides> {
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
            _ => Sides::Addresses(self.mac),
        })
    }
}

impl MethodCommand for Mirror {
    type Options = MirrorOptions;

    fn split(self) -> Result<(MirrorOptions, Shown)> {
        let Live { length, count, stamps } = self.live;
        let stamps = stamps.map(|stamps| match stamps {
            Stamps::Best => Wanted::Best,
            Stamps::Nic => Wanted::Nic,
            Stamps::Kernel => Wanted::Kernel,
        });
        let live = LiveOptions { length, count, stamps };
        let (packets, shown) = self.options.split();
        let sides = self.side.sides()?;
        Ok((MirrorOptions { source: self.source, sides, live, packets }, shown))
    }
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
