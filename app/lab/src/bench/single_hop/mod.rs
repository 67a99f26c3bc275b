//! The bench `delay`: speed and accuracy of matching captures, and overhead of the hooks per packet.

mod figures;
mod hooks;
mod matching;
mod router;

use std::path::PathBuf;
use std::time::Duration;

use onbeat_realtime::interrupt;
use onbeat_report::{Outcome, Progress, Run};

use super::cpu::Cpus;
use crate::{Error, Result};

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct Options {
    /// Packets that cross the hop in the pair of captures.
    pub packets: u64,
    /// Directory of the temporary captures: 414 octets per packet.
    pub directory: PathBuf,
    /// Number of repetitions of matching, and of sending packets with and without the hooks.
    pub rounds: u32,
    /// Duration of one measurement.
    pub slice: Duration,
    /// The CPU of the whole measurement; default: the last one.
    pub cpu: Option<usize>,
    /// Measure the matching of captures.
    pub matching: bool,
    /// Measure the hooks.
    pub hooks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            packets: 10_000_000,
            directory: std::env::temp_dir(),
            rounds: 15,
            slice: Duration::from_millis(200),
            cpu: None,
            matching: true,
            hooks: true,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let refuse = |option, reason: &str| {
            Err(Error::Option { option, value: "0".into(), reason: reason.into() })
        };
        if self.packets == 0 {
            return refuse("packets", "use at least 1");
        }
        if self.rounds == 0 {
            return refuse("rounds", "use at least 1");
        }
        if self.slice.is_zero() {
            return refuse("slice", "use at least 1ms");
        }
        Ok(())
    }
}

/// Runs the bench.
///
/// # Errors
/// Invalid options; missing support or privileges; [`Error::Interrupted`]. All files and namespaces are
/// removed then.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    options.check()?;
    let _guard = interrupt::Guard::install();
    let run = Run::begin("delay");
    let cpus = Cpus::choose(options.cpu)?;
    let matched =
        options.matching.then(|| matching::measure(options, &cpus, progress)).transpose()?;
    let hooked = options.hooks.then(|| hooks::measure(options, &cpus, progress)).transpose()?;
    progress.clear();
    let mut outcome = run.finish();
    if let Some(found) = &matched {
        figures::matching(&mut outcome, options, found);
    }
    if let Some(found) = &hooked {
        outcome.conditions.driver = Some("veth".into());
        figures::hooks(&mut outcome, options, found, cpus.measured);
    }
    Ok(outcome)
}
