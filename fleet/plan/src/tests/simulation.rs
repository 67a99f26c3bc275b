//! Simulations: store-and-forward networks with full bursts, and recovery with slow and fast paths.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::{Recovery, Role};

use super::random::{self, Random};
use crate::delay::{DelayRange, OTHER};
use crate::ladder::{self, RecoverAt};
use crate::network::{GAP, Network};
use crate::plan::{Plan, PreviousRoutes, StreamPlan};
use crate::window::Window;

/// A frame at the egress queue of an arc: time, order, arc, stream, number, time of its creation.
type Event = (u64, u64, u32, usize, u32, u64);

/// Plays frames through first-in-first-out queues. A frame at an idle queue waits for a frame of other traffic. Returns the
/// longest delay to each listener of each stream. With `gathers`, nodes forward the frames of several lines together.
fn play(
    network: &Network,
    plan: &Plan,
    random: &mut Random,
    frames: u32,
    gathers: bool,
) -> Vec<Vec<u64>> {
    let mut events: BinaryHeap<Reverse<Event>> = BinaryHeap::new();
    let mut order = 0;
    let mut push = |events: &mut BinaryHeap<_>, time, arc: u32, stream, number, born| {
        order += 1;
        events.push(Reverse((time, order, arc, stream, number, born)));
    };
    let parts: Vec<_> = network
        .streams
        .iter()
        .zip(&plan.routes)
        .map(|(stream, route)| route.as_ref().map(|route| route.parts(network, stream)))
        .collect();
    for (index, parts) in parts.iter().enumerate() {
        let Some(parts) = parts else { continue };
        let stream = &network.streams[index];
        // Half of the streams start together, or all: a full burst.
        let start = match random.below(2) {
            _ if gathers => 0,
            0 => 0,
            _ => random.below(stream.interval_ns as usize) as u64,
        };
        for number in 0..frames {
            let born = start + u64::from(number) * stream.interval_ns;
            for arc in &parts[0].egress {
                push(&mut events, born, arc.0, index, number, born);
            }
        }
    }
    let mut free = vec![0u64; 2 * network.links.len()];
    let mut passed = BTreeSet::new();
    let mut longest: Vec<Vec<u64>> =
        network.streams.iter().map(|stream| vec![0; stream.listeners.len()]).collect();
    while let Some(Reverse((time, _, arc, index, number, born))) = events.pop() {
        let stream = &network.streams[index];
        let arc = crate::network::Arc(arc);
        let line_ns = network.line_time(arc, stream.octets());
        let start = match free[arc.index()] {
            busy if busy > time => busy,
            // A frame of other traffic has just started.
            _ => time + network.line_time(arc, OTHER) - 1,
        };
        free[arc.index()] = start + line_ns;
        // The last octet leaves before the gap.
        let left = start + line_ns - network.line_time(arc, u64::from(GAP)) + 1;
        let node = network.ends(arc).1;
        let forwarding = network.nodes[node as usize].forwarding_ns;
        let received = left + network.links[arc.link()].delay_ns;
        let arrived = match gathers {
            true => received.next_multiple_of(forwarding),
            false => received + random.below(forwarding as usize + 1) as u64,
        };
        let parts = parts[index].as_ref().expect("a route");
        let part = parts.iter().position(|part| part.ingress.contains(&arc)).expect("a part");
        if let Some(relay) = plan.relays[index].iter().find(|relay| relay.node == node) {
            let delay = arrived - born;
            let DelayRange { shortest_ns, latest_copy_ns, .. } = relay.delay;
            assert!(
                (shortest_ns..=latest_copy_ns).contains(&delay),
                "{delay} at {node}: {relay:?} {:?}",
                plan.routes[index]
            );
        }
        if parts[part].recovers && !passed.insert((index, part, number)) {
            continue;
        }
        if parts[part].delivers {
            let of = stream.listeners.iter().position(|listener| *listener == node);
            let of = of.expect("a listener");
            assert!(arrived - born >= plan.delays[index][of].shortest_ns);
            let longest = &mut longest[index][of];
            *longest = (*longest).max(arrived - born);
        }
        for next in &parts[part].egress {
            push(&mut events, arrived, next.0, index, number, born);
        }
    }
    longest
}

