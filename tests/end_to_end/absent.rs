//! A node starts while one of its interfaces does not exist, as a NIC that is dead at boot: it protects by the others, and
//! attaches the interface as soon as it appears, in each data plane.
//!
//! ```text
//!                        path1: appears later
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener
//!                      \-------/
//!                        path2
//! ```

use std::fs;
use std::process::Command;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, can_run, eliminate, log, port, program, replicate, run,
    run_in, show, stream, two_paths, wait_for,
};
use onbeat_lab::World;
use onbeat_lab::world::CutEnds;
use onbeat_netdev::VethEnd;
use onbeat_node::config::Backend;
use onbeat_node::control::{Event, EventDetail, LinkState, PortMode};
use onbeat_node::metrics::{Collector, exposition};
use onbeat_wire::MacAddress;
use serde_json::Value;

const WHILE: u64 = 300;

fn configurations() -> (String, String) {
    // Metrics are those of a reader.
    let node = "[node]\nreaders = \"nogroup\"\n";
    (
        format!("{node}{PORTS}{}", replicate("axis", GROUP, VLAN)),
        format!("{node}{PORTS}{}", eliminate("axis", GROUP, VLAN)),
    )
}

fn flow(world: &World) -> Flow {
    Flow::start(world, ("talker", "listener"), 1, (GROUP, VLAN), 1000, None)
}

fn remove_path1(world: &World) {
    world.handle("a").unwrap().delete("path1").unwrap();
}

fn start_without_path1(a: &str, b: &str) -> World {
    let mut world = build(&two_paths(a, b));
    remove_path1(&world);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    world
}

fn create_path1(world: &World, name: &str) {
    let (near, far) = (world.handle("a").unwrap(), world.handle("b").unwrap());
    let peer = VethEnd::new(name).queues(1, 1).namespace(far.namespace());
    near.create_veth(&VethEnd::new(name).queues(1, 1), &peer).unwrap();
}

fn events(node: &str) -> Vec<Event> {
    let shown = run(&["show", node, "--events", "--json"]);
    shown.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

#[track_caller]
fn wait_present(node: &str) {
    wait_for("the node uses the interface", || {
        let status = show(node);
        let path = port(&status, "path1");
        (path.link, path.mode != PortMode::Detached) == (LinkState::Up, true)
    });
}

#[track_caller]
fn wait_arriving(path: &str) {
    let arrived = || {
        let status = show("b");
        let members = &stream(&status, "axis").members;
        members.iter().find(|member| member.port == path).unwrap().input_packets
    };
    let before = arrived();
    wait_for(&format!("frames come over {path}"), || arrived() > before);
}

/// Each kind of report of a missing port.
fn check_reports(node: &str) {
    let status = show(node);
    let path = port(&status, "path1");
    assert_eq!((path.link, path.mode), (LinkState::Missing, PortMode::Detached));
    assert!(port(&status, "path2").link == LinkState::Up);
    let is_away = |event: &Event| {
        let missing = LinkState::Missing;
        event.port.as_deref() == Some("path1")
            && matches!(&event.detail, EventDetail::PortAway { link, .. } if *link == missing)
    };
    assert!(events(node).iter().any(is_away), "{:?}", events(node));
    let shown = run(&["show", node]).out;
    assert!(shown.contains("missing"), "{shown}");
    let top = run(&["top", node, "--json", "--count", "1"]).out;
    let top: Value = serde_json::from_str(top.lines().next().unwrap_or_default()).expect(&top);
    assert!(top.to_string().contains("\"missing\""), "{top}");
    let doctor = run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&doctor.out).expect(&doctor.out);
    let is_it = |finding: &&Value| {
        finding["id"] == "node-port" && finding["what"] == format!("port path1 of node {node}")
    };
    let finding = report["findings"].as_array().unwrap().iter().find(is_it);
    let finding = finding.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!((&finding["level"], &finding["interface"]), (&"bad".into(), &"path1".into()));
    assert_eq!(doctor.code, 1);
    let page = exposition(&Collector::new(Vec::new(), 0).collect());
    let metric = |name: &str, port: &str| {
        let labels = [format!("node=\"{node}\""), format!("port=\"{port}\"")];
        let of_port = |line: &&str| {
            line.starts_with(&format!("{name}{{"))
                && labels.iter().all(|l| line.contains(l.as_str()))
        };
        page.lines().find(of_port).unwrap_or_else(|| panic!("{name}: {page}")).to_owned()
    };
    for name in ["onbeat_port_link_up", "onbeat_port_attached"] {
        assert!(metric(name, "path1").ends_with(" 0") && metric(name, "path2").ends_with(" 1"));
    }
    let log = log(node);
    for said in [
        "interface \"path1\" not found; interfaces here: ",
        "the node starts without it",
        "waiting for interface: path1",
    ] {
        assert!(log.contains(said), "{said:?} in {log}");
    }
}

