//! Captures damaged in known ways: the causes that a diagnosis names are the damages.

use std::collections::BTreeSet;

use onbeat_delay::capture::{Direction, LinkType, Packet, Reader, Writer};
use onbeat_delay::diagnosis::{Cause, Diagnosis, Evidence, Fault, MatchSummary, MatchingOptions};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Event, Matcher, Window};
use onbeat_delay::pairing::{PacketFilter, Pair, Plan, Side, Sides, Sorter};
use proptest::prelude::*;

const START_NS: i64 = 1_767_225_600_000_000_000;
const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
const MATCHING: MatchingOptions =
    MatchingOptions { longest_ns: SECOND, two_clocks: false, min_matched: 100 };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn between(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from) as u64) as i64
    }
}

#[derive(Debug, Clone)]
struct Captured {
    time_ns: i64,
    octets: Vec<u8>,
    wire_len: u32,
}

/// The captures on either side of a hop.
type Captures = [Vec<Captured>; 2];

/// A hop, and the packets that pass it.
#[derive(Debug, Clone, Copy)]
struct Hop {
    seed: u64,
    /// It lowers the TTL and writes MAC addresses; otherwise it is a bridge.
    routes: bool,
    ipv6: bool,
    packets: i64,
    delay_ns: i64,
}

impl Hop {
    fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        Hop {
            seed,
            routes: random.next() % 2 == 0,
            ipv6: random.next() % 3 == 0,
            packets: random.between(300, 900),
            // Also longer than a departure is looked for ahead of its arrival.
            delay_ns: [5_000, 80_000, 7 * MS][(random.next() % 3) as usize],
        }
    }

    /// Packets from one side to the other, every 100 us.
    fn traffic(&self, backward: bool) -> Captures {
        let mut random = Random(self.seed ^ u64::from(backward));
        let mut captures = [Vec::new(), Vec::new()];
        let stations = if backward { [9, 1] } else { [1, 9] };
        for number in 0..self.packets {
            let sent_ns = START_NS + number * 100_000 + random.between(0, 50_000);
            let mut payload = vec![0; random.between(80, 300) as usize];
            payload.iter_mut().for_each(|octet| *octet = random.next() as u8);
            let enters = self.frame(stations, &payload, number, false);
            let leaves = self.frame(stations, &payload, number, true);
            let delay_ns = self.delay_ns + random.between(0, self.delay_ns / 2);
            let lost = random.next() % 50 == 0;
            let [near, far] = if backward { [1, 0] } else { [0, 1] };
            let captured = |time_ns, octets: Vec<u8>| Captured {
                time_ns,
                wire_len: octets.len() as u32,
                octets,
            };
            captures[near].push(captured(sent_ns, enters));
            if !lost {
                captures[far].push(captured(sent_ns + delay_ns, leaves));
            }
        }
        captures.iter_mut().for_each(|capture| in_order(capture));
        captures
    }

    fn frame(&self, stations: [u8; 2], payload: &[u8], number: i64, left: bool) -> Vec<u8> {
        let [from, to] = stations;
        let passed = left && self.routes;
        // The router's own address stands for the station behind it.
        let router =
            |there: u8| if self.routes { [2, 0, 0, 0, 1, there] } else { [2, 0, 0, 0, 0, there] };
        let (source, destination) = match (self.routes, left) {
            (true, false) => ([2, 0, 0, 0, 0, from], router(from)),
            (true, true) => (router(to), [2, 0, 0, 0, 0, to]),
            (false, _) => ([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, to]),
        };
        let ttl = if passed { 63 } else { 64 };
        let udp_len = (8 + payload.len()) as u16;
        let mut octets = [&destination[..], &source].concat();
        if self.ipv6 {
            octets.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            octets.extend(udp_len.to_be_bytes());
            octets.extend([17, ttl]);
            for station in [from, to] {
                octets.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, station]);
            }
        } else {
            let identification = if self.seed % 2 == 0 { 0 } else { 1 + number as u16 };
            octets.extend([0x08, 0x00, 0x45, 0]);
            octets.extend((20 + udp_len).to_be_bytes());
            octets.extend(identification.to_be_bytes());
            octets.extend([0x40, 0, ttl, 17, 0, 0, 10, 0, from, 1, 10, 0, to, 1]);
        }
        octets.extend([0x13, 0x88, 0x13, 0x89]);
        octets.extend(udp_len.to_be_bytes());
        octets.extend([0, 0]);
        octets.extend(payload);
        octets
    }
}

