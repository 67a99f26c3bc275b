//! The monitor of a stream under virtual time.
//!
//! A simulated stream has paths with delays; the first replica of a packet is passed. The monitor reads every
//! [`INTERVAL`] and must report each event within its bound, and nothing else.

use onbeat_frer::counters::Counters;
use onbeat_frer::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};
use onbeat_frer::watch::{Cause, Event, EventKind, EventRules, Function, StreamMonitor};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const INTERVAL: u64 = 250 * MS;

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

/// A monitor, its reading, and the events that it reported.
struct MonitoredStream {
    watch: StreamMonitor,
    rules: EventRules,
    reading: StreamReading,
    now_ns: u64,
    reported: Vec<(u64, Event)>,
}

impl MonitoredStream {
    fn new(reading: StreamReading) -> Self {
        let (watch, rules) = (StreamMonitor::new(&reading), EventRules::default());
        Self { watch, rules, reading, now_ns: 7, reported: Vec::new() }
    }

    fn update_after(&mut self, ns: u64, cause: Cause) -> Vec<Event> {
        self.now_ns += ns;
        let (now, mut reported) = (self.now_ns, Vec::new());
        self.watch.update(&self.rules, now, &self.reading, cause, |event| reported.push(event));
        self.reported.extend(reported.iter().map(|event| (now, *event)));
        reported
    }

    fn update(&mut self) -> Vec<Event> {
        self.update_after(INTERVAL, Cause::TimeOut)
    }

