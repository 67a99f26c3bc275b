//! The packet back end.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   PacketPort           a plain packet socket
//! ```

use crate::common::conformance::{ETHER_TYPE, conformance, frame};
use crate::common::{BOUND, Cable, go_down_and_come_back, raw_socket, removal_is_reported_by_wait};
use onbeat_link::{Capability, Clock, Feature, PacketPort, Port, PortOptions, StampSource};
use onbeat_testing::RawSocket;
use onbeat_testing::{Feature as Needs, require_all};

fn options() -> PortOptions {
    PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() }
}

fn open(cable: &Cable, options: PortOptions) -> (PacketPort, RawSocket) {
    let port = PacketPort::open(cable.near.namespace(), "p0", options).unwrap();
    (port, raw_socket(&cable.far, "f0"))
}

#[test]
fn it_conforms() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    for options in [
        options(),
        PortOptions { clock: Clock::Tai, receive_buffers: 4, ..options() },
        PortOptions { spin: true, ..options() },
        PortOptions { confirm: false, ..options() },
    ] {
        let (mut port, mut peer) = open(&cable, options);
        conformance(&mut port, &mut peer);
    }
}

#[test]
fn emulated_features_are_reported() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let (port, _peer) = open(&cable, options());
    let has = port.capabilities();
    for feature in [Feature::SendAt, Feature::SendEvery, Feature::Response, Feature::ReceiveStamp] {
        let found = has.get(feature);
        assert!(matches!(found, Capability::Emulated { .. }), "{feature}: {found}");
    }
    assert_eq!(has.get(Feature::Confirmation), &Capability::Native);
    assert!(matches!(has.get(Feature::NicTime), Capability::None { .. }), "a veth has no clock");
    let refusal = port.nic_time().unwrap_err().to_string();
    assert!(refusal.contains("interface \"p0\": back end packet has no NIC time"), "{refusal}");
}

#[test]
fn a_full_ring_drops_counts_and_recovers() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let (mut port, peer) = open(&cable, PortOptions { receive_buffers: 4, ..options() });
    let mac = port.mac_address();
    let mut held = Vec::new();
    let mut sent = 0_u64;
    // The ring may have more places than were asked for.
    let drops = loop {
        peer.send(&frame(mac, mac, &sent.to_be_bytes()));
        sent += 1;
        held.extend(port.receive().unwrap());
        let drops = port.diagnostics().unwrap().receive_drops;
        if drops > 0 {
            break drops;
        }
        assert!(sent < 1_000, "a ring without end");
    };
    held.extend(port.receive().unwrap());
    assert!(held.len() >= 4);
    assert_eq!(held.len() as u64 + drops, sent);
    for (i, received) in held.iter().enumerate() {
        let number = &port.octets(received)[14..22];
        assert_eq!(number, (i as u64).to_be_bytes(), "none was overwritten");
        assert_eq!(received.stamp.source, StampSource::Software);
    }
    for received in held {
        port.release(received);
    }
    let after = frame(mac, mac, b"after");
    peer.send(&after);
    assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
    let received = port.receive().unwrap().unwrap();
    assert_eq!(port.octets(&received), after);
    port.release(received);
}

#[test]
fn a_link_down_is_reported_and_survived() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let (mut port, _) = open(&cable, options());
    let mac = port.mac_address();
    let slot = port.allocate(60).unwrap();
    port.update(slot, &frame(mac, mac, b"still here")).unwrap();

    go_down_and_come_back(&cable, &mut port, slot, 1);
    one_each_way(&mut port, &mut raw_socket(&cable.far, "f0"));
}

#[test]
fn a_removed_interface_is_reported_by_wait() {
    if !require_all(&[Needs::Root, Needs::Veth]) || !Cable::goes_away() {
        return;
    }
    let cable = Cable::new();
    let (mut port, _) = open(&cable, options());
    removal_is_reported_by_wait(&cable, &mut port);
}

/// Frames in each direction, each with its confirmation.
fn one_each_way(port: &mut PacketPort, peer: &mut RawSocket) {
    let mac = port.mac_address();
    let (first, second) = (port.allocate(60).unwrap(), port.allocate(60).unwrap());
    for slot in [first, second] {
        port.update(slot, &frame(mac, mac, b"again")).unwrap();
        port.send(slot).unwrap();
        assert!(peer.receive(BOUND).is_some());
    }
    for slot in [first, second] {
        assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
        assert_eq!(port.confirmation().unwrap().unwrap().slot, slot);
    }
    let back = frame(mac, mac, b"and back");
    peer.send(&back);
    assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
    let received = port.receive().unwrap().unwrap();
    assert_eq!(port.octets(&received), back);
    port.release(received);
}
