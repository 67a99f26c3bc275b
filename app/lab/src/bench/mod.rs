//! Figures, always beside their limit.
//!
//! [`port`] measures the real-time port, [`powerlink`] nodes on it (both are run as [`cyclic`] says), [`irq`]
//! the interrupt ledger, [`single_hop`] the measurement of delay. The other files are the bench `frer`:
//!
//! ```text
//! source -> talker -> A (redirect | FRER) -> path1, path2 -> B (redirect | FRER) -> listener -> sink
//! ```
//!
//! `chain` builds the interfaces, `redirect` and `protected` put something on them, `talker` and
//! `programs` send, `throughput` and `delay` measure, `frer` puts it together.

use onbeat_realtime::interrupt;

mod account;
mod chain;
mod cpu;
pub mod cyclic;
mod delay;
mod frames;
mod frer;
pub mod irq;
pub mod port;
pub mod powerlink;
mod program_costs;
mod programs;
mod protected;
mod redirect;
pub mod single_hop;
mod talker;
#[cfg(test)]
mod tests;
mod throughput;
mod user;

use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_report::{Outcome, Progress, Run};

use self::cpu::Cpus;
use crate::{Error, Result};

/// Where the frames come from whose throughput is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A packet socket on the talker's interface, as end systems send.
    Socket,
    /// The talker's kernel makes them: no source costs less, so that the chain weighs most.
    Kernel,
}

impl Source {
    /// As figures name it.
    fn name(self) -> &'static str {
        match self {
            Source::Socket => "frames from a talker's socket",
            Source::Kernel => "frames made in the kernel",
        }
    }
}

/// How a bench is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What moves the frames, each measured beside its own limit.
    pub backends: Vec<Backend>,
    /// Where frames come from, each measured by itself.
    pub sources: Vec<Source>,
    /// Numbers of streams to measure with.
    pub streams: Vec<u32>,
    /// Octets of a frame whose throughput is measured, VLAN tag included, FCS not.
    pub frame_octets: usize,
    /// How often each throughput is measured, with each source.
    pub rounds: u32,
    /// How long a throughput is measured at a time.
    pub slice: Duration,
    /// Frames that the kernel makes at a time. Above 64 interfaces run out of room.
    pub batch: u32,
    /// Frames whose delay is measured, in each of the four cases.
    pub probes: u64,
    /// Octets of these frames, VLAN tag included, FCS not.
    pub probe_octets: usize,
    /// How many of them are sent in a second.
    pub probe_rate: u64,
    /// The CPU that everything runs on; the last one where it is not said.
    pub cpu: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backends: vec![Backend::Xdp],
            sources: vec![Source::Socket, Source::Kernel],
            streams: vec![1, 100, 4096],
            frame_octets: 200,
            rounds: 15,
            slice: Duration::from_millis(100),
            batch: 64,
            probes: 3000,
            probe_octets: 1000,
            probe_rate: 1000,
            cpu: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let refuse =
            |option, value: String, reason: String| Err(Error::Option { option, value, reason });
        if self.backends.is_empty() {
            return refuse("backends", "(none)".into(), "say at least one back end".into());
        }
        if self.sources.is_empty() {
            return refuse("sources", "(none)".into(), "say at least one source".into());
        }
        for &streams in &self.streams {
            if !(1..=frames::MAX_STREAMS).contains(&streams) {
                let reason = format!("use 1 to {}", frames::MAX_STREAMS);
                return refuse("streams", streams.to_string(), reason);
            }
        }
        if self.streams.is_empty() {
            return refuse("streams", "(none)".into(), "say at least one number".into());
        }
        for (option, octets) in
            [("frame octets", self.frame_octets), ("probe octets", self.probe_octets)]
        {
            if !(64..=1500).contains(&octets) {
                return refuse(option, octets.to_string(), "use 64 to 1500".into());
            }
        }
        let positive = [
            ("rounds", u128::from(self.rounds)),
            ("slice", self.slice.as_nanos()),
            ("probes", u128::from(self.probes)),
            ("probe rate", u128::from(self.probe_rate)),
        ];
        for (option, value) in positive {
            if value == 0 {
                return refuse(option, "0".into(), "use at least 1".into());
            }
        }
        if !(1..=256).contains(&self.batch) {
            return refuse("batch", self.batch.to_string(), "use 1 to 256".into());
        }
        Ok(())
    }
}

/// Runs the bench `frer`: FRER in XDP beside plain XDP redirect, FRER in user space beside bare
/// forwarders over the same sockets.
///
/// # Errors
/// Where an option cannot be used, or the kernel or its privileges do not allow it;
/// [`Error::Interrupted`]. Whatever was made is gone then.
pub fn run_frer(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    options.check()?;
    let _guard = interrupt::Guard::install();
    let run = Run::begin("frer");
    let cpus = Cpus::choose(options.cpu)?;
    let in_kernel = options.backends.contains(&Backend::Xdp);
    let found = in_kernel.then(|| frer::measure(options, cpus, progress)).transpose()?;
    let in_user_space = options.backends.iter().filter(|backend| backend.is_user_space());
    let in_user_space = in_user_space
        .map(|&backend| user::measure(options, cpus, backend, progress))
        .collect::<Result<Vec<_>>>()?;
    progress.clear();
    let mut outcome = run.finish();
    outcome.conditions.driver = Some("veth".into());
    let modes = found.as_ref().map(|_| "xdp-native").into_iter();
    let modes: Vec<&str> =
        modes.chain(in_user_space.iter().map(user::UserSpaceResults::mode)).collect();
    outcome.conditions.mode = Some(modes.join(", "));
    if let Some(found) = &found {
        frer::figures::fill(&mut outcome, options, &cpus, found);
    }
    in_user_space.iter().for_each(|found| user::figures::fill(&mut outcome, options, &cpus, found));
    Ok(outcome)
}
