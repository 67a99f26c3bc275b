//! Captures damaged in known ways: the causes that a diagnosis names are the damages.

use std::collections::BTreeSet;

use crate::damaged::{
    CapturedPacket, Captures, Damage, Hop, MATCHING, MS, SECOND, START_NS, diagnosed, diagnosed_by,
    names, read, written,
};
use onbeat_delay::capture::{Direction, LinkType, Packet};
use onbeat_delay::diagnosis::{Cause, CauseEffect, Evidence, MatchSummary, MatchingOptions};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Matcher, Window};
use onbeat_delay::pairing::{PacketFilter, Plan, Side, SideCriterion, Sorter};
use onbeat_wire::random::Random;
use proptest::prelude::*;

/// Seeds of damages that are seen with others, and alone.
const SEEDS: [u64; 2] = [400, 60];

/// The damages of a seed: none, one or two.
fn damages(seed: u64, hop: &Hop) -> Vec<Damage> {
    if let Some(alone) = seed.checked_sub(SEEDS[0]) {
        return vec![Damage::ALONE[alone as usize % Damage::ALONE.len()]];
    }
    let mut random = Random::new(seed ^ 0xdada);
    let mut pick = || Damage::ALL[(random.number() % 12) as usize];
    let first = pick();
    match seed % 4 {
        0 => Vec::new(),
        1 | 2 => vec![first],
        _ => loop {
            let (first, second) = (pick(), pick());
            if first != second && first.goes_with(second, hop) {
                let both = Damage::ALL.into_iter().filter(|one| [first, second].contains(one));
                break both.collect();
            }
        },
    }
}

#[test]
fn the_cause_is_the_damage() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let mut remedied = BTreeSet::new();
    for seed in 0..SEEDS.iter().sum() {
        let hop = Hop::of(seed);
        let damages = damages(seed, &hop);
        let mut captures = hop.traffic(false);
        let whole = captures.clone();
        let mut random = Random::new(!seed);
        damages.iter().for_each(|damage| damage.apply(&hop, &mut captures, &mut random));
        let (reading, causes) = diagnosed(&captures);
        let expected: BTreeSet<_> = damages.iter().map(|damage| damage.cause()).collect();
        seen.extend(damages.iter().map(|damage| format!("{damage:?}")));
        let passes = damages.iter().all(|damage| damage.is_remedied());
        let matched = reading.matched;
        let is_measurement = matched.is_enough(&MATCHING)
            && matched.negative == 0
            && causes.iter().all(|cause| cause.effect() != CauseEffect::Voids);
        // Of the packets that left, all but the few under way when the clock was set back.
        let under_way = if damages.contains(&Damage::SetBack) { 150 } else { 0 };
        let all = !passes || matched.matched + under_way >= whole[1].len() as u64;
        if names(&causes) != expected || is_measurement != passes || !all {
            wrong.push(format!("{seed}: {damages:?} of {hop:?}: {causes:?}, {matched:?}"));
        }
        // What one remedy leaves is the other damage.
        for (place, damage) in damages.iter().enumerate() {
            let Some(recognition) = damage.remedy(&causes) else { continue };
            let mut rest = damages.clone();
            rest.remove(place);
            let expected: BTreeSet<_> = rest.iter().map(|damage| damage.cause()).collect();
            let (_, causes) = diagnosed_by(recognition, &captures);
            remedied.extend([format!("{damages:?} less {damage:?}")]);
            if names(&causes) != expected {
                wrong.push(format!("{seed}: {damages:?} by {recognition:?}: {causes:?}"));
            }
        }
        if passes {
            let longest_ns = hop.delay_ns * 2;
            let true_delays = reading.delays_ns.iter().all(|ns| (1..longest_ns).contains(ns));
            assert!(true_delays, "{seed}: {damages:?} of {hop:?}");
        }
    }
    assert!(wrong.is_empty(), "{} of {SEEDS:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(seen.len(), Damage::ALL.len() + Damage::ALONE.len(), "{seen:?}");
    for pair in ["[Translated, Cut] less Translated", "[Translated, Cut] less Cut"] {
        assert!(remedied.contains(pair), "{remedied:?}");
    }
}

