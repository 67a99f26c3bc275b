//! A run from its beginning to its outcome.

use std::time::{Instant, SystemTime};

use crate::conditions::Collector;
use crate::figure::Figures;
use crate::result::Outcome;
use crate::timestamp::rfc3339;

/// A measurement under way: knows when it began, and watches the conditions until it ends.
#[derive(Debug)]
pub struct Run {
    name: String,
    started: SystemTime,
    clock: Instant,
    conditions: Collector,
}

impl Run {
    /// Begins the run of the scenario or bench `name`.
    pub fn begin(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            started: SystemTime::now(),
            clock: Instant::now(),
            conditions: Collector::begin(),
        }
    }

    /// Ends the run: an outcome with its times and conditions, still without checks and figures.
    /// Driver and mode are the caller's to fill in.
    pub fn finish(self) -> Outcome {
        Outcome {
            name: self.name,
            checks: Vec::new(),
            figures: Figures::new(),
            conditions: self.conditions.finish(),
            started: rfc3339(self.started),
            duration_s: self.clock.elapsed().as_secs_f64(),
            notes: Vec::new(),
            causes: Vec::new(),
        }
    }
}
