//! A sound capture breaks no rule; each change of it breaks the expected one.
//!
//! ```text
//!   red0 == n0 === LAN A, LAN B === n1 == station 1
//!                    |
//!                  station 2 (LAN A)
//! ```

use onbeat_wire::MacAddress;

use super::*;
use crate::traffic::{ETHERTYPE, Stamp, filled};

const MACS: [MacAddress; 3] = [
    MacAddress([2, 0, 0, 0, 0, 0xa0]),
    MacAddress([2, 0, 0, 0, 0, 0xa1]),
    MacAddress([2, 0, 0, 0, 0, 0xa2]),
];
/// The node of station 1 has an address of its own.
const REDBOX: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb1]);
const MS: u64 = 1_000_000;
/// The first frame is later than every margin.
const START: u64 = 1_000_000 * MS;

#[derive(Debug, Clone, PartialEq)]
struct CapturedFrame {
    at: u64,
    place: CapturePlace,
    entering: bool,
    octets: Vec<u8>,
}

/// Streams: 0 from n0 to station 1, 1 broadcasts of station 1, 2 broadcasts of station 2.
const STREAMS: [StreamCase; 3] = [
    StreamCase { from: 0, to: Destination::Station(1) },
    StreamCase { from: 1, to: Destination::Broadcast },
    StreamCase { from: 2, to: Destination::Broadcast },
];

fn frame(stream: usize, sequence: u64, len: usize) -> Vec<u8> {
    let StreamCase { from, to } = STREAMS[stream];
    let destination = match to {
        Destination::Station(to) => MACS[to],
        _ => MacAddress([0xff; 6]),
    };
    let mut octets = [destination.0, MACS[from].0].concat();
    if sequence % 2 == 1 {
        octets.extend([0x81, 0, 0x60, 5]);
    }
    octets.extend(ETHERTYPE.to_be_bytes());
    let payload = octets.len();
    octets.extend(filled(len - payload));
    let stamp = Stamp { stream: stream as u32, sequence, intended_ns: 1, actual_ns: 2 };
    stamp.emit(&mut octets[payload..]);
    octets
}

fn tagged(octets: &[u8], number: u16, lan: Lan) -> Vec<u8> {
    let header = if octets[12..14] == VLAN { 18 } else { 14 };
    let mut octets = octets.to_vec();
    octets.resize(octets.len().max(shortest(&octets)), 0);
    let size = (octets.len() + TRAILER_LEN - header) as u16;
    octets.extend(number.to_be_bytes());
    octets.extend((size | if lan == Lan::A { 0xa000 } else { 0xb000 }).to_be_bytes());
    octets.extend([0x88, 0xfb]);
    octets
}

const fn port(node: usize, port: NodePort) -> CapturePlace {
    CapturePlace::Port(node, port)
}

const A: NodePort = NodePort::Lan(Lan::A);
const B: NodePort = NodePort::Lan(Lan::B);
const HOST: NodePort = NodePort::Host;

/// Frames of all streams, LAN B a little slower.
fn sound() -> Vec<CapturedFrame> {
    let mut frames = Vec::new();
    let mut add = |at: u64, place, entering, octets: &[u8]| {
        frames.push(CapturedFrame { at, place, entering, octets: octets.to_vec() });
    };
    for sequence in 0..4 {
        let at = START + sequence * 100 * MS;
        let len = [54, 60, 64, 500][sequence as usize];
        for (from, to, stream) in [(0, 1, 0), (1, 0, 1)] {
            let original = frame(stream, sequence, len);
            add(at, port(from, HOST), true, &original);
            for (lan, delay) in [(Lan::A, MS), (Lan::B, 3 * MS)] {
                let copy = tagged(&original, sequence as u16, lan);
                add(at + MS / 10, port(from, NodePort::Lan(lan)), false, &copy);
                add(at + delay, port(to, NodePort::Lan(lan)), true, &copy);
            }
            let mut delivered = original.clone();
            delivered.resize(len.max(shortest(&original)), 0);
            add(at + 2 * MS, port(to, HOST), false, &delivered);
        }
        let original = frame(2, sequence, len);
        add(at, CapturePlace::Station(2), true, &original);
        for node in 0..2 {
            add(at + MS, port(node, A), true, &original);
            add(at + 2 * MS, port(node, HOST), false, &original);
        }
        // Supervision, on LAN A of the other node.
        if sequence == 3 {
            let mut supervision = [[1, 0x15, 0x4e, 0, 1, 0], MACS[0].0].concat();
            supervision.extend([0x88, 0xfb]);
            supervision.resize(60, 0);
            for lan in Lan::BOTH {
                let copy = tagged(&supervision, 4, lan);
                add(at + 4 * MS, port(0, NodePort::Lan(lan)), false, &copy);
                add(at + 5 * MS, port(1, NodePort::Lan(lan)), true, &copy);
            }
        }
    }
    frames
}

