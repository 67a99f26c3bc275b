//! Probes of a path: a STAMP session sender (RFC 8762).

mod result;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use onbeat_probe::{PingConfig, ping, profile_file, read_key};
use onbeat_realtime::interrupt;
use onbeat_report::format::parse_duration;
use onbeat_report::{Input, Progress, Run};
use onbeat_wire::stamp;

use crate::clock::ClockCondition;
use crate::error::{Error, Result};
use crate::method::{Method, MethodResult};
use crate::options::ReportOptions;
use crate::thread_options::ThreadOptions;
use result::ProbeResults;

pub use result::clock_error;

/// A STAMP session.
#[derive(Debug, Clone, clap::Args)]
pub struct PingOptions {
    /// Address or name of the reflector
    host: String,
    /// UDP port of the reflector
    #[arg(long, default_value_t = stamp::PORT)]
    port: u16,
    /// Probes per second
    #[arg(long, value_name = "NUMBER", default_value_t = 100.0, conflicts_with = "profile")]
    rate: f64,
    /// Send for this time
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_duration,
        conflicts_with = "profile")]
    length: Duration,
    /// Send at a variable rate: segments "RATE for TIME" or "FROM..TO for TIME [quadratic]", separated by commas, or
    /// a file with one segment per line
    #[arg(long, value_name = "PROFILE|FILE")]
    profile: Option<String>,
    /// Maximum number of probes
    #[arg(short, long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Octets of UDP payload of a probe; several sizes alternate [default: 44; 112 with --key]
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    size: Vec<usize>,
    /// Count a probe as lost if no reply arrives within this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    timeout: Duration,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Authenticate probes by the key in this file, hexadecimal or raw octets (HMAC-SHA-256, RFC 8762 4.4). Accept
    /// only authenticated packets: the reflector needs the same key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Assume that both ends use one clock, such as on one host: report one-way delays without a clock offset
    #[arg(long)]
    one_clock: bool,
    #[command(flatten)]
    place: ThreadOptions,
    #[command(flatten)]
    report: ReportOptions,
}

impl Method for PingOptions {
    const NAME: &'static str = "ping";

    fn report(&self) -> &ReportOptions {
        &self.report
    }

    fn run(&self, progress: &mut Progress) -> Result<MethodResult> {
        let settings = self.report.check()?;
        let config = self.config()?;
        let mut probes = ProbeResults::new(self.one_clock, &self.report.delays.files)?;
        let _scheduling = self.place.profile().enter()?;
        let _signals = interrupt::Guard::install();
        let run = Run::begin(Self::result());
        self.key.iter().for_each(|key| run.inputs().add(Input::secret(key)));
        if let Some((name, content)) = self.profile.as_deref().and_then(profile_file) {
            run.inputs().add(Input::of_file(name, content.as_bytes()));
        }
        let clock = ClockCondition::begin();
        let found = ping(&config, &|| interrupt::check().is_err(), &mut |sample, counts| {
            probes.take(sample);
            progress.update(|| {
                format!("{}: sent {}, answered {}", config.to, counts.sent, counts.answered)
            });
        })?;
        progress.clear();
        let mut outcome = run.finish();
        clock.finish(&mut outcome);
        let delays = probes.fill(&mut outcome, &config, &found, &settings)?;
        Ok(MethodResult { outcome, delays })
    }
}

impl PingOptions {
    fn config(&self) -> Result<PingConfig> {
        let profile = onbeat_probe::rates(self.profile.as_deref(), self.rate, Some(self.length))
            .map_err(Error::option)?;
        let random = RandomState::new().build_hasher().finish() as u16;
        let mut config = PingConfig {
            to: self.reflector()?,
            from: self.source,
            profile,
            count: self.count,
            sizes: self.size.clone(),
            timeout_ns: i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX),
            // 0 means that a session has no number.
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
        let mut found = found.map_err(|error| Error::input(host, error))?;
        let fits = |address: &SocketAddr| {
            self.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        found
            .find(fits)
            .ok_or_else(|| Error::input(host, "no address of the same family as --source"))
    }
}
