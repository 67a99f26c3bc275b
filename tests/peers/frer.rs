//! Interoperation with other implementations of 802.1CB: one replicates, the other one eliminates, in
//! both roles. No frame is lost or duplicated, also while a path is cut; tshark checks the fields of
//! the frames on the paths.
//!
//! ```text
//!                        path1, VLAN 11
//!                      /-----[ tap1 ]-----\
//!   talker eth0 --- [ a ]                [ b ] --- eth0 listener
//!                      \-----[ tap2 ]-----/
//!                        path2, VLAN 12
//!
//!   a is onbeat and b the peer, or the reverse; the taps are bridges
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::process::Process;
use crate::common::{
    Capture, Flow, FrameText, GROUP, Injector, PORTS, VLAN, build, eliminate, program, replicate,
};
use onbeat_delay::capture::{LinkType, Writer};
use onbeat_lab::world::CutEnds;
use onbeat_lab::{Topology, World};
use onbeat_netdev::Ethtool;
use onbeat_realtime::interrupt::wait_until;
use onbeat_wire::VlanTag;

const PATHS: [(&str, u16); 2] = [("tap1", 11), ("tap2", 12)];
/// Variables with the paths of the programs.
pub(crate) const VARIABLES: [&str; 2] = ["XDPFRER", "DNT"];
const RATE: u64 = 5000;
/// Sequence numbers wrap within a flow.
const FRAMES: u64 = 70_000;
/// Maximum start-up time of the peer.
const START: Duration = Duration::from_secs(20);
const DIRECTORY: &str = "/run/onbeat/lab";

/// Another implementation.
struct Peer {
    name: &'static str,
    program: PathBuf,
    /// Arguments for replication, and for elimination.
    replicate: Vec<&'static str>,
    eliminate: Vec<&'static str>,
    /// Its configuration file, as DIRECTORY/peer.ini.
    configuration: &'static str,
}

/// The interfaces have the same names in a and b, so one file has both functions.
const DNT_CONFIGURATION: &str = "
[interfaces]
host = eth iface=host
host:streams = compound
path1 = eth iface=path1
path1:streams = member1
path2 = eth iface=path2
path2:streams = member2

[objects]
Gen = SeqGen InitSeqStart=0
Elim = SeqRcvy frerSeqRcvyHistoryLength=64

[streams]
compound:packet = eth, cvlan
compound:match = cvlan vid=100
compound:actions = Gen, after cvlan add rtag, replicate Repl-path1 Repl-path2
Repl-path1 = edit cvlan.vid=11, send path1
Repl-path2 = edit cvlan.vid=12, send path2

member1:packet = eth, cvlan, rtag
member1:match = cvlan vid=11
member1:actions = readseq rtag, Elim Elim-compound
member2:packet = eth, cvlan, rtag
member2:match = cvlan vid=12
member2:actions = readseq rtag, Elim Elim-compound
Elim-compound = del rtag, edit cvlan.vid=100, send host
";

fn peers([xdpfrer, dnt]: [PathBuf; 2]) -> [Peer; 2] {
    [
        Peer {
            name: "xdpfrer",
            program: xdpfrer,
            replicate: vec![
                "-q", "-m", "repl", "-i", "host:100", "-e", "path1:11", "-e", "path2:12",
            ],
            eliminate: vec![
                "-q", "-m", "elim", "-i", "path1:11", "-i", "path2:12", "-e", "host:100",
            ],
            configuration: "",
        },
        Peer {
            name: "dnt",
            program: dnt,
            replicate: vec!["peer.ini"],
            eliminate: vec!["peer.ini"],
            configuration: DNT_CONFIGURATION,
        },
    ]
}

fn network(onbeat: &str, config: &str) -> Topology {
    let mut network = Topology::default();
    network.host("talker", 0, 0).host("listener", 4, 0);
    for (node, column) in [("a", 1), ("b", 3)] {
        if node == onbeat {
            network.node(node, column, 0, config);
        } else {
            network.host(node, column, 0);
        }
    }
    network.link("access", "talker:eth0", "a:host").link("exit", "b:host", "listener:eth0");
    for (row, (tap, _)) in PATHS.iter().enumerate() {
        let path = tap.replace("tap", "path");
        network.hub(tap, 2, row as u16, &["left", "right"]);
        network.link(&path, &format!("a:{path}"), &format!("{tap}:left"));
        network.link(&format!("{path}-b"), &format!("{tap}:right"), &format!("b:{path}"));
    }
    network
}

/// Fields of an R-TAG frame on a path, as tshark reads them.
const FIELDS: [&str; 6] =
    ["eth.dst", "eth.type", "vlan.id", "vlan.etype", "ieee8021cb.etype", "ieee8021cb.seq"];

