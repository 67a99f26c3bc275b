//! `onbeat load net`

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use onbeat_lab::load::{UdpSource, UdpTarget};
use onbeat_realtime::interrupt;
use onbeat_report::{Counters, Input, Measurement, Run};

use onbeat_report::format::parse_duration;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::output;

/// Octets of Ethernet, IPv4 and UDP around a payload: headers, FCS, preamble and gap.
const AROUND: f64 = 66.0;

/// Send UDP datagrams at a rate or by a profile
///
/// Sends until Ctrl-C, for a time, for a number of datagrams, or to the end of the profile. No process
/// needs to receive them. The result shows the datagrams that the kernel accepted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat load net 192.0.2.2:9 --rate 10000 --size 1470 --for 60s
  onbeat load net 198.51.100.2:9 --interface eth1 --profile ramp.profile
  onbeat load net [2001:db8::2]:9 --rate 1000 --count 100000 --json

Exit status: 0 success, 2 error.")]
pub(super) struct Net {
    /// Address or name, and UDP port
    #[arg(value_name = "HOST:PORT")]
    to: String,
    /// Datagrams per second
    #[arg(long, value_name = "NUMBER", default_value_t = 1000.0, conflicts_with = "profile")]
    rate: f64,
    /// Send at a variable rate: a profile, or a file that contains one (see onbeat delay ping --help)
    #[arg(long, value_name = "PROFILE|FILE")]
    profile: Option<String>,
    /// UDP payload in octets
    #[arg(long, value_name = "NUMBER", default_value_t = 1470,
        value_parser = clap::value_parser!(u16).range(0..=65_507))]
    size: u16,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Stop after NUMBER datagrams
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Send through this interface, regardless of routes
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Net {
    pub(super) fn execute(self) -> Result {
        let to = self.address()?;
        let profile =
            onbeat_probe::rates(self.profile.as_deref(), self.rate, None).map_err(Failure::new)?;
        let target = UdpTarget { to, from: self.source, interface: self.interface.clone() };
        let _signals = interrupt::Guard::install();
        let run = Run::begin("load-net");
        if let Some((name, content)) = self.profile.as_deref().and_then(onbeat_probe::profile_file)
        {
            run.inputs().add(Input::of_file(name, content.as_bytes()));
        }
        let source = UdpSource::start(&target, profile, self.count, self.size.into())?;
        super::wait(self.length, || source.is_finished())?;
        let report = source.stop();

        let mut outcome = run.finish();
        let datagrams =
            [("accepted by the kernel", report.sent), ("refused by the kernel", report.refused)];
        outcome.figure("datagrams", Counters::named(["datagrams", "number"], datagrams));
        if report.seconds > 0.0 {
            let rate = report.sent as f64 / report.seconds;
            let bits = |octets: f64| Measurement::new("Mbit/s", rate * 8.0 * octets / 1e6);
            outcome.figure("rate", Measurement::new("packets/s", rate));
            outcome.figure("payload", bits(self.size.into()));
            if to.is_ipv4() && self.size <= 1472 {
                outcome.figure("on Ethernet", bits(f64::from(self.size) + AROUND));
            }
        }
        if report.refused > 0 {
            outcome.note(
                "refused: no receiver at the address (ICMP), no route, or no room in the queue",
            );
        }
        output::print_outcome(outcome, self.json, false)
    }

    fn address(&self) -> Result<SocketAddr> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::new(format!("{}: {error}; use a value such as 192.0.2.2:9", self.to))
        };
        let mut found = self.to.to_socket_addrs().map_err(|error| wrong(&error))?;
        let fits = |address: &SocketAddr| {
            self.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        found.find(fits).ok_or_else(|| wrong(&"no address of the same kind as --source"))
    }
}