fn judged(frames: &[CapturedFrame], outages: &[Outage]) -> Verdict {
    judged_in(frames, outages, false)
}

fn judged_in(frames: &[CapturedFrame], outages: &[Outage], in_kernel: bool) -> Verdict {
    let sighting = |(index, frame): (usize, &'_ CapturedFrame)| Sighting {
        at: frame.at,
        place: frame.place,
        entering: frame.entering,
        index,
        octets: Vec::leak(frame.octets.clone()),
    };
    let node = |(name, mac): (&str, MacAddress)| NodeCase { name: name.into(), mac, in_kernel };
    judge(&Case {
        nodes: [("n0", MACS[0]), ("n1", REDBOX)].map(node).into(),
        stations: vec![
            Some(Attachment::Node(0)),
            Some(Attachment::Node(1)),
            Some(Attachment::Lan(Lan::A)),
        ],
        streams: STREAMS.to_vec(),
        outages: outages.to_vec(),
        sightings: frames.iter().enumerate().map(sighting).collect(),
    })
}

/// The index of a frame.
fn find(
    frames: &[CapturedFrame],
    place: CapturePlace,
    entering: bool,
    stream: usize,
    sequence: u64,
) -> usize {
    let is_it = |captured: &CapturedFrame| {
        let content = decode(&captured.octets).unwrap().content;
        (captured.place, captured.entering) == (place, entering)
            && content == Content::Station { stream: stream as u32, sequence }
    };
    frames.iter().position(is_it).expect("it is captured")
}

/// The rules that a change of the sound capture breaks.
fn broken(change: impl FnOnce(&mut Vec<CapturedFrame>)) -> Vec<Rule> {
    let mut frames = sound();
    change(&mut frames);
    let mut rules: Vec<Rule> =
        judged(&frames, &[]).violations.iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

#[test]
fn a_sound_capture_breaks_no_rule() {
    let verdict = judged(&sound(), &[]);
    assert_eq!(verdict.violations, []);
    let tally = verdict.tally;
    // 8 frames on two LANs, 8 deliveries of them, and 8 of station 2.
    assert_eq!((tally.checked, tally.delivered, tally.discarded), (32, 16, 8));
    assert_eq!((tally.excused, tally.repeated, tally.supervision), (0, 0, 4));
    assert_eq!((tally.numbers, tally.latency_ns), (14, MS));
}

#[test]
fn a_lost_frame_is_detected_if_one_copy_arrived() {
    for (stream, to) in [(0, 1), (1, 0), (2, 0), (2, 1)] {
        let lose = |frames: &mut Vec<CapturedFrame>| {
            let at = find(frames, port(to, HOST), false, stream, 2);
            frames.remove(at);
        };
        assert_eq!(broken(lose), [Rule::Delivered], "{stream}");
    }
    // Also by the later copy alone.
    let lose = |frames: &mut Vec<CapturedFrame>| {
        for (place, entering) in [(port(1, HOST), false), (port(1, A), true)] {
            let at = find(frames, place, entering, 0, 2);
            frames.remove(at);
        }
    };
    assert_eq!(broken(lose), [Rule::Delivered]);
    let lose_all = |frames: &mut Vec<CapturedFrame>| {
        for (place, entering) in [(port(1, HOST), false), (port(1, A), true), (port(1, B), true)] {
            let at = find(frames, place, entering, 0, 2);
            frames.remove(at);
        }
    };
    assert_eq!(broken(lose_all), []);
}

#[test]
fn a_second_delivery_is_detected() {
    for stream in [0, 2] {
        let repeat = |frames: &mut Vec<CapturedFrame>| {
            let at = find(frames, port(1, HOST), false, stream, 1);
            let again = CapturedFrame { at: frames[at].at + 2 * MS, ..frames[at].clone() };
            frames.push(again);
        };
        assert_eq!(broken(repeat), [Rule::Once]);
    }
}

#[test]
fn a_delivery_without_a_copy_is_detected() {
    let forge = |frames: &mut Vec<CapturedFrame>| {
        frames.retain(|frame| {
            let key = decode(&frame.octets).unwrap().content;
            let of_it = key == Content::Station { stream: 0, sequence: 1 };
            !(of_it
                && frame.entering
                && matches!(frame.place, CapturePlace::Port(1, NodePort::Lan(_))))
        });
    };
    assert_eq!(broken(forge), [Rule::Ghost]);
    let early = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, HOST), false, 0, 1);
        frames[at].at -= 3 * MS / 2;
    };
    assert_eq!(broken(early), [Rule::Ghost]);
    let own = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, HOST), true, 1, 1);
        let back =
            CapturedFrame { entering: false, at: frames[at].at + 9 * MS, ..frames[at].clone() };
        frames.push(back);
    };
    assert_eq!(broken(own), [Rule::Ghost]);
}

