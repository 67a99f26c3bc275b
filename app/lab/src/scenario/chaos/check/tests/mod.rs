//! A violation of each rule: a valid trace, changed at one point.

mod trace;

use proptest::prelude::*;

use self::trace::*;
use super::super::spec::{Egress, Function, Span};
use super::*;

#[test]
fn a_valid_trace_violates_no_rule() {
    for history in [Some(2), Some(64), None] {
        let trace = Trace::eliminated(history);
        trace.breaks(&[]);
        let tally = check(&trace.case).tally;
        assert_eq!((tally.checked, tally.delivered, tally.excused), (FRAMES, FRAMES, 0));
        assert_eq!((tally.counters, tally.exact), (13, 13));
        assert_eq!(tally.latency_ns, LATENCY);
    }
    let trace = Trace::generated(65_400);
    let tally = check(&trace.case).tally;
    assert_eq!((tally.numbered, tally.wrapped, tally.checked), (FRAMES, 1, 2 * FRAMES));
}

#[test]
fn a_generator_starts_at_0() {
    Trace::generated(0).breaks(&[]);
    Trace::generated(1).breaks(&[Rule::Numbers]);
}

#[test]
fn a_frame_that_does_not_leave_is_a_violation() {
    for history in [Some(3), Some(64), None] {
        let mut trace = Trace::eliminated(history).uncounted();
        trace.remove(0, false, 77);
        trace.breaks(&[Rule::Delivered]);
        let verdict = check(&trace.case);
        let violation = &verdict.violations[0];
        assert_eq!((violation.node.as_str(), violation.port.as_deref()), ("n", Some("host")));
        assert_eq!((violation.at, violation.frames.len()), (BEGIN + 77 * PERIOD, 2));
        assert!(violation.text.contains("frame 77, number 77"), "{violation}");
    }
    // With the shortest history the next one could not have been accepted either.
    let mut trace = Trace::eliminated(Some(2)).uncounted();
    trace.remove(0, false, 77);
    trace.breaks(&[Rule::Delivered, Rule::Window]);
}

#[test]
fn a_replica_that_does_not_leave_is_a_violation() {
    let mut trace = Trace::generated(0).uncounted();
    trace.remove(2, false, 77);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_lost_on_one_path_must_leave() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    trace.remove(1, true, 50);
    trace.frame(0, false, 50).at += PERIOD / 2;
    trace.breaks(&[]);
    trace.remove(0, false, 50);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_outside_of_the_history_must_not_be_accepted() {
    let late = |lag: u64, leaves: bool| {
        let mut trace = Trace::eliminated(Some(8)).uncounted();
        trace.remove(1, true, 100);
        trace.remove(0, false, 100);
        let copy = trace.frame(2, true, 100);
        copy.at += lag * PERIOD;
        let at = copy.at - BEGIN;
        if leaves {
            trace.add(at + LATENCY, 0, false, 100, None);
        }
        trace.sorted()
    };
    late(3, true).breaks(&[]);
    late(3, false).breaks(&[Rule::Delivered]);
    late(30, false).breaks(&[]);
    assert_eq!(check(&late(30, false).case).tally.outside, 1);
    late(30, true).breaks(&[Rule::Window]);
}

#[test]
fn a_frame_that_leaves_twice_is_a_violation() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    trace.add(90 * PERIOD + PERIOD / 2 + LATENCY, 0, false, 90, None);
    trace.sorted().breaks(&[Rule::Once]);
    let mut trace = Trace::generated(0).uncounted();
    trace.add(90 * PERIOD + 2 * LATENCY, 2, false, 90, Some(90));
    trace.sorted().breaks(&[Rule::Once]);
}

