//! The bench `irq`: whether the interrupt ledger charges the right ones, and what it costs.
//!
//! ```text
//!  sender "s0" 10.9.0.1 ------- "r0" 10.9.0.2  receiver       r0 and r1 in threads of NAPI,
//!         "s1" 10.9.1.1 ------- "r1" 10.9.1.2                 whose own run time is the truth
//! ```
//!
//! `rig` builds that, `reader` is a process that reads a flow, `flow` what goes over it, `ledger` what is
//! measured; `accuracy` and `overhead` measure, and `figures` makes the result.

use onbeat_realtime::interrupt;

mod accuracy;
mod figures;
mod flow;
mod ledger;
mod overhead;
mod reader;
mod rig;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::time::Duration;

use onbeat_report::{Outcome, Progress, Run};

use super::cpu::Cpus;
use crate::{Error, Result};

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often everything is measured.
    pub rounds: u32,
    /// How long at a time.
    pub slice: Duration,
    /// The CPU on which everything is measured; the last one where it is not said.
    pub cpu: Option<usize>,
    /// The ledger of a sample: packets are looked at for one part in so many of the time.
    pub sample: Option<NonZeroU32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 15, slice: Duration::from_millis(500), cpu: None, sample: None }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        for (option, value) in
            [("rounds", u128::from(self.rounds)), ("slice", self.slice.as_nanos())]
        {
            if value == 0 {
                let reason = "use at least 1".into();
                return Err(Error::Option { option, value: "0".into(), reason });
            }
        }
        Ok(())
    }
}

/// All that was found.
struct IrqResults {
    accuracy: Vec<accuracy::AccuracyCase>,
    overhead: Vec<overhead::OverheadCase>,
    cpu: usize,
}

/// Runs the bench.
///
/// # Errors
/// Where an option cannot be used, or the kernel or its privileges do not allow it;
/// [`Error::Interrupted`]. Whatever was made is gone then.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    options.check()?;
    let _guard = interrupt::Guard::install();
    let run = Run::begin("irq");
    let cpus = Cpus::choose(options.cpu)?;
    let found = IrqResults {
        accuracy: accuracy::measure(options, &cpus, progress)?,
        overhead: overhead::measure(options, &cpus, progress)?,
        cpu: cpus.measured,
    };
    progress.clear();
    let mut outcome = run.finish();
    outcome.conditions.driver = Some("veth".into());
    outcome.conditions.mode = Some("threaded NAPI, softirq".into());
    figures::fill(&mut outcome, options, &found);
    Ok(outcome)
}
