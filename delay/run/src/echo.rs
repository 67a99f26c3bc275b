//! The reflector of probes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_probe::{EchoConfig, EchoCounts, Reflector, read_key};
use onbeat_realtime::{Profile, interrupt};
use onbeat_report::{Check, Counters, Outcome, Run};

use crate::error::Result;

/// A STAMP session reflector.
#[derive(Debug, Clone)]
pub struct EchoOptions {
    /// The addresses to listen on; all where there are none.
    pub addresses: Vec<IpAddr>,
    /// The UDP port.
    pub port: u16,
    /// Number answers by session; sessions at most.
    pub sessions: Option<usize>,
    /// The file of the key that senders must have.
    pub key: Option<PathBuf>,
    /// Stop after this time; on an interrupt without it.
    pub length: Option<Duration>,
    /// Scheduling of the thread that answers.
    pub scheduling: Profile,
}

impl EchoOptions {
    /// Answers probes; calls `ready` when it listens.
    ///
    /// # Errors
    /// The key, the socket, or the scheduling.
    pub fn run(&self, ready: impl FnOnce(&Reflector)) -> Result<Outcome> {
        let default = EchoConfig::default();
        let config = EchoConfig {
            addresses: match self.addresses.as_slice() {
                [] => default.addresses,
                addresses => addresses.to_vec(),
            },
            port: self.port,
            sessions: self.sessions,
            key: self.key.as_deref().map(read_key).transpose()?,
        };
        let mut reflector = Reflector::open(&config)?;
        let _scheduling = self.scheduling.enter()?;
        let _signals = interrupt::Guard::install();
        ready(&reflector);
        let run = Run::begin("delay-echo");
        let deadline = self.length.map(|length| Instant::now() + length);
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        reflector.run(&|| interrupt::check().is_err() || over())?;
        Ok(outcome(run.finish(), &reflector.counts()))
    }
}

fn outcome(mut outcome: Outcome, counts: &EchoCounts) -> Outcome {
    outcome.check(Check::eq("answers that the kernel did not take", counts.refused, 0_u64, ""));
    let table = Counters::named(
        ["datagrams", "number"],
        [
            ("received", counts.received),
            ("answered", counts.answered),
            ("too short for a test packet", counts.too_short),
            ("with a wrong HMAC, not answered", counts.unverified),
            ("already reflected, not answered", counts.reflectors),
            ("stamped by the program, not the kernel", counts.stamped_late),
            ("sessions that began", counts.sessions),
            ("sessions forgotten for want of room", counts.forgotten),
        ],
    );
    outcome.figure("datagrams", table);
    outcome
}