/// The arrival of the copies decides: a node without CPU time may send both at the same time later.
#[test]
fn copies_a_time_out_apart_may_leave_together() {
    let held = |apart: u64| {
        let mut trace = Trace::eliminated(Some(16)).uncounted();
        trace.case.sightings.retain(|sighting| sighting.sequence <= 100);
        let at = 101 * PERIOD;
        trace.add(at, 1, true, 101, Some(101));
        trace.add(at + apart, 2, true, 101, Some(101));
        trace.add(at + apart + LATENCY, 0, false, 101, None);
        trace.add(at + apart + 2 * LATENCY, 0, false, 101, None);
        trace
    };
    held(205 * MS).breaks(&[]);
    held(20 * MS).breaks(&[Rule::Once]);
}

#[test]
fn match_recovery_may_repeat_any_frame_but_the_last() {
    // The copies arrive after another frame was accepted.
    let mut trace = Trace::eliminated(None).uncounted();
    for sequence in 100..200 {
        let copy = trace.frame(2, true, sequence);
        copy.at += 5 * PERIOD;
        let at = copy.at - BEGIN;
        trace.add(at + LATENCY, 0, false, sequence, None);
    }
    let trace = trace.sorted();
    trace.breaks(&[]);
    assert_eq!(check(&trace.case).tally.repeated, 100);
    // Here it was the last.
    let mut trace = Trace::eliminated(None).uncounted();
    trace.add(90 * PERIOD + PERIOD / 2 + LATENCY, 0, false, 90, None);
    trace.sorted().breaks(&[Rule::Once]);
}

#[test]
fn a_time_out_resets_the_function_and_must_occur() {
    // Frames up to 100, a pause, and then a frame of this number.
    let paused = |pause: u64, number: u16, leaves: bool| {
        let mut trace = Trace::eliminated(Some(16)).uncounted();
        trace.case.sightings.retain(|sighting| sighting.sequence <= 100);
        let at = 100 * PERIOD + pause;
        trace.add(at, 1, true, number.into(), Some(number));
        if leaves {
            trace.add(at + LATENCY, 0, false, number.into(), None);
        }
        trace
    };
    paused(300 * MS, 10, true).breaks(&[]);
    paused(100 * MS, 10, false).breaks(&[]);
    paused(100 * MS, 10, true).breaks(&[Rule::Once, Rule::Window]);
    // A new frame, far ahead: rogue before the timeout, and not after it.
    paused(100 * MS, 300, false).breaks(&[]);
    paused(300 * MS, 300, true).breaks(&[]);
    paused(300 * MS, 300, false).breaks(&[Rule::Delivered]);
}

#[test]
fn losses_are_excused_only_while_the_interface_is_unavailable() {
    for (frame, rules) in [(150, &[][..]), (90, &[Rule::Delivered][..]), (230, &[Rule::Delivered])]
    {
        let mut trace = Trace::generated(0).uncounted();
        trace.disturb(Some(1), 140 * PERIOD, 160 * PERIOD);
        trace.remove(1, false, frame);
        trace.breaks(rules);
        // The other port was available.
        let mut trace = Trace::generated(0).uncounted();
        trace.disturb(Some(1), 140 * PERIOD, 160 * PERIOD);
        trace.remove(2, false, frame);
        trace.breaks(&[Rule::Delivered]);
    }
}

#[test]
fn a_frame_that_leaves_without_arriving_is_a_violation() {
    let mut trace = Trace::generated(0).uncounted();
    trace.add(50 * PERIOD + PERIOD / 3, 1, false, 5000, Some(51));
    trace.breaks(&[Rule::Ghost]);
    let mut trace = Trace::generated(0).uncounted();
    trace.add(50 * PERIOD + LATENCY, 0, false, 50, None);
    trace.breaks(&[Rule::Ghost]);
    // It left before it arrived.
    let mut trace = Trace::new(relay());
    trace.add(0, 1, false, 0, None);
    trace.add(PERIOD, 0, true, 0, None);
    trace.breaks(&[Rule::Ghost]);
}

