//! Devices: created, read, changed, and refused with a reason.

use std::time::Duration;

use crate::common::{BOUND, Cable, frame, passes, raw_socket};
use nix::errno::Errno;
use onbeat_netdev::{Bridge, Error, Handle, Namespace, VethEnd};
use onbeat_testing::{Feature, require, require_all};
use onbeat_wire::MacAddress;

const MAC_A: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xa]);
const MAC_B: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb]);

fn runs() -> bool {
    require_all(&[Feature::Root, Feature::Veth])
}

#[test]
fn a_veth_pair_has_the_requested_properties() {
    if !runs() {
        return;
    }
    let home = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let away = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let near = VethEnd::new("near").mac(MAC_A).mtu(1506).queues(3, 2);
    let far = VethEnd::new("far").namespace(away.namespace()).mac(MAC_B).mtu(1600).queues(2, 3);
    home.create_veth(&near, &far).unwrap();

    let near = home.link("near").unwrap();
    assert_eq!((near.mac, near.mtu, near.up), (Some(MAC_A), 1506, false));
    assert_eq!((near.tx_queues, near.rx_queues), (3, 2));
    assert_eq!(near.kind.as_deref(), Some("veth"));
    assert_eq!((near.min_mtu, near.max_mtu), (68, Some(65535)));
    let far = away.link("far").unwrap();
    assert_eq!((far.mac, far.mtu), (Some(MAC_B), 1600));
    assert_eq!((far.tx_queues, far.rx_queues), (2, 3));
    assert_eq!((near.peer, far.peer), (Some(far.index), Some(near.index)));
    assert_eq!(home.link_by_index(near.index).unwrap(), near);
}

#[test]
fn both_ends_may_be_in_other_namespaces() {
    if !runs() {
        return;
    }
    let home = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let [a, b] = [(); 2].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
    let end = VethEnd::new("same").namespace(a.namespace());
    home.create_veth(&end, &VethEnd::new("same").namespace(b.namespace())).unwrap();
    assert!(a.link("same").is_ok() && b.link("same").is_ok());
    assert!(home.link("same").unwrap_err().is_not_found());
}

#[test]
fn frames_and_carrier_pass_a_cable() {
    if !runs() {
        return;
    }
    let Cable { left, right } = Cable::new();
    let (from, to) = (raw_socket(&left, "l0"), raw_socket(&right, "r0"));
    let frame = frame(b"over the cable");
    assert!(passes(&from, &to, &frame));
    let statistics = right.statistics("r0").unwrap();
    assert!(statistics.rx_packets >= 1, "{statistics:?}");
    assert!(statistics.rx_bytes >= frame.len() as u64, "{statistics:?}");

    left.set_down("l0").unwrap();
    let link = right.wait_for("r0", "without carrier", BOUND, |link| !link.carrier).unwrap();
    assert!(link.up, "down is one end only");
}

#[test]
fn flags_are_set_and_restored() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let link = || left.link("l0").unwrap();
    assert!(!link().promiscuous && link().arp && link().promiscuity == 0);
    left.set_promiscuous("l0", true).unwrap();
    left.set_arp("l0", false).unwrap();
    assert!(link().promiscuous && !link().arp && link().up);
    assert_eq!(link().promiscuity, 1);
    left.set_promiscuous("l0", true).unwrap();
    assert_eq!(link().promiscuity, 1, "the flag counts once");
    left.set_promiscuous("l0", false).unwrap();
    left.set_arp("l0", true).unwrap();
    assert!(!link().promiscuous && link().arp && link().promiscuity == 0);
}

#[test]
fn addresses_names_and_mtu_change() {
    if !runs() {
        return;
    }
    let Cable { left, right } = Cable::new();
    left.set_mac("l0", MAC_A).unwrap();
    left.set_mtu("l0", 2000).unwrap();
    assert_eq!(left.link("l0").unwrap().mac, Some(MAC_A));
    assert_eq!(left.link("l0").unwrap().mtu, 2000);
    let index = left.index("l0").unwrap();
    left.set_down("l0").unwrap();
    left.rename("l0", "talker").unwrap();
    assert_eq!(left.index("talker").unwrap(), index);
    left.move_to("talker", right.namespace()).unwrap();
    assert!(left.link("talker").unwrap_err().is_not_found());
    assert_eq!(right.link("talker").unwrap().mac, Some(MAC_A));
    right.delete("talker").unwrap();
    assert!(right.link("r0").unwrap_err().is_not_found(), "a pair goes together");
}

