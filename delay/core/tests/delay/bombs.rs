//! Compressed input that stands for far more than itself: memory stays bounded, errors name the
//! position.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use onbeat_delay::capture::decompress;
use onbeat_testing::alone;

const MIB: u64 = 1 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A zstd frame without content size or checksum: a window of 2^`log` octets, and blocks.
fn frame(log: u8, blocks: &[Vec<u8>]) -> Vec<u8> {
    [&MAGIC[..], &[0, (log - 10) << 3], &blocks.concat()].concat()
}

fn block(kind: u32, length: u32, last: bool, content: &[u8]) -> Vec<u8> {
    let header = length << 3 | kind << 1 | u32::from(last);
    [&header.to_le_bytes()[..3], content].concat()
}

/// 128 KiB of one octet in 4 octets.
fn repeated(last: bool) -> Vec<u8> {
    block(1, 1 << 17, last, b"x")
}

/// A block of 72 kB whose sequences make 4.2 GB: each copies 131,074 octets.
fn sequences() -> Vec<u8> {
    const COUNT: usize = 32_000;
    // Read from the last bit on: 2 bits of offset, 16 of match length.
    let bits = (0..COUNT * 18).map(|bit| bit % 18 >= 2).rev().collect::<Vec<bool>>();
    let octets = bits.chunks(8).map(|bits| {
        bits.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).fold(0, |all, bit| all | bit)
    });
    let mut content = vec![1 << 3, b'x'];
    // The number of sequences; one symbol for all literal lengths, offsets and match lengths.
    content.extend([(COUNT >> 8) as u8 | 0x80, COUNT as u8, 0x54, 0, 2, 52]);
    content.extend(octets.chain([1]));
    block(2, content.len() as u32, true, &content)
}

fn read(octets: &[u8]) -> io::Result<u64> {
    io::copy(&mut decompress(octets)?, &mut io::sink())
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn memory_does_not_grow_with_compressed_input() {
    if !alone("bombs::memory_does_not_grow_with_compressed_input") {
        return;
    }
    let many = |count| -> Vec<Vec<u8>> { (1..=count).map(|n| repeated(n == count)).collect() };
    let single_segment =
        [&MAGIC[..], &[0xe0], &(8_u64 << 30).to_le_bytes(), &repeated(true)].concat();
    let small = frame(20, &many(1));
    for (name, octets, earliest) in [
        ("a window of 8 GiB", frame(33, &many(80_000)), 0),
        ("a window of 256 MiB", frame(28, &many(8)), 0),
        ("8 GiB in one segment", single_segment, 0),
        ("a second frame", [small.clone(), frame(33, &many(8))].concat(), small.len()),
        ("a block beyond 128 KiB", frame(20, &[block(0, 1, false, b"x"), sequences()]), 4),
    ] {
        let error = read(&octets).expect_err(name).to_string();
        let at =
            error.strip_prefix("zstd data after octet ").and_then(|rest| rest.split_once(": "));
        let at: usize = at.unwrap_or_else(|| panic!("{name}: {error}")).0.parse().unwrap();
        assert!((earliest..=octets.len()).contains(&at), "{name}: {error}");
    }
    // The largest window, and more than fits it.
    assert_eq!(read(&frame(27, &many(2000))).unwrap(), 250 * MIB);

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut io::repeat(0).take(256 * MIB), &mut gzip).unwrap();
    gzip.flush().unwrap();
    assert_eq!(read(&gzip.finish().unwrap()).unwrap(), 256 * MIB);

    assert!(peak() < 200 * MIB, "{} MiB", peak() / MIB);
}
