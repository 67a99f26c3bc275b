//! The ledger from a sample: an estimate of all polls, and its error.
//!
//! A sampling tracer observes the packets of polls that start in windows. Each of equal time intervals has one
//! window, at a random position. Of all other polls the tracer measures the time, and charges it to
//! [`Class::Unsampled`]. So all of a CPU's time is measured, and only its causes are estimated: the time of
//! skipped polls is divided in the proportions of the sampled ones.
//!
//! This is ratio estimation from a cluster sample (Cochran, Sampling Techniques, 1977, chapters 6 and 9A). With
//! `x` the time of all polls of a window, `y` that of one cause in it, `n` windows, and `T` the time of all
//! polls, sampled or not:
//!
//! ```text
//!   estimate  Y = T * R,  R = sum(y) / sum(x)
//!   its variance  (T / sum(x))^2 * (1 - sum(x) / T) * n / (n - 1) * sum((y - R x)^2)
//! ```
//! For packets, `y` is their number. The formula assumes that windows are independent; their even spread makes
//! the estimate better than stated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Accounts, Amount, Cause, Class, Owner};

/// Sums over the windows of a CPU, for the standard errors. Samples of several times add up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The number of windows.
    pub windows: u64,
    /// The sum of x², in square nanoseconds.
    pub squares: f64,
    /// The moments of each cause.
    pub causes: BTreeMap<Cause, CauseMoments>,
}

/// Sums over windows of a cause's time and packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CauseMoments {
    /// Of time: y², in square nanoseconds.
    pub ns_squares: f64,
    /// Of time: x y, in square nanoseconds.
    pub ns_products: f64,
    /// Of packets: y².
    pub packets_squares: f64,
    /// Of packets: x y, in nanoseconds.
    pub packets_products: f64,
}

/// The standard error of an estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StandardError {
    /// Of the time, in nanoseconds.
    pub ns: f64,
    /// Of the number of packets.
    pub packets: f64,
}

/// Accounts completed from a sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// The accounts. Time that could not be estimated remains [`Class::Unsampled`].
    pub accounts: Accounts,
    /// Windows in which packets were sampled.
    pub windows: u64,
    /// Time of the sampled polls, in nanoseconds.
    pub sampled_ns: u64,
    /// Time of the skipped polls, in nanoseconds.
    pub skipped_ns: u64,
    /// NaN where the error is unknown: fewer than two windows.
    errors: BTreeMap<Cause, StandardError>,
}

/// Whether a sampled poll can have this cause; other softirqs are never skipped.
fn is_poll_time(cause: &Cause) -> bool {
    !matches!(cause, Cause::Unowned(Class::Softirq(_) | Class::Unsampled(_)))
}

fn is_skipped(cause: &Cause) -> bool {
    matches!(cause, Cause::Unowned(Class::Unsampled(_)))
}

impl Sample {
    /// Adds one window.
    pub fn add_window(&mut self, window: &Accounts) {
        let sampled = || window.caused.iter().filter(|(cause, _)| is_poll_time(cause));
        let x = sampled().map(|(_, amount)| amount.ns).sum::<u64>() as f64;
        self.windows += 1;
        self.squares += x * x;
        for (cause, amount) in sampled() {
            let (ns, packets) = (amount.ns as f64, amount.packets as f64);
            self.causes.entry(*cause).or_default().add(&CauseMoments {
                ns_squares: ns * ns,
                ns_products: x * ns,
                packets_squares: packets * packets,
                packets_products: x * packets,
            });
        }
    }

    /// Adds the windows of another time on the same CPU.
    pub fn add(&mut self, other: &Sample) {
        self.windows += other.windows;
        self.squares += other.squares;
        for (cause, moments) in &other.causes {
            self.causes.entry(*cause).or_default().add(moments);
        }
    }

    /// As [`Accounts::resolve`]. The windows in which two sockets of a process had packets are no longer known.
    /// They are assumed to be the same, which can only increase the error.
    pub fn resolve(&mut self, owner: impl Fn(u64) -> Option<Owner>) {
        for (cause, moments) in std::mem::take(&mut self.causes) {
            let known = match cause {
                Cause::Socket { cookie, device } => owner(cookie).map(|owner| owner.cause(device)),
                _ => None,
            };
            self.causes.entry(known.unwrap_or(cause)).or_default().join(&moments);
        }
    }
}

