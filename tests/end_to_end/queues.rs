//! An interface gets more receive queues while its node runs, as by `ethtool -L`: frames of new queues are forwarded, with
//! distinct numbers. A veth runs no program in new queues until it gets another one, and AF_XDP needs a socket in each.
//!
//! ```text
//!   host eth0 === host [ a ] path1 --- eth0 path1        host: 1 to 2 queues
//!                            path2 --- eth0 path2
//! ```

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_lab::World;
use onbeat_netdev::{Ethtool, Handle, VethEnd};
use onbeat_node::config::Backend;

use crate::common::{
    Capture, FrameText, GROUP, Injector, PORTS, VLAN, build, can_run, one_node, port, program,
    replicate_alike, show, wait_for,
};

/// The sockets of the talker select the queue with the number of the CPU.
const QUEUES: u32 = 2;
const FRAMES: u64 = 100;

/// The queues of the pair between the talker and the node.
fn set_queues(world: &World, count: u32) {
    let ethtool = |station: &str, arguments: &str| {
        let mut command = Command::new("ethtool");
        command.arg("-L").args(arguments.split(' '));
        let status = world.namespace(station).unwrap().start_in(&mut command).status();
        assert!(status.expect("ethtool starts").success(), "{station}: {arguments}");
    };
    let (node, talker) = (format!("host rx {count}"), format!("eth0 tx {count}"));
    // With a program, the peer has at most as many queues to send by.
    let steps = [("host", talker), ("a", node)];
    let few = count == 1;
    for (station, arguments) in if few { steps } else { [steps[1].clone(), steps[0].clone()] } {
        ethtool(station, &arguments);
    }
}

/// Replaces the link of the talker by one that can have several queues, and has one.
fn replace_link(world: &World) {
    let of = |station: &str| Handle::in_namespace(world.namespace(station).unwrap()).unwrap();
    let (talker, node) = (of("host"), of("a"));
    talker.delete("eth0").unwrap();
    let end = VethEnd::new("host").queues(1, QUEUES).namespace(node.namespace());
    talker.create_veth(&VethEnd::new("eth0").queues(QUEUES, 1), &end).unwrap();
    for (handle, name) in [(&talker, "eth0"), (&node, "host")] {
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        handle.set_up(name).unwrap();
        ethtool.set_features(name, &[("gro", true), ("tso", false), ("tx", false)]).unwrap();
    }
    set_queues(world, 1);
}

fn received() -> u64 {
    port(&show("a"), "host").input_packets
}

/// Sends frames into a queue; returns whether the node received all of them.
fn send(talker: &Injector, queue: u32) -> bool {
    let mut cpu = CpuSet::new();
    cpu.set(queue as usize).expect("a CPU");
    sched_setaffinity(Pid::from_raw(0), &cpu).expect("a CPU");
    let before = received();
    let frame = FrameText::new(GROUP, &[VLAN], None).octets();
    // The kernel drops frames while an interface changes.
    let sent = (0..FRAMES).filter(|_| talker.try_send(&frame).is_ok()).count() as u64;
    let deadline = Instant::now() + Duration::from_secs(1);
    while received() < before + sent && Instant::now() < deadline {}
    sent == FRAMES && received() == before + sent
}

#[test]
fn frames_of_new_receive_queues_are_forwarded() {
    if !can_run() {
        return;
    }
    for backend in [Backend::Xdp, Backend::Packet, Backend::Xsk] {
        let mut world = build(&one_node(&format!("{PORTS}{}", replicate_alike())));
        replace_link(&world);
        world.set_backend(Some(backend));
        world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
        let talker = Injector::open(&world, "host", "eth0");
        let mut captured = Capture::open(&world, "path1", "eth0");
        // The kernel refuses to remove a queue that has an AF_XDP socket.
        let steps = if backend == Backend::Xsk { 2 } else { 4 };
        for (step, count) in [1, QUEUES, 1, QUEUES].into_iter().take(steps).enumerate() {
            // ethtool refuses to set what is there.
            if step > 0 {
                set_queues(&world, count);
            }
            for queue in 0..count {
                wait_for(&format!("queue {queue} of {count} is received by {backend}"), || {
                    send(&talker, queue)
                });
                assert!(send(&talker, queue), "queue {queue} of {count} by {backend}");
            }
        }
        let status = show("a");
        assert_eq!(port(&status, "host").lost.total(), 0, "{backend}: {status:?}");
        let passed = received() as usize;
        let frames = captured.wait(passed, "numbered");
        let numbers: BTreeSet<&[u8]> = frames.iter().map(|frame| &frame[20..22]).collect();
        assert_eq!((frames.len(), numbers.len()), (passed, passed), "{backend}");
    }
}
