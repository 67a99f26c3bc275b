//! Parser of a frame's headers: the parsed headers, emitted in order, are the frame again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_wire::{Frame, SequenceTag};

fuzz_target!(|octets: &[u8]| {
    let Ok(frame) = Frame::parse(octets) else {
        // Two addresses, two VLAN tags, a sequence tag, an EtherType.
        assert!(octets.len() < 12 + 2 * 4 + 6 + 2, "only a frame truncated within its headers");
        return;
    };
    let mut again = Vec::new();
    again.extend(frame.destination().0);
    again.extend(frame.source().0);
    for tag in frame.vlans() {
        let mut buffer = [0xa5; 4];
        tag.emit(&mut buffer).expect("a tag that was parsed");
        again.extend(buffer);
    }
    assert_eq!(again.len(), frame.msdu_offset());
    assert_eq!([&again, frame.msdu()].concat(), octets);
    let mut tag = [0xa5; 6];
    match frame.sequence_tag() {
        Some(SequenceTag::RTag(repr)) => {
            repr.emit(&mut tag).expect("a tag that was parsed");
            // The reserved octets are not kept.
            tag[2..4].copy_from_slice(&frame.msdu()[2..4]);
            again.extend(tag);
        }
        Some(SequenceTag::Hsr(repr)) => {
            repr.emit(&mut tag).expect("a tag that was parsed");
            again.extend(tag);
        }
        None => {}
    }
    again.extend(frame.ethertype().to_octets());
    assert_eq!(again.len(), frame.payload_offset());
    again.extend(frame.payload());
    assert_eq!(again, octets);

    if let Ok(trailer) = frame.prp() {
        assert_eq!(usize::from(trailer.lsdu_size) + 2, frame.msdu().len());
    }
    let _ = (frame.ip(), frame.to_string());
});
