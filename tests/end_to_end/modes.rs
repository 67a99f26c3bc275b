//! XDP in native and in generic mode: streams survive a cut path in both, different replicas are
//! rejected if the mode does not support them, and frames without a stream reach the network stack of
//! the node unchanged.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener
//!                      \-------/
//!                        path2
//! ```

use std::fs;
use std::process::Command;

use crate::common::{
    Capture, Flow, FrameText, GROUP, Injector, PORTS, VLAN, assert_gone, build, can_run, eliminate,
    log, one_node, port, ports_in_mode, program, replicate, replicate_alike, run, run_in, show,
    start, two_paths, wait_for,
};
use onbeat_lab::World;
use onbeat_lab::world::CutEnds;
use onbeat_netdev::{Ethtool, XdpMode as DeviceMode};
use onbeat_node::control::{LinkState, PortMode};
use onbeat_testing::{Feature, require_all};

const WHILE: u64 = 400;

/// A stream with identical replicas on both paths, and its recovery.
fn alike(mode: &str) -> (String, String) {
    let ports = ports_in_mode(mode);
    let identify =
        format!("identify = {{ type = \"null\", destination = \"{GROUP}\", vlan = {VLAN} }}");
    let a = ports.clone() + &replicate_alike();
    let b = format!(
        r#"{ports}
[[stream]]
name = "axis"
member = [{{ port = "path1", {identify} }}, {{ port = "path2", {identify} }}]
recover = {{ history-length = 256, reset-timeout-ms = 0 }}
egress = [{{ port = "host", tag = "none" }}]
"#
    );
    (a, b)
}

fn started(mode: &str, expected: PortMode) -> World {
    let (a, b) = alike(mode);
    let world = start(&two_paths(&a, &b));
    for node in ["a", "b"] {
        let status = show(node);
        assert!(status.ports.iter().all(|port| port.mode == expected), "{:?}", status.ports);
    }
    world
}

fn flow(world: &World) -> Flow {
    Flow::start(world, ("talker", "listener"), 1, (GROUP, VLAN), 2000, None)
}

/// Cuts each path at its far side under traffic.
fn survives_cuts(world: &World) {
    let flow = flow(world);
    flow.advance(WHILE);
    for path in ["path1", "path2"] {
        world.cut(path, CutEnds::Second).unwrap();
        flow.advance(WHILE);
        world.restore(path).unwrap();
        // The other path is cut next: this one must be in use again.
        let come = || {
            let status = show("b");
            let members = &crate::common::stream(&status, "axis").members;
            members.iter().find(|member| member.port == path).unwrap().input_packets
        };
        let before = come();
        wait_for(&format!("frames come over {path} again"), || come() > before);
        flow.advance(WHILE);
    }
    flow.finish_whole();
}

/// Frames between neighbors, and frames that resemble a stream but match none.
fn frames_of_others() -> Vec<Vec<u8>> {
    let plain = |destination, ethertype: [u8; 2], length: usize| {
        let mut frame = FrameText::new(destination, &[], None).octets();
        frame[12..14].copy_from_slice(&ethertype);
        frame.truncate(14);
        frame.extend((0..length).map(|place| place as u8));
        frame
    };
    vec![
        plain("01:80:c2:00:00:0e", [0x88, 0xcc], 46),   // LLDP
        plain("01:1b:19:00:00:00", [0x88, 0xf7], 54),   // PTP
        plain("ff:ff:ff:ff:ff:ff", [0x08, 0x06], 28),   // ARP
        plain("33:33:00:00:00:01", [0x86, 0xdd], 1000), // IPv6
        plain(GROUP, [0x88, 0xb5], 46),                 // the stream's address, without its VLAN
        FrameText::new(GROUP, &[VLAN + 1], None).octets(), // in another VLAN
        FrameText::new("01:00:5e:00:00:02", &[VLAN], Some(9)).octets(), // numbered, of no stream
        FrameText::new("01:00:5e:00:00:02", &[7, 8], Some(9)).octets(), // with two VLAN tags
    ]
}

fn leaves_other_frames_alone(world: &World) {
    let flow = flow(world);
    flow.advance(WHILE);
    let mut frames = frames_of_others();
    let before = port(&show("a"), "host").unmatched;
    let mut stack = Capture::open(world, "a", "host");
    let talker = Injector::open(world, "talker", "eth0");
    for frame in &frames {
        talker.send(frame);
    }
    let mut found = stack.wait(frames.len(), "at the stack of a").to_vec();
    // If this thread moved to another CPU in between, the kernel may have reordered them.
    frames.sort();
    found.sort();
    assert_eq!(found, frames, "as they were sent, and no frame of the stream among them");
    flow.advance(WHILE);
    assert_eq!(stack.take().len(), frames.len());
    assert_eq!(port(&show("a"), "host").unmatched, before + frames.len() as u64);
    flow.finish_whole();
}

