//! Captured frames as a pcapng file: one interface per port and direction, times in nanoseconds.

use std::collections::BTreeMap;
use std::io::{self, Write};

use onbeat_delay::capture::{LinkType, PcapngWriter};

use super::capture::{CapturedFrames, Point};

/// Writes all frames, in the order of their times; `name` returns the name of a port.
pub(super) fn write(
    out: &mut impl Write,
    captured: &CapturedFrames,
    name: impl Fn(Point) -> String,
) -> io::Result<()> {
    let mut writer = PcapngWriter::new(out)?;
    let mut interfaces: BTreeMap<(Point, bool), u32> =
        captured.frames.iter().map(|frame| ((frame.point, frame.entering), 0)).collect();
    for ((point, entering), interface) in &mut interfaces {
        let direction = if *entering { "into" } else { "out of" };
        let name = format!("{direction} {}", name(*point));
        *interface = writer.interface(LinkType::ETHERNET, &name)?;
    }
    let mut frames: Vec<_> = captured.frames.iter().collect();
    frames.sort_by_key(|frame| frame.at);
    for frame in frames {
        let interface = interfaces[&(frame.point, frame.entering)];
        writer.packet(interface, frame.at, captured.kept(frame), frame.len)?;
    }
    writer.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::capture::CapturedFrame;
    use super::super::decode::DecodeResult;
    use super::*;

    const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    const INTERFACE_DESCRIPTION: u32 = 1;
    const ENHANCED_PACKET: u32 = 6;

    #[test]
    fn blocks_are_contiguous_and_contain_the_frames() {
        let point = Point { node: 1, port: 2 };
        let frame = |at, kept, len| CapturedFrame {
            point,
            entering: true,
            at,
            what: DecodeResult::Foreign,
            len,
            kept,
        };
        let captured = CapturedFrames {
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
    #[test]
    fn the_file_is_reproducible() {
        let frame = |node, port, entering, at, kept, len| {
            let point = Point { node, port };
            CapturedFrame { point, entering, at, what: DecodeResult::Foreign, len, kept }
        };
        let captured = CapturedFrames {
            frames: vec![
                frame(1, 2, true, 7 << 32 | 9, 3, 5),
                frame(1, 2, true, 6 << 32, 0, 3),
                frame(1, 2, false, (6 << 32) + 5, 0, 8),
                frame(0, 1, true, 3, 8, 0),
            ],
            octets: vec![1, 2, 3, 4, 5, 6, 7, 8],
            missed: 0,
        };
        let mut file = Vec::new();
        write(&mut file, &captured, |point| format!("n{}:{}", point.node, point.port)).unwrap();
        let hex: String = file.iter().map(|octet| format!("{octet:02x}")).collect();
        let expected = concat!(
            "0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c00000001000000300000000100000000000000",
            "02000900696e746f206e303a3100000009000100090000000000000030000000010000003000000001000000",
            "0000000002000b006f7574206f66206e313a3200090001000900000000000000300000000100000030000000",
            "010000000000000002000900696e746f206e313a320000000900010009000000000000003000000006000000",
            "2000000000000000000000000300000000000000000000002000000006000000240000000200000006000000",
            "0000000003000000030000000102030024000000060000002800000001000000060000000500000008000000",
            "0800000001020304050607082800000006000000280000000200000007000000090000000500000005000000",
            "040506070800000028000000",
        );
        assert_eq!(hex, expected);
    }
}
