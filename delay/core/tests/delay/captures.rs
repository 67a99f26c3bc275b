//! Reading captures that other programs wrote (data/captures.sh), and damaged ones.

use std::io::{Cursor, Read};

use onbeat_delay::capture::{
    CaptureError, Damage, Direction, LinkType, Packet, PcapngWriter, Reader, Writer, decompress,
};
use proptest::prelude::*;

const SECOND: i64 = 1_767_323_045_000_000_000;
/// Nanoseconds, and length, of the packets in the data, which count up from ten times their place.
const PACKETS: [(i64, usize); 6] =
    [(0, 60), (1, 61), (123_456_789, 63), (500_000_000, 64), (999_999_999, 98), (999_999_999, 192)];

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../data/", $name)).as_slice()
    };
}

/// The compared parts of a packet.
#[derive(Debug, PartialEq, Eq)]
struct ReadPacket {
    number: u64,
    time_ns: i64,
    interface: u32,
    wire_len: u32,
    octets: Vec<u8>,
}

impl From<Packet<'_>> for ReadPacket {
    fn from(packet: Packet<'_>) -> Self {
        ReadPacket {
            number: packet.number,
            time_ns: packet.time_ns,
            interface: packet.interface,
            wire_len: packet.wire_len,
            octets: packet.octets.to_vec(),
        }
    }
}

fn expected() -> Vec<ReadPacket> {
    let packet = |(i, (ns, len)): (usize, (i64, usize))| ReadPacket {
        number: i as u64 + 1,
        time_ns: SECOND + ns,
        interface: 0,
        wire_len: len as u32,
        octets: (0..len).map(|octet| (10 * i + octet) as u8).collect(),
    };
    PACKETS.into_iter().enumerate().map(packet).collect()
}

fn read(octets: &[u8]) -> Result<Vec<ReadPacket>, CaptureError> {
    let mut reader = Reader::new(decompress(octets)?)?;
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        assert_eq!(packet.link, LinkType::ETHERNET);
        seen.push(packet.into());
    }
    Ok(seen)
}

#[test]
fn nanoseconds_in_every_wrapping() {
    for (name, octets) in [
        ("pcap", data!("nanoseconds.pcap")),
        ("pcapng", data!("nanoseconds.pcapng")),
        ("gzip", data!("nanoseconds.pcap.gz")),
        ("two gzip members", data!("members.pcapng.gz")),
        ("zstd", data!("nanoseconds.pcapng.zst")),
        ("zstd behind a skippable frame", data!("frames.pcap.zst")),
    ] {
        assert_eq!(read(octets).unwrap(), expected(), "{name}");
    }
}

#[test]
fn microseconds_are_converted() {
    let mut expected = expected();
    expected.iter_mut().for_each(|packet| packet.time_ns -= packet.time_ns % 1000);
    assert_eq!(read(data!("microseconds.pcap")).unwrap(), expected);
}

#[test]
fn interfaces_have_their_own_resolution() {
    let mut expected = expected();
    for packet in &mut expected[3..] {
        packet.time_ns -= packet.time_ns % 1000;
        packet.interface = 1;
    }
    assert_eq!(read(data!("interfaces.pcapng")).unwrap(), expected);
}

#[test]
fn packets_that_the_capture_cut_keep_their_length() {
    let mut expected = expected();
    expected.iter_mut().for_each(|packet| packet.octets.truncate(62));
    assert_eq!(read(data!("cut.pcapng")).unwrap(), expected);
}

/// The numbers of a little-endian pcap, turned around.
#[test]
fn either_byte_order() {
    let little = data!("nanoseconds.pcap");
    let mut big = little.to_vec();
    let swap = |octets: &mut [u8]| octets.reverse();
    swap(&mut big[..4]);
    swap(&mut big[4..6]);
    swap(&mut big[6..8]);
    big[8..24].chunks_exact_mut(4).for_each(swap);
    let mut at = 24;
    for (_, len) in PACKETS {
        big[at..at + 16].chunks_exact_mut(4).for_each(swap);
        at += 16 + len;
    }
    assert_eq!(read(&big).unwrap(), expected());
}

