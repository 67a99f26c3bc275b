//! Benches: measurements relative to a limit measured in the same run.
//!
//! [`port`] measures the real-time port, [`powerlink`] nodes on it (both with the options of
//! [`cyclic`]), [`irq`] the interrupt ledger, [`single_hop`] the measurement of delay. The other files
//! are the bench `frer`:
//!
//! ```text
//! source -> talker -> A (redirect | FRER) -> path1, path2 -> B (redirect | FRER) -> listener -> sink
//! ```
//!
//! `chain` builds the interfaces, `redirect` and `protected` attach data planes to them, `talker` and
//! `programs` send, `throughput` and `delay` measure, `frer` combines them. `tcp` has hosts at both ends.

use onbeat_realtime::interrupt;

mod account;
mod chain;
mod cpu;
pub mod cyclic;
mod delay;
mod frames;
mod frer;
mod frer_chain;
pub mod irq;
pub mod port;
pub mod powerlink;
mod program_costs;
mod programs;
mod redirect;
pub mod single_hop;
mod talker;
mod tcp;
#[cfg(test)]
mod tests;
mod throughput;
mod user;

use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_report::{Outcome, Progress, Run};

use self::cpu::Cpus;
use crate::{Error, Result};

/// Source of the frames of a throughput measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A packet socket on the talker's interface, as in an end system.
    Socket,
    /// The talker's kernel: no source costs less, so that the chain has the largest share.
    Kernel,
}

impl Source {
    /// Its name in figures.
    fn name(self) -> &'static str {
        match self {
            Source::Socket => "frames from a talker's socket",
            Source::Kernel => "frames made in the kernel",
        }
    }
}

/// Functions of the nodes beyond replication and sequence recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Functions {
    /// A changes the VLAN of each frame, and B restores it.
    pub vlan: bool,
    /// Members of B have individual recovery.
    pub individual: bool,
}

/// Options of the bench `frer`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data planes, each compared with a limit of its own.
    pub backends: Vec<Backend>,
    /// Sources of frames, each measured separately.
    pub sources: Vec<Source>,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Further functions of the nodes.
    pub functions: Functions,
    /// Frame size of throughput measurements in octets, with VLAN tag, without FCS.
    pub frame_octets: usize,
    /// Number of repetitions of each throughput measurement, with each source.
    pub rounds: u32,
    /// Duration of one throughput measurement.
    pub slice: Duration,
    /// Frames per batch of the kernel source. Above 64, queues of interfaces overflow.
    pub batch: u32,
    /// Frames of each of the four delay measurements.
    pub probes: u64,
    /// Their size in octets, with VLAN tag, without FCS.
    pub probe_octets: usize,
    /// Their rate per second.
    pub probe_rate: u64,
    /// The CPU of the whole measurement; default: the last one.
    pub cpu: Option<usize>,
    /// CPUs that process frames in XDP at the same time, 1 or 2. With 2, one is compared with both.
    pub cpus: u32,
    /// Frames per second that another CPU offers to nodes in user space; default: the source shares their CPU, and
    /// waits for them.
    pub offered: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backends: vec![Backend::Xdp],
            sources: vec![Source::Socket, Source::Kernel],
            streams: vec![1, 100, 4096],
            functions: Functions::default(),
            frame_octets: 200,
            rounds: 15,
            slice: Duration::from_millis(100),
            batch: 64,
            probes: 3000,
            probe_octets: 1000,
            probe_rate: 1000,
            cpu: None,
            cpus: 1,
            offered: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let refuse =
            |option, value: String, reason: String| Err(Error::Option { option, value, reason });
        if self.backends.is_empty() {
            return refuse("backends", "(none)".into(), "use at least one back end".into());
        }
        if self.sources.is_empty() {
            return refuse("sources", "(none)".into(), "use at least one source".into());
        }
        for &streams in &self.streams {
            if !(1..=frames::MAX_STREAMS).contains(&streams) {
                let reason = format!("use 1 to {}", frames::MAX_STREAMS);
                return refuse("streams", streams.to_string(), reason);
            }
        }
        if self.streams.is_empty() {
            return refuse("streams", "(none)".into(), "use at least one number".into());
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
        if !(1..=2).contains(&self.cpus) {
            return refuse("CPUs", self.cpus.to_string(), "use 1 or 2".into());
        }
        if self.offered == Some(0) {
            return refuse("offered rate", "0".into(), "use at least 1".into());
        }
        if !(1..=256).contains(&self.batch) {
            return refuse("batch", self.batch.to_string(), "use 1 to 256".into());
        }
        Ok(())
    }
}

/// Runs the bench `frer`: FRER in XDP compared with plain XDP redirect, FRER in user space with bare
/// forwarders over the same sockets.
///
/// # Errors
/// Invalid options; missing support or privileges; [`Error::Interrupted`]. All namespaces and programs
/// are removed then.
pub fn run_frer(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    options.check()?;
    let _guard = interrupt::Guard::install();
    let run = Run::begin("frer");
    let cpus = Cpus::choose(options.cpu)?;
    let in_kernel = options.backends.contains(&Backend::Xdp);
    let found = in_kernel.then(|| frer::measure(options, cpus, progress)).transpose()?;
    let parallel = (in_kernel && options.cpus > 1)
        .then(|| frer::parallel::measure(options, cpus, progress))
        .transpose()?;
    let in_user_space = options.backends.iter().filter(|backend| backend.is_user_space());
    let in_user_space = in_user_space
        .map(|&backend| user::measure(options, cpus, backend, progress))
        .collect::<Result<Vec<_>>>()?;
    let with_tcp = options.backends.iter().filter(|backend| **backend != Backend::Xsk);
    let tcp = with_tcp
        .map(|&backend| tcp::measure(options, cpus, backend, progress))
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
    parallel.iter().for_each(|found| frer::figures::parallel(&mut outcome, found));
    in_user_space.iter().for_each(|found| user::figures::fill(&mut outcome, options, &cpus, found));
    tcp.iter().for_each(|found| tcp::figures::fill(&mut outcome, options, &cpus, found));
    Ok(outcome)
}
