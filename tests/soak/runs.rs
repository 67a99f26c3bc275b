//! The runs of a soak: each with its own random numbers, until its time is over.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, Instant};

use onbeat_wire::random::Random;

/// Interval between two progress lines.
const PROGRESS: Duration = Duration::from_secs(10);

pub(crate) struct Runs {
    name: &'static str,
    start: Instant,
    time: Duration,
    /// Seed of the next run.
    seed: u64,
    started: u64,
    counts: BTreeMap<&'static str, u64>,
    printed: Instant,
    is_incomplete: bool,
}

fn from_env<T: FromStr>(name: &str, default: T) -> T {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} {text:?}: a number is required"))
}

impl Runs {
    pub(crate) fn from_env(name: &'static str) -> Runs {
        let now = Instant::now();
        Runs {
            name,
            start: now,
            time: Duration::from_secs(from_env("SOAK_SECONDS", 60)),
            seed: from_env("SOAK_SEED", 1),
            started: 0,
            counts: BTreeMap::new(),
            printed: now,
            is_incomplete: false,
        }
    }

    /// Reports that a part of the checks cannot run here: the soak then counts as skipped, not as passed.
    pub(crate) fn skip(&mut self, reason: &str) {
        eprintln!("{}: skipped: {reason}", self.name);
        self.is_incomplete = true;
    }

    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// The random numbers of the next run; `None` once the time is over. There is at least one run.
    pub(crate) fn next(&mut self) -> Option<Random> {
        if self.started > 0 && self.start.elapsed() >= self.time {
            return None;
        }
        if self.printed.elapsed() >= PROGRESS {
            self.print();
        }
        let random = Random::new(self.seed);
        self.seed += 1;
        self.started += 1;
        Some(random)
    }

    /// Adds to a counter of the progress lines.
    pub(crate) fn count(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    /// Prints the last progress line; returns the number of runs.
    pub(crate) fn finished(&mut self) -> u64 {
        self.print();
        self.started
    }

    fn print(&mut self) {
        self.printed = Instant::now();
        let counts: String =
            self.counts.iter().map(|(what, number)| format!(", {what}: {number}")).collect();
        let seconds = self.start.elapsed().as_secs();
        eprintln!("{}: {} runs in {seconds} s{counts}", self.name, self.started);
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
            let seed = self.seed.saturating_sub(1);
            eprintln!("{}: run {} failed; its seed: SOAK_SEED={seed}", self.name, self.started);
        }
    }
}

/// One of a list.
pub(crate) fn one_of<'a, T>(random: &mut Random, list: &'a [T]) -> &'a T {
    &list[random.below(list.len() as u64) as usize]
}
