//! Reflector of probes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_probe::{EchoConfig, EchoCounts, Reflector, read_key};
use onbeat_realtime::interrupt;
use onbeat_report::format::parse_duration;
use onbeat_report::{Check, Counters, Input, Outcome, Run};
use onbeat_wire::stamp;

use crate::clock::ClockCondition;
use crate::error::Result;
use crate::thread_options::ThreadOptions;

/// A STAMP session reflector.
#[derive(Debug, Clone, clap::Args)]
pub struct EchoOptions {
    /// Listen on this address only; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<IpAddr>,
    /// UDP port to listen on
    #[arg(long, default_value_t = stamp::PORT)]
    port: u16,
    /// Number reflected probes per session instead of copying the sender's numbers, which shows the sender the
    /// direction in which probes were lost
    #[arg(long)]
    stateful: bool,
    /// Maximum number of sessions, with --stateful
    #[arg(long, value_name = "NUMBER", default_value_t = 4096, requires = "stateful")]
    sessions: usize,
    /// Reflect only probes of senders with the key in this file, hexadecimal or raw octets (HMAC-SHA-256, RFC 8762 4.4)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    #[command(flatten)]
    place: ThreadOptions,
}

impl EchoOptions {
    /// Returns true if only senders with a key are answered.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Answers probes; calls `ready` once it listens.
    ///
    /// # Errors
    /// An error of the key, the socket, or the scheduling.
    pub fn run(&self, ready: impl FnOnce(&Reflector)) -> Result<Outcome> {
        let default = EchoConfig::default();
        let config = EchoConfig {
            addresses: match self.bind.as_slice() {
                [] => default.addresses,
                addresses => addresses.to_vec(),
            },
            port: self.port,
            sessions: self.stateful.then_some(self.sessions),
            key: self.key.as_deref().map(read_key).transpose()?,
        };
        let mut reflector = Reflector::open(&config)?;
        let _scheduling = self.place.profile().enter()?;
        let _signals = interrupt::Guard::install();
        ready(&reflector);
        let run = Run::begin("delay-echo");
        self.key.iter().for_each(|key| run.inputs().add(Input::secret(key)));
        let clock = ClockCondition::begin();
        let deadline = self.length.map(|length| Instant::now() + length);
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        reflector.run(&|| interrupt::check().is_err() || over())?;
        let mut result = outcome(run.finish(), &reflector.counts());
        clock.finish(&mut result);
        Ok(result)
    }
}

fn outcome(mut outcome: Outcome, counts: &EchoCounts) -> Outcome {
    outcome.check(Check::eq("replies refused by the kernel", counts.refused, 0_u64, ""));
    let table = Counters::named(
        ["datagrams", "number"],
        [
            ("received", counts.received),
            ("answered", counts.answered),
            ("too short for a test packet", counts.too_short),
            ("with a wrong HMAC, not answered", counts.unverified),
            ("already reflected, not answered", counts.reflectors),
            ("stamped by the program, not the kernel", counts.stamped_late),
            ("sessions started", counts.sessions),
            ("sessions evicted for lack of room", counts.evicted),
        ],
    );
    outcome.figure("datagrams", table);
    outcome
}
