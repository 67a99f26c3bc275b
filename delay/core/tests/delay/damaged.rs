//! A hop, captures on both sides of it, their damages, and a reading of both.

use std::collections::BTreeSet;

use onbeat_delay::capture::{LinkType, Packet, Reader, Writer};
use onbeat_delay::diagnosis::{Cause, Diagnosis, MatchSummary, MatchingOptions};
use onbeat_delay::key::Recognition;
use onbeat_delay::matching::{Event, Matcher, Window};
use onbeat_delay::pairing::{CapturePair, PacketFilter, Plan, Side};
use onbeat_wire::random::Random;

pub(crate) const START_NS: i64 = 1_767_225_600_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const MS: i64 = 1_000_000;
pub(crate) const MATCHING: MatchingOptions =
    MatchingOptions { longest_ns: SECOND, two_clocks: false, min_matched: 100 };

/// A number in `from..to`.
pub(crate) fn between(random: &mut Random, from: i64, to: i64) -> i64 {
    from + (random.number() % (to - from) as u64) as i64
}

#[derive(Debug, Clone)]
pub(crate) struct CapturedPacket {
    pub(crate) time_ns: i64,
    pub(crate) octets: Vec<u8>,
    pub(crate) wire_len: u32,
}

/// The captures on both sides of a hop.
pub(crate) type Captures = [Vec<CapturedPacket>; 2];

/// A hop, and the packets that pass through it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub(crate) seed: u64,
    /// It lowers the TTL and writes MAC addresses; otherwise it is a bridge.
    pub(crate) routes: bool,
    pub(crate) ipv6: bool,
    pub(crate) packets: i64,
    pub(crate) delay_ns: i64,
}