/// The sequence numbers of the frames of a path; fails if a field is wrong.
fn sequence_numbers(frames: &[Vec<u8>], vlan: u16) -> Vec<u64> {
    let path = format!("{DIRECTORY}/path.pcap");
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), LinkType::ETHERNET).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        // tshark does not print the reserved octets, behind addresses, VLAN tag and EtherType.
        assert_eq!(frame[18..20], [0, 0], "reserved octets of the R-TAG");
        writer.write(number as i64, frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r", &path, "-T", "fields"]).stderr(Stdio::null());
    tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().expect("tshark");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = [GROUP, "0x8100", &vlan.to_string(), "0xf1c1", "0x88b5"].join("\t");
    let number = |line: &str| {
        let (fields, number) = line.rsplit_once('\t').expect("fields");
        assert_eq!(fields, expected, "{FIELDS:?}");
        u64::from_str_radix(number.trim_start_matches("0x"), 16)
            .unwrap_or_else(|_| panic!("ieee8021cb.seq {number:?}"))
    };
    text.lines().map(number).collect()
}

/// Sends frames of the stream until one arrives: then all programs are running.
fn pass_one(world: &World) {
    let talker = Injector::open(world, "talker", "eth0");
    let mut listener = Capture::open(world, "listener", "eth0");
    let frame = FrameText::new(GROUP, &[VLAN], None).octets();
    let passed = wait_until(START, || {
        talker.send(&frame);
        std::thread::sleep(Duration::from_millis(20));
        !listener.take().is_empty()
    });
    let log = || fs::read_to_string(format!("{DIRECTORY}/peer.log")).unwrap_or_default();
    assert!(passed.expect("no signal"), "no frame of the stream passes: {}", log());
}

fn exchange(peer: &Peer, peer_replicates: bool) {
    let (onbeat, at, config) = if peer_replicates {
        ("b", "a", format!("{PORTS}{}", eliminate("axis", GROUP, VLAN)))
    } else {
        ("a", "b", format!("{PORTS}{}", replicate("axis", GROUP, VLAN)))
    };
    let mut world = build(&network(onbeat, &config));
    for (tap, interface) in PATHS.iter().flat_map(|(tap, _)| [(tap, "left"), (tap, "right")]) {
        // XDP programs do not see tags that the hardware inserts.
        let ethtool = Ethtool::in_namespace(world.namespace(tap).unwrap()).unwrap();
        ethtool.set_features(interface, &[("txvlan", false)]).unwrap();
    }
    fs::write(format!("{DIRECTORY}/peer.ini"), peer.configuration).unwrap();
    let log = fs::File::create(format!("{DIRECTORY}/peer.log")).unwrap();
    // The peer's socket has the kernel's default buffer: on a busy machine it drops frames that wait for its thread.
    let mut command = Command::new("nice");
    command.args(["-n", "-15"]).arg(&peer.program);
    command.args(if peer_replicates { &peer.replicate } else { &peer.eliminate });
    command.current_dir(DIRECTORY).stdout(log.try_clone().unwrap()).stderr(log);
    world.namespace(at).unwrap().start_in(&mut command);
    let mut process = Process::spawn(command);
    world.start(onbeat, program()).unwrap_or_else(|error| panic!("{error}"));
    pass_one(&world);

    let mut taps = PATHS.map(|(tap, _)| Capture::open(&world, tap, "left"));
    // xdpfrer writes priority 0 into the tags.
    let tag = VlanTag::new(VLAN);
    let flow = Flow::tagged(&world, ("talker", "listener"), 1, (GROUP, tag), RATE, None);
    while flow.begun() < FRAMES {
        flow.advance(1000);
        for tap in &mut taps {
            tap.take();
        }
    }
    let captured = taps.map(|mut tap| tap.take().to_vec());
    for (path, cut) in [("path1", true), ("path1", false), ("path2", true), ("path2", false)] {
        if cut { world.cut(path, CutEnds::Both) } else { world.restore(path) }.expect("a link");
        flow.advance(1000);
    }
    // A peer may process its ports in parallel.
    let delivery = flow.finish_complete();
    assert!(process.wait(Duration::ZERO).is_none(), "{} has exited", peer.name);

    let numbers =
        PATHS.iter().zip(&captured).map(|((_, vlan), frames)| sequence_numbers(frames, *vlan));
    let numbers: Vec<Vec<u64>> = numbers.collect();
    for numbers in &numbers {
        assert!(numbers.len() as u64 >= FRAMES / 2, "{} frames on a path", numbers.len());
        let gap = numbers.windows(2).find(|pair| (pair[0] + 1) % 65536 != pair[1]);
        assert_eq!(gap, None, "sequence numbers that do not follow each other");
    }
    let verbs =
        if peer_replicates { ["replicates", "eliminates"] } else { ["eliminates", "replicates"] };
    println!(
        "{} {}, onbeat {}: {} frames, 0 lost, 0 duplicated, {} out of order; replicas checked: {}",
        peer.name,
        verbs[0],
        verbs[1],
        delivery.sent(),
        delivery.record.out_of_order(),
        numbers.iter().map(Vec::len).sum::<usize>()
    );
}

/// Runs both peers in both roles.
pub(crate) fn run(programs: [PathBuf; 2]) {
    for peer in &peers(programs) {
        exchange(peer, true);
        exchange(peer, false);
    }
}
