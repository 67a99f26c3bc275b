//! Delay bounds beside a simple computation: all arcs again and again, every excess at every arrival.

use std::collections::{BTreeMap, HashMap};

use super::random::{self, Random};
use crate::delay::{self, OTHER};
use crate::network::{Arc, GAP, Network, Stream};
use crate::plan::{Plan, PreviousRoutes, StreamPlan};
use crate::queue::{self, FRACTION, UNBOUNDED_NS};
use crate::route::Route;

/// A stream at an arc: line time, interval and jitter.
type Arrival = (u64, u64, u64);

/// Arrivals by the line over which they come.
type Groups = BTreeMap<Option<Arc>, Vec<Arrival>>;

/// The work that arrives up to a time at an arc, in 2^-16 ns.
fn work(network: &Network, arc: Arc, groups: &Groups, time: u64) -> u64 {
    let speed = |arc: Arc| u64::from(network.links[arc.link()].speed_mbps);
    let node = network.ends(arc).0 as usize;
    let group = |(before, arrivals): (&Option<Arc>, &Vec<Arrival>)| {
        let frames =
            arrivals.iter().map(|(line, interval, jitter)| line * ((time + jitter) / interval + 1));
        let all = frames.sum::<u64>() << FRACTION;
        let lines = arrivals.iter().map(|(line, ..)| *line);
        let (longest, shortest) = (lines.clone().max().unwrap(), lines.min().unwrap());
        before.map_or(all, |before| {
            let slope = queue::slope(speed(before), speed(arc), shortest);
            let time = time + 1 + network.nodes[node].forwarding_ns;
            all.min((longest << FRACTION) + slope * time)
        })
    };
    (network.line_time(arc, OTHER) << FRACTION) + groups.iter().map(group).sum::<u64>()
}

/// The largest excess of work over time.
fn queue_ns(network: &Network, arc: Arc, groups: &Groups) -> u64 {
    if groups.is_empty() {
        return 0;
    }
    let work = |time| work(network, arc, groups, time);
    let mut end = 1;
    while work(end - 1) > end << FRACTION {
        end = work(end - 1).div_ceil(1 << FRACTION);
        if end > 1_000_000_000 {
            return UNBOUNDED_NS + 1;
        }
    }
    let mut times = vec![0, end];
    for (_, interval, jitter) in groups.values().flatten() {
        let first = interval - jitter % interval;
        times.extend((first..end).step_by(*interval as usize));
    }
    times.sort_unstable();
    times.dedup();
    // Between two arrivals the excess is concave: it rises up to its maximum.
    let largest = |pair: &[u64]| {
        let (mut low, mut high) = (pair[0], pair[1] - 1);
        while low < high {
            let middle = low.midpoint(high);
            match work(middle + 1) > work(middle) + (1 << FRACTION) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        work(low).saturating_sub(low << FRACTION)
    };
    times.windows(2).map(largest).max().unwrap().div_ceil(1 << FRACTION)
}

/// Of each arc of a stream whose copies may change paths, the only arc before it, and the jitter: by every walk that uses
/// no arc twice, or the sum of all delays where a walk comes back to a node.
fn mixed(
    network: &Network,
    stream: &Stream,
    route: &Route,
    queues: &[u64],
    lines: bool,
) -> HashMap<Arc, (Option<Arc>, u64)> {
    let arcs = route.arcs();
    let propagation = |arc: Arc| network.links[arc.link()].delay_ns;
    let forwarding = |arc: Arc| network.nodes[network.ends(arc).1 as usize].forwarding_ns;
    let mut walks: Vec<Vec<Arc>> = vec![Vec::new()];
    let mut next = 0;
    while let Some(walk) = walks.get(next).cloned() {
        next += 1;
        let at = walk.last().map_or(stream.talker, |arc| network.ends(*arc).1);
        for &arc in arcs.iter().filter(|arc| network.ends(**arc).0 == at) {
            let head = network.ends(arc).1;
            if head == stream.talker || walk.iter().any(|arc| network.ends(*arc).1 == head) {
                let times =
                    arcs.iter().map(|a| queues[a.index()] + propagation(*a) + forwarding(*a));
                let whole = times.sum();
                return arcs.iter().map(|arc| (*arc, (None, whole))).collect();
            }
            walks.push([&walk[..], &[arc]].concat());
        }
    }
    let line = |arc: Arc, octets| network.line_time(arc, octets) + propagation(arc);
    let entering = |arc: Arc| -> Vec<Arc> {
        let tail = network.ends(arc).0;
        arcs.iter().copied().filter(|before| network.ends(*before).1 == tail).collect()
    };
    let of_arc = |&arc: &Arc| {
        let before = entering(arc);
        let up_to = walks.iter().filter(|walk| walk.last() == Some(&arc)).map(|walk| {
            // Frames have their gaps behind the last arc that several ones enter.
            let joined = walk.iter().rposition(|arc| entering(*arc).len() > 1).unwrap_or(0);
            let all = &walk[..walk.len() - 1];
            let [early, late] = [&all[..joined], &all[joined..]];
            let short = |arcs: &[Arc], octets| arcs.iter().map(|arc| line(*arc, octets)).sum();
            let longest: u64 = all
                .iter()
                .map(|arc| queues[arc.index()] + propagation(*arc) + forwarding(*arc))
                .sum();
            let early: u64 = short(early, stream.octets() - u64::from(GAP));
            let late: u64 = short(late, stream.octets());
            (longest, early + late)
        });
        let (longest, base) =
            up_to.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1))).expect("a walk to each arc");
        let only = Some(before).filter(|before| lines && before.len() == 1);
        (arc, (only.map(|before| before[0]), longest.saturating_sub(base)))
    };
    arcs.iter().map(of_arc).collect()
}

