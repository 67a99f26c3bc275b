//! A sender and a reflector under a virtual clock, with a path that loses, duplicates, delays and
//! reorders, and clocks that differ.

use onbeat_delay::clocks::TwoWay;
use onbeat_delay::probe::{
    self, OneWayDelays, Profile, ProfileSegment, RejectedDatagram, ReplyFields, Sample, Sender,
    Session, StrayDatagram, admit, is_reflected,
};
use onbeat_wire::random::Random;
use onbeat_wire::stamp::{ErrorEstimate, Format, PACKET_LEN, ReflectedView};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_767_323_045 * SECOND;

fn session(rate: f64, seconds: i64) -> Session {
    Session {
        profile: Profile::new(vec![ProfileSegment::constant(rate, seconds * SECOND)]),
        start_ns: START,
        timeout_ns: SECOND,
        id: 77,
        error_estimate: ErrorEstimate::of(1000, false, Format::Ntp),
        count: None,
        key: None,
    }
}

/// A reflector without a key: takes a datagram, numbers it by its session, turns it around.
fn reflect(
    room: &mut [u8],
    len: usize,
    answer: &ReplyFields,
    number: impl FnOnce(u16) -> Option<u32>,
) -> Result<usize, RejectedDatagram> {
    let test = admit(&room[..len], None)?;
    let answer = ReplyFields { sequence: number(test.session), ..*answer };
    Ok(probe::reflect(room, len, &test, &answer, None).expect("there is room"))
}

/// The effect of the path on a probe: forward and return delay, replies that arrive.
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
            let answer = ReplyFields {
                sequence: None,
                received_ns: arrives + ahead(arrives),
                sent_ns: leaves + ahead(leaves),
                ttl: 63,
                error_estimate: ErrorEstimate::of(100, true, format),
            };
            let len = datagram.len();
            assert_eq!(reflect(&mut datagram, len, &answer, |_| None), Ok(len));
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

/// Octets written by hand from the figures of RFC 8762: another implementation's packet.
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
fn stray_datagrams_are_distinguished() {
    let mut sender = Sender::new(session(1.0, 1));
    let mut probe = [0; PACKET_LEN];
    sender.send(START, &mut probe).unwrap().unwrap();
    let answer = ReplyFields {
        sequence: None,
        received_ns: START,
        sent_ns: START,
        ttl: 1,
        error_estimate: ErrorEstimate::of(0, false, Format::Ptp),
    };
    let mut right = probe;
    reflect(&mut right, PACKET_LEN, &answer, |_| None).unwrap();
    let with = |at: usize, octet: u8| {
        let mut octets = right;
        octets[at] = octet;
        octets
    };
    assert!(matches!(sender.receive(&right[..43], START), Err(StrayDatagram::Truncated(_))));
    assert_eq!(sender.receive(&with(15, 78), START), Err(StrayDatagram::Session(78)));
    assert_eq!(sender.receive(&with(27, 1), START), Err(StrayDatagram::Sequence(1)));
    assert_eq!(sender.receive(&with(8, 0xff), START), Err(StrayDatagram::Timestamp));
    assert_eq!(sender.receive(&right, START), Ok(()));
    assert_eq!(sender.receive(&right, START), Err(StrayDatagram::Sequence(0)));
    let counts = sender.counts();
    assert_eq!((counts.answered, counts.duplicate_or_late, counts.stray), (1, 1, 4));
}

/// A sender of TWAMP Light: RFC 5357's fields in 14 octets, and padding that is no session identifier.
#[test]
fn shorter_packets_are_answered_as_twamp_has_it() {
    let error_estimate = ErrorEstimate::of(0, false, Format::Ntp);
    let answer =
        ReplyFields { sequence: None, received_ns: 1, sent_ns: 2, ttl: 64, error_estimate };
    for (len, answered) in [(14, 41), (20, 41), (41, 41), (43, 43), (44, 44), (60, 60)] {
        let mut room = [0xa5; 64];
        room[..14].copy_from_slice(&[0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1]);
        let mut session = None;
        let number = |id| {
            session = Some(id);
            Some(3)
        };
        assert_eq!(reflect(&mut room, len, &answer, number), Ok(answered), "{len}");
        assert_eq!(session, Some(if len < PACKET_LEN { 0 } else { 0xa5a5 }));
        assert_eq!(room[..4], [0, 0, 0, 3], "the reflector's own number");
        assert_eq!(room[24..38], [0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1]);
        assert_eq!(room[40], 64);
        assert_eq!(room[PACKET_LEN.max(len)..], [0xa5; 64][PACKET_LEN.max(len)..]);
    }
    let mut short = [7; 64];
    assert!(reflect(&mut short, 13, &answer, |_| None).is_err());
    assert_eq!(short, [7; 64]);
}

