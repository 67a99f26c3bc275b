//! Options and results of benches that measure back ends of the port cycle by cycle.

mod case;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use onbeat_delay_run::ClockCondition;
use onbeat_realtime::interrupt;
use onbeat_report::format::count;
use onbeat_report::{Outcome, Progress, Run, Topology};

pub(super) use self::case::{CycleCase, Quantity, Values, distributions, over_rounds, ratios};
use super::port::placement::Machine;
use crate::{Error, Result};

/// Other load on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Load {
    /// No load by the bench.
    #[default]
    Idle,
    /// 400 processes that send each other messages over pipes: [`crate::load::Hackbench`].
    Hackbench,
}

impl Load {
    /// All loads.
    pub const ALL: [Load; 2] = [Load::Idle, Load::Hackbench];

    /// The note of a result under [`Load::Hackbench`].
    pub(super) const HACKBENCH: &str = "Load \"hackbench\": 400 processes in 10 groups; in each \
        group, 20 send messages of 100 octets to 20 over pipes without a pause, on all CPUs.";

    /// Its name in options and figures.
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

/// Options of such a bench.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rows, by name; empty: the default rows of the bench.
    pub backends: Vec<String>,
    /// Measured cycles of each row, period and load.
    pub cycles: u64,
    /// Number of rounds; the spread is that between rounds.
    pub rounds: u32,
    /// Cycle lengths.
    pub periods: Vec<Duration>,
    /// Loads.
    pub loads: Vec<Load>,
    /// CPUs of the managing and of the controlled node; default: the first and the last one.
    pub cpus: Option<(usize, usize)>,
    /// Real-time priority of the node threads (SCHED_FIFO); 0: none.
    pub priority: u8,
}

/// Limits of the options of a bench.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    pub(super) backends: &'a [&'static str],
    pub(super) most_cycles: u64,
    pub(super) periods: RangeInclusive<Duration>,
    /// Whether the cycle must be a whole number of microseconds.
    pub(super) whole_us: bool,
}

impl Options {
    /// Real-time priority of nodes: below the kernel's own interrupt threads, which have 50.
    pub(super) const PRIORITY: u8 = 49;

    pub(super) fn defaults(cycles: u64, rounds: u32, periods_us: [u64; 3]) -> Self {
        Self {
            backends: Vec::new(),
            cycles,
            rounds,
            periods: periods_us.map(Duration::from_micros).to_vec(),
            loads: Load::ALL.to_vec(),
            cpus: None,
            priority: Self::PRIORITY,
        }
    }

    pub(super) fn check(&self, bounds: &Bounds<'_>) -> Result<()> {
        let refuse =
            |option, value: String, reason: String| Err(Error::Option { option, value, reason });
        for name in &self.backends {
            if !bounds.backends.contains(&name.as_str()) {
                let reason = format!("back ends are {}", bounds.backends.join(", "));
                return refuse("back end", name.clone(), reason);
            }
        }
        let Bounds { most_cycles, periods, whole_us, .. } = bounds;
        for period in &self.periods {
            let fits = !whole_us || period.subsec_nanos() % 1000 == 0;
            if !periods.contains(period) || !fits {
                let whole = if *whole_us { ", in whole microseconds" } else { "" };
                let reason = format!("use {:?} to {:?}{whole}", periods.start(), periods.end());
                return refuse("period", format!("{period:?}"), reason);
            }
        }
        for (option, count) in [("periods", self.periods.len()), ("loads", self.loads.len())] {
            if count == 0 {
                return refuse(option, "(none)".into(), "use at least one".into());
            }
        }
        if !(1..=*most_cycles).contains(&self.cycles) {
            return refuse("cycles", self.cycles.to_string(), format!("use 1 to {most_cycles}"));
        }
        if self.rounds == 0 {
            return refuse("rounds", "0".into(), "use at least 1".into());
        }
        if self.priority > 98 {
            let reason =
                "use 1 to 98, or 0 for no real-time priority; 99 is the kernel's own".into();
            return refuse("priority", self.priority.to_string(), reason);
        }
        Ok(())
    }

    /// Whether a row is measured: because it is named, or by default.
    pub(super) fn includes(&self, name: &str, by_default: bool) -> bool {
        if self.backends.is_empty() { by_default } else { self.backends.iter().any(|b| b == name) }
    }

    pub(super) fn note_on_ratios(&self) -> String {
        format!(
            "Ratios of p99.9 are of all cycles; their spread is that of the ratios round by round. \
             Short rounds (here of {}) have few values above p99.9.",
            count(self.cycles / u64::from(self.rounds).min(self.cycles), "cycle")
        )
    }
}

