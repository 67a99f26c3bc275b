//! Latent error detection (802.1CB 7.4.4): tells that a path has stopped delivering while the
//! others still hide it.
//!
//! Of every packet over `paths` paths one replica is passed and `paths - 1` are discarded, so that
//! `passed * (paths - 1) - discarded` stands still while all paths deliver, and drifts when one
//! does not.

use crate::counters::Counters;
use crate::spec::LatentErrorDetection;
use crate::validate::LatentError as ConfigError;

const NS_PER_MS: u64 = 1_000_000;

/// The latent error detection of one sequence recovery function.
#[derive(Debug, Clone)]
pub struct Latent {
    allowed: u32,
    paths: u16,
    test: Every,
    reset: Every,
    /// CurBaseDifference.
    base: i128,
    counters: Counters,
    /// Since the base was taken: tests, and whether one of them signalled.
    tested: bool,
    signalled: bool,
    active: bool,
}

/// SIGNAL_LATENT_ERROR: the paths do not deliver alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentError {
    /// Replicas that are missing since the base was taken; negative: that are too many.
    pub difference: i64,
    /// frerSeqRcvyLatentErrorDifference, which `difference` exceeds.
    pub allowed: u32,
}

impl Latent {
    /// Latent error detection that starts at `now_ns` from what recovery has `counted`. Taking the
    /// first base is not counted as a reset.
    ///
    /// # Errors
    /// A period of 0, or fewer than two paths.
    pub fn new(
        config: &LatentErrorDetection,
        now_ns: u64,
        counted: &Counters,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut latent = Self {
            allowed: config.difference,
            paths: config.paths,
            test: Every::new(config.period_ms, now_ns),
            reset: Every::new(config.reset_period_ms, now_ns),
            base: 0,
            counters: Counters::default(),
            tested: false,
            signalled: false,
            active: false,
        };
        latent.base = latent.current(counted);
        Ok(latent)
    }

    /// Does what is due at `now_ns`, given what the recovery function has `counted` by then.
    ///
    /// Where test and reset fall together the test comes first, as it would otherwise look at
    /// nothing. A late call does each of them once.
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

    /// When to call [`Latent::poll`].
    pub fn next_deadline(&self) -> u64 {
        self.test.next_ns.min(self.reset.next_ns)
    }

    /// Whether there is a latent error: from the first signal until a base has been taken anew and
    /// no test against it, up to the next, signalled. One test alone says little: a slow stream
    /// needs several until its difference is above the allowed one again.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// CurBaseDifference.
    pub fn base_difference(&self) -> i128 {
        self.base
    }

    /// What the function counted: `latent_error_resets`.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn current(&self, counted: &Counters) -> i128 {
        i128::from(counted.passed) * i128::from(self.paths - 1) - i128::from(counted.discarded)
    }
}

/// Something that is due once per period, on a fixed grid.
#[derive(Debug, Clone)]
struct Every {
    period_ns: u64,
    next_ns: u64,
}

impl Every {
    fn new(period_ms: u32, now_ns: u64) -> Self {
        let period_ns = u64::from(period_ms) * NS_PER_MS;
        Self { period_ns, next_ns: now_ns.saturating_add(period_ns) }
    }

    /// True once per period; periods that were slept through are skipped.
    fn due(&mut self, now_ns: u64) -> bool {
        let Some(late) = now_ns.checked_sub(self.next_ns) else { return false };
        let periods = late / self.period_ns + 1;
        self.next_ns = self.next_ns.saturating_add(periods.saturating_mul(self.period_ns));
        true
    }
}
