//! Interfaces that are missing, too small, turned off, taken away and brought back; and what a node
//! changed on them is given back at its end.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener
//!                      \-------/
//!                        path2
//! ```

use std::fs;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, assert_gone, build, can_run, eliminate, log, port, program,
    replicate, run, run_in, show, start, stream, two_paths, wait_for,
};
use onbeat_lab::World;
use onbeat_lab::world::Ends;
use onbeat_netdev::VethEnd;
use onbeat_node::config::Backend;
use onbeat_node::control::{LinkState, PortMode};

const STREAM: &str = "axis";
const WHILE: u64 = 300;

/// MTU of the paths as the network has them.
const MTU: u32 = 1600;
/// And as the nodes ask for it.
const WANTED: u32 = 1506;

fn configurations() -> (String, String) {
    (
        format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN)),
        format!("{PORTS}{}", eliminate(STREAM, GROUP, VLAN)),
    )
}

fn flow(world: &World) -> Flow {
    Flow::start(world, ("talker", "listener"), 1, (GROUP, VLAN), 1000, None)
}

/// Sends frames for a while; all arrive.
fn frames_pass(world: &World) {
    let flow = flow(world);
    flow.advance(WHILE);
    flow.finish_whole();
}

fn device(world: &World, node: &str, interface: &str) -> onbeat_netdev::Link {
    world.handle(node).unwrap().link(interface).unwrap()
}

/// Frames that came to b by a path.
fn arrived(path: &str) -> u64 {
    let status = show("b");
    let members = &stream(&status, STREAM).members;
    members.iter().find(|member| member.port == path).unwrap().input_packets
}

#[track_caller]
fn wait_arriving(path: &str) {
    let before = arrived(path);
    wait_for(&format!("frames come over {path}"), || arrived(path) > before);
}

/// Nothing of a node is on its interfaces, and they are as they were.
#[track_caller]
fn assert_as_before(world: &World, node: &str) {
    for interface in ["host", "path1", "path2"] {
        let device = device(world, node, interface);
        assert!(device.xdp.is_empty(), "a program stays on {interface} of {node}: {device:?}");
        assert!(!device.promiscuous, "{interface} of {node} stays promiscuous");
        let mtu = if interface == "host" { 1500 } else { MTU };
        assert_eq!(device.mtu, mtu, "MTU of {interface} of {node}");
    }
    assert_gone(node);
}

/// Runs a node "a" that cannot run; its error names all of these.
#[track_caller]
fn assert_refused(config: &str, names: &[&str]) {
    let (plain, _) = configurations();
    let world = build(&two_paths(&plain, ""));
    let file = "/run/onbeat/lab/own.toml";
    fs::write(file, format!("[node]\nname = \"a\"\n{config}")).unwrap();
    let before = interfaces(&world);
    let ran = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert_as_before(&world, "a");
    assert_eq!(interfaces(&world), before);
    for name in names {
        assert!(ran.err.contains(name), "{name} in {ran:?}");
    }
}

/// Names of the interfaces of node a.
fn interfaces(world: &World) -> Vec<String> {
    let links = world.handle("a").unwrap().links().unwrap();
    links.into_iter().map(|link| link.name).collect()
}

/// Ports of which the first creates its interface, and the second has none.
const BROKEN_PORTS: &str = "[[port]]\nname = \"made\"\ninterface = \"x0\"\ncreate = \"veth\"\n\
                            [[port]]\nname = \"missing\"\ninterface = \"eth7\"\n";

