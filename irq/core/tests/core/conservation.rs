//! Conservation: for any sequence of events, caused + unowned = suffered = measured.

use std::collections::BTreeMap;

use onbeat_irq_core::charge::{
    Accounts, Attribution, Cause, Class, Device, Event, EventKind, Interrupt, Ledger, PollReport,
    Process, Runner, Softirq, Vector,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const TIMER_EXIT: EventKind =
    EventKind::HardirqExit(Interrupt::Vector(Vector::LocalTimer), Runner::Idle);

/// An event within a run, and its time after the previous event.
#[derive(Debug, Clone)]
enum Step {
    Point(EventKind),
    /// Nested to as many levels as there are durations.
    Hardirq(Vec<u64>),
}

#[derive(Debug, Clone)]
enum Run {
    Softirq(Softirq, Runner, Vec<(u64, Step)>, u64),
    /// Periods of a NAPI thread, with a softirq after each but the last.
    Thread(Vec<(Vec<(u64, Step)>, u64)>),
    /// Outside of softirqs.
    Process(Vec<(u64, Step)>),
}

/// A CPU's events, with their expected sums.
#[derive(Debug, Default)]
struct Script {
    now: u64,
    events: Vec<(u64, EventKind)>,
    running: BTreeMap<Runner, u64>,
    hardirq_ns: u64,
    packets: u64,
}

impl Script {
    fn event(&mut self, kind: EventKind) {
        self.events.push((self.now, kind));
    }

    fn steps(&mut self, steps: &[(u64, Step)], runner: Option<Runner>, receives: bool) {
        for (gap, step) in steps {
            self.run(*gap, runner);
            match step {
                Step::Point(kind) => {
                    match kind {
                        EventKind::Deliver { packets, .. } | EventKind::Count { packets, .. }
                            if receives =>
                        {
                            self.packets += u64::from(*packets);
                        }
                        _ => {}
                    }
                    self.event(*kind);
                }
                Step::Hardirq(durations) => {
                    for ns in durations {
                        self.event(EventKind::HardirqEnter);
                        self.now += ns;
                        self.hardirq_ns += ns;
                    }
                    durations.iter().for_each(|_| self.event(TIMER_EXIT));
                }
            }
        }
    }

    fn run(&mut self, ns: u64, runner: Option<Runner>) {
        self.now += ns;
        if let Some(runner) = runner.filter(|_| ns != 0) {
            *self.running.entry(runner).or_default() += ns;
        }
    }

    fn softirq(&mut self, vector: Softirq, runner: Runner, steps: &[(u64, Step)], tail: u64) {
        self.event(EventKind::SoftirqEnter(vector));
        self.steps(steps, Some(runner), vector == Softirq::NetRx);
        self.run(tail, Some(runner));
        self.event(EventKind::SoftirqExit(vector, runner));
    }

    fn of(runs: &[Run], start: u64) -> Self {
        let mut script = Script { now: start, ..Script::default() };
        for run in runs {
            match run {
                Run::Softirq(vector, runner, steps, tail) => {
                    script.softirq(*vector, *runner, steps, *tail);
                }
                Run::Thread(periods) => {
                    let thread = Runner::NapiThread;
                    script.event(EventKind::ThreadIn);
                    for (at, (steps, tail)) in periods.iter().enumerate() {
                        script.steps(steps, Some(thread), true);
                        script.run(*tail, Some(thread));
                        if at + 1 < periods.len() {
                            script.softirq(Softirq::NetRx, thread, steps, *tail);
                        }
                    }
                    script.event(EventKind::ThreadOut { ran_ns: 0 });
                }
                Run::Process(steps) => script.steps(steps, None, false),
            }
        }
        script
    }
}

fn device() -> impl Strategy<Value = Device> {
    (0u32..2, 1u32..3).prop_map(|(netns, index)| Device { netns, index })
}

fn process() -> impl Strategy<Value = Process> {
    (1u32..30).prop_map(|pid| Process { pid, start_ticks: 0 })
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        4 => (process(), device()).prop_map(|(process, device)| {
            Cause::Process { process, device, by: Attribution::Reader }
        }),
        1 => (0u64..5, device()).prop_map(|(cookie, device)| Cause::Socket { cookie, device }),
        1 => (0u32..3, device())
            .prop_map(|(reason, device)| Cause::Unowned(Class::Dropped { device, reason })),
    ]
}

fn runner() -> impl Strategy<Value = Runner> {
    prop_oneof![
        process().prop_map(Runner::Process),
        Just(Runner::Idle),
        Just(Runner::Ksoftirqd),
        Just(Runner::NapiThread)
    ]
}

fn vector() -> impl Strategy<Value = Softirq> {
    prop_oneof![
        3 => Just(Softirq::NetRx),
        1 => (0u32..10).prop_map(|number| Softirq::from_number(number).unwrap()),
    ]
}

