//! VLAN tag: a parsed tag is emitted octet by octet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::vlan::{View, VlanTag};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = View::new_checked(octets) else { return };
    let repr = VlanTag::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert!(repr.pcp <= 7 && repr.vid <= 4095 && repr.tpid.is_vlan());
    assert_eq!(again, octets[..again.len()]);
    let _ = repr.to_string();
});
