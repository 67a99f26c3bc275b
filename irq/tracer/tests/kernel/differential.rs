//! The programs against the pure ledger: the same events, the same accounts, to the nanosecond.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Accounts, Cause, Class, Ledger, What};

use crate::harness::{World, possible};
use crate::reader::Reader;
use crate::xdp::Filtered;

/// What becomes one datagram again: octets of a segment, and segments.
const SEGMENT: usize = 1400;
const SEGMENTS: usize = 46;

#[test]
fn the_kernel_and_the_pure_ledger_agree() {
    if !possible() {
        return;
    }
    let threaded = World::new(true);
    let softirq = World::new(false);
    let flows = [threaded.flow(), threaded.flow(), softirq.flow()];
    let of_child = threaded.flow();
    let mut child = Reader::of(&of_child.reader);
    let merged = threaded.flow();
    setsockopt(&merged.writer, UdpGsoSegment, &(SEGMENT as i32)).unwrap();
    setsockopt(&merged.reader, UdpGroSegment, &true).unwrap();
    let filtered = Filtered::new();

    let (mut tracer, mut events) = Tracer::record().unwrap();
    let mut ledger = Ledger::new();
    let mut kinds = BTreeMap::new();
    let mut replay = |events: &mut onbeat_irq::Events| {
        for event in events.take().unwrap() {
            *kinds.entry(kind(&event.what)).or_insert(0u32) += 1;
            ledger.record(&event);
        }
    };
    for round in 0..20 {
        // Two rounds of which everything is told, and one of which packets are skipped.
        match round % 3 {
            2 => tracer.skip_packets().unwrap(),
            _ => tracer.look_at_packets().unwrap(),
        }
        for flow in &flows {
            flow.pass(100, 512);
        }
        // Packets of two processes in a poll: times are taken, for each packet.
        child.begin(16);
        threaded.held(|| {
            flows[0].send(16, 512);
            of_child.send(16, 512);
        });
        flows[0].read(16);
        child.finish();
        // GRO merges, beside packets that it does not; together they are more than one poll takes.
        threaded.held(|| {
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

    for seen in ["thread", "softirq", "arrive", "deliver", "count", "poll"] {
        assert!(kinds.get(seen).is_some_and(|count| *count > 100), "{seen}: {kinds:?}");
    }
    for seen in ["merged", "full", "skip", "xdp"] {
        assert!(kinds.get(seen).is_some_and(|count| *count > 10), "{seen}: {kinds:?}");
    }
    let pure: BTreeMap<u32, Accounts> =
        ledger.cpus().map(|(cpu, accounts)| (cpu, accounts.clone())).collect();
    // Hard interrupts are taken out of the times before they are told.
    let without_hardirqs = |accounts| Accounts { hardirq_ns: 0, ..accounts };
    // A program that was running when it was detached may still be.
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

fn kind(what: &What) -> &'static str {
    match what {
        What::ThreadIn | What::ThreadOut { .. } => "thread",
        What::SoftirqEnter(_) | What::SoftirqExit(..) => "softirq",
        What::HardirqEnter | What::HardirqExit => unreachable!("{what:?} is not told"),
        What::Arrive { packets: 2.., .. } => "merged",
        What::Arrive { .. } => "arrive",
        What::Deliver { cause: Cause::Unowned(Class::Xdp(_)), .. } => "xdp",
        What::Deliver { .. } => "deliver",
        What::Count { .. } => "count",
        What::PollEnd { polled, .. } if polled.full => "full",
        What::PollEnd { .. } => "poll",
        What::Free => "free",
        What::Skip(_) => "skip",
    }
}
