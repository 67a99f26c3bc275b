//! Two nodes on one interface: the second is rejected with any data planes of both, and `onbeat down`
//! of one does not affect the other.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2      "second" is to have the same interfaces
//! ```

use std::fs;

use crate::common::process::Process;
use crate::common::{
    Capture, FrameText, GROUP, Injector, PORTS, VLAN, assert_gone, build, can_run, one_node,
    program, replicate, run_in, wait_for,
};
use onbeat_lab::World;
use onbeat_node::config::Backend;
use onbeat_node::control::Client;

const SECOND: &str = "/run/onbeat/lab/second.toml";
const FRAMES: usize = 100;
/// MTU of the paths at the start, and as "second" sets it; "a" sets 1506.
const MTU: u32 = 1500;
const OTHER: u32 = 1510;

fn world(backend: Backend) -> World {
    let config = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let mut world = build(&one_node(&config));
    let config = config.replace("mtu = 1506", &format!("mtu = {OTHER}"));
    fs::write(SECOND, format!("[node]\nname = \"second\"\n{config}")).unwrap();
    world.set_backend(Some(backend));
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    world
}

fn mtu(world: &World) -> u32 {
    world.handle("a").unwrap().link("path1").unwrap().mtu
}

/// Checks that 100 frames in are 100 frames out on each path, in sequence.
fn check_frames(world: &World) {
    let mut replicas = ["path1", "path2"].map(|host| Capture::open(world, host, "eth0"));
    let host = Injector::open(world, "host", "eth0");
    let frame = FrameText::new(GROUP, &[VLAN], None);
    (0..FRAMES).for_each(|_| host.send(&frame.octets()));
    for (replica, vlan) in replicas.iter_mut().zip([11, 12]) {
        let of_stream = |frames: &[Vec<u8>]| {
            let group = &frame.octets()[..6];
            frames.iter().filter(|frame| frame.starts_with(group)).cloned().collect::<Vec<_>>()
        };
        wait_for("all replicas", || of_stream(replica.take()).len() >= FRAMES);
        let expected: Vec<Vec<u8>> = (0..FRAMES as u16)
            .map(|number| {
                FrameText { vlans: vec![vlan], r_tag: Some(number), ..frame.clone() }.octets()
            })
            .collect();
        assert_eq!(of_stream(replica.take()), expected);
    }
}

#[test]
fn a_second_node_is_rejected_by_name_with_any_data_planes() {
    if !can_run() {
        return;
    }
    for (first, backend) in Backend::ALL {
        let mut world = world(backend);
        let pid = world.daemon("a").unwrap().pid();
        let second = |with: &str, named: &str| {
            let ran = run_in(world.namespace("a").unwrap(), &["run", SECOND, "--backend", with]);
            assert_eq!(ran.code, 2, "{with} beside {first}: {ran:?}");
            assert!(ran.err.contains(named), "{with} beside {first}: {ran:?}");
            assert_eq!(mtu(&world), 1506, "{with} beside {first}");
            assert_gone("second");
        };
        for (with, _) in Backend::ALL {
            second(with, &format!("process {pid} (node \"a\") uses it"));
        }
        check_frames(&world);
        if backend == Backend::Xdp {
            world.daemon("a").unwrap().kill().unwrap();
            // The data plane continues without its daemon.
            let second = |with: &str, named: &str| {
                let namespace = world.namespace("a").unwrap();
                let ran = run_in(namespace, &["run", SECOND, "--backend", with]);
                assert_eq!(ran.code, 2, "{with} beside the data plane: {ran:?}");
                assert!(ran.err.contains(named), "{ran:?}");
                assert_gone("second");
            };
            second(
                "packet",
                "receives its frames first; stop its owner (a node: onbeat down NODE)",
            );
            second("xsk", "--replace");
            second("xdp", "--replace");
        }
    }
}

#[test]
fn down_restores_no_setting_that_another_node_needs() {
    if !can_run() {
        return;
    }
    let mut world = world(Backend::Packet);
    assert_eq!(mtu(&world), 1506);
    world.daemon("a").unwrap().kill().unwrap();
    let arguments = ["run", SECOND, "--backend", "packet"];
    let second = Process::start(world.namespace("a").unwrap(), &arguments);
    wait_for("the second node runs", || {
        Client::connect("/run/onbeat/second.sock".as_ref()).is_ok() && mtu(&world) == OTHER
    });
    let down = |node: &str| run_in(world.namespace("a").unwrap(), &["down", node]);
    let refused = down("a");
    assert_eq!((refused.code, mtu(&world)), (1, OTHER), "{refused:?}");
    let holder = format!("process {} (node \"second\")", second.0.id());
    assert!(refused.err.contains(&holder), "{refused:?}");
    assert!(refused.err.contains("onbeat down a --forget"), "{refused:?}");
    // Again: settings that are not restored stay in the journal.
    assert_eq!(down("a").code, 1);

    let ran = down("second");
    assert_eq!((ran.code, mtu(&world)), (0, 1506), "{ran:?}");
    let ran = down("a");
    assert_eq!((ran.code, mtu(&world)), (0, MTU), "{ran:?}");
    assert_gone("a");
}
