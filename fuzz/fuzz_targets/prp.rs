//! PRP trailer: a parsed trailer is emitted octet by octet, and its size is the LSDU's. A tail that is appended
//! to any LSDU is its trailer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_fuzz::emitted;
use onbeat_wire::prp::{Lan, Repr, Tail, View};

fuzz_target!(|octets: &[u8]| {
    appended(octets);
    let Ok(view) = View::new_checked(octets) else { return };
    let repr = Repr::parse(&view);
    let again = emitted(repr.buffer_len(), |buffer| repr.emit(buffer));
    assert_eq!(again, octets[octets.len() - again.len()..]);
    assert_eq!(usize::from(repr.lsdu_size), octets.len());
    let _ = repr.to_string();
});

fn appended(lsdu: &[u8]) {
    let sequence = lsdu.iter().fold(0, |sum: u16, octet| sum.rotate_left(3) ^ u16::from(*octet));
    for (lsdu_offset, min_len) in [(14, 60), (18, 64), (22, 64)] {
        let len = lsdu_offset + lsdu.len();
        let Some(mut tail) = Tail::new(len, lsdu_offset, sequence, Lan::A) else {
            assert!(lsdu.len() + 6 > 4095);
            continue;
        };
        for lan in [Lan::B, Lan::A] {
            tail.set_lan(lan);
            let sent = [lsdu, &tail].concat();
            let trailer = Repr::parse(&View::new_checked(&sent).expect("a trailer"));
            let lsdu_size = sent.len() as u16;
            assert_eq!(trailer, Repr { sequence, lan, lsdu_size });
            assert_eq!(lsdu_offset + sent.len(), len.max(min_len) + 6);
            let padding = tail.padding_len();
            assert!(tail[..padding].iter().all(|octet| *octet == 0), "padding is not zero");
        }
    }
}
