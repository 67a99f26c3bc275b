//! CPU load by duty cycles as in table 1 of *On limits of embedded systems in network packet
//! processing*, section 4: a thread is idle for a time, works for a time, and so on.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::time::{ClockId, clock_gettime};
use onbeat_realtime::CpuSet;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use serde::Deserialize;

use super::start_on;
use crate::{Error, Result};

/// Maximum delay until an idle thread notices that it shall stop.
const LOOK_NS: u64 = 20_000_000;

/// A row of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DutyRow {
    /// Idle time in microseconds, ...
    pub idle_us: u64,
    /// ... followed by busy time.
    pub duty_us: u64,
    /// Poll the clock during the idle time instead of sleeping.
    #[serde(default)]
    pub busy_loop: bool,
}

/// Rows that are run one after the other, repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DutyProfile {
    /// The rows, at least one.
    #[serde(rename = "row")]
    pub rows: Vec<DutyRow>,
}

impl DutyProfile {
    /// Table 1 of the paper, also in examples/load/paper.toml.
    #[must_use]
    pub fn paper() -> Self {
        let row = |(idle_us, duty_us, busy_loop)| DutyRow { idle_us, duty_us, busy_loop };
        let rows = [
            (77, 100, false),
            (3000, 1560, false),
            (1000, 250, true),
            (123, 60, false),
            (18000, 4000, false),
            (777, 100, false),
            (1000, 1560, false),
            (6000, 250, true),
            (1200, 60, false),
            (11000, 4000, false),
            (777, 100, false),
            (5000, 1560, false),
            (4000, 250, true),
            (1234, 60, false),
            (17000, 4000, false),
        ];
        Self { rows: rows.map(row).into() }
    }

    /// Reads a profile from TOML: `[[row]]` with `idle-us`, `duty-us` and `busy-loop`.
    ///
    /// # Errors
    /// A description of the error with its position.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let profile: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let most_us = 3600 * 1_000_000;
        let wrong = |row: &DutyRow| row.idle_us > most_us || row.duty_us > most_us;
        if let Some(place) = profile.rows.iter().position(wrong) {
            return Err(format!(
                "row {}: idle-us or duty-us is too long; use {most_us} (an hour) at most",
                place + 1
            ));
        }
        if profile.cycle_ns() == 0 {
            return Err("every row takes no time; set idle-us or duty-us".into());
        }
        Ok(profile)
    }

    /// The duration of all rows, in nanoseconds.
    #[must_use]
    pub fn cycle_ns(&self) -> u64 {
        self.rows.iter().map(|row| (row.idle_us + row.duty_us) * 1000).sum()
    }

    /// The CPU share of the profile, if every sleep ends in time and no other thread uses the CPU.
    #[must_use]
    pub fn share(&self) -> f64 {
        let busy = |row: &DutyRow| row.duty_us + if row.busy_loop { row.idle_us } else { 0 };
        let busy_us: u64 = self.rows.iter().map(busy).sum();
        busy_us as f64 * 1000.0 / self.cycle_ns().max(1) as f64
    }
}

/// Threads at normal priority, each on CPUs of its own, until stopped or dropped.
#[derive(Debug)]
pub struct DutyLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<(CpuSet, JoinHandle<DutyWork>)>,
}

/// Work of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct DutyWork {
    took_ns: u64,
    cpu_ns: u64,
    rows: u64,
    sleeps: u64,
    late_ns: u64,
}

/// Report of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct DutyReport {
    /// The CPUs that it could run on.
    pub cpus: CpuSet,
    /// Its run time in seconds.
    pub seconds: f64,
    /// The share of a CPU that the thread got, by its CPU clock.
    pub share: f64,
    /// Rows completed.
    pub rows: u64,
    /// Mean wake-up latency in nanoseconds; `None`: it never slept.
    pub late_ns: Option<f64>,
}

impl DutyLoad {
    /// Starts a thread per set of CPUs.
    ///
    /// # Errors
    /// A CPU may not be used, or a thread cannot be started.
    pub fn start(places: impl IntoIterator<Item = CpuSet>, profile: &DutyProfile) -> Result<Self> {
        if profile.cycle_ns() == 0 {
            return Err(Error::Invalid("the rows of the profile take no time".into()));
        }
        let mut load = Self { stop: Arc::default(), threads: Vec::new() };
        for cpus in places {
            let (stop, profile) = (Arc::clone(&load.stop), profile.clone());
            let thread = start_on(&cpus, "lab-duty", move || work(&profile, &stop))?;
            load.threads.push((cpus, thread));
        }
        Ok(load)
    }

