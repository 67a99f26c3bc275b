//! `onbeat delay ping`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_delay_run::PingOptions;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::duration;
use onbeat_wire::stamp;

use super::options::{MethodCommand, Show};
use super::place::Place;

/// Probe a path: a STAMP session sender (RFC 8762)
///
/// Sends probes to a reflector - `onbeat delay echo`, or another one of STAMP or TWAMP Light - by a rate
/// profile, and tells the round trip without the time in the reflector, the delay there and the delay
/// back. Each probe is also counted from when it was meant to go, so that a sender that is held up hides
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay ping 192.0.2.1
  onbeat delay ping fe80::1%eth0 --port 4862 --rate 1000 --count 100000 --size 150
  onbeat delay ping 127.0.0.1 --port 4862 --one-clock --csv samples.csv --html ping.html
  onbeat delay ping 192.0.2.1 --profile load.profile --json
  onbeat delay ping 192.0.2.1 --key probe.key

Exit status: 0 success, 1 probes were lost or a clock was set, 2 error.")]
pub(super) struct Ping {
    /// The reflector's address or name
    host: String,
    /// The reflector's UDP port
    #[arg(long, default_value_t = stamp::PORT)]
    port: u16,
    /// Probes a second
    #[arg(long, value_name = "NUMBER", default_value_t = 100.0, conflicts_with = "profile")]
    rate: f64,
    /// Send for this time
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration,
        conflicts_with = "profile")]
    length: Duration,
    /// Send at a rate that changes: "100 for 10s, 100..1000 for 10s, 100..1000 for 10s quadratic", or a
    /// file with such stretches in its lines
    #[arg(long, value_name = "PROFILE|FILE")]
    profile: Option<String>,
    /// Send so many probes at most
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Octets of UDP payload of a probe; several sizes take turns [default: 44; 112 with --key]
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    size: Vec<usize>,
    /// How long an answer is waited for
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    timeout: Duration,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Authenticate probes by the key in this file, hexadecimal or raw octets, and believe only answers
    /// that are, too (HMAC-SHA-256, RFC 8762 4.4); the reflector needs the same key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The reflector goes by this host's clock, being on this host: delays there and back need no offset
    #[arg(long)]
    one_clock: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    show: Show,
}

impl MethodCommand for Ping {
    type Options = PingOptions;

    fn split(self) -> Result<(PingOptions, Shown)> {
        let (report, shown) = self.show.split();
        let options = PingOptions {
            host: self.host,
            port: self.port,
            rate: self.rate,
            length: self.length,
            profile: self.profile,
            count: self.count,
            sizes: self.size,
            timeout: self.timeout,
            source: self.source,
            key: self.key,
            one_clock: self.one_clock,
            scheduling: self.place.profile(),
            report,
        };
        Ok((options, shown))
    }
}
