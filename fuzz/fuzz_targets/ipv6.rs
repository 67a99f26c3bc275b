//! IPv6 packet: a parsed packet is emitted octet by octet; the walk over extension headers stays within
//! the packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::ipv6::{Repr, View};
use onbeat_wire::{EtherType, Ip};

fuzz_target!(|octets: &[u8]| {
    let ip = Ip::parse(EtherType::IPV6, octets);
    let Ok(view) = View::new_checked(octets) else {
        assert!(ip.is_err());
        return;
    };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again, octets[..again.len()]);
    match view.upper() {
        Ok(upper) => {
            assert!(view.payload().ends_with(upper.payload));
            let walked = view.payload().len() - upper.payload.len();
            assert_eq!(walked % 4, 0, "extension headers are whole words");
            if let Ok(Some(ip)) = ip {
                assert_eq!(ip.protocol, upper.protocol);
                assert!(ip.ports.is_none() || upper.fragment_offset == 0);
            }
        }
        Err(_) => assert!(ip.is_err()),
    }
    let _ = repr.to_string();
});