#[test]
fn native_mode() {
    if !can_run() {
        return;
    }
    let world = started("native", PortMode::Native);
    survives_cuts(&world);
    leaves_other_frames_alone(&world);
}

#[test]
fn generic_mode() {
    if !can_run() {
        return;
    }
    let world = started("generic", PortMode::Generic);
    survives_cuts(&world);
    leaves_other_frames_alone(&world);

    // Set down at the near side, a port keeps frames of the other one until the node is notified. It
    // handles notifications before requests, the second time at the latest.
    world.cut("path1", CutEnds::First).unwrap();
    wait_for("the node reports that it is down", || {
        port(&show("a"), "path1").link == LinkState::Down
    });
    show("a");
    let flow = flow(&world);
    flow.advance(WHILE);
    flow.finish_whole();
}

/// XDP modes of a node's interfaces, as reported by the kernel.
fn modes(world: &World, node: &str) -> Vec<DeviceMode> {
    let handle = world.handle(node).unwrap();
    let attached = ["host", "path1", "path2"].map(|port| handle.link(port).unwrap().xdp);
    attached.iter().flatten().map(|attachment| attachment.mode).collect()
}

/// A BPF link keeps its mode: another mode requires another link.
#[test]
fn a_reload_changes_the_mode() {
    if !can_run() {
        return;
    }
    let mut world = started("native", PortMode::Native);
    let sent = flow(&world);
    sent.advance(WHILE);
    sent.finish_whole();
    let before = crate::common::stream(&show("b"), "axis").egress[0].output_packets;
    for (mode, expected, reported) in [
        ("generic", DeviceMode::Generic, PortMode::Generic),
        ("native", DeviceMode::Native, PortMode::Native),
    ] {
        let texts = alike(mode);
        for (node, text) in [("a", texts.0), ("b", texts.1)] {
            let text = format!("[node]\nname = \"{node}\"\n{text}");
            world.daemon(node).unwrap().reload(&text).unwrap();
            assert_eq!(modes(&world, node), [expected; 3], "{node}");
            assert!(show(node).ports.iter().all(|port| port.mode == reported), "{node}");
        }
        survives_cuts(&world);
    }
    assert!(crate::common::stream(&show("b"), "axis").egress[0].output_packets > before);
}

#[test]
fn generic_mode_with_different_replicas_is_rejected() {
    if !can_run() {
        return;
    }
    let world = build(&two_paths("", ""));
    let streams = replicate("axis", GROUP, VLAN);
    let file = "/run/onbeat/lab/own.toml";
    fs::write(file, format!("[node]\nname = \"a\"\n{}{streams}", ports_in_mode("generic")))
        .unwrap();
    let refused = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    for named in ["generic", "\"axis\""] {
        assert!(refused.err.contains(named), "{named} in {}", refused.err);
    }
    for interface in ["host", "path1", "path2"] {
        assert!(world.handle("a").unwrap().link(interface).unwrap().xdp.is_empty());
    }
    assert_gone("a");
}

/// The reason why a port of node "a" is not in native mode, as shown by `show` and the log.
fn why_not_native(name: &str) -> String {
    let status = show("a");
    let port = port(&status, name);
    assert_eq!(port.mode, PortMode::Generic, "{port:?}");
    let why = port.not_native.clone().expect("why it is not native");
    assert!(log("a").contains(&format!("port \"{name}\": XDP in generic mode: {why}")));
    let shown = run(&["show", "a"]).out;
    assert!(shown.contains(&format!("port {name} is not in native mode: {why}")), "{shown}");
    why
}