#[test]
fn what_is_written_is_read() {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    for packet in expected() {
        writer.write(packet.time_ns, &packet.octets, packet.wire_len).unwrap();
    }
    // All but the time zone and accuracy, which nobody writes, is as Wireshark has it.
    assert_eq!(writer.finish().unwrap(), data!("nanoseconds.pcap"));
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    for time in [-1, i64::MAX] {
        assert!(writer.write(time, &[], 0).is_err(), "{time}");
    }
}

#[test]
fn a_written_pcapng_is_read() {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    for (number, name) in ["into a", "out of a"].into_iter().enumerate() {
        assert_eq!(writer.interface(LinkType::ETHERNET, name).unwrap(), number as u32);
    }
    for (packet, interface) in expected().iter().zip([1, 0].into_iter().cycle()) {
        let time_ns = packet.time_ns as u64;
        writer.packet(interface, time_ns, &packet.octets, packet.wire_len).unwrap();
    }
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    for (packet, interface) in expected().iter().zip([1, 0].into_iter().cycle()) {
        let found = reader.next_packet().unwrap().unwrap();
        let name = if interface == 0 { "into a" } else { "out of a" };
        assert_eq!((found.interface, found.interface_name), (interface, Some(name)));
        assert_eq!(
            (found.time_ns, found.octets, found.wire_len),
            (packet.time_ns, &packet.octets[..], packet.wire_len)
        );
    }
    assert!(reader.next_packet().unwrap().is_none() && !reader.cut_off());
}

/// A file that ends anywhere yields the packets that are there in full, and says that it ended.
#[test]
fn every_truncation_is_reported() {
    for octets in [data!("nanoseconds.pcap"), data!("nanoseconds.pcapng")] {
        let mut full = 0;
        for len in 24..octets.len() {
            let Ok(mut reader) = Reader::new(&octets[..len]) else {
                panic!("{len}: the file's header is there")
            };
            let mut packets = 0;
            while let Some(packet) = reader.next_packet().unwrap() {
                assert_eq!(ReadPacket::from(packet), expected()[packets]);
                packets += 1;
            }
            let whole = reader.position() == len as u64;
            assert_eq!(reader.cut_off(), !whole, "{len}");
            assert!(packets >= full);
            full = packets;
        }
        assert!(full >= 5);
    }
}

#[test]
fn other_files_are_refused() {
    let message = |octets: &[u8]| read(octets).unwrap_err().to_string();
    assert_eq!(message(b""), "the file is empty");
    assert_eq!(message(b"ab"), "not a pcap or pcapng file: it is shorter than any header");
    assert!(message(b"Time,CH1,CH2").contains("its first octets are 54 69 6d 65"));
    let mut other = data!("nanoseconds.pcap").to_vec();
    other[4] = 3;
    assert!(message(&other).contains("version 3.4"), "{}", message(&other));
    other[..4].copy_from_slice(&0xa1b2_cd34_u32.to_le_bytes());
    assert!(message(&other).contains("Kuznetzov"));
}

