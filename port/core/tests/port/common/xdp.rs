//! Common functions of the tests of both back ends over XDP.

use super::conformance::{ETHER_TYPE, Peer, frame};
use onbeat_link::{Outcome, Port, PortOptions, ReceivedFrame, StampSource};
use onbeat_netdev::Handle;

use super::{BOUND, Cable, RawSocket, go_down_and_come_back, raw_socket};

pub(crate) fn options() -> PortOptions {
    PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() }
}

/// The next frame, within the bound.
pub(crate) fn next_frame(port: &mut dyn Port) -> ReceivedFrame {
    let deadline = port.now().after(BOUND.as_nanos() as u64);
    loop {
        if let Some(received) = port.receive().unwrap() {
            return received;
        }
        assert!(port.now() < deadline, "no frame came; {}", port.diagnostics().unwrap());
        while port.confirmation().unwrap().is_some() {}
        port.wait(port.now().after(100_000_000)).unwrap();
    }
}

/// A port with four buffers gets more frames than that.
pub(crate) fn full_ring_drops_counts_and_recovers(port: &mut dyn Port, peer: &mut RawSocket) {
    let mac = port.mac_address();
    for i in 0..7_u64 {
        peer.send(&frame(mac, mac, &i.to_be_bytes()));
    }
    let held = [(); 4].map(|()| next_frame(port));
    while port.diagnostics().unwrap().receive_drops < 3 {
        assert!(port.receive().unwrap().is_none());
    }
    for (i, received) in held.iter().enumerate() {
        assert_eq!(port.octets(received)[14..22], (i as u64).to_be_bytes(), "none was overwritten");
        assert_eq!(received.stamp.source, StampSource::Software);
    }
    held.into_iter().rev().for_each(|received| port.release(received));
    let after = frame(mac, mac, b"after");
    peer.send(&after);
    let received = next_frame(port);
    assert_eq!(port.octets(&received), after);
    port.release(received);
    assert_eq!(port.diagnostics().unwrap().receive_drops, 3);
}

/// As the packet back end's: the interface off, then without carrier, then back.
pub(crate) fn link_down_is_reported_and_survived(cable: &Cable, port: &mut dyn Port) {
    let mac = port.mac_address();
    let slot = port.allocate(60).unwrap();
    port.update(slot, &frame(mac, mac, b"too late")).unwrap();
    // More often than there are places in the transmit ring.
    go_down_and_come_back(cable, port, slot, 300);
    let peer = raw_socket(&cable.far, "f0");
    port.update(slot, &frame(mac, mac, b"again")).unwrap();
    for _ in 0..300 {
        port.send(slot).unwrap();
        let came = peer.receive(BOUND).expect("the frame");
        assert!(came[14..].starts_with(b"again"), "what could not be sent is not sent later");
        assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
        let news = port.confirmation().unwrap().unwrap();
        assert!(matches!(news.outcome, Outcome::Sent(_)), "{news:?}");
    }
    peer.send(&frame(mac, mac, b"and back"));
    let received = next_frame(port);
    assert!(port.octets(&received)[14..].starts_with(b"and back"));
    port.release(received);
}

/// A stamp lies between the moments before and after, by the clock that a packet socket stamps by.
pub(crate) fn stamps_are_of_the_packet_sockets_clock(port: &mut dyn Port, peer: &mut RawSocket) {
    let realtime = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    };
    let mac = port.mac_address();
    let before = realtime();
    peer.send(&frame(mac, mac, b"stamped"));
    let received = next_frame(port);
    assert!((before..=realtime()).contains(&received.stamp.ns), "{received:?}");
    port.release(received);
}

/// Frames of other EtherTypes, and to other addresses, reach the stack; those of the port do not.
pub(crate) fn the_stack_receives_other_frames(
    near: &Handle,
    port: &mut dyn Port,
    peer: &mut RawSocket,
) {
    let stack = RawSocket::open_for(near, "p0", 0x88b6);
    let same_type = raw_socket(near, "p0");
    let mac = port.mac_address();
    let mut other = frame(mac, mac, b"of another protocol");
    other[12..14].copy_from_slice(&[0x88, 0xb6]);
    let tagged = [&other[..12], &[0x81, 0, 0, 7], &other[12..]].concat();
    let mut stranger = frame(mac, mac, b"to another address");
    stranger[5] ^= 1;
    for sent in [&frame(mac, mac, b"the port's"), &other, &tagged, &stranger] {
        peer.send(sent);
    }
    for _ in 0..2 {
        // The kernel takes the tag out, for the stack as for any packet socket.
        assert_eq!(stack.receive(BOUND), Some(other.clone()));
    }
    assert_eq!(same_type.receive(BOUND), Some(stranger), "the one to this port did not come");
    let received = next_frame(port);
    assert!(port.octets(&received)[14..].starts_with(b"the port's"));
    port.release(received);
    assert!(port.receive().unwrap().is_none());
}
