//! STAMP: any packet is parsed and emitted octet by octet, with must-be-zero fields as zero; its
//! reflection is a reply to it. With authentication, only packets made with the key are accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_delay::probe::{
    Key, Profile, ProfileSegment, RejectedDatagram, ReplyFields, Sender, Session,
};
use onbeat_delay::probe::{admit, reflect};
use onbeat_fuzz::emitted;
use onbeat_wire::stamp::{
    AUTHENTICATED_LEN, AuthenticatedView, COVERED_LEN, ErrorEstimate, Format, HMAC_LEN, PACKET_LEN,
    Reflected, ReflectedView, TWAMP_REFLECTED_LEN, Test, TestView,
};

const ESTIMATE: ErrorEstimate =
    ErrorEstimate { synchronized: true, format: Format::Ntp, scale: 63, multiplier: 1 };
const ANSWER: ReplyFields =
    ReplyFields { sequence: None, received_ns: 1, ttl: 64, sent_ns: 2, error_estimate: ESTIMATE };

fuzz_target!(|octets: &[u8]| {
    unauthenticated(octets);
    authenticated(octets);
    received(octets, None);
    received(octets, Key::new(b"key"));
});

fn unauthenticated(octets: &[u8]) {
    let mut datagram = octets.to_vec();
    datagram.resize(octets.len().max(PACKET_LEN), 0);
    let Ok(admitted) = admit(octets, None) else {
        assert!(octets.len() < 14, "the shortest of TWAMP");
        return;
    };
    let len = reflect(&mut datagram, octets.len(), &admitted, &ANSWER, None);
    assert_eq!(len, Ok(octets.len().max(TWAMP_REFLECTED_LEN)), "there is room");
    assert_eq!(datagram[24..38], octets[..14]);

    let Ok(view) = TestView::new_checked(octets) else { return };
    assert_eq!(datagram[PACKET_LEN..], octets[PACKET_LEN..]);
    let test = Test::parse(&view);
    assert_eq!(test, admitted);
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
}

fn authenticated(octets: &[u8]) {
    // Keys of any length, also longer than a block.
    let secret = &octets[octets.len() / 2..];
    let Some(key) = Key::new(secret) else { return };
    let Ok(view) = AuthenticatedView::new_checked(octets) else {
        assert!(matches!(admit(octets, Some(&key)), Err(RejectedDatagram::NotATestPacket(_))));
        return;
    };
    let _ = view.to_string();
    let hmac = |_: &[u8; COVERED_LEN]| -> [u8; HMAC_LEN] { view.hmac() };
    let (test, reflected) = (view.test(), view.reflected());
    // Fields keep their values, the rest is zeros.
    let again = emitted(AUTHENTICATED_LEN, |buffer| test.emit_authenticated(buffer, hmac));
    assert_eq!(AuthenticatedView::new_checked(&again).map(|view| view.test()), Ok(test));
    for (at, (written, there)) in again.iter().zip(octets).enumerate() {
        let field = at < 4 || (16..28).contains(&at) || at >= COVERED_LEN;
        assert_eq!(*written, if field { *there } else { 0 }, "octet {at}");
    }
    let again = emitted(AUTHENTICATED_LEN, |buffer| reflected.emit_authenticated(buffer, hmac));
    assert_eq!(AuthenticatedView::new_checked(&again).map(|view| view.reflected()), Ok(reflected));

    // Without the key, a sender would have to guess 128 bits.
    assert_eq!(admit(octets, Some(&key)), Err(RejectedDatagram::Hmac));
    let mut datagram = octets.to_vec();
    let hmac = key.hmac(&view.covered());
    datagram[COVERED_LEN..AUTHENTICATED_LEN].copy_from_slice(&hmac);
    assert_eq!(admit(&datagram, Some(&key)), Ok(test), "a signed packet is accepted");
    let len = reflect(&mut datagram, octets.len(), &test, &ANSWER, Some(&key));
    assert_eq!(len, Ok(octets.len()));
    assert_eq!(datagram[AUTHENTICATED_LEN..], octets[AUTHENTICATED_LEN..]);
    let Ok(answer) = AuthenticatedView::new_checked(&datagram) else {
        unreachable!("the length is unchanged")
    };
    assert!(key.verifies(&answer));
    assert_eq!(answer.reflected().test, test);
}

/// Any reply is counted exactly once by a sender.
fn received(octets: &[u8], key: Option<Key>) {
    let mut sender = Sender::new(Session {
        profile: Profile::new(vec![ProfileSegment::constant(1.0, 1_000_000_000)]),
        count: None,
        start_ns: 0,
        timeout_ns: 1_000_000_000,
        id: 0,
        error_estimate: ESTIMATE,
        key: key.clone(),
    });
    assert!(matches!(sender.send(0, &mut [0; AUTHENTICATED_LEN]), Some(Ok(_))));
    let taken = sender.receive(octets, 1_i64);
    let counts = *sender.counts();
    let sum = counts.answered + counts.duplicate_or_late + counts.stray + counts.unverified;
    assert_eq!(sum, 1, "{taken:?}");
    assert!(key.is_none() || taken.is_err());
}