    /// Adds `count` packets, each over these members.
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
fn a_path_loss_and_its_end_are_each_reported_once() {
    let mut w = MonitoredStream::new(stream(2));
    for _ in 0..10 {
        w.packets(100, &[0, 1]);
        assert_eq!(w.update(), []);
    }
    w.packets(100, &[0]);
    assert_eq!(w.update(), [], "loss just started");
    w.packets(100, &[0]);
    assert_eq!(w.update(), [], "loss too short");
    w.packets(100, &[0]);
    assert_eq!(w.update(), [of_member(1, EventKind::PathLoss { packets: 300 })]);
    assert!(w.watch.is_lost(1) && !w.watch.is_lost(0));
    for _ in 0..10 {
        w.packets(100, &[0]);
        assert_eq!(w.update(), []);
    }
    w.packets(4, &[0, 1]);
    assert_eq!(w.update(), [], "too few packets to be back");
    w.packets(1, &[0, 1]);
    assert_eq!(w.update(), [of_member(1, EventKind::PathBack { packets: 1305 })]);
    assert!(!w.watch.is_lost(1));
}

#[test]
fn a_silent_talker_loses_no_path() {
    let mut w = MonitoredStream::new(stream(3));
    for _ in 0..10_000 {
        assert_eq!(w.update(), []);
    }
    // At the time of the reading, the first packets after the pause have arrived over one path only.
    w.packets(50, &[2]);
    assert_eq!(w.update(), []);
    for member in [0, 1] {
        w.reading.members[member].input += 50;
    }
    w.counters().discarded += 100;
    assert_eq!(w.update(), []);
    for _ in 0..10_000 {
        assert_eq!(w.update(), []);
    }
}

#[test]
fn a_slow_stream_loses_a_path_by_its_packet_count() {
    let mut w = MonitoredStream::new(stream(2));
    let second = |w: &mut MonitoredStream, members: &[usize]| {
        w.packets(1, members);
        [w.update(), w.update(), w.update(), w.update()].concat()
    };
    for _ in 0..20 {
        assert_eq!(second(&mut w, &[0, 1]), []);
    }
    // Four consecutive losses are tolerated.
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
fn a_lost_path_with_sporadic_packets_is_not_back() {
    let mut w = MonitoredStream::new(stream(2));
    for _ in 0..4 {
        w.packets(100, &[0]);
        w.update();
    }
    assert_eq!(w.reported.len(), 1);
    for _ in 0..20 {
        w.packets(2, &[0, 1]);
        assert_eq!(w.update(), []);
        for _ in 0..4 {
            w.packets(100, &[0]);
            assert_eq!(w.update(), []);
        }
    }
}

#[test]
fn a_draining_member_is_not_lost() {
    let mut w = MonitoredStream::new(stream(3));
    w.watch.set_draining(&[1]);
    let mut reported = Vec::new();
    for _ in 0..10 {
        w.packets(100, &[0]);
        reported.extend(w.update().into_iter().map(|event| event.member));
    }
    assert_eq!(reported, [Some(2)]);
    assert!(!w.watch.is_lost(1) && w.watch.is_lost(2));
}

#[test]
fn without_sequence_recovery_no_path_is_lost() {
    let mut reading = stream(2);
    reading.recovery = None;
    let mut w = MonitoredStream::new(reading);
    for _ in 0..100 {
        w.reading.members[0].input += 100;
        assert_eq!(w.update(), []);
    }
}

#[test]
fn a_stuck_sender_does_not_contribute() {
    let mut reading = stream(2);
    reading.members[1].individual = Some(recovery());
    let mut w = MonitoredStream::new(reading);
    let mut reported = Vec::new();
    for _ in 0..4 {
        w.packets(100, &[0, 1]);
        w.reading.members[1].individual.as_mut().unwrap().counters.discarded += 100;
        reported.extend(w.update());
    }
    let stuck = EventKind::StuckTransmitter { recov_seq_num: 0, packets: 100 };
    let lost = EventKind::PathLoss { packets: 300 };
    assert_eq!(reported, [of_member(1, stuck), of_member(1, lost)]);
}

#[test]
fn a_stuck_transmitter_is_reported_until_it_sends_a_new_number() {
    let mut reading = stream(2);
    reading.members[1].individual = Some(recovery());
    let mut w = MonitoredStream::new(reading);
    let mut count = |passed: u64, repeated: u64, rogue: u64| {
        let individual = w.reading.members[1].individual.as_mut().unwrap();
        individual.recov_seq_num += passed as u16;
        individual.counters.passed += passed;
        individual.counters.discarded += repeated + rogue;
        individual.counters.rogue += rogue;
        let reported = w.update();
        let is_stuck = |event: &Event| {
            let kind = event.kind;
            matches!(
                kind,
                EventKind::StuckTransmitter { .. } | EventKind::StuckTransmitterEnded { .. }
            )
        };
        reported.into_iter().filter(is_stuck).collect::<Vec<_>>()
    };
    assert_eq!(count(7, 1000, 0), [], "a network that duplicates packets");
    assert_eq!(count(0, 99, 5000), [], "rogue packets are no repetitions");
    let stuck = EventKind::StuckTransmitter { recov_seq_num: 7, packets: 100 };
    assert_eq!(count(0, 1, 0), [of_member(1, stuck)]);
    assert_eq!(count(0, 5000, 0), []);
    let ended = EventKind::StuckTransmitterEnded { packets: 5100 };
    assert_eq!(count(1, 3, 0), [of_member(1, ended)]);
    assert_eq!(count(0, 99, 0), []);
    assert_eq!(count(1, 0, 0), []);
}

#[test]
fn a_restarted_talker_is_reported_until_its_packets_pass() {
    let mut w = MonitoredStream::new(stream(2));
    let mut config = onbeat_frer::spec::Recovery::vector(64);
    config.reset_timeout_ms = 2000;
    let member = |port| onbeat_frer::spec::Member {
        port: onbeat_frer::spec::PortId(port),
        identification: onbeat_frer::spec::Identification::Null {
            destination: onbeat_wire::MacAddress([2, 0, 0, 0, 0, 1]),
            vlan: onbeat_frer::spec::VlanMatch {
                tagged: onbeat_frer::spec::TagMatch::Tagged,
                vlan: 10,
            },
        },
        individual: None,
    };
    let configured = onbeat_frer::spec::Stream {
        name: "axis".into(),
        members: vec![member(0), member(1)],
        generate: false,
        recover: Some(config),
        egress: Vec::new(),
    };
    w.watch = StreamMonitor::new(&w.reading).with_timeouts(&configured);
    let mut count = |passed: u64, repeated: u64, rogue: u64| {
        w.counters().passed += passed;
        w.counters().discarded += repeated + rogue;
        w.counters().rogue += rogue;
        let is_all = |event: &Event| {
            matches!(event.kind, EventKind::AllRogue { .. } | EventKind::AllRogueEnded { .. })
        };
        w.update().into_iter().filter(is_all).collect::<Vec<_>>()
    };
    let function = Function::Sequence;
    assert_eq!(count(0, 0, 10), [], "no packet has passed yet");
    assert_eq!(count(100, 100, 0), []);
    assert_eq!(count(1, 0, 1000), [], "a flood beside packets that pass");
    assert_eq!(count(0, 1, 1000), [], "beside copies of these");
    assert_eq!(count(0, 0, 9), []);
    let started = EventKind::AllRogue { function, packets: 10, reset_timeout_ms: 2000 };
    assert_eq!(count(0, 0, 1), [of_stream(started)]);
    assert_eq!(count(0, 0, 50), []);
    assert_eq!(count(0, 0, 0), []);
    let ended = EventKind::AllRogueEnded { function, packets: 60 };
    assert_eq!(count(3, 0, 0), [of_stream(ended)]);
    assert_eq!(count(0, 0, 9), []);
    assert!(started.to_string().contains("the reset timeout of 2000 ms ends it"), "{started}");
    let never = EventKind::AllRogue { function, packets: 10, reset_timeout_ms: 0 };
    assert!(never.to_string().contains("no timeout ends it"), "{never}");
}

#[test]
fn a_flood_of_rogue_packets_has_a_start_and_an_end() {
    let mut w = MonitoredStream::new(stream(1));
    w.counters().rogue += 9;
    assert_eq!(w.update(), []);
    w.counters().rogue += 1;
    let function = Function::Sequence;
    assert_eq!(w.update(), [of_stream(EventKind::RogueFlood { function, packets: 10 })]);
    w.counters().rogue += 1000;
    assert_eq!(w.update(), []);
    for _ in 0..19 {
        assert_eq!(w.update(), [], "a pause of less than 5 s");
    }
    w.counters().rogue += 1;
    for _ in 0..20 {
        assert_eq!(w.update(), []);
    }
    assert_eq!(w.update(), [of_stream(EventKind::RogueFloodEnded { function, packets: 1011 })]);
    for _ in 0..100 {
        assert_eq!(w.update(), []);
    }
}

#[test]
fn sporadic_rogue_packets_are_no_flood_and_one_per_second_is() {
    for (seconds, flood) in [(6, false), (1, true)] {
        let mut w = MonitoredStream::new(stream(1));
        for _ in 0..20 {
            w.counters().rogue += 1;
            (0..4 * seconds).for_each(|_| _ = w.update());
        }
        assert_eq!(!w.reported.is_empty(), flood, "every {seconds} s: {:?}", w.reported);
    }
}

#[test]
fn requested_resets_are_reported_immediately_and_time_outs_together() {
    let mut reading = stream(1);
    reading.generation = Some(GenerationReading { next: 0, resets: 1 });
    let mut w = MonitoredStream::new(reading);
    let reset = |function, cause, count| of_stream(EventKind::Reset { function, cause, count });
    let time_out = |count| reset(Function::Sequence, Cause::TimeOut, count);
    w.counters().resets += 1;
    assert_eq!(w.update(), [time_out(1)]);
    for _ in 0..39 {
        w.counters().resets += 1;
        assert_eq!(w.update(), []);
    }
    w.counters().resets += 1;
    w.reading.generation.as_mut().unwrap().resets += 1;
    let requested = w.update_after(0, Cause::Request);
    let functions = [Function::Generation, Function::Sequence];
    assert_eq!(requested, functions.map(|function| reset(function, Cause::Request, 1)));
    assert_eq!(w.update(), [time_out(39)]);
    (0..100).for_each(|_| assert_eq!(w.update(), []));
}

#[test]
fn restarted_counters_and_changed_functions_are_no_events() {
    let mut w = MonitoredStream::new(stream(2));
    w.packets(1000, &[0, 1]);
    w.counters().rogue += 5;
    w.counters().resets += 1;
    w.update();
    w.reported.clear();
    w.reading = stream(2);
    assert_eq!(w.update(), []);
    w.reading = stream(3);
    w.counters().resets += 7;
    assert_eq!(w.update(), []);
    w.counters().resets += 1;
    assert_eq!(w.update().len(), 1);
}

/// A path: the delay of its replicas, and the range of packets that it loses.
#[derive(Debug, Clone)]
struct PathPlan {
    delay_ns: u64,
    cut: Option<(usize, usize)>,
}

/// Returns send times `gap_ns` apart, with a pause before some packets.
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

/// Plays packets over paths; returns the reported events with their times.
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
    let mut w = MonitoredStream::new(stream(paths.len()));
    let start = w.now_ns;
    let mut seen = vec![false; sent.len()];
    let mut arrivals = arrivals.into_iter().peekable();
    let end = sent.last().unwrap() + 10_000 * MS;
    while w.now_ns - start < end {
        while let Some((_, path, n)) =
            arrivals.next_if(|(at, ..)| *at <= w.now_ns - start + INTERVAL)
        {
            w.reading.members[path].input += 1;
            let first = !std::mem::replace(&mut seen[n], true);
            let counters = w.counters();
            *(if first { &mut counters.passed } else { &mut counters.discarded }) += 1;
        }
        w.update();
    }
    w.reported.into_iter().map(|(at, event)| (at - start, event)).collect()
}

fn delays(paths: usize) -> impl Strategy<Value = Vec<PathPlan>> {
    // Less than EventRules::path_ns.
    let path = (0..400 * MS).prop_map(|delay_ns| PathPlan { delay_ns, cut: None });
    prop::collection::vec(path, paths)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn delivering_paths_cause_no_event(
        gap_ns in prop_oneof![MS..20 * MS, 100 * MS..3_000 * MS],
        pauses in prop::collection::vec((0usize..100, 0..30_000 * MS), 0..5),
        paths in delays(3),
    ) {
        prop_assert_eq!(play(&sent(gap_ns, &pauses, 100), &paths), []);
    }

    #[test]
    fn a_loss_and_its_end_are_reported_within_the_bound(
        gap_ns in prop_oneof![MS..20 * MS, 100 * MS..3_000 * MS],
        paths in delays(3),
        lost in 0usize..3,
        from in 1usize..50,
    ) {
        // Lost for long enough to be reported, and the same time again until it is back.
        let rules = EventRules::default();
        let enough = (2 * rules.path_ns.max(rules.path_packets * gap_ns) + 4 * INTERVAL) / gap_ns + 2;
        let to = from + enough as usize;
        let mut paths = paths;
        paths[lost].cut = Some((from, to));
        let times = sent(gap_ns, &[], to + enough as usize);
        let reported = play(&times, &paths);
        let slack = 400 * MS + 3 * INTERVAL;
        let bound = rules.path_ns.max(rules.path_packets * gap_ns) + slack;
        prop_assert_eq!(reported.len(), 2, "{:?}", reported);
        let (at, Event { member, kind: EventKind::PathLoss { .. } }) = reported[0] else {
            return Err(TestCaseError::fail(format!("{reported:?}")));
        };
        prop_assert_eq!(member, Some(lost));
        prop_assert!(at >= times[from] && at <= times[from] + bound, "{} {}", at, times[from]);
        let (at, Event { member, kind: EventKind::PathBack { packets } }) = reported[1] else {
            return Err(TestCaseError::fail(format!("{reported:?}")));
        };
        prop_assert_eq!(member, Some(lost));
        // Counted between readings, from the last one at which it still contributed.
        prop_assert!(packets + 2 * INTERVAL / gap_ns + 2 >= enough, "{}", packets);
        prop_assert!(at >= times[to] && at <= times[to] + bound, "{} {}", at, times[to]);
    }

    #[test]
    fn starts_and_ends_alternate_and_all_resets_are_reported(
        steps in prop::collection::vec((0u64..20, 0u64..20, 0u64..15, 0u64..3, 1u64..40), 1..200),
    ) {
        let mut w = MonitoredStream::new(stream(2));
        let mut resets = 0;
        for (both, alone, rogue, reset, looks) in steps {
            w.packets(both, &[0, 1]);
            w.packets(alone, &[1]);
            w.counters().rogue += rogue;
            w.counters().resets += reset;
            resets += reset;
            (0..looks).for_each(|_| _ = w.update());
        }
        (0..41).for_each(|_| _ = w.update());
        let (mut lost, mut flood, mut all_rogue, mut reported) = (false, false, false, 0);
        for (_, event) in &w.reported {
            match event.kind {
                EventKind::PathLoss { .. } => {
                    prop_assert!(event.member == Some(0) && !std::mem::replace(&mut lost, true));
                }
                EventKind::PathBack { .. } => prop_assert!(std::mem::replace(&mut lost, false)),
                EventKind::RogueFlood { .. } => prop_assert!(!std::mem::replace(&mut flood, true)),
                EventKind::RogueFloodEnded { .. } => {
                    prop_assert!(std::mem::replace(&mut flood, false));
                }
                EventKind::AllRogue { .. } => {
                    prop_assert!(!std::mem::replace(&mut all_rogue, true));
                }
                EventKind::AllRogueEnded { .. } => {
                    prop_assert!(std::mem::replace(&mut all_rogue, false));
                }
                EventKind::Reset { count, .. } => reported += count,
                EventKind::StuckTransmitter { .. } | EventKind::StuckTransmitterEnded { .. } => {
                    prop_assert!(false, "no member has individual recovery");
                }
            }
        }
        prop_assert!(!flood);
        prop_assert_eq!(reported, resets);
    }
}

#[test]
fn messages_have_a_singular() {
    for (kind, text) in [
        (EventKind::PathLoss { packets: 1 }, "path lost: 1 packet passed without it"),
        (EventKind::PathLoss { packets: 2 }, "path lost: 2 packets passed without it"),
        (EventKind::PathBack { packets: 1 }, "path restored after 1 packet without it"),
        (EventKind::PathBack { packets: 2 }, "path restored after 2 packets without it"),
    ] {
        assert_eq!(kind.to_string(), text);
    }
}
