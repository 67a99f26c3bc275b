//! PRP nodes of onbeat beside those of Linux, whose module `hsr` shares no code with them (`tests/vm`).
//!
//! ```text
//!                           san (10.0.0.3)
//!                            |
//!   linux ------ etha --- LAN A --- etha ------ onbeat
//!   prp0                     |                  red0
//!   10.0.0.1                 |                  10.0.0.2, VLAN 5: 10.0.5.2
//!        \------ ethb --- LAN B --- ethb ------/
//!                          | |
//!                        control (Linux, prp1, 10.0.0.4), peer (onbeat, red1, 10.0.0.5):
//!                        etha on LAN A, ethb on LAN B
//! ```
//!
//! Each LAN is a bridge in the namespace `lans`; its port towards host H is `H-a` or `H-b`. Faults are made
//! there: a port is set down, or its qdisc is netem.
//!
//! Numbered datagrams are sent one way, and counted by the receiver. Linux to Linux is the control: a failure
//! there is one of the network or of this program. onbeat as the receiver loses none and delivers none twice. Linux
//! 6.12 discards by a window, and may lose frames: its losses under faults are printed only.

mod flow;
mod network;

use std::io::Write as _;

use flow::{Delivery, Flow};
use network::{Addresses, Host, Lan, Network, Plane, wait_for};
use onbeat_node::control::NodesStatus;