#[test]
fn a_changed_frame_is_a_violation() {
    let changes: [fn(&mut Sighting); 3] = [
        |frame| frame.vlan = Some(11),
        |frame| frame.vlan = None,
        |frame| frame.destination = MacAddress([9; 6]),
    ];
    for change in changes {
        let mut trace = Trace::eliminated(Some(16));
        change(trace.frame(0, false, 33));
        trace.breaks(&[Rule::Headers]);
    }
    let mut trace = Trace::eliminated(Some(16));
    trace.frame(0, false, 33).number = Some(33);
    trace.breaks(&[Rule::Headers]);
    let mut trace = Trace::generated(0).uncounted();
    trace.frame(1, false, 33).number = None;
    trace.breaks(&[Rule::Headers]);
    let trace = Trace { case: TrialCase { corrupted: 1, ..Trace::generated(0).case } };
    trace.breaks(&[Rule::Headers]);
}

#[test]
fn a_missing_or_repeated_number_is_a_violation() {
    // From frame 60 on all numbers are one too high.
    let mut trace = Trace::generated(0).uncounted();
    for frame in trace.case.sightings.iter_mut().filter(|frame| frame.sequence >= 60) {
        frame.number = frame.number.map(|number| number + 1);
    }
    trace.breaks(&[Rule::Numbers]);
    let mut trace = Trace::generated(0).uncounted();
    for port in [1, 2] {
        trace.frame(port, false, 60).number = Some(59);
    }
    trace.breaks(&[Rule::Numbers, Rule::Numbers]);
    // Replicas of one frame.
    let mut trace = Trace::generated(0).uncounted();
    trace.frame(2, false, 60).number = Some(61);
    trace.breaks(&[Rule::Numbers]);
}

#[test]
fn a_frame_without_an_observed_exit_has_a_number() {
    let mut trace = Trace::generated(0).uncounted();
    trace.disturb(Some(1), 60 * PERIOD, 60 * PERIOD + MS);
    trace.disturb(Some(2), 60 * PERIOD, 60 * PERIOD + MS);
    trace.remove(1, false, 60);
    trace.remove(2, false, 60);
    trace.breaks(&[]);
    // Without a number for it, the next one would be too low.
    for frame in trace.case.sightings.iter_mut().filter(|frame| frame.sequence > 60) {
        frame.number = frame.number.map(|number| number - 1);
    }
    trace.breaks(&[Rule::Numbers]);
}

#[test]
fn reordered_frames_of_one_port_are_a_violation() {
    let mut trace = Trace::new(relay());
    for sequence in 0..20 {
        trace.add(sequence * PERIOD, 0, true, sequence, None);
    }
    for sequence in [0, 1, 2, 4, 3, 5, 6] {
        trace.add(20 * PERIOD, 1, false, sequence, None);
    }
    for sequence in 7..20 {
        trace.add(20 * PERIOD, 1, false, sequence, None);
    }
    trace.breaks(&[Rule::Order]);
}

#[test]
fn frames_of_two_ports_may_change_their_order() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    // Frame 40 arrived by the second path only, and late.
    trace.remove(1, true, 40);
    trace.remove(0, false, 40);
    trace.frame(2, true, 40).at += 2 * PERIOD;
    trace.add(42 * PERIOD + PERIOD / 2 + LATENCY, 0, false, 40, None);
    trace.sorted().breaks(&[]);
}

#[test]
fn counters_that_differ_by_one_are_a_violation() {
    let changes: [fn(&mut NodeCounters); 9] = [
        |counted| stream(counted).inputs[0].1 += 1,
        |counted| stream(counted).outputs[0].1 -= 1,
        |counted| recovery(counted).passed += 1,
        |counted| recovery(counted).discarded -= 1,
        |counted| recovery(counted).rogue += 1,
        |counted| recovery(counted).tagless += 1,
        |counted| counted.unmatched[1] += 1,
        |counted| *of_port(counted) += 1,
        |counted| *of_port(counted) -= 1,
    ];
    for change in changes {
        let mut trace = Trace::eliminated(Some(16));
        change(trace.case.counted[0].as_mut().unwrap());
        let rules = trace.rules();
        assert!(rules.iter().all(|rule| *rule == Rule::Counters) && !rules.is_empty());
    }
    let mut trace = Trace::generated(7);
    trace.case.sightings.iter_mut().for_each(|s| s.number = s.number.map(|n| n - 7));
    trace.breaks(&[Rule::Counters]);
    let mut trace = Trace::eliminated(Some(16));
    trace.case.counted[0].as_mut().unwrap().streams[0] = None;
    // The ports may count packets of a removed stream.
    trace.breaks(&[Rule::Counters]);
    let mut trace = Trace::eliminated(Some(16));
    trace.case.foreign[0][2] = 3;
    trace.breaks(&[Rule::Counters]);
}