#[test]
fn no_simulated_delay_exceeds_the_stated_bound() {
    let mut random = Random(21);
    let (mut delays, mut tight, mut rungs) = (0, 0.0f64, 0);
    for round in 0..120 {
        let nodes = 4 + random.below(8);
        let mut network = random::connected(&mut random, nodes, nodes);
        let forwarding_ns = [2000, 20_000][round % 2];
        network.nodes.iter_mut().for_each(|node| node.forwarding_ns = forwarding_ns);
        if round % 3 == 0 {
            let speeds = [100, 1000, 2500, 40_000];
            network.links.iter_mut().for_each(|link| link.speed_mbps = speeds[random.below(4)]);
        }
        let streams = if round % 10 == 9 { 150 } else { 30 };
        for number in 0..streams {
            let talker = random.below(nodes);
            let most = 1 + random.below(3);
            let listeners = random::listeners(&mut random, nodes, talker, most);
            if listeners.is_empty() {
                continue;
            }
            let mut stream = random::stream(number, talker, &listeners);
            stream.paths = if round % 8 < 2 { 1 } else { 2 };
            if stream.paths == 2 && listeners.len() == 1 && round % 3 == 1 {
                stream.recover_at = RecoverAt::Auto;
            }
            stream.size = 64 + random.below(1400) as u32;
            stream.interval_ns = [100_000, 250_000, 1_000_000][random.below(3)];
            network.streams.push(stream);
        }
        let plan = Plan::new(&network, &PreviousRoutes::default());
        let longest = play(&network, &plan, &mut random, 40, round % 4 > 1);
        let routed = plan.routed();
        rungs += routed.filter(|(i, route)| ladder::has_rungs(&network.streams[*i], route)).count();
        for (index, longest) in longest.iter().enumerate() {
            if plan.routes[index].is_none() {
                continue;
            }
            for (delay, range) in longest.iter().zip(&plan.delays[index]) {
                assert!(*delay <= range.longest_ns, "{delay} exceeds {range:?}");
                tight = tight.max(*delay as f64 / range.longest_ns as f64);
                delays += 1;
            }
        }
        let refused = plan.streams.iter().filter(|stream| matches!(stream, StreamPlan::Refused(_)));
        assert!(refused.count() < network.streams.len());
    }
    eprintln!("delays: {delays}, up to {:.0} % of their bounds", 100.0 * tight);
    // The simulation comes near the bounds.
    assert!(delays > 500 && tight > 0.5 && rungs > 20, "{delays}, {tight}, {rungs}");
}

#[test]
fn bursts_over_three_lines_come_near_the_bound() {
    for forwarding_ns in [500, 100_000] {
        let mut network = random::network(5, &[(0, 3, 100), (1, 3, 100), (2, 3, 100), (3, 4, 100)]);
        network.nodes.iter_mut().for_each(|node| node.forwarding_ns = forwarding_ns);
        for number in 0..390 {
            let mut stream = random::stream(number, number % 3, &[4]);
            (stream.paths, stream.interval_ns, stream.size) = (1, 10_000_000, 122);
            network.streams.push(stream);
        }
        let plan = Plan::new(&network, &PreviousRoutes::default());
        assert!(plan.is_complete());
        let longest = play(&network, &plan, &mut Random(3), 2, true);
        let longest = longest.iter().flatten().max().unwrap();
        let bound = plan.delays.iter().flatten().map(|range| range.longest_ns).max().unwrap();
        eprintln!("forwarding {forwarding_ns} ns: {longest} of {bound} ns");
        assert!(*longest <= bound && *longest * 100 >= bound * 75);
    }
}

/// Lost and doubled frames of a listener: `before` is the delay of both copies up to frame 5,000, `after` the delay of
/// both later.
fn recover(history_length: u16, before: [u64; 2], after: [u64; 2], interval_ns: u64) -> (u32, u32) {
    let mut function =
        RecoveryFunction::new(&Recovery::vector(history_length), Role::Sequence).expect("valid");
    let mut arrivals = Vec::new();
    for number in 0..10_000u64 {
        for delay in if number < 5000 { before } else { after } {
            arrivals.push((number * interval_ns + delay, number));
        }
    }
    arrivals.sort_unstable();
    let mut received = vec![0u32; 10_000];
    for (time, number) in arrivals {
        let verdict = function.packet(time, Some(number as u16));
        received[number as usize] += u32::from(verdict.is_accept());
    }
    let lost = received.iter().filter(|count| **count == 0).count() as u32;
    let doubled = received.iter().map(|count| count.saturating_sub(1)).sum();
    (lost, doubled)
}

#[test]
fn a_history_of_32_loses_frames_where_64_does_not_and_the_planned_one_never() {
    let interval_ns = 100_000;
    let (old, new) = ([5_000_000, 9_000_000], [100_000, 200_000]);
    // The old frames that are on their way when the new paths are faster are beyond a short history.
    let (lost, _) = recover(32, old, new, interval_ns);
    assert!(lost > 0);
    assert_eq!(recover(64, old, new, interval_ns), (0, 0));
    let range = |[fast, slow]: [u64; 2]| DelayRange {
        shortest_ns: fast,
        longest_ns: slow,
        latest_copy_ns: slow,
    };
    let window = Window::new(interval_ns, &[range(old), range(new)]).unwrap();
    assert!(window.history_length >= 64 && window.reset_timeout_ms > 9 + 40);
    assert_eq!(recover(window.history_length, old, new, interval_ns), (0, 0));
    assert_eq!(recover(window.history_length, new, old, interval_ns), (0, 0));
    // Too long a difference for any history is refused, with the required one.
    assert_eq!(Window::new(1000, &[range([0, 40_000_000])]).unwrap_err().required, 40_002);
}

#[test]
fn planned_histories_cover_any_delays_within_the_bounds() {
    let mut random = Random(5);
    for _ in 0..200 {
        let interval_ns = 20_000 + random.below(1_000_000) as u64;
        let mut delay = || random.below(8_000_000) as u64;
        let pairs = [[delay(), delay()], [delay(), delay()]];
        let range = |[a, b]: [u64; 2]| DelayRange {
            shortest_ns: a.min(b),
            longest_ns: a.max(b),
            latest_copy_ns: a.max(b),
        };
        let window = Window::new(interval_ns, &pairs.map(range)).unwrap();
        let [old, new] = pairs;
        assert_eq!(recover(window.history_length, old, new, interval_ns), (0, 0));
    }
}
