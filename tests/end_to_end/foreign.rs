//! An interface with an XDP program of another application: a node leaves it in place and reports it,
//! unless `--replace` is given.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2      the other program runs on a's path2
//! ```

use std::fs;
use std::path::Path;

use crate::common::{
    Capture, FrameText, GROUP, Injector, PORTS, VLAN, assert_gone, build, can_run, make_executable,
    one_node, port, program, replicate, run_in, show,
};
use onbeat_lab::World;
use onbeat_netdev::XdpMode;
use onbeat_node::control::PortMode;
use onbeat_testing::{AttachMethod, ForeignProgram};

/// `onbeat run FILE --replace`, for callers that only run `run FILE`.
fn replacing() -> &'static Path {
    let path = Path::new("/run/onbeat/lab/replacing");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\" --replace\n", program().display());
    make_executable(path, text);
    path
}

/// The XDP program that runs on an interface of the node.
fn running(world: &World, interface: &str) -> Option<u32> {
    crate::common::xdp_program(world.handle("a").unwrap(), interface)
}

fn refuse_then_replace(hold: AttachMethod) {
    let config = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let mut world = build(&one_node(&config));
    let stranger =
        ForeignProgram::attach(world.handle("a").unwrap(), "path2", hold, XdpMode::Native);
    assert_eq!(running(&world, "path2"), Some(stranger.id));

    let file = "/run/onbeat/lab/own.toml";
    fs::write(file, format!("[node]\nname = \"a\"\n{config}")).unwrap();
    let refused = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    for named in [ForeignProgram::NAME, "\"path2\"", "--replace", &format!("id {}", stranger.id)] {
        assert!(refused.err.contains(named), "{named} in {}", refused.err);
    }
    assert_eq!(running(&world, "path2"), Some(stranger.id), "it still runs");
    for interface in ["host", "path1"] {
        assert_eq!(running(&world, interface), None, "no program of onbeat on {interface}");
    }
    for interface in ["path1", "path2"] {
        let mtu = world.handle("a").unwrap().link(interface).unwrap().mtu;
        assert_eq!(mtu, 1500, "restored on {interface}");
    }
    assert_gone("a");
    let mut stack = Capture::open(&world, "a", "path2");
    let frame = FrameText::new(GROUP, &[12], Some(7)).octets();
    Injector::open(&world, "path2", "eth0").send(&frame);
    assert_eq!(stack.wait(1, "through the other program"), [frame]);

    world.start("a", replacing()).unwrap_or_else(|error| panic!("{error}"));
    let ours = running(&world, "path2");
    assert!(ours.is_some() && ours != Some(stranger.id), "{ours:?}");
    assert!(show("a").ports.iter().all(|port| port.mode == PortMode::Native));
    assert_eq!(port(&show("a"), "path2").interface, "path2");
    let mut replicas = ["path1", "path2"].map(|host| Capture::open(&world, host, "eth0"));
    let sent = FrameText::new(GROUP, &[VLAN], None);
    Injector::open(&world, "host", "eth0").send(&sent.octets());
    for (replica, vlan) in replicas.iter_mut().zip([11, 12]) {
        let expected = FrameText { vlans: vec![vlan], r_tag: Some(0), ..sent.clone() };
        assert_eq!(replica.wait(1, "a replica"), [expected.octets()]);
    }
    world.daemon("a").unwrap().interrupt().unwrap();
    assert_eq!(running(&world, "path2"), None);
    assert_gone("a");
}

#[test]
fn a_foreign_program_is_kept_or_replaced_on_request() {
    if !can_run() {
        return;
    }
    refuse_then_replace(AttachMethod::Interface);
    refuse_then_replace(AttachMethod::Link);
}
