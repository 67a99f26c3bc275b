//! What methods have in common, so that a path can be measured by any of them, with a hop and without.

use onbeat_delay::stats::Distribution;
use onbeat_report::Outcome;

use super::options::Show;
use onbeat_terminal::exit::Result;

/// A way to measure delays, with what it was asked to do.
pub(super) trait Method {
    /// The word on the command line.
    const NAME: &'static str;

    /// What is done with the delays.
    fn show(&self) -> &Show;

    /// Measures.
    fn measure(&self) -> Result<Measured>;

    /// Why no correction can be made of what it measures; `None` where one can.
    fn no_correction(&self) -> Option<&'static str> {
        None
    }

    /// The name of its results.
    fn result() -> String {
        format!("delay-{}", Self::NAME)
    }

    /// Measures, and prints the result.
    fn execute(self) -> Result
    where
        Self: Sized,
    {
        let measured = self.measure()?;
        self.show().tell(measured.outcome)
    }
}

/// What was measured.
pub(super) struct Measured {
    pub(super) outcome: Outcome,
    /// Those of packets that are known to be matched right.
    pub(super) delays: Distribution,
}
