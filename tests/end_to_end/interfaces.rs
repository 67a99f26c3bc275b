//! Interfaces that are missing, have a small MTU, are down, removed and restored; and a node restores
//! the settings of its interfaces on exit.
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
use onbeat_lab::world::CutEnds;
use onbeat_netdev::VethEnd;
use onbeat_node::config::Backend;
use onbeat_node::control::{LinkState, PortMode};

const STREAM: &str = "axis";
const WHILE: u64 = 300;

/// MTU of the paths at the start.
const MTU: u32 = 1600;
/// MTU that the nodes set.
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

/// Sends frames for a while; all must arrive.
fn frames_pass(world: &World) {
    let flow = flow(world);
    flow.advance(WHILE);
    flow.finish_whole();
}

fn device(world: &World, node: &str, interface: &str) -> onbeat_netdev::Link {
    world.handle(node).unwrap().link(interface).unwrap()
}

/// Frames received by b over a path.
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

/// Checks that no state of a node is on its interfaces, and that their settings are restored.
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

/// Runs a node "a" that cannot start; its error contains all of these.
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

/// Ports of which the first creates its interface, and the second cannot: half of its pair exists.
const BROKEN_PORTS: &str = "[[port]]\nname = \"made\"\ninterface = \"x0\"\ncreate = \"veth\"\n\
                            [[port]]\nname = \"half\"\ninterface = \"lo\"\ncreate = \"veth\"\n";

#[test]
fn a_start_or_a_reload_that_fails_removes_the_interfaces_that_it_created() {
    if !can_run() {
        return;
    }
    let (config, b) = configurations();
    let broken = format!("{config}{BROKEN_PORTS}");
    assert_refused(&broken, &["\"lo-frer\""]);

    let mut world = start(&two_paths(&config, &b));
    let before = interfaces(&world);
    let file = "/run/onbeat/lab/a.toml";
    let good = fs::read_to_string(file).unwrap();
    // Its port path2 uses another interface, before the port that cannot be made.
    let other = good.replace("interface = \"path2\"", "interface = \"x1\"\ncreate = \"veth\"");
    for broken in [format!("{good}{BROKEN_PORTS}"), format!("{other}{BROKEN_PORTS}")] {
        fs::write(file, &broken).unwrap();
        let ran = run(&["reload", "a"]);
        assert!(ran.code == 2 && ran.err.contains("\"lo-frer\""), "{ran:?}");
        assert_eq!(interfaces(&world), before);
    }
    frames_pass(&world);
    ["path1", "path2"].iter().for_each(|path| assert!(arrived(path) >= WHILE, "{path}"));

    // With the data plane of a killed daemon.
    world.daemon("a").unwrap().kill().unwrap();
    let ran = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert!(ran.code == 2 && ran.err.contains("\"lo-frer\""), "{ran:?}");
    assert_eq!(interfaces(&world), before);
    assert_eq!(device(&world, "a", "path1").mtu, WANTED, "the former data plane continues");
    frames_pass(&world);
}

#[test]
fn an_interface_belongs_to_one_port_by_any_of_its_names() {
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

    // For a single port an alternative name is valid; the node reports the main name.
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
    let (config, b) = configurations();
    // A start without any interface fails.
    let no = config.replace("interface = \"", "interface = \"no-");
    assert_refused(&no, &["\"host\"", "\"no-host\"", "host", "path1", "path2"]);
    let no = config.replace("interface = \"path2\"", "interface = \"eth7\"");
    let _world = start(&two_paths(&no, &b));
    let log = log("a");
    let said = "port \"path2\": interface \"eth7\" not found; interfaces here: ";
    let line = log.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("host") && line.contains("path1"), "{line}");
}

#[test]
fn an_mtu_without_room_for_the_tag_names_both_interfaces() {
    if !can_run() {
        return;
    }
    let (config, _) = configurations();
    let config = config.replacen(&format!("mtu = {WANTED}"), "mtu = 1500", 1);
    let file = "/run/onbeat/lab/own.toml:";
    assert_refused(&config, &["\"path1\"", "\"host\"", "MTU 1500", "1506", file]);
}

#[test]
fn an_interface_set_down_and_up_keeps_its_program() {
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

    world.cut("path1", CutEnds::First).unwrap();
    assert!(!device(&world, "a", "path1").up);
    wait_for("the node reports that it is down", || {
        port(&show("a"), "path1").link == LinkState::Down
    });
    flow.advance(WHILE);
    world.restore("path1").unwrap();
    assert_eq!(programs(), before);
    wait_arriving("path1");
    world.cut("path2", CutEnds::First).unwrap();
    flow.advance(WHILE);
    world.restore("path2").unwrap();
    flow.finish_whole();

    // The only ingress interface.
    world.cut("access", CutEnds::Second).unwrap();
    wait_for("the node reports that it is down", || {
        port(&show("a"), "host").link == LinkState::Down
    });
    world.restore("access").unwrap();
    assert_eq!(programs(), before);
    frames_pass(&world);
}

#[test]
fn a_restored_interface_is_attached_again() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let world = start(&two_paths(&a, &b));
    let flow = flow(&world);
    flow.advance(WHILE);

    // Both of its ends are removed.
    let (near, far) = (world.handle("a").unwrap(), world.handle("b").unwrap());
    let former = near.index("path1").unwrap();
    let mac = near.link("path1").unwrap().mac.unwrap();
    near.delete("path1").unwrap();
    for node in ["a", "b"] {
        wait_for("the node reports that it is gone", || {
            let status = show(node);
            let port = port(&status, "path1");
            (port.link, port.mode) == (LinkState::Missing, PortMode::Detached)
        });
        wait_for("the log reports it", || log(node).contains("interface path1 is missing"));
    }
    flow.advance(WHILE);

    // Indices may be reused: other interfaces take free ones.
    near.create_veth(&VethEnd::new("other1"), &VethEnd::new("other2")).unwrap();
    // One is created again with its address, as by its driver.
    let end = VethEnd::new("path1").mac(mac).queues(1, 1);
    let peer = VethEnd::new("path1").queues(1, 1).namespace(far.namespace());
    near.create_veth(&end, &peer).unwrap();
    assert_ne!(near.index("path1").unwrap(), former);
    let lock = format!("/run/onbeat/interfaces/{}-{former}.lock", near.namespace().inode());
    wait_for("the lock on the former interface is released", || !fs::exists(&lock).unwrap());
    for node in ["a", "b"] {
        wait_for("the node uses it again", || {
            let status = show(node);
            let port = port(&status, "path1");
            (port.link, port.mode) == (LinkState::Up, PortMode::Native)
        });
        assert_eq!(device(&world, node, "path1").mtu, WANTED, "MTU of path1 of {node}");
    }
    wait_arriving("path1");
    world.cut("path2", CutEnds::Both).unwrap();
    flow.advance(WHILE);
    flow.finish_whole();
}

#[test]
fn changed_settings_of_interfaces_are_restored() {
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

    // SIGINT, as by Ctrl-C.
    world.daemon("a").unwrap().interrupt().unwrap();
    assert_as_before(&world, "a");
    changed(&world, "b");

    // A killed daemon restores nothing; onbeat down does, later.
    world.daemon("b").unwrap().kill().unwrap();
    changed(&world, "b");
    let namespace = world.namespace("b").unwrap();
    let down = run_in(namespace, &["down", "b"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
    assert_as_before(&world, "b");

    // It also stops a running daemon.
    world.start("a", program()).unwrap();
    changed(&world, "a");
    let down = run_in(world.namespace("a").unwrap(), &["down", "a"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
    assert_as_before(&world, "a");
}