/// Ten probes: number 3 is lost on the forward path, number 6 on the return path.
#[test]
fn a_stateful_reflector_shows_the_direction_of_losses() {
    let lost_there = |with_state: bool| {
        let mut sender = Sender::new(session(10.0, 1));
        let (mut datagram, mut reached) = ([0; PACKET_LEN], 0);
        let error_estimate = ErrorEstimate::of(0, false, Format::Ntp);
        for n in 0..10 {
            let now = START + n * SECOND / 10;
            sender.send(now, &mut datagram).unwrap().unwrap();
            if n == 3 {
                continue;
            }
            let answer = ReplyFields {
                sequence: None,
                received_ns: now,
                sent_ns: now,
                ttl: 1,
                error_estimate,
            };
            let number = with_state.then_some(reached);
            reflect(&mut datagram, PACKET_LEN, &answer, |_| number).unwrap();
            reached += 1;
            if n != 6 {
                sender.receive(&datagram, now).unwrap();
            }
        }
        while sender.expire(START + 10 * SECOND).is_some() {}
        assert_eq!(sender.counts().lost, 2);
        assert_eq!(sender.reflector(), Some(error_estimate));
        sender.lost_there()
    };
    assert_eq!(lost_there(true), Some(1));
    assert_eq!(lost_there(false), None);
}

#[test]
fn the_kernel_knows_better_when_a_probe_left() {
    let mut sender = Sender::new(Session { count: Some(1), ..session(100.0, 1) });
    let mut datagram = [0; PACKET_LEN];
    sender.send(START + 500, &mut datagram).unwrap().unwrap();
    assert_eq!(sender.next_send_ns(), None, "one was wanted");
    assert!(!sender.departed(1, START + 600), "it was not sent");
    assert!(!sender.departed(0, START - 10_000), "before its submission");
    assert!(sender.departed(0, START + 4_000));
    let answer = ReplyFields {
        sequence: None,
        received_ns: START + 6_000,
        sent_ns: START + 6_500,
        ttl: 1,
        error_estimate: ErrorEstimate::of(0, false, Format::Ntp),
    };
    reflect(&mut datagram, PACKET_LEN, &answer, |_| None).unwrap();
    sender.receive(&datagram, START + 9_000).unwrap();
    assert!(!sender.departed(0, START + 9_001), "after its answer");
    let sample = sender.expire(START + 9_000).unwrap();
    assert_eq!(sample.round_trip_ns(), Some(4_500));
    assert_eq!(sample.intended_round_trip_ns(), Some(8_500));
    assert!(!sender.departed(0, START + 4_000), "already reported");
}

#[test]
fn a_sender_that_is_stopped_waits_for_what_is_under_way() {
    let mut sender = Sender::new(session(100.0, 1));
    sender.send(START, &mut [0; PACKET_LEN]).unwrap().unwrap();
    sender.stop();
    assert_eq!(sender.next_send_ns(), None);
    assert!(!sender.is_done());
    assert!(sender.expire(START + 2 * SECOND).is_some() && sender.is_done());
}

/// Octets after the packet are returned unchanged.
#[test]
fn padding_comes_back() {
    let mut sender = Sender::new(session(1.0, 1));
    let mut datagram = vec![0x5a; 200];
    sender.send(START, &mut datagram).unwrap().unwrap();
    let error_estimate = ErrorEstimate::of(0, false, Format::Ntp);
    let answer = ReplyFields { sequence: None, received_ns: 0, sent_ns: 0, ttl: 1, error_estimate };
    assert_eq!(reflect(&mut datagram, 200, &answer, |_| None), Ok(200));
    let view = ReflectedView::new_checked(&datagram).unwrap();
    assert_eq!(view.payload(), [0x5a; 200 - PACKET_LEN]);
}

/// Two clocks 50 ppm apart, one of them set by 3 ms, over an asymmetric path: the offset is right to the
/// bound it states.
#[test]
fn an_offset_from_probes() {
    let mut queue = Random::new(1);
    let set = START + 12 * SECOND;
    let ahead =
        |time: i64| 40_000_000 + (time - START) / 20_000 + if time < set { 0 } else { 3_000_000 };
    let fate = |_| Fate {
        there_ns: 20_000 + queue.below(100_000) as i64,
        back_ns: 30_000 + queue.below(100_000) as i64,
        answers: 1,
        held_up_ns: 0,
    };
    let (samples, _) = run(session(1000.0, 20), Format::Ptp, ahead, fate);
    let (mut clocks, mut one_way) = (TwoWay::new(), OneWayDelays::new());
    for sample in &samples {
        one_way.push(sample);
        let received_ns = sample.answer.unwrap().received_ns;
        clocks.push(
            sample.sent_ns,
            sample.there_ns().unwrap(),
            received_ns,
            sample.back_ns().unwrap(),
        );
    }
    let offsets = clocks.offsets();
    for second in [1, 5, 11, 13, 19] {
        let now = START + second * SECOND;
        let found = offsets.at(now).unwrap();
        // The path is asymmetric by 10 µs: the offset is off by half of it, the bound is 25 µs, and
        // what the fastest of a piece are off by comes to it.
        let error = found.offset_ns - ahead(now) as f64;
        assert!((error + 5_000.0).abs() < 1_500.0, "{second}: {error}");
        assert!((24_000.0..45_000.0).contains(&found.bound_ns), "{second}: {found:?}");
        assert!(error.abs() <= found.bound_ns);
    }
    let spans = offsets.spans();
    assert_eq!(spans.len(), 2, "{spans:?}");
    for span in &spans {
        assert!((span.skew * 1e6 - 50.0).abs() < 0.5, "{span:?}");
    }
    assert!(spans[0].to_ns <= set && spans[1].from_ns >= set, "{spans:?}");
    assert_eq!(offsets.at(set), None);

    // Each delay is what it was, to the bound.
    let (mut found, mut worst): (u64, f64) = (0, 0.0);
    let compared = one_way.compare(|ways| {
        found += 1;
        assert!((0.0..=150_000.0).contains(&ways.there_ns), "{ways:?}");
        worst = worst.max((ways.there_ns - 120_000.0).max(ways.back_ns - 130_000.0));
    });
    assert_eq!(compared.spans, spans);
    assert_eq!(found + compared.around_steps, 20_000);
    assert!((1..400).contains(&compared.around_steps) && compared.left_out == 0);
    assert_eq!(compared.steps, 1);
    assert!(worst <= compared.bound_ns.unwrap(), "{worst} {compared:?}");
    assert!(TwoWay::new().offsets().spans().is_empty());
}

