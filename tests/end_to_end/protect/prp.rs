//! PRP: cuts of paths, with packet sockets and with programs in the kernel; a host without redundancy.

use std::net::{IpAddr, Ipv4Addr};

use onbeat_netdev::{Ethtool, Handle, PacketSocket, ReceiveBuffers};
use onbeat_wire::MacAddress;

use super::{
    H1, H2, LANS, Network, PATH1, PATH3, PORT, ProtectedHosts, SAN, exchange_while_paths_are_cut,
    hears, neighbor, network, network_that_polls, nodes, udp,
};
use crate::common::{BOUND, assert_gone, can_run, run_in, wait_for};

#[test]
fn sockets_on_a_redundant_interface_lose_nothing_while_its_paths_are_cut() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::new(["prot1", "prot2"]);
    exchange_while_paths_are_cut(&protected);
    let status = nodes("prot2");
    for lan in &status.lans {
        let c = &lan.counters;
        let causes = c.passed + c.own + c.accepted + c.duplicates + c.untagged + c.supervision;
        assert_eq!(c.received, causes + c.invalid_supervision + c.unread_supervision, "{status:?}");
        assert!(c.accepted > 0 && c.wrong_lan == 0, "{status:?}");
    }
    assert_eq!(neighbor(&protected.network.h1, H2), nodes("prot2").mac, "the path answered ARP");
}

/// The far ends of the paths poll, as redirection to a veth requires.
#[test]
fn programs_in_the_kernel_lose_nothing_while_paths_are_cut_and_without_the_daemon() {
    if !can_run() {
        return;
    }
    let network = network_that_polls();
    // Programs forward checksums as they are.
    let ethtool = Ethtool::in_namespace(network.san.namespace()).unwrap();
    ethtool.set_features("eth0", &[("tx", false)]).unwrap();
    let protected =
        ProtectedHosts::with_options(network, ["protb", "protc"], "prp", &["--backend", "xdp"]);
    for node in protected.names {
        wait_for("each node hears the other on both LANs", || hears(&nodes(node)));
    }
    protected.run_natively();
    exchange_while_paths_are_cut(&protected);
    let Network { h1, san, .. } = &protected.network;
    let status = nodes("protc");
    for lan in &status.lans {
        assert!(lan.counters.accepted > 0, "{status:?}");
        assert_eq!((lan.counters.wrong_lan, lan.counters.own), (0, 0), "{status:?}");
    }
    assert!(status.lans.iter().any(|lan| lan.counters.duplicates > 0), "{status:?}");
    assert_eq!(neighbor(h1, H2), status.mac, "the path answered ARP");

    // A host without redundancy, whose broadcasts are for the host and for the path's own stack. Each answers for its own
    // address.
    let setting = "/proc/sys/net/ipv4/conf/all/arp_ignore";
    h1.namespace().run(|| std::fs::write(setting, "1")).unwrap().unwrap();
    h1.add_address("lana", IpAddr::V4(PATH1), 24).unwrap();
    san.add_address("eth0", IpAddr::V4(PATH3), 24).unwrap();
    let there = udp(san, Ipv4Addr::UNSPECIFIED, PORT);
    for (from, to) in [(H1, SAN), (PATH1, PATH3)] {
        let here = udp(h1, from, PORT);
        let mut octets = [0; 16];
        for socket in [&here, &there] {
            socket.set_read_timeout(Some(BOUND)).unwrap();
        }
        for number in 0..20 {
            // The first one of the other side requires ARP by broadcast.
            there.send_to(&[number], (from, PORT)).unwrap();
            let what = format!("{from} and {to}, {number}");
            let (len, _) = here.recv_from(&mut octets).expect(&what);
            assert_eq!((len, octets[0]), (1, number));
            here.send_to(&[number + 100], (to, PORT)).unwrap();
            let (len, source) = there.recv_from(&mut octets).expect(&what);
            assert_eq!((len, octets[0], source.ip()), (1, number + 100, IpAddr::V4(from)));
        }
    }
    assert_eq!(neighbor(san, H1), nodes("protb").mac);
    let of_path = h1.link("lana").unwrap().mac.unwrap().to_string();
    assert_eq!(neighbor(san, PATH1), of_path);

    protected.continue_without_daemons();
    protected.undo();
}

