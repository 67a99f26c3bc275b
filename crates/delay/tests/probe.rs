//! A sender and a reflector under a virtual clock, with a path that loses, duplicates, delays and
//! reorders, and clocks that differ.

use onbeat_delay::clocks::{Envelope, Point, offset};
use onbeat_delay::probe::{Answer, Profile, Sample, Sender, Session, Stray, Stretch, reflect};
use onbeat_wire::stamp::{ErrorEstimate, Format, PACKET_LEN, ReflectedView};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_767_323_045 * SECOND;

fn session(rate: f64, seconds: i64) -> Session {
    Session {
        profile: Profile::new(vec![Stretch::constant(rate, seconds * SECOND)]),
        start_ns: START,
        timeout_ns: SECOND,
        id: 77,
        error_estimate: ErrorEstimate::of(1000, false, Format::Ntp),
    }
}

/// What the path does to a probe: delays there and back, answers that arrive.
#[derive(Debug, Clone, Copy)]
struct Fate {
    there_ns: i64,
    back_ns: i64,
    answers: usize,
    held_up_ns: i64,
}

const IN_REFLECTOR_NS: i64 = 5_000;

/// Runs a session to its end; the reflector's clock is ahead by `ahead` of the sender's.
fn run(
    session: Session,
    format: Format,
    ahead: impl Fn(i64) -> i64,
    mut fate: impl FnMut(u64) -> Fate,
) -> (Vec<Sample>, Sender) {
    let mut sender = Sender::new(session);
    let mut samples = Vec::new();
    let mut under_way: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut probes = 0;
    while !sender.is_done() {
        // The next thing to happen.
        let send = sender.next_send_ns();
        let deadline = sender.next_deadline_ns().map(|time| time + 1);
        let answer = under_way.iter().map(|(time, _)| *time).min();
        let now = [send, deadline, answer].into_iter().flatten().min().unwrap();
        if answer == Some(now) {
            let place = under_way.iter().position(|(time, _)| *time == now).unwrap();
            let (_, datagram) = under_way.remove(place);
            let _ = sender.receive(&datagram, now);
        } else if send == Some(now) {
            let fate = fate(probes);
            probes += 1;
            let now = now + fate.held_up_ns;
            let mut datagram = vec![0xa5; 192];
            assert_eq!(sender.send(now, &mut datagram), Some(Ok(PACKET_LEN)));
            let (arrives, leaves) = (now + fate.there_ns, now + fate.there_ns + IN_REFLECTOR_NS);
            let answer = Answer {
                received_ns: arrives + ahead(arrives),
                sent_ns: leaves + ahead(leaves),
                ttl: 63,
                error_estimate: ErrorEstimate::of(100, true, format),
            };
            reflect(&mut datagram, &answer).unwrap();
            for copy in 0..fate.answers {
                let back = leaves + fate.back_ns + copy as i64;
                under_way.push((back, datagram.clone()));
            }
        }
        while let Some(sample) = sender.expire(now) {
            samples.push(sample);
        }
        assert!(samples.last().is_none_or(|sample| sample.sent_ns <= now));
    }
    (samples, sender)
}

#[test]
fn four_times_of_a_probe() {
    for format in [Format::Ntp, Format::Ptp] {
        let fate = Fate { there_ns: 20_000, back_ns: 30_000, answers: 1, held_up_ns: 7_000 };
        let (samples, sender) = run(session(100.0, 2), format, |_| 3 * SECOND, |_| fate);
        assert_eq!(samples.len(), 200);
        for (n, sample) in samples.iter().enumerate() {
            assert_eq!(sample.sequence, n as u32);
            assert_eq!(sample.intended_ns, START + n as i64 * SECOND / 100);
            assert_eq!(sample.round_trip_ns(), Some(50_000));
            assert_eq!(sample.intended_round_trip_ns(), Some(57_000));
            assert_eq!(sample.there_ns(), Some(20_000 + 3 * SECOND));
            assert_eq!(sample.back_ns(), Some(30_000 - 3 * SECOND));
            assert_eq!(sample.answer.unwrap().ttl, 63);
        }
        let counts = sender.counts();
        assert_eq!((counts.sent, counts.answered, counts.lost), (200, 200, 0));
    }
}

/// What is written by hand from the figures of RFC 8762: another implementation's packet.
#[test]
fn a_reflector_that_is_not_ours() {
    let mut sender = Sender::new(session(1.0, 1));
    let mut datagram = [0; PACKET_LEN];
    assert!(sender.send(START - 1, &mut datagram).is_none(), "too early");
    assert!(sender.send(START, &mut [0; 43]).unwrap().is_err(), "no room: and nothing was sent");
    sender.send(START, &mut datagram).unwrap().unwrap();
    let mut answer = [0; PACKET_LEN];
    // PTP stamps, half a second and one nanosecond later; no session identifier.
    answer[3] = 99;
    answer[4..12].copy_from_slice(&((1_767_323_045_u64 << 32) | 500_000_001).to_be_bytes());
    answer[12..14].copy_from_slice(&[0x40, 1]);
    answer[16..24].copy_from_slice(&((1_767_323_045_u64 << 32) | 500_000_000).to_be_bytes());
    answer[24..38].copy_from_slice(&datagram[..14]);
    answer[40] = 255;
    sender.receive(&answer, START + 600_000_000).unwrap();
    let sample = sender.expire(START + 600_000_000).unwrap();
    assert_eq!(sample.there_ns(), Some(500_000_000));
    assert_eq!(sample.back_ns(), Some(99_999_999));
    assert!(sender.is_done());
}

