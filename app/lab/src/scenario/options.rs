//! Option groups shared by scenarios, and settings of every run.

use std::path::PathBuf;
use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_realtime::clock::SECOND;
use onbeat_report::format::parse_duration;
use onbeat_terminal::values::one_of;

use crate::{Error, Result};

/// Settings of every run, in addition to the options of the scenario.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The program of the nodes: `onbeat`.
    pub onbeat_bin: PathBuf,
    /// Standard output is JSON: the drawing goes to standard error.
    pub json: bool,
    /// Neither drawing nor progress.
    pub quiet: bool,
    /// The drawing contains ANSI colors.
    pub colors: bool,
}

impl RunSettings {
    /// Drawing and progress on the terminal.
    #[must_use]
    pub fn new(onbeat_bin: impl Into<PathBuf>) -> Self {
        Self { onbeat_bin: onbeat_bin.into(), json: false, quiet: false, colors: false }
    }
}

/// The data plane of the nodes.
#[derive(Debug, clap::Args)]
pub(super) struct DataPlaneOptions {
    /// Data plane of the nodes: programs in the kernel (xdp), or the node's process with packet sockets
    /// (packet) or AF_XDP sockets (xsk) [default: xdp]
    #[arg(long, value_name = "NAME", value_parser = one_of(Backend::ALL))]
    pub(super) backend: Option<Backend>,
}

/// Rate and size of the frames of each stream. The defaults are those of most scenarios;
/// [`Scenario::defaults`](super::Scenario) has others.
#[derive(Debug, clap::Args)]
pub(super) struct FrameOptions {
    /// Frames per second of each stream
    #[arg(long, value_name = "FRAMES", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rate: u64,
    /// Frame size in octets, with Ethernet header and tags, without FCS
    #[arg(long, value_name = "OCTETS", default_value_t = 1000)]
    pub(super) size: usize,
}

/// Duration of the phases.
#[derive(Debug, clap::Args)]
pub(super) struct PhaseOptions {
    /// Duration of each phase of the scenario
    #[arg(long, value_name = "NUMBER", default_value_t = 0.5)]
    seconds: f64,
}

impl PhaseOptions {
    /// Duration of each phase, in nanoseconds.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(super) fn ns(&self) -> Result<u64> {
        const LONGEST_S: f64 = 3600.0;
        let seconds = self.seconds;
        if !(0.05..=LONGEST_S).contains(&seconds) {
            return Err(Error::Option {
                option: "seconds",
                value: seconds.to_string(),
                reason: format!("use 0.05 to {LONGEST_S}"),
            });
        }
        Ok((seconds * SECOND as f64) as u64)
    }
}

/// Options of scenarios with streams and phases, common to most scenarios.
#[derive(Debug, clap::Args)]
pub(super) struct StreamOptions {
    #[command(flatten)]
    pub(super) plane: DataPlaneOptions,
    #[command(flatten)]
    pub(super) frames: FrameOptions,
    #[command(flatten)]
    pub(super) phases: PhaseOptions,
}

/// Seed of random choices.
#[derive(Debug, clap::Args)]
pub(super) struct SeedOptions {
    /// Seed of the random choices: the same seed repeats the choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
}

/// A POWERLINK network.
#[derive(Debug, clap::Args)]
pub(super) struct PowerlinkOptions {
    /// Number of controlled nodes
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=239))]
    pub(super) nodes: u8,
    /// Cycle time of the network [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cycle: Option<Duration>,
}

impl PowerlinkOptions {
    /// Cycle in microseconds: `default_us`, or the option within these bounds.
    ///
    /// # Errors
    /// [`Error::Option`], with `reason`.
    pub(super) fn cycle_us(&self, default_us: u32, least_us: u32, reason: &str) -> Result<u32> {
        let Some(cycle) = self.cycle else { return Ok(default_us) };
        let chosen = u32::try_from(cycle.as_micros()).ok();
        chosen.filter(|us| (least_us..=1_000_000).contains(us)).ok_or_else(|| Error::Option {
            option: "cycle",
            value: format!("{cycle:?}"),
            reason: reason.to_owned(),
        })
    }
}
