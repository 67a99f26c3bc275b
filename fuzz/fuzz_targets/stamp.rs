//! STAMP: either packet is parsed and emitted octet by octet, what must be zero as zero; the same
//! octets turned around are an answer to themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_delay::probe::{Answer, reflect};
use onbeat_fuzz::emitted;
use onbeat_wire::stamp::{PACKET_LEN, Reflected, ReflectedView, Test, TestView};

fuzz_target!(|octets: &[u8]| {
    let Ok(view) = TestView::new_checked(octets) else { return };
    let test = Test::parse(&view);
    let again = emitted(test.buffer_len(), |buffer| test.emit(buffer));
    assert_eq!(again[..16], octets[..16]);
    assert_eq!(again[16..], [0; 28]);
    let _ = test.to_string();

    let Ok(view) = ReflectedView::new_checked(octets) else { return };
    let reflected = Reflected::parse(&view);
    let again = emitted(reflected.buffer_len(), |buffer| reflected.emit(buffer));
    assert_eq!(again[..38], octets[..38]);
    assert_eq!((&again[38..40], again[40], &again[41..]), (&[0; 2][..], octets[40], &[0; 3][..]));
    let _ = reflected.to_string();

    let mut datagram = octets.to_vec();
    let error_estimate = test.error_estimate;
    let answer = Answer { received_ns: 1, ttl: 64, sent_ns: 2, error_estimate };
    let len = reflect(&mut datagram, octets.len(), &answer, |_| None);
    assert_eq!(len, Ok(octets.len()), "there is room, and what was parsed fits");
    assert_eq!(datagram[24..38], octets[..14]);
    assert_eq!(datagram[PACKET_LEN..], octets[PACKET_LEN..]);
});