impl Hop {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Hop {
            seed,
            routes: random.number() % 2 == 0,
            ipv6: random.number() % 3 == 0,
            packets: between(&mut random, 300, 900),
            // Also longer than a departure is looked for ahead of its arrival.
            delay_ns: [5_000, 80_000, 7 * MS][(random.number() % 3) as usize],
        }
    }

    /// Packets from one side to the other, every 100 us.
    pub(crate) fn traffic(&self, backward: bool) -> Captures {
        let mut random = Random::new(self.seed ^ u64::from(backward));
        let mut captures = [Vec::new(), Vec::new()];
        let stations = if backward { [9, 1] } else { [1, 9] };
        for number in 0..self.packets {
            let sent_ns = START_NS + number * 100_000 + between(&mut random, 0, 50_000);
            let mut payload = vec![0; between(&mut random, 80, 300) as usize];
            payload.iter_mut().for_each(|octet| *octet = random.number() as u8);
            let enters = self.frame(stations, &payload, number, false);
            let leaves = self.frame(stations, &payload, number, true);
            let delay_ns = self.delay_ns + between(&mut random, 0, self.delay_ns / 2);
            let lost = random.number() % 50 == 0;
            let [near, far] = if backward { [1, 0] } else { [0, 1] };
            let captured = |time_ns, octets: Vec<u8>| CapturedPacket {
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

    pub(crate) fn frame(
        &self,
        stations: [u8; 2],
        payload: &[u8],
        number: i64,
        left: bool,
    ) -> Vec<u8> {
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

pub(crate) fn in_order(capture: &mut [CapturedPacket]) {
    capture.sort_by_key(|captured| captured.time_ns);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
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
    Alike,
    PartOfSameFile,
    ConstantTimes,
    SetInGap,
}

impl Damage {
    /// Those that are seen alone.
    pub(crate) const ALONE: [Damage; 4] =
        [Damage::Alike, Damage::PartOfSameFile, Damage::ConstantTimes, Damage::SetInGap];

    /// In the order in which several are done.
    pub(crate) const ALL: [Damage; 12] = [
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

    pub(crate) fn cause(self) -> &'static str {
        match self {
            Damage::Shifted => "clocks apart",
            Damage::Swapped => "swapped captures",
            Damage::Cut => "cut packets",
            Damage::Filtered => "different traffic",
            Damage::Translated => "translated addresses",
            Damage::SameFile | Damage::PartOfSameFile => "one capture in both roles",
            Damage::Alike => "packets alike",
            Damage::ConstantTimes => "constant time stamps",
            Damage::SetInGap => "clock step",
            Damage::Emptied => "empty capture",
            Damage::BothDirections => "both directions",
            Damage::SetBack => "clock set back",
            Damage::Disordered => "disorder",
            Damage::OtherTime | Damage::LittleOverlap => "no overlap in time",
        }
    }

    /// Whether all packets that can be matched are, nevertheless.
    pub(crate) fn is_remedied(self) -> bool {
        matches!(self, Damage::BothDirections | Damage::SetBack | Damage::Disordered)
    }

    /// The option of the matching that undoes the damage.
    pub(crate) fn remedy(self, causes: &[Cause]) -> Option<Recognition> {
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

    pub(crate) fn apply(self, hop: &Hop, captures: &mut Captures, random: &mut Random) {
        match self {
            Damage::Shifted => {
                let by_ns = between(random, 5, 4000) * SECOND;
                let by_ns = if random.number() % 2 == 0 { by_ns } else { -by_ns };
                captures[1].iter_mut().for_each(|captured| captured.time_ns += by_ns);
            }
            Damage::Swapped => captures.swap(0, 1),
            Damage::Cut => {
                let kept = between(random, if hop.ipv6 { 80 } else { 60 }, 100) as usize;
                let cut = |captured: &mut CapturedPacket| captured.octets.truncate(kept);
                let from = (random.number() % 2) as usize;
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
            // Two captures of one point that were started and stopped at different times.
            Damage::PartOfSameFile => {
                captures[1] = captures[0][between(random, 1, 20) as usize..].to_vec();
                let kept = captures[0].len() - between(random, 1, 20) as usize;
                captures[0].truncate(kept);
            }
            // Packets of the same contents wait in the hop together.
            Damage::Alike => {
                for (side, capture) in captures.iter_mut().enumerate() {
                    let octets = hop.frame([1, 9], &[7; 120], 0, side == 1);
                    let wire_len = octets.len() as u32;
                    for captured in capture {
                        *captured =
                            CapturedPacket { octets: octets.clone(), wire_len, ..*captured };
                    }
                }
                captures[1].iter_mut().for_each(|captured| captured.time_ns += 20 * MS);
            }
            Damage::ConstantTimes => {
                let time_ns = START_NS * between(random, 0, 2);
                captures.iter_mut().flatten().for_each(|captured| captured.time_ns = time_ns);
            }
            // The clock of departures is set back by less than the time without packets, so that time
            // stamps never go back.
            Damage::SetInGap => {
                let at_ns = START_NS + hop.packets * 60_000;
                let by_ns = between(random, 20, 90) * MS;
                for (capture, later_ns) in captures.iter_mut().zip([100 * MS, 100 * MS - by_ns]) {
                    for captured in capture.iter_mut().filter(|one| one.time_ns >= at_ns) {
                        captured.time_ns += later_ns;
                    }
                }
            }
            Damage::Emptied => captures[(random.number() % 2) as usize].clear(),
            Damage::BothDirections => {
                for (capture, other) in captures.iter_mut().zip(hop.traffic(true)) {
                    capture.extend(other);
                    in_order(capture);
                }
            }
            Damage::SetBack => {
                let by_ns = between(random, 20, 60_000) * MS;
                let at_ns = START_NS + hop.packets * 50_000;
                for captured in captures.iter_mut().flatten() {
                    captured.time_ns -= if captured.time_ns >= at_ns { by_ns } else { 0 };
                }
            }
            Damage::Disordered => disorder(captures, random),
            Damage::OtherTime => {
                let other = Hop { seed: hop.seed ^ 0xff00, ..*hop };
                captures[1] = other.traffic(false)[1].clone();
                captures[1].iter_mut().for_each(|captured| captured.time_ns += 3600 * SECOND);
            }
            Damage::LittleOverlap => leave_little_overlap(captures, random),
        }
    }

    /// Whether both can be seen in one pair of captures.
    pub(crate) fn goes_with(self, other: Damage, hop: &Hop) -> bool {
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
        // Both are read alike from each side.
        if is(Swapped, BothDirections) || is(SetBack, Disordered) {
            return false;
        }
        // Only a router shows which way packets go whose time stamps do not.
        hop.routes || !(any(Shifted) && (any(Swapped) || any(BothDirections)))
    }
}

/// Writes one of every few packets late.
fn disorder(captures: &mut Captures, random: &mut Random) {
    let every = between(random, 4, 9) as usize;
    let late = between(random, 20, 100) as usize;
    for capture in captures.iter_mut() {
        for place in (0..capture.len().saturating_sub(late)).step_by(every) {
            let captured = capture.remove(place);
            capture.insert(place + late, captured);
        }
    }
}

/// Leaves 2 to 5 % of the packets in both: arrivals up to there, departures from there on.
fn leave_little_overlap(captures: &mut Captures, random: &mut Random) {
    let both = captures[1].len() * between(random, 20, 51) as usize / 1000;
    let from = captures[1].len() / 2;
    let end = |captured: &CapturedPacket| captured.octets[captured.octets.len() - 8..].to_vec();
    captures[1].drain(..from);
    let last = end(&captures[1][both - 1]);
    let place = captures[0].iter().position(|captured| end(captured) == last);
    captures[0].truncate(place.unwrap() + 1);
}

pub(crate) fn written(capture: &[CapturedPacket]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    for CapturedPacket { time_ns, octets, wire_len } in capture {
        writer.write(*time_ns, octets, *wire_len).unwrap();
    }
    writer.finish().unwrap()
}

/// A reading of both captures.
pub(crate) struct Reading {
    pub(crate) matched: MatchSummary,
    /// Of the matches, one by one.
    pub(crate) delays_ns: Vec<i64>,
    pub(crate) diagnosis: Diagnosis,
}

pub(crate) fn read(
    files: &[Vec<u8>; 2],
    plan: Plan,
    filters: [Option<PacketFilter>; 2],
) -> Reading {
    read_by(Recognition::default(), files, plan, filters)
}

pub(crate) fn read_by(
    recognition: Recognition,
    files: &[Vec<u8>; 2],
    plan: Plan,
    filters: [Option<PacketFilter>; 2],
) -> Reading {
    let [arrivals, departures] = [0, 1].map(|side| Reader::new(&files[side][..]).unwrap());
    let tag = |_: &Packet<'_>| ();
    let window = Window { lead_ns: MS, ..Window::default() }.with_disorder(plan.disorder_ns);
    let mut pair =
        CapturePair::new(arrivals, departures, 0, recognition, tag).filtered(filters).planned(plan);
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
        matched: matcher.counts().measured(),
        ambiguous: matcher.counts().ambiguous,
        equal_times: delays_ns.iter().filter(|delay_ns| **delay_ns == 0).count() as u64,
        strays: matcher.counts().strays,
        smaller: selected[0].min(selected[1]),
        negative: delays_ns.iter().filter(|delay_ns| **delay_ns < 0).count() as u64,
        most_negative_ns: delays_ns.iter().copied().min().unwrap_or(0).min(0),
    };
    let diagnosis = pair.evidence().diagnose(&MATCHING);
    Reading { matched, delays_ns, diagnosis }
}

/// As the program reads captures: a second time if the first reading shows other assumptions.
pub(crate) fn diagnosed(captures: &Captures) -> (Reading, Vec<Cause>) {
    diagnosed_by(Recognition::default(), captures)
}

pub(crate) fn diagnosed_by(recognition: Recognition, captures: &Captures) -> (Reading, Vec<Cause>) {
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

pub(crate) fn names(causes: &[Cause]) -> BTreeSet<&'static str> {
    causes.iter().map(Cause::name).collect()
}
