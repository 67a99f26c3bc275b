//! The ledger from a sample: what all polls came to, and how far off that may be.
//!
//! A tracer that samples looks at the packets of polls that begin in windows, which are put at random
//! into equal stretches of time. Of all other polls it knows the time, and charges that to
//! [`Class::Unsampled`]. So all of a CPU's time is measured, and only whose it was is estimated: the time
//! of what was not looked at is divided as that of what was.
//!
//! This is ratio estimation from a sample of clusters (Cochran, Sampling Techniques, 1977, chapters 6 and
//! 9A). With `x` the time of all polls of a window, `y` that of one cause in it, `n` windows, and `T` the
//! time of all polls, looked at or not:
//!
//! ```text
//!   estimate  Y = T * R,  R = sum(y) / sum(x)
//!   its variance  (T / sum(x))^2 * (1 - sum(x) / T) * n / (n - 1) * sum((y - R x)^2)
//! ```
//! Of packets `y` is their number. Windows are taken to be drawn one independently of the other; that they
//! are spread evenly makes the estimate better than this says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Accounts, Amount, Cause, Class, Owner};

/// What the windows of a CPU came to, as far as errors need it. Those of several times add up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// How many windows there were.
    pub windows: u64,
    /// The sum of x², in square nanoseconds.
    pub squares: f64,
    /// Of each cause.
    pub causes: BTreeMap<Cause, Moments>,
}

/// Sums over windows of what a cause came to in each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Of time: y², in square nanoseconds.
    pub ns_squares: f64,
    /// Of time: x y, in square nanoseconds.
    pub ns_products: f64,
    /// Of packets: y².
    pub packets_squares: f64,
    /// Of packets: x y, in nanoseconds.
    pub packets_products: f64,
}

/// How far off an estimate is likely to be: one standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StandardError {
    /// Of the time, in nanoseconds.
    pub ns: f64,
    /// Of the number of packets.
    pub packets: f64,
}

/// Accounts that were completed from a sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// The accounts. What could not be estimated is still [`Class::Unsampled`].
    pub accounts: Accounts,
    /// Windows in which packets were looked at.
    pub windows: u64,
    /// Time of the polls that were looked at, in nanoseconds.
    pub looked_at_ns: u64,
    /// Time of those that were not.
    pub skipped_ns: u64,
    /// Not a number where nothing is known: fewer than two windows.
    errors: BTreeMap<Cause, StandardError>,
}

/// What a poll can come to when it is looked at; other softirqs are never skipped.
fn is_of_polls(cause: &Cause) -> bool {
    !matches!(cause, Cause::Unowned(Class::Softirq(_) | Class::Unsampled(_)))
}

fn is_skipped(cause: &Cause) -> bool {
    matches!(cause, Cause::Unowned(Class::Unsampled(_)))
}

impl Sample {
    /// Takes what one window came to.
    pub fn take(&mut self, window: &Accounts) {
        let looked_at = || window.caused.iter().filter(|(cause, _)| is_of_polls(cause));
        let x = looked_at().map(|(_, amount)| amount.ns).sum::<u64>() as f64;
        self.windows += 1;
        self.squares += x * x;
        for (cause, amount) in looked_at() {
            let (ns, packets) = (amount.ns as f64, amount.packets as f64);
            self.causes.entry(*cause).or_default().add(&Moments {
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

    /// As [`Accounts::resolve`]. In which windows two sockets of a process had packets is not known any
    /// more: it is taken to have been the same ones, which makes the error larger rather than smaller.
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

impl Moments {
    fn add(&mut self, other: &Moments) {
        self.ns_squares += other.ns_squares;
        self.ns_products += other.ns_products;
        self.packets_squares += other.packets_squares;
        self.packets_products += other.packets_products;
    }

    /// Of the sum of two causes: the sum of (y + z)² is at most this, after Cauchy and Schwarz.
    fn join(&mut self, other: &Moments) {
        let most = |y: f64, z: f64| (y.sqrt() + z.sqrt()).powi(2);
        self.ns_squares = most(self.ns_squares, other.ns_squares);
        self.packets_squares = most(self.packets_squares, other.packets_squares);
        self.ns_products += other.ns_products;
        self.packets_products += other.packets_products;
    }
}

impl Estimate {
    /// Completes the accounts of a CPU from the windows that they contain. Accounts in which nothing was
    /// skipped stay as they are, and without errors.
    #[must_use]
    pub fn of(accounts: &Accounts, sample: &Sample) -> Self {
        let sum = |of: fn(&Cause) -> bool| -> u64 {
            accounts.caused.iter().filter(|(cause, _)| of(cause)).map(|(_, amount)| amount.ns).sum()
        };
        let (looked_at_ns, skipped_ns) = (sum(is_of_polls), sum(is_skipped));
        let mut estimate = Self {
            accounts: accounts.clone(),
            windows: sample.windows,
            looked_at_ns,
            skipped_ns,
            errors: BTreeMap::new(),
        };
        if looked_at_ns == 0 || skipped_ns == 0 {
            return estimate;
        }
        let caused = &mut estimate.accounts.caused;
        caused.retain(|cause, _| !is_skipped(cause));
        let (mut up_to_ns, mut shared_ns) = (0, 0);
        for (cause, amount) in caused.iter_mut().filter(|(cause, _)| is_of_polls(cause)) {
            let error = sample.error(cause, *amount, looked_at_ns, skipped_ns);
            estimate.errors.insert(*cause, error);
            // Rounded along the sum, so that nothing is lost.
            up_to_ns += amount.ns;
            let now_ns = part(skipped_ns, up_to_ns, looked_at_ns);
            amount.ns += now_ns - shared_ns;
            shared_ns = now_ns;
            amount.packets += part(skipped_ns, amount.packets, looked_at_ns);
        }
        estimate
    }

    /// Whether packets were looked at in windows only.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.windows > 0 || self.skipped_ns > 0
    }

    /// The standard error of what a cause came to: 0 where that is exact, `None` where there were too few
    /// windows to tell.
    #[must_use]
    pub fn error(&self, cause: &Cause) -> Option<StandardError> {
        let error = self.errors.get(cause).copied().unwrap_or_default();
        (!error.ns.is_nan()).then_some(error)
    }

    /// Adds that of another CPU, whose errors are taken to be independent.
    pub fn add(&mut self, other: &Estimate) {
        self.accounts.add(&other.accounts);
        self.windows = self.windows.max(other.windows);
        self.looked_at_ns += other.looked_at_ns;
        self.skipped_ns += other.skipped_ns;
        for (cause, error) in &other.errors {
            let sum = self.errors.entry(*cause).or_default();
            sum.ns = sum.ns.hypot(error.ns);
            sum.packets = sum.packets.hypot(error.packets);
        }
    }
}

impl Sample {
    fn error(
        &self,
        cause: &Cause,
        of: Amount,
        looked_at_ns: u64,
        skipped_ns: u64,
    ) -> StandardError {
        if self.windows < 2 {
            return StandardError { ns: f64::NAN, packets: f64::NAN };
        }
        let none = Moments::default();
        let moments = self.causes.get(cause).unwrap_or(&none);
        let (x, all) = (looked_at_ns as f64, (looked_at_ns + skipped_ns) as f64);
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
