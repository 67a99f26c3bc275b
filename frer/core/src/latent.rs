//! Latent error detection (802.1CB 7.4.4): detects a path that has stopped delivering while the other paths
//! mask it.
//!
//! Of every packet over `paths` paths one replica is passed and `paths - 1` are discarded. `passed * (paths -
//! 1) - discarded` is therefore constant while all paths deliver, and drifts when one does not.

use crate::counters::Counters;
use crate::spec::LatentErrorDetection;
use crate::validate::LatentError as ConfigError;

const NS_PER_MS: u64 = 1_000_000;

/// The latent error detection of one sequence recovery function.
#[derive(Debug, Clone)]
pub struct LatentErrorDetector {
    allowed: u32,
    paths: u16,
    test: PeriodicTimer,
    reset: PeriodicTimer,
    /// CurBaseDifference.
    base: i128,
    counters: Counters,
    /// Since the base was taken: whether a test ran, and whether a test signaled.
    tested: bool,
    signalled: bool,
    active: bool,
}

/// SIGNAL_LATENT_ERROR: the paths deliver different numbers of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentError {
    /// Replicas missing since the base was taken; negative: surplus replicas.
    pub difference: i64,
    /// frerSeqRcvyLatentErrorDifference, which `difference` exceeds.
    pub allowed: u32,
}

impl LatentErrorDetector {
    /// Creates latent error detection that starts at `now_ns` from the counters of recovery, `counted`. The
    /// first base does not count as a reset.
    ///
    /// # Errors
    /// The period is 0, or there are fewer than two paths.
    pub fn new(
        config: &LatentErrorDetection,
        now_ns: u64,
        counted: &Counters,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut latent = Self {
            allowed: config.difference,
            paths: config.paths,
            test: PeriodicTimer::new(config.period_ms, now_ns),
            reset: PeriodicTimer::new(config.reset_period_ms, now_ns),
            base: 0,
            counters: Counters::default(),
            tested: false,
            signalled: false,
            active: false,
        };
        latent.base = latent.current(counted);
        Ok(latent)
    }

    /// Runs the tests and resets due at `now_ns`, given the counters of the recovery function at that time.
    ///
    /// If test and reset coincide, the test runs first: after a reset it would compare with an empty
    /// interval. A late call runs each of them once.
    pub fn poll(&mut self, now_ns: u64, counted: &Counters) -> Option<LatentError> {
        let current = self.current(counted);
        let difference = current - self.base;
        let test = self.test.due(now_ns);
        let found = test && difference.unsigned_abs() > self.allowed.into();
        self.tested |= test;
        self.signalled |= found;
        self.active |= found;
        if self.reset.due(now_ns) {
            self.base = current;
            self.counters.latent_error_resets += 1;
            if core::mem::take(&mut self.tested) {
                self.active = core::mem::take(&mut self.signalled);
            }
        }
        found.then(|| LatentError {
            difference: difference.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            allowed: self.allowed,
        })
    }

    /// Returns when to call [`LatentErrorDetector::poll`].
    pub fn next_deadline(&self) -> u64 {
        self.test.next_ns.min(self.reset.next_ns)
    }

    /// Returns whether a latent error is present: from the first signal until a new base has been taken and
    /// no test against it, up to the next base, has signaled. A single test is not sufficient: a slow stream
    /// needs several tests until its difference exceeds the allowed one again.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns CurBaseDifference.
    pub fn base_difference(&self) -> i128 {
        self.base
    }

    /// Returns the counters of this function: `latent_error_resets`.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn current(&self, counted: &Counters) -> i128 {
        i128::from(counted.passed) * i128::from(self.paths - 1) - i128::from(counted.discarded)
    }
}

/// A periodic timer on a fixed grid.
#[derive(Debug, Clone)]
struct PeriodicTimer {
    period_ns: u64,
    next_ns: u64,
}

impl PeriodicTimer {
    fn new(period_ms: u32, now_ns: u64) -> Self {
        let period_ns = u64::from(period_ms) * NS_PER_MS;
        Self { period_ns, next_ns: now_ns.saturating_add(period_ns) }
    }

    /// Returns true once per period; missed periods are skipped.
    fn due(&mut self, now_ns: u64) -> bool {
        let Some(late) = now_ns.checked_sub(self.next_ns) else { return false };
        let periods = late / self.period_ns + 1;
        self.next_ns = self.next_ns.saturating_add(periods.saturating_mul(self.period_ns));
        true
    }
}
