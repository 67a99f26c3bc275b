//! Converts rows and events of the programs to types of the ledger.

use crate::abi::{
    irq_event, irq_key, irq_kind, irq_reason, irq_sender, irq_vector, irq_verdict, irq_what,
};
use onbeat_irq_core::charge::{
    Accounts, Amount, Attribution, Cause, Class, Device, Event, EventKind, Interrupt,
    InterruptAmount, IpiReason, IpiSender, PollReport, Process, ReceiveQueue, Runner, Softirq,
    Vector, Verdict,
};

/// Adds a row of a CPU to its accounts. Zero rows are those of other CPUs.
pub(super) fn row(key: &irq_key, amount: Amount, accounts: &mut Accounts) {
    if amount == Amount::default() {
        return;
    }
    if let Some(cause) = cause(key) {
        accounts.caused.insert(cause, amount);
    } else if let Some(runner) = runner(key) {
        accounts.suffered.insert(runner, amount.ns);
    } else if let Some(interrupt) = interrupt(key) {
        let Amount { ns, packets: count } = amount;
        accounts.interrupts.insert(interrupt, InterruptAmount { ns, count });
    } else if let Some(runner) = interrupted(key) {
        accounts.interrupted.insert(runner, amount.ns);
    } else if irq_kind(key.kind) == irq_kind::IRQ_QUEUE {
        let queue = ReceiveQueue { device: device(key), napi: key.a };
        accounts.queues.insert(queue, amount);
    }
}

fn device(key: &irq_key) -> Device {
    Device { netns: key.netns, index: key.device }
}

fn process(key: &irq_key) -> Process {
    Process { pid: key.a, start_ticks: key.b }
}

/// The evidence of a kind of row.
pub(super) fn attribution(kind: u32) -> Attribution {
    match irq_kind(kind) {
        irq_kind::IRQ_READER => Attribution::Reader,
        irq_kind::IRQ_OWNER => Attribution::Owner,
        irq_kind::IRQ_LISTENER => Attribution::Listener,
        _ => Attribution::Estimate,
    }
}

fn cause(key: &irq_key) -> Option<Cause> {
    let device = device(key);
    Some(match irq_kind(key.kind) {
        irq_kind::IRQ_READER
        | irq_kind::IRQ_OWNER
        | irq_kind::IRQ_LISTENER
        | irq_kind::IRQ_ESTIMATE => {
            Cause::Process { process: process(key), device, by: attribution(key.kind) }
        }
        irq_kind::IRQ_SOCKET => {
            Cause::Socket { cookie: u64::from(key.a) | u64::from(key.b) << 32, device }
        }
        irq_kind::IRQ_FORWARDED => Cause::Unowned(Class::Forwarded { from: device, to: key.a }),
        irq_kind::IRQ_BRIDGED => Cause::Unowned(Class::Bridged { from: device, to: key.a }),
        irq_kind::IRQ_XDP => Cause::Unowned(match verdict(key.a)? {
            Some(verdict) => Class::XdpVerdict { device, verdict },
            None => Class::Xdp(device),
        }),
        irq_kind::IRQ_DROPPED => Cause::Unowned(Class::Dropped { device, reason: key.a }),
        irq_kind::IRQ_HANDSHAKE => Cause::Unowned(Class::Handshake(device)),
        irq_kind::IRQ_CONNECTION => Cause::Unowned(Class::Connection(device)),
        irq_kind::IRQ_ICMP => Cause::Unowned(Class::Icmp(device)),
        irq_kind::IRQ_NEIGHBOR => Cause::Unowned(Class::Neighbor(device)),
        irq_kind::IRQ_KERNEL_SOCKET => Cause::Unowned(Class::KernelSocket(device)),
        irq_kind::IRQ_EMPTY_POLL => Cause::Unowned(Class::EmptyPoll(device)),
        irq_kind::IRQ_TX_COMPLETION => Cause::Unowned(Class::TxCompletion(device)),
        irq_kind::IRQ_UNATTRIBUTED => Cause::Unowned(Class::Unattributed(device)),
        irq_kind::IRQ_UNSAMPLED => Cause::Unowned(Class::Unsampled(device)),
        irq_kind::IRQ_SOFTIRQ => Cause::Unowned(Class::Softirq(Softirq::from_number(key.a)?)),
        _ => return None,
    })
}

/// `Some(None)`: not reported.
fn verdict(number: u32) -> Option<Option<Verdict>> {
    Some(match irq_verdict(number) {
        irq_verdict::IRQ_VERDICT_UNKNOWN => None,
        irq_verdict::IRQ_VERDICT_DROP => Some(Verdict::Drop),
        irq_verdict::IRQ_VERDICT_TX => Some(Verdict::Tx),
        irq_verdict::IRQ_VERDICT_REDIRECT => Some(Verdict::Redirect),
        irq_verdict::IRQ_VERDICT_ABORTED => Some(Verdict::Aborted),
        _ => return None,
    })
}

