//! UDP datagram: fields are unchanged after emit and parse; the computed checksum is correct.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::Protocol;
use onbeat_wire::checksum::Checksum;
use onbeat_wire::udp::{Repr, View, fill_checksum};

fuzz_target!(|octets: &[u8]| {
    let (source, destination) =
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    let mut filled = octets.to_vec();
    let fill = fill_checksum(&mut filled, source, destination);
    let Ok(view) = View::new_checked(octets) else {
        assert!(fill.is_err());
        assert_eq!(filled, octets);
        return;
    };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again[..6], octets[..6]);
    assert_eq!(again[6..], [0, 0]);

    assert_eq!(fill, Ok(()));
    let len = again.len() + view.payload().len();
    assert_eq!(filled[..6], octets[..6]);
    assert_eq!(filled[8..], octets[8..]);
    let mut sum = Checksum::pseudo_header(source, destination, Protocol::UDP, len as u32);
    sum.add(&filled[..len]);
    assert_eq!(sum.finish(), 0);
    let _ = repr.to_string();
});
