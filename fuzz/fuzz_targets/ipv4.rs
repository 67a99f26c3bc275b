//! IPv4 packet: fields are unchanged after emit and parse; without options and with a correct checksum,
//! so are the octets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::ipv4::{HEADER_LEN, Repr, View};
use onbeat_wire::{EtherType, Ip};

fuzz_target!(|octets: &[u8]| {
    let ip = Ip::parse(EtherType::IPV4, octets);
    let Ok(view) = View::new_checked(octets) else {
        assert!(ip.is_err());
        return;
    };
    if let Ok(Some(ip)) = ip {
        assert_eq!((ip.dscp, ip.protocol), (view.dscp(), view.protocol()));
        assert!(ip.ports.is_none() || view.fragment_offset() == 0);
    }
    let repr = Repr::parse(&view);
    let mut again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    again.extend(view.payload());
    let second = View::new_checked(&again).expect("emitted from a valid packet");
    assert!(second.verify_checksum());
    assert_eq!(Repr::parse(&second), repr);
    // The reserved flag is not kept; 0 and 0xffff are one sum.
    let reserved = octets[6] & 0x80 != 0;
    if view.options().is_empty() && view.verify_checksum() && !reserved && view.checksum() != 0xffff
    {
        assert_eq!(again[..HEADER_LEN], octets[..HEADER_LEN]);
    }
    let _ = repr.to_string();
});
