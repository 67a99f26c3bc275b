//! Each rule, broken: a trace that is as it must be, changed in one place.

mod trace;

use proptest::prelude::*;

use self::trace::*;
use super::super::spec::{Egress, Function, Span};
use super::*;

#[test]
fn what_is_as_it_must_be_breaks_no_rule() {
    for history in [Some(2), Some(64), None] {
        let trace = Trace::eliminated(history);
        trace.breaks(&[]);
        let tally = check(&trace.case).tally;
        assert_eq!((tally.judged, tally.delivered, tally.excused), (FRAMES, FRAMES, 0));
        assert_eq!((tally.counters, tally.exact), (13, 13));
        assert_eq!(tally.latency_ns, LATENCY);
    }
    let trace = Trace::generated(65_400);
    let tally = check(&trace.case).tally;
    assert_eq!((tally.numbered, tally.wrapped, tally.judged), (FRAMES, 1, 2 * FRAMES));
}

#[test]
fn a_generator_begins_at_0() {
    Trace::generated(0).breaks(&[]);
    Trace::generated(1).breaks(&[Rule::Numbers]);
}

#[test]
fn a_frame_that_does_not_leave_is_missed() {
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
    // With the shortest history the next one could not have been accepted, either.
    let mut trace = Trace::eliminated(Some(2)).uncounted();
    trace.remove(0, false, 77);
    trace.breaks(&[Rule::Delivered, Rule::Window]);
}