fn in_order(capture: &mut [Captured]) {
    capture.sort_by_key(|captured| captured.time_ns);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Shifted,
    Swapped,
    Cut,
    Filtered,
    Translated,
    SameFile,
    Emptied,
    BothDirections,
    SetBack,
    Disordered,
    OtherTime,
    LittleOverlap,
}

impl Damage {
    /// In the order in which several are done.
    const ALL: [Damage; 12] = [
        Damage::BothDirections,
        Damage::Translated,
        Damage::Filtered,
        Damage::OtherTime,
        Damage::LittleOverlap,
        Damage::SetBack,
        Damage::Disordered,
        Damage::SameFile,
        Damage::Cut,
        Damage::Shifted,
        Damage::Swapped,
        Damage::Emptied,
    ];

    fn cause(self) -> &'static str {
        match self {
            Damage::Shifted => "clocks apart",
            Damage::Swapped => "swapped captures",
            Damage::Cut => "cut packets",
            Damage::Filtered => "different traffic",
            Damage::Translated => "translated addresses",
            Damage::SameFile => "one capture in both roles",
            Damage::Emptied => "empty capture",
            Damage::BothDirections => "both directions",
            Damage::SetBack => "clock set back",
            Damage::Disordered => "disorder",
            Damage::OtherTime | Damage::LittleOverlap => "no overlap in time",
        }
    }

    /// Whether all packets that can be matched are, nevertheless.
    fn is_remedied(self) -> bool {
        matches!(self, Damage::BothDirections | Damage::SetBack | Damage::Disordered)
    }

    /// The option of the matching that undoes the damage.
    fn remedy(self, causes: &[Cause]) -> Option<Recognition> {
        let whole = Recognition::default();
        match self {
            Damage::Translated => Some(Recognition { nat: true, ..whole }),
            Damage::Cut => causes.iter().find_map(|cause| match cause {
                Cause::Cut { octets, .. } => Some(Recognition { octets: (*octets)?, ..whole }),
                _ => None,
            }),
            _ => None,
        }
    }

    fn apply(self, hop: &Hop, captures: &mut Captures, random: &mut Random) {
        match self {
            Damage::Shifted => {
                let by_ns = random.between(5, 4000) * SECOND;
                let by_ns = if random.next() % 2 == 0 { by_ns } else { -by_ns };
                captures[1].iter_mut().for_each(|captured| captured.time_ns += by_ns);
            }
            Damage::Swapped => captures.swap(0, 1),
            Damage::Cut => {
                let kept = random.between(if hop.ipv6 { 80 } else { 60 }, 100) as usize;
                let cut = |captured: &mut Captured| captured.octets.truncate(kept);
                let from = (random.next() % 2) as usize;
                captures[from..].iter_mut().flatten().for_each(cut);
            }
            // Each capture was taken with a filter, and nothing passes both.
            Damage::Filtered => {
                for (side, capture) in captures.iter_mut().enumerate() {
                    capture.retain(|captured| {
                        usize::from(captured.octets.last().unwrap() & 1) == side
                    });
                }
            }
            Damage::Translated => {
                let at = if hop.ipv6 { 14 + 8 } else { 14 + 12 };
                for captured in &mut captures[1] {
                    captured.octets[at..at + 4].copy_from_slice(&[192, 0, 2, 7]);
                }
            }
            Damage::SameFile => captures[1] = captures[0].clone(),
            Damage::Emptied => captures[(random.next() % 2) as usize].clear(),
            Damage::BothDirections => {
                for (capture, other) in captures.iter_mut().zip(hop.traffic(true)) {
                    capture.extend(other);
                    in_order(capture);
                }
            }
            Damage::SetBack => {
                let by_ns = random.between(20, 60_000) * MS;
                let at_ns = START_NS + hop.packets * 50_000;
                for captured in captures.iter_mut().flatten() {
                    captured.time_ns -= if captured.time_ns >= at_ns { by_ns } else { 0 };
                }
            }
            // Every few packets one was written late.
            Damage::Disordered => {
                let every = random.between(4, 9) as usize;
                let late = random.between(20, 100) as usize;
                for capture in captures.iter_mut() {
                    for place in (0..capture.len().saturating_sub(late)).step_by(every) {
                        let captured = capture.remove(place);
                        capture.insert(place + late, captured);
                    }
                }
            }
            Damage::OtherTime => {
                let other = Hop { seed: hop.seed ^ 0xff00, ..*hop };
                captures[1] = other.traffic(false)[1].clone();
                captures[1].iter_mut().for_each(|captured| captured.time_ns += 3600 * SECOND);
            }
            // 2 to 5 % of the packets are in both: arrivals up to there, departures from there on.
            Damage::LittleOverlap => {
                let both = captures[1].len() * random.between(20, 51) as usize / 1000;
                let from = captures[1].len() / 2;
                let before =
                    |captured: &Captured| captured.octets[captured.octets.len() - 8..].to_vec();
                captures[1].drain(..from);
                let last = before(&captures[1][both - 1]);
                let place = captures[0].iter().position(|captured| before(captured) == last);
                captures[0].truncate(place.unwrap() + 1);
            }
        }
    }

    /// Whether both can be seen in one pair of captures.
    fn goes_with(self, other: Damage, hop: &Hop) -> bool {
        use Damage::*;
        let is = |one, two| (self, other) == (one, two) || (other, self) == (one, two);
        let any = |one: Damage| self == one || other == one;
        // Nothing is in common that could show the other.
        let alone = [Emptied, Filtered, OtherTime, SameFile];
        if alone.into_iter().any(any) {
            let rest = if alone.contains(&self) { other } else { self };
            return matches!(rest, Cut | SetBack | Disordered)
                && !is(Emptied, Cut)
                && !is(OtherTime, SetBack)
                && !is(OtherTime, Disordered);
        }
        // Packets of both directions end in the middle; a clock set back there leaves nothing in common.
        if any(LittleOverlap) && (any(BothDirections) || any(SetBack) || any(Disordered)) {
            return false;
        }
        // Both are read alike from either side.
        if is(Swapped, BothDirections) || is(SetBack, Disordered) {
            return false;
        }
        // Only a router shows which way packets go whose time stamps do not.
        hop.routes || !(any(Shifted) && (any(Swapped) || any(BothDirections)))
    }
}

