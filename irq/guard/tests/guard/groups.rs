//! Processes that share a budget, and try to evade it.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::RcvBuf};
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::policy::{Budget, Limit, Rank};
use onbeat_irq_guard::{BudgetScope, Event, Rule, Usage};
use onbeat_testing::require_that;

use crate::evaders::{FILTER_STEPS, set_filter};
use crate::harness::{Flow, World};
use crate::hostile::{SMALL, flood_until_limited, possible, usage, wait_for_earlier_packets};
use crate::kernel::turn;
use crate::reader::{Reader, without_forks};
use crate::running::RunningGuard;

fn shared(per: BudgetScope) -> Vec<Rule> {
    vec![Rule { per, ..Rule::any(SMALL) }]
}

/// Some packets per second.
const SOME: Budget = Budget { ns_per_s: 100_000 };

fn this_process() -> Process {
    onbeat_irq::names::process(std::process::id()).unwrap()
}

/// The packets of a socket that this process can read now.
fn read(flow: &Flow) -> u32 {
    flow.reader.set_nonblocking(true).unwrap();
    (0..).take_while(|_| flow.reader.recv(&mut [0; 2048]).is_ok()).count() as u32
}

/// Reads one octet of standard input, in a new process.
fn commands() -> Vec<Command> {
    let words: [&[&str]; 5] = [
        &["head", "-c", "1"],
        // Another name, by exec.
        &["bash", "-c", "exec -a other head -c 1"],
        // Without its parent, in a session of its own.
        &["setsid", "--wait", "sh", "-c", "(head -c 1; :)"],
        // New namespaces of users, processes and control groups.
        &["unshare", "--user", "--cgroup", "--pid", "--fork", "--kill-child", "head", "-c", "1"],
        // As an unprivileged user, by that namespace.
        &["unshare", "--user", "--map-user=65534", "head", "-c", "1"],
    ];
    let try_unshare = || Command::new("unshare").args(["--user", "true"]).status();
    let allowed = try_unshare().is_ok_and(|status| status.success());
    let allowed = require_that(allowed, "user namespaces (the kernel refuses them in a chroot)");
    let command = |words: &&[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdout(Stdio::null());
        command
    };
    words.iter().filter(|words| allowed || words[0] != "unshare").map(command).collect()
}

