//! Verdicts as a table, and any traffic against its truth.

use std::collections::BTreeMap;

use onbeat_delay::capture::Reader;
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Counts, Event, Matcher, Observation, Verdict, Window};
use onbeat_delay::pairing::CapturePair;
use onbeat_delay::synthetic::{Check, Traffic, number_of};
use proptest::prelude::*;

const WINDOW: Window = Window { longest_ns: 100, lead_ns: 0, disorder_ns: 5, packets: 1 << 16 };

/// Runs steps such as `"a10 d15"`: a packet arrives at 10, one leaves at 15. An upper-case letter
/// is the second key. Returns the events, in the same short form.
fn run(window: Window, steps: &str) -> (Vec<String>, Counts) {
    let mut matcher = Matcher::new(window);
    let mut results = Vec::new();
    let mut report = |event: Event<()>| {
        results.push(match event {
            Event::Matched { arrival, departure, verdict } => {
                let sure = match verdict {
                    Verdict::Certain => "certain",
                    Verdict::Ordered => "ordered",
                    Verdict::Ambiguous => "ambiguous",
                };
                format!("{}-{} {sure}", arrival.time_ns, departure.time_ns)
            }
            Event::Lost(arrival) => format!("{} lost", arrival.time_ns),
            Event::Unmatched(departure) => format!("{} unmatched", departure.time_ns),
            Event::Duplicate(departure) => format!("{} duplicate", departure.time_ns),
        });
    };
    for step in steps.split_whitespace() {
        let (kind, time) = step.split_at(1);
        let passage = Observation { time_ns: time.parse().unwrap(), tag: () };
        let key = u64::from(kind.chars().all(char::is_uppercase));
        match kind.to_lowercase().as_str() {
            "a" => matcher.arrive(key, passage, &mut report),
            _ => matcher.depart(key, passage, &mut report),
        }
    }
    matcher.finish(&mut report);
    let counts = *matcher.counts();
    (results, counts)
}

#[test]
fn verdicts() {
    let ahead = Window { lead_ns: 20, ..WINDOW };
    for (window, steps, expected) in [
        (WINDOW, "a0 d10", "0-10 certain"),
        // One clock of coarse resolution.
        (WINDOW, "a0 d0", "0-0 certain"),
        (WINDOW, "a0 A1 D2 d3", "0-3 certain, 1-2 certain"),
        (WINDOW, "a0 A200", "0 lost"),
        (WINDOW, "d5 a6", "5 unmatched"),
        // What may leave before it arrives is held back: at the end no more than without.
        (ahead, "a0 A100 D101", "0 lost, 100-101 certain"),
        (WINDOW, "a0 d10 d11", "11 duplicate, 0-10 certain"),
        // A packet of the same contents, later than the window: nothing to do with the first.
        (WINDOW, "a0 d10 a150 d160", "0-10 certain, 150-160 certain"),
        (WINDOW, "a0 a150 d160", "0 lost, 150-160 certain"),
        // One after the other.
        (WINDOW, "a0 d10 a20 d30", "0-10 certain, 20-30 ordered"),
        // At 10 it may have been either.
        (WINDOW, "a0 a5 d10 d20", "0-10 ambiguous, 5-20 ambiguous"),
        (WINDOW, "a0 a5 d10 A200", "0-10 ambiguous, 5 lost"),
        // The departure too many is the first's, or the second's: the first match stands.
        (WINDOW, "a0 d10 a20 d25 d30", "30 duplicate, 0-10 certain, 20-25 ambiguous"),
        // A packet of these contents was under way before the first arrival: each may be the next one's.
        (WINDOW, "d5 a10 d20 a30 d40", "5 unmatched, 10-20 ambiguous, 30-40 ambiguous"),
        (WINDOW, "D5 A6 a10 d20 a30 d40", "5 unmatched, 10-20 ambiguous, 30-40 ambiguous"),
        (
            WINDOW,
            "d5 a6 a200 d210 a220 d230",
            "5 unmatched, 6 lost, 200-210 certain, 220-230 ordered",
        ),
        // What comes after has nothing to do with the ambiguity before.
        (WINDOW, "a0 a5 d10 d20 a50 d60", "0-10 ambiguous, 5-20 ambiguous, 50-60 ordered"),
        // The clock is set back: what was under way is given up.
        (WINDOW, "a1000 a1001 d1002 a500 d510", "1000-1002 ambiguous, 500-510 certain"),
        // A little disorder is none.
        (WINDOW, "a1000 A998 D1003 d1004", "1000-1004 certain, 998-1003 certain"),
        // A departure that is stamped ahead of its arrival.
        (ahead, "d0 a15 A200", "15-0 certain"),
        (ahead, "d0 a25 A200", "0 unmatched, 25 lost"),
        (ahead, "a0 d90 A500", "0-90 certain"),
        (ahead, "a0 d110 A500", "0 lost, 110 unmatched"),
    ] {
        let (results, counts) = run(window, steps);
        assert_eq!(results.join(", "), expected, "{steps}");
        conserved(&counts);
    }
}

