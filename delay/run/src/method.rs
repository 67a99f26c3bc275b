//! The interface of methods: each measures a path with a hop and without.

use onbeat_delay::stats::Distribution;
use onbeat_report::{Outcome, Progress};

use crate::error::Result;
use crate::options::ReportOptions;

/// A method of measurement with its options.
pub trait Method {
    /// Its name on the command line.
    const NAME: &'static str;

    /// The options of reports.
    fn report(&self) -> &ReportOptions;

    /// Measures.
    ///
    /// # Errors
    /// An error of an option, an input or a file of samples.
    fn run(&self, progress: &mut Progress) -> Result<MethodResult>;

    /// The reason why the measurement yields no correction; `None` if it yields one.
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
    /// The outcome, for reports.
    pub outcome: Outcome,
    /// Delays of certain matches, in nanoseconds.
    pub delays: Distribution,
}