fn written(capture: &[Captured]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    for Captured { time_ns, octets, wire_len } in capture {
        writer.write(*time_ns, octets, *wire_len).unwrap();
    }
    writer.finish().unwrap()
}

/// A reading of both captures.
struct Reading {
    matched: MatchSummary,
    /// Of what was matched, one by one.
    delays_ns: Vec<i64>,
    diagnosis: Diagnosis,
}

fn read(files: &[Vec<u8>; 2], plan: Plan, filters: [Option<PacketFilter>; 2]) -> Reading {
    read_by(Recognition::default(), files, plan, filters)
}

fn read_by(
    recognition: Recognition,
    files: &[Vec<u8>; 2],
    plan: Plan,
    filters: [Option<PacketFilter>; 2],
) -> Reading {
    let [arrivals, departures] = [0, 1].map(|side| Reader::new(&files[side][..]).unwrap());
    let tag = |_: &Packet<'_>| ();
    let window = Window { lead_ns: MS, ..Window::default() }.with_disorder(plan.disorder_ns);
    let mut pair =
        Pair::new(arrivals, departures, 0, recognition, tag).filtered(filters).planned(plan);
    let mut matcher = Matcher::new(window);
    let mut delays_ns = Vec::new();
    let mut take = |event: Event<()>| {
        if let Event::Matched { arrival, departure, .. } = event {
            delays_ns.push(departure.time_ns - arrival.time_ns);
        }
    };
    while pair.feed(1000, &mut matcher, &mut take).unwrap() {}
    matcher.finish(&mut take);
    let selected = [Side::Arrivals, Side::Departures].map(|side| pair.tally(side).selected());
    let matched = MatchSummary {
        matched: matcher.counts().matched(),
        smaller: selected[0].min(selected[1]),
        negative: delays_ns.iter().filter(|delay_ns| **delay_ns < 0).count() as u64,
        most_negative_ns: delays_ns.iter().copied().min().unwrap_or(0).min(0),
    };
    let diagnosis = pair.evidence().diagnose(&MATCHING);
    Reading { matched, delays_ns, diagnosis }
}

