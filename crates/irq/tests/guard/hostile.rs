//! What processes do to be without a budget, or to keep the guard from seeing.

use std::cell::Cell;
use std::ffi::CStr;
use std::net::UdpSocket;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq::charge::Process;
use onbeat_irq::guard::{Config, Event, Rule, Usage, run};
use onbeat_irq::policy::{Budget, Limit, Settings};
use onbeat_netdev::testing::{Feature, require_all};
use onbeat_realtime::host::PutBack;

use crate::harness::{BOUND, Flow, World};
use crate::kernel::{has, set_fifo, turn};
use crate::reader::Reader;
use crate::running::Running;

/// Less than any packet costs.
const SMALL: Budget = Budget { ns_per_s: 1_000 };

fn any(budget: Budget) -> Vec<Rule> {
    vec![Rule { command: None, cgroup: None, budget }]
}

fn possible() -> bool {
    require_all(&[Feature::Kernel(6, 6), Feature::Softirqs])
}

fn usage(guard: &Running, of: Process) -> Option<Usage> {
    guard.usage().into_iter().find(|usage| usage.process == of)
}

/// Floods a reader until its packets are dropped early.
fn flood_until_limited(guard: &Running, flow: &Flow, reader: &mut Reader) {
    reader.begin(u32::MAX);
    let before = usage(guard, reader.process).map_or(0, |usage| usage.dropped);
    guard.wait_for("packets dropped early", || {
        flow.send(100, 100);
        usage(guard, reader.process).is_some_and(|usage| usage.dropped > before)
    });
}

/// No text, and a line feed and an escape for a terminal in it.
const NAME: &CStr = c"\xff\xfe\x1b[2J\n";
const WRITTEN: &str = "\\xff\\xfe\\x1b[2J\\x0a";