/// The bounds; none if one exceeds 100 ms. Without `lines`, all frames may arrive at once.
fn simple(network: &Network, routes: &[(&Stream, &Route)], lines: bool) -> Option<Vec<u64>> {
    let mut queues: Vec<u64> = vec![0; 2 * network.links.len()];
    for _ in 0..3000 {
        let mut arrivals: HashMap<Arc, Groups> = HashMap::new();
        for (stream, route) in routes {
            let mixes = stream.paths > 1 && route.has_recovering_relay(network, stream);
            let forwarding = |arc: &Arc| network.nodes[network.ends(*arc).1 as usize].forwarding_ns;
            let mut own = HashMap::new();
            if mixes {
                own = mixed(network, stream, route, &queues, lines);
            }
            for path in route.paths() {
                let (mut before, mut jitter) = (None, 0);
                for arc in path {
                    own.entry(*arc).or_insert((before.filter(|_| lines), jitter));
                    let line = network.line_time(*arc, stream.octets());
                    jitter += queues[arc.index()].saturating_sub(line) + forwarding(arc);
                    before = Some(*arc);
                }
            }
            for (arc, (before, jitter)) in own {
                let line = network.line_time(arc, stream.octets());
                let group = arrivals.entry(arc).or_default().entry(before).or_default();
                group.push((line, stream.interval_ns, jitter));
            }
        }
        let empty = Groups::new();
        let of = |arc| queue_ns(network, arc, arrivals.get(&arc).unwrap_or(&empty));
        let next: Vec<u64> = network.arcs().map(of).collect();
        if next.iter().any(|ns| *ns > UNBOUNDED_NS) {
            return None;
        }
        if next == queues {
            return Some(queues);
        }
        queues = next;
    }
    None
}