#[test]
fn strays_are_told_apart() {
    let mut sender = Sender::new(session(1.0, 1));
    let mut probe = [0; PACKET_LEN];
    sender.send(START, &mut probe).unwrap().unwrap();
    let answer = Answer {
        received_ns: START,
        sent_ns: START,
        ttl: 1,
        error_estimate: ErrorEstimate::of(0, false, Format::Ptp),
    };
    let mut right = probe;
    reflect(&mut right, &answer).unwrap();
    let with = |at: usize, octet: u8| {
        let mut octets = right;
        octets[at] = octet;
        octets
    };
    assert!(matches!(sender.receive(&right[..43], START), Err(Stray::Truncated(_))));
    assert_eq!(sender.receive(&with(15, 78), START), Err(Stray::Session(78)));
    assert_eq!(sender.receive(&with(27, 1), START), Err(Stray::Sequence(1)));
    assert_eq!(sender.receive(&with(8, 0xff), START), Err(Stray::Timestamp));
    assert_eq!(sender.receive(&right, START), Ok(()));
    assert_eq!(sender.receive(&right, START), Err(Stray::Sequence(0)));
    let counts = sender.counts();
    assert_eq!((counts.answered, counts.duplicate_or_late, counts.stray), (1, 1, 4));
    assert!(reflect(&mut [0; 43], &answer).is_err());
}

/// What follows the packet comes back as it went.
#[test]
fn padding_comes_back() {
    let mut sender = Sender::new(session(1.0, 1));
    let mut datagram = vec![0x5a; 200];
    sender.send(START, &mut datagram).unwrap().unwrap();
    let error_estimate = ErrorEstimate::of(0, false, Format::Ntp);
    let answer = Answer { received_ns: 0, sent_ns: 0, ttl: 1, error_estimate };
    reflect(&mut datagram, &answer).unwrap();
    let view = ReflectedView::new_checked(&datagram).unwrap();
    assert_eq!(view.payload(), [0x5a; 200 - PACKET_LEN]);
}

/// Two clocks 50 ppm apart, over an asymmetric path: the offset is right to the bound it states.
#[test]
fn an_offset_from_probes() {
    let mut queue = 1_u64;
    let mut random = move || {
        queue = queue.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (queue >> 40) as i64 % 100_000
    };
    let ahead = |time: i64| 40_000_000 + (time - START) / 20_000;
    let fate = |_| Fate {
        there_ns: 20_000 + random(),
        back_ns: 30_000 + random(),
        answers: 1,
        held_up_ns: 0,
    };
    let (samples, _) = run(session(1000.0, 20), Format::Ptp, ahead, fate);
    let mut envelopes = [Envelope::new(), Envelope::new()];
    for sample in &samples {
        let delays = [sample.there_ns().unwrap(), sample.back_ns().unwrap()];
        for (envelope, delay_ns) in envelopes.iter_mut().zip(delays) {
            envelope.push(Point { time_ns: sample.sent_ns, delay_ns });
        }
    }
    let [there, back] = envelopes.map(|envelope| envelope.clocks());
    for second in [1, 10, 19] {
        let now = START + second * SECOND;
        let (there, back) = (there.segment(now).unwrap(), back.segment(now).unwrap());
        let found = offset(&there.line, &back.line, now).unwrap();
        // The path is asymmetric by 10 µs: the offset is off by half of it, the bound is 25 µs.
        let error = found.offset_ns - ahead(now) as f64;
        assert!((error + 5_000.0).abs() < 1_000.0, "{error}");
        assert!((24_000.0..28_000.0).contains(&found.bound_ns), "{found:?}");
        assert!(error.abs() <= found.bound_ns);
    }
}

proptest! {
    /// Whatever the path does, every probe yields one sample, in order, and counts add up.
    #[test]
    fn every_probe_yields_a_sample(
        fates in prop::collection::vec(
            (0_i64..2_000_000_000, 0_i64..100_000, 0_usize..3, 0_i64..10_000), 20..60,
        ),
    ) {
        let fate = |n: u64| {
            let (there_ns, back_ns, answers, held_up_ns) = fates[n as usize % fates.len()];
            Fate { there_ns, back_ns, answers, held_up_ns }
        };
        let (samples, sender) = run(session(20.0, 2), Format::Ntp, |_| 0, fate);
        let counts = sender.counts();
        prop_assert_eq!(samples.len(), 40);
        prop_assert_eq!(counts.sent, 40);
        prop_assert_eq!(counts.answered + counts.lost, counts.sent);
        prop_assert!(samples.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
        for (n, sample) in samples.iter().enumerate() {
            let fate = fate(n as u64);
            let round_trip = fate.there_ns + fate.back_ns;
            if fate.answers == 0 || round_trip + IN_REFLECTOR_NS > SECOND + 1 {
                prop_assert_eq!(sample.answer, None);
            } else {
                prop_assert_eq!(sample.round_trip_ns(), Some(round_trip));
            }
        }
    }

    /// Any datagram is an answer or a stray.
    #[test]
    fn any_datagram(octets in prop::collection::vec(any::<u8>(), 0..60), at in any::<i32>()) {
        let mut sender = Sender::new(session(1.0, 1));
        sender.send(START, &mut [0; PACKET_LEN]).unwrap().unwrap();
        let _ = sender.receive(&octets, START + i64::from(at));
        prop_assert_eq!(sender.counts().answered + sender.counts().stray + sender.counts().duplicate_or_late, 1);
    }
}
