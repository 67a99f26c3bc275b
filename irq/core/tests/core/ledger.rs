//! Examples of the ledger: a CPU's time line, and its accounts.

use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Event, EventKind, Interrupt,
    InterruptAmount, Ledger, PollReport, Process, Runner, Softirq, Vector,
};

const ETH0: Device = Device { netns: 7, index: 2 };
const SERVER: Process = Process { pid: 100, start_ticks: 1 };
const VICTIM: Process = Process { pid: 200, start_ticks: 2 };
const TO_SERVER: Cause = Cause::Process { process: SERVER, device: ETH0, by: Attribution::Reader };
const RX_IN_VICTIM: EventKind = EventKind::SoftirqExit(Softirq::NetRx, Runner::Process(VICTIM));
const ENTER_RX: EventKind = EventKind::SoftirqEnter(Softirq::NetRx);
const DELIVER: EventKind = EventKind::Deliver { cause: TO_SERVER, packets: 1 };
const TIMER: Interrupt = Interrupt::Vector(Vector::LocalTimer);
const TIMER_EXIT: EventKind = EventKind::HardirqExit(TIMER, Runner::Process(VICTIM));
const POLL_END: EventKind = EventKind::PollEnd {
    device: ETH0,
    polled: PollReport { work: 1, xdp: false, full: false, queue: None },
};

fn accounts(events: &[(u64, EventKind)]) -> Accounts {
    let mut ledger = Ledger::new();
    for (time_ns, kind) in events {
        ledger.record(&Event { time_ns: *time_ns, cpu: 0, kind: *kind });
    }
    ledger.total()
}

fn caused(accounts: &Accounts, cause: Cause) -> (u64, u64) {
    let Amount { ns, packets } = accounts.caused.get(&cause).copied().unwrap_or_default();
    (ns, packets)
}

#[test]
fn the_interrupted_task_suffers_and_the_reader_causes() {
    let accounts = accounts(&[
        (1000, ENTER_RX),
        (1300, EventKind::Arrive { device: ETH0, packets: 1 }),
        (1900, DELIVER),
        (2000, POLL_END),
        (2100, RX_IN_VICTIM),
    ]);
    assert_eq!(caused(&accounts, TO_SERVER), (1100, 1));
    assert_eq!(accounts.suffered[&Runner::Process(VICTIM)], 1100);
    assert_eq!((accounts.measured_ns, accounts.imbalance_ns()), (1100, 0));
    assert_eq!(accounts.compensation_ns(SERVER), 1100);
    assert_eq!(accounts.compensation_ns(VICTIM), -1100);
}

#[test]
fn a_server_that_receives_on_its_own_time_needs_no_correction() {
    let accounts = accounts(&[
        (0, ENTER_RX),
        (500, DELIVER),
        (600, POLL_END),
        (650, EventKind::SoftirqExit(Softirq::NetRx, Runner::Process(SERVER))),
    ]);
    assert_eq!(accounts.compensation_ns(SERVER), 0);
}

#[test]
fn hard_interrupts_are_cut_out() {
    let accounts = accounts(&[
        (0, EventKind::HardirqEnter),
        (50, TIMER_EXIT),
        (100, ENTER_RX),
        (200, EventKind::HardirqEnter),
        // A second one within the first; its events do not belong to the packet.
        (210, EventKind::HardirqEnter),
        (220, DELIVER),
        (230, TIMER_EXIT),
        (300, TIMER_EXIT),
        (400, DELIVER),
        (450, POLL_END),
        (500, RX_IN_VICTIM),
    ]);
    assert_eq!(caused(&accounts, TO_SERVER), (300, 1));
    assert_eq!((accounts.measured_ns, accounts.hardirq_ns), (300, 150));
    // The inner one is part of the outer one.
    assert_eq!(accounts.interrupts, [(TIMER, InterruptAmount { ns: 150, count: 2 })].into());
    assert_eq!(accounts.interrupted_ns(VICTIM), 150);
    assert_eq!(accounts.interrupt_imbalance_ns(), 0);
    assert_eq!(accounts.imbalance_ns(), 0);
}

#[test]
fn other_softirqs_have_no_owner() {
    let idle = |vector| EventKind::SoftirqExit(vector, Runner::Idle);
    let accounts = accounts(&[
        (0, EventKind::SoftirqEnter(Softirq::Timer)),
        // A timer may pass points of reception without receiving.
        (5, DELIVER),
        (10, idle(Softirq::Timer)),
        (20, EventKind::SoftirqEnter(Softirq::Rcu)),
        (50, EventKind::SoftirqExit(Softirq::Rcu, Runner::Ksoftirqd)),
    ]);
    let class = |vector| Cause::Unowned(Class::Softirq(vector));
    assert_eq!(caused(&accounts, class(Softirq::Timer)), (10, 0));
    assert_eq!(caused(&accounts, class(Softirq::Rcu)), (30, 0));
    assert_eq!(accounts.suffered[&Runner::Idle], 10);
    assert_eq!(accounts.suffered[&Runner::Ksoftirqd], 30);
    assert_eq!((accounts.unowned_ns(), accounts.owned_ns()), (40, 0));
}