#[test]
fn a_frame_on_one_lan_only_is_detected() {
    let skip = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(0, B), false, 0, 3);
        frames.remove(at);
    };
    // The next frame, a supervision frame, shows the gap as well.
    assert_eq!(broken(skip), [Rule::Sent, Rule::Numbers]);
    let twice = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(0, B), false, 0, 3);
        frames.insert(at, frames[at].clone());
    };
    assert_eq!(broken(twice), [Rule::Sent, Rule::Numbers]);
}

#[test]
fn a_frame_that_returns_to_a_lan_is_detected() {
    let forward = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, A), true, 2, 1);
        let back = CapturedFrame { entering: false, at: frames[at].at + MS, ..frames[at].clone() };
        frames.push(back);
    };
    assert_eq!(broken(forward), [Rule::Circulation]);
    let bridged = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, A), true, 0, 1);
        let place = port(1, B);
        let back = CapturedFrame { entering: false, place, ..frames[at].clone() };
        frames.push(back);
    };
    assert_eq!(broken(bridged), [Rule::Circulation, Rule::Lan, Rule::Numbers]);
    let supervision = |frames: &mut Vec<CapturedFrame>| {
        let last = frames.last().unwrap().clone();
        assert_eq!(decode(&last.octets).unwrap().content, Content::Supervision);
        frames.push(CapturedFrame { entering: false, ..last });
    };
    assert_eq!(broken(supervision), [Rule::Circulation]);
}

#[test]
fn a_frame_on_the_wrong_lan_is_detected() {
    let crossed = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, A), true, 0, 1);
        frames[at].place = port(1, B);
    };
    assert_eq!(broken(crossed), [Rule::Lan]);
    let single = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, A), true, 2, 1);
        frames[at].place = port(1, B);
    };
    assert_eq!(broken(single), [Rule::Lan]);
    let untagged = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(0, A), false, 0, 3);
        frames[at].octets.truncate(500);
    };
    assert_eq!(broken(untagged), [Rule::Lan, Rule::Numbers]);
    let station = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, B), true, 0, 3);
        frames[at].place = CapturePlace::Station(2);
    };
    assert_eq!(broken(station), [Rule::Lan]);
}

#[test]
fn a_trailer_at_a_protected_station_is_detected() {
    let keep = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, HOST), false, 0, 3);
        let copy = find(frames, port(1, A), true, 0, 3);
        frames[at].octets = frames[copy].octets.clone();
    };
    assert_eq!(broken(keep), [Rule::Trailer]);
    let supervision = |frames: &mut Vec<CapturedFrame>| {
        let mut last = frames.last().unwrap().clone();
        last.octets.truncate(60);
        frames.push(CapturedFrame { place: port(1, HOST), entering: false, ..last });
    };
    assert_eq!(broken(supervision), [Rule::Trailer]);
    let hello = |frames: &mut Vec<CapturedFrame>| {
        supervision(frames);
        frames.last_mut().unwrap().octets[6..12].copy_from_slice(&REDBOX.0);
    };
    assert_eq!(broken(hello), []);
}

#[test]
fn a_changed_frame_is_detected() {
    let delivery =
        |frames: &[CapturedFrame], sequence| find(frames, port(1, HOST), false, 0, sequence);
    let flip = |frames: &mut Vec<CapturedFrame>| {
        let at = delivery(frames, 3);
        frames[at].octets[499] ^= 1;
    };
    assert_eq!(broken(flip), [Rule::Content]);
    let cut = |frames: &mut Vec<CapturedFrame>| {
        let at = delivery(frames, 3);
        frames[at].octets.truncate(499);
    };
    assert_eq!(broken(cut), [Rule::Content]);
    let longer = |frames: &mut Vec<CapturedFrame>| {
        let at = delivery(frames, 3);
        frames[at].octets.push(0);
    };
    assert_eq!(broken(longer), [Rule::Content]);
    let padding = |frames: &mut Vec<CapturedFrame>| {
        let at = delivery(frames, 0);
        assert_eq!(frames[at].octets.len(), 60);
        frames[at].octets[59] = 1;
    };
    assert_eq!(broken(padding), [Rule::Content]);
    let size = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(1, B), true, 0, 3);
        let last = frames[at].octets.len() - 3;
        frames[at].octets[last] ^= 1;
    };
    assert!(broken(size).contains(&Rule::Content));
}

