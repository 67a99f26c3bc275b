//! The how-to guides, executed. A block of commands that no test here runs has a mark with the reason.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::book::Expectation::{After, AnyResult, Repeated, Writes};
use crate::book::{Page, is_left_out};
use crate::common::{can, can_run, root};
use onbeat_delay::capture::{LinkType, Writer};
use onbeat_testing::documents::documents;
use onbeat_testing::{Feature, require_that};

/// Pages without their network: commands of other pages must be marked.
const PAGES: [&str; 13] = [
    "docs/how-to/choose-a-data-plane.md",
    "docs/how-to/compare-methods.md",
    "docs/how-to/guard.md",
    "docs/how-to/measure-a-hop.md",
    "docs/how-to/measure-a-host.md",
    "docs/how-to/netconf.md",
    "docs/how-to/operate-a-node.md",
    "docs/how-to/powerlink-ethernet.md",
    "docs/how-to/powerlink-frer.md",
    "docs/how-to/powerlink-nodes.md",
    "docs/how-to/probe-a-path.md",
    "docs/how-to/real-time-host.md",
    "docs/how-to/record-softirq-time.md",
];

/// The relay of several guides: three interfaces with other ends.
const RELAY: Page<'static> = Page {
    stations: &["host", "talker", "left", "right"],
    links: &[("host:eth0", "talker:eth0"), ("host:eth1", "left:eth0"), ("host:eth2", "right:eth0")],
    // Room for the R-TAG of the longest frames, as other nodes have.
    setup: &[("left", "ip link set eth0 mtu 1506"), ("right", "ip link set eth0 mtu 1506")],
    ..Page::DEFAULT
};

/// Two hosts with addresses, on one link.
const TWO_HOSTS: Page<'static> = Page {
    stations: &["a", "b"],
    links: &[("a:eth1", "b:eth1")],
    setup: &[
        ("a", "ip address add 192.0.2.1/24 dev eth1"),
        ("b", "ip address add 192.0.2.2/24 dev eth1"),
    ],
    ..Page::DEFAULT
};

/// Makes the capture of a mirror port.
const MERGE: &str = "mergecap -F nsecpcap -w span.pcap in.pcap out.pcap";

/// Executes a page of the list.
fn follow(name: &str, page: Page<'_>) {
    let document = format!("docs/how-to/{name}.md");
    assert!(PAGES.contains(&&*document), "{document}");
    Page { document: &document, ..page }.follow();
}

fn has(program: &str, version: &str, package: &str) -> bool {
    let found = Command::new(program).arg(version).output().is_ok();
    require_that(found, &format!("{program} (apt-get install {package})"))
}

#[test]
fn operate_a_node() {
    if can_run() {
        follow("operate-a-node", Page { special: &[("onbeat doctor", AnyResult)], ..RELAY });
    }
}

#[test]
fn manage_by_netconf() {
    if can_run() && has("jq", "--version", "jq") {
        follow("netconf", RELAY);
    }
}

#[test]
fn choose_a_data_plane() {
    if can_run() {
        let prepare = |directory: &Path| {
            let example = root().join("examples/relay-two-paths.toml");
            fs::copy(example, directory.join("bridge.toml")).expect("the example");
        };
        let special = &[("onbeat doctor", AnyResult)];
        follow("choose-a-data-plane", Page { special, prepare: &prepare, ..RELAY });
    }
}

#[test]
fn powerlink_over_frer() {
    if can_run() {
        follow("powerlink-frer", RELAY);
    }
}

#[test]
fn compare_methods() {
    if can_run() {
        let prepare = |directory: &Path| {
            let example = root().join("examples/load/paper.toml");
            fs::copy(example, directory.join("paper.toml")).expect("the example");
            write_captures(directory, 20_000, ["in.pcap", "out.pcap"]);
            write_captures(directory, 1_000, ["null-in.pcap", "null-out.pcap"]);
        };
        let [a, b] = [TWO_HOSTS.setup[0], TWO_HOSTS.setup[1]];
        let setup = &[a, b, ("a", MERGE)];
        if has("mergecap", "--version", "wireshark-common") {
            follow("compare-methods", Page { setup, prepare: &prepare, ..TWO_HOSTS });
        }
    }
}

#[test]
fn guard() {
    let has_programs = || has("jq", "--version", "jq") && has("ethtool", "--version", "ethtool");
    if can(&[Feature::Btf, Feature::Kernel(6, 6)]) && has_programs() {
        follow(
            "guard",
            Page {
                stations: &["host", "other"],
                links: &[("host:eth0", "other:eth0"), ("host:eth1", "other:eth1")],
                // A veth has NAPI with GRO.
                setup: &[("host", "ethtool -K eth0 gro on && ethtool -K eth1 gro on")],
                special: &[(
                    "onbeat irq guard guard.toml --json",
                    Writes("events.json", "\"interface\":\"eth1\""),
                )],
                ..Page::DEFAULT
            },
        );
    }
}

#[test]
fn record_softirq_time() {
    if can(&[Feature::Btf, Feature::Kernel(6, 3)]) && has("ping", "-V", "iputils-ping") {
        let setup = &[("host", "ip link set lo up")];
        follow("record-softirq-time", Page { setup, ..Page::DEFAULT });
    }
}

#[test]
fn prepare_a_real_time_host() {
    if can_run() {
        follow(
            "real-time-host",
            Page {
                stations: &["host", "other"],
                links: &[("host:eth1", "other:eth1")],
                special: &[("onbeat doctor", AnyResult)],
                ..Page::DEFAULT
            },
        );
    }
}

