//! The programs against the pure ledger: the same events, the same accounts, to the nanosecond.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Accounts, EventKind, Ledger};

use crate::harness::{Flow, World, possible};
use crate::queues::world_with_queues;
use crate::reader::Reader;
use crate::xdp::FilteredWorld;

/// A burst that becomes one datagram again: octets of a segment, and segments.
const SEGMENT: usize = 1400;
const SEGMENTS: usize = 46;

#[test]
fn the_kernel_and_the_pure_ledger_agree() {
    if !possible() {
        return;
    }
    let threaded = World::new(true);
    let softirq = World::new(false);
    let queues = world_with_queues();
    let flows: Vec<Flow> = [threaded.flow(), threaded.flow(), softirq.flow()]
        .into_iter()
        .chain((0..8).map(|_| queues.flow()))
        .collect();
    let of_child = threaded.flow();
    let mut child = Reader::of(&of_child.reader);
    let merged = threaded.flow();
    setsockopt(&merged.writer, UdpGsoSegment, &(SEGMENT as i32)).unwrap();
    setsockopt(&merged.reader, UdpGroSegment, &true).unwrap();
    let filtered = FilteredWorld::new();
    let _tap = threaded.packet_socket();

    let (mut tracer, mut events) = Tracer::record().unwrap();
    let mut ledger = Ledger::new();
    let mut kinds = BTreeMap::new();
    let mut replay = |events: &mut onbeat_irq::Events| {
        for event in events.take().unwrap() {
            *kinds.entry(kind(&event.kind)).or_insert(0u32) += 1;
            ledger.record(&event);
        }
    };
    for round in 0..20 {
        tracer.attach_taps().unwrap();
        // Two rounds with all events, and one with skipped packets.
        match round % 3 {
            2 => tracer.skip_packets().unwrap(),
            _ => tracer.sample_packets().unwrap(),
        }
        for flow in &flows {
            flow.pass(100, 512);
        }
        // Packets of two processes in a poll: with a clock reading for each packet.
        child.begin(16);
        threaded.with_thread_blocked(|| {
            flows[0].send(16, 512);
            of_child.send(16, 512);
        });
        flows[0].read(16);
        child.finish();
        // GRO merges, beside packets that it does not; together they are more than one poll takes.
        threaded.with_thread_blocked(|| {
            flows[0].send(40, 512);
            merged.send(1, SEGMENT * SEGMENTS);
        });
        flows[0].read(40);
        let (mut room, mut left) = (vec![0; 1 << 16], SEGMENT * SEGMENTS);
        while left > 0 {
            left -= merged.reader.recv(&mut room).unwrap();
        }
        // A program takes most packets of a poll.
        filtered.pass();
        replay(&mut events);
    }
    tracer.stop();
    replay(&mut events);
    assert_eq!(tracer.losses().unwrap(), Default::default());

    for seen in ["thread", "softirq", "arrive", "deliver", "count", "poll", "pass", "tap"] {
        assert!(kinds.get(seen).is_some_and(|count| *count > 100), "{seen}: {kinds:?}");
    }
    for seen in ["merged", "full", "skip", "xdp"] {
        assert!(kinds.get(seen).is_some_and(|count| *count > 10), "{seen}: {kinds:?}");
    }
    let pure: BTreeMap<u32, Accounts> =
        ledger.cpus().map(|(cpu, accounts)| (cpu, accounts.clone())).collect();
    assert!(pure.values().any(|accounts| accounts.queues.len() > 1), "{pure:?}");
    // Hard interrupts are subtracted from the times before these are recorded.
    let without_hardirqs = |accounts| Accounts {
        hardirq_ns: 0,
        interrupts: BTreeMap::new(),
        interrupted: BTreeMap::new(),
        ..accounts
    };
    // A program that was running when it was detached may still run.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let kernel: BTreeMap<u32, Accounts> = (0..)
            .zip(tracer.accounts().unwrap().into_iter().map(without_hardirqs))
            .filter(|(cpu, _)| pure.contains_key(cpu))
            .collect();
        if kernel == pure {
            return;
        }
        if Instant::now() > deadline {
            assert_eq!(kernel, pure);
        }
    }
}

fn kind(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::ThreadIn | EventKind::ThreadOut { .. } => "thread",
        EventKind::SoftirqEnter(_) | EventKind::SoftirqExit(..) => "softirq",
        EventKind::HardirqEnter | EventKind::HardirqExit(..) => {
            unreachable!("{kind:?} is not recorded")
        }
        EventKind::Arrive { packets: 2.., .. } => "merged",
        EventKind::Arrive { .. } => "arrive",
        EventKind::Announce(_) => "xdp",
        EventKind::Deliver { .. } => "deliver",
        EventKind::Count { .. } => "count",
        EventKind::PollEnd { polled, .. } if polled.full => "full",
        EventKind::PollEnd { .. } => "poll",
        EventKind::Free => "free",
        EventKind::Skip(_) => "skip",
        EventKind::Pass => "pass",
        EventKind::Tap(_) => "tap",
    }
}