#[test]
fn a_start_or_a_reload_that_fails_removes_the_interfaces_that_it_created() {
    if !can_run() {
        return;
    }
    let (config, b) = configurations();
    let broken = format!("{config}{BROKEN_PORTS}");
    assert_refused(&broken, &["\"eth7\""]);

    let mut world = start(&two_paths(&config, &b));
    let before = interfaces(&world);
    let file = "/run/onbeat/lab/a.toml";
    let good = fs::read_to_string(file).unwrap();
    // Its port path2 is attached to another interface before the port that is missing.
    let other = good.replace("interface = \"path2\"", "interface = \"x1\"\ncreate = \"veth\"");
    for broken in [format!("{good}{BROKEN_PORTS}"), format!("{other}{BROKEN_PORTS}")] {
        fs::write(file, &broken).unwrap();
        let ran = run(&["reload", "a"]);
        assert!(ran.code == 2 && ran.err.contains("\"eth7\""), "{ran:?}");
        assert_eq!(interfaces(&world), before);
    }
    frames_pass(&world);
    ["path1", "path2"].iter().for_each(|path| assert!(arrived(path) >= WHILE, "{path}"));

    // Beside what a killed daemon left.
    world.daemon("a").unwrap().kill().unwrap();
    let ran = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert!(ran.code == 2 && ran.err.contains("\"eth7\""), "{ran:?}");
    assert_eq!(interfaces(&world), before);
    assert_eq!(device(&world, "a", "path1").mtu, WANTED, "the data plane of before goes on");
    frames_pass(&world);
}

#[test]
fn an_interface_is_the_interface_of_one_port_by_whatever_name() {
    if !can_run() {
        return;
    }
    let (good, b) = configurations();
    let alternative = good.replace("interface = \"path1\"", "interface = \"other1\"");
    let mut world = build(&two_paths(&alternative, &b));
    world.handle("a").unwrap().add_alternative_name("path1", "other1").unwrap();
    let file = "/run/onbeat/lab/a.toml";
    let twice = good.replace("interface = \"path2\"", "interface = \"other1\"");
    let refused = |world: &World, arguments: &[&str]| {
        let ran = run_in(world.namespace("a").unwrap(), arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {ran:?}");
        for named in ["\"path1\" and \"path2\" have the same interface", "\"other1\""] {
            assert!(ran.err.contains(named), "{arguments:?}: {named} in {ran:?}");
        }
    };
    fs::write(file, &twice).unwrap();
    refused(&world, &["run", "--check", file]);
    for (backend, _) in Backend::ALL {
        refused(&world, &["run", file, "--backend", backend]);
        assert_as_before(&world, "a");
    }

    // Alone the name is as good as the other one, which the node reports.
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let program = || device(&world, "a", "path1").xdp;
    let before = program();
    for text in [&good, &twice] {
        fs::write(file, text).unwrap();
        if text == &twice {
            refused(&world, &["reload", "a"]);
        } else {
            assert_eq!(run(&["reload", "a"]).code, 0);
        }
        assert_eq!(port(&show("a"), "path1").interface, "path1");
        assert_eq!(port(&show("a"), "path2").interface, "path2");
        assert_eq!(program(), before);
    }
}

#[test]
fn a_missing_interface_is_named_and_so_are_those_that_exist() {
    if !can_run() {
        return;
    }
    let (config, _) = configurations();
    let config = config.replace("interface = \"path2\"", "interface = \"eth7\"");
    assert_refused(&config, &["\"path2\"", "\"eth7\"", "host", "path1"]);
}

#[test]
fn an_interface_without_room_for_the_tag_is_named_with_the_one_that_brings_the_frames() {
    if !can_run() {
        return;
    }
    let (config, _) = configurations();
    let config = config.replacen(&format!("mtu = {WANTED}"), "mtu = 1500", 1);
    let file = "/run/onbeat/lab/own.toml:";
    assert_refused(&config, &["\"path1\"", "\"host\"", "MTU 1500", "1506", file]);
}

#[test]
fn an_interface_that_is_turned_off_and_on_keeps_its_program() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let world = start(&two_paths(&a, &b));
    let flow = flow(&world);
    flow.advance(WHILE);
    let programs = || ["host", "path1"].map(|name| device(&world, "a", name).xdp);
    let before = programs();
    assert!(before.iter().all(|programs| programs.len() == 1), "{before:?}");

    world.cut("path1", Ends::First).unwrap();
    assert!(!device(&world, "a", "path1").up);
    wait_for("the node tells that it is off", || port(&show("a"), "path1").link == LinkState::Down);
    flow.advance(WHILE);
    world.restore("path1").unwrap();
    assert_eq!(programs(), before);
    wait_arriving("path1");
    world.cut("path2", Ends::First).unwrap();
    flow.advance(WHILE);
    world.restore("path2").unwrap();
    flow.finish_whole();

    // The only interface that frames come in by.
    world.cut("access", Ends::Second).unwrap();
    wait_for("the node tells that it is off", || port(&show("a"), "host").link == LinkState::Down);
    world.restore("access").unwrap();
    assert_eq!(programs(), before);
    frames_pass(&world);
}

