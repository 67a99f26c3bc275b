//! How the bench is run.

use std::fmt;
use std::time::Duration;

use super::backend::BACKENDS;
use crate::{Error, Result};

/// What else the machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Load {
    /// Nothing that the bench would know of.
    Idle,
    /// 400 processes that send each other messages over pipes: [`crate::load::Hackbench`].
    Hackbench,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 2] = [Load::Idle, Load::Hackbench];

    /// As options and figures name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Hackbench => "hackbench",
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the bench is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rows, by name; empty: all but those that take a whole CPU.
    pub backends: Vec<String>,
    /// Cycles that count, for each row, period and load.
    pub cycles: u64,
    /// In how many rounds: what differs from round to round is the spread.
    pub rounds: u32,
    /// From one request to the next.
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
            cycles: 100_000,
            rounds: 10,
            periods: [5_000, 1_000, 250].map(Duration::from_micros).to_vec(),
            loads: Load::ALL.to_vec(),
            cpus: None,
            // Below the kernel's own interrupt threads, which are at 50.
            priority: 49,
        }
    }
}

const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(1);

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
            if !PERIODS.contains(period) {
                let reason = "use 100us to 1s".into();
                return refuse("period", format!("{period:?}"), reason);
            }
        }
        let some = [("periods", self.periods.len()), ("loads", self.loads.len())];
        for (option, count) in some {
            if count == 0 {
                return refuse(option, "(none)".into(), "say at least one".into());
            }
        }
        if !(1..=10_000_000).contains(&self.cycles) {
            return refuse("cycles", self.cycles.to_string(), "use 1 to 10000000".into());
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
    pub(super) fn wants(&self, name: &str, spins: bool) -> bool {
        if self.backends.is_empty() { !spins } else { self.backends.iter().any(|b| b == name) }
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
        assert!(refusal.starts_with("back end netmap cannot be used here: back ends are limit, "));
        for options in [
            Options { cycles: 0, ..default() },
            Options { rounds: 0, ..default() },
            Options { periods: vec![], ..default() },
            Options { loads: vec![], ..default() },
            Options { periods: vec![Duration::from_micros(99)], ..default() },
            Options { priority: 99, ..default() },
        ] {
            assert!(options.check().is_err(), "{options:?}");
        }
    }

    #[test]
    fn rows_that_take_a_cpu_are_measured_on_demand() {
        let options = Options::default();
        assert!(options.wants("packet", false) && !options.wants("packet-spin", true));
        let options = Options { backends: vec!["packet-spin".into()], ..options };
        assert!(options.wants("packet-spin", true) && !options.wants("packet", false));
    }
}
