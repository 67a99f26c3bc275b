//! Output of ports: each frame that left is counted once, as one of the port that sent it.
//!
//! ```text
//!   lo [talker] --- [port01] p1 ---- q1 [port03]
//!                   [port02] p2 ---- q2 [port04]
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_frer::spec::{SequenceTag, Stream};
use onbeat_frer_xdp::Options;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::{Feature, require_all};

use crate::harness::{Node, egress, frame, member, stream};

const BOUND: Duration = Duration::from_secs(10);
const VID: u16 = 10;
/// Less than the queue of a veth holds.
const BATCH: u32 = 100;

/// The node of the diagram.
struct Bed {
    node: Node,
    handle: Handle,
}

impl Bed {
    /// In the namespace of this thread.
    fn open() -> Self {
        let handle = Handle::open().expect("a handle");
        handle.set_up("lo").expect("loopback");
        let pairs = [["p1", "q1"], ["p2", "q2"]];
        for [near, far] in pairs {
            handle.create_veth(&VethEnd::new(near), &VethEnd::new(far)).expect("a veth");
            for name in [near, far] {
                handle.set_ipv6(name, false).expect("no IPv6");
                handle.set_up(name).expect("an interface");
            }
        }
        pairs.iter().flatten().for_each(|name| {
            handle.wait_carrier(name, BOUND).expect("carrier");
        });
        let options =
            Options { directory: None, max_streams: 4, test_clock: true, count_output: true };
        let mut bed = Self { node: Node::open(5, &options), handle };
        bed.connect(1, "p1");
        bed.connect(2, "p2");
        for (port, interface) in [(3, "q1"), (4, "q2")] {
            let spec = bed.spec(port, interface);
            bed.node.plane.attach(&spec, false).expect("programs on the interface");
        }
        // Those that arrive are counted, and dropped: no frame can leave by the loopback interface.
        let arrived = |name, port| stream(name, vec![member(port, VID, None)], None);
        let sent = Stream {
            egress: vec![egress(1, SequenceTag::Keep)],
            ..stream("sent", vec![member(0, VID, None)], None)
        };
        bed.node.apply(&[sent, arrived("arrived1", 3), arrived("arrived2", 4)]);
        bed
    }

    fn spec(&self, port: usize, interface: &str) -> PortSpec {
        PortSpec {
            name: self.node.names[port].clone(),
            interface: interface.into(),
            ifindex: self.handle.index(interface).expect("an interface"),
            mode: Mode::Native,
            queues: ReceiveQueues::Concurrent,
            running: vec![],
        }
    }

    /// Makes a port send by an interface.
    fn connect(&mut self, port: usize, interface: &str) {
        let spec = self.spec(port, interface);
        self.node.plane.attach_for_test(&spec).expect("programs of a port");
    }

    fn sent(&self, port: usize) -> u64 {
        let output = self.node.plane.read_output(&self.node.names[port]).expect("readable");
        output.expect("this kernel counts native output").sent
    }

    fn arrived(&self, stream: &str) -> u64 {
        self.node.read(stream).members[0].input
    }

    /// Waits until this number of frames has arrived, or no more do.
    fn wait_arrived(&self, frames: u64) -> [u64; 2] {
        let end = Instant::now() + BOUND;
        loop {
            let arrived = ["arrived1", "arrived2"].map(|stream| self.arrived(stream));
            if arrived.iter().sum::<u64>() >= frames || Instant::now() > end {
                return arrived;
            }
            thread::yield_now();
        }
    }
}

/// Runs a test with this node in a namespace of its own.
fn with_bed(test: impl FnOnce(Bed) + Send) {
    if require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(5, 18)]) {
        Namespace::new().expect("a namespace").run(|| test(Bed::open())).expect("a thread");
    }
}

#[test]
fn output_is_the_frames_that_arrive_at_the_other_end() {
    with_bed(|bed| {
        let program = bed.node.ingress(0);
        (0..10).for_each(|_| program.forward(&frame(VID, None), 100_000));
        let read = bed.node.plane.read_output(&bed.node.names[1]).expect("readable");
        let read = read.expect("this kernel counts native output");
        // The queue of the other end may have been full.
        assert_eq!(read.sent + read.refused, 1_000_000);
        assert_eq!(bed.wait_arrived(read.sent), [read.sent, 0]);
    });
}

#[test]
fn output_counts_all_frames_of_a_port_whose_interface_changes() {
    with_bed(|mut bed| {
        const CHANGES: usize = 100;
        let program = bed.node.ingress(0);
        let namespace = Namespace::current().expect("this namespace");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                namespace.enter_thread().expect("the namespace of the node");
                while !is_over.load(Ordering::Relaxed) {
                    program.forward(&frame(VID, None), 300_000);
                }
            });
            for change in 0..CHANGES {
                bed.connect(1, ["p2", "p1"][change % 2]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let read = bed.node.plane.read_output(&bed.node.names[1]).expect("readable");
        let read = read.expect("this kernel counts native output");
        let handed = bed.node.read("sent").output;
        assert!(handed > 100_000, "{handed}");
        assert_eq!(read.sent + read.refused, handed);
        let arrived = bed.wait_arrived(read.sent);
        assert_eq!(arrived.iter().sum::<u64>(), read.sent, "{arrived:?}");
    });
}

#[test]
fn an_interface_counts_for_the_last_port_that_has_it() {
    with_bed(|mut bed| {
        bed.connect(2, "p1");
        bed.connect(1, "p1");
        bed.node.ingress(0).forward(&frame(VID, None), BATCH);
        let sent = u64::from(BATCH);
        assert_eq!(bed.wait_arrived(sent), [sent, 0]);
        assert_eq!([bed.sent(1), bed.sent(2)], [sent, 0]);
    });
}