#[test]
fn ip_addresses_are_usable_at_once() {
    if !runs() {
        return;
    }
    let Cable { left, right } = Cable::new();
    for (near, far) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
        let (near, far) = (near.parse().unwrap(), far.parse().unwrap());
        let prefix = if std::net::IpAddr::is_ipv4(&near) { 24 } else { 64 };
        left.add_address("l0", near, prefix).unwrap();
        right.add_address("r0", far, prefix).unwrap();
        let bind = |address| move || std::net::UdpSocket::bind((address, 0)).unwrap();
        let sender = left.namespace().run(bind(near)).unwrap();
        let receiver = right.namespace().run(bind(far)).unwrap();
        receiver.set_read_timeout(Some(BOUND)).unwrap();
        sender.send_to(b"hello", receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"hello"[..], sender.local_addr().unwrap()));
        let again = left.add_address("l0", near, prefix).unwrap_err();
        assert_eq!(again.errno(), Some(Errno::EEXIST), "{again}");
        assert!(again.to_string().contains(&format!("add address {near}/{prefix}")), "{again}");
    }
}

#[test]
fn a_route_reaches_addresses_behind_a_neighbor() {
    if !runs() {
        return;
    }
    let Cable { left, right } = Cable::new();
    for (near, far, beyond) in [
        ("192.0.2.1", "192.0.2.2", "198.51.100.1"),
        ("2001:db8::1", "2001:db8::2", "2001:db8:1::1"),
    ] {
        let [near, far, beyond] = [near, far, beyond].map(|text| text.parse().unwrap());
        let (prefix, host) = if std::net::IpAddr::is_ipv4(&near) { (24, 32) } else { (64, 128) };
        left.add_address("l0", near, prefix).unwrap();
        right.add_address("r0", far, prefix).unwrap();
        right.add_address("r0", beyond, host).unwrap();
        let bind = |address| move || std::net::UdpSocket::bind((address, 0)).unwrap();
        let sender = left.namespace().run(bind(near)).unwrap();
        let receiver = right.namespace().run(bind(beyond)).unwrap();
        receiver.set_read_timeout(Some(BOUND)).unwrap();
        let to = receiver.local_addr().unwrap();
        assert!(sender.send_to(b"hello", to).is_err(), "no route yet");
        left.add_route("l0", beyond, host, far).unwrap();
        sender.send_to(b"hello", to).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(receiver.recv_from(&mut buffer).unwrap().0, 5);
        let again = left.add_route("l0", beyond, host, far).unwrap_err();
        assert_eq!(again.errno(), Some(Errno::EEXIST), "{again}");
    }
    let (there, via) = ("198.51.100.9".parse().unwrap(), "203.0.113.1".parse().unwrap());
    let error = left.add_route("l0", there, 32, via).unwrap_err();
    assert!(
        error.to_string().contains("add a route to 198.51.100.9/32 via 203.0.113.1"),
        "{error}"
    );
    assert!(left.add_route("l7", there, 32, via).unwrap_err().is_not_found());
}

#[test]
fn ipv6_is_turned_off_for_one_device() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let address = "2001:db8::1".parse().unwrap();
    left.set_ipv6("l0", false).unwrap();
    let error = left.add_address("l0", address, 64).unwrap_err();
    assert!(matches!(error, Error::Kernel { .. }), "{error}");
    left.set_ipv6("l0", true).unwrap();
    left.add_address("l0", address, 64).unwrap();
    assert!(left.set_ipv6("l1", false).unwrap_err().is_not_found());
}

#[test]
fn forwarding_is_set_per_namespace() {
    if !runs() {
        return;
    }
    let Cable { left, right } = Cable::new();
    let routes = |handle: &Handle| {
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/forwarding");
        handle.namespace().run(read).unwrap().unwrap().trim() == "1"
    };
    for on in [true, false] {
        left.set_forwarding(on).unwrap();
        assert_eq!((routes(&left), routes(&right)), (on, false), "of one namespace");
    }
}

#[test]
fn a_missing_device_is_reported_with_the_existing_ones() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let expected = "interface \"l7\" not found; interfaces here: lo, l0";
    for error in [
        left.link("l7").unwrap_err(),
        left.set_up("l7").unwrap_err(),
        left.set_mtu("l7", 1500).unwrap_err(),
        left.set_mac("l7", MAC_A).unwrap_err(),
        left.rename("l7", "l8").unwrap_err(),
        left.delete("l7").unwrap_err(),
        left.statistics("l7").unwrap_err(),
        left.set_master("l0", Some("l7")).unwrap_err(),
        left.add_address("l7", "192.0.2.1".parse().unwrap(), 24).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), expected);
    }
    let error = left.link_by_index(999).unwrap_err();
    assert_eq!(error.to_string(), "interface \"index 999\" not found; interfaces here: lo, l0");
}