fn damage(octets: &[u8]) -> (u64, Damage) {
    match read(octets) {
        Err(CaptureError::Damaged { number, what, .. }) => (number, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_reported_with_its_position() {
    let with = |octets: &[u8], at: usize, value: u32| {
        let mut octets = octets.to_vec();
        octets[at..at + 4].copy_from_slice(&value.to_le_bytes());
        octets
    };
    let pcap = data!("nanoseconds.pcap");
    let second = 24 + 16 + 60;
    assert_eq!(damage(&with(pcap, second + 8, 300_000)), (2, Damage::Length(300_000)));
    assert_eq!(damage(&with(pcap, 28, 1_000_000_000)), (1, Damage::Fraction(1_000_000_000)));
    let pcapng = data!("nanoseconds.pcapng");
    let order = Damage::ByteOrder(0x0102_0304);
    assert_eq!(damage(&with(pcapng, 8, 0x0102_0304)), (1, order));
    let lengths = |len| Damage::Block { kind: 0x0a0d_0d0a, len };
    for len in [0, 8, 13, 1 << 30] {
        assert_eq!(damage(&with(pcapng, 4, len)), (1, lengths(len)));
    }
    let len = u32::from_le_bytes(pcapng[4..8].try_into().unwrap());
    let end = with(pcapng, len as usize - 4, 4);
    assert_eq!(damage(&end), (1, Damage::BlockEnd(len, 4)));
}

#[test]
fn a_damaged_compression_is_no_packet() {
    for octets in [data!("nanoseconds.pcap.gz"), data!("nanoseconds.pcapng.zst")] {
        let mut damaged = octets.to_vec();
        let checksum = damaged.len() - if octets[0] == 0x1f { 8 } else { 4 };
        damaged[checksum] ^= 1;
        let error = read(&damaged).unwrap_err();
        assert!(matches!(error, CaptureError::Read(_)), "{error}");
    }
}

/// One block of a pcapng file.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// A section with one interface of these options, and one packet of eight octets.
fn section(options: &[u8], units: u64, flags: u32) -> Vec<u8> {
    let header = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [&[1, 0, 0, 0, 0, 0, 0, 0], options].concat();
    let time = [(units >> 32) as u32, units as u32];
    let fixed: Vec<u8> =
        [0, time[0], time[1], 8, 8].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let packet = [&fixed[..], b"abcdefgh", &option(2, &flags.to_le_bytes())].concat();
    [block(0x0a0d_0d0a, &header), block(1, &interface), block(6, &packet)].concat()
}

#[test]
fn options_of_pcapng() {
    let first = |octets: &[u8]| {
        let mut reader = Reader::new(octets).unwrap();
        let packet = reader.next_packet().unwrap().unwrap();
        (packet.time_ns, packet.direction, packet.wire_len, packet.octets.to_vec())
    };
    // Microseconds are what is meant where nothing is said.
    assert_eq!(first(&section(&[], 5, 0)).0, 5000);
    // 2^-10 s, 10^-12 s, whole seconds, and an offset in seconds.
    assert_eq!(first(&section(&option(9, &[0x8a]), 512, 0)).0, 500_000_000);
    assert_eq!(first(&section(&option(9, &[12]), 7_000_999, 0)).0, 7000);
    assert_eq!(first(&section(&option(9, &[0]), 3, 0)).0, 3_000_000_000);
    let shifted = [option(14, &2_i64.to_le_bytes()), option(9, &[9])].concat();
    assert_eq!(first(&section(&shifted, 1, 0)).0, 2_000_000_001);
    // The FCS is no part of the frame.
    let (_, direction, wire_len, octets) = first(&section(&option(13, &[4]), 0, 1));
    assert_eq!((direction, wire_len, &octets[..]), (Some(Direction::Inbound), 4, &b"abcd"[..]));
    assert_eq!(first(&section(&[], 0, 2)).1, Some(Direction::Outbound));
    // What makes no nanoseconds.
    assert_eq!(damage(&section(&option(9, &[0xff]), 0, 0)).1, Damage::Resolution(0xff));
    assert_eq!(damage(&section(&option(9, &[0]), 1 << 40, 0)).1, Damage::Time);
}

/// Memory for interfaces does not grow with the file.
#[test]
fn interfaces_and_their_names_have_a_bound() {
    let header = |blocks: &[Vec<u8>]| {
        let start = [0x4d_u8, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        [&[block(0x0a0d_0d0a, &start)], blocks].concat().concat()
    };
    let interface =
        |name: &[u8]| block(1, &[&[1, 0, 0, 0, 0, 0, 4, 0], &option(2, name)[..]].concat());
    assert_eq!(read(&header(&[interface(&[b'x'; 1024])])).unwrap(), []);
    let (number, what) = damage(&header(&[interface(&[b'x'; 1025])]));
    assert_eq!((number, what), (1, Damage::Name(1025)));
    let as_many = vec![interface(b"eth0"); 65_536];
    assert_eq!(read(&header(&as_many)).unwrap(), []);
    let one_more = [&as_many[..], &[interface(b"eth0")]].concat();
    assert_eq!(damage(&header(&one_more)), (1, Damage::Interfaces));
    // A section's interfaces are its own.
    assert_eq!(read(&[header(&as_many), header(&as_many)].concat()).unwrap(), []);
}

#[test]
fn sections_follow_each_other_and_other_blocks_are_skipped() {
    let named = option(2, b"eth0");
    let octets =
        [section(&named, 1, 0), block(5, &[0; 12]), block(3, &[0; 8]), section(&[], 2, 0)].concat();
    let mut reader = Reader::new(&octets[..]).unwrap();
    assert_eq!(reader.next_packet().unwrap().unwrap().time_ns, 1000);
    assert_eq!(reader.interface_name(0), Some("eth0"));
    assert_eq!(reader.next_packet().unwrap().unwrap().time_ns, 2000);
    assert_eq!(reader.interface_name(0), None, "another section, other interfaces");
    assert_eq!(reader.without_time(), 1);
    assert!(reader.next_packet().unwrap().is_none());
    assert!(!reader.cut_off());
}

/// A source that gives as few octets at a time as it likes.
struct Dribble<'a>(Cursor<&'a [u8]>, usize);

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = out.len().min(self.1);
        self.0.read(&mut out[..len])
    }
}

proptest! {
    #[test]
    fn any_chunking_of_the_input_yields_the_same(step in 1_usize..200) {
        for octets in [data!("nanoseconds.pcap"), data!("nanoseconds.pcapng.zst")] {
            let input = decompress(Dribble(Cursor::new(octets), step)).unwrap();
            let mut reader = Reader::new(input).unwrap();
            let mut seen = Vec::new();
            while let Some(packet) = reader.next_packet().unwrap() {
                seen.push(ReadPacket::from(packet));
            }
            prop_assert_eq!(seen, expected());
        }
    }

    /// Whatever octets come, the reader ends, without a panic.
    #[test]
    fn garbage_ends(
        mut octets in prop::collection::vec(any::<u8>(), 0..400),
        start in 0_usize..4,
    ) {
        let starts = [data!("nanoseconds.pcap"), data!("nanoseconds.pcapng")];
        let keep = [24, 0, 24, 60][start];
        octets.splice(..0, starts[start % 2][..keep].iter().copied());
        let Ok(mut reader) = Reader::new(&octets[..]) else { return Ok(()) };
        let mut packets = 0;
        while let Ok(Some(packet)) = reader.next_packet() {
            prop_assert!(packet.octets.len() <= packet.wire_len as usize);
            packets += 1;
            prop_assert!(packets <= octets.len());
        }
    }

    /// Octets changed in a real file are packets, an error or an end: never a panic.
    #[test]
    fn damage_anywhere_ends(place in any::<prop::sample::Index>(), octet in any::<u8>()) {
        for octets in [data!("nanoseconds.pcap"), data!("nanoseconds.pcapng"), data!("nanoseconds.pcapng.zst"), data!("members.pcapng.gz")] {
            let mut octets = octets.to_vec();
            *place.get_mut(&mut octets) = octet;
            let Ok(input) = decompress(&octets[..]) else { continue };
            let Ok(mut reader) = Reader::new(input) else { continue };
            while let Ok(Some(_)) = reader.next_packet() {}
        }
    }
}