/// As the program reads captures: once more where the first reading shows how.
fn diagnosed(captures: &Captures) -> (Reading, Vec<Cause>) {
    diagnosed_by(Recognition::default(), captures)
}

fn diagnosed_by(recognition: Recognition, captures: &Captures) -> (Reading, Vec<Cause>) {
    let files = [0, 1].map(|side| written(&captures[side]));
    let first = read_by(recognition, &files, Plan::default(), [None, None]);
    let last = match first.diagnosis.plan == Plan::default() {
        true => Reading { diagnosis: first.diagnosis.clone(), ..first },
        false => Reading {
            diagnosis: first.diagnosis.clone(),
            ..read_by(recognition, &files, first.diagnosis.plan.clone(), [None, None])
        },
    };
    let causes = last.diagnosis.conclude(&last.matched, &MATCHING, true).causes;
    (last, causes)
}

fn names(causes: &[Cause]) -> BTreeSet<&'static str> {
    causes.iter().map(Cause::name).collect()
}

/// The damages of a seed: none, one or two.
fn damages(seed: u64, hop: &Hop) -> Vec<Damage> {
    let mut random = Random(seed ^ 0xdada);
    let mut pick = || Damage::ALL[(random.next() % 12) as usize];
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
    for seed in 0..400 {
        let hop = Hop::of(seed);
        let damages = damages(seed, &hop);
        let mut captures = hop.traffic(false);
        let whole = captures.clone();
        let mut random = Random(!seed);
        damages.iter().for_each(|damage| damage.apply(&hop, &mut captures, &mut random));
        let (reading, causes) = diagnosed(&captures);
        let expected: BTreeSet<_> = damages.iter().map(|damage| damage.cause()).collect();
        seen.extend(damages.iter().map(|damage| format!("{damage:?}")));
        let passes = damages.iter().all(|damage| damage.is_remedied());
        let matched = reading.matched;
        let is_measurement = matched.is_enough(&MATCHING)
            && matched.negative == 0
            && causes.iter().all(|cause| cause.fault() != Fault::Voids);
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
    assert!(wrong.is_empty(), "{} of 400:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(seen.len(), Damage::ALL.len(), "{seen:?}");
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
        let mut sorter = Sorter::new(Sides::Direction, Recognition::default());
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
            let evidence = sorter.evidence();
            for capture in [None, evidence.capture.clone()] {
                let found = Evidence { capture, ..evidence.clone() }.diagnose(&matching);
                let matched = MatchSummary { matched: 0, smaller: 0, negative: 0, most_negative_ns: 0 };
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
    Damage::BothDirections.apply(&ROUTER, &mut captures, &mut Random(0));
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
fn few_packets_and_few_matches_are_told() {
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
        assert_eq!((*side, found[0].fault()), (whose, Fault::Voids));
    }
}

/// dumpcap writes what it took of several interfaces block by block.
#[test]
fn interfaces_written_block_by_block_are_no_clock_set_back() {
    let captures = ROUTER.traffic(false);
    let left = captures[1].len() as u64;
    let block_of = |captured: &Captured| ((captured.time_ns - START_NS) / (15 * MS)).min(2);
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
        let mut sorter = Sorter::new(Sides::Direction, Recognition::default()).planned(plan);
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
        let found = sorter.evidence().diagnose(&MATCHING);
        let matched = MatchSummary { matched, smaller: left, negative: 0, most_negative_ns: 0 };
        let causes = found.conclude(&matched, &MATCHING, is_planned).causes;
        assert!(matches!(causes[..], [Cause::Disorder { side: None, .. }]), "{causes:?}");
        plan = found.plan;
    }
}
