//! Probes of a path: a STAMP session sender (RFC 8762).

mod result;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use onbeat_probe::{PingConfig, ping, read_key};
use onbeat_realtime::{Profile, interrupt};
use onbeat_report::{Progress, Run};

use crate::error::{Error, Result};
use crate::method::{Method, MethodResult};
use crate::options::ReportOptions;
use result::Probes;

/// A STAMP session.
#[derive(Debug, Clone)]
pub struct PingOptions {
    /// The reflector's address or name.
    pub host: String,
    /// Its UDP port.
    pub port: u16,
    /// Packets/s, without a profile.
    pub rate: f64,
    /// How long probes are sent, without a profile.
    pub length: Duration,
    /// Rates that change: as text, or a file.
    pub profile: Option<String>,
    /// Probes at most.
    pub count: Option<u64>,
    /// Octets of UDP payload of a probe, in turns; the least size where there are none.
    pub sizes: Vec<usize>,
    /// The longest wait for an answer.
    pub timeout: Duration,
    /// The address to send from.
    pub source: Option<IpAddr>,
    /// The file of the key that authenticates probes.
    pub key: Option<PathBuf>,
    /// The reflector has this host's clock.
    pub one_clock: bool,
    /// Scheduling of the thread that sends.
    pub scheduling: Profile,
    /// The report.
    pub report: ReportOptions,
}

impl Method for PingOptions {
    const NAME: &'static str = "ping";

    fn report(&self) -> &ReportOptions {
        &self.report
    }

    fn run(&self, progress: &mut Progress) -> Result<MethodResult> {
        let settings = self.report.check()?;
        let config = self.config()?;
        let mut probes = Probes::new(self.one_clock, &self.report.files)?;
        let _scheduling = self.scheduling.enter()?;
        let _signals = interrupt::Guard::install();
        let run = Run::begin(Self::result());
        let found = ping(&config, &|| interrupt::check().is_err(), &mut |sample, counts| {
            probes.take(sample);
            progress.update(|| {
                format!("{}: sent {}, answered {}", config.to, counts.sent, counts.answered)
            });
        })?;
        progress.clear();
        let mut outcome = run.finish();
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
            sizes: self.sizes.clone(),
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
        let mut found = found.map_err(|error| Error::input(host, error))?;
        let fits = |address: &SocketAddr| {
            self.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        found
            .find(fits)
            .ok_or_else(|| Error::input(host, "no address of the same kind as --source"))
    }
}
