//! Estimates from a sample of polls, compared with the totals.

use onbeat_irq_core::charge::sample::{Estimate, Sample};
use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Process, Softirq,
};
use proptest::collection::vec;
use proptest::prelude::*;

const ETH0: Device = Device { netns: 1, index: 2 };

fn process(pid: u32) -> Cause {
    Cause::Process {
        process: Process { pid, start_ticks: 0 },
        device: ETH0,
        by: Attribution::Reader,
    }
}

fn skipped() -> Cause {
    Cause::Unowned(Class::Unsampled(ETH0))
}

fn accounts(amounts: impl IntoIterator<Item = (Cause, u64, u64)>) -> Accounts {
    let mut accounts = Accounts::default();
    for (cause, ns, packets) in amounts {
        let mut one = Accounts { measured_ns: ns, ..Accounts::default() };
        one.caused.insert(cause, Amount { ns, packets });
        accounts.add(&one);
    }
    accounts
}

fn caused_ns(accounts: &Accounts) -> u64 {
    accounts.owned_ns() + accounts.unowned_ns()
}

#[test]
fn an_estimate_by_hand() {
    // Two windows: 100 ns, of which 60 and 40; 100 ns, of which 80 and 20. 600 ns were skipped.
    let windows = [
        accounts([(process(1), 60, 6), (process(2), 40, 1)]),
        accounts([(process(1), 80, 8), (process(2), 20, 1)]),
    ];
    let mut sample = Sample::default();
    let mut all =
        accounts([(skipped(), 600, 9), (Cause::Unowned(Class::Softirq(Softirq::Rcu)), 77, 0)]);
    for window in &windows {
        sample.add_window(window);
        all.add(window);
    }
    let estimate = Estimate::of(&all, &sample);
    let amount = |cause| estimate.accounts.caused[&cause];
    assert_eq!(amount(process(1)), Amount { ns: 560, packets: 56 });
    assert_eq!(amount(process(2)), Amount { ns: 240, packets: 8 });
    assert!(!estimate.accounts.caused.contains_key(&skipped()));
    // R = 0.7, T = 800: (800 / 200)^2 * (1 - 200 / 800) * 2 * ((60 - 70)^2 + (80 - 70)^2) = 4800.
    let error = estimate.error(&process(1)).unwrap();
    assert!((error.ns - 4800f64.sqrt()).abs() < 1e-6, "{error:?}");
    // Packets: 16 * 0.75 * 2 * ((6 - 7)^2 + (8 - 7)^2) = 48; one in each window is no error at all.
    assert!((error.packets - 48f64.sqrt()).abs() < 1e-6, "{error:?}");
    assert!(estimate.error(&process(2)).unwrap().packets < 1e-6);
    // Causes that are never skipped are unchanged.
    let rcu = Cause::Unowned(Class::Softirq(Softirq::Rcu));
    assert_eq!(amount(rcu), Amount { ns: 77, packets: 0 });
    assert_eq!(estimate.error(&rcu).unwrap().ns, 0.0);
}

#[test]
fn one_window_gives_no_error_and_none_no_estimate() {
    let window = accounts([(process(1), 50, 5)]);
    let mut all = accounts([(skipped(), 100, 0)]);
    let none = Estimate::of(&all, &Sample::default());
    assert_eq!(none.accounts, all);
    all.add(&window);
    let mut sample = Sample::default();
    sample.add_window(&window);
    let one = Estimate::of(&all, &sample);
    assert_eq!(one.accounts.caused[&process(1)], Amount { ns: 150, packets: 15 });
    assert_eq!(one.error(&process(1)), None);
    // Nor has the sum with a known error.
    let mut sum = Estimate::of(&window, &Sample::default());
    sum.add(&one);
    assert_eq!(sum.error(&process(1)), None);
}

