//! The watch over a stream, under a clock that the test moves.
//!
//! A simulated stream has paths with delays; the first replica of a packet is passed. The watch
//! looks every [`LOOK`] and must tell what happened, within its bound, and nothing else.

use onbeat_frer::counters::Counters;
use onbeat_frer::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};
use onbeat_frer::watch::{Cause, Event, EventKind, Function, Rules, Watch};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const LOOK: u64 = 250 * MS;

fn recovery() -> RecoveryReading {
    RecoveryReading { counters: Counters::default(), recov_seq_num: 0, take_any: false }
}

fn member() -> MemberReading {
    MemberReading { input: 0, enc_errored: 0, individual: None }
}

fn stream(paths: usize) -> StreamReading {
    let members = vec![member(); paths];
    StreamReading { members, generation: None, recovery: Some(recovery()), output: 0 }
}

fn of_stream(kind: EventKind) -> Event {
    Event { member: None, kind }
}

fn of_member(member: usize, kind: EventKind) -> Event {
    Event { member: Some(member), kind }
}

/// A watch, what it looks at, and what it told when.
struct Watched {
    watch: Watch,
    rules: Rules,
    reading: StreamReading,
    now_ns: u64,
    told: Vec<(u64, Event)>,
}

impl Watched {
    fn new(reading: StreamReading) -> Self {
        let (watch, rules) = (Watch::new(&reading), Rules::default());
        Self { watch, rules, reading, now_ns: 7, told: Vec::new() }
    }

    fn look_after(&mut self, ns: u64, cause: Cause) -> Vec<Event> {
        self.now_ns += ns;
        let (now, mut told) = (self.now_ns, Vec::new());
        self.watch.look(&self.rules, now, &self.reading, cause, |event| told.push(event));
        self.told.extend(told.iter().map(|event| (now, *event)));
        told
    }

    fn look(&mut self) -> Vec<Event> {
        self.look_after(LOOK, Cause::TimeOut)
    }

    /// So many packets, each over these members.
    fn packets(&mut self, count: u64, members: &[usize]) {
        self.counters().passed += count;
        self.counters().discarded += count * (members.len() as u64 - 1);
        for &member in members {
            self.reading.members[member].input += count;
        }
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.reading.recovery.as_mut().unwrap().counters
    }
}

#[test]
fn a_path_that_stops_is_told_once_and_so_is_its_return() {
    let mut w = Watched::new(stream(2));
    for _ in 0..10 {
        w.packets(100, &[0, 1]);
        assert_eq!(w.look(), []);
    }
    w.packets(100, &[0]);
    assert_eq!(w.look(), [], "alone since now");
    w.packets(100, &[0]);
    assert_eq!(w.look(), [], "not for long enough");
    w.packets(100, &[0]);
    assert_eq!(w.look(), [of_member(1, EventKind::PathLoss { packets: 300 })]);
    assert!(w.watch.is_lost(1) && !w.watch.is_lost(0));
    for _ in 0..10 {
        w.packets(100, &[0]);
        assert_eq!(w.look(), []);
    }
    w.packets(4, &[0, 1]);
    assert_eq!(w.look(), [], "a few packets are no return");
    w.packets(1, &[0, 1]);
    assert_eq!(w.look(), [of_member(1, EventKind::PathBack { packets: 1305 })]);
    assert!(!w.watch.is_lost(1));
}

#[test]
fn a_silent_talker_loses_no_path() {
    let mut w = Watched::new(stream(3));
    for _ in 0..10_000 {
        assert_eq!(w.look(), []);
    }
    // The first packets after the pause have come over one path alone when the watch looks.
    w.packets(50, &[2]);
    assert_eq!(w.look(), []);
    for member in [0, 1] {
        w.reading.members[member].input += 50;
    }
    w.counters().discarded += 100;
    assert_eq!(w.look(), []);
    for _ in 0..10_000 {
        assert_eq!(w.look(), []);
    }
}

#[test]
fn a_stream_of_one_packet_a_second_is_judged_by_its_packets() {
    let mut w = Watched::new(stream(2));
    let second = |w: &mut Watched, members: &[usize]| {
        w.packets(1, members);
        [w.look(), w.look(), w.look(), w.look()].concat()
    };
    for _ in 0..20 {
        assert_eq!(second(&mut w, &[0, 1]), []);
    }
    // Four that are lost in a row are bad luck.
    for _ in 0..4 {
        assert_eq!(second(&mut w, &[0]), []);
    }
    assert_eq!(second(&mut w, &[0, 1]), []);
    for _ in 0..4 {
        assert_eq!(second(&mut w, &[0]), []);
    }
    assert_eq!(second(&mut w, &[0]), [of_member(1, EventKind::PathLoss { packets: 5 })]);
}