#[test]
fn a_stream_is_protected_from_the_start_by_the_interfaces_that_exist() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    for (name, backend) in Backend::ALL {
        let mut world = build(&two_paths(&a, &b));
        world.set_backend(Some(backend));
        remove_path1(&world);
        world.start_all(program()).unwrap_or_else(|error| panic!("{name}: {error}"));
        ["a", "b"].into_iter().for_each(check_reports);
        let flow = flow(&world);
        flow.advance(WHILE);
        // A reload keeps the port.
        for node in ["a", "b"] {
            let ran = run(&["reload", node]);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}: {ran:?}");
        }
        flow.advance(WHILE);

        create_path1(&world, "path1");
        for node in ["a", "b"] {
            wait_present(node);
            assert_eq!(world.handle(node).unwrap().link("path1").unwrap().mtu, 1506);
            let is_back = |event: &Event| {
                event.port.as_deref() == Some("path1")
                    && matches!(event.detail, EventDetail::PortBack { why: None, .. })
            };
            wait_for("its event", || events(node).iter().any(is_back));
        }
        wait_arriving("path1");
        world.cut("path2", CutEnds::Both).unwrap();
        flow.advance(WHILE);
        world.restore("path2").unwrap();
        wait_arriving("path2");
        world.cut("path1", CutEnds::Both).unwrap();
        flow.advance(WHILE);
        flow.finish_whole();
    }
}

/// Replaces path1 of "a" by a macvlan with the address of the interface below it, which its driver refuses to set up.
fn refuse_path1(world: &World) {
    remove_path1(world);
    let (near, far) = (world.handle("a").unwrap(), world.handle("b").unwrap());
    let peer = VethEnd::new("path1").queues(1, 1).namespace(far.namespace());
    near.create_veth(&VethEnd::new("low1").queues(1, 1), &peer).unwrap();
    near.set_mtu("low1", 1506).unwrap();
    near.set_up("low1").unwrap();
    let address = near.link("low1").unwrap().mac.unwrap();
    let macvlan = format!("link add link low1 name path1 address {address} type macvlan");
    let mut ip = Command::new("ip");
    let ran = near.namespace().start_in(ip.args(macvlan.split(' '))).status().unwrap();
    assert!(ran.success(), "ip {macvlan}");
}