fn of_port(counted: &mut NodeCounters) -> &mut u64 {
    let (port, _) = stream(counted).inputs[0];
    &mut counted.inputs[port]
}

fn stream(counted: &mut NodeCounters) -> &mut StreamCounters {
    counted.streams[0].as_mut().unwrap()
}

fn recovery(counted: &mut NodeCounters) -> &mut RecoveryCounters {
    stream(counted).recovery.as_mut().unwrap()
}

/// Frames queued in a stopped data plane are excused; frames that arrived before the last observed exit
/// are not.
#[test]
fn frames_queued_in_a_stopped_data_plane_are_excused() {
    let mut trace = Trace::generated(0).uncounted();
    trace.disturb(None, 200 * PERIOD, 250 * PERIOD);
    trace.case.sightings.retain(|s| s.entering || !(150..=250).contains(&s.sequence));
    for sighting in &mut trace.case.sightings {
        // It was reset.
        sighting.number = sighting.number.map(|n| if n > 250 { n - 251 } else { n });
    }
    trace.breaks(&[]);
    for port in [1, 2] {
        trace.remove(port, false, 120);
    }
    trace.breaks(&[Rule::Delivered, Rule::Delivered]);
}

#[test]
fn frames_of_a_removed_stream_need_not_leave() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    let change = |at: u64| Span { from: BEGIN + at * PERIOD, to: BEGIN + at * PERIOD + 5 * MS };
    let eras = &mut trace.case.eras[0][0];
    let function = eras[0].function.clone();
    eras.push(Era { begins: change(200), function: None, step: Some(0) });
    eras.push(Era { begins: change(300), function, step: Some(1) });
    let mut gone = Trace { case: trace.case.clone() };
    gone.case.sightings.retain(|s| s.entering || !(202..302).contains(&s.sequence));
    gone.breaks(&[]);
    // One is still forwarded; one is missing after the stream is back.
    let slipped = trace.remove(0, false, 250);
    gone.case.sightings.push(slipped);
    gone.breaks(&[Rule::Ghost]);
    gone.case.sightings.pop();
    gone.remove(0, false, 350);
    gone.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_accepted_before_a_port_was_added_need_not_leave_by_it() {
    // Frame 100 arrives by the first path only, then path 2 becomes an egress port, then its second
    // copy arrives.
    let mut trace = Trace::eliminated(Some(64)).uncounted();
    trace.case.sightings.retain(|sighting| sighting.sequence <= 100);
    let eras = &mut trace.case.eras[0][0];
    let mut function = eliminator(Some(64));
    function.members = vec![1];
    function.egress.push(Egress { port: 2, headers: headers(true) });
    let at = BEGIN + 100 * PERIOD;
    let begins = Span { from: at + 10 * MS, to: at + 20 * MS };
    eras.push(Era { begins, function: Some(function), step: Some(0) });
    let late = 100 * PERIOD + 40 * MS;
    trace.add(late, 1, true, 100, Some(100));
    trace.breaks(&[]);
    // A frame that arrived later must leave there.
    trace.add(late + MS, 1, true, 101, Some(101));
    trace.add(late + MS + LATENCY, 0, false, 101, None);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn copies_discarded_by_individual_recovery_do_not_leave() {
    let twice = |leaves: bool| {
        let mut function = relay();
        function.individual_ms = Some(500);
        let mut trace = Trace::new(function);
        for sequence in 0..100 {
            let (at, number) = (sequence * PERIOD, Some(sequence as u16));
            trace.add(at, 0, true, sequence, number);
            trace.add(at + 1000, 0, true, sequence, number);
            trace.add(at + LATENCY, 1, false, sequence, None);
            if leaves && sequence == 60 {
                trace.add(at + LATENCY + 1, 1, false, sequence, None);
            }
        }
        let individual = vec![(0, 100)];
        let inputs = vec![(0, 200)];
        let outputs = vec![(1, 100)];
        let stream = StreamCounters { inputs, individual, outputs, ..StreamCounters::default() };
        let (unmatched, inputs) = (vec![0; 3], vec![200, 0, 0]);
        trace.case.counted =
            vec![Some(NodeCounters { streams: vec![Some(stream)], unmatched, inputs })];
        trace
    };
    twice(false).breaks(&[]);
    twice(true).uncounted().breaks(&[Rule::Once]);
    let mut trace = twice(false);
    stream(trace.case.counted[0].as_mut().unwrap()).individual[0].1 -= 1;
    trace.breaks(&[Rule::Counters]);
    // After a timeout it accepts the same number again.
    let mut trace = twice(false).uncounted();
    trace.add(100 * PERIOD + 900 * MS, 0, true, 99, Some(99));
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn a_copy_without_a_number_does_not_change_individual_recovery() {
    let mut function = relay();
    function.individual_ms = Some(500);
    let mut trace = Trace::new(function);
    for sequence in 0..100 {
        let (at, number) = (sequence * PERIOD, Some(sequence as u16));
        trace.add(at, 0, true, sequence, number);
        trace.add(at + 500, 0, true, sequence, None);
        trace.add(at + 1000, 0, true, sequence, number);
        trace.add(at + LATENCY, 1, false, sequence, None);
    }
    let (individual, inputs, outputs) = (vec![(0, 100)], vec![(0, 300)], vec![(1, 100)]);
    let stream = StreamCounters { inputs, individual, outputs, ..StreamCounters::default() };
    let (unmatched, inputs) = (vec![0; 3], vec![300, 0, 0]);
    trace.case.counted =
        vec![Some(NodeCounters { streams: vec![Some(stream)], unmatched, inputs })];
    trace.breaks(&[]);
}

#[test]
fn a_frame_that_arrives_during_a_change_may_be_rogue_to_the_old_function() {
    let counted = |rogue: u64| {
        let mut trace = Trace::eliminated(Some(8));
        trace.frame(2, true, 60).at += 40 * PERIOD;
        let begins =
            Span { from: BEGIN + 100 * PERIOD + 2 * LATENCY, to: BEGIN + 101 * PERIOD - LATENCY };
        let era = Era { begins, function: Some(eliminator(None)), step: None };
        trace.case.eras[0][0].push(era);
        recovery(trace.case.counted[0].as_mut().unwrap()).rogue = rogue;
        trace.sorted()
    };
    counted(0).breaks(&[]);
    counted(1).breaks(&[]);
    counted(9).breaks(&[Rule::Counters]);
}

#[test]
fn a_changed_function_may_repeat_a_frame_by_its_ports_in_another_order() {
    let two_ways = |history: u16| {
        let egress = |port| Egress { port, headers: headers(false) };
        Function { egress: vec![egress(0), egress(2)], ..eliminator(Some(history)) }
    };
    let twice = |changes: bool| {
        let mut trace = Trace::new(two_ways(8));
        let mut pass = |at: u64, sequence: u64, ports: [usize; 2]| {
            trace.add(at, 1, true, sequence, Some(sequence as u16));
            for (port, later) in ports.into_iter().zip([0, MS / 500]) {
                trace.add(at + LATENCY + later, port, false, sequence, None);
            }
        };
        for sequence in 0..FRAMES {
            pass(sequence * PERIOD, sequence, [2, 0]);
        }
        pass(100 * PERIOD + PERIOD / 2, 100, [0, 2]);
        if changes {
            let at = BEGIN + 100 * PERIOD + PERIOD / 3;
            let begins = Span { from: at, to: at + MS / 50 };
            trace.case.eras[0][0].push(Era { begins, function: Some(two_ways(16)), step: None });
        }
        trace.sorted()
    };
    twice(true).breaks(&[]);
    twice(false).breaks(&[Rule::Once, Rule::Once]);
}

#[test]
fn match_recovery_may_accept_a_frame_again_while_its_egress_port_is_unavailable() {
    const AWAY: std::ops::Range<u64> = 100..210;
    let counted = |again: u64| {
        let mut trace = Trace::eliminated(None);
        for sequence in AWAY {
            trace.frame(2, true, sequence).at += 5 * PERIOD;
            trace.remove(0, false, sequence);
        }
        trace.disturb(Some(0), AWAY.start * PERIOD - 1, (AWAY.end + 5) * PERIOD + PERIOD / 2 + MS);
        for sequence in AWAY.end..AWAY.end + 6 {
            trace.remove(0, false, sequence);
        }
        let counted = trace.case.counted[0].as_mut().unwrap();
        let stream = stream(counted);
        stream.outputs[0].1 += again;
        let recovery = stream.recovery.as_mut().unwrap();
        recovery.passed += again;
        recovery.discarded -= again;
        trace.sorted()
    };
    let copies = AWAY.end - AWAY.start;
    counted(copies).breaks(&[]);
    assert!(counted(copies + 20).rules().contains(&Rule::Counters));
}

/// A simple vector recovery: a list of accepted numbers.
struct ListRecovery {
    history: u16,
    newest: Option<u16>,
    accepted: Vec<u16>,
}

impl ListRecovery {
    fn packet(&mut self, number: u16) -> bool {
        let Some(newest) = self.newest else {
            (self.newest, self.accepted) = (Some(number), vec![number]);
            return true;
        };
        let ahead = window::distance(number, newest);
        if ahead.abs() >= i32::from(self.history) || self.accepted.contains(&number) {
            return false;
        }
        self.accepted.push(number);
        if ahead > 0 {
            self.newest = Some(number);
        }
        true
    }
}

proptest! {
    /// A correct node never violates a rule, for any impairment of the paths and any order in which it
    /// processes queued frames.
    #[test]
    fn a_correct_node_violates_no_rule(
        history in prop::sample::select(vec![2_u16, 5, 16, 100]),
        first: u16,
        paths in prop::collection::vec((0.0..1.0_f64, 0..40_u64, 0..3_u8), 2 * 150),
        delays in prop::collection::vec(1..2_000_000_u64, 300),
    ) {
        let mut trace = Trace::new(eliminator(Some(history)));
        let mut arrivals = Vec::new();
        for sequence in 0..150_u64 {
            for port in [1, 2] {
                let (lost, lag, copies) = paths[2 * sequence as usize + port - 1];
                let copies = if lost < 0.2 { 0 } else { 1 + u64::from(copies == 2) };
                for copy in 0..copies {
                    let at = sequence * PERIOD + lag * PERIOD / 4 + copy * 10;
                    arrivals.push((at, port, sequence, first.wrapping_add(sequence as u16)));
                }
            }
        }
        arrivals.sort_unstable();
        // Each port is processed in order, at any time after the frame arrived.
        let mut worked: [u64; 3] = [0; 3];
        let mut work = Vec::new();
        for (turn, (at, port, sequence, number)) in arrivals.iter().enumerate() {
            trace.add(*at, *port, true, *sequence, Some(*number));
            worked[*port] = worked[*port].max(at + delays[turn % delays.len()]);
            work.push((worked[*port], turn, *sequence, *number));
        }
        work.sort_unstable();
        let mut function = ListRecovery { history, newest: None, accepted: Vec::new() };
        for (at, _, sequence, number) in work {
            if function.packet(number) {
                trace.add(at, 0, false, sequence, None);
            }
        }
        let verdict = check(&trace.case);
        prop_assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    }
}
