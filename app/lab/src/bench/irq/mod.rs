//! The bench `irq`: accuracy and overhead of the interrupt ledger.
//!
//! ```text
//!  sender "s0" 10.9.0.1 ------- "r0" 10.9.0.2  receiver       r0 and r1 in threads of NAPI,
//!         "s1" 10.9.1.1 ------- "r1" 10.9.1.2                 whose run time is the true cost
//! ```
//!
//! `rig` builds these hosts, `reader` is a process that reads a flow, `flow` sends its packets,
//! `ledger` records; `accuracy` and `overhead` measure, and `figures` builds the result.

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

/// Options of the bench.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of repetitions of each measurement.
    pub rounds: u32,
    /// Duration of one measurement.
    pub slice: Duration,
    /// The CPU of the whole measurement; default: the last one.
    pub cpu: Option<usize>,
    /// Use a sampling ledger: packets are recorded for one N-th of the time.
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

/// Results of the bench.
struct IrqResults {
    accuracy: Vec<accuracy::AccuracyCase>,
    overhead: Vec<overhead::OverheadCase>,
    cpu: usize,
}

/// Runs the bench.
///
/// # Errors
/// Invalid options; missing support or privileges; [`Error::Interrupted`]. All interfaces and processes
/// are removed then.
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
