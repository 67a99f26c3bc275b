//! `onbeat powerlink sdo` with nodes of the program, over UDP and on the bus.
//!
//! ```text
//!  plk0 onbeat powerlink mn --- hub --- cn onbeat powerlink cn plk0
//!                                +----- tool, without a node
//! ```

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Child;

use crate::common::powerlink::{end, hub, start};
use crate::common::{CommandOutput, TemporaryFile, can, machine, run_in, wait_for};
use onbeat_lab::traffic::{Receiver, socket};
use onbeat_netdev::Handle;
use onbeat_powerlink::mn::concise_dcf;
use onbeat_powerlink::od::id;
use onbeat_testing::Feature;
use onbeat_wire::powerlink::{Body, Message, NmtState};
use serde_json::Value;

/// A cycle and timeouts that a busy machine can meet.
const NETWORK: &str = r#"
[network]
cycle-us = 10000
async-slot-us = 2000
loss-threshold = 1000

[managing]
interface = "mn"
virtual-ethernet = "plk0"

[[node]]
id = 1
name = "drive"
interface = "cn"
virtual-ethernet = "plk0"
pres-timeout-us = 7000
input = [{ type = "u16", simulate = "copy" }]
output = [{ type = "u16", simulate = "counter" }]
"#;

/// Two nodes in operation, and a host without a node.
struct Network {
    mn: Handle,
    cn: Handle,
    tool: Handle,
    hub: Handle,
    managing: Child,
    controlled: Child,
    _file: TemporaryFile,
}

impl Network {
    fn start() -> Self {
        let file = TemporaryFile::with("sdo.toml", NETWORK);
        let (hub, [mn, cn, tool]) = hub(["mn", "cn", "tool"]);
        let name = file.name();
        let controlled = start(&cn, &["powerlink", "cn", name, "--node", "1", "--json", "--quiet"]);
        let managing = start(&mn, &["powerlink", "mn", name, "--json", "--quiet"]);
        let network = Network { mn, cn, tool, hub, managing, controlled, _file: file };
        wait_for("the node in OPERATIONAL", || {
            let ran = sdo(&network.mn, &["read", "240", "NMT_MNNodeCurrState_AU8/1"]);
            ran.out.contains(": 0xFD (OPERATIONAL)")
        });
        network
    }

    fn end(self) {
        let (code, found) = end(self.managing);
        assert_eq!(code, Some(0), "{found:#}");
        end(self.controlled);
    }
}

fn sdo(host: &Handle, arguments: &[&str]) -> CommandOutput {
    run_in(host.namespace(), &[&["powerlink", "sdo"], arguments].concat())
}

/// Standard output of a command that succeeds.
fn done(host: &Handle, arguments: &[&str]) -> String {
    let ran = sdo(host, arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}: {}", ran.out);
    ran.out
}

