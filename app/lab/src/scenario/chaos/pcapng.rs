//! What was captured as a pcapng file (draft-ietf-opsawg-pcapng): an interface for each port and
//! direction, times in nanoseconds.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::tap::{Captured, Point};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Writes all frames, in the order of their times; `name` tells what a port is called.
pub(super) fn write(
    out: &mut impl Write,
    captured: &Captured,
    name: impl Fn(Point) -> String,
) -> io::Result<()> {
    let mut header = BYTE_ORDER.to_le_bytes().to_vec();
    // Version 1.0, and a section whose length is not told.
    header.extend([1, 0, 0, 0]);
    header.extend(u64::MAX.to_le_bytes());
    block(out, SECTION_HEADER, &header)?;
    let mut places: BTreeMap<(Point, bool), u32> =
        captured.frames.iter().map(|frame| ((frame.point, frame.entering), 0)).collect();
    for (number, ((point, entering), place)) in places.iter_mut().enumerate() {
        *place = number as u32;
        let way = if *entering { "into" } else { "out of" };
        let mut interface = ETHERNET.to_le_bytes().to_vec();
        // Reserved, and frames as long as they were kept.
        interface.extend([0; 6]);
        option(&mut interface, IF_NAME, format!("{way} {}", name(*point)).as_bytes());
        option(&mut interface, IF_TSRESOL, &[9]);
        option(&mut interface, 0, &[]);
        block(out, INTERFACE_DESCRIPTION, &interface)?;
    }
    let mut frames: Vec<_> = captured.frames.iter().collect();
    frames.sort_by_key(|frame| frame.at);
    for frame in frames {
        let octets = captured.kept(frame);
        let mut packet = places[&(frame.point, frame.entering)].to_le_bytes().to_vec();
        packet.extend(((frame.at >> 32) as u32).to_le_bytes());
        packet.extend((frame.at as u32).to_le_bytes());
        packet.extend((octets.len() as u32).to_le_bytes());
        packet.extend(frame.len.to_le_bytes());
        packet.extend(octets);
        block(out, ENHANCED_PACKET, &packet)?;
    }
    out.flush()
}

fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (12 + body.len() + padding) as u32;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(body)?;
    out.write_all(&[0; 4][..padding])?;
    out.write_all(&length.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::super::decode::Decoded;
    use super::super::tap::Caught;
    use super::*;

    #[test]
    fn blocks_lie_one_after_another_and_hold_the_frames() {
        let point = Point { node: 1, port: 2 };
        let frame =
            |at, kept, len| Caught { point, entering: true, at, what: Decoded::Foreign, len, kept };
        let captured = Captured {
            frames: vec![frame(7 << 32 | 9, 3, 5), frame(6 << 32, 0, 3)],
            octets: vec![1, 2, 3, 4, 5, 6, 7, 8],
            missed: 0,
        };
        let mut file = Vec::new();
        write(&mut file, &captured, |point| format!("n{}:{}", point.node, point.port)).unwrap();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let length = word(at + 4) as usize;
            assert_eq!(word(at + length - 4) as usize, length);
            kinds.push((word(at), at));
            at += length;
        }
        let only: Vec<u32> = kinds.iter().map(|(kind, _)| *kind).collect();
        let packets = [ENHANCED_PACKET; 2];
        assert_eq!(only, [[SECTION_HEADER, INTERFACE_DESCRIPTION], packets].concat());
        assert!(file.windows(9).any(|part| part == b"into n1:2"));
        // The earlier one first.
        let (first, second) = (kinds[2].1, kinds[3].1);
        assert_eq!((word(first + 12), word(second + 12), word(second + 16)), (6, 7, 9));
        assert_eq!(file[second + 28..second + 33], [4, 5, 6, 7, 8]);
    }
}