/// Processes that a member starts have its limit before the guard knows them.
#[test]
fn new_processes_of_a_group_have_its_limit_at_once() {
    const PACKETS: u32 = 200;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    for per in [BudgetScope::User, BudgetScope::Cgroup, BudgetScope::Rule] {
        let world = World::with_napi();
        let guard = RunningGuard::start(&world, |config| {
            config.budgets = vec![Rule { per, ..Rule::any(SOME) }];
        });
        let first = world.flow();
        let halted = Cell::new(None);
        guard.wait_for("limit", || {
            drop(halted.take());
            first.send(100, 100);
            read(&first);
            halted.set(Some(guard.halt()));
            usage(&guard, this_process()).is_some_and(|usage| usage.limit != Limit::None)
        });
        for mut command in commands() {
            let flow = world.flow();
            setsockopt(&flow.reader, RcvBuf, &(4 << 20)).unwrap();
            let mut child = {
                let _forks = without_forks();
                let stdin = OwnedFd::from(flow.reader.try_clone().unwrap());
                command.stdin(stdin).spawn().unwrap()
            };
            let status = loop {
                flow.send(1, 1);
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert!(status.success(), "{command:?}");
            flow.send(PACKETS, 100);
            wait_for_earlier_packets(&world);
            let passed = read(&flow);
            assert!(passed < PACKETS / 2, "{per:?} {command:?}: {passed} packets");
        }
        drop(halted);
        guard.stop();
    }
}

/// Each reads the same socket for a moment and exits, while the guard scans them. Between two of them, the socket has the
/// limit of the last one: its buffer, of some hundred packets, does not fill.
#[test]
fn processes_that_read_a_socket_in_turn_have_one_limit() {
    const TURNS: usize = 24;
    const OCTETS: usize = 64;
    const BUFFER: usize = 100;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let guard = RunningGuard::start(&world, |config| config.budgets = shared(BudgetScope::Rule));
    guard.wait_for("limit", || {
        flow.send(10, OCTETS);
        read(&flow);
        usage(&guard, this_process()).is_some_and(|usage| usage.limit != Limit::None)
    });
    flow.reader.set_nonblocking(false).unwrap();
    let read_for_a_moment = |_| {
        let mut child = {
            let _forks = without_forks();
            let mut command = Command::new("timeout");
            let stdin = OwnedFd::from(flow.reader.try_clone().unwrap());
            command.args(["0.1", "cat"]).stdin(stdin).stdout(Stdio::piped()).spawn().unwrap()
        };
        while child.try_wait().unwrap().is_none() {
            flow.send(10, OCTETS);
        }
        child.wait_with_output().unwrap().stdout.len() / OCTETS
    };
    let passed: Vec<usize> = (0..TURNS).map(read_for_a_moment).collect();
    let filled = passed.iter().filter(|packets| **packets >= BUFFER).count();
    assert!(filled <= TURNS / 8, "packets of each: {passed:?}");
    guard.stop();
}

/// Any number of processes, of any name, has one limit.
#[test]
fn many_processes_of_a_group_have_one_limit() {
    const PROCESSES: usize = 260;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let name = |at: usize| [c"one", c"two", c"three"][at % 3];
    let mut readers: Vec<Reader> =
        (0..PROCESSES).map(|at| Reader::named(&flow.reader, Some(name(at)))).collect();
    let guard = RunningGuard::start(&world, |config| config.budgets = shared(BudgetScope::User));
    guard.wait_for("budgets", || guard.usage().len() > PROCESSES);
    flood_until_limited(&guard, &flow, &mut readers[0]);
    let usages = guard.usage();
    let first = usages[0].limit;
    let is_same = |usage: &Usage| {
        (usage.limit, usage.group.as_deref(), usage.shared) == (first, Some("user 0"), false)
    };
    assert!(usages.iter().all(is_same), "{usages:?}");
    let full = |event: &Event| matches!(event, Event::LimitsFull { .. });
    assert!(!guard.events().iter().any(full));
    guard.stop();
}

/// A flood for another process of the group takes no packet from a process within its share, also where its packets cost
/// many times more than before now and then.
#[test]
fn a_member_keeps_its_share_beside_a_flood() {
    const PACKETS: u32 = 100;
    // Less than the queue of the interface has room for.
    const FLOOD: u32 = 150;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let (greedy, modest) = (world.flow(), world.flow());
    let mut reader = Reader::of(&greedy.reader);
    // Also on a slow machine the modest process is within its share: it receives less than 100 packets/s, of the time
    // for 4,000. A packet alone in a poll costs more than one of many.
    let started = Instant::now();
    greedy.send(1_000, 100);
    wait_for_earlier_packets(&world);
    let ns_per_s = (4 * started.elapsed().as_nanos() as u64).clamp(20_000_000, 200_000_000);
    let guard = RunningGuard::start(&world, |config| {
        let budget = Budget { ns_per_s };
        config.budgets = vec![Rule { per: BudgetScope::Rule, ..Rule::any(budget) }];
        config.settings.floor = Rank::Realtime { priority: 2 };
    });
    guard.wait_for("budgets", || {
        [reader.process, this_process()].iter().all(|one| usage(&guard, *one).is_some())
    });
    flood_until_limited(&guard, &greedy, &mut reader);
    let mut passed = 0;
    for at in 0..PACKETS {
        set_filter(greedy.reader.as_raw_fd(), if at % 10 == 0 { FILTER_STEPS } else { 1 });
        greedy.send(FLOOD, 100);
        modest.send(1, 100);
        // The pace of a process within its share, not a wait for a condition.
        std::thread::sleep(Duration::from_millis(10));
        passed += read(&modest);
    }
    wait_for_earlier_packets(&world);
    passed += read(&modest);
    let usage = usage(&guard, this_process()).unwrap();
    assert!(usage.limit != Limit::None && usage.dropped > 0, "{usage:?}");
    assert!(passed >= PACKETS * 9 / 10, "{passed} of {PACKETS} packets: {usage:?}");
    guard.stop();
}

/// A process that receives a packet now and then, such as a heartbeat, gets it beside a flood for another process of the
/// group.
#[test]
fn a_member_with_rare_packets_gets_them_beside_a_flood() {
    const PACKETS: u32 = 10;
    // The guard regards a process as one that returns after two epochs of 100 ms.
    const REST: Duration = Duration::from_millis(250);
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let (greedy, rare) = (world.flow(), world.flow());
    let mut reader = Reader::of(&greedy.reader);
    let guard = RunningGuard::start(&world, |config| {
        let budget = Budget { ns_per_s: 20_000_000 };
        config.budgets = vec![Rule { per: BudgetScope::Rule, ..Rule::any(budget) }];
    });
    guard.wait_for("budgets", || {
        [reader.process, this_process()].iter().all(|one| usage(&guard, *one).is_some())
    });
    flood_until_limited(&guard, &greedy, &mut reader);
    let mut passed = 0;
    for _ in 0..PACKETS {
        let end = Instant::now() + REST;
        while Instant::now() < end {
            greedy.send(100, 100);
        }
        rare.send(1, 100);
        wait_for_earlier_packets(&world);
        passed += read(&rare);
    }
    assert!(usage(&guard, this_process()).unwrap().limit != Limit::None);
    // One that a busy machine interrupts costs more than the share of a second.
    assert!(passed >= PACKETS / 2, "{passed} of {PACKETS} packets");
    guard.stop();
}

/// Each group has its own limit.
#[test]
fn groups_by_name_have_a_limit_each() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let (greedy, modest) = (world.flow(), world.flow());
    let mut first = Reader::named(&greedy.reader, Some(c"greedy"));
    let second = Reader::named(&modest.reader, Some(c"modest"));
    let guard = RunningGuard::start(&world, |config| config.budgets = shared(BudgetScope::Command));
    let of = |process| usage(&guard, process).and_then(|usage| usage.group);
    guard.wait_for("budgets", || of(second.process).as_deref() == Some("command modest"));
    guard.wait_for("budgets", || of(first.process).as_deref() == Some("command greedy"));
    flood_until_limited(&guard, &greedy, &mut first);
    let innocent = usage(&guard, second.process).unwrap();
    assert_eq!((innocent.limit, innocent.dropped), (Limit::None, 0));
    guard.stop();
}

/// A rule of one user is for no other.
#[test]
fn a_budget_of_a_user_is_for_its_processes_only() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut reader = Reader::of(&flow.reader);
    let budget = Budget { ns_per_s: 1_000 };
    let guard = RunningGuard::start(&world, |config| {
        let of = |user, budget| Rule { user: Some(user), ..Rule::any(budget) };
        config.budgets = vec![of(65534, SMALL), of(0, Budget { ns_per_s: 2_000 }), of(0, budget)];
    });
    guard.wait_for("budget", || usage(&guard, reader.process).is_some());
    assert_eq!(usage(&guard, reader.process).unwrap().budget.ns_per_s, 2_000);
    flood_until_limited(&guard, &flow, &mut reader);
    guard.stop();
}
