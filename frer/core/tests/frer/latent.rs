//! Latent error detection (7.4.4) under virtual time.

use onbeat_frer::counters::Counters;
use onbeat_frer::latent::{LatentError, LatentErrorDetector};
use onbeat_frer::spec::LatentErrorDetection;

const NS_PER_MS: u64 = 1_000_000;

const CONFIG: LatentErrorDetection =
    LatentErrorDetection { difference: 10, period_ms: 100, paths: 2, reset_period_ms: 1000 };

fn counted(passed: u64, discarded: u64) -> Counters {
    Counters { passed, discarded, ..Counters::default() }
}

fn at(ms: u64) -> u64 {
    5 + ms * NS_PER_MS
}

fn latent() -> LatentErrorDetector {
    LatentErrorDetector::new(&CONFIG, at(0), &Counters::default()).unwrap()
}

#[test]
fn equal_paths_raise_no_signal() {
    let mut latent = latent();
    for period in 1..=100 {
        let found = latent.poll(at(period * 100), &counted(period * 50, period * 50 - 3));
        assert_eq!(found, None, "period {period}");
    }
    assert_eq!(latent.counters().latent_error_resets, 10);
}

#[test]
fn a_silent_path_is_signaled_at_the_next_period() {
    let mut latent = latent();
    assert_eq!(latent.poll(at(99), &counted(50, 0)), None);
    let error = LatentError { difference: 50, allowed: 10 };
    assert_eq!(latent.poll(at(100), &counted(50, 0)), Some(error));
    assert_eq!(latent.poll(at(199), &counted(100, 0)), None);
    let error = LatentError { difference: 100, allowed: 10 };
    assert_eq!(latent.poll(at(200), &counted(100, 0)), Some(error));
}

#[test]
fn a_difference_above_the_allowed_one_signals_in_either_direction() {
    for (passed, discarded, difference) in
        [(20, 10, None), (21, 10, Some(11)), (10, 20, None), (10, 21, Some(-11))]
    {
        let found = latent().poll(at(100), &counted(passed, discarded));
        assert_eq!(found.map(|error| error.difference), difference, "{passed} {discarded}");
    }
}

#[test]
fn three_paths_require_two_discarded_replicas_per_packet() {
    let config = LatentErrorDetection { paths: 3, ..CONFIG };
    let mut latent = LatentErrorDetector::new(&config, at(0), &Counters::default()).unwrap();
    assert_eq!(latent.poll(at(100), &counted(100, 200)), None);
    assert_eq!(latent.poll(at(200), &counted(200, 300)).map(|e| e.difference), Some(100));
}

#[test]
fn a_reset_follows_a_test_due_at_the_same_time() {
    let mut latent = latent();
    assert!(latent.poll(at(1000), &counted(50, 0)).is_some());
    assert_eq!(latent.base_difference(), 50);
    assert_eq!(latent.counters().latent_error_resets, 1);
    // The earlier loss is no longer counted; new loss is signaled.
    assert_eq!(latent.poll(at(1100), &counted(100, 50)), None);
    assert!(latent.poll(at(1200), &counted(150, 50)).is_some());
}

#[test]
fn it_starts_from_the_present_counters() {
    let mut latent = LatentErrorDetector::new(&CONFIG, at(0), &counted(1000, 0)).unwrap();
    assert_eq!(latent.base_difference(), 1000);
    assert_eq!(latent.poll(at(100), &counted(1100, 100)), None);
    assert_eq!(latent.counters().latent_error_resets, 0);
}

#[test]
fn deadlines_stay_on_their_grid_and_a_late_poll_runs_each_action_once() {
    let mut latent = latent();
    assert_eq!(latent.next_deadline(), at(100));
    latent.poll(at(130), &counted(0, 0));
    assert_eq!(latent.next_deadline(), at(200));
    assert!(latent.poll(at(3450), &counted(50, 0)).is_some());
    assert_eq!(latent.counters().latent_error_resets, 1);
    assert_eq!(latent.next_deadline(), at(3500));
    for period in 36..=40 {
        latent.poll(at(period * 100), &counted(50, 0));
    }
    assert_eq!(latent.counters().latent_error_resets, 2);
}

#[test]
fn periods_of_one_millisecond() {
    let config = LatentErrorDetection { period_ms: 1, reset_period_ms: 1, ..CONFIG };
    let mut latent = LatentErrorDetector::new(&config, at(0), &Counters::default()).unwrap();
    assert!(latent.poll(at(1), &counted(11, 0)).is_some());
    assert_eq!(latent.poll(at(2), &counted(22, 11)), None);
    assert_eq!(latent.counters().latent_error_resets, 2);
}

#[test]
fn the_largest_counters_do_not_overflow() {
    let config = LatentErrorDetection { paths: u16::MAX, ..CONFIG };
    let mut latent = LatentErrorDetector::new(&config, at(0), &counted(0, u64::MAX)).unwrap();
    let found = latent.poll(u64::MAX, &counted(u64::MAX, 0)).unwrap();
    assert_eq!(found.difference, i64::MAX);
    assert_eq!(latent.next_deadline(), u64::MAX);
}

#[test]
fn an_error_lasts_until_a_reset_period_without_a_signal() {
    let mut latent = latent();
    let mut passed = 0;
    let mut discarded = 0;
    // One test period: the passed packets, and of how many the second replica arrives.
    let mut period = |latent: &mut LatentErrorDetector, period: u64, of: u64, replicas: u64| {
        passed += of;
        discarded += replicas;
        latent.poll(at(period * 100), &counted(passed, discarded)).is_some()
    };
    for n in 1..=4 {
        assert!(!period(&mut latent, n, 3, 3) && !latent.is_active());
    }
    // A slow stream: three packets per period, so that each new base has to be exceeded again.
    let signals: Vec<bool> = (5..=30).map(|n| period(&mut latent, n, 3, 0)).collect();
    assert!(latent.is_active());
    assert!(signals[3..].iter().any(|signal| !signal), "no test without a signal");
    // From here on both paths deliver; the difference to the former base still signals.
    for n in 31..=39 {
        period(&mut latent, n, 3, 3);
        assert!(latent.is_active(), "period {n}");
    }
    assert!(!period(&mut latent, 40, 3, 3));
    assert!(!latent.is_active());
}
