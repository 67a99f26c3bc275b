//! Supervision frame: parsed fields are unchanged after emit and parse. What follows the end or a fault changes
//! nothing, and every shorter prefix is truncated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::prp::supervision::{Repr, SupervisionError, View};

fuzz_target!(|octets: &[u8]| {
    let parsed = View::new_checked(octets).map(|view| Repr::parse(&view));
    for len in 0..octets.len() {
        let prefix = View::new_checked(&octets[..len]).map(|view| Repr::parse(&view));
        match prefix {
            Err(SupervisionError::Truncated(error)) => assert!(error.len < error.needed),
            // What follows the end, or a fault, changes nothing.
            other => assert_eq!(other, parsed),
        }
    }
    match parsed {
        Ok(repr) => {
            let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
            let parsed = View::new_checked(&again).expect("a frame that was emitted");
            assert_eq!(Repr::parse(&parsed), repr);
            assert!(repr.version >= 1 && octets.len() >= again.len());
            assert_eq!(again[..4], octets[..4]);
            let _ = repr.to_string();
        }
        Err(error) => {
            let _ = (error.is_other_version(), error.to_string());
        }
    }
});