/// Of contents that repeat, a departure too many may be the last arrival's, and the first departure one of a
/// packet from before the first arrival.
#[test]
fn a_departure_too_many_makes_a_group_from_the_start_ambiguous() {
    let (results, counts) = run(WINDOW, "a0 d10 a60 d70 a120 d130 d190");
    assert_eq!(results.join(", "), "0-10 certain, 60-70 ordered, 190 duplicate, 120-130 ambiguous");
    assert_eq!((counts.measured(), counts.ambiguous, counts.duplicates), (0, 3, 1));
    conserved(&counts);
    // Of a group that started later, arrivals are known from before.
    let (_, counts) = run(WINDOW, "A0 a200 d210 a260 d270 a320 d330 d390");
    assert_eq!((counts.measured(), counts.ambiguous, counts.duplicates), (2, 1, 1));
    conserved(&counts);
}

/// Every packet is counted once.
fn conserved(counts: &Counts) {
    assert_eq!(counts.arrivals, counts.matched() + counts.lost + counts.under_way, "{counts:?}");
    assert_eq!(
        counts.departures,
        counts.matched() + counts.unmatched + counts.duplicates,
        "{counts:?}"
    );
}

#[test]
fn reordering_steps_and_what_is_under_way_are_counted() {
    let (_, counts) = run(WINDOW, "a0 A1 D2 d3 A5 a6 d7 D8");
    assert_eq!(counts.reordered, 2);
    let (_, counts) = run(WINDOW, "a1000 A1001 D1002 a10");
    assert_eq!((counts.steps_back, counts.under_way, counts.lost), (1, 2, 0));
    conserved(&counts);
}

