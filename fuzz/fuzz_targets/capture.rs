//! Captures: for any file, reading terminates, every packet has a key or a reason, interfaces are the
//! same by number and by name, and a pair that does not match is diagnosed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_delay::capture::{Packet, Reader, decompress};
use onbeat_delay::diagnosis::{MatchSummary, MatchingOptions};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Matcher, Window};
use onbeat_delay::pairing::{CapturePair, InterfaceId, Side, SideCriterion};

fuzz_target!(|octets: &[u8]| {
    let Ok(input) = decompress(octets) else { return };
    let Ok(mut reader) = Reader::new(input) else { return };
    let recognitions = [Recognition::default(), Recognition { nat: true, reply: true, octets: 40 }];
    // A few compressed octets may expand to very many.
    for _ in 0..1000 {
        let Ok(Some(packet)) = reader.next_packet() else { break };
        assert!(packet.octets.len() <= packet.wire_len as usize);
        sides(&packet);
        for recognition in &recognitions {
            let _ = recognition.key(&packet);
        }
    }
    for number in 0..4 {
        let _ = reader.interface_name(number);
    }
    diagnose(octets);
});

/// Splits the input at two points into both captures of a hop.
fn diagnose(octets: &[u8]) {
    let options = MatchingOptions { longest_ns: 1 << 30, two_clocks: false, min_matched: 1 };
    let mut lengths = [octets.len(), octets.len() / 2].into_iter();
    let mut open = || {
        let input = decompress(&octets[..lengths.next()?]).ok()?;
        Reader::new(input).ok()
    };
    let (Some(arrivals), Some(departures)) = (open(), open()) else { return };
    let mut matcher = Matcher::new(Window { packets: 1000, ..Window::default() });
    let mut pair =
        CapturePair::new(arrivals, departures, 0, Recognition::default(), |_: &Packet<'_>| ());
    let _ = pair.feed(1000, &mut matcher, &mut |_| {});
    let found = pair.evidence().diagnose(&options);
    let matched = MatchSummary::default();
    assert!(!found.conclude(&matched, &options, false).causes.is_empty());
}

fn sides(packet: &Packet<'_>) {
    let own = InterfaceId::Number(packet.interface);
    let other = InterfaceId::Number(packet.interface.wrapping_add(1));
    let side = |arrivals: &InterfaceId, departures: &InterfaceId| {
        let (arrivals, departures) = (arrivals.clone(), departures.clone());
        SideCriterion::Interfaces { arrivals, departures }.side(packet)
    };
    assert_eq!(side(&own, &other), Some(Side::Arrivals));
    assert_eq!(side(&other, &own), Some(Side::Departures));
    assert_eq!(side(&own, &own), None, "both sides match, so that neither is chosen");
    let Some(name) = packet.interface_name else { return };
    assert!(name.len() <= 3 * 1024, "an octet that is no UTF-8 becomes three");
    let named = InterfaceId::Name(name.to_owned());
    assert_eq!(side(&named, &other), Some(Side::Arrivals));
    assert_eq!(side(&other, &named), Some(Side::Departures));
    assert_eq!(side(&named, &InterfaceId::Name(format!("{name} "))), Some(Side::Arrivals));
    // As an option is parsed: a name that is a number is parsed as a number.
    if let Ok(read) = name.parse::<InterfaceId>() {
        let number = name.parse::<u32>().ok();
        assert_eq!(read == named, number.is_none());
    }
}