#[test]
fn an_mtu_out_of_range_is_refused_with_the_kernels_reason() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    for (mtu, reason) in [(70_000, "greater than device maximum"), (10, "less than device minimum")]
    {
        let error = left.set_mtu("l0", mtu).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EINVAL));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot set MTU to {mtu} on interface \"l0\"")),
            "{text}"
        );
        assert!(text.contains(reason), "{text}");
    }
    assert_eq!(left.link("l0").unwrap().mtu, 1500);
}

#[test]
fn names_in_use_and_invalid_names_are_refused() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let taken = left.create_veth(&VethEnd::new("l0"), &VethEnd::new("l1")).unwrap_err();
    assert_eq!(taken.errno(), Some(Errno::EEXIST), "{taken}");
    assert!(taken.to_string().starts_with("cannot create veth on interface \"l0\""), "{taken}");
    let long = VethEnd::new("a-name-of-17-octets");
    for error in [
        left.create_veth(&long, &VethEnd::new("l1")).unwrap_err(),
        left.create_veth(&VethEnd::new("l1"), &long).unwrap_err(),
        left.rename("l0", "a b").unwrap_err(),
        left.set_up("").unwrap_err(),
        left.set_ipv6("../all", false).unwrap_err(),
    ] {
        assert!(matches!(error, Error::InvalidName { .. }), "{error}");
    }
    assert_eq!(left.links().unwrap().len(), 2, "no device was created");
}

#[test]
fn a_dummy_is_created_or_the_missing_module_reported() {
    if !require(Feature::Root) {
        return;
    }
    let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    match handle.create_dummy("d0") {
        Ok(()) => assert_eq!(handle.link("d0").unwrap().kind.as_deref(), Some("dummy")),
        Err(error @ Error::Unsupported { .. }) => {
            assert!(error.to_string().contains("modprobe dummy"), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn waiting_ends_at_its_bound() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    left.set_down("l0").unwrap();
    let error = left.wait_carrier("l0", Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.to_string(), "interface \"l0\" did not become up with carrier within 1ms");
    assert!(matches!(left.wait_carrier("l7", Duration::ZERO), Err(Error::Timeout { .. })));
}

/// ```text
///   left: "a" ---- "pa" [ bridge "br" ] "pb" ---- right: "b"
/// ```
#[test]
fn a_bridge_passes_a_frame_between_namespaces() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Bridge]) {
        return;
    }
    let [left, middle, right] =
        [(); 3].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
    let bridge = Bridge::new("br").mac(MAC_A).multicast_snooping(false).group_forward_mask(1 << 14);
    middle.create_bridge(&bridge).unwrap();
    for (port, end, handle) in [("pa", "a", &left), ("pb", "b", &right)] {
        let far = VethEnd::new(end).namespace(handle.namespace());
        middle.create_veth(&VethEnd::new(port), &far).unwrap();
        middle.set_master(port, Some("br")).unwrap();
        middle.set_up(port).unwrap();
        handle.set_up(end).unwrap();
    }
    middle.set_up("br").unwrap();
    let br = middle.link("br").unwrap();
    assert_eq!((br.kind.as_deref(), br.mac), (Some("bridge"), Some(MAC_A)));
    let port = middle.link("pa").unwrap();
    assert_eq!(port.master, Some(br.index));
    assert!(port.promiscuity > 0, "a bridge makes its ports promiscuous");

    let (from, to) = (raw_socket(&left, "a"), raw_socket(&right, "b"));
    assert!(passes(&from, &to, &frame(b"through the bridge")));
    // To the LLDP group, which a bridge forwards only if configured.
    let mut lldp = frame(b"link-local");
    lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    assert!(passes(&from, &to, &lldp));

    middle.set_master("pa", None).unwrap();
    assert_eq!(middle.link("pa").unwrap().master, None);
}

#[test]
fn threads_share_a_handle() {
    if !runs() {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let left = &left;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = if (thread + round) % 2 == 0 { "l0" } else { "lo" };
                    assert_eq!(left.link(name).unwrap().name, name);
                    assert_eq!(left.links().unwrap().len(), 2);
                }
            });
        }
    });
}