#[test]
fn a_replica_that_does_not_leave_is_missed() {
    let mut trace = Trace::generated(0).uncounted();
    trace.remove(2, false, 77);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_that_was_lost_on_one_path_must_leave_all_the_same() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    trace.remove(1, true, 50);
    trace.frame(0, false, 50).at += PERIOD / 2;
    trace.breaks(&[]);
    trace.remove(0, false, 50);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_behind_the_history_may_be_discarded_and_not_accepted() {
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
fn a_frame_that_leaves_twice_is_found() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    trace.add(90 * PERIOD + PERIOD / 2 + LATENCY, 0, false, 90, None);
    trace.sorted().breaks(&[Rule::Once]);
    let mut trace = Trace::generated(0).uncounted();
    trace.add(90 * PERIOD + 2 * LATENCY, 2, false, 90, Some(90));
    trace.sorted().breaks(&[Rule::Once]);
}

/// Decided by when the copies came: a node that had no CPU lets go of both at once.
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
fn match_recovery_repeats_only_what_is_not_the_last() {
    // The copies come after another frame was accepted.
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
fn a_time_out_makes_the_function_take_anything_and_must_come() {
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
    // A new frame, far ahead: rogue before the time-out, and not after it.
    paused(100 * MS, 300, false).breaks(&[]);
    paused(300 * MS, 300, true).breaks(&[]);
    paused(300 * MS, 300, false).breaks(&[Rule::Delivered]);
}

#[test]
fn what_an_interface_took_is_excused_and_nothing_before_or_after() {
    for (frame, rules) in [(150, &[][..]), (90, &[Rule::Delivered][..]), (230, &[Rule::Delivered])]
    {
        let mut trace = Trace::generated(0).uncounted();
        trace.disturb(Some(1), 140 * PERIOD, 160 * PERIOD);
        trace.remove(1, false, frame);
        trace.breaks(rules);
        // The other port was there.
        let mut trace = Trace::generated(0).uncounted();
        trace.disturb(Some(1), 140 * PERIOD, 160 * PERIOD);
        trace.remove(2, false, frame);
        trace.breaks(&[Rule::Delivered]);
    }
}

#[test]
fn a_frame_out_of_nowhere_is_found() {
    let mut trace = Trace::generated(0).uncounted();
    trace.add(50 * PERIOD + PERIOD / 3, 1, false, 5000, Some(51));
    trace.breaks(&[Rule::Ghost]);
    let mut trace = Trace::generated(0).uncounted();
    trace.add(50 * PERIOD + LATENCY, 0, false, 50, None);
    trace.breaks(&[Rule::Ghost]);
    // It left before it came.
    let mut trace = Trace::new(relay());
    trace.add(0, 1, false, 0, None);
    trace.add(PERIOD, 0, true, 0, None);
    trace.breaks(&[Rule::Ghost]);
}

#[test]
fn a_frame_that_looks_otherwise_is_found() {
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
fn a_number_that_is_left_out_or_given_twice_is_found() {
    // From frame 60 on all are one too far.
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
fn a_frame_that_nobody_saw_leave_has_a_number_nevertheless() {
    let mut trace = Trace::generated(0).uncounted();
    trace.disturb(Some(1), 60 * PERIOD, 60 * PERIOD + MS);
    trace.disturb(Some(2), 60 * PERIOD, 60 * PERIOD + MS);
    trace.remove(1, false, 60);
    trace.remove(2, false, 60);
    trace.breaks(&[]);
    // Had it none, the next one's would be too low.
    for frame in trace.case.sightings.iter_mut().filter(|frame| frame.sequence > 60) {
        frame.number = frame.number.map(|number| number - 1);
    }
    trace.breaks(&[Rule::Numbers]);
}

#[test]
fn frames_of_one_port_that_change_their_order_are_found() {
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
    // Frame 40 came by the second path alone, and late.
    trace.remove(1, true, 40);
    trace.remove(0, false, 40);
    trace.frame(2, true, 40).at += 2 * PERIOD;
    trace.add(42 * PERIOD + PERIOD / 2 + LATENCY, 0, false, 40, None);
    trace.sorted().breaks(&[]);
}

#[test]
fn counters_that_are_one_off_are_found() {
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
    // What its ports count may be of a stream that it had.
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

/// What waited when a data plane was ended went with it; what came before the last frame that left
/// did not.
#[test]
fn a_plane_that_had_no_time_before_it_ended_is_excused() {
    let mut trace = Trace::generated(0).uncounted();
    trace.disturb(None, 200 * PERIOD, 250 * PERIOD);
    trace.case.sightings.retain(|s| s.entering || !(150..=250).contains(&s.sequence));
    for sighting in &mut trace.case.sightings {
        // It began anew.
        sighting.number = sighting.number.map(|n| if n > 250 { n - 251 } else { n });
    }
    trace.breaks(&[]);
    for port in [1, 2] {
        trace.remove(port, false, 120);
    }
    trace.breaks(&[Rule::Delivered, Rule::Delivered]);
}

#[test]
fn a_stream_that_is_taken_away_is_not_waited_for() {
    let mut trace = Trace::eliminated(Some(16)).uncounted();
    let change = |at: u64| Span { from: BEGIN + at * PERIOD, to: BEGIN + at * PERIOD + 5 * MS };
    let eras = &mut trace.case.eras[0][0];
    let function = eras[0].function.clone();
    eras.push(Era { begins: change(200), function: None, step: Some(0) });
    eras.push(Era { begins: change(300), function, step: Some(1) });
    let mut gone = Trace { case: trace.case.clone() };
    gone.case.sightings.retain(|s| s.entering || !(202..302).contains(&s.sequence));
    gone.breaks(&[]);
    // One slips through; one is missing after it came back.
    let slipped = trace.remove(0, false, 250);
    gone.case.sightings.push(slipped);
    gone.breaks(&[Rule::Ghost]);
    gone.case.sightings.pop();
    gone.remove(0, false, 350);
    gone.breaks(&[Rule::Delivered]);
}

#[test]
fn a_frame_that_was_accepted_before_its_port_came_is_not_waited_for_there() {
    // Frame 100 by the first path alone, then path 2 leads out as well, then its second copy comes.
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
    // One that came after that has to leave there.
    trace.add(late + MS, 1, true, 101, Some(101));
    trace.add(late + MS + LATENCY, 0, false, 101, None);
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn what_individual_recovery_discards_does_not_go_on() {
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
    // After a time-out it takes the same number again.
    let mut trace = twice(false).uncounted();
    trace.add(100 * PERIOD + 900 * MS, 0, true, 99, Some(99));
    trace.breaks(&[Rule::Delivered]);
}

#[test]
fn what_has_no_number_leaves_individual_recovery_as_it_is() {
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
fn a_frame_that_comes_while_its_function_changes_may_be_rogue_to_the_one_before() {
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
fn a_frame_may_leave_again_by_its_ports_in_another_order_once_its_function_has_changed() {
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
fn match_recovery_may_accept_a_frame_again_while_its_way_out_is_away() {
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

/// The plainest vector recovery: a list of what was accepted.
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
    /// A node that does what it must is never blamed, whatever paths do to frames and in whichever
    /// order it works on those that are there.
    #[test]
    fn a_node_that_is_right_is_never_blamed(
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
        // Each port is worked on in order, at any time after the frame came.
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