/// Measures, and fills an outcome with the result of `measure`. SIGINT, SIGTERM and SIGHUP stop it in
/// order.
pub(super) fn run<F: FnOnce(&mut Outcome)>(
    name: &str,
    progress: &mut Progress,
    measure: impl FnOnce(&mut Progress) -> Result<F>,
) -> Result<Outcome> {
    let _guard = interrupt::Guard::install();
    let run = Run::begin(name);
    let clock = ClockCondition::begin();
    let fill = measure(progress)?;
    progress.clear();
    let mut outcome = run.finish();
    clock.finish(&mut outcome);
    outcome.conditions.driver = Some("veth".into());
    outcome.conditions.mode = Some("xdp-native".into());
    fill(&mut outcome);
    Ok(outcome)
}

/// The result of such a bench.
pub(super) struct CyclicResults<B: 'static, C> {
    /// The measured rows.
    pub(super) rows: Vec<RowState<B>>,
    pub(super) cases: Vec<C>,
    pub(super) machine: Machine,
}

/// A row, and the reason if it is unavailable.
pub(super) type RowState<B> = (&'static B, Option<String>);

/// State of a row, for the table.
pub(super) fn state(why_not: Option<&str>) -> String {
    why_not.map_or("measured".into(), |why| format!("unavailable: {why}"))
}

/// Fails if no row is available.
pub(super) fn require_any<R, B>(rows: Vec<R>, states: &[RowState<B>]) -> Result<Vec<R>> {
    if rows.is_empty() {
        let reasons: Vec<&str> = states.iter().filter_map(|(_, why)| why.as_deref()).collect();
        return Err(Error::Invalid(format!("no back end is available: {}", reasons.join("; "))));
    }
    Ok(rows)
}

/// A period as in figures: `5 ms`, `250 µs`.
pub(super) fn cycle(period_ns: u64) -> String {
    if period_ns % 1_000_000 == 0 {
        format!("{} ms", period_ns / 1_000_000)
    } else {
        micros(period_ns)
    }
}

pub(super) fn micros(ns: u64) -> String {
    format!("{} µs", ns / 1_000)
}

/// The network of such a bench, with the roles of its nodes.
pub(super) fn topology(managing: &str, controlled: &str) -> Topology {
    let mut network = Topology::default();
    network.node("mn", 0, 0).host("wire", 1, 0).node("cn", 2, 0);
    network.detail("mn", managing).detail("wire", "stamps").detail("cn", controlled);
    network.link("mn", "wire", "", &[]).link("wire", "cn", "", &[]);
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_rejected() {
        let bounds = |whole_us| Bounds {
            backends: &["packet", "xdp"],
            most_cycles: 1000,
            periods: Duration::from_micros(200)..=Duration::from_secs(1),
            whole_us,
        };
        let defaults = || Options::defaults(1000, 5, [200, 1_000, 1_000_000]);
        assert!(defaults().check(&bounds(true)).is_ok());
        let refusal =
            Options { backends: vec!["netmap".into()], ..defaults() }.check(&bounds(true));
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal.starts_with("back end netmap cannot be used here: back ends are packet, xdp")
        );
        for options in [
            Options { cycles: 0, ..defaults() },
            Options { cycles: 1001, ..defaults() },
            Options { rounds: 0, ..defaults() },
            Options { periods: vec![], ..defaults() },
            Options { loads: vec![], ..defaults() },
            Options { periods: vec![Duration::from_micros(199)], ..defaults() },
            Options { periods: vec![Duration::from_millis(1001)], ..defaults() },
            Options { priority: 99, ..defaults() },
        ] {
            assert!(options.check(&bounds(false)).is_err(), "{options:?}");
        }
        let odd = Options { periods: vec![Duration::from_nanos(1_000_500)], ..defaults() };
        assert!(odd.check(&bounds(false)).is_ok());
        let refusal = odd.check(&bounds(true)).unwrap_err().to_string();
        assert!(refusal.ends_with("use 200µs to 1s, in whole microseconds"), "{refusal}");
    }

    #[test]
    fn non_default_rows_are_measured_if_named() {
        let options = Options::defaults(1, 1, [1, 2, 3]);
        assert!(options.includes("packet", true) && !options.includes("packet-spin", false));
        let options = Options { backends: vec!["packet-spin".into()], ..options };
        assert!(options.includes("packet-spin", false) && !options.includes("packet", true));
    }

    #[test]
    fn period_names_match_the_options() {
        assert_eq!(cycle(5_000_000), "5 ms");
        assert_eq!(cycle(250_000), "250 µs");
        assert_eq!(cycle(1_500_000), "1500 µs");
    }
}