/// A host on the IP network of the bus, the node's own host, and a tool on the bus access the same objects.
#[test]
fn objects_are_read_and_written_over_udp_and_on_the_bus() {
    if !can(&[Feature::Tap]) {
        return;
    }
    machine::exclusive();
    let network = Network::start();
    let Network { mn, cn, tool, .. } = &network;
    let on_bus = ["--interface", "tool", "--timeout", "30s"];
    for (host, option) in
        [(mn, &["--timeout", "30s"][..]), (cn, &["--timeout", "30s"]), (tool, &on_bus)]
    {
        let with = |arguments: &[&'static str]| [arguments, option].concat();
        for (id, name) in [("1", "drive"), ("240", "onbeat managing node")] {
            let [read, cycle] = [[id, "1008"], [id, "NMT_CycleLen_U32"]]
                .map(|[id, object]| done(host, &[&["read", id, object], option].concat()));
            assert_eq!(read, format!("1008/00 NMT_ManufactDevName_VS: {name:?}\n"));
            assert_eq!(cycle, "1006/00 NMT_CycleLen_U32: 10000 (0x2710)\n");
        }
        // Several objects by one command.
        let several = done(host, &with(&["read", "1", "1f8c", "1e40/2", "1020/4"]));
        let expected = "1F8C/00 NMT_CurrNMTState_U8: 0xFD (OPERATIONAL)\n\
                        1E40/02 NWL_IpAddrTable_0h_REC.Addr_IPAD: 192.168.100.1\n\
                        1020/04 CFM_VerifyConfiguration_REC.VerifyConfInvalid_BOOL: true\n";
        assert_eq!(several, expected);
        done(host, &with(&["write", "1", "1f9a", "pump", "1300", "0x4e20"]));
        let read = done(host, &with(&["read", "1", "NMT_HostName_VSTR", "1300", "--json"]));
        let read: Value = serde_json::from_str(&read).unwrap();
        let value = |n: usize| (&read["objects"][n]["value"], &read["objects"][n]["octets"]);
        assert_eq!(value(0), (&"pump".into(), &"70756d70".into()));
        assert_eq!(value(1), (&20_000.into(), &"204e0000".into()));
        // The first abort is the last access.
        let ran = sdo(host, &with(&["write", "1", "1008", "x", "1f9a", "y"]));
        let expected = "1008/00 NMT_ManufactDevName_VS: node 1 aborted with 0x06010002: the object can only \
                        be read\n1F9A/00 NMT_HostName_VSTR: not written\n";
        assert_eq!((ran.code, ran.out.as_str()), (1, expected), "{}", ran.err);
        // Values of many segments, from and to files.
        let value: Vec<u8> = (0..4989_u32).map(|n| (n * 7 + n / 256) as u8).collect();
        let octets = concise_dcf([(id(0x2000, 0), &value[..])]);
        let (from, to) = (TemporaryFile::with("from.bin", &octets), TemporaryFile::new("to.bin"));
        let write = ["write", "240", "1f22/2", "--file", from.name()];
        assert!(done(host, &[&write, option].concat()).contains(": 5000 octets, "));
        done(host, &[&["read", "240", "1f22/2", "--file", to.name()], option].concat());
        assert_eq!(std::fs::read(to.path()).unwrap(), octets);
    }
    // The address of another node.
    let other = ["read", "2", "1008", "--address", "192.168.100.1", "--timeout", "30s"];
    let ran = sdo(mn, &other);
    let expected =
        "node 2 was addressed, but the host at 192.168.100.1 answers as node 1; use this id";
    assert!(ran.code == 2 && ran.err.contains(expected), "{}{}", ran.out, ran.err);
    network.end();
}

#[test]
fn an_access_without_an_answer_names_its_cause() {
    if !can(&[Feature::Tap]) {
        return;
    }
    let (_hub, [host, other]) = hub(["host", "other"]);
    host.add_address("host", Ipv4Addr::new(192, 168, 100, 1).into(), 24).unwrap();
    other.add_address("other", Ipv4Addr::new(192, 168, 100, 2).into(), 24).unwrap();
    let fails = |arguments: &[&str], expected: &str| {
        let ran = sdo(&host, arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(expected), "{arguments:?}: {}", ran.err);
    };
    let silent = "node 3 at 192.168.100.3:3819 did not answer within 0.2 s; check";
    fails(&["read", "3", "1008", "--timeout", "200ms"], silent);
    let no_server =
        "node 2 at 192.168.100.2:3819 has no SDO server over UDP; configure virtual-ethernet";
    fails(&["read", "2", "1008"], no_server);
    fails(
        &["read", "9", "1008", "--address", "192.168.100.2"],
        "node 9 at 192.168.100.2:3819 has no",
    );
    fails(&["read", "9", "1008", "--address", "10.9.9.9"], "check its address and the route to it");
    let no_manager = "host: no SoA of a managing node within 0.2 s; without one, use UDP";
    fails(&["read", "2", "1008", "--interface", "host", "--timeout", "200ms"], no_manager);
    fails(&["read", "2", "1008", "--interface", "absent"], "absent");
    fails(&["read", "2", "Threshold_U32"], "ambiguous; use a full name such as");
    fails(&["write", "2", "1006"], "object \"1006\" has no value");
    fails(&["write", "2", "2000", "5"], "the type of object 2000/00 is unknown; use --xdd, or");
    fails(
        &["write", "2", "1006", "-1"],
        "invalid value \"-1\" of object 1006/00; its type is UNSIGNED32",
    );
}

/// A local program sends requests to open from many ports, as fast as it can: the cycle goes on with a poll and a
/// response in each, and a tool on the bus is served.
#[test]
fn a_flood_of_datagrams_leaves_the_cycle_and_the_bus() {
    const DATAGRAMS: usize = 20_000;
    if !can(&[Feature::Tap]) {
        return;
    }
    machine::exclusive();
    let network = Network::start();
    let mut tap = Receiver::new(socket::monitor(network.hub.namespace(), "p0").unwrap());
    let sockets: Vec<UdpSocket> = network
        .cn
        .namespace()
        .run(|| {
            let bound = |_| UdpSocket::bind((Ipv4Addr::new(192, 168, 100, 1), 0)).unwrap();
            (0..200).map(bound).collect()
        })
        .unwrap();
    let open = [6, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let flood = || {
        for n in 0..DATAGRAMS {
            let socket = &sockets[n % sockets.len()];
            // A full buffer of the server drops it.
            let _ = socket.send_to(&open, (Ipv4Addr::new(192, 168, 100, 1), 3819));
        }
    };
    let read = ["read", "1", "1008", "--interface", "tool", "--timeout", "30s"];
    let answered = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| (0..10).for_each(|_| flood()));
        let answered = done(&network.tool, &read);
        flooding.join().unwrap();
        answered
    });
    assert!(answered.contains("\"drive\""), "{answered}");
    let (mut cycles, mut polls, mut responses, mut others) = (0_i32, 0_i32, 0_i32, 0);
    let mut count = |octets: &[u8]| {
        let Some(message) = octets.get(14..).filter(|_| octets[12..14] == [0x88, 0xab]) else {
            return;
        };
        match Message::parse(message).map(|message| message.body) {
            Ok(Body::Soc(_)) => cycles += 1,
            Ok(Body::Preq(_)) => polls += 1,
            Ok(Body::Pres(pres)) if pres.state == NmtState::OPERATIONAL => responses += 1,
            Ok(Body::Pres(_)) => others += 1,
            _ => {}
        }
    };
    tap.receive(|frame| count(frame.octets)).expect("frames");
    assert!(cycles > 0 && (cycles - polls).abs() <= 1, "{cycles} cycles, {polls} polls");
    assert!((polls - responses).abs() <= 1 + polls / 20, "{polls} polls, {responses} responses");
    assert_eq!(others, 0, "the node stays in OPERATIONAL");
    // The server is there for others again.
    assert!(done(&network.mn, &["read", "1", "1008", "--timeout", "30s"]).contains("\"drive\""));
    network.end();
}