proptest! {
    /// Whatever time stamps a capture has, and however its packets were cut.
    #[test]
    fn any_capture_is_diagnosed(
        packets in prop::collection::vec(
            (any::<bool>(), prop::num::i64::ANY, 0_i64..9, 0_usize..80),
            0..200,
        ),
        disorder in any::<bool>(),
    ) {
        let mut sorter = Sorter::new(SideCriterion::Direction, Recognition::default());
        let mut matcher = Matcher::new(Window::default());
        for (number, (inbound, time_ns, sender, captured)) in (1..).zip(packets) {
            let octets = ROUTER.frame([sender as u8, 9], &[sender as u8; 40], sender, inbound);
            let packet = Packet {
                number,
                time_ns: if disorder { time_ns } else { number as i64 * MS - time_ns % 2 },
                interface: 0,
                interface_name: None,
                direction: Some(if inbound { Direction::Inbound } else { Direction::Outbound }),
                link: LinkType::ETHERNET,
                wire_len: octets.len() as u32,
                octets: &octets[..octets.len().min(captured + 10)],
            };
            sorter.take(&packet, (), &mut matcher, &mut |_| {}).unwrap();
        }
        matcher.finish(&mut |_| {});
        for two_clocks in [false, true] {
            let matching = MatchingOptions { two_clocks, ..MATCHING };
            let evidence = sorter.evidence(1);
            for capture in [None, evidence.capture.clone()] {
                let found = Evidence { capture, ..evidence.clone() }.diagnose(&matching);
                let matched = MatchSummary::default();
                prop_assert!(!found.conclude(&matched, &matching, false).causes.is_empty());
            }
        }
    }
}

const ROUTER: Hop = Hop { seed: 3, routes: true, ipv6: false, packets: 400, delay_ns: 5_000 };

fn causes(captures: &Captures) -> (Vec<Cause>, MatchSummary) {
    let (reading, causes) = diagnosed(captures);
    (causes, reading.matched)
}

#[test]
fn a_filter_chooses_a_direction_or_nothing() {
    let mut captures = ROUTER.traffic(false);
    let left = captures[1].len() as u64;
    Damage::BothDirections.apply(&ROUTER, &mut captures, &mut Random::new(0));
    let files = [0, 1].map(|side| written(&captures[side]));
    // By source address, from one side or from no station at all.
    let from = |station: u8| {
        [(); 2].map(|()| Some(PacketFilter::new(move |packet| Ok(packet.octets[28] == station))))
    };
    let reading = read(&files, Plan::default(), from(1));
    assert_eq!(reading.matched.matched, left);
    assert_eq!(reading.diagnosis.plan, Plan::default());
    assert_eq!(reading.diagnosis.conclude(&reading.matched, &MATCHING, false).causes, []);
    let reading = read(&files, Plan::default(), from(77));
    let of = captures.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(
        reading.diagnosis.conclude(&reading.matched, &MATCHING, false).causes,
        [Cause::NothingSelected { side: None, of }]
    );
}

#[test]
fn few_packets_and_few_matches_are_reported() {
    let mut captures = Hop { packets: 40, ..ROUTER }.traffic(false);
    let (found, matched) = causes(&captures);
    assert_eq!(found, [Cause::TooFew { matched: matched.matched, required: 100 }]);
    // A third of the packets of each side is on the other.
    captures = ROUTER.traffic(false);
    for (side, capture) in captures.iter_mut().enumerate() {
        capture.retain(|captured| captured.octets.last().unwrap() % 3 != 1 + side as u8);
        capture.retain(|captured| captured.octets[captured.octets.len() - 2] % 3 != 1 + side as u8);
    }
    let (found, matched) = causes(&captures);
    assert_eq!(found, [Cause::FewMatched { matched: matched.matched, of: matched.smaller }]);
    // The captures have 10 ms of 40 ms in common.
    captures = ROUTER.traffic(false);
    captures[0].retain(|captured| captured.time_ns < START_NS + 25 * MS);
    captures[1].retain(|captured| captured.time_ns >= START_NS + 15 * MS);
    let (found, _) = causes(&captures);
    assert!(
        matches!(found[..], [Cause::NoOverlap { gap_ns: -10_100_000..=-9_800_000 }]),
        "{found:?}"
    );
}

/// However few packets are in both, none of them is denied.
#[test]
fn a_small_overlap_is_no_different_traffic() {
    let whole = ROUTER.traffic(false);
    for both in [2, 3, 5, 8, 20] {
        let last = START_NS + 20 * MS + both * 100_000;
        let mut captures = whole.clone();
        captures[0].retain(|captured| captured.time_ns < last);
        captures[1].retain(|captured| captured.time_ns > START_NS + 20 * MS + 50_000);
        let (found, matched) = causes(&captures);
        assert!(matched.matched > 0, "{both}");
        assert!(matches!(found[..], [Cause::NoOverlap { gap_ns: ..=0 }]), "{both}: {found:?}");
    }
}

