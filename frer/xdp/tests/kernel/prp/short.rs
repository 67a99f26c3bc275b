//! Frames of 14 to 80 octets that are cut anywhere.

use onbeat_frer::prp::Lan;
use onbeat_wire::random::Random;

use super::{A, B, Both, HOST, MAX_NODES, mac, parameters, supervision_of, with_trailer};
use crate::harness::can_run;

/// What short frames begin with: tags, tags that end early, supervision, and others.
fn frames() -> Vec<Vec<u8>> {
    let header = |tail: &[u8]| [&mac(77).0[..], &mac(5).0, tail].concat();
    let mut frames = vec![
        header(&[0x88, 0xb5]),
        header(&[0x08, 0x00, 0x45]),
        header(&[0x81, 0, 0, 5, 0x88, 0xb5]),
        header(&[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 0x08, 0x06]),
        header(&[0x81, 0, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 0x81, 0, 0, 8, 0x88, 0xb5]),
        header(&[0xf1, 0xc1, 0, 0, 0, 7, 0x88, 0xb5]),
        header(&[0x89, 0x2f, 0, 52, 0, 7, 0x88, 0xb5]),
        header(&[0x88, 0xfb]),
        header(&[0, 46]),
        supervision_of(mac(5), mac(5), None),
        supervision_of(mac(5), mac(6), Some(mac(5))),
    ];
    for frame in &mut frames {
        let filler = (0..80).map(|at| at as u8);
        frame.extend(filler.take(80 - frame.len().min(80)));
    }
    let whole = frames.clone();
    for (number, frame) in whole.iter().enumerate() {
        for length in [60, 64, 70] {
            frames.push(with_trailer(&frame[..length], number as u16, Lan::A));
        }
    }
    frames
}

#[test]
fn frames_of_any_length_are_judged_alike() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    let mut done = 0;
    for (index, frame) in frames().iter().enumerate() {
        for length in 14..=frame.len() {
            for port in [A, B, HOST] {
                let mut octets = frame[..length].to_vec();
                if port == HOST {
                    octets[6..12].copy_from_slice(&mac(77).0);
                }
                both.frame(port, &octets, &format!("frame {index}, {length}, {port:?}"));
                done += 1;
            }
        }
        both.compare(&format!("frame {index}"));
    }
    eprintln!("{done} frames");
}

/// A valid trailer at the end of a frame of any length.
#[test]
fn trailers_of_short_frames_are_judged_alike() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    let mut number = 0_u16;
    for tags in 0..4 {
        for length in 14 + 4 * tags..80 {
            for (lan, size) in [(0xa, 0), (0xb, 0), (0xc, 0), (0xa, 1), (0xb, u16::MAX)] {
                let mut octets = [&mac(77).0[..], &mac(5).0].concat();
                octets.extend([0x81, 0, 0, 5].repeat(tags));
                octets.extend([0x88, 0xb5]);
                octets.resize(length, 0);
                let lsdu = (length + 6 - 14 - 4 * tags) as u16;
                number += 1;
                octets.extend(number.to_be_bytes());
                octets.extend((lan << 12 | lsdu.wrapping_add(size) & 0xfff_u16).to_be_bytes());
                octets.extend([0x88, 0xfb]);
                for port in [A, B, HOST] {
                    both.frame(port, &octets, &format!("{tags} tags, {length}, {lan:x}, {port:?}"));
                }
            }
        }
    }
    both.compare("short frames");
}

#[test]
fn random_octets_are_judged_alike() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    let mut random = Random::new(0x6243_9003);
    for n in 0..100_000 {
        let length = random.between(14, 80) as usize;
        let mut octets: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
        if random.one_in(2) {
            octets[..12].copy_from_slice(&[mac(77).0, mac(random.below(8) as u8).0].concat());
        }
        let types = [[0x81, 0], [0x88, 0xa8], [0x88, 0xfb], [0xf1, 0xc1], [0x89, 0x2f]];
        for at in (12..length - 1).step_by(4).take(random.below(5) as usize) {
            octets[at..at + 2].copy_from_slice(&random.pick(&types)[..]);
        }
        if random.one_in(2) {
            octets[length - 2..].copy_from_slice(&[0x88, 0xfb]);
        }
        let port = *random.pick(&[A, B, HOST]);
        both.frame(port, &octets, &format!("frame {n}"));
        // Sources are many, and the table is maintained in time.
        if n % 16 == 0 {
            both.at(both.now_ns() + 1);
        }
    }
}
