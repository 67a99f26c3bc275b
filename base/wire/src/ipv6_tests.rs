use super::*;
use std::string::ToString;
use std::vec::Vec;

const REPR: Repr = Repr {
    dscp: 46,
    ecn: 2,
    flow_label: 0x54321,
    next_header: Protocol::TCP,
    hop_limit: 63,
    source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    payload_len: 4,
};

/// Returns a packet with these extension headers before `tail`.
fn packet(first: u8, extensions: &[&[u8]], tail: &[u8]) -> Vec<u8> {
    let payload = [extensions.concat(), tail.to_vec()].concat();
    let repr = Repr { next_header: Protocol(first), payload_len: payload.len() as u16, ..REPR };
    let mut octets = [0xa5; HEADER_LEN].to_vec();
    repr.emit(&mut octets).unwrap();
    octets.extend(payload);
    octets
}

#[test]
fn there_and_back() {
    let mut buffer = [0xa5; 46];
    assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
    assert_eq!(buffer[..8], [0x6b, 0xa5, 0x43, 0x21, 0, 4, 6, 63]);
    assert_eq!(buffer[40..], [0xa5; 6]);
    let view = View::new_checked(&buffer).unwrap();
    assert_eq!(Repr::parse(&view), REPR);
    assert_eq!(view.payload(), [0xa5; 4]);
}

#[test]
fn refuses_what_does_not_fit() {
    let mut buffer = [0xa5; 40];
    for repr in
        [Repr { dscp: 64, ..REPR }, Repr { ecn: 4, ..REPR }, Repr { flow_label: 1 << 20, ..REPR }]
    {
        assert!(matches!(repr.emit(&mut buffer), Err(EmitError::OutOfRange { .. })));
    }
    assert!(REPR.emit(&mut buffer[..39]).is_err());
    assert_eq!(buffer, [0xa5; 40]);
}

#[test]
fn bad_headers() {
    let mut octets = packet(17, &[], &[1, 2, 3, 4]);
    for len in 0..octets.len() {
        let error = View::new_checked(&octets[..len]).unwrap_err();
        assert!(matches!(error, PacketError::Truncated(t) if t.len == len));
    }
    octets[0] = 0x45;
    assert_eq!(View::new_checked(&octets), Err(PacketError::Version(4)));
}

#[test]
fn extension_headers_are_skipped() {
    let hop_by_hop: &[u8] = &[60, 0, 1, 4, 0, 0, 0, 0];
    let options: &[u8] = &[43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing: &[u8] = &[51, 0, 4, 0, 0, 0, 0, 0];
    let authentication: &[u8] = &[44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let first_fragment: &[u8] = &[17, 0, 0, 1, 0, 0, 0, 9];
    let octets =
        packet(0, &[hop_by_hop, options, routing, authentication, first_fragment], &[1, 2, 3, 4]);
    let view = View::new_checked(&octets).unwrap();
    let upper = UpperLayer { protocol: Protocol::UDP, fragment_offset: 0, payload: &[1, 2, 3, 4] };
    assert_eq!(view.upper(), Ok(upper));
}

#[test]
fn ends_at_a_later_fragment() {
    // The next header of the fragment header is an extension that only the first fragment has.
    let octets = packet(44, &[&[60, 0, 0, 8, 0, 0, 0, 9]], &[6, 0xff]);
    let view = View::new_checked(&octets).unwrap();
    let upper = UpperLayer { protocol: Protocol(60), fragment_offset: 1, payload: &[6, 0xff] };
    assert_eq!(view.upper(), Ok(upper));
}

#[test]
fn six_extension_headers_and_no_more() {
    let more: &[u8] = &[60, 0, 1, 4, 0, 0, 0, 0];
    let last: &[u8] = &[58, 0, 1, 4, 0, 0, 0, 0];
    let octets = packet(60, &[more, more, more, more, more, last], &[]);
    let upper = View::new_checked(&octets).unwrap().upper().unwrap();
    assert_eq!(upper.protocol, Protocol(58));
    let octets = packet(60, &[more, more, more, more, more, more, last], &[]);
    let error = View::new_checked(&octets).unwrap().upper().unwrap_err();
    assert_eq!(error.to_string(), "more than 6 IPv6 extension headers");
}

#[test]
fn an_extension_header_ends_with_the_packet() {
    for (first, extension) in [
        (60, &[17, 1, 0, 0, 0, 0, 0, 0][..]),
        (0, &[17][..]),
        (43, &[][..]),
        (44, &[17, 0, 0, 0, 0, 0, 0][..]),
        (51, &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]),
    ] {
        // Octets after the payload length are not used.
        let mut octets = packet(first, &[extension], &[]);
        octets.extend([0; 16]);
        let error = View::new_checked(&octets).unwrap().upper().unwrap_err();
        assert!(matches!(error, ExtensionError::Truncated(t) if t.len == extension.len()));
    }
}

#[test]
fn shows() {
    assert_eq!(REPR.to_string(), "fd00::1 -> fd00::2 tcp dscp 46 hops 63 len 4");
}
