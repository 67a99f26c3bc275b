//! Captures: whatever a file holds, reading ends, and every packet has a key or a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_delay::capture::{Reader, decompress};
use onbeat_delay::key::Recognition;
use onbeat_delay::pairing::{InterfaceId, Sides};

fuzz_target!(|octets: &[u8]| {
    let Ok(input) = decompress(octets) else { return };
    let Ok(mut reader) = Reader::new(input) else { return };
    let recognitions = [
        Recognition::default(),
        Recognition { nat: true, reply: true, octets: 40 },
    ];
    let sides = Sides::Interfaces {
        arrivals: InterfaceId::Number(0),
        departures: InterfaceId::Name("eth0".into()),
    };
    // A few octets may stand for very many, compressed.
    for _ in 0..1000 {
        let Ok(Some(packet)) = reader.next_packet() else { break };
        assert!(packet.octets.len() <= packet.wire_len as usize);
        let _ = sides.side(&packet);
        for recognition in &recognitions {
            let _ = recognition.key(&packet);
        }
    }
});