/// A fault of the LANs towards the receiver, and its name.
type Fault = (&'static str, &'static [(Lan, &'static str)]);

/// Parameters of netem. Datagrams leave every 2 ms.
const FAULTS: [Fault; 8] = [
    ("clean", &[]),
    ("loss 20 % on A", &[(Lan::A, "loss 20%")]),
    ("loss 20 % on A, B 10 ms later", &[(Lan::A, "loss 20%"), (Lan::B, "delay 10ms")]),
    ("reorder 25 % on A", &[(Lan::A, "delay 10ms reorder 75%")]),
    (
        "reorder 25 % on A and B",
        &[(Lan::A, "delay 10ms reorder 75%"), (Lan::B, "delay 10ms reorder 75%")],
    ),
    ("duplicate 30 % on A", &[(Lan::A, "duplicate 30%")]),
    ("A 10 ms later", &[(Lan::A, "delay 10ms")]),
    ("A 20 ms later", &[(Lan::A, "delay 20ms")]),
];

/// Cuts, one after the other: of the link of sender or receiver to a LAN.
const CUTS: [(bool, Lan); 4] = [(true, Lan::A), (true, Lan::B), (false, Lan::A), (false, Lan::B)];

/// Directions: the control first.
const DIRECTIONS: [(Host, Host); 5] = [
    (Host::Linux, Host::Control),
    (Host::Linux, Host::Onbeat),
    (Host::Onbeat, Host::Linux),
    (Host::Peer, Host::Onbeat),
    (Host::Onbeat, Host::Peer),
];

/// Datagrams of a case.
const DATAGRAMS: u32 = 500;

/// `None`: not in a machine of its own, or its kernel has no PRP.
fn network(addresses: Addresses, plane: Plane) -> Option<Network> {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    let skip = |reason| {
        // Not by eprintln!, which shows the output of failed tests only.
        let _ = writeln!(std::io::stderr(), "SKIP: {test}: {reason}");
        None
    };
    if std::env::var_os("ONBEAT_VM").is_none_or(|value| value != "1") {
        return skip("requires a machine of its own (tests/vm)");
    }
    if !network::has_modules() {
        return skip("this kernel has no module hsr");
    }
    Some(Network::start(addresses, plane))
}

/// Prints a result; guest-suites shows it.
fn print_row(case: &str, (from, to): (Host, Host), delivery: &Delivery) {
    let Delivery { sent, lost, twice, late } = delivery;
    let direction = format!("{} to {}", from.name(), to.name());
    println!("| {case:<31} | {direction:<18} | {sent:>5} | {lost:>5} | {twice:>5} | {late:>5} |");
}

#[test]
fn datagrams_arrive_once() {
    send_datagrams(Plane::Packet, &DIRECTIONS);
}

#[test]
fn datagrams_arrive_once_by_programs() {
    send_datagrams(Plane::Native, &DIRECTIONS[1..]);
}

#[test]
fn datagrams_arrive_once_by_programs_in_generic_mode() {
    send_datagrams(Plane::Generic, &DIRECTIONS[1..]);
}

fn send_datagrams(plane: Plane, directions: &[(Host, Host)]) {
    let Some(network) = network(Addresses::One, plane) else { return };
    println!("data plane of onbeat: {}", plane.name());
    let mut faults = Vec::new();
    println!(
        "| {:<31} | {:<18} | {:>5} | {:>5} | {:>5} | {:>5} |",
        "case", "direction", "sent", "lost", "twice", "late"
    );
    for &(from, to) in directions {
        network.ping(from, to, 56);
        let mut report = |case: &str, delivery: &Delivery| {
            print_row(case, (from, to), delivery);
            // Linux does not promise this under faults.
            if (to.is_onbeat() || case == "clean") && (delivery.lost, delivery.repeated()) != (0, 0)
            {
                faults.push(format!("{case}, {} to {}: {delivery:?}", from.name(), to.name()));
            }
        };
        for (case, links) in FAULTS {
            links.iter().for_each(|(lan, netem)| network.disturb(to, *lan, netem));
            let flow = Flow::start(&network, from, to);
            flow.advance(DATAGRAMS);
            report(case, &flow.finish());
            links.iter().for_each(|(lan, _)| network.calm(to, *lan));
        }
        let flow = Flow::start(&network, from, to);
        for (at_sender, lan) in CUTS {
            flow.advance(50);
            let end = if at_sender { from } else { to };
            network.cut(end, lan);
            flow.advance(100);
            network.join(end, lan);
            // The cut of the other LAN has to wait for this one.
            let before = network.received(to, lan);
            wait_for("frames after the cut", || network.received(to, lan) > before + 20);
        }
        report("A and B cut in turn", &flow.finish());
    }
    network.print_status();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_node_is_in_the_table_of_the_other() {
    let Some(network) = network(Addresses::One, Plane::Packet) else { return };
    let (linux, onbeat) = (network.mac(Host::Linux), network.mac(Host::Onbeat));
    // Frames of supervision only: there is no other traffic.
    wait_for("Linux in the NodesTable of onbeat, with supervision on both LANs", || {
        let status: NodesStatus = network.nodes();
        assert_eq!(status.mac, onbeat);
        let node = status.nodes.iter().find(|node| node.mac == linux);
        node.is_some_and(|node| {
            assert_eq!((node.a.wrong_lan, node.b.wrong_lan, &node.redbox), (0, 0, &None));
            let is_supervised = node.supervision_age_ns.is_some();
            is_supervised && node.kind.name() == "DANP" && node.a.tagged > 1 && node.b.tagged > 1
        })
    });
    // MAC of A, MAC of B, time in A, time in B, port of MAC B, SAN on A, SAN on B, DANP.
    let entry = || {
        let table = network.node_table(Host::Linux);
        let rows = table.lines().map(|line| line.replace(',', " "));
        let rows = rows.map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        rows.into_iter().find(|row| row.first() == Some(&onbeat)).filter(|row| row.len() == 8)
    };
    let mut first = None;
    wait_for("onbeat in Linux's node table, heard on both LANs", || {
        let Some(row) = entry() else { return false };
        let time = |column: usize| u64::from_str_radix(&row[column], 16).expect("a time");
        let (a, b) = *first.get_or_insert((time(2), time(3)));
        time(2) > a && time(3) > b && row[5..] == ["0", "0", "1"]
    });
    println!("{}", network.node_table(Host::Linux));
    network.print_status();
}

#[test]
fn a_station_without_redundancy_is_reached() {
    reach_station(Plane::Packet);
}

#[test]
fn a_station_without_redundancy_is_reached_by_programs() {
    reach_station(Plane::Native);
}

#[test]
fn a_station_without_redundancy_is_reached_by_programs_in_generic_mode() {
    reach_station(Plane::Generic);
}

fn reach_station(plane: Plane) {
    let Some(network) = network(Addresses::One, plane) else { return };
    for (from, to) in [
        (Host::San, Host::Onbeat),
        (Host::Onbeat, Host::San),
        (Host::San, Host::Linux),
        (Host::Linux, Host::San),
    ] {
        network.ping(from, to, 56);
        let flow = Flow::start(&network, from, to);
        flow.advance(DATAGRAMS);
        let delivery = flow.finish();
        print_row("one without redundancy", (from, to), &delivery);
        // A station without redundancy is on one LAN, and receives one copy.
        assert_eq!(
            (delivery.lost, delivery.repeated()),
            (0, 0),
            "{} to {}",
            from.name(),
            to.name()
        );
    }
    let san = network.mac(Host::San);
    let nodes = network.nodes().nodes;
    let node = nodes.iter().find(|node| node.mac == san).expect("the station in the NodesTable");
    assert_eq!((node.kind.name(), node.a.tagged, node.b.untagged), ("SAN", 0, 0));
    network.transfer(Host::Onbeat, Host::San, 1 << 20);
    network.transfer(Host::San, Host::Onbeat, 1 << 20);
}

#[test]
fn full_frames_and_streams_pass_unchanged() {
    send_full_frames(Plane::Packet, &DIRECTIONS);
}

#[test]
fn full_frames_and_streams_pass_programs_unchanged() {
    send_full_frames(Plane::Native, &DIRECTIONS[1..]);
}

#[test]
fn full_frames_and_streams_pass_programs_unchanged_in_generic_mode() {
    send_full_frames(Plane::Generic, &DIRECTIONS[1..]);
}

fn send_full_frames(plane: Plane, directions: &[(Host, Host)]) {
    let Some(network) = network(Addresses::One, plane) else { return };
    for (from, to) in [(Host::Onbeat, Host::Linux), (Host::Linux, Host::Onbeat)] {
        assert_eq!(network.mtu(from), 1494, "{}", from.name());
        // Short ones, which are padded; the longest that are; and full ones.
        for payload in [1, 17, 18, 19, 1494 - 28] {
            network.ping(from, to, payload);
        }
    }
    for &(from, to) in directions {
        network.transfer(from, to, 5_000_000);
    }
    network.print_status();
}

#[test]
fn frames_of_a_vlan_pass() {
    let Some(network) = network(Addresses::One, Plane::Packet) else { return };
    // Linux has none over prp0 before 6.13; a station without redundancy has.
    let peer = if network.add_vlan(Host::Linux) {
        Host::Linux
    } else {
        println!("no VLAN over prp0 in this kernel; the peer is the station without redundancy");
        assert!(network.add_vlan(Host::San), "a VLAN over veth");
        Host::San
    };
    assert!(network.add_vlan(Host::Onbeat), "a VLAN over red0");
    for (from, to) in [(peer, Host::Onbeat), (Host::Onbeat, peer)] {
        for payload in [1, 14, 1494 - 28] {
            network.ping_in_vlan(from, to, payload);
        }
    }
}

/// Linux 6.12 sends with the addresses of both interfaces, unless they are equal. Its supervision frames name one
/// node on both LANs; not every receiver of Linux joins the addresses.
#[test]
fn copies_of_a_node_with_two_addresses_arrive_once() {
    join_two_addresses(Plane::Packet, &DIRECTIONS);
}

#[test]
fn copies_of_a_node_with_two_addresses_pass_programs_once() {
    join_two_addresses(Plane::Native, &DIRECTIONS[1..]);
}

fn join_two_addresses(plane: Plane, directions: &[(Host, Host)]) {
    let Some(network) = network(Addresses::Two, plane) else { return };
    let linux = network.mac(Host::Linux);
    wait_for("supervision frames of Linux on both LANs", || {
        let nodes = network.nodes().nodes;
        let node = nodes.iter().find(|node| node.mac == linux);
        node.is_some_and(|node| node.a.tagged > 1 && node.b.tagged > 1)
    });
    for &(from, to) in directions {
        network.ping(from, to, 56);
        let flow = Flow::start(&network, from, to);
        flow.advance(DATAGRAMS);
        let delivery = flow.finish();
        print_row("clean, two addresses", (from, to), &delivery);
        let twice = if to.is_onbeat() { delivery.repeated() } else { 0 };
        assert_eq!((delivery.lost, twice), (0, 0), "{} to {}", from.name(), to.name());
    }
    network.print_status();
}
