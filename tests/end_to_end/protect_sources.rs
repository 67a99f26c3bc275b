//! A node of PRP in user space that hears 512 sources: each frame passes once, and the memory of all numbers is resident.

use std::collections::HashMap;
use std::io::{Write, stderr};

use onbeat_lab::traffic::{Receiver, socket};
use onbeat_netdev::PacketSocket;
use onbeat_node::control::NodesStatus;
use onbeat_wire::Frame;
use onbeat_wire::prp::{Lan, Tail};

use crate::common::process::Process;
use crate::common::{TemporaryFile, assert_gone, can_run, machine, run, run_in, wait_for};
use crate::protect::{LANS, network};

const NODE: &str = "prot16";
const CONFIG: &str = r#"
[node]
name = "prot16"
protocol = "prp"
backend = "packet"

[[port]]
name = "host"
interface = "prot16"
create = "veth"

[[port]]
name = "a"
interface = "lana"
lan = "a"

[[port]]
name = "b"
interface = "lanb"
lan = "b"
"#;

const SOURCES: u16 = 512;
/// Numbers of a source, equally spaced over all 65,536: they touch every page of its memory.
const NUMBERS: u16 = 32;
const SPACING: u16 = 2048;
/// 65,536 numbers of 4 bits each: two periods, their time and lap.
const OCTETS_OF_SOURCE: u64 = 32 << 10;

/// A frame with its trailer: the payload has source and number.
fn frame(source: u16, number: u16, lan: Lan) -> Vec<u8> {
    let [high, low] = source.to_be_bytes();
    let mut octets = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x10, 0, 0, high, low];
    octets.extend([0x88, 0xb5]);
    octets.extend(source.to_be_bytes());
    octets.extend(number.to_be_bytes());
    octets.resize(60, 0);
    let tail = Tail::of(&Frame::parse(&octets).unwrap(), number, lan).unwrap();
    octets.extend(tail.as_slice());
    octets
}

fn nodes() -> Option<NodesStatus> {
    let shown = run(&["show", NODE, "--nodes", "--json"]);
    serde_json::from_str(&shown.out).ok()
}

/// Resident memory of a process in octets.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn numbers_of_512_sources_are_remembered() {
    if !can_run() {
        return;
    }
    // Late copies would be those of forgotten numbers.
    machine::exclusive();
    let network = network();
    let file = TemporaryFile::with("prot16.toml", CONFIG);
    let node = Process::start(network.h1.namespace(), &["run", file.name()]);
    wait_for("the node answers", || nodes().is_some());
    let receiver = socket::receiver(network.h1.namespace(), NODE).unwrap();
    let mut receiver = Receiver::new(receiver);
    let lans = LANS.map(|lan| socket::sender(network.h2.namespace(), lan).unwrap());
    let before = resident(node.0.id());
    let mut counts: HashMap<(u16, u16), u32> = HashMap::new();
    for step in 0..NUMBERS {
        let number = step * SPACING;
        for source in 0..SOURCES {
            let send = |socket: &PacketSocket, lan| {
                socket.send(&frame(source, number, lan)).unwrap();
            };
            send(&lans[0], Lan::A);
            send(&lans[1], Lan::B);
        }
        let mut take = || {
            while receiver
                .receive(|frame| {
                    if frame.octets[12..14] == [0x88, 0xb5] {
                        let word = |at: usize| {
                            u16::from_be_bytes([frame.octets[at], frame.octets[at + 1]])
                        };
                        assert_eq!(frame.octets.len(), 60);
                        *counts.entry((word(14), word(16))).or_default() += 1;
                    }
                })
                .unwrap()
                > 0
            {}
            counts.len()
        };
        let expected = usize::from(step + 1) * usize::from(SOURCES);
        wait_for("a frame of each source", || take() >= expected);
    }
    let after = resident(node.0.id());
    let status = nodes().expect("tables");
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).take(5).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    assert_eq!(status.nodes.len(), usize::from(SOURCES));
    let of_lans = |count: fn(&onbeat_frer::prp::LanCounters) -> u64| {
        status.lans.iter().map(|lan| count(&lan.counters)).sum::<u64>()
    };
    let frames = u64::from(SOURCES) * u64::from(NUMBERS);
    assert_eq!(of_lans(|lan| lan.accepted), frames);
    assert_eq!(of_lans(|lan| lan.duplicates), frames);
    assert_eq!(of_lans(|lan| lan.without_entry), 0);
    let (grown, numbers) = (after - before, u64::from(SOURCES) * OCTETS_OF_SOURCE);
    let _ = writeln!(
        stderr(),
        "{SOURCES} sources: resident memory {} KiB, then {} KiB: {} octets per source",
        before >> 10,
        after >> 10,
        grown / u64::from(SOURCES)
    );
    // All numbers, and 1 KiB of other state per source at most; the queues of sockets are the kernel's.
    assert!(grown >= numbers * 9 / 10, "{grown} octets: not all pages are in use");
    assert!(grown <= numbers + (2 << 20), "{grown} octets");
    let removed = run_in(network.h1.namespace(), &["down", NODE]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert_gone(NODE);
}