#[test]
fn memory_is_bounded_by_count() {
    let mut matcher = Matcher::new(Window { longest_ns: i64::MAX, packets: 1000, ..WINDOW });
    let mut lost = 0;
    for time_ns in 0..100_000_i64 {
        let passage = Observation { time_ns, tag: () };
        matcher.arrive(
            (time_ns as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            passage,
            &mut |event| {
                lost += u64::from(matches!(event, Event::Lost(_)));
            },
        );
    }
    assert_eq!((lost, matcher.counts().crowded_out), (99_000, 99_000));
    assert!(matcher.capacity() <= 2048, "{}", matcher.capacity());
}

#[test]
fn memory_is_bounded_by_time() {
    let mut matcher = Matcher::new(WINDOW);
    for time_ns in 0..100_000_i64 {
        // Keys come again and again, some of them within the window.
        let key = (time_ns % 70 * (time_ns % 3)) as u64;
        matcher.arrive(key, Observation { time_ns, tag: () }, &mut |_| {});
        matcher.depart(key, Observation { time_ns, tag: () }, &mut |_| {});
    }
    assert!(matcher.capacity() <= 256, "{}", matcher.capacity());
}

/// The pair of captures that matching is measured with, in small.
#[test]
fn a_hop_of_a_million_packets_a_second() {
    let traffic = Traffic::of(100_000);
    let (mut arrivals, mut departures) = (Vec::new(), Vec::new());
    let truth = traffic.write(&mut arrivals, &mut departures).unwrap();
    let (check, counts) = match_all(&traffic, &arrivals, &departures);
    assert_eq!(check.wrong[..2], [0, 0], "{check:?}");
    assert_eq!(check.out_of_order, 0);
    assert_eq!(counts.unmatched, 0);
    assert!(counts.ambiguous <= truth.identical, "{counts:?} {truth:?}");
    // What is ambiguous may exchange a loss with a duplicate, and no more.
    assert!(counts.lost + counts.under_way <= truth.lost);
    assert!(truth.lost - counts.lost <= truth.identical.min(truth.duplicates));
    assert!(counts.duplicates <= truth.duplicates);
    assert_eq!(counts.arrivals, truth.arrivals);
    assert_eq!(counts.departures, truth.arrivals - truth.lost + truth.duplicates);
    assert!((8_000..12_000).contains(&counts.reordered), "{counts:?}");
    conserved(&counts);
}

fn match_all(traffic: &Traffic, arrivals: &[u8], departures: &[u8]) -> (Check, Counts) {
    let window = Window { longest_ns: traffic.longest_ns(), ..Window::default() };
    let mut matcher = Matcher::new(window);
    let mut check = Check::default();
    let (arrivals, departures) = (Reader::new(arrivals).unwrap(), Reader::new(departures).unwrap());
    let mut pair = CapturePair::new(arrivals, departures, 0, Recognition::default(), number_of);
    while pair.feed(1000, &mut matcher, &mut |event| check.event(&event)).unwrap() {}
    matcher.finish(&mut |event| check.event(&event));
    (check, *matcher.counts())
}

/// One packet of made-up traffic: its key, when it arrives, when it leaves, if it does.
type GeneratedPacket = (u64, i64, Option<i64>);

/// Matches made-up packets, each known by its place, and returns the matches.
fn matched(window: Window, packets: &[GeneratedPacket]) -> (Vec<(usize, usize, Verdict)>, Counts) {
    let mut steps: Vec<(i64, bool, usize)> = Vec::new();
    for (place, (_, arrival, delay)) in packets.iter().enumerate() {
        steps.push((*arrival, false, place));
        steps.extend(delay.map(|delay| (arrival + delay, true, place)));
    }
    steps.sort_unstable();
    let mut matcher = Matcher::new(window);
    let mut found = Vec::new();
    let mut report = |event: Event<usize>| {
        if let Event::Matched { arrival, departure, verdict } = event {
            found.push((arrival.tag, departure.tag, verdict));
        }
    };
    for (time_ns, leaves, place) in steps {
        let passage = Observation { time_ns, tag: place };
        if leaves {
            matcher.depart(packets[place].0, passage, &mut report);
        } else {
            matcher.arrive(packets[place].0, passage, &mut report);
        }
    }
    matcher.finish(&mut report);
    (found, *matcher.counts())
}

proptest! {
    /// For a hop that duplicates nothing, matches that are not ambiguous are right, and each group's
    /// delays are right in the sum.
    #[test]
    fn nothing_wrong_is_called_certain(
        keys in 1_u64..40,
        packets in prop::collection::vec(
            (any::<u64>(), 0_i64..2000, prop::option::weighted(0.9, 0_i64..=100)),
            1..200,
        ),
    ) {
        let packets: Vec<GeneratedPacket> =
            packets.into_iter().map(|(key, time, delay)| (key % keys, time, delay)).collect();
        let (found, counts) = matched(WINDOW, &packets);
        for (arrival, departure, verdict) in &found {
            // Packets of one key and one time of arrival are the same in all that is known.
            let same = packets[*arrival].1 == packets[*departure].1;
            prop_assert!(same || *verdict == Verdict::Ambiguous, "{:?}", packets);
        }
        let left = packets.iter().filter(|packet| packet.2.is_some()).count() as u64;
        prop_assert_eq!(counts.departures, left);
        prop_assert_eq!(counts.matched() + counts.lost + counts.under_way, counts.arrivals);
        prop_assert_eq!(counts.unmatched + counts.duplicates, counts.departures - counts.matched());
    }

    /// Where nothing is lost and all have left, sums over a key are right whatever the verdicts.
    #[test]
    fn ambiguous_delays_are_right_in_the_mean(
        packets in prop::collection::vec((0_u64..4, 0_i64..2000, (0_i64..=100).prop_map(Some)), 1..100),
    ) {
        let (found, counts) = matched(WINDOW, &packets);
        prop_assert_eq!(counts.matched(), packets.len() as u64);
        let mut sums = BTreeMap::new();
        for (arrival, departure, _) in &found {
            let (key, time, _) = packets[*arrival];
            let left = packets[*departure].1 + packets[*departure].2.unwrap();
            *sums.entry(key).or_insert(0) += left - time;
        }
        for (key, _, delay) in &packets {
            *sums.entry(*key).or_insert(0) -= delay.unwrap();
        }
        prop_assert!(sums.values().all(|sum| *sum == 0), "{:?}", sums);
    }

    /// A clock that jumps about, in any order of events: all is counted, and nothing panics.
    #[test]
    fn any_clock(
        steps in prop::collection::vec((any::<bool>(), 0_u64..5, prop::num::i64::ANY), 0..100),
        lead_ns in 0_i64..50,
    ) {
        let mut matcher = Matcher::new(Window { lead_ns, packets: 20, ..WINDOW });
        for (leaves, key, time_ns) in steps {
            let passage = Observation { time_ns, tag: () };
            if leaves {
                matcher.depart(key, passage, &mut |_| {});
            } else {
                matcher.arrive(key, passage, &mut |_| {});
            }
        }
        matcher.finish(&mut |_| {});
        conserved(matcher.counts());
    }
}

#[test]
fn time_passes_without_packets() {
    let window = Window { longest_ns: 1_000, lead_ns: 100, ..Window::default() };
    let mut matcher = Matcher::new(window);
    let mut events = Vec::new();
    let at = |time_ns| Observation { time_ns, tag: () };
    matcher.arrive(1, at(0), &mut |event| events.push(event));
    matcher.arrive(2, at(10), &mut |event| events.push(event));
    matcher.depart(1, at(500), &mut |event| events.push(event));
    for time_ns in [400, 601, 1_100] {
        matcher.pass(time_ns, &mut |event| events.push(event));
        assert_eq!(events, [], "{time_ns}");
    }
    matcher.pass(1_111, &mut |event| events.push(event));
    let verdict = Verdict::Certain;
    assert_eq!(
        events,
        [Event::Matched { arrival: at(0), departure: at(500), verdict }, Event::Lost(at(10))]
    );
    // It is no step back that somebody says what time it was.
    matcher.pass(0, &mut |event| events.push(event));
    matcher.finish(&mut |event| events.push(event));
    assert_eq!((events.len(), matcher.counts().steps_back), (2, 0));
}
