//! Random worlds: no frame is lost, none is delivered twice where the rule promises it, none is sent on.

use super::MS;
use super::world::{Discard, Plan, Verdict, World};

fn assert_good(plan: &Plan) -> Verdict {
    let verdict = World::run(plan);
    assert_eq!((verdict.lost, verdict.twice, verdict.returned), (0, 0, 0), "{plan:?}");
    verdict
}

#[test]
fn random_worlds_lose_no_frame_and_deliver_none_twice() {
    let (mut checked, mut passed) = (0, 0);
    for seed in 0..24 {
        let verdict = assert_good(&Plan::random(seed));
        checked += verdict.checked;
        passed += verdict.passed;
    }
    assert!(checked > 300_000 && passed > 1000, "{checked} {passed}");
}

#[test]
fn connected_and_crossed_lans_make_no_storm() {
    for (seed, has_crossed) in [(100, false), (101, true)] {
        let plan = Plan { is_connected: true, has_crossed, duplication: 0.3, ..Plan::random(seed) };
        assert_good(&plan);
    }
}

/// 20 % and 80 % loss, 20 ms and 50 ms.
fn lossy(discard: Discard) -> Plan {
    Plan {
        discard,
        frames: 6000,
        interval_ns: MS,
        forget_ms: 400,
        delay_ns: [(20 * MS, 5 * MS), (50 * MS, 5 * MS)],
        loss: [0.8, 0.2],
        duplication: 0.0,
        is_connected: false,
        has_crossed: false,
        restarts: false,
        cuts: false,
        seed: 7,
    }
}

#[test]
fn the_oracle_detects_a_discard_that_is_off_and_one_by_a_drop_window() {
    assert_good(&lossy(Discard::Entity));
    let off = World::run(&lossy(Discard::Off));
    assert!(off.twice > 100 && off.lost == 0, "{off:?}");
    let window = World::run(&lossy(Discard::DropWindow));
    assert!(window.lost > 100, "{window:?}");
}