/// A random network with links of several speeds, and streams with one or two paths to several listeners.
fn network(random: &mut Random, streams: usize) -> Network {
    let nodes = 4 + random.below(6);
    let mut network = random::connected(random, nodes, nodes);
    for node in &mut network.nodes {
        node.forwarding_ns = random.below(3) as u64 * 5000;
    }
    for link in &mut network.links {
        link.speed_mbps = [100, 1000, 1000, 2500, 40_000][random.below(5)];
    }
    for number in 0..streams {
        let talker = random.below(nodes);
        let most = 1 + random.below(2);
        let listeners = random::listeners(random, nodes, talker, most);
        if !listeners.is_empty() {
            let mut stream = random::stream(number, talker, &listeners);
            stream.paths = 1 + random.below(2) as u8;
            stream.size = 64 + random.below(1000) as u32;
            stream.interval_ns = [125_000, 250_000, 1_000_000, 3_333_333][random.below(4)];
            network.streams.push(stream);
        }
    }
    network
}

#[test]
fn bounds_equal_those_of_the_simple_computation() {
    let mut random = Random(31);
    let (mut bounded, mut unbounded, mut lower, mut equal) = (0, 0, 0, 0);
    for round in 0..90 {
        let streams = [10, 30, 70][round % 3];
        let network = network(&mut random, streams);
        // Routes of a plan of half the rate, so that some loads have no bound.
        let mut lighter = network.clone();
        lighter.streams.iter_mut().for_each(|stream| stream.interval_ns *= 2);
        let plan = Plan::new(&lighter, &PreviousRoutes::default());
        let routed: Vec<(&Stream, &Route)> =
            plan.routed().map(|(index, route)| (&network.streams[index], route)).collect();
        let fast = delay::bounds(&network, &routed);
        let judge = simple(&network, &routed, true);
        assert_eq!(fast.is_bounded, judge.is_some(), "round {round}");
        let Some(judge) = judge else {
            unbounded += 1;
            continue;
        };
        assert_eq!(fast.queue_ns, judge, "round {round}");
        bounded += 1;
        // Without the lines, no value is smaller.
        let Some(coarse) = simple(&network, &routed, false) else { continue };
        assert!(judge.iter().zip(&coarse).all(|(fine, coarse)| fine <= coarse));
        let sums = [&judge, &coarse].map(|queues| queues.iter().sum::<u64>());
        lower += usize::from(sums[0] < sums[1]);
        equal += usize::from(sums[0] == sums[1]);
    }
    eprintln!("bounded: {bounded}, unbounded: {unbounded}, lower: {lower}, equal: {equal}");
    assert!(bounded > 40 && unbounded > 10 && lower > 20, "{bounded} {unbounded} {lower}");
}

#[test]
fn verdicts_equal_those_by_the_simple_bounds() {
    let mut random = Random(32);
    let (mut late, mut kept) = (0, 0);
    for _ in 0..40 {
        let mut network = network(&mut random, 30);
        for stream in &mut network.streams {
            stream.max_delay_ns = Some(50_000 + random.below(2_000_000) as u64);
        }
        let plan = Plan::new(&network, &PreviousRoutes::default());
        // The last round of a plan refuses nothing: by the bounds of its streams, none is late.
        let routed: Vec<(&Stream, &Route)> =
            plan.routed().map(|(index, route)| (&network.streams[index], route)).collect();
        let judge = simple(&network, &routed, true).expect("bounded");
        assert_eq!(plan.bounds.queue_ns, judge);
        for (index, route) in plan.routed() {
            let stream = &network.streams[index];
            for (range, paths) in plan.delays[index].iter().zip(&route.listeners) {
                let path = |path: &Vec<Arc>| {
                    let each = path.iter().map(|arc| {
                        let node = network.ends(*arc).1 as usize;
                        judge[arc.index()]
                            + network.links[arc.link()].delay_ns
                            + network.nodes[node].forwarding_ns
                    });
                    each.sum::<u64>()
                };
                assert_eq!(range.longest_ns, paths.paths.iter().map(path).max().unwrap());
                assert!(Some(range.longest_ns) <= stream.max_delay_ns);
                kept += 1;
            }
        }
        let refused = |stream: &&StreamPlan| matches!(stream, StreamPlan::Refused(_));
        late += plan.streams.iter().filter(refused).count();
    }
    assert!(late > 50 && kept > 200, "{late} {kept}");
}
