//! `onbeat delay ping`

mod result;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use onbeat_probe::{PingConfig, ping, read_key};
use onbeat_realtime::interrupt;
use onbeat_report::{Progress, Run};
use onbeat_wire::stamp;

use super::method::{Measured, Method};
use super::options::Show;
use super::place::Place;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::values::duration;
use result::Seen;

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

impl Method for Ping {
    const NAME: &'static str = "ping";

    fn show(&self) -> &Show {
        &self.show
    }

    fn measure(&self) -> Result<Measured> {
        let telling = self.show.check()?;
        let config = self.config()?;
        let mut seen = Seen::new(self.one_clock, &self.show.files)?;
        let _place = self.place.enter()?;
        let _signals = interrupt::Guard::install();
        let run = Run::begin(Self::result());
        let mut progress = Progress::new(self.show.quiet);
        let found = ping(&config, &|| interrupt::check().is_err(), &mut |sample, counts| {
            seen.take(sample);
            progress.update(|| {
                format!("{}: sent {}, answered {}", config.to, counts.sent, counts.answered)
            });
        })?;
        progress.clear();
        let mut outcome = run.finish();
        let delays = seen.fill(&mut outcome, &config, &found, &telling)?;
        Ok(Measured { outcome, delays })
    }
}

impl Ping {
    fn config(&self) -> Result<PingConfig> {
        let profile = onbeat_probe::rates(self.profile.as_deref(), self.rate, Some(self.length))
            .map_err(Failure::new)?;
        let random = RandomState::new().build_hasher().finish() as u16;
        let mut config = PingConfig {
            to: self.reflector()?,
            from: self.source,
            profile,
            count: self.count,
            sizes: self.size.clone(),
            timeout_ns: i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX),
            // 0 says that a session has no number.
            id: random.max(1),
            key: self.key.as_deref().map(read_key).transpose()?,
        };
        if config.sizes.is_empty() {
            config.sizes = vec![config.least_size()];
        }
        Ok(config)
    }

    fn reflector(&self) -> Result<SocketAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, self.port).to_socket_addrs();
        let mut found = found.map_err(|error| Failure::new(format!("{host}: {error}")))?;
        let fits = |address: &SocketAddr| {
            self.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        found
            .find(fits)
            .ok_or_else(|| Failure::new(format!("{host}: no address of the same kind as --source")))
    }
}