#[test]
fn a_name_that_is_no_text_keeps_no_process_from_its_budget() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    for command in [None, Some(WRITTEN)] {
        let world = World::with_napi();
        let flow = world.flow();
        let mut reader = Reader::named(&flow.reader, Some(NAME));
        let rule = Rule { command: command.map(str::to_owned), cgroup: None, budget: SMALL };
        let guard = Running::start(&world, |config| config.budgets = vec![rule]);
        guard.wait_for("budget", || usage(&guard, reader.process).is_some());
        flood_until_limited(&guard, &flow, &mut reader);
        let usage = usage(&guard, reader.process).unwrap();
        assert_eq!(usage.command, WRITTEN);
        let json = serde_json::to_string(&usage).unwrap();
        assert!(json.contains(r#""command":"\\xff\\xfe\\x1b[2J\\x0a""#), "{json}");
        guard.end();
    }
}

/// More processes than there are numbers for: those beyond have a budget together.
#[test]
fn no_process_is_one_too_many_for_a_budget() {
    const PROCESSES: usize = 270;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut readers: Vec<Reader> = (0..PROCESSES).map(|_| Reader::of(&flow.reader)).collect();
    let guard = Running::start(&world, |config| config.budgets = any(SMALL));
    guard.wait_for("budgets", || guard.usage().len() > PROCESSES);
    let full = |event: &Event| matches!(event, Event::LimitsFull { processes: 254 });
    assert_eq!(guard.events().iter().filter(|event| full(event)).count(), 1);
    let shared = guard.usage().into_iter().filter(|usage| usage.shared);
    let shared: Vec<Process> = shared.map(|usage| usage.process).collect();
    assert_eq!(shared.len(), PROCESSES + 1 - 254);
    let greedy = readers.iter_mut().find(|reader| shared.contains(&reader.process)).unwrap();
    flood_until_limited(&guard, &flow, greedy);
    // They get numbers of their own once those of others are free.
    let greedy = greedy.process;
    readers.retain(|reader| reader.process == greedy);
    guard.wait_for("number of its own", || usage(&guard, greedy).is_some_and(|one| !one.shared));
    guard.end();
}

/// More processes than the kernel's table has entries for: those beyond have the strictest budget together,
/// also where no process has the rule of that budget.
#[test]
fn processes_beyond_the_table_share_the_strictest_budget() {
    const ROWS: u32 = 4;
    const LARGE: Budget = Budget { ns_per_s: 1_000_000_000 };
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let named = |_| Reader::named(&flow.reader, Some(NAME));
    let mut readers: Vec<Reader> = (0..ROWS + 2).map(named).collect();
    let rule = |command: &str, budget| Rule { command: Some(command.into()), cgroup: None, budget };
    let guard = Running::start(&world, |config| {
        config.budgets = vec![rule(WRITTEN, LARGE), rule("no-process", SMALL)];
        config.process_rows = Some(ROWS);
    });
    guard.wait_for("budgets", || guard.usage().len() == readers.len());
    let (beyond, within): (Vec<_>, Vec<_>) =
        guard.usage().into_iter().partition(|usage| usage.shared);
    assert_eq!((within.len(), beyond.len()), (ROWS as usize, 2));
    assert!(within.iter().all(|usage| usage.budget == LARGE), "{within:?}");
    assert!(beyond.iter().all(|usage| usage.budget == SMALL), "{beyond:?}");
    let at = readers.iter().position(|reader| reader.process == beyond[0].process).unwrap();
    flood_until_limited(&guard, &flow, &mut readers[at]);
    let full = |event: &&Event| matches!(event, Event::TableFull { .. } | Event::LimitsFull { .. });
    let events = guard.events();
    let events: Vec<&Event> = events.iter().filter(full).collect();
    assert_eq!(events, [&Event::TableFull { processes: ROWS.into() }]);
    // It gets an entry, and the budget of its own rule, once those of others are free.
    let greedy = beyond[0].process;
    readers.retain(|reader| reader.process == greedy);
    guard.wait_for("entry", || {
        usage(&guard, greedy).is_some_and(|one| !one.shared && one.budget == LARGE)
    });
    guard.end();
}

/// Sockets of their own, with a packet each, that live shortly: more rows than the ledger has.
#[test]
fn a_full_ledger_makes_budgets_limits_and_rows_of_what_is_gone_make_room() {
    const ROWS: u32 = 64;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut reader = Reader::of(&flow.reader);
    let to = flow.reader.local_addr().unwrap().ip();
    let short = |count: u32| {
        for _ in 0..count {
            let bind = || UdpSocket::bind((to, 0)).unwrap();
            let socket = world.receiver.namespace().run(bind).unwrap();
            flow.writer.send_to(&[0; 64], socket.local_addr().unwrap()).unwrap();
        }
    };
    let guard = Running::start(&world, |config| {
        config.budgets = any(SMALL);
        config.ledger_rows = Some(ROWS);
    });
    guard.wait_for("budget", || usage(&guard, reader.process).is_some());
    let limit = || usage(&guard, reader.process).unwrap().limit;
    // Nothing has come for it, but what did not fit might have been its packets.
    guard.wait_for("limit of a process whose account may be missing", || {
        short(ROWS);
        limit() != Limit::None
    });
    let full = |event: &Event| matches!(event, Event::LedgerFull { unrecorded_ns: 1.. });
    assert!(guard.events().iter().any(full), "{:?}", guard.events());
    guard.wait_for("room", || limit() == Limit::None);
    // What it causes is found by a row of its own: many times what the table holds was there before.
    for _ in 0..4 {
        short(ROWS);
        guard.wait_for("room", || limit() == Limit::None);
    }
    flood_until_limited(&guard, &flow, &mut reader);
    guard.end();
}

/// It never reads, so that only its wake-up shows who it may be for.
#[test]
fn an_owner_that_is_only_inferred_is_never_limited() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let (waited_for, read) = (world.flow(), world.flow());
    let guard = Running::start(&world, |config| config.budgets = any(SMALL));
    let mut waits = Reader::of(&waited_for.reader);
    let mut reads = Reader::of(&read.reader);
    guard.wait_for("budgets", || guard.usage().len() == 3);
    // The one packet costs more than the budget.
    waits.wait();
    waited_for.send(1, 100);
    waits.finish();
    reads.begin(u32::MAX);
    let held_against = Cell::new(None);
    guard.wait_for("limit of the reader", || {
        read.send(100, 100);
        let waits = usage(&guard, waits.process).expect("it lives");
        if (waits.limit, waits.caused_ns_per_s, waits.dropped) != (Limit::None, 0, 0) {
            held_against.set(Some(waits));
        }
        usage(&guard, reads.process).is_some_and(|usage| usage.dropped > 0)
    });
    assert_eq!(held_against.take(), None);
    guard.end();
}

