//! What methods have in common: any of them measures a path with a hop and without.

use onbeat_delay::stats::Distribution;
use onbeat_report::{Outcome, Progress};

use crate::error::Result;
use crate::options::ReportOptions;

/// A method of measurement with its options.
pub trait Method {
    /// The word on the command line.
    const NAME: &'static str;

    /// How delays are reported.
    fn report(&self) -> &ReportOptions;

    /// Measures.
    ///
    /// # Errors
    /// An option, an input or a file of samples.
    fn run(&self, progress: &mut Progress) -> Result<MethodResult>;

    /// Why the measurement makes no correction; `None` where it makes one.
    fn no_correction(&self) -> Option<&'static str> {
        None
    }

    /// The name of its results.
    fn result() -> String {
        format!("delay-{}", Self::NAME)
    }
}

/// The result of a method.
#[derive(Debug)]
pub struct MethodResult {
    /// All of it, for reports.
    pub outcome: Outcome,
    /// Delays of packets whose match is certain, in nanoseconds.
    pub delays: Distribution,
}
