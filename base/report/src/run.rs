//! A run from its start to its outcome.

use std::time::{Instant, SystemTime};

use crate::conditions::{Collector, Conditions};
use crate::figure::Figures;
use crate::origin::{Inputs, Machine, Origin};
use crate::result::Outcome;
use crate::timestamp::rfc3339;

/// A measurement or an analysis from its start to its outcome.
#[derive(Debug)]
pub struct Run {
    name: String,
    kind: RunKind,
    started: SystemTime,
    clock: Instant,
    conditions: Collector,
    inputs: Inputs,
}

/// Whether the conditions of this machine are those of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunKind {
    /// This machine measures.
    Measurement,
    /// This machine analyzes earlier measurements, or those of other machines.
    Analysis,
}

impl Run {
    /// Starts a measurement on this machine: a scenario, a bench, a live capture.
    pub fn begin(name: impl Into<String>) -> Self {
        Self::start(name.into(), RunKind::Measurement)
    }

    /// Starts an analysis of files. The conditions of its result are unknown, as those of the measurement
    /// are: the caller adds the conditions recorded in the files.
    pub fn analysis(name: impl Into<String>) -> Self {
        Self::start(name.into(), RunKind::Analysis)
    }

    fn start(name: String, kind: RunKind) -> Self {
        Self {
            name,
            kind,
            started: SystemTime::now(),
            clock: Instant::now(),
            conditions: Collector::begin(),
            inputs: Inputs::default(),
        }
    }

    /// Returns the inputs of the command, to which readers of files add.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Ends the run: returns an outcome with its times, conditions and origin, without checks and figures.
    /// The caller adds driver, mode and seed.
    pub fn finish(self) -> Outcome {
        let duration_s = self.clock.elapsed().as_secs_f64();
        let started = rfc3339(self.started);
        let own = self.conditions.finish();
        let mut origin = Origin::of_process(started.clone());
        origin.inputs = self.inputs.finish();
        let conditions = match self.kind {
            RunKind::Measurement => own,
            RunKind::Analysis => {
                origin.analyzed_on = Some(Machine::from(&own));
                Conditions::default()
            }
        };
        Outcome {
            name: self.name,
            checks: Vec::new(),
            figures: Figures::new(),
            conditions,
            origin: Some(origin),
            started,
            duration_s,
            notes: Vec::new(),
            causes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    #[test]
    fn a_measurement_has_conditions_and_an_analysis_has_an_origin_alone() {
        let measured = Run::begin("x").finish();
        assert!(measured.conditions.kernel.is_some());
        assert_eq!(measured.origin.unwrap().analyzed_on, None);

        let run = Run::analysis("x");
        run.inputs().add(Input::interface("eth0"));
        let analyzed = run.finish();
        assert_eq!(analyzed.conditions, Conditions::default());
        let origin = analyzed.origin.unwrap();
        assert!(origin.analyzed_on.unwrap().kernel.is_some());
        assert_eq!(origin.inputs, [Input::interface("eth0")]);
        assert_eq!(origin.started, analyzed.started);
    }
}