    /// Stops the load; returns a report per thread.
    #[must_use]
    pub fn stop(mut self) -> Vec<DutyReport> {
        self.end()
    }

    fn end(&mut self) -> Vec<DutyReport> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.drain(..).map(|(cpus, thread)| {
            // The threads cannot fail.
            let work = thread.join().unwrap_or_default();
            DutyReport {
                cpus,
                seconds: work.took_ns as f64 / SECOND as f64,
                share: work.cpu_ns as f64 / work.took_ns.max(1) as f64,
                rows: work.rows,
                late_ns: (work.sleeps > 0).then(|| work.late_ns as f64 / work.sleeps as f64),
            }
        });
        ended.collect()
    }
}

impl Drop for DutyLoad {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(profile: &DutyProfile, stop: &AtomicBool) -> DutyWork {
    let start_ns = now_ns();
    let mut work = DutyWork::default();
    'all: for row in profile.rows.iter().cycle() {
        let until = now_ns() + row.idle_us * 1000;
        if row.busy_loop {
            spin(until, stop);
        } else if row.idle_us > 0 {
            while now_ns() < until && !stop.load(Ordering::Relaxed) {
                sleep_until(until.min(now_ns() + LOOK_NS));
            }
            work.sleeps += 1;
            work.late_ns += now_ns().saturating_sub(until);
        }
        spin(now_ns() + row.duty_us * 1000, stop);
        if stop.load(Ordering::Relaxed) {
            break 'all;
        }
        work.rows += 1;
    }
    work.took_ns = now_ns() - start_ns;
    work.cpu_ns = cpu_ns();
    work
}

fn spin(until_ns: u64, stop: &AtomicBool) {
    while now_ns() < until_ns && !stop.load(Ordering::Relaxed) {
        (0..100).for_each(|step| _ = black_box(step));
    }
}

/// CPU time of the calling thread, which started with its work.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_realtime::interrupt::wait_until;
    use std::time::Duration;

    #[test]
    fn the_example_profile_is_the_papers_table() {
        let text = include_str!("../../../../examples/load/paper.toml");
        let profile = DutyProfile::parse(text).unwrap();
        assert_eq!(profile, DutyProfile::paper());
        assert_eq!((profile.rows.len(), profile.cycle_ns()), (15, 88_098_000));
        assert!((profile.share() - 28_910.0 / 88_098.0).abs() < 1e-12, "{}", profile.share());
    }

    #[test]
    fn invalid_profiles_are_rejected() {
        for (text, expected) in [
            ("", "row"),
            ("row = []", "takes no time"),
            ("[[row]]\nidle-us = 1", "duty-us"),
            ("[[row]]\nidle-us = 1\nduty-us = 4000000000", "row 1"),
            ("[[row]]\nidle-us = 1\nduty-us = -1", "-1"),
            ("[[row]]\nidle-us = 1\nduty-us = 1\nduty = 1", "duty"),
        ] {
            let error = DutyProfile::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    /// The first usable CPUs, at most `most`, one per set.
    fn places(most: usize) -> Vec<CpuSet> {
        let usable = crate::cpus::usable().unwrap().into_iter().take(most);
        usable.map(|cpu| [cpu].into_iter().collect()).collect()
    }

    #[test]
    fn threads_work_on_their_cpus_and_stop() {
        let places = places(usize::MAX);
        let profile = DutyProfile {
            rows: vec![
                DutyRow { idle_us: 100, duty_us: 50, busy_loop: false },
                DutyRow { idle_us: 10, duty_us: 10, busy_loop: true },
            ],
        };
        let load = DutyLoad::start(places.clone(), &profile).unwrap();
        let until = now_ns() + SECOND / 10;
        assert!(wait_until(Duration::from_secs(30), || now_ns() >= until).unwrap());
        let reports = load.stop();
        assert!(reports.iter().map(|report| &report.cpus).eq(&places));
        for report in &reports {
            assert!(report.seconds > 0.0 && (0.0..=1.0).contains(&report.share), "{report:?}");
        }
        // The share of each thread depends on the machine; at least one must have worked.
        assert!(reports.iter().any(|report| report.rows > 0 && report.late_ns.is_some()));
    }

    #[test]
    fn an_idle_thread_stops_at_once() {
        let row = DutyRow { idle_us: 3_600_000_000, duty_us: 0, busy_loop: false };
        let report = DutyLoad::start(places(1), &DutyProfile { rows: vec![row] }).unwrap().stop();
        assert!(report[0].seconds < 60.0 && report[0].rows == 0, "{report:?}");
    }
}
