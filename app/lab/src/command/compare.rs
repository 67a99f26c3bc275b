//! `onbeat delay compare`

use std::str::FromStr;
use std::time::Duration;

use onbeat_lab::scenario::single_hop::compare::{self, Options};
use onbeat_lab::scenario::single_hop::{Hop, Load};

use onbeat_terminal::Shown;
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::duration;

/// Hold the methods against each other: the same packets through a hop, measured by all at once
///
/// A hop in network namespaces of this host, under loads: mirror, hooks and probe measure each packet at the
/// same time. What mirror and probe see beside the hop is measured without it and taken off. Told is what
/// each method says of the median, what it may be off by, and whether they agree; the page (--html) has
/// the figures 5 to 10 of the paper.
#[derive(Debug, clap::Args)]
#[command(
    bin_name = "onbeat delay compare",
    hide = true,
    after_help = "\
Examples:
  onbeat delay compare router --html compare.html
  onbeat delay compare bridge,reflector --load idle,cpu,10000 --cpus 1 --for 5s

Exit status: 0 all checks hold, 1 a check failed (agreement does not count), 2 error (root, two CPUs and \
Linux 6.3 with BTF are required)."
)]
pub(crate) struct Compare {
    /// What the hop does; several follow each other behind commas
    #[arg(value_name = "HOP,...", value_enum, value_delimiter = ',', required = true)]
    hops: Vec<Kind>,
    /// What it has to do beside: nothing (idle), table 1 of the paper (cpu), so many datagrams a second by
    /// another interface (a number)
    #[arg(
        long,
        value_name = "LOAD,...",
        value_delimiter = ',',
        default_value = "idle,cpu,1000,5000,20000"
    )]
    load: Vec<Beside>,
    /// On how many CPUs it works
    #[arg(long, value_name = "1,2", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u8).range(1..=2))]
    cpus: Vec<u8>,
    /// Probes a second
    #[arg(long, value_name = "NUMBER", default_value = "1000",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Octets of a probe's frame
    #[arg(long, value_name = "NUMBER")]
    size: Option<usize>,
    /// How long each hop is measured under each load
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = duration)]
    length: Duration,
    #[command(flatten)]
    shown: Shown,
}

/// What a hop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The kernel routes
    Router,
    /// The kernel bridges
    Bridge,
    /// A node relays a stream, by XDP, which hooks do not see
    Frer,
    /// A process answers
    Reflector,
}

impl From<Kind> for Hop {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Router => Hop::Router,
            Kind::Bridge => Hop::Bridge,
            Kind::Frer => Hop::Relay,
            Kind::Reflector => Hop::Reflector,
        }
    }
}

/// What a hop has to do beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Beside(Load);

impl FromStr for Beside {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("idle", _) => Ok(Beside(Load::Idle)),
            ("cpu", _) => Ok(Beside(Load::Cpu)),
            (_, Ok(rate @ 1..)) => Ok(Beside(Load::Net(rate))),
            _ => Err("idle, cpu, or datagrams a second: 5000"),
        }
    }
}

impl Compare {
    pub(crate) fn execute(self) -> Result {
        let options = Options {
            hops: self.hops.into_iter().map(Hop::from).collect(),
            loads: self.load.into_iter().map(|Beside(load)| load).collect(),
            cpus: self.cpus,
            rate: self.rate,
            size: self.size,
            for_ns: u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX),
            onbeat_bin: super::onbeat()?,
        };
        self.shown.run(|progress| compare::run(&options, progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::parse;

    #[test]
    fn hops_and_loads_are_named() {
        for (line, good) in [
            ("router", true),
            ("router,frer --load idle,20000 --cpus 2 --for 50ms", true),
            ("", false),
            ("switch", false),
            ("router --load 0", false),
            ("router --load busy", false),
            ("router --cpus 3", false),
            ("router --rate 0", false),
        ] {
            assert_eq!(parse(&format!("compare {line}")).is_ok(), good, "{line}");
        }
        assert_eq!("5000".parse(), Ok(Beside(Load::Net(5000))));
    }
}
