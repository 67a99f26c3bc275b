//! Frames through two nodes in user space, by packet sockets, by AF_XDP, and by both.
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 B b0 ---- l0 listener
//!                     a2 ---- b2
//! ```

use std::time::{Duration, Instant};

use crate::common::{
    ALL, BOUND, DESTINATION, Node, PortSockets, TAG, World, frame, listener, name, talker,
};
use onbeat_frer::spec::{PortId, Recovery};
use onbeat_frer_user::{Error, PollMode, Port, Unsent};
use onbeat_link::raw::Umem;
use onbeat_netdev::Namespace;
use onbeat_testing::{Feature, RawSocket, require_all};
use onbeat_wire::MacAddress;

const NEEDED: [Feature; 2] = [Feature::Root, Feature::Veth];

#[test]
fn each_frame_arrives_once_and_unmodified() {
    if !require_all(&NEEDED) {
        return;
    }
    for (poll, by) in
        [PollMode::Sleep, PollMode::Busy].into_iter().flat_map(|p| ALL.map(|by| (p, by)))
    {
        let world = World::new(poll, by);
        let lengths = [60, 64, 1000, 1514, 1518];
        for number in 0..500 {
            // Priority, drop eligibility and kind of tag are kept.
            let [mut tpid, pcp] = [[0x81, 0x00], [(number as u8) << 5 | 0x10, 0x0a]];
            if number % 3 == 0 {
                tpid = [0x88, 0xa8];
            }
            let tag = [tpid[0], tpid[1], pcp[0], pcp[1]];
            world.passes(&frame(DESTINATION, tag, number, lengths[number as usize % 5]));
        }
        let name = name(DESTINATION);
        assert_eq!(world.a.read(&name).generation.unwrap().next, 500, "{by:?}");
        // The second replica of the last one may still be in transit.
        let deadline = Instant::now() + BOUND;
        loop {
            let counters = world.b.read(&name).recovery.unwrap().counters;
            assert_eq!(counters.passed, 500, "{by:?}");
            if counters.discarded == 500 {
                break;
            }
            assert!(Instant::now() < deadline, "{by:?}: {counters:?}");
            std::thread::yield_now();
        }
        let traffic = world
            .a
            .forwarder()
            .control()
            .run(|inside| [0, 1, 2].map(|port| inside.traffic(PortId(port))));
        let [talked, first, second] = traffic.unwrap().map(|traffic| traffic.unwrap().unwrap());
        assert_eq!((talked.received, first.sent, second.sent), (500, 500, 500), "{by:?}");
        let nothing = Unsent::default();
        assert_eq!((first.unsent, second.unsent), (nothing, nothing), "{by:?}");
    }
}

#[test]
fn nothing_is_lost_with_one_path() {
    if !require_all(&NEEDED) {
        return;
    }
    for by in ALL {
        let world = World::new(PollMode::Sleep, by);
        let mut number = 0;
        let mut some = |world: &World| {
            for _ in 0..50 {
                number += 1;
                world.passes(&frame(DESTINATION, TAG, number, 200));
            }
            // By now the other replica of the last one has been sent, too.
            world.a.forwarder().control().run(|_| ()).unwrap();
        };
        for path in ["a1", "a2", "a1"] {
            some(&world);
            world.a.handle.set_down(path).unwrap();
            some(&world);
            world.a.handle.set_up(path).unwrap();
            world.a.handle.wait_carrier(path, BOUND).unwrap();
        }
        some(&world);
        // Frames that could not be sent while a path was down are not sent later.
        let (sent, unsent) = {
            let control = world.a.forwarder().control();
            let traffic = control.run(|inside| [1, 2].map(|port| inside.traffic(PortId(port))));
            let traffic = traffic.unwrap().map(|traffic| traffic.unwrap().unwrap());
            (traffic.map(|t| t.sent), traffic.map(|t| t.unsent))
        };
        let down = |interface_down| Unsent { interface_down, ..Unsent::default() };
        assert_eq!((sent, unsent), ([250, 300], [down(100), down(50)]), "{by:?}");
        let counted = world.b.read(&name(DESTINATION));
        let received: u64 = counted.members.iter().map(|member| member.input).sum();
        assert!(received <= 550, "{by:?}: {received}");
    }
}

#[test]
fn streams_are_added_changed_and_removed_under_traffic() {
    if !require_all(&NEEDED) {
        return;
    }
    let other = MacAddress([0x02, 0, 0, 0, 0, 0x0e]);
    for by in ALL {
        let mut world = World::new(PollMode::Sleep, by);
        for number in 0..100 {
            world.a.set(&talker(other));
            world.b.set(&listener(other));
            // It matches no stream while that is removed: it is not sent, so the next received frame is the
            // next one sent.
            let frame = |destination| frame(destination, TAG, number, 64);
            if number % 2 == 0 {
                world.a.remove(&name(other));
                world.b.remove(&name(other));
                world.talker.send(&frame(other));
            } else {
                world.passes(&frame(other));
            }
            world.passes(&frame(DESTINATION));
        }
    }
}