fn point() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        2 => (device(), 0u32..50)
            .prop_map(|(device, packets)| EventKind::Arrive { device, packets }),
        4 => (cause(), 0u32..4).prop_map(|(cause, packets)| EventKind::Deliver { cause, packets }),
        2 => (cause(), 0u32..4).prop_map(|(cause, packets)| EventKind::Count { cause, packets }),
        2 => (device(), 0u32..65, any::<bool>(), any::<bool>(), option::of(0u32..2)).prop_map(
            |(device, work, xdp, full, queue)| EventKind::PollEnd {
                device,
                polled: PollReport { work, xdp, full, queue },
            }
        ),
        1 => any::<bool>().prop_map(EventKind::Skip),
        1 => (1u32..3).prop_map(EventKind::Announce),
        1 => Just(EventKind::Free),
        1 => Just(EventKind::Pass),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        8 => point().prop_map(Step::Point),
        1 => vec(0u64..100, 1..3).prop_map(Step::Hardirq),
    ];
    vec((0u64..5000, step), 0..60)
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = prop_oneof![
        (vector(), runner(), steps(), 0u64..500)
            .prop_map(|(v, r, s, tail)| Run::Softirq(v, r, s, tail)),
        vec((steps(), 0u64..500), 1..4).prop_map(Run::Thread),
        steps().prop_map(Run::Process),
    ];
    vec(run, 0..12)
}

/// Any events, ordered by time only.
fn soup() -> impl Strategy<Value = Vec<(u64, EventKind)>> {
    let kind = prop_oneof![
        Just(EventKind::ThreadIn),
        Just(EventKind::ThreadOut { ran_ns: 0 }),
        Just(EventKind::HardirqEnter),
        Just(TIMER_EXIT),
        vector().prop_map(EventKind::SoftirqEnter),
        (vector(), runner()).prop_map(|(vector, runner)| EventKind::SoftirqExit(vector, runner)),
        point(),
    ];
    vec((0u64..100, kind), 0..60).prop_map(|events| {
        let mut now = 0;
        let at = |(gap, kind)| {
            now += gap;
            (now, kind)
        };
        events.into_iter().map(at).collect()
    })
}

fn check(accounts: &Accounts, script: &Script) -> Result<(), TestCaseError> {
    let running: u64 = script.running.values().sum();
    prop_assert_eq!(accounts.owned_ns() + accounts.unowned_ns(), running);
    prop_assert_eq!(accounts.measured_ns, running);
    prop_assert_eq!(&accounts.suffered, &script.running);
    prop_assert_eq!(accounts.hardirq_ns, script.hardirq_ns);
    prop_assert_eq!(accounts.interrupt_imbalance_ns(), 0);
    prop_assert_eq!(accounts.imbalance_ns(), 0);
    let of_queues: u64 = accounts.queues.values().map(|amount| amount.ns).sum();
    prop_assert!(of_queues <= running);
    let polled = |class: &Class| {
        matches!(
            class,
            Class::EmptyPoll(_)
                | Class::TxCompletion(_)
                | Class::Xdp(_)
                | Class::Unattributed(_)
                | Class::Unsampled(_)
        )
    };
    let delivered = accounts
        .caused
        .iter()
        .filter(|(cause, _)| !matches!(cause, Cause::Unowned(class) if polled(class)));
    prop_assert_eq!(delivered.map(|(_, amount)| amount.packets).sum::<u64>(), script.packets);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_time_is_lost_or_counted_twice(cpus in vec((runs(), 0u64..1000), 1..4)) {
        let scripts: Vec<Script> = cpus.iter().map(|(runs, start)| Script::of(runs, *start)).collect();
        // Interleaved by time, as a recording of all CPUs is.
        let mut events: Vec<Event> = Vec::new();
        for (cpu, script) in (0..).zip(&scripts) {
            let of_cpu = |(time_ns, kind): &(u64, EventKind)| Event { time_ns: *time_ns, cpu, kind: *kind };
            events.extend(script.events.iter().map(of_cpu));
        }
        events.sort_by_key(|event| event.time_ns);
        let mut ledger = Ledger::new();
        events.iter().for_each(|event| ledger.record(event));
        for (cpu, accounts) in ledger.cpus() {
            check(accounts, &scripts[cpu as usize])?;
        }
        let total = ledger.total();
        prop_assert_eq!(total.imbalance_ns(), 0);
        prop_assert_eq!(total.measured_ns, ledger.cpus().map(|(_, a)| a.measured_ns).sum::<u64>());
    }

    /// Lost or invalid events affect only their own run.
    #[test]
    fn accounts_recover_after_invalid_events(noise in soup(), runs in runs()) {
        let mut ledger = Ledger::new();
        let mut now = 0;
        let record = |ledger: &mut Ledger, events: &[(u64, EventKind)]| {
            for (time_ns, kind) in events {
                ledger.record(&Event { time_ns: *time_ns, cpu: 0, kind: *kind });
            }
        };
        record(&mut ledger, &noise);
        if let Some((last, _)) = noise.last() {
            now = *last;
        }
        // The next complete run clears the remains.
        let rcu = Run::Softirq(Softirq::Rcu, Runner::Idle, Vec::new(), 1);
        record(&mut ledger, &[(now, EventKind::ThreadOut { ran_ns: 0 })]);
        let before = Script::of(&[rcu], now);
        record(&mut ledger, &before.events);
        let before_ns = ledger.total();

        let script = Script::of(&runs, before.now);
        record(&mut ledger, &script.events);
        check(&ledger.total().since(&before_ns), &script)?;
    }
}