/// Both ends go by one clock; the path or the hosts become slower, and stall: no step is proven, and
/// every probe has its delays, to the bound.
#[test]
fn a_slower_path_is_no_step_of_a_clock() {
    type AddedDelay = fn(u64) -> [i64; 2];
    let cases: [(&str, AddedDelay); 5] = [
        ("steady", |_| [0, 0]),
        ("both ways", |second| if second < 2 { [0, 0] } else { [30_000, 20_000] }),
        ("there", |second| if second < 2 { [0, 0] } else { [40_000, 0] }),
        ("back, for a time", |second| if second == 1 { [0, 90_000] } else { [0, 0] }),
        ("a stall", |second| if second == 3 { [700_000, 500_000] } else { [0, 0] }),
    ];
    for (name, slower) in cases {
        for seed in 1..20_u64 {
            let mut random = Random::new(seed);
            let fate = |number| {
                let [there, back] = slower(number / 500);
                let [there_ns, back_ns] =
                    [400 + there, 3_000 + back].map(|ns| ns + random.below(3_000) as i64);
                Fate { there_ns, back_ns, answers: 1, held_up_ns: 0 }
            };
            let (samples, _) = run(session(500.0, 4), Format::Ptp, |_| 0, fate);
            let mut one_way = OneWayDelays::new();
            samples.iter().for_each(|sample| one_way.push(sample));
            let mut truth = samples.iter();
            let (mut found, mut worst): (u64, f64) = (0, 0.0);
            let compared = one_way.compare(|ways| {
                found += 1;
                let there_ns = truth.next().and_then(|sample| sample.there_ns()).unwrap();
                worst = worst.max((ways.there_ns - there_ns as f64).abs());
            });
            let context = format!("{name}, {seed}: {compared:?}");
            assert_eq!((compared.steps, compared.around_steps), (0, 0), "{context}");
            assert_eq!(found, 2000, "{context}");
            assert!(worst <= compared.bound_ns.unwrap(), "{worst}: {context}");
        }
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

/// By the clock that made a quoted stamp, and by one that agrees with the reflector's; of any length.
#[test]
fn reflected_packets_are_distinguished_from_test_packets() {
    let hour = 3_600 * SECOND;
    for (len, padding) in [(14, 0x5a), (20, 0x5a), (44, 0), (60, 0), (192, 0x5a)] {
        let mut sent = vec![padding; 192];
        let test = onbeat_wire::stamp::Test {
            sequence: 5,
            timestamp: onbeat_wire::stamp::Timestamp::new(Format::Ntp, START),
            error_estimate: ErrorEstimate::of(1000, false, Format::Ntp),
            session: 0,
        };
        let mut fields = [0; PACKET_LEN];
        test.emit(&mut fields).unwrap();
        sent[..14].copy_from_slice(&fields[..14]);
        assert!(!is_reflected(&sent[..len], None, START), "{len} octets");
        for ahead in [0, 30 * SECOND, hour] {
            for format in [Format::Ntp, Format::Ptp] {
                let answer = ReplyFields {
                    sequence: None,
                    received_ns: START + ahead,
                    ttl: 64,
                    sent_ns: START + ahead,
                    error_estimate: ErrorEstimate::of(1000, false, format),
                };
                let mut room = sent.clone();
                let len = reflect(&mut room, len, &answer, |_| None).unwrap();
                assert!(is_reflected(&room[..len], None, START + 1), "made the test packet");
                assert!(is_reflected(&room[..len], None, START + ahead), "made the answer");
                assert!(!is_reflected(&room[..len], None, START + 24 * hour));
            }
        }
    }
}
