//! The virtual interface for frames that are not claimed.

use super::*;
use onbeat_wire::{EtherType, MacAddress};

/// Claims an EtherType that is not the one of the plain sockets.
fn beside(switch: bool) -> PortOptions {
    PortOptions { ether_types: vec![EtherType(0x88b6)], switch, ..PortOptions::default() }
}

fn switch_of(cable: &Cable, port: &ModulePort) -> String {
    cable.near.link_by_index(port.switch_index().unwrap()).unwrap().name
}

#[test]
fn unclaimed_frames_pass() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    for switch in [true, false] {
        let (mut port, peer) = open(&cable, beside(switch));
        let name = if switch {
            let name = switch_of(&cable, &port);
            assert!(name.starts_with("ob"), "{name}");
            let (own, lower) = (cable.near.link(&name).unwrap(), cable.near.link("p0").unwrap());
            assert_eq!((own.mac, own.mtu, own.kind), (lower.mac, lower.mtu, Some("onbeat".into())));
            cable.near.set_ipv6(&name, false).unwrap();
            cable.near.set_up(&name).unwrap();
            cable.near.wait_carrier(&name, BOUND).unwrap();
            name
        } else {
            assert_eq!(port.switch_index(), None);
            "p0".to_owned()
        };
        let mac = port.mac_address();
        let host = raw_socket(&cable.near, &name);
        peer.send(&frame(mac, mac, b"to the host"));
        assert_eq!(host.receive(BOUND).unwrap(), frame(mac, mac, b"to the host"));
        host.send(&frame(mac, mac, b"from the host"));
        assert_eq!(peer.receive(BOUND).unwrap(), frame(mac, mac, b"from the host"));
        let mut claimed = frame(mac, mac, b"to the port");
        claimed[12..14].copy_from_slice(&[0x88, 0xb6]);
        peer.send(&claimed);
        assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
        let received = port.receive().unwrap().unwrap();
        assert_eq!(port.octets(&received), claimed);
        port.release(received);
        if switch {
            let counted = cable.near.statistics(&name).unwrap();
            assert_eq!((counted.rx_packets, counted.tx_packets), (1, 1), "only what passed");
        }
    }
    let left = cable.near.links().unwrap();
    assert!(left.iter().all(|link| !link.name.starts_with("ob")), "{left:?}");
}

#[test]
fn it_follows_the_interface() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let (port, _peer) = open(&cable, beside(true));
    let name = switch_of(&cable, &port);
    cable.near.set_up(&name).unwrap();
    cable.near.set_mtu("p0", 1300).unwrap();
    assert_eq!(cable.near.link(&name).unwrap().mtu, 1300);
    let refused = cable.near.set_mtu(&name, 1400);
    assert!(refused.is_err(), "more than the interface carries");
    let mac = MacAddress([0x02, 0, 0, 0, 0, 0x42]);
    cable.near.set_mac("p0", mac).unwrap();
    assert_eq!(cable.near.link(&name).unwrap().mac, Some(mac));
    cable.far.set_down("f0").unwrap();
    cable.near.wait_for(&name, "without carrier", BOUND, |link| !link.carrier).unwrap();
    cable.far.set_up("f0").unwrap();
    cable.near.wait_carrier(&name, BOUND).unwrap();
    let before = cable.near.link("p0").unwrap().promiscuity;
    cable.near.set_promiscuous(&name, true).unwrap();
    assert_eq!(cable.near.link("p0").unwrap().promiscuity, before + 1);
    drop(port);
    let lower = cable.near.link("p0").unwrap();
    assert_eq!((lower.promiscuity, lower.up), (before, true), "nothing is left of it");
}

#[test]
fn deleting_the_virtual_interface_detaches() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let (mut port, _peer) = open(&cable, beside(true));
    let slot = port.allocate(60).unwrap();
    cable.near.delete(&switch_of(&cable, &port)).unwrap();
    assert_eq!(refusal(port.update(slot, &[0; 60])).0, libc::ENODEV);
    assert_eq!(genl::attachments(cable.near.namespace()), 0);
    // The port has the interface until it is dropped.
    drop(port);
    open(&cable, beside(true));
}