#[test]
fn forwarded_packets_are_no_replies() {
    let forwarded = ROUTER.traffic(false);
    let expects_replies = Recognition { reply: true, ..Recognition::default() };
    let (reading, causes) = diagnosed_by(expects_replies, &forwarded);
    assert_eq!(reading.matched.matched, 0);
    assert!(matches!(causes[..], [Cause::NoReplies { packets: 300.. }]), "{causes:?}");
    // The station behind the hop answers each packet with its contents.
    let mut replies = forwarded;
    for captured in &mut replies[1] {
        let station = [12, 13, 14, 15].map(|at| captured.octets[14 + at]);
        captured.octets.copy_within(30..34, 26);
        captured.octets[30..34].copy_from_slice(&station);
        captured.octets[34..38].rotate_left(2);
    }
    for (recognition, expected) in
        [(expects_replies, BTreeSet::new()), (Recognition::default(), BTreeSet::from(["replies"]))]
    {
        let (_, causes) = diagnosed_by(recognition, &replies);
        assert_eq!(names(&causes), expected, "{recognition:?}: {causes:?}");
    }
}

/// The sign is that of the captures as they were given.
#[test]
fn clocks_are_apart_as_the_captures_were_given() {
    for (swapped, by_ns) in [(false, 5), (false, -5), (true, 5), (true, -5)] {
        let mut captures = ROUTER.traffic(false);
        if swapped {
            captures.swap(0, 1);
        }
        captures[1].iter_mut().for_each(|captured| captured.time_ns += by_ns * SECOND);
        let (found, _) = causes(&captures);
        let apart = found.iter().find_map(|cause| match cause {
            Cause::ClocksApart { by_ns } => Some(*by_ns),
            _ => None,
        });
        assert!(apart.unwrap().abs_diff(by_ns * SECOND) < MS as u64, "{swapped}: {found:?}");
    }
}

/// A clock of one capture alone that was set back makes half of the delays false, which match.
#[test]
fn one_of_two_clocks_that_was_set_back_voids_delays() {
    for side in [0, 1] {
        let mut captures = ROUTER.traffic(false);
        let at_ns = START_NS + ROUTER.packets * 50_000;
        for captured in &mut captures[side] {
            captured.time_ns -= if captured.time_ns >= at_ns { 15 * MS } else { 0 };
        }
        let (found, _) = causes(&captures);
        let whose = Some([Side::Arrivals, Side::Departures][side]);
        let Some(Cause::ClockSetBack { side, steps: 1, .. }) = found.first() else {
            panic!("{found:?}")
        };
        assert_eq!((*side, found[0].effect()), (whose, CauseEffect::Voids));
    }
}

/// dumpcap writes what it took of several interfaces block by block.
#[test]
fn interfaces_written_block_by_block_are_no_clock_set_back() {
    let captures = ROUTER.traffic(false);
    let left = captures[1].len() as u64;
    let block_of = |captured: &CapturedPacket| ((captured.time_ns - START_NS) / (15 * MS)).min(2);
    let mut packets = Vec::new();
    for block in 0..3 {
        for (capture, direction) in captures.iter().zip([Direction::Inbound, Direction::Outbound]) {
            let of_block = capture.iter().filter(|captured| block_of(captured) == block);
            packets.extend(of_block.map(|captured| (captured, direction)));
        }
    }
    let mut plan = Plan::default();
    for is_planned in [false, true] {
        let window = Window { lead_ns: MS, ..Window::default() }.with_disorder(plan.disorder_ns);
        let mut matcher = Matcher::new(window);
        let mut sorter =
            Sorter::new(SideCriterion::Direction, Recognition::default()).planned(plan);
        for (number, (captured, direction)) in (1..).zip(&packets) {
            let packet = Packet {
                number,
                time_ns: captured.time_ns,
                interface: 0,
                interface_name: None,
                direction: Some(*direction),
                link: LinkType::ETHERNET,
                wire_len: captured.wire_len,
                octets: &captured.octets,
            };
            sorter.take(&packet, (), &mut matcher, &mut |_| {}).unwrap();
        }
        matcher.finish(&mut |_| {});
        let matched = matcher.counts().matched();
        assert_eq!(matched == left, is_planned, "{matched} of {left}");
        let found = sorter.evidence(1).diagnose(&MATCHING);
        let matched = MatchSummary { matched, smaller: left, ..MatchSummary::default() };
        let causes = found.conclude(&matched, &MATCHING, is_planned).causes;
        assert!(matches!(causes[..], [Cause::Disorder { side: None, .. }]), "{causes:?}");
        plan = found.plan;
    }
}