/// A frame with a UDP datagram that has this number.
fn datagram(destination: [u8; 6], source: [u8; 6], number: u32) -> Vec<u8> {
    let payload = number.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 28 + 4, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let sum = ip.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum::<u32>();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [0x13, 0x88, 0x13, 0x88, 0, 12, 0, 0];
    [&destination[..], &source, &[8, 0], &ip, &udp, &payload].concat()
}

/// Writes a capture of 1,000 datagrams, each at its time and, after `hop_ns`, with other addresses.
fn write_captures(directory: &Path, hop_ns: u64, names: [&str; 2]) {
    let mut writers = names.map(|name| {
        let file = fs::File::create(directory.join(name)).expect("a file");
        Writer::new(std::io::BufWriter::new(file), LinkType::ETHERNET).expect("a capture")
    });
    let [hop, sender, receiver] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]];
    for number in 0..1000 {
        let arrival_ns = 1_000_000_000 + i64::from(number) * 1_000_000;
        // Delays differ, as those of a hop.
        let delay_ns = (hop_ns + u64::from(number * 7919 % 1000)) as i64;
        let frames = [datagram(hop, sender, number), datagram(receiver, hop, number)];
        let times_ns = [arrival_ns, arrival_ns + delay_ns];
        for ((writer, frame), time_ns) in writers.iter_mut().zip(frames).zip(times_ns) {
            writer.write(time_ns, &frame, frame.len() as u32).expect("a packet");
        }
    }
    writers.into_iter().for_each(|writer| drop(writer.finish().expect("a capture")));
}

#[test]
fn measure_a_hop() {
    if can_run() {
        let prepare = |directory: &Path| {
            write_captures(directory, 20_000, ["in.pcap", "out.pcap"]);
            write_captures(directory, 1_000, ["null-in.pcap", "null-out.pcap"]);
        };
        if has("mergecap", "--version", "wireshark-common") {
            let setup = &[("host", MERGE)];
            follow("measure-a-hop", Page { setup, prepare: &prepare, ..Page::DEFAULT });
        }
    }
}

#[test]
fn measure_a_host() {
    if can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        follow(
            "measure-a-host",
            Page {
                stations: &["hop", "a", "b"],
                links: &[("a:eth1", "hop:eth0"), ("hop:eth1", "b:eth1")],
                setup: &[
                    (
                        "a",
                        "ip address add 10.0.1.2/24 dev eth1; ip route add 10.0.2.0/24 via 10.0.1.1",
                    ),
                    (
                        "b",
                        "ip address add 10.0.2.2/24 dev eth1; ip route add 10.0.1.0/24 via 10.0.2.1",
                    ),
                    (
                        "hop",
                        "ip address add 10.0.1.1/24 dev eth0; ip address add 10.0.2.1/24 dev eth1",
                    ),
                    ("hop", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
                    ("a", "onbeat load net 10.0.2.2:5000 --rate 2000 > load.txt 2>&1 &"),
                ],
                ..Page::DEFAULT
            },
        );
    }
}

#[test]
fn probe_a_path() {
    if can_run() && has("openssl", "version", "openssl") {
        follow(
            "probe-a-path",
            Page {
                special: &[
                    ("onbeat delay ping", Repeated),
                    ("onbeat delay ping 192.0.2.2 --key", After("a", "cp ../b/probe.key .")),
                ],
                ..TWO_HOSTS
            },
        );
    }
}

#[test]
fn powerlink_nodes() {
    if can_run() && has("ethtool", "--version", "ethtool") {
        let bus = "[network]\ncycle-us = 10000\nloss-threshold = 80\n\n[[node]]\nid = 1\nname = \"drive\"\n\
                   input = [{ name = \"position\", type = \"i32\", simulate = \"counter\" }]\n";
        let prepare =
            |directory: &Path| fs::write(directory.join("bus.toml"), bus).expect("a file");
        follow(
            "powerlink-nodes",
            Page {
                stations: &["a", "b"],
                links: &[("a:eth1", "b:eth1")],
                // A veth sends a response of XDP to a peer with NAPI.
                setup: &[("a", "ethtool -K eth1 gro on"), ("b", "ethtool -K eth1 gro on")],
                special: &[("onbeat powerlink sniff", AnyResult), ("wait", AnyResult)],
                prepare: &prepare,
                ..Page::DEFAULT
            },
        );
    }
}

#[test]
fn connect_hosts_over_powerlink() {
    if can_run() && has("ping", "-V", "iputils-ping") {
        follow(
            "powerlink-ethernet",
            Page {
                stations: &["a", "b"],
                links: &[("a:eth1", "b:eth1")],
                special: &[("ping", Repeated), ("kill $!; wait $!", AnyResult)],
                ..Page::DEFAULT
            },
        );
    }
}

/// Commands are in blocks `console`, and each of these is executed here, by the tests of the tutorials, or states
/// why no test runs it.
#[test]
fn every_block_of_commands_is_run_or_marked() {
    let mut faults = Vec::new();
    let (mut run, mut marked) = (0, 0);
    for document in documents(&root()) {
        let path = document.path.to_string_lossy().into_owned();
        let is_run =
            PAGES.contains(&&*path) || path.starts_with("docs/tutorials/") || path == "README.md";
        if !is_run && !path.starts_with("docs/") {
            continue;
        }
        for block in document.blocks() {
            let is_command = block.lines.iter().any(|line| line.starts_with("onbeat "));
            if is_left_out(&block) {
                marked += 1;
            } else if block.language == "console" && is_run {
                run += 1;
            } else if block.language == "console"
                || block.language == "sh" && path != "README.md"
                || is_command
            {
                faults.push(format!("{path}:{}: neither run nor marked", block.line));
            }
        }
    }
    assert!(run > 40 && marked > 10, "{run} blocks are run, {marked} marked");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