/// Between two polls a NAPI thread runs pending softirqs, on its own time.
#[test]
fn a_napi_thread_with_a_softirq_within() {
    let accounts = accounts(&[
        (0, EventKind::ThreadIn),
        (100, DELIVER),
        (150, POLL_END),
        (160, EventKind::SoftirqEnter(Softirq::NetTx)),
        (260, EventKind::SoftirqExit(Softirq::NetTx, Runner::NapiThread)),
        (300, DELIVER),
        (310, POLL_END),
        (330, EventKind::ThreadOut { ran_ns: 0 }),
        // The process that is scheduled next is no softirq.
        (900, DELIVER),
    ]);
    assert_eq!(caused(&accounts, TO_SERVER), (160 + 70, 2));
    assert_eq!(caused(&accounts, Cause::Unowned(Class::Softirq(Softirq::NetTx))), (100, 0));
    assert_eq!(accounts.suffered[&Runner::NapiThread], 330);
    assert_eq!((accounts.measured_ns, accounts.imbalance_ns()), (330, 0));
}

/// A NAPI thread without competition runs on: its time is recorded before it stops.
#[test]
fn a_long_run_is_accounted_for_before_it_ends() {
    let mut events = vec![(0, EventKind::ThreadIn)];
    for poll in 1..=30 {
        events.extend([(poll * 100_000 - 1, DELIVER), (poll * 100_000, POLL_END)]);
    }
    let accounts = accounts(&events);
    assert_eq!(accounts.measured_ns, 3_000_000);
    assert_eq!(accounts.suffered[&Runner::NapiThread], 3_000_000);
    assert_eq!(caused(&accounts, TO_SERVER), (3_000_000, 30));
}

/// The scheduler includes the switch to a thread in its run time.
#[test]
fn the_run_time_of_a_napi_thread_is_the_schedulers() {
    for (ran_ns, charged_ns) in [(0, 250), (250, 250), (240, 240), (290, 290), (100, 200)] {
        let accounts = accounts(&[
            (1000, EventKind::ThreadIn),
            (1100, DELIVER),
            (1200, POLL_END),
            (1250, EventKind::ThreadOut { ran_ns }),
        ]);
        assert_eq!(caused(&accounts, TO_SERVER), (charged_ns, 1), "ran {ran_ns}");
        assert_eq!((accounts.measured_ns, accounts.imbalance_ns()), (charged_ns, 0));
    }
}

#[test]
fn outside_of_bottom_halves_nothing_is_charged() {
    let accounts = accounts(&[
        (0, EventKind::Arrive { device: ETH0, packets: 1 }),
        (10, DELIVER),
        (20, POLL_END),
        (30, RX_IN_VICTIM),
        (40, EventKind::ThreadOut { ran_ns: 0 }),
        (50, TIMER_EXIT),
    ]);
    assert_eq!(accounts, Accounts::default());
}

#[test]
fn a_run_whose_end_was_lost_shows_as_imbalance() {
    let accounts = accounts(&[
        (0, ENTER_RX),
        (100, DELIVER),
        (200, POLL_END),
        (250, POLL_END),
        (300, ENTER_RX),
    ]);
    assert_eq!(caused(&accounts, TO_SERVER), (200, 1));
    assert_eq!(accounts.imbalance_ns(), 200);
}

#[test]
fn sockets_are_charged_to_their_first_reader() {
    let to_socket = |cookie| Cause::Socket { cookie, device: ETH0 };
    let deliver = |cookie| EventKind::Deliver { cause: to_socket(cookie), packets: 1 };
    let mut accounts = accounts(&[
        (0, ENTER_RX),
        (10, DELIVER),
        (30, deliver(5)),
        (70, deliver(6)),
        (70, POLL_END),
        (70, RX_IN_VICTIM),
    ]);
    accounts.resolve(|cookie| (cookie == 5).then_some(SERVER.into()));
    assert_eq!(caused(&accounts, TO_SERVER).1, 2);
    assert_eq!(caused(&accounts, to_socket(5)), (0, 0));
    assert_eq!(caused(&accounts, to_socket(6)).1, 1);
    assert_eq!((accounts.owned_ns(), accounts.imbalance_ns()), (70, 0));
}

#[test]
fn the_difference_since_a_snapshot() {
    let first = [(0, ENTER_RX), (10, DELIVER), (20, POLL_END), (30, RX_IN_VICTIM)];
    let mut both = first.to_vec();
    both.extend([(40, EventKind::SoftirqEnter(Softirq::Timer))]);
    both.extend([(45, EventKind::SoftirqExit(Softirq::Timer, Runner::Idle))]);
    let added = accounts(&both).since(&accounts(&first));
    assert_eq!(added.caused.len(), 1);
    assert_eq!(added.unowned_ns(), 5);
    assert_eq!(added.suffered.get(&Runner::Idle), Some(&5));
    assert_eq!((added.measured_ns, added.imbalance_ns()), (5, 0));
}
