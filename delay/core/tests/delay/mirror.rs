//! One capture that holds both sides of a hop.

use onbeat_delay::capture::{CaptureError, LinkType, Packet, Reader, Writer};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Event, Matcher, Window};
use onbeat_delay::pairing::{
    CapturePair, InterfaceId, MirroredCapture, Side, SideCriterion, median_difference_ns,
};
use onbeat_wire::MacAddress;

const HOP: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xff]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A frame of any protocol.
fn frame(destination: MacAddress, source: MacAddress, vlan: Option<u16>, number: u8) -> Vec<u8> {
    let tag = vlan.map(|vid| [&[0x81, 0][..], &vid.to_be_bytes()].concat()).unwrap_or_default();
    let payload = [number; 46];
    [&destination.0[..], &source.0, &tag, &[0x88, 0xb5], &payload].concat()
}

fn capture(link: LinkType, packets: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), link).unwrap();
    for (time, octets) in packets {
        writer.write(*time, octets, octets.len() as u32).unwrap();
    }
    writer.finish().unwrap()
}

/// The delays found, and packets of neither side.
fn delays(sides: SideCriterion, packets: &[(i64, Vec<u8>)]) -> (Vec<i64>, u64) {
    let octets = capture(LinkType::ETHERNET, packets);
    let reader = Reader::new(&octets[..]).unwrap();
    let mut mirror =
        MirroredCapture::new(reader, sides, Recognition::default(), |_: &Packet<'_>| ());
    let mut matcher = Matcher::new(Window::default());
    let mut delays = Vec::new();
    let mut report = |event: Event<()>| {
        if let Event::Matched { arrival, departure, .. } = event {
            delays.push(departure.time_ns - arrival.time_ns);
        }
    };
    while mirror.feed(2, &mut matcher, &mut report).unwrap() {}
    matcher.finish(&mut report);
    assert_eq!(mirror.tally().packets, packets.len() as u64);
    assert_eq!(mirror.reader().position(), octets.len() as u64);
    (delays, mirror.tally().other)
}

#[test]
fn by_the_addresses_of_a_router() {
    let packets = [
        (1_000, frame(HOP, OTHER, None, 1)),
        (1_500, frame(OTHER, OTHER, None, 9)),
        (2_000, frame(OTHER, HOP, None, 1)),
        (3_000, frame(HOP, OTHER, None, 2)),
        (3_700, frame(OTHER, HOP, None, 2)),
    ];
    let sides = SideCriterion::Addresses(vec![HOP]);
    assert_eq!(delays(sides, &packets), (vec![1_000, 700], 1));
}

#[test]
fn by_the_vlans_of_a_mirror() {
    let packets = [
        (1_000, frame(OTHER, OTHER, Some(10), 1)),
        (1_600, frame(OTHER, OTHER, Some(20), 1)),
        (1_700, frame(OTHER, OTHER, Some(30), 1)),
        (1_800, frame(OTHER, OTHER, None, 1)),
    ];
    let sides = SideCriterion::Vlans { arrivals: 10, departures: 20 };
    assert_eq!(delays(sides, &packets), (vec![600], 2));
}

#[test]
fn by_interface_and_by_direction() {
    let octets = frame(OTHER, OTHER, None, 1);
    let packet = |interface, direction| Packet {
        number: 1,
        time_ns: 0,
        interface,
        interface_name: ["eth0", "eth1"].get(interface as usize).copied(),
        direction,
        link: LinkType::ETHERNET,
        wire_len: octets.len() as u32,
        octets: &octets,
    };
    let number = InterfaceId::Number;
    let sides = SideCriterion::Interfaces { arrivals: number(1), departures: number(0) };
    assert_eq!(sides.side(&packet(1, None)), Some(Side::Arrivals));
    assert_eq!(sides.side(&packet(0, None)), Some(Side::Departures));
    assert_eq!(sides.side(&packet(2, None)), None);
    use onbeat_delay::capture::Direction::{Inbound, Outbound};
    assert_eq!(SideCriterion::Direction.side(&packet(0, Some(Inbound))), Some(Side::Arrivals));
    assert_eq!(SideCriterion::Direction.side(&packet(0, Some(Outbound))), Some(Side::Departures));
    assert_eq!(SideCriterion::Direction.side(&packet(0, None)), None);
    // What is on both sides is on none.
    let name = |text: &str| -> InterfaceId { text.parse().unwrap() };
    assert_eq!(name("7"), number(7));
    let sides = SideCriterion::Interfaces { arrivals: name("eth1"), departures: name("0") };
    assert_eq!(sides.side(&packet(0, None)), Some(Side::Departures));
    assert_eq!(sides.side(&packet(1, None)), Some(Side::Arrivals));
    assert_eq!(sides.side(&packet(2, None)), None, "it has no name");
    assert!("".parse::<InterfaceId>().is_err());

    let both = SideCriterion::Interfaces { arrivals: number(1), departures: name("eth1") };
    assert_eq!(both.side(&packet(1, None)), None);
}

/// Two captures of two clocks: a shift, and a lead for departures.
#[test]
fn captures_of_two_clocks() {
    let frames: Vec<_> = (0..50).map(|n| frame(OTHER, OTHER, None, n)).collect();
    let second = 1_000_000_000;
    let at = |start: i64, spread: i64| -> Vec<(i64, Vec<u8>)> {
        frames
            .iter()
            .cloned()
            .zip(0..)
            .map(|(f, n)| (start + n * 10_000 + n % 3 * spread, f))
            .collect()
    };
    let arrivals = capture(LinkType::ETHERNET, &at(second, 0));
    // The other clock is ten seconds ahead, less what the shift is off by: departures seem to come
    // up to 2 µs before their arrivals.
    let departures = capture(LinkType::ETHERNET, &at(11 * second - 2_000, 700));
    let readers = || [&arrivals, &departures].map(|octets| Reader::new(&octets[..]).unwrap());
    let [mut from, mut to] = readers();
    let recognition = Recognition::default();
    let difference = median_difference_ns(&mut from, &mut to, &recognition, 40).unwrap();
    assert_eq!(difference, Some(10 * second - 2_000 + 700));
    let [mut from, mut to] = readers();
    assert_eq!(median_difference_ns(&mut from, &mut to, &recognition, 9).unwrap(), None);

    let [arrivals, departures] = readers();
    let shift = -10 * second;
    let tag = |packet: &Packet<'_>| packet.number;
    let mut pair = CapturePair::new(arrivals, departures, shift, Recognition::default(), tag);
    let mut matcher = Matcher::new(Window { lead_ns: 5_000, ..Window::default() });
    let mut found = Vec::new();
    let mut report = |event: Event<u64>| match event {
        Event::Matched { arrival, departure, .. } => {
            assert_eq!(arrival.tag, departure.tag);
            found.push(departure.time_ns - arrival.time_ns);
        }
        other => panic!("{other:?}"),
    };
    while pair.feed(7, &mut matcher, &mut report).unwrap() {}
    matcher.finish(&mut report);
    let expected: Vec<i64> = (0..50).map(|n| n % 3 * 700 - 2_000).collect();
    assert_eq!(found, expected);
    assert_eq!(pair.tally(Side::Departures).packets, 50);
    assert!(!pair.cut_off(Side::Arrivals));
}

#[test]
fn the_wrong_link_type_is_an_error_that_names_it() {
    let octets = capture(LinkType(127), &[(0, vec![0; 60])]);
    let reader = || Reader::new(&octets[..]).unwrap();
    let tag = |_: &Packet<'_>| ();
    let mut matcher = Matcher::new(Window::default());
    let mut pair = CapturePair::new(reader(), reader(), 0, Recognition::default(), tag);
    let error = pair.feed(1, &mut matcher, &mut |_| {}).unwrap_err();
    assert_eq!(error.side, Side::Arrivals);
    assert!(matches!(error.error, CaptureError::Link { number: 1, .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("capture of arrivals: packet 1 is of link type 127 (802.11"),
        "{text}"
    );
}