#[test]
fn a_missing_interface_is_reported_by_name() {
    if !require_all(&NEEDED) {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let (umem, _pool) = Umem::new(16).unwrap();
    let xsk = Port::xsk(&namespace, "nowhere0", &umem, false, |_, _| Ok::<_, Error>(()));
    for port in [Port::packet(&namespace, "nowhere0", 16), xsk] {
        let error = port.unwrap_err().to_string();
        assert!(error.contains("nowhere0"), "{error}");
    }
}

#[test]
fn a_port_is_removed_and_added_again() {
    if !require_all(&NEEDED) {
        return;
    }
    for by in ALL {
        let mut world = World::new(PollMode::Sleep, by);
        // No memory of AF_XDP is lost.
        for round in 0..20 {
            world.passes(&frame(DESTINATION, TAG, 3 * round, 64));
            world.a.close(1);
            world.passes(&frame(DESTINATION, TAG, 3 * round + 1, 64));
            let control = world.a.forwarder().control();
            assert!(control.run(|inside| inside.traffic(PortId(1)).is_none()).unwrap());
            world.a.open(1);
            world.passes(&frame(DESTINATION, TAG, 3 * round + 2, 64));
            let control = world.a.forwarder().control();
            let traffic = control.run(|inside| inside.traffic(PortId(1)).unwrap().unwrap());
            assert_eq!(traffic.unwrap().sent, 1, "{by:?}");
        }
    }
}

#[test]
fn the_network_stack_receives_only_frames_of_no_stream() {
    if !require_all(&NEEDED) {
        return;
    }
    let world = World::new(PollMode::Sleep, PortSockets::Xsk);
    let stack = RawSocket::open(&world.a.handle, "a0");
    let other = MacAddress([0x02, 0, 0, 0, 0, 0x0e]);
    for number in 0..100 {
        world.passes(&frame(DESTINATION, TAG, number, 64));
        let frame = frame(other, TAG, number, 64);
        world.talker.send(&frame);
        // The next frame that the stack receives.
        assert_eq!(stack.receive(BOUND).as_deref(), Some(&frame[..]));
    }
}

const TIMEOUT_MS: u32 = 1000;

/// Returns the number of resets of B's function by frames that arrive while B's thread is busy for longer
/// than the timeout; `None`: this test did not get the CPU time to send them in time.
fn resets_over_a_stall(world: &World) -> Option<u64> {
    const GAP: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(TIMEOUT_MS as u64 * 8 / 10);
    let frames = TIMEOUT_MS / 40;
    let resets = || world.b.read(&name(DESTINATION)).recovery.unwrap().counters.resets;
    world.passes(&frame(DESTINATION, TAG, 0, 100));
    let before = resets();
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    world.b.stalled(|| {
        for number in 1..=frames {
            std::thread::sleep(GAP);
            world.talker.send(&frame(DESTINATION, TAG, number, 100));
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    });
    for number in 1..=frames {
        let expected = frame(DESTINATION, TAG, number, 100);
        assert_eq!(world.listener.receive(BOUND), Some(expected));
    }
    let after = resets();
    (longest.max(last.elapsed()) < LONGEST).then(|| after - before)
}

#[test]
fn a_delayed_thread_expires_no_time_out() {
    if !require_all(&NEEDED) {
        return;
    }
    for by in ALL {
        let mut world = World::new(PollMode::Sleep, by);
        let mut stream = listener(DESTINATION);
        stream.recover.as_mut().unwrap().reset_timeout_ms = TIMEOUT_MS;
        world.b.set(&stream);
        let resets = (0..10).find_map(|_| resets_over_a_stall(&world));
        assert_eq!(resets, Some(0), "{by:?}");
    }
}

/// The forwarding thread stands still while more frames arrive than the queues hold.
#[test]
fn frames_beyond_the_receive_queue_are_counted() {
    if !require_all(&NEEDED) {
        return;
    }
    const FRAMES: u64 = 6_000;
    for by in ALL {
        let world = World::new(PollMode::Sleep, by);
        let control = world.a.forwarder().control();
        world.a.stalled(|| {
            for number in 0..FRAMES as u32 {
                world.send(&frame(DESTINATION, TAG, number, 200));
            }
        });
        let deadline = Instant::now() + BOUND;
        loop {
            let traffic = control.run(|inside| inside.traffic(PortId(0))).unwrap();
            let traffic = traffic.unwrap().unwrap();
            if traffic.received + traffic.no_room == FRAMES {
                assert!(traffic.no_room > 0, "{by:?}: {traffic:?}");
                break;
            }
            assert!(Instant::now() < deadline, "{by:?}: {traffic:?} of {FRAMES}");
            std::thread::yield_now();
        }
    }
}

/// The forwarding thread stands still while the copies of more frames arrive than the history has: those of the second
/// path are not older than the history when they are decided.
#[test]
fn a_backlog_is_decided_in_the_order_of_arrival() {
    if !require_all(&NEEDED) {
        return;
    }
    const FRAMES: u32 = 100;
    for by in ALL {
        let mut world = World::new(PollMode::Sleep, by);
        let mut stream = listener(DESTINATION);
        stream.recover = Some(Recovery::vector(8));
        world.b.set(&stream);
        let received = |node: &Node, port| {
            let traffic = node.forwarder().control().run(move |inside| inside.traffic(port));
            traffic.unwrap().unwrap().unwrap().received
        };
        world.b.stalled(|| {
            for number in 0..FRAMES {
                world.send(&frame(DESTINATION, TAG, number, 200));
                // A sends both copies before the next frame arrives.
                let deadline = Instant::now() + BOUND;
                while received(&world.a, PortId(0)) <= number.into() {
                    assert!(Instant::now() < deadline, "{by:?}: {number}");
                }
            }
        });
        for number in 0..FRAMES {
            let expected = frame(DESTINATION, TAG, number, 200);
            assert_eq!(world.listener.receive(BOUND), Some(expected), "{by:?}");
        }
        let ends = || {
            let counters = world.b.read(&name(DESTINATION)).recovery.unwrap().counters;
            (counters.passed, counters.discarded, counters.rogue)
        };
        let deadline = Instant::now() + BOUND;
        while ends().1 < FRAMES.into() {
            assert!(Instant::now() < deadline, "{by:?}: {:?}", ends());
        }
        assert_eq!(ends(), (FRAMES.into(), FRAMES.into(), 0), "{by:?}");
    }
}