#[test]
fn a_veth_with_a_peer_that_does_not_poll_is_reported_with_a_remedy() {
    if !can_run() || !require_all(&[Feature::XdpFeatures]) {
        return;
    }
    let (config, _) = alike("auto");
    let mut world = build(&one_node(&config));
    let gro = |world: &World, on| {
        let ethtool = Ethtool::in_namespace(world.namespace("path1").unwrap()).unwrap();
        ethtool.set_features("eth0", &[("gro", on)]).unwrap();
    };
    gro(&world, false);
    // Its namespace has no name; it is found by a process in it.
    let mut sleep = Command::new("sleep");
    let mut sleep = world.namespace("path1").unwrap().start_in(sleep.arg("600")).spawn().unwrap();
    world.start("a", program()).unwrap();
    let why = why_not_native("host");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let remedy = format!("nsenter --net=/proc/{}/ns/net ethtool -K eth0 gro on", sleep.id());
    for named in ["port \"path1\", and its veth path1 ", &remedy] {
        assert!(why.contains(named), "{named} in {why}");
    }
    for name in ["path1", "path2"] {
        let status = show("a");
        assert_eq!(
            (port(&status, name).mode, &port(&status, name).not_native),
            (PortMode::Native, &None)
        );
    }

    // A restart keeps the mode, so that it interrupts no stream; the running node attaches the port natively.
    world.daemon("a").unwrap().terminate().unwrap();
    gro(&world, true);
    world.start("a", program()).unwrap();
    let kept = "port \"host\": XDP in generic mode: an earlier start attached it in this mode; ";
    assert!(log("a").contains(kept), "{}", log("a"));
    wait_for("native mode", || {
        let status = show("a");
        port(&status, "host").mode == PortMode::Native
    });
    let status = show("a");
    assert!(status.ports.iter().all(|port| port.mode == PortMode::Native), "{:?}", status.ports);
    assert!(status.ports.iter().all(|port| port.not_native.is_none()), "{:?}", status.ports);
}

/// No veth of this network polls. The hosts' ends keep the programs of the paths in generic mode; both
/// nodes require native mode at the host port, and the paths must accept its frames.
#[test]
fn plain_veths_support_different_replicas() {
    if !can_run() || !require_all(&[Feature::XdpFeatures]) {
        return;
    }
    let config = |to: &str, from: &str| {
        format!("{PORTS}{}{}", replicate("to", to, VLAN), eliminate("from", from, VLAN))
    };
    let other = "01:00:5e:00:00:02";
    let mut world = build(&two_paths(&config(GROUP, other), &config(other, GROUP)));
    let gro = |world: &World, station: &str, interface: &str| {
        let ethtool = Ethtool::in_namespace(world.namespace(station).unwrap()).unwrap();
        ethtool.feature(interface, "rx-gro").unwrap()
    };
    for (station, interface) in [
        ("talker", "eth0"),
        ("a", "host"),
        ("a", "path1"),
        ("a", "path2"),
        ("b", "path1"),
        ("b", "path2"),
        ("b", "host"),
        ("listener", "eth0"),
    ] {
        let ethtool = Ethtool::in_namespace(world.namespace(station).unwrap()).unwrap();
        ethtool.set_features(interface, &[("gro", false)]).unwrap();
    }
    world.start_all(program()).unwrap();
    for node in ["a", "b"] {
        wait_for("the paths take frames", || {
            show(node).ports.iter().all(|port| port.frames_lost.is_none())
        });
        let modes = show(node).ports.into_iter().map(|port| port.mode);
        let expected = [PortMode::Native, PortMode::Generic, PortMode::Generic];
        assert_eq!(modes.collect::<Vec<_>>(), expected, "{node}");
    }
    let flow = flow(&world);
    flow.advance(WHILE);
    flow.finish_whole();
    assert!(gro(&world, "a", "path1"));
    world.daemon("a").unwrap().interrupt().unwrap();
    assert!(!gro(&world, "a", "path1"), "restored");
}

#[test]
fn a_driver_without_native_mode_is_reported_with_a_remedy() {
    if !can_run() || !require_all(&[Feature::Bridge, Feature::XdpFeatures]) {
        return;
    }
    let config = "[[port]]\nname = \"bridge\"\ninterface = \"br0\"\n";
    let mut network = one_node(config);
    network.nodes[0].bridge = vec!["path1".into(), "path2".into()];
    let _world = start(&network);
    let why = why_not_native("bridge");
    assert!(why.starts_with("the driver of br0, bridge, does not support XDP; "), "{why}");
    assert!(why.contains("onbeat doctor br0") && why.contains("mode = \"generic\""), "{why}");
}

#[test]
fn an_mtu_too_large_for_native_mode_is_reported_with_a_remedy() {
    if !can_run() {
        return;
    }
    let config = "[[port]]\nname = \"path1\"\ninterface = \"path1\"\nmtu = 9000\n";
    let mut world = build(&one_node(config));
    world.handle("path1").unwrap().set_mtu("eth0", 9000).unwrap();
    world.start("a", program()).unwrap();
    let why = why_not_native("path1");
    for named in ["the driver of path1, veth, refused", "MTU of 9000", "other end", "onbeat down a"]
    {
        assert!(why.contains(named), "{named} in {why}");
    }
}
