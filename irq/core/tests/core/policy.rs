//! Decisions of the guard as a table: step, time, and the resulting changes.

use onbeat_irq_core::policy::{Change, ConfigError, Policy, Rank, Reason, Settings, runs_now};

const NORMAL: Rank = Rank::Normal { nice: 0 };
const MS: u64 = 1_000_000;

fn rt(priority: u8) -> Rank {
    Rank::Realtime { priority }
}

#[derive(Debug)]
enum PolicyStep {
    Wait(&'static str, u32, Rank),
    Leave(&'static str, u32),
    SetRank(u32, Rank),
    Exit(u32),
    Add(&'static str, Rank),
    Remove(&'static str),
    Nothing,
}

type Row<'a> = (u64, PolicyStep, &'a [(&'static str, Rank, Reason<u32>)]);

/// Runs a table against eth0 and eth1, both at the normal policy; times in milliseconds.
fn run(settings: Settings, table: &[Row<'_>]) {
    let mut policy = Policy::new(settings).unwrap();
    let mut ranks = std::collections::BTreeMap::from([("eth0", NORMAL), ("eth1", NORMAL)]);
    ranks.iter().for_each(|(device, rank)| policy.add_device(*device, *rank));
    for (row, (ms, step, expected)) in table.iter().enumerate() {
        match step {
            PolicyStep::Wait(device, waiter, rank) => policy.add_waiter(device, *waiter, *rank),
            PolicyStep::Leave(device, waiter) => policy.remove_waiter(device, *waiter),
            PolicyStep::SetRank(waiter, rank) => policy.set_rank(*waiter, *rank),
            PolicyStep::Exit(waiter) => policy.remove_process(*waiter),
            PolicyStep::Add(device, rank) => {
                ranks.insert(device, *rank);
                policy.add_device(device, *rank);
            }
            PolicyStep::Remove(device) => policy.remove_device(device),
            PolicyStep::Nothing => {}
        }
        let changes = policy.changes(ms * MS);
        let expected: Vec<_> = expected
            .iter()
            .map(|(device, to, reason)| {
                let from = ranks.insert(device, *to).expect("a device of the table");
                Change { device: *device, from, to: *to, reason: *reason }
            })
            .collect();
        assert_eq!(changes, expected, "row {row}: {ms} ms, {step:?}");
        assert_eq!(policy.changes(ms * MS), [], "row {row}: a change is returned once");
    }
}

#[test]
fn a_device_has_the_highest_priority_that_waits() {
    use PolicyStep::*;
    use Reason::{Ceiling, Floor, Waiter};
    run(
        Settings::default(),
        &[
            (0, Nothing, &[]),
            // Raised at once, and only on the device with the waiting process.
            (1, Wait("eth0", 1, rt(50)), &[("eth0", rt(50), Waiter(1))]),
            (2, Wait("eth0", 2, rt(20)), &[]),
            (3, Wait("eth0", 3, rt(80)), &[("eth0", rt(80), Waiter(3))]),
            (4, Wait("eth1", 3, NORMAL), &[]),
            // Lowered after the hold time, to the rank that is right by then.
            (5, Leave("eth0", 3), &[]),
            (104, Nothing, &[]),
            (105, Nothing, &[("eth0", rt(50), Waiter(1))]),
            // A process that returns within the hold time changes nothing,
            (110, Leave("eth0", 1), &[]),
            (150, Wait("eth0", 1, rt(50)), &[]),
            (220, Nothing, &[]),
            // and the hold time restarts.
            (230, Leave("eth0", 1), &[]),
            (329, Nothing, &[]),
            (330, Nothing, &[("eth0", rt(20), Waiter(2))]),
            // A priority change applies to all devices; so does an exit.
            (340, Wait("eth1", 2, rt(20)), &[("eth1", rt(20), Waiter(2))]),
            (350, SetRank(2, rt(60)), &[("eth0", rt(60), Waiter(2)), ("eth1", rt(60), Waiter(2))]),
            (360, Exit(2), &[]),
            (460, Nothing, &[("eth0", NORMAL, Floor), ("eth1", NORMAL, Floor)]),
            // Not above the ceiling.
            (500, Wait("eth0", 4, rt(99)), &[("eth0", rt(98), Ceiling(4))]),
            (501, Wait("eth0", 5, Rank::Deadline), &[]),
            // Not below the floor.
            (502, Wait("eth1", 6, Rank::Idle), &[]),
            (
                503,
                Wait("eth1", 7, Rank::Normal { nice: -5 }),
                &[("eth1", Rank::Normal { nice: -5 }, Waiter(7))],
            ),
            // A device that was removed, and returned with another thread.
            (510, Remove("eth0"), &[]),
            (520, Wait("eth0", 4, rt(10)), &[]),
            (530, Add("eth0", NORMAL), &[]),
            (540, Wait("eth0", 4, rt(10)), &[("eth0", rt(10), Waiter(4))]),
            // Another process changed it, or our change failed: it is due again.
            (550, Add("eth0", NORMAL), &[("eth0", rt(10), Waiter(4))]),
        ],
    );
}

#[test]
fn a_configured_floor_and_ceiling_apply() {
    use Reason::{Ceiling, Floor, Waiter};
    run(
        Settings { floor: rt(10), ceiling: rt(40), hold_ns: 0 },
        &[
            (0, PolicyStep::Nothing, &[("eth0", rt(10), Floor), ("eth1", rt(10), Floor)]),
            (1, PolicyStep::Wait("eth0", 1, rt(5)), &[]),
            (2, PolicyStep::Wait("eth0", 1, rt(30)), &[("eth0", rt(30), Waiter(1))]),
            (3, PolicyStep::Wait("eth0", 2, rt(70)), &[("eth0", rt(40), Ceiling(2))]),
            (4, PolicyStep::Exit(2), &[("eth0", rt(30), Waiter(1))]),
            (5, PolicyStep::Exit(1), &[("eth0", rt(10), Floor)]),
        ],
    );
}

#[test]
fn a_held_priority_has_a_deadline() {
    let mut policy = Policy::new(Settings::default()).unwrap();
    policy.add_device("eth0", NORMAL);
    policy.add_waiter("eth0", 1, rt(50));
    policy.changes(0);
    assert_eq!(policy.next_deadline_ns(), None);
    assert!(policy.has_waiters("eth0"));
    policy.remove_process(1);
    assert!(!policy.has_waiters("eth0"));
    policy.changes(7);
    let deadline = policy.next_deadline_ns().expect("a priority is held");
    assert_eq!(policy.changes(deadline - 1), []);
    assert_eq!(policy.changes(deadline).len(), 1);
    assert_eq!(policy.next_deadline_ns(), None);
}

#[test]
fn contradicting_settings_are_refused() {
    let new = |floor, ceiling| {
        Policy::<u8, u8>::new(Settings { floor, ceiling, hold_ns: 0 }).map(drop).unwrap_err()
    };
    let error = new(rt(50), rt(40));
    assert_eq!(error, ConfigError::Empty { floor: rt(50), ceiling: rt(40) });
    assert!(error.to_string().starts_with("floor real-time 50 is above ceiling real-time 40"));
    assert_eq!(new(NORMAL, Rank::Deadline), ConfigError::NotForNapi(Rank::Deadline));
    assert_eq!(new(Rank::Deadline, rt(1)), ConfigError::NotForNapi(Rank::Deadline));
}

/// The paper's step 3, by its three slides: the bottom half for a process of higher priority runs, that for one
/// of lower priority waits.
#[test]
fn softirq_work_runs_if_its_priority_is_higher() {
    for (bottom_half, running, runs) in [
        (rt(50), rt(40), true),
        (rt(40), rt(50), false),
        (rt(50), rt(50), false),
        (NORMAL, rt(1), false),
        (rt(1), NORMAL, true),
        (rt(98), Rank::Deadline, false),
        (NORMAL, Rank::Idle, true),
    ] {
        assert_eq!(runs_now(bottom_half, running), runs, "{bottom_half} while {running} runs");
    }
}
