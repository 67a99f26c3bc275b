//! The interface of a LAN does not exist when the node starts, as a NIC that is dead at boot: the other LAN carries the frames,
//! and both do as soon as the interface appears.

use std::fs;
use std::time::Duration;

use onbeat_netdev::{Ethtool, VethEnd};
use onbeat_node::control::LinkState;

use super::{
    H1, H2, IpAddr, LANS, Network, PORT, ProtectedHosts, Receiver, exchange_while_paths_are_cut,
    length, network_that_polls, udp,
};
use crate::common::process::Process;
use crate::common::{can_run, port, run, run_in, show, wait_for};

/// An address of the file.
const ADDRESS: &str = "02:00:00:00:0a:01";

#[test]
fn a_prp_node_starts_with_one_lan() {
    starts_with_one_lan(["prot10", "prot11"], "prp", "packet");
}

#[test]
fn a_prp_node_in_the_kernel_starts_with_one_lan() {
    starts_with_one_lan(["prot12", "prot13"], "prp", "xdp");
}

#[test]
fn a_node_with_r_tags_starts_with_one_path() {
    starts_with_one_lan(["prot14", "prot15"], "rtag", "packet");
}

#[test]
fn a_node_with_r_tags_in_the_kernel_starts_with_one_path() {
    starts_with_one_lan(["prot16", "prot17"], "rtag", "xdp");
}

fn starts_with_one_lan(names: [&'static str; 2], format: &'static str, backend: &'static str) {
    if !can_run() {
        return;
    }
    let options = ["--backend", backend];
    let protected = ProtectedHosts::with_options(network_that_polls(), names, format, &options);
    let (Network { h1, h2, hub, .. }, [name, _]) = (&protected.network, names);
    let down = run_in(h1.namespace(), &["down", name]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
    hub.delete("p1").unwrap();
    let file = format!("/run/onbeat/{name}.toml");
    let has_address = format == "rtag";
    if has_address {
        let text = fs::read_to_string(&file).unwrap();
        let created = "create = \"veth\"\n";
        fs::write(&file, text.replace(created, &format!("{created}mac = \"{ADDRESS}\"\n")))
            .unwrap();
    }
    let _node = Process::start(h1.namespace(), &["run", &file]);
    wait_for("the interface", || h1.link(name).is_ok_and(|link| link.up));
    h1.add_address(name, IpAddr::V4(H1), 24).unwrap();
    assert_eq!(h1.link(name).unwrap().mtu, 1494);
    let mac = h1.link(name).unwrap().mac;
    assert_eq!(mac.unwrap().to_string() == ADDRESS, has_address, "{mac:?}");
    wait_for("the node", || run(&["show", name]).code == 0);
    assert_eq!(port(&show(name), "a").link, LinkState::Missing);

    // A start is silent for some time.
    let (here, mut receiver) = (udp(h1, H1, 0), Receiver::new(udp(h2, H2, PORT)));
    const DATAGRAMS: u32 = 700;
    wait_for("the first frames", || reaches(&protected));
    for number in 0..DATAGRAMS {
        let mut datagram = vec![0x5a; length(number)];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        here.send_to(&datagram, (H2, PORT)).unwrap();
    }
    receiver.has_each_once(DATAGRAMS);
    drop(receiver);

    hub.create_veth(&VethEnd::new("p1"), &VethEnd::new(LANS[0])).unwrap();
    let ethtool = Ethtool::in_namespace(hub.namespace()).unwrap();
    ethtool.set_features("p1", &[("gro", true)]).unwrap();
    hub.set_master("p1", Some("br0")).unwrap();
    hub.set_up("p1").unwrap();
    // The other end polls when it appears, as that of a NIC does.
    hub.move_to(LANS[0], h1.namespace()).unwrap();
    wait_for("the node uses it", || port(&show(name), "a").link == LinkState::Up);
    let before = protected.received(0);
    wait_for("LAN A carries frames", || reaches(&protected) && protected.received(0) > before);
    exchange_while_paths_are_cut(&protected);
    assert_eq!(h1.link(name).unwrap().mac, mac, "the host's address stays");
    protected.undo();
}

/// Whether a datagram reaches the second host.
fn reaches(protected: &ProtectedHosts) -> bool {
    let Network { h1, h2, .. } = &protected.network;
    // Another port each time: a process that another test starts may still have the former one open.
    let (here, there) = (udp(h1, H1, 0), udp(h2, H2, 0));
    there.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    here.send_to(&[0], there.local_addr().unwrap()).is_ok() && there.recv(&mut [0]).is_ok()
}
