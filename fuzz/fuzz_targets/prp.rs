//! PRP trailer: a parsed trailer is emitted octet by octet, and its size is the LSDU's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::prp::{Repr, View};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = View::new_checked(octets) else { return };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again, octets[octets.len() - again.len()..]);
    assert_eq!(usize::from(repr.lsdu_size), octets.len());
    let _ = repr.to_string();
});
