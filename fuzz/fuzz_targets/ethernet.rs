//! Ethernet header: a parsed header is emitted octet by octet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::ethernet::{Header, Repr};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = Header::new_checked(octets) else { return };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again, octets[..again.len()]);
    assert_eq!(view.payload(), &octets[again.len()..]);
    let _ = repr.to_string();
});