#[test]
fn a_node_starts_while_an_interface_cannot_be_set_up() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let mut world = build(&two_paths(&a, &b));
    // XDP in generic mode, the only one of a macvlan, does not support these streams.
    world.set_backend(Some(Backend::Packet));
    refuse_path1(&world);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let why = |event: &Event| match &event.detail {
        EventDetail::ProgramDetached { why: Some(why), .. } => why.contains("EADDRINUSE"),
        _ => false,
    };
    wait_for("the event", || events("a").iter().any(why));
    let status = show("a");
    let path = port(&status, "path1");
    assert_eq!((path.link, path.mode), (LinkState::Down, PortMode::Detached));
    assert!(path.not_attached.as_ref().is_some_and(|why| why.contains("EADDRINUSE")), "{path:?}");
    assert!(run(&["show", "a"]).out.contains("port path1 is not attached: "));
    assert!(log("a").contains("the node starts without it, and tries again"), "{}", log("a"));
    let flow = flow(&world);
    flow.advance(WHILE);
    let ran = run(&["reload", "a"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    flow.advance(WHILE);

    let other = MacAddress([2, 0, 0, 0, 0x26, 1]);
    world.handle("a").unwrap().set_mac("low1", other).unwrap();
    wait_present("a");
    assert_eq!(port(&show("a"), "path1").not_attached, None);
    wait_arriving("path1");
    flow.advance(WHILE);
    flow.finish_whole();
}

#[test]
fn a_restart_without_an_interface_loses_no_frame() {
    restart_without_interface(true);
}

#[test]
fn a_restart_while_an_interface_is_still_missing_loses_no_frame() {
    restart_without_interface(false);
}

/// The data plane of the former daemon forwards over the other path meanwhile.
fn restart_without_interface(existed: bool) {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let mut world = build(&two_paths(&a, &b));
    if !existed {
        remove_path1(&world);
    }
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = flow(&world);
    flow.advance(WHILE);
    for node in ["a", "b"] {
        world.daemon(node).unwrap().kill().unwrap();
    }
    if existed {
        remove_path1(&world);
    }
    flow.advance(WHILE);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    ["a", "b"].into_iter().for_each(check_reports);
    flow.advance(WHILE);
    create_path1(&world, "path1");
    ["a", "b"].into_iter().for_each(wait_present);
    wait_arriving("path1");
    world.cut("path2", CutEnds::Both).unwrap();
    flow.advance(WHILE);
    flow.finish_whole();
}

/// Nothing of an interface that was missing is left on exit.
#[test]
fn an_interface_that_appeared_is_restored_on_exit() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let mut world = start_without_path1(&a, &b);
    create_path1(&world, "path1");
    wait_present("a");
    world.daemon("a").unwrap().interrupt().unwrap();
    let link = world.handle("a").unwrap().link("path1").unwrap();
    assert!(link.xdp.is_empty() && link.mtu == 1500, "{link:?}");
    crate::common::assert_gone("a");
}

#[test]
fn an_interface_appears_by_its_alternative_name() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let a = a.replace("interface = \"path1\"", "interface = \"alternative1\"");
    let world = start_without_path1(&a, &b);
    create_path1(&world, "path1");
    assert_eq!(port(&show("a"), "path1").link, LinkState::Missing);
    world.handle("a").unwrap().add_alternative_name("path1", "alternative1").unwrap();
    wait_present("a");
    assert_eq!(port(&show("a"), "path1").interface, "path1");
}

#[test]
fn a_reload_refuses_a_new_name_of_no_interface() {
    if !can_run() {
        return;
    }
    let (a, b) = configurations();
    let mut world = start_without_path1(&a, &b);
    let flow = flow(&world);
    let file = "/run/onbeat/lab/a.toml";
    let good = fs::read_to_string(file).unwrap();
    fs::write(file, good.replace("interface = \"path2\"", "interface = \"paht2\"")).unwrap();
    let ran = run(&["reload", "a"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("interface \"paht2\" not found; interfaces here: "), "{ran:?}");
    flow.advance(WHILE);
    flow.finish_whole();
    fs::write(file, &good).unwrap();

    // Nothing is started without any interface.
    world.daemon("a").unwrap().interrupt().unwrap();
    let none = ["host", "path1", "path2"].iter().fold(good, |text, name| {
        text.replace(&format!("interface = \"{name}\""), &format!("interface = \"no{name}\""))
    });
    fs::write(file, none).unwrap();
    let ran = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("\"nohost\" not found; interfaces here: "), "{ran:?}");
    crate::common::assert_gone("a");
}
