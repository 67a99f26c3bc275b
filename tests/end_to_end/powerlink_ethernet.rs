//! Hosts on a POWERLINK bus: `virtual-ethernet` of `onbeat powerlink`.
//!
//! ```text
//!  watched, while the bus runs:   plk0 onbeat powerlink mn --- hub --- cn onbeat powerlink cn plk0
//!  an unmanaged bus:     plk0 onbeat powerlink mn --- cn, a host like any other
//! ```

use crate::common::powerlink::{
    NETWORK, Pair, end, hub, row, start, start_and_read, wait_for_line,
};
use crate::common::{TemporaryFile, can, machine, wait_for};
use onbeat_lab::traffic::{Receiver, socket};
use onbeat_netdev::Handle;
use onbeat_testing::Feature;
use onbeat_wire::powerlink::{Body, Message, NmtState, NodeId, RequestedService, Service};

/// A bus whose nodes are also hosts of an IP network.
const HOSTS: &str = r#"
[network]
cycle-us = 5000
async-slot-us = 2000
loss-threshold = 1000

[managing]
interface = "mn"
virtual-ethernet = "plk0"

[[node]]
id = 1
interface = "cn"
virtual-ethernet = "plk0"
pres-timeout-us = 3000
input = [{ type = "u16", simulate = "copy" }]
output = [{ type = "u16", simulate = "counter" }]
"#;

const IPV4: [u8; 2] = [8, 0];
const EPL: [u8; 2] = [0x88, 0xab];

const INVITES: [RequestedService; 2] =
    [RequestedService::NMT_REQUEST_INVITE, RequestedService::UNSPECIFIED_INVITE];

/// Sends an echo request; the network stack of the other end replies.
fn ping(socket: &std::os::fd::OwnedFd, to: std::net::Ipv4Addr, number: u16, octets: usize) {
    use nix::sys::socket::{MsgFlags, SockaddrIn, sendto};
    use std::os::fd::AsRawFd;
    let mut request = vec![8, 0, 0, 0, 0x0b, 0xff];
    request.extend(number.to_be_bytes());
    request.resize(octets, 0x5a);
    let words = request
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    request[2..4].copy_from_slice(&checksum.to_be_bytes());
    let [a, b, c, d] = to.octets();
    let address = SockaddrIn::new(a, b, c, d, 0);
    let sent = sendto(socket.as_raw_fd(), &request, &address, MsgFlags::empty());
    assert_eq!(sent, Ok(octets), "to {to}");
}

/// Numbers of the received echo replies.
fn replies(socket: &std::os::fd::OwnedFd, octets: usize) -> Vec<u16> {
    use nix::sys::socket::{MsgFlags, recv};
    use std::os::fd::AsRawFd;
    let (mut buffer, mut found) = ([0; 2048], Vec::new());
    while let Ok(len) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
        let reply = &buffer[20..len];
        if reply[0] == 0 && reply[4..6] == [0x0b, 0xff] {
            assert_eq!(reply.len(), octets);
            found.push(u16::from_be_bytes([reply[6], reply[7]]));
        }
    }
    found
}

/// A socket for echo requests.
fn icmp(handle: &Handle) -> std::os::fd::OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
    let open = || socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp);
    handle.namespace().run(open).unwrap().unwrap()
}

/// A managing node that leaves the network unmanaged: its host is a plain Ethernet host that any other
/// host can reach, and no POWERLINK frames are on the cable.
#[test]
fn a_host_in_basic_ethernet_is_reachable() {
    if !can(&[Feature::Tap]) {
        return;
    }
    let keys = "[managing]\nbasic-ethernet = true\nvirtual-ethernet = \"plk0\"\n";
    let text = NETWORK.replace("[managing]\n", keys);
    let (file, pair) = (TemporaryFile::with("basic.toml", &text), Pair::new());
    let address = std::net::Ipv4Addr::new(192, 168, 100, 1);
    pair.cn.add_address("cn", address.into(), 24).unwrap();
    let mut tap = pair.frames_of_managing();
    let managing = pair.managing(&file);
    let (socket, mut number, mut came) = (icmp(&pair.cn), 0, 0);
    // It listens for a second first, and drops frames of its host meanwhile.
    wait_for("ten echoes", || {
        ping(&socket, std::net::Ipv4Addr::new(192, 168, 100, 240), number, 64);
        number += 1;
        came += replies(&socket, 64).len();
        came >= 10
    });
    let (mut powerlink, mut others) = (0, 0);
    let mut count = |octets: &[u8]| match octets.get(12..14) == Some(&EPL[..]) {
        true => powerlink += 1,
        false => others += 1,
    };
    tap.receive(|frame| count(frame.octets)).expect("frames");
    let (code, found) = end(managing);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!((powerlink, others > 10), (0, true), "{others} frames of others");
    let check = &found["checks"][0];
    assert_eq!(
        (&check["name"], &check["ok"]),
        (&"in BASIC_ETHERNET at the end".into(), &true.into())
    );
    assert!(row(&found, "virtual Ethernet", "plk0")[2].as_u64().unwrap() >= 10, "{found:#}");
}

