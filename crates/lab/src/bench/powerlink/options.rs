//! How the bench is run.

use std::time::Duration;

use super::backend::BACKENDS;
use crate::bench::port::Load;
use crate::{Error, Result};

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rows, by name; empty: all.
    pub backends: Vec<String>,
    /// Cycles that count, for each row, period and load.
    pub cycles: u64,
    /// In how many rounds: what differs from round to round is the spread.
    pub rounds: u32,
    /// Lengths of the cycle, in whole microseconds.
    pub periods: Vec<Duration>,
    /// Under which loads.
    pub loads: Vec<Load>,
    /// CPUs of the managing and of the controlled node; the first and the last one where it is
    /// not said.
    pub cpus: Option<(usize, usize)>,
    /// Of the nodes' threads, in SCHED_FIFO; 0: none.
    pub priority: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backends: Vec::new(),
            cycles: 10_000,
            rounds: 5,
            periods: [5_000, 1_000, 400].map(Duration::from_micros).to_vec(),
            loads: Load::ALL.to_vec(),
            cpus: None,
            // Below the kernel's own interrupt threads, which are at 50.
            priority: 49,
        }
    }
}

/// The shortest is that of POWERLINK.
const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(200)..=Duration::from_secs(1);

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        let refuse =
            |option, value: String, reason: String| Err(Error::Option { option, value, reason });
        for name in &self.backends {
            if !BACKENDS.iter().any(|backend| backend.name == name) {
                let known: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
                let reason = format!("back ends are {}", known.join(", "));
                return refuse("back end", name.clone(), reason);
            }
        }
        for period in &self.periods {
            if !PERIODS.contains(period) || period.subsec_nanos() % 1000 != 0 {
                let reason = "use 200us to 1s, in whole microseconds".into();
                return refuse("period", format!("{period:?}"), reason);
            }
        }
        for (option, count) in [("periods", self.periods.len()), ("loads", self.loads.len())] {
            if count == 0 {
                return refuse(option, "(none)".into(), "say at least one".into());
            }
        }
        if !(1..=1_000_000).contains(&self.cycles) {
            return refuse("cycles", self.cycles.to_string(), "use 1 to 1000000".into());
        }
        if self.rounds == 0 {
            return refuse("rounds", "0".into(), "use at least 1".into());
        }
        if self.priority > 98 {
            let reason = "use 1 to 98, or 0 for none; 99 is the kernel's own".into();
            return refuse("priority", self.priority.to_string(), reason);
        }
        Ok(())
    }

    /// Whether a row is asked for.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.backends.is_empty() || self.backends.iter().any(|backend| backend == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let default = Options::default;
        assert!(default().check().is_ok());
        let refusal = Options { backends: vec!["netmap".into()], ..default() }.check();
        let refusal = refusal.unwrap_err().to_string();
        assert!(refusal.contains("back ends are packet, xsk, xdp, txtime, module"), "{refusal}");
        for options in [
            Options { cycles: 0, ..default() },
            Options { rounds: 0, ..default() },
            Options { periods: vec![], ..default() },
            Options { loads: vec![], ..default() },
            Options { periods: vec![Duration::from_micros(199)], ..default() },
            Options { periods: vec![Duration::from_nanos(1_000_500)], ..default() },
            Options { priority: 99, ..default() },
        ] {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
