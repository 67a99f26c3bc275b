//! A TAP device, with the network stack of a namespace at its other end.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use onbeat_netdev::{Handle, Namespace, TapInterface};
use onbeat_testing::{Feature, require_all};
use onbeat_wire::MacAddress;

const BOUND: Duration = Duration::from_secs(30);

/// Returns the next frame of an EtherType.
fn receive(tap: &mut TapInterface, ether_type: [u8; 2]) -> Vec<u8> {
    let (begun, mut buffer) = (Instant::now(), [0; 2048]);
    while begun.elapsed() < BOUND {
        match tap.receive(&mut buffer).unwrap() {
            Some(len) if buffer[12..14] == ether_type => return buffer[..len].to_vec(),
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
    panic!("no frame of {ether_type:02x?}");
}

#[test]
fn the_network_stack_is_at_the_other_end() {
    if !require_all(&[Feature::Root, Feature::Tap]) {
        return;
    }
    let namespace = Namespace::with_loopback().unwrap();
    let mut tap = TapInterface::create(&namespace, "tap0").unwrap();
    let handle = Handle::in_namespace(&namespace).unwrap();
    let mac = MacAddress([2, 0, 0, 0, 0, 7]);
    handle.set_mac("tap0", mac).unwrap();
    handle.set_ipv6("tap0", false).unwrap();
    handle.add_address("tap0", Ipv4Addr::new(192, 0, 2, 1).into(), 24).unwrap();
    let mut buffer = [0; 64];
    assert!(tap.send(&[0; 60]).is_err(), "it is down");
    handle.set_up("tap0").unwrap();
    assert_eq!(tap.receive(&mut buffer).unwrap(), None, "no frame");
    // An ARP request for an address of the stack, which replies.
    let asker = [2, 0, 0, 0, 0, 9];
    let arp = [
        &[0xff; 6][..],
        &asker,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &asker,
        &[192, 0, 2, 9],
        &[0; 6],
        &[192, 0, 2, 1],
    ]
    .concat();
    assert!(tap.send(&arp).unwrap());
    let answer = receive(&mut tap, [8, 6]);
    assert_eq!((&answer[..6], &answer[6..12], answer[21]), (&asker[..], &mac.0[..], 2));
    // The stack sends to the requester.
    let socket = namespace.run(|| UdpSocket::bind("192.0.2.1:0")).unwrap().unwrap();
    socket.send_to(b"hello", "192.0.2.9:9").unwrap();
    let sent = receive(&mut tap, [8, 0]);
    assert_eq!((&sent[..6], &sent[sent.len() - 5..]), (&asker[..], &b"hello"[..]));

    let again = TapInterface::create(&namespace, "tap0").unwrap_err();
    assert!(again.to_string().contains("use another name"), "{again}");
    drop(tap);
    assert!(handle.link("tap0").is_err_and(|error| error.is_not_found()), "it was removed on drop");
}
