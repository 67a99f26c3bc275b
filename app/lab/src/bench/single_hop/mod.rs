//! The bench `delay`: how fast captures are matched and how right, and what the hooks cost a packet.

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

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Packets that cross the hop in the pair of captures.
    pub packets: u64,
    /// Where the captures are put meanwhile: 414 octets for each packet.
    pub directory: PathBuf,
    /// How often they are matched, and packets are sent with and without the hooks.
    pub rounds: u32,
    /// How long packets are sent at a time.
    pub slice: Duration,
    /// The CPU that everything runs on; the last one where it is not said.
    pub cpu: Option<usize>,
    /// Whether captures are matched.
    pub matching: bool,
    /// Whether the hooks are measured.
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
            return refuse("packets", "a pair of captures has at least one");
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
/// Where an option cannot be used, or the kernel or its privileges do not allow it;
/// [`Error::Interrupted`]. Whatever was made is gone then.
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