fn runner(key: &irq_key) -> Option<Runner> {
    Some(match irq_kind(key.kind) {
        irq_kind::IRQ_BY_PROCESS => Runner::Process(process(key)),
        irq_kind::IRQ_BY_IDLE => Runner::Idle,
        irq_kind::IRQ_BY_KSOFTIRQD => Runner::Ksoftirqd,
        irq_kind::IRQ_BY_NAPI_THREAD => Runner::NapiThread,
        _ => return None,
    })
}

fn interrupt(key: &irq_key) -> Option<Interrupt> {
    Some(match irq_kind(key.kind) {
        irq_kind::IRQ_LINE => Interrupt::Line(key.a),
        irq_kind::IRQ_VECTOR => Interrupt::Vector(match irq_vector(key.a) {
            irq_vector::IRQ_LOCAL_TIMER => Vector::LocalTimer,
            irq_vector::IRQ_IRQ_WORK => Vector::IrqWork,
            irq_vector::IRQ_THERMAL => Vector::Thermal,
            _ => return None,
        }),
        irq_kind::IRQ_IPI => Interrupt::Ipi {
            reason: match irq_reason(key.netns) {
                irq_reason::IRQ_RESCHEDULE => IpiReason::Reschedule,
                irq_reason::IRQ_WAKE_UP => IpiReason::WakeUp,
                irq_reason::IRQ_RPS => IpiReason::Rps,
                irq_reason::IRQ_CALL => IpiReason::Call,
                irq_reason::IRQ_BROADCAST => IpiReason::Broadcast,
                _ => return None,
            },
            sender: match irq_sender(key.device) {
                irq_sender::IRQ_SENDER_PROCESS => IpiSender::Process(process(key)),
                irq_sender::IRQ_SENDER_SOFTIRQ => IpiSender::Softirq(Softirq::from_number(key.a)?),
                irq_sender::IRQ_SENDER_INTERRUPT => IpiSender::Interrupt,
                irq_sender::IRQ_SENDER_IDLE => IpiSender::Idle,
                _ => IpiSender::Unknown,
            },
        },
        _ => return None,
    })
}

fn interrupted(key: &irq_key) -> Option<Runner> {
    Some(match irq_kind(key.kind) {
        irq_kind::IRQ_INTERRUPTED_PROCESS => Runner::Process(process(key)),
        irq_kind::IRQ_INTERRUPTED_IDLE => Runner::Idle,
        irq_kind::IRQ_INTERRUPTED_KSOFTIRQD => Runner::Ksoftirqd,
        irq_kind::IRQ_INTERRUPTED_NAPI_THREAD => Runner::NapiThread,
        _ => return None,
    })
}

/// `None` for an event that this version does not know.
pub(super) fn event(event: &irq_event) -> Option<Event> {
    let key = &event.key;
    let value = event.value as u32;
    let kind = match irq_what(event.what) {
        irq_what::IRQ_THREAD_IN => EventKind::ThreadIn,
        irq_what::IRQ_THREAD_OUT => EventKind::ThreadOut { ran_ns: event.value },
        irq_what::IRQ_SOFTIRQ_ENTER => EventKind::SoftirqEnter(Softirq::from_number(key.a)?),
        irq_what::IRQ_SOFTIRQ_EXIT => {
            EventKind::SoftirqExit(Softirq::from_number(value)?, runner(key)?)
        }
        irq_what::IRQ_ARRIVE => EventKind::Arrive { device: device(key), packets: value },
        irq_what::IRQ_ANNOUNCE => EventKind::Announce(value),
        irq_what::IRQ_DELIVER => EventKind::Deliver { cause: cause(key)?, packets: value },
        irq_what::IRQ_COUNT => EventKind::Count { cause: cause(key)?, packets: value },
        irq_what::IRQ_POLL_END => {
            let queue = Some((event.value >> 32) as u32).filter(|napi| *napi != 0);
            let polled = PollReport { work: value, xdp: key.a != 0, full: key.b != 0, queue };
            EventKind::PollEnd { device: device(key), polled }
        }
        irq_what::IRQ_FREE => EventKind::Free,
        irq_what::IRQ_SKIP => EventKind::Skip(value != 0),
        irq_what::IRQ_PASS => EventKind::Pass,
        irq_what::IRQ_TAP => EventKind::Tap(cause(key)?),
        _ => return None,
    };
    Some(Event { time_ns: event.time_ns, cpu: event.cpu, kind })
}