#[test]
fn wrong_numbers_are_detected() {
    let renumber = |frames: &mut Vec<CapturedFrame>| {
        let at = find(frames, port(0, B), false, 0, 2);
        let copy = tagged(&frame(0, 2, 64), 9, Lan::B);
        frames[at].octets = copy;
    };
    assert_eq!(broken(renumber), [Rule::Numbers]);
    let repeated = |frames: &mut Vec<CapturedFrame>| {
        for lan in Lan::BOTH {
            let at = find(frames, port(0, NodePort::Lan(lan)), false, 0, 2);
            frames[at].octets = tagged(&frame(0, 2, 64), 1, lan);
        }
    };
    assert_eq!(broken(repeated), [Rule::Numbers]);
}

/// The daemon of XDP draws a number and sends the frame later; programs send theirs in bulk.
#[test]
fn a_supervision_frame_may_be_late_or_early_beside_programs() {
    let late = |number: u16| {
        let mut frames = sound();
        for lan in Lan::BOTH {
            for (node, entering, delay) in [(0, false, MS), (1, true, 2 * MS)] {
                let at = frames
                    .iter()
                    .position(|frame| {
                        frame.place == port(node, NodePort::Lan(lan))
                            && frame.entering == entering
                            && frame.octets[12..14] == [0x88, 0xfb]
                    })
                    .unwrap();
                let mut supervision = frames.remove(at);
                let end = supervision.octets.len() - TRAILER_LEN;
                supervision.octets = tagged(&supervision.octets[..end], number, lan);
                supervision.at += delay;
                frames.push(supervision);
            }
            // It has the number 4, and the last frame of the host 3.
            let at = find(&frames, port(0, NodePort::Lan(lan)), false, 0, 3);
            frames[at].octets = tagged(&frame(0, 3, 500), 4, lan);
            let at = find(&frames, port(1, NodePort::Lan(lan)), true, 0, 3);
            frames[at].octets = tagged(&frame(0, 3, 500), 4, lan);
        }
        frames
    };
    let rules = |frames: &[CapturedFrame], in_kernel| {
        let violations = judged_in(frames, &[], in_kernel).violations;
        violations.iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(&late(3), true), []);
    assert!(rules(&late(3), false).contains(&Rule::Numbers));
    let mut early = sound();
    for captured in &mut early {
        if captured.octets[12..14] == [0x88, 0xfb] {
            captured.at -= 4 * MS - if captured.entering { 0 } else { MS / 20 };
        }
    }
    early.sort_by_key(|captured| captured.at);
    assert_eq!(rules(&early, true), []);
    assert!(rules(&early, false).contains(&Rule::Numbers));
    // A number that is missing, or used twice, remains one.
    for number in [2, 4, 6] {
        assert!(rules(&late(number), true).contains(&Rule::Numbers), "{number}");
    }
}

/// An outage excuses what it can cause, and nothing else.
#[test]
fn outages_excuse_losses_at_their_time() {
    let span = Span { from: START + 190 * MS, to: START + 250 * MS };
    let outage = |port, only_sending| Outage { node: 1, port, span, only_sending };
    let lose = |of: &[(CapturePlace, bool, usize)], sequence| {
        let mut frames = sound();
        for (place, entering, stream) in of {
            let at = find(&frames, *place, *entering, *stream, sequence);
            frames.remove(at);
        }
        frames
    };
    let rules = |frames: &[CapturedFrame], outage| {
        let mut rules: Vec<Rule> =
            judged(frames, &[outage]).violations.iter().map(|v| v.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    };
    let delivery = [(port(1, HOST), false, 0)];
    assert_eq!(rules(&lose(&delivery, 2), outage(None, false)), []);
    // By the other LAN it had to be delivered.
    assert_eq!(rules(&lose(&delivery, 2), outage(Some(A), false)), [Rule::Delivered]);
    // It is late enough, and a silent node delivers.
    assert_eq!(rules(&lose(&delivery, 3), outage(None, false)), [Rule::Delivered]);
    assert_eq!(rules(&lose(&delivery, 2), outage(None, true)), [Rule::Delivered]);
    let sent = [(port(1, A), false, 1), (port(1, B), false, 1)];
    assert_eq!(rules(&lose(&sent, 2), outage(None, true)), []);
    assert_eq!(rules(&lose(&sent, 2), outage(Some(A), false)), [Rule::Sent, Rule::Numbers]);
    // A node that restarted may deliver the second copy as well; a port that was down has no part in it.
    let mut twice = sound();
    let at = find(&twice, port(1, HOST), false, 0, 2);
    twice.push(CapturedFrame { at: twice[at].at + 2 * MS, ..twice[at].clone() });
    assert_eq!(rules(&twice, outage(None, false)), []);
    assert_eq!(rules(&twice, outage(Some(A), false)), [Rule::Once]);
}