/// A process of an unprivileged user that uses all of the CPU that it gets.
struct Busy(Pid);

impl Busy {
    fn start() -> Self {
        // SAFETY: the child makes system calls only, and is killed.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => loop {
                // SAFETY: numbers only; without that user it would not be the test.
                if unsafe { libc::getuid() == 0 && libc::setuid(65534) != 0 } {
                    // SAFETY: it does not return.
                    unsafe { libc::_exit(1) };
                }
                for n in 0..1_000_000_u32 {
                    std::hint::black_box(n);
                }
            },
            ForkResult::Parent { child } => Self(child),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// A pause that the guard requests, and the state of its thread then.
#[derive(Debug, Clone, Copy)]
struct Pause {
    length: Duration,
    /// CPU time of the thread since the pause before.
    cpu_time: Duration,
    policy: libc::c_int,
}

impl Pause {
    /// Of the calling thread, which had used `last` at the pause before.
    fn new(length: Duration, last: &mut Duration) -> Self {
        let now = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        // SAFETY: numbers only.
        let policy = unsafe { libc::sched_getscheduler(0) };
        Self { length, cpu_time: now - std::mem::replace(last, now), policy }
    }
}

/// No process decides when the next scan is: each pause depends on the CPU time of the scan alone, and is
/// bounded; the thread runs before all normal ones. A scan of 100,000 files uses 50 ms of a CPU and lasts
/// eight times as long beside eight processes: by the wall clock the guard requested a pause of 20 s then.
#[test]
fn busy_processes_do_not_blind_the_guard() {
    const SOCKETS: usize = 10_000;
    const INTERVAL: Duration = Duration::from_millis(100);
    let Some(_turn) = turn() else { return };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let _busy: Vec<Busy> = (0..8 * cpus).map(|_| Busy::start()).collect();
    let world = World::with_napi();
    let Some(sockets) = crate::kernel::many_sockets(&world, SOCKETS) else { return };
    let readers: Vec<Reader> = sockets.iter().take(10).map(Reader::of).collect();
    let settings = Settings { hold_ns: 0, ..Settings::default() };
    let config = Config { interval: INTERVAL, settings, ..Config::of(vec!["r0".to_owned()]) };
    let directory = std::env::temp_dir().join(format!("onbeat-blind-{}", std::process::id()));
    let pauses = std::thread::scope(|scope| {
        // Dropped, also where the test fails, it ends the guard.
        let (stop, stops) = mpsc::channel::<()>();
        let guard = || {
            let (mut pauses, mut last) = (Vec::new(), Duration::ZERO);
            let recorded = &mut pauses;
            let mut go_on = move |length| {
                recorded.push(Pause::new(length, &mut last));
                stops.recv_timeout(length) == Err(RecvTimeoutError::Timeout)
            };
            let restored = run(&config, &directory, &mut go_on, &mut |_, _| ()).unwrap();
            assert!(restored.iter().all(|one| one.outcome != PutBack::Failed), "{restored:?}");
            pauses
        };
        let guard = world.receiver.namespace().run(|| scope.spawn(guard)).unwrap();
        for wanted in [50, 20, 70, 10, 60] {
            set_fifo(readers[0].process.pid, wanted);
            let deadline = Instant::now() + 2 * BOUND;
            while !has(&world, wanted as u32) {
                assert!(!guard.is_finished(), "the guard has exited");
                assert!(Instant::now() < deadline, "no priority {wanted}");
                std::thread::yield_now();
            }
        }
        drop(stop);
        guard.join().unwrap()
    });
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(pauses.len() >= 5, "{pauses:?}");
    for pause in pauses {
        let longest = (49 * pause.cpu_time).clamp(INTERVAL, 3 * INTERVAL);
        assert!((INTERVAL..=longest).contains(&pause.length), "{pause:?}");
        assert_eq!(pause.policy, libc::SCHED_FIFO, "{pause:?}");
    }
}
