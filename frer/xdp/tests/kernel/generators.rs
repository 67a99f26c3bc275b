//! Generators without atomic additions: chosen where one receive queue of one port draws numbers, and given up before
//! another one does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use onbeat_frer::dataplane::ReceiveQueues;
use onbeat_frer::spec::{SequenceTag, Stream};
use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd};

use crate::cpus::{cpus, on_each};
use crate::harness::{Node, Program, XDP_REDIRECT, can_run, frame, member, talker};

const VID: u16 = 10;
const OTHER_VID: u16 = 11;

/// Returns those of these ports whose generators are exclusive. Ports 0 and 2 have a single queue (harness).
fn exclusive(node: &Node, ports: &[usize]) -> Vec<usize> {
    let is_exclusive = |port: &&usize| node.plane.has_exclusive_generators(&node.names[**port]);
    ports.iter().filter(is_exclusive).copied().collect()
}

fn talker_at(name: &str, vid: u16, ports: &[u8]) -> Stream {
    talker(name, ports.iter().map(|port| member(*port, vid, None)).collect())
}

/// A talker whose frames leave unmodified, so that each of a series can be numbered.
fn unmodified_talker() -> Stream {
    let mut stream = talker_at("talker", VID, &[0]);
    stream.egress[0].tag = SequenceTag::Remove;
    stream
}

fn next(node: &Node) -> u16 {
    node.read("talker").generation.unwrap().next
}

#[test]
fn only_generators_of_one_queue_are_exclusive() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(4, 8);
    for (streams, at, exclusive_at) in [
        (vec![talker_at("talker", VID, &[0])], vec![0], vec![0]),
        (vec![talker_at("talker", VID, &[0, 2])], vec![0, 2], vec![]),
        (vec![talker_at("talker", VID, &[0])], vec![0], vec![0]),
        // A stream moves to another port.
        (vec![talker_at("talker", VID, &[2])], vec![2], vec![2]),
        (vec![talker_at("talker", VID, &[1, 2])], vec![1, 2], vec![]),
        // One of two generators of a port is shared.
        (
            vec![talker_at("talker", VID, &[0]), talker_at("other", OTHER_VID, &[0, 3])],
            vec![0, 3],
            vec![],
        ),
        (
            vec![talker_at("talker", VID, &[0]), talker_at("other", OTHER_VID, &[2])],
            vec![0, 2],
            vec![0, 2],
        ),
        (vec![talker_at("talker", VID, &[3])], vec![3], vec![]),
    ] {
        node.apply(&streams);
        assert_eq!(exclusive(&node, &at), exclusive_at, "{streams:?}");
        for port in streams[0].members.iter().map(|member| usize::from(member.port.0)) {
            let before = next(&node);
            assert_eq!(node.ingress(port).verdict(&frame(VID, None)), XDP_REDIRECT);
            assert_eq!(next(&node), before + 1, "port {port}: {streams:?}");
        }
    }
}

/// A change without a reload widens programs, too, and does not affect ports of other streams.
#[test]
fn a_single_change_gives_up_what_it_shares() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(4, 8);
    node.apply(&[talker_at("talker", VID, &[0]), talker_at("other", OTHER_VID, &[2])]);
    let names = node.names.clone();
    node.plane.change(&names, &[], &[talker_at("third", 12, &[0])]).unwrap();
    assert_eq!(exclusive(&node, &[0, 2]), [0, 2], "a generator of its own");
    node.plane.change(&names, &[], &[talker_at("talker", VID, &[0, 3])]).unwrap();
    assert_eq!(exclusive(&node, &[0, 2, 3]), [2], "at a second port");
    node.plane.change(&names, &["talker"], &[]).unwrap();
    assert_eq!(exclusive(&node, &[0, 2]), [2], "narrowed by a reload only");
    node.apply(&[talker_at("third", 12, &[0]), talker_at("other", OTHER_VID, &[2])]);
    assert_eq!(exclusive(&node, &[0, 2]), [0, 2]);
}