#[test]
fn an_interface_that_comes_back_gets_its_program_back() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let world = start(&two_paths(&a, &b));
    let flow = flow(&world);
    flow.advance(WHILE);

    // Both of its ends go.
    let (near, far) = (world.handle("a").unwrap(), world.handle("b").unwrap());
    let former = near.index("path1").unwrap();
    near.delete("path1").unwrap();
    for node in ["a", "b"] {
        wait_for("the node tells that it is gone", || {
            let status = show(node);
            let port = port(&status, "path1");
            (port.link, port.mode) == (LinkState::Missing, PortMode::Detached)
        });
        wait_for("the log says so", || log(node).contains("interface path1 is gone"));
    }
    flow.advance(WHILE);

    // Indices may be given out anew: others take those that have become free.
    near.create_veth(&VethEnd::new("other1"), &VethEnd::new("other2")).unwrap();
    let end = VethEnd::new("path1").queues(1, 1);
    let peer = VethEnd::new("path1").queues(1, 1).namespace(far.namespace());
    near.create_veth(&end, &peer).unwrap();
    assert_ne!(near.index("path1").unwrap(), former);
    let lock = format!("/run/onbeat/interfaces/{}-{former}.lock", near.namespace().inode());
    wait_for("the lock on the former interface is released", || !fs::exists(&lock).unwrap());
    for node in ["a", "b"] {
        wait_for("the node runs on it again", || {
            let status = show(node);
            let port = port(&status, "path1");
            (port.link, port.mode) == (LinkState::Up, PortMode::Native)
        });
        assert_eq!(device(&world, node, "path1").mtu, WANTED, "MTU of path1 of {node}");
    }
    wait_arriving("path1");
    world.cut("path2", Ends::Both).unwrap();
    flow.advance(WHILE);
    flow.finish_whole();
}

#[test]
fn what_was_changed_on_interfaces_is_given_back() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let mut world = start(&two_paths(&a, &b));
    let changed = |world: &World, node: &str| {
        for path in ["path1", "path2"] {
            assert_eq!(device(world, node, path).mtu, WANTED);
            assert_eq!(device(world, node, path).xdp.len(), 1);
        }
        assert!(fs::exists(format!("/run/onbeat/{node}.sock.node-journal")).unwrap());
        assert!(fs::exists(format!("/sys/fs/bpf/onbeat/{node}/links")).unwrap());
    };
    changed(&world, "a");
    changed(&world, "b");

    // Ctrl-C.
    world.daemon("a").unwrap().interrupt().unwrap();
    assert_as_before(&world, "a");
    changed(&world, "b");

    // A daemon that was killed gives nothing back; onbeat down does, later.
    world.daemon("b").unwrap().kill().unwrap();
    changed(&world, "b");
    let namespace = world.namespace("b").unwrap();
    let down = run_in(namespace, &["down", "b"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
    assert_as_before(&world, "b");

    // And one that runs is ended by it.
    world.start("a", program()).unwrap();
    changed(&world, "a");
    let down = run_in(world.namespace("a").unwrap(), &["down", "a"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
    assert_as_before(&world, "a");
}