impl CauseMoments {
    fn add(&mut self, other: &CauseMoments) {
        self.ns_squares += other.ns_squares;
        self.ns_products += other.ns_products;
        self.packets_squares += other.packets_squares;
        self.packets_products += other.packets_products;
    }

    /// Adds the moments of a second cause: the sum of (y + z)² is at most this, after Cauchy and Schwarz.
    fn join(&mut self, other: &CauseMoments) {
        let most = |y: f64, z: f64| (y.sqrt() + z.sqrt()).powi(2);
        self.ns_squares = most(self.ns_squares, other.ns_squares);
        self.packets_squares = most(self.packets_squares, other.packets_squares);
        self.ns_products += other.ns_products;
        self.packets_products += other.packets_products;
    }
}

impl Estimate {
    /// Completes the accounts of a CPU from their windows. Accounts without skipped polls stay unchanged, and
    /// have no errors.
    #[must_use]
    pub fn of(accounts: &Accounts, sample: &Sample) -> Self {
        let sum = |of: fn(&Cause) -> bool| -> u64 {
            accounts.caused.iter().filter(|(cause, _)| of(cause)).map(|(_, amount)| amount.ns).sum()
        };
        let (sampled_ns, skipped_ns) = (sum(is_poll_time), sum(is_skipped));
        let mut estimate = Self {
            accounts: accounts.clone(),
            windows: sample.windows,
            sampled_ns,
            skipped_ns,
            errors: BTreeMap::new(),
        };
        if sampled_ns == 0 || skipped_ns == 0 {
            return estimate;
        }
        let caused = &mut estimate.accounts.caused;
        caused.retain(|cause, _| !is_skipped(cause));
        let (mut up_to_ns, mut shared_ns) = (0, 0);
        for (cause, amount) in caused.iter_mut().filter(|(cause, _)| is_poll_time(cause)) {
            let error = sample.error(cause, *amount, sampled_ns, skipped_ns);
            estimate.errors.insert(*cause, error);
            // Rounded along the sum, so that no time is lost.
            up_to_ns += amount.ns;
            let now_ns = part(skipped_ns, up_to_ns, sampled_ns);
            amount.ns += now_ns - shared_ns;
            shared_ns = now_ns;
            amount.packets += part(skipped_ns, amount.packets, sampled_ns);
        }
        estimate
    }

    /// Whether only windows were sampled.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.windows > 0 || self.skipped_ns > 0
    }

    /// The standard error of a cause: 0 for an exact value, `None` with too few windows.
    #[must_use]
    pub fn error(&self, cause: &Cause) -> Option<StandardError> {
        let error = self.errors.get(cause).copied().unwrap_or_default();
        (!error.ns.is_nan()).then_some(error)
    }

    /// Adds the estimate of another CPU; the errors are assumed independent.
    pub fn add(&mut self, other: &Estimate) {
        self.accounts.add(&other.accounts);
        self.windows = self.windows.max(other.windows);
        self.sampled_ns += other.sampled_ns;
        self.skipped_ns += other.skipped_ns;
        for (cause, error) in &other.errors {
            let sum = self.errors.entry(*cause).or_default();
            sum.ns = sum.ns.hypot(error.ns);
            sum.packets = sum.packets.hypot(error.packets);
        }
    }
}

impl Sample {
    fn error(&self, cause: &Cause, of: Amount, sampled_ns: u64, skipped_ns: u64) -> StandardError {
        if self.windows < 2 {
            return StandardError { ns: f64::NAN, packets: f64::NAN };
        }
        let none = CauseMoments::default();
        let moments = self.causes.get(cause).unwrap_or(&none);
        let (x, all) = (sampled_ns as f64, (sampled_ns + skipped_ns) as f64);
        let n = self.windows as f64;
        let factor = (all / x).powi(2) * (skipped_ns as f64 / all) * n / (n - 1.0);
        let error = |sum: f64, squares: f64, products: f64| {
            let ratio = sum / x;
            let residuals = squares - 2.0 * ratio * products + ratio * ratio * self.squares;
            (factor * residuals.max(0.0)).sqrt()
        };
        StandardError {
            ns: error(of.ns as f64, moments.ns_squares, moments.ns_products),
            packets: error(of.packets as f64, moments.packets_squares, moments.packets_products),
        }
    }
}

/// `whole * of / all`, rounded down.
fn part(whole: u64, of: u64, all: u64) -> u64 {
    (u128::from(whole) * u128::from(of) / u128::from(all)) as u64
}