#[test]
fn the_number_of_queues_decides() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(2, 8);
    node.apply(&[talker_at("talker", VID, &[0])]);
    let name = node.names[0].clone();
    for (queues, is_exclusive) in [
        (ReceiveQueues::Serial, false),
        (ReceiveQueues::Single, true),
        (ReceiveQueues::Concurrent, false),
        (ReceiveQueues::Single, true),
    ] {
        node.plane.set_queues(&name, queues).unwrap();
        assert_eq!(node.plane.has_exclusive_generators(&name), is_exclusive, "{queues:?}");
        let before = next(&node);
        assert_eq!(node.ingress(0).verdict(&frame(VID, None)), XDP_REDIRECT);
        assert_eq!(next(&node), before + 1, "{queues:?}");
    }
    node.plane.set_queues("no such port", ReceiveQueues::Serial).unwrap();
}

/// An interface with two receive queues, which the kernel prepared for programs.
struct TwoQueues {
    ifindex: u32,
    _handle: Handle,
}

impl TwoQueues {
    fn new() -> Self {
        let namespace = Namespace::with_loopback().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle
            .create_veth(&VethEnd::new("a").queues(2, 2), &VethEnd::new("b").queues(2, 2))
            .unwrap();
        let ethtool = Ethtool::in_namespace(&namespace).unwrap();
        for name in ["a", "b"] {
            ethtool.set_features(name, &[("gro", true)]).unwrap();
            handle.set_up(name).unwrap();
        }
        Self { ifindex: handle.index("a").unwrap(), _handle: handle }
    }

    /// Processes equal frames of a receive queue.
    fn receive(&self, program: &Program, queue: u32, times: u32) {
        let namespace = self._handle.namespace();
        let run = || program.verdict_from(&frame(VID, None), times, (self.ifindex, queue));
        assert_eq!(namespace.run(run).unwrap(), XDP_REDIRECT);
    }
}

/// Without the mark, a store of queue 0 undoes additions of queue 1.
#[test]
fn frames_of_another_queue_share_the_generator() {
    let Some(cpus) = cpus() else { return };
    const FRAMES: u32 = 1_000_000;
    let interface = TwoQueues::new();
    let mut node = Node::new(1, 4);
    node.apply(&[unmodified_talker()]);
    assert!(node.plane.has_exclusive_generators(&node.names[0]));
    let program = node.ingress(0);
    interface.receive(&program, 0, 3);
    interface.receive(&program, 1, 2);
    interface.receive(&program, 0, 1);
    assert_eq!(next(&node), 6);
    let cpus = &cpus[..2];
    on_each(cpus, |index| interface.receive(&program, index as u32, FRAMES));
    assert_eq!(next(&node), (6 + 2 * FRAMES) as u16);
    // The daemon has noticed both changes of the number of queues.
    let name = node.names[0].clone();
    for queues in [ReceiveQueues::Serial, ReceiveQueues::Single] {
        node.plane.set_queues(&name, queues).unwrap();
        interface.receive(&node.ingress(0), 0, 1);
    }
    assert_eq!(next(&node), (8 + 2 * FRAMES) as u16);
}

/// Otherwise a store may undo it: the frame that was processed meanwhile had read the former number.
#[test]
fn a_reset_under_load_is_not_undone() {
    let Some(cpus) = cpus() else { return };
    const ROUNDS: u32 = 20;
    const FRAMES: u32 = 60_000;
    const CALL: u32 = 2_000;
    let mut node = Node::new(1, 4);
    node.apply(&[unmodified_talker()]);
    let program = node.ingress(0);
    for round in 0..ROUNDS {
        node.plane.reset("talker").unwrap();
        let done = AtomicU64::new(0);
        let before = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                on_each(&cpus[..1], |_| {
                    for _ in 0..FRAMES / CALL {
                        program.verdict_on(&frame(VID, None), CALL);
                        done.fetch_add(CALL.into(), Ordering::SeqCst);
                    }
                });
            });
            while done.load(Ordering::SeqCst) < u64::from(FRAMES / 4) {
                std::hint::spin_loop();
            }
            let before = done.load(Ordering::SeqCst);
            node.plane.reset("talker").unwrap();
            sender.join().unwrap();
            before
        });
        let most = u64::from(FRAMES) - before;
        assert!(u64::from(next(&node)) <= most, "round {round}: {} after {most}", next(&node));
    }
}
