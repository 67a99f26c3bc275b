//! R-TAG: a parsed tag is emitted octet by octet, with reserved octets as zero.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::rtag::{Repr, View};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = View::new_checked(octets) else { return };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again[..2], octets[..2]);
    assert_eq!(again[2..4], [0, 0]);
    assert_eq!(again[4..], octets[4..6]);
    let _ = repr.to_string();
});