#[test]
fn a_lost_path_that_delivers_now_and_then_is_not_back() {
    let mut w = Watched::new(stream(2));
    for _ in 0..4 {
        w.packets(100, &[0]);
        w.look();
    }
    assert_eq!(w.told.len(), 1);
    for _ in 0..20 {
        w.packets(2, &[0, 1]);
        assert_eq!(w.look(), []);
        for _ in 0..4 {
            w.packets(100, &[0]);
            assert_eq!(w.look(), []);
        }
    }
}

#[test]
fn without_sequence_recovery_members_have_nothing_in_common() {
    let mut reading = stream(2);
    reading.recovery = None;
    let mut w = Watched::new(reading);
    for _ in 0..100 {
        w.reading.members[0].input += 100;
        assert_eq!(w.look(), []);
    }
}

#[test]
fn a_sender_that_is_stuck_does_not_contribute_though_its_frames_come() {
    let mut reading = stream(2);
    reading.members[1].individual = Some(recovery());
    let mut w = Watched::new(reading);
    let mut told = Vec::new();
    for _ in 0..4 {
        w.packets(100, &[0, 1]);
        w.reading.members[1].individual.as_mut().unwrap().counters.discarded += 100;
        told.extend(w.look());
    }
    assert_eq!(told, [of_member(1, EventKind::PathLoss { packets: 300 })]);
}

#[test]
fn a_flood_of_rogue_packets_has_a_beginning_and_an_end() {
    let mut w = Watched::new(stream(1));
    w.counters().rogue += 9;
    assert_eq!(w.look(), []);
    w.counters().rogue += 1;
    let function = Function::Sequence;
    assert_eq!(w.look(), [of_stream(EventKind::RogueFlood { function, packets: 10 })]);
    w.counters().rogue += 1000;
    assert_eq!(w.look(), []);
    for _ in 0..19 {
        assert_eq!(w.look(), [], "a pause of less than 5 s");
    }
    w.counters().rogue += 1;
    for _ in 0..20 {
        assert_eq!(w.look(), []);
    }
    assert_eq!(w.look(), [of_stream(EventKind::RogueFloodEnded { function, packets: 1011 })]);
    for _ in 0..100 {
        assert_eq!(w.look(), []);
    }
}

#[test]
fn a_rogue_packet_now_and_then_is_no_flood_and_one_a_second_is() {
    for (seconds, flood) in [(6, false), (1, true)] {
        let mut w = Watched::new(stream(1));
        for _ in 0..20 {
            w.counters().rogue += 1;
            (0..4 * seconds).for_each(|_| _ = w.look());
        }
        assert_eq!(!w.told.is_empty(), flood, "every {seconds} s: {:?}", w.told);
    }
}

#[test]
fn resets_that_were_asked_for_are_told_at_once_and_time_outs_together() {
    let mut reading = stream(1);
    reading.generation = Some(GenerationReading { next: 0, resets: 1 });
    let mut w = Watched::new(reading);
    let reset = |function, cause, count| of_stream(EventKind::Reset { function, cause, count });
    let time_out = |count| reset(Function::Sequence, Cause::TimeOut, count);
    w.counters().resets += 1;
    assert_eq!(w.look(), [time_out(1)]);
    for _ in 0..39 {
        w.counters().resets += 1;
        assert_eq!(w.look(), []);
    }
    w.counters().resets += 1;
    w.reading.generation.as_mut().unwrap().resets += 1;
    let requested = w.look_after(0, Cause::Request);
    let functions = [Function::Generation, Function::Sequence];
    assert_eq!(requested, functions.map(|function| reset(function, Cause::Request, 1)));
    assert_eq!(w.look(), [time_out(39)]);
    (0..100).for_each(|_| assert_eq!(w.look(), []));
}

#[test]
fn counters_that_begin_anew_and_other_functions_are_no_events() {
    let mut w = Watched::new(stream(2));
    w.packets(1000, &[0, 1]);
    w.counters().rogue += 5;
    w.counters().resets += 1;
    w.look();
    w.told.clear();
    w.reading = stream(2);
    assert_eq!(w.look(), []);
    w.reading = stream(3);
    w.counters().resets += 7;
    assert_eq!(w.look(), []);
    w.counters().resets += 1;
    assert_eq!(w.look().len(), 1);
}

/// A path: how late its replicas are, and whether it loses them from some packet to another.
#[derive(Debug, Clone)]
struct PathPlan {
    delay_ns: u64,
    cut: Option<(usize, usize)>,
}

/// Packets that are sent `gap_ns` after the one before, and a pause for some of them.
fn sent(gap_ns: u64, pauses: &[(usize, u64)], count: usize) -> Vec<u64> {
    let mut now = 0;
    (0..count)
        .map(|n| {
            let paused: u64 = pauses.iter().filter(|(at, _)| *at == n).map(|(_, ns)| ns).sum();
            now += gap_ns + paused;
            now
        })
        .collect()
}