/// The node goes on without its virtual Ethernet, and reports that once.
#[test]
fn a_removed_virtual_ethernet_is_reported() {
    if !can(&[Feature::Tap]) {
        return;
    }
    let keys = "[managing]\nvirtual-ethernet = \"plk0\"\n";
    let text = NETWORK.replace("[managing]\n", keys);
    let (file, pair) = (TemporaryFile::with("tap.toml", &text), Pair::new());
    let controlled = pair.controlled(&file);
    let arguments = ["powerlink", "mn", file.name(), "--json"];
    let (managing, lines) = start_and_read(&pair.mn, &arguments);
    wait_for_line(&lines, "node 1: operational");
    pair.mn.delete("plk0").unwrap();
    let removed = "virtual Ethernet plk0 was removed: the node runs without it";
    wait_for_line(&lines, removed);
    let (code, found) = end(managing);
    end(controlled);
    assert_eq!(code, Some(0), "{found:#}");
    let notes = found["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
    assert_eq!(notes.filter(|note| note.starts_with(removed)).count(), 1, "{found:#}");
    assert!(lines.try_iter().all(|line| !line.contains(removed)), "it is reported once");
}

/// Both ends ping each other while process data continue; all frames on the bus are sent by invitation.
#[test]
fn hosts_reach_each_other_across_a_bus() {
    if !can(&[Feature::Tap]) {
        return;
    }
    machine::exclusive();
    let file = TemporaryFile::with("hosts.toml", HOSTS);
    let name = file.name();
    let (hub, [mn, cn]) = hub(["mn", "cn"]);
    // All frames of the bus in both directions, in order.
    let mut tap = Receiver::new(socket::monitor(hub.namespace(), "p0").unwrap());
    let controlled = start(&cn, &["powerlink", "cn", name, "--node", "1", "--json", "--quiet"]);
    let managing = start(&mn, &["powerlink", "mn", name, "--json", "--quiet"]);

    // Who may speak: each frame takes one of its node's invitations. A node that has no CPU speaks late, when another may have been invited since, but never without having been.
    let (mut operational, mut invitations, mut others, mut uninvited) = (0, [0_u32; 2], 0, 0);
    let addresses =
        [(&mn, "mn"), (&cn, "cn")].map(|(handle, name)| handle.link(name).unwrap().mac.unwrap());
    let mut look = |tap: &mut Receiver| {
        let mut see = |frame: &[u8]| {
            let message = (frame[12..14] == EPL).then(|| Message::parse(&frame[14..]).unwrap());
            match message.map(|message| message.body) {
                Some(Body::Pres(pres)) => {
                    operational += u32::from(pres.state == NmtState::OPERATIONAL);
                }
                Some(Body::Soa(soa)) if INVITES.contains(&soa.service) => {
                    let node = [NodeId::MN, NodeId(1)].iter().position(|node| *node == soa.target);
                    invitations[node.expect("a node of the bus")] += 1;
                }
                None | Some(Body::Asnd(Service::Sdo(_) | Service::NmtCommand(_))) => {
                    others += u32::from(frame[12..14] == IPV4);
                    let from = addresses.iter().position(|mac| mac.0 == frame[6..12]);
                    match from.map(|node| &mut invitations[node]) {
                        Some(left @ 1..) => *left -= 1,
                        _ => uninvited += 1,
                    }
                }
                Some(_) => {}
            }
        };
        tap.receive(|frame| see(frame.octets)).expect("frames");
        operational
    };
    wait_for("ten responses in OPERATIONAL", || look(&mut tap) >= 10);

    // The longest that fits the interface: 1500 octets less the IP header.
    for (octets, pings) in [(64, 20), (1480, 5)] {
        for (from, to) in [(&mn, 1), (&cn, 240)] {
            let socket = icmp(from);
            let mut answered = Vec::new();
            for number in 0..pings {
                ping(&socket, std::net::Ipv4Addr::new(192, 168, 100, to), number, octets);
                wait_for("an echo", || {
                    look(&mut tap);
                    answered.extend(replies(&socket, octets));
                    answered.contains(&number)
                });
            }
            // No duplicate replies: the stack receives frames of the bus by the virtual interface only.
            assert_eq!(answered, (0..pings).collect::<Vec<_>>(), "{octets} octets to {to}");
        }
    }
    let seen = look(&mut tap);
    wait_for("ten more responses in OPERATIONAL", || look(&mut tap) >= seen + 10);
    let (code, found) = end(managing);
    let (_, controlled) = end(controlled);
    assert_eq!(code, Some(0), "{found:#}");
    assert!(others >= 2 * 2 * 25, "{others} packets on the bus");
    assert_eq!(uninvited, 0, "of {others} packets");
    // A node with a request has a frame: an unused invitation was in flight at the end, or arrived
    // while its node had no CPU time.
    assert!(invitations.iter().sum::<u32>() <= others / 10, "{invitations:?} of {others} packets");
    for (result, address) in [(&found, "192.168.100.240"), (&controlled, "192.168.100.1")] {
        let row = row(result, "virtual Ethernet", "plk0");
        assert_eq!(row[1], address);
        assert!(row[2].as_u64().unwrap() >= 50, "{row:?}");
    }
    assert!(mn.link("plk0").is_err(), "the interface is removed with the node");
    assert!(mn.link("mn").unwrap().arp, "the bus interface is restored");
}