#[test]
fn a_host_without_redundancy_is_reached_and_all_is_removed_at_the_end() {
    if !can_run() {
        return;
    }
    let protected = ProtectedHosts::new(["prot4", "prot5"]);
    let Network { h1, san, .. } = &protected.network;
    let (here, there) = (udp(h1, H1, PORT), udp(san, SAN, PORT));
    // The path's own interface has addresses, and does not answer for those of the redundant one.
    assert_eq!(LANS.map(|lan| h1.arp_ignore(lan).unwrap()), [1, 1]);
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(BOUND)).unwrap();
    }
    let mut octets = [0; 16];
    for number in 0..20 {
        here.send_to(&[number], (SAN, PORT)).unwrap();
        let (_, from) = there.recv_from(&mut octets).unwrap();
        assert_eq!((octets[0], from.ip()), (number, IpAddr::V4(H1)));
        there.send_to(&[number + 100], from).unwrap();
        let (len, _) = here.recv_from(&mut octets).unwrap();
        assert_eq!((len, octets[0]), (1, number + 100));
    }
    let node = nodes("prot4").mac;
    assert_eq!(neighbor(san, H1), node);
    assert_eq!(addresses_of(san, H1), [node]);
    // Its interfaces are in use: nothing is left of another node.
    let refused = run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot6"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("prot4"), "{}", refused.err);
    assert!(h1.link("prot6").unwrap_err().is_not_found());
    assert_gone("prot6");
    let features = |handle: &Handle, name: &str| {
        let features = Ethtool::in_namespace(handle.namespace()).unwrap().features(name).unwrap();
        features.into_iter().filter(|feature| feature.active).map(|f| f.name).collect::<Vec<_>>()
    };
    let fresh = network();
    let handles = [&protected.network.h1, &protected.network.h2];
    for (handle, name) in handles.into_iter().zip(protected.names) {
        let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
        assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
        assert!(handle.link(name).unwrap_err().is_not_found());
        for lan in LANS {
            assert_eq!(features(handle, lan), features(&fresh.h1, lan), "{lan}");
            assert_eq!(handle.link(lan).unwrap().mtu, 1500);
            assert_eq!(handle.arp_ignore(lan).unwrap(), 0);
        }
        assert_gone(name);
    }
}

/// The hardware addresses by which an ARP request for an address is answered.
fn addresses_of(host: &Handle, address: Ipv4Addr) -> Vec<String> {
    const ARP: u16 = 0x0806;
    let link = host.link("eth0").unwrap();
    let socket = host.namespace().run(|| PacketSocket::open(link.index).unwrap()).unwrap();
    socket.bind(ARP).unwrap();
    let mac = link.mac.unwrap().0;
    let ethernet = [&[0xff; 6][..], &mac, &ARP.to_be_bytes()].concat();
    let request = [0, 1, 8, 0, 6, 4, 0, 1];
    let target = [&[0; 6][..], &address.octets()].concat();
    let request = [&ethernet[..], &request, &mac, &SAN.octets(), &target].concat();
    let mut answers = Vec::new();
    let mut buffers = ReceiveBuffers::new(ReceiveBuffers::MOST);
    // Of several answers to the first request, the last comes before that to a later one.
    for round in 1..=5 {
        socket.send(&request).unwrap();
        wait_for("answer", || {
            let received = socket.receive(&mut buffers, |frame| {
                let (operation, sender) = (&frame.octets[20..22], &frame.octets[22..32]);
                if !frame.outgoing && operation == [0, 2] && sender[6..] == address.octets() {
                    answers.push(MacAddress(*sender.first_chunk().unwrap()).to_string());
                }
            });
            received.unwrap();
            answers.len() >= round
        });
    }
    answers.sort();
    answers.dedup();
    answers
}