/// Plays packets over paths; tells when what was told.
fn play(sent: &[u64], paths: &[PathPlan]) -> Vec<(u64, Event)> {
    let mut arrivals: Vec<(u64, usize, usize)> = Vec::new();
    for (n, at) in sent.iter().enumerate() {
        for (path, plan) in paths.iter().enumerate() {
            if !plan.cut.is_some_and(|(from, to)| (from..to).contains(&n)) {
                arrivals.push((at + plan.delay_ns, path, n));
            }
        }
    }
    arrivals.sort_unstable();
    let mut w = Watched::new(stream(paths.len()));
    let start = w.now_ns;
    let mut seen = vec![false; sent.len()];
    let mut arrivals = arrivals.into_iter().peekable();
    let end = sent.last().unwrap() + 10_000 * MS;
    while w.now_ns - start < end {
        while let Some((_, path, n)) = arrivals.next_if(|(at, ..)| *at <= w.now_ns - start + LOOK) {
            w.reading.members[path].input += 1;
            let first = !std::mem::replace(&mut seen[n], true);
            let counters = w.counters();
            *(if first { &mut counters.passed } else { &mut counters.discarded }) += 1;
        }
        w.look();
    }
    w.told.into_iter().map(|(at, event)| (at - start, event)).collect()
}

fn delays(paths: usize) -> impl Strategy<Value = Vec<PathPlan>> {
    // Less than Rules::path_ns.
    let path = (0..400 * MS).prop_map(|delay_ns| PathPlan { delay_ns, cut: None });
    prop::collection::vec(path, paths)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn paths_that_all_deliver_are_never_told(
        gap_ns in prop_oneof![MS..20 * MS, 100 * MS..3_000 * MS],
        pauses in prop::collection::vec((0usize..100, 0..30_000 * MS), 0..5),
        paths in delays(3),
    ) {
        prop_assert_eq!(play(&sent(gap_ns, &pauses, 100), &paths), []);
    }

    #[test]
    fn one_that_does_not_is_told_within_the_bound_and_so_is_its_return(
        gap_ns in prop_oneof![MS..20 * MS, 100 * MS..3_000 * MS],
        paths in delays(3),
        lost in 0usize..3,
        from in 1usize..50,
    ) {
        // As long as it takes to be told, and as long again until it is back.
        let rules = Rules::default();
        let enough = (2 * rules.path_ns.max(rules.path_packets * gap_ns) + 4 * LOOK) / gap_ns + 2;
        let to = from + enough as usize;
        let mut paths = paths;
        paths[lost].cut = Some((from, to));
        let times = sent(gap_ns, &[], to + enough as usize);
        let told = play(&times, &paths);
        let slack = 400 * MS + 3 * LOOK;
        let bound = rules.path_ns.max(rules.path_packets * gap_ns) + slack;
        prop_assert_eq!(told.len(), 2, "{:?}", told);
        let (at, Event { member, kind: EventKind::PathLoss { .. } }) = told[0] else {
            return Err(TestCaseError::fail(format!("{told:?}")));
        };
        prop_assert_eq!(member, Some(lost));
        prop_assert!(at >= times[from] && at <= times[from] + bound, "{} {}", at, times[from]);
        let (at, Event { member, kind: EventKind::PathBack { packets } }) = told[1] else {
            return Err(TestCaseError::fail(format!("{told:?}")));
        };
        prop_assert_eq!(member, Some(lost));
        // Counted from the last look at which it still contributed.
        prop_assert!(packets + LOOK / gap_ns + 1 >= enough, "{}", packets);
        prop_assert!(at >= times[to] && at <= times[to] + bound, "{} {}", at, times[to]);
    }

    #[test]
    fn beginnings_and_ends_take_turns_and_resets_are_all_told(
        steps in prop::collection::vec((0u64..20, 0u64..20, 0u64..15, 0u64..3, 1u64..40), 1..200),
    ) {
        let mut w = Watched::new(stream(2));
        let mut resets = 0;
        for (both, alone, rogue, reset, looks) in steps {
            w.packets(both, &[0, 1]);
            w.packets(alone, &[1]);
            w.counters().rogue += rogue;
            w.counters().resets += reset;
            resets += reset;
            (0..looks).for_each(|_| _ = w.look());
        }
        (0..41).for_each(|_| _ = w.look());
        let (mut lost, mut flood, mut told) = (false, false, 0);
        for (_, event) in &w.told {
            match event.kind {
                EventKind::PathLoss { .. } => {
                    prop_assert!(event.member == Some(0) && !std::mem::replace(&mut lost, true));
                }
                EventKind::PathBack { .. } => prop_assert!(std::mem::replace(&mut lost, false)),
                EventKind::RogueFlood { .. } => prop_assert!(!std::mem::replace(&mut flood, true)),
                EventKind::RogueFloodEnded { .. } => {
                    prop_assert!(std::mem::replace(&mut flood, false));
                }
                EventKind::Reset { count, .. } => told += count,
            }
        }
        prop_assert!(!flood);
        prop_assert_eq!(told, resets);
    }
}