#[test]
fn resolved_sockets_do_not_reduce_errors() {
    let socket = |cookie| Cause::Socket { cookie, device: ETH0 };
    let reader = Process { pid: 1, start_ticks: 0 };
    let (mut apart, mut resolved) = (Sample::default(), Sample::default());
    for (a, b) in [(10, 30), (30, 10), (20, 5)] {
        apart.add_window(&accounts([(socket(1), a, 1), (socket(2), b, 2)]));
        resolved.add_window(&accounts([(process(1), a + b, 3)]));
    }
    apart.resolve(|_| Some(reader.into()));
    let (apart, resolved) = (apart.causes[&process(1)], resolved.causes[&process(1)]);
    assert!(apart.ns_squares >= resolved.ns_squares);
    assert_eq!(apart.ns_products, resolved.ns_products);
}

/// A deterministic generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(most)) >> 64) as u64
    }
}

/// Bursts of two processes, one as periodic as the windows: over many samples, estimates are right in the mean,
/// and their spread matches the stated error.
#[test]
fn estimates_are_unbiased_with_correct_errors() {
    const PERIOD: u64 = 10;
    const WINDOWS: u64 = 40;
    let mut numbers = Numbers(7);
    // The time of each slot, as long as a window.
    let slots: Vec<[u64; 2]> = (0..PERIOD * WINDOWS)
        .map(|slot| {
            let periodic = if slot % PERIOD == 3 { 9_000 } else { 100 };
            let bursty = if numbers.below(4) == 0 { numbers.below(20_000) } else { 500 };
            [periodic, bursty]
        })
        .collect();
    let truth: u64 = slots.iter().map(|slot| slot[0]).sum();
    let all: u64 = slots.iter().flatten().sum();
    let of = |slot: &[u64; 2]| accounts([(process(1), slot[0], 1), (process(2), slot[1], 1)]);
    let (mut sum, mut squares, mut stated) = (0.0, 0.0, 0.0);
    const SAMPLES: usize = 2_000;
    for _ in 0..SAMPLES {
        let (mut sample, mut seen) = (Sample::default(), Accounts::default());
        for period in slots.chunks(PERIOD as usize) {
            let window = of(&period[numbers.below(PERIOD) as usize]);
            sample.add_window(&window);
            seen.add(&window);
        }
        let sampled = caused_ns(&seen);
        seen.add(&accounts([(skipped(), all - sampled, 0)]));
        let estimate = Estimate::of(&seen, &sample);
        let off = estimate.accounts.caused[&process(1)].ns as f64 - truth as f64;
        sum += off;
        squares += off * off;
        stated += estimate.error(&process(1)).unwrap().ns.powi(2);
    }
    let (mean, error) = (sum / SAMPLES as f64, (squares / SAMPLES as f64).sqrt());
    let stated = (stated / SAMPLES as f64).sqrt();
    assert!(mean.abs() < truth as f64 * 0.05, "off by {mean} of {truth} in the mean");
    assert!((0.8..1.25).contains(&(stated / error)), "{stated} stated, {error} found");
}

proptest! {
    /// For any sample, all of the time is charged, and no CPU loses any.
    #[test]
    fn estimates_conserve_time(
        windows in vec(vec((0u32..5, 0u64..1 << 40, 0u64..1000), 0..6), 0..8),
        skipped_ns in 0u64..1 << 50,
    ) {
        let mut sample = Sample::default();
        let mut all = accounts([(skipped(), skipped_ns, 0)]);
        for window in &windows {
            let window = accounts(window.iter().map(|&(pid, ns, packets)| (process(pid), ns, packets)));
            sample.add_window(&window);
            all.add(&window);
        }
        let estimate = Estimate::of(&all, &sample);
        prop_assert_eq!(caused_ns(&estimate.accounts), caused_ns(&all));
        prop_assert_eq!(estimate.sampled_ns + estimate.skipped_ns, caused_ns(&all));
        for (cause, amount) in &estimate.accounts.caused {
            let seen = all.caused[cause];
            prop_assert!(amount.ns >= seen.ns && amount.packets >= seen.packets);
            let error = estimate.error(cause);
            prop_assert!(error.is_none_or(|error| error.ns >= 0.0 && error.ns.is_finite()));
        }
    }
}
