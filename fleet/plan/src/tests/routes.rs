//! Routes on small and random networks.

use std::collections::{HashMap, HashSet};

use super::random::{self, Random};
use crate::blocks::Blocks;
use crate::failure;
use crate::graph::{Availability, Graph};
use crate::network::{Arc, Group, Network, Stream};
use crate::plan::{Plan, PreviousRoutes, PreviousStream, Refusal, StreamPlan};
use crate::route::{Element, ListenerPaths, Route};

fn plan(network: &Network) -> Plan {
    Plan::new(network, &PreviousRoutes::default())
}

/// Two rings of four nodes joined by one node, 3.
fn two_rings() -> Network {
    let links =
        [(0, 1), (1, 3), (3, 2), (2, 0), (3, 4), (4, 6), (6, 5), (5, 3)].map(|(a, b)| (a, b, 100));
    random::network(7, &links)
}

#[test]
fn a_cut_node_is_named_and_its_paths_share_nothing_else() {
    let mut network = two_rings();
    network.streams.push(random::stream(0, 0, &[6]));
    let plan = plan(&network);
    let elements = vec![Element::Node(3)];
    assert_eq!(plan.streams, [StreamPlan::Shared { elements, is_proven: true }]);
    let route = plan.routes[0].as_ref().unwrap();
    let parts = route.parts(&network, &network.streams[0]);
    let relay = parts.iter().find(|part| part.node == 3).unwrap();
    assert_eq!((relay.ingress.len(), relay.egress.len()), (2, 2));
    let loss = route.losses(&network, &network.streams[0], Element::Node(3));
    assert_eq!((loss.cut, loss.single), (1, 0));
}

#[test]
fn an_unreachable_listener_and_full_links_are_refused() {
    let mut network = random::network(3, &[(0, 1, 1)]);
    network.streams.push(random::stream(0, 0, &[2]));
    assert_eq!(plan(&network).streams, [StreamPlan::Refused(Refusal::Unreachable { listener: 2 })]);

    let mut network = random::network(4, &[(0, 1, 1), (1, 3, 1), (0, 2, 1), (2, 3, 1)]);
    for number in 0..3 {
        let mut stream = random::stream(number, 0, &[3]);
        (stream.size, stream.interval_ns) = (1500, 40_000);
        network.streams.push(stream);
    }
    let plan = plan(&network);
    let protected = plan.streams.iter().filter(|stream| **stream == StreamPlan::Protected);
    assert_eq!(protected.count(), 2);
    let refused = plan.streams.iter().find(|stream| **stream != StreamPlan::Protected);
    assert!(matches!(refused, Some(StreamPlan::Refused(Refusal::Capacity { .. }))));
}

#[test]
fn end_systems_are_no_relays() {
    let mut network =
        random::network(5, &[(0, 1, 1), (1, 4, 1), (0, 2, 1), (2, 4, 1), (0, 3, 1), (3, 4, 1)]);
    network.nodes[1].relay = false;
    network.streams.push(random::stream(0, 0, &[4]));
    let plan = plan(&network);
    assert!(plan.is_complete());
    let nodes: Vec<u32> =
        plan.routes[0].as_ref().unwrap().paths().map(|path| network.ends(path[0]).1).collect();
    assert!(!nodes.contains(&1), "{nodes:?}");
}

#[test]
fn trees_protect_every_listener_and_share_no_arc() {
    let mut random = Random(7);
    let (mut planned, mut refused) = (0, 0);
    for _ in 0..1500 {
        let nodes = 4 + random.below(12);
        let further = random.below(2 * nodes);
        let mut network = random::connected(&mut random, nodes, further);
        for node in &mut network.nodes {
            node.relay = random.below(5) > 0;
        }
        let talker = random.below(nodes);
        let most = 2 + random.below(4);
        let listeners = random::listeners(&mut random, nodes, talker, most);
        if listeners.len() < 2 {
            continue;
        }
        network.streams.push(random::stream(0, talker, &listeners));
        let all = plan(&network);
        // A pair exists for each listener alone exactly if the trees exist: they are complete.
        let alone = listeners.iter().all(|listener| {
            let mut one = network.clone();
            one.streams = vec![random::stream(0, talker, &[*listener])];
            plan(&one).is_complete()
        });
        assert_eq!(all.is_complete(), alone, "{network:?}");
        let Some(route) = &all.routes[0] else {
            refused += 1;
            continue;
        };
        planned += 1;
        check_trees(&network, &network.streams[0], route);
        for element in Element::all(&network) {
            let loss = route.losses(&network, &network.streams[0], element);
            assert_eq!(loss.cut, 0, "{element:?}");
        }
    }
    assert!(planned > 200 && refused > 200, "{planned} {refused}");
}

/// Panics unless the first paths of all listeners are a tree, and the second ones another. Where both send by the same arc,
/// a relay recovers.
fn check_trees(network: &Network, stream: &Stream, route: &Route) {
    let mut trees = [HashMap::new(), HashMap::new()];
    for listener in &route.listeners {
        for (tree, path) in trees.iter_mut().zip(&listener.paths) {
            for arc in path {
                let entry: Arc = *tree.entry(network.ends(*arc).1).or_insert(*arc);
                assert_eq!(entry, *arc);
            }
        }
    }
    let [first, second] = trees.map(|tree| tree.into_values().collect::<HashSet<_>>());
    let parts = route.parts(network, stream);
    for arc in first.intersection(&second) {
        let mut senders = parts.iter().filter(|part| part.egress.contains(arc));
        let merged = |node: u32| parts.iter().any(|part| part.node == node && part.recovers);
        let part = senders.next().expect("a sender");
        assert!(
            part.recovers
                || part.ingress.iter().any(|arc| {
                    let mut arc = *arc;
                    loop {
                        let node = network.ends(arc).0;
                        let sender = parts.iter().find(|part| part.egress.contains(&arc));
                        match sender.and_then(|part| part.ingress.first()) {
                            _ if merged(node) => return true,
                            Some(before) => arc = *before,
                            None => return false,
                        }
                    }
                })
        );
        assert!(senders.next().is_none(), "two copies on an arc");
    }
}

/// The routes of a plan as those of a previous one.
fn previous(network: &Network, plan: &Plan) -> PreviousRoutes {
    let route = |(index, route): (usize, &Route)| {
        let (route, delays) = (Some(route.clone()), plan.delays[index].clone());
        let old = PreviousStream { route, delays, ..PreviousStream::default() };
        (network.streams[index].name.clone(), old)
    };
    plan.routed().map(route).collect()
}

#[test]
fn a_further_plan_keeps_the_routes_that_hold() {
    let mut random = Random(11);
    let mut network = random::grid(5, 5);
    for number in 0..60 {
        let (a, b) = (random.below(25), random.below(25));
        if a != b {
            network.streams.push(random::stream(number, a, &[b]));
        }
    }
    let first = plan(&network);
    assert!(first.is_complete());
    let old = previous(&network, &first);
    let same = Plan::new(&network, &old);
    assert_eq!((same.kept, &same.routes), (network.streams.len(), &first.routes));

    // Without a link, the streams that used it move, and no other.
    let gone = 12;
    let mut cut = network.clone();
    cut.links[gone].speed_mbps = 1;
    let uses =
        |route: &Option<Route>| route.as_ref().unwrap().arcs().iter().any(|arc| arc.link() == gone);
    let affected = first.routes.iter().filter(|route| uses(route)).count();
    let again = Plan::new(&cut, &old);
    assert!(affected > 0 && again.is_complete());
    assert_eq!(again.kept, network.streams.len() - affected);
    assert!(!again.routes.iter().any(uses));
}

#[test]
fn streams_over_the_only_rail_of_a_ladder_have_bounds() {
    // Two rails with rungs; the upper rail is cut in the middle.
    let mut network = random::grid(24, 2);
    network.nodes.iter_mut().for_each(|node| node.forwarding_ns = 50_000);
    let cut =
        network.links.iter().position(|link| link.ends[0].node == 11 && link.ends[1].node == 12);
    network.links.remove(cut.unwrap());
    let mut random = Random(8);
    for number in 0..400 {
        let (talker, listener) = (random.below(48), random.below(48));
        if talker != listener {
            network.streams.push(random::stream(number, talker, &[listener]));
        }
    }
    let plan = plan(&network);
    let shared = |stream: &&StreamPlan| matches!(stream, StreamPlan::Shared { .. });
    assert!(plan.streams.iter().filter(shared).count() > 150);
    let refused = plan.streams.iter().filter(|stream| matches!(stream, StreamPlan::Refused(_)));
    assert_eq!(refused.count(), 0);
}

#[test]
fn new_streams_are_refused_before_those_that_hold() {
    let mut network = random::network(3, &[(0, 1, 1), (1, 2, 1)]);
    network.load_percent = 100;
    let mut single = |number: usize, size: u32| {
        let mut stream = random::stream(number, 0, &[2]);
        (stream.paths, stream.size, stream.interval_ns) = (1, size, 10_000_000);
        network.streams.push(stream);
    };
    // Half of the load by 500 streams with the largest rate.
    (0..500).for_each(|number| single(number, 1224));
    // The other half by smaller ones: without any room left, no queue has a bound.
    (500..1500).for_each(|number| single(number, 599));
    let mut first = network.clone();
    first.streams.truncate(500);
    let old = plan(&first);
    assert!(old.is_complete());
    let previous = previous(&first, &old);
    let again = Plan::new(&network, &previous);
    assert!(again.streams.iter().any(|stream| matches!(
        stream,
        StreamPlan::Refused(Refusal::Delay { bound_ns: None, .. })
    )));
    assert_eq!(again.routes[..500], old.routes[..]);
}

#[test]
fn new_streams_do_not_delay_those_that_hold_beyond_their_limits() {
    let mut network = random::network(3, &[(0, 1, 1), (1, 2, 1)]);
    for number in 0..60 {
        let mut stream = random::stream(number, 0, &[2]);
        (stream.paths, stream.size, stream.interval_ns) = (1, 1224, 10_000_000);
        network.streams.push(stream);
    }
    let mut first = network.clone();
    first.streams.truncate(20);
    let old = plan(&first);
    let delay_ns = |plan: &Plan, index: usize| plan.delays[index][0].longest_ns;
    let (before, after) = (delay_ns(&old, 0), delay_ns(&plan(&network), 0));
    assert!(after > before * 3 / 2, "{before} {after}");
    let limit_ns = (before + after) / 2;
    let again = |network: &mut Network, limit_ns: u64| {
        network.streams[..20].iter_mut().for_each(|stream| stream.max_delay_ns = Some(limit_ns));
        Plan::new(network, &previous(&first, &old))
    };
    let refused = |plan: &Plan, streams: std::ops::Range<usize>| {
        let refused = |stream: &&StreamPlan| matches!(stream, StreamPlan::Refused(_));
        plan.streams[streams].iter().filter(refused).count()
    };
    let plan = again(&mut network, limit_ns);
    assert_eq!(plan.routes[..20], old.routes[..]);
    assert!((0..20).all(|index| delay_ns(&plan, index) <= limit_ns));
    let new = refused(&plan, 20..60);
    assert!((1..40).contains(&new), "{new}");
    assert!(plan.streams.iter().any(|stream| {
        matches!(stream, StreamPlan::Refused(Refusal::Displaces { stream: 0..20 }))
    }));
    // A limit that no plan held is no fault of the new ones.
    let plan = again(&mut network, before / 2);
    assert_eq!((refused(&plan, 0..20), refused(&plan, 20..60)), (20, 0));
}

#[test]
fn effects_of_failures_equal_the_losses_of_each_stream() {
    let mut random = Random(12);
    let (mut cut, mut single, mut ended) = (0, 0, 0);
    for _ in 0..200 {
        let nodes = 3 + random.below(8);
        let further = random.below(2 * nodes);
        let mut network = random::connected(&mut random, nodes, further);
        random::add_groups(&mut random, &mut network, 2, 3);
        for number in 0..12 {
            let talker = random.below(nodes);
            let mut listeners: Vec<usize> =
                (0..1 + random.below(2)).map(|_| random.below(nodes)).collect();
            listeners.dedup();
            listeners.retain(|listener| *listener != talker);
            if !listeners.is_empty() {
                let mut stream = random::stream(number, talker, &listeners);
                stream.paths = 1 + random.below(3) as u8;
                network.streams.push(stream);
            }
        }
        let plan = plan(&network);
        for effect in failure::effects(&network, &plan, Element::all(&network)) {
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            for (index, route) in plan.routed() {
                let loss = route.losses(&network, &network.streams[index], effect.element);
                if loss.cut > 0 {
                    expected[0].push(index);
                } else if loss.ended > 0 && loss.single == 0 {
                    expected[2].push(index);
                } else if loss.single > 0 {
                    expected[1].push(index);
                }
            }
            assert_eq!(
                [&effect.cut, &effect.single, &effect.ended],
                [0, 1, 2].map(|at| &expected[at])
            );
            cut += effect.cut.len();
            single += effect.single.len();
            ended += effect.ended.len();
        }
    }
    assert!(cut > 200 && single > 200 && ended > 200, "{cut} {single} {ended}");
}

#[test]
fn landmarks_change_no_sum() {
    let mut random = Random(13);
    let mut found = [0; 4];
    for _ in 0..600 {
        let nodes = 16 + random.below(40);
        let further = random.below(2 * nodes);
        let mut links = random::connected(&mut random, nodes, further).links;
        // Some networks are in pieces.
        links.truncate(links.len() - random.below(4));
        let mut network = random::network(nodes, &[]);
        network.links = links;
        let mut plain = Graph::new(&network, false);
        let cost = |arc: Arc| network.links[arc.link()].delay_ns * 1000;
        network.arcs().for_each(|arc| plain.set_cost(arc, cost(arc)));
        let mut directed = plain.clone();
        directed.set_landmarks();
        for arc in network.arcs() {
            let cost = cost(arc) * (4 + random.below(16) as u64) / 4;
            plain.set_cost(arc, cost);
            directed.set_cost(arc, cost);
        }
        let room: Vec<u64> = network.arcs().map(|_| random.below(12) as u64).collect();
        let transit: Vec<bool> = (0..nodes).map(|_| random.below(12) > 0).collect();
        let delays: Vec<u64> = network.arcs().map(|_| random.below(9) as u64).collect();
        let available = Availability { room: &room, rate: 1, transit: &transit };
        for _ in 0..8 {
            let (from, to) = (random.below(nodes) as u32, random.below(nodes) as u32);
            if from == to {
                continue;
            }
            let count = 1 + random.below(3);
            let [a, b] = [&mut plain, &mut directed].map(|graph| {
                let paths = match count {
                    2 => graph.pair(from, to, available, &delays),
                    _ => graph.paths(from, to, count, available),
                };
                let sum: u64 = paths.iter().flatten().map(|arc| graph.cost(*arc)).sum();
                let path = |path: &Vec<Arc>| path.iter().map(|arc| delays[arc.index()]).sum();
                let delays: Vec<u64> = paths.iter().map(path).collect();
                let difference =
                    (count == 2 && paths.len() == 2).then(|| delays[0].abs_diff(delays[1]));
                (paths.len(), sum, difference)
            });
            assert_eq!(a, b, "{from} {to} {network:?}");
            found[a.0] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 100), "{found:?}");
}

/// All simple paths by usable elements.
fn simple_paths(
    network: &Network,
    from: u32,
    to: u32,
    available: Availability<'_>,
    path: &mut Vec<Arc>,
    found: &mut Vec<Vec<Arc>>,
) {
    let at = path.last().map_or(from, |arc| network.ends(*arc).1);
    if at == to {
        found.push(path.clone());
        return;
    }
    for arc in network.arcs().filter(|arc| network.ends(*arc).0 == at) {
        let head = network.ends(arc).1;
        let is_met = head == from || path.iter().any(|arc| network.ends(*arc).1 == head);
        let passes = head == to || available.transit[head as usize];
        if !is_met && passes && available.room[arc.index()] >= available.rate {
            path.push(arc);
            simple_paths(network, from, to, available, path, found);
            path.pop();
        }
    }
}

/// The least sum of a disjoint pair, and the least and largest difference of delays of pairs with this sum.
fn least_pair(
    network: &Network,
    [from, to]: [u32; 2],
    available: Availability<'_>,
    costs: &[u64],
    delays: &[u64],
) -> Option<(u64, u64, u64)> {
    let mut paths = Vec::new();
    simple_paths(network, from, to, available, &mut Vec::new(), &mut paths);
    let of = |path: &[Arc], values: &[u64]| path.iter().map(|arc| values[arc.index()]).sum::<u64>();
    let mut best: Option<(u64, u64, u64)> = None;
    for (number, a) in paths.iter().enumerate() {
        let inner = |arcs: &[Arc]| -> Vec<u32> {
            arcs.iter().skip(1).map(|arc| network.ends(*arc).0).collect()
        };
        let own = inner(a);
        for b in &paths[number + 1..] {
            let is_disjoint = !inner(b).iter().any(|node| own.contains(node))
                && !a.iter().any(|arc| b.iter().any(|other| arc.link() == other.link()));
            if !is_disjoint {
                continue;
            }
            let sum = of(a, costs) + of(b, costs);
            let difference = of(a, delays).abs_diff(of(b, delays));
            best = match best {
                Some((least, low, high)) if least == sum => {
                    Some((sum, low.min(difference), high.max(difference)))
                }
                Some((least, ..)) if least < sum => best,
                _ => Some((sum, difference, difference)),
            };
        }
    }
    best
}

#[test]
fn pairs_of_least_sum_have_the_least_difference() {
    let mut random = Random(21);
    let (mut found, mut choices, mut reduced) = (0, 0, 0);
    for round in 0..4000 {
        let nodes = 4 + random.below(5);
        let further = nodes + random.below(nodes);
        let network = random::connected(&mut random, nodes, further);
        let (from, to) = (random.below(nodes) as u32, random.below(nodes) as u32);
        if from == to {
            continue;
        }
        // Few values, so that many sums are equal; in half of the networks cost is delay.
        let values = |random: &mut Random, most: usize| -> Vec<u64> {
            network.arcs().map(|_| 1 + random.below(most) as u64).collect()
        };
        let most = 1 + random.below(3);
        let costs = values(&mut random, most);
        let delays = if round % 2 == 0 { costs.clone() } else { values(&mut random, 9) };
        let room: Vec<u64> = network.arcs().map(|_| random.below(12) as u64).collect();
        let transit: Vec<bool> = (0..nodes).map(|_| random.below(12) > 0).collect();
        let available = Availability { room: &room, rate: 1, transit: &transit };
        let mut graph = Graph::new(&network, false);
        network.arcs().for_each(|arc| graph.set_cost(arc, costs[arc.index()]));
        let of = |path: &Vec<Arc>, values: &[u64]| {
            path.iter().map(|arc| values[arc.index()]).sum::<u64>()
        };
        let plain = graph.paths(from, to, 2, available);
        let pair = graph.pair(from, to, available, &delays);
        assert_eq!(graph.paths(from, to, 2, available), plain, "a search leaves nothing behind");
        let judge = least_pair(&network, [from, to], available, &costs, &delays);
        let [a, b] = &pair[..] else {
            assert_eq!(judge, None);
            continue;
        };
        let route = Route { listeners: vec![ListenerPaths { listener: to, paths: pair.clone() }] };
        assert_eq!(route.shared(&network), []);
        let difference = of(a, &delays).abs_diff(of(b, &delays));
        let sum = of(a, &costs) + of(b, &costs);
        let (least, low, high) = judge.expect("a pair");
        assert_eq!((sum, difference), (least, low), "{from} {to} {costs:?} {delays:?} {network:?}");
        found += 1;
        choices += usize::from(low < high);
        reduced += usize::from(of(&plain[0], &delays).abs_diff(of(&plain[1], &delays)) > low);
    }
    eprintln!("pairs: {found}, with a choice: {choices}, without it more: {reduced}");
    assert!(found > 2000 && choices > 300 && reduced > 100, "{found} {choices} {reduced}");
}

/// Two pairs of equal sum: by both upper links in the middle the delays differ, by the crossed ones they do not.
fn crossed() -> Network {
    let links =
        [(0, 2, 1), (0, 3, 3), (2, 4, 1), (3, 5, 1), (2, 5, 1), (3, 4, 1), (4, 1, 1), (5, 1, 3)];
    let mut network = random::network(6, &links.map(|(a, b, us)| (a, b, 1000 * us)));
    network.streams.push(random::stream(0, 0, &[1]));
    network
}

/// Whether the paths of the only stream use the crossed links.
fn is_crossed(plan: &Plan) -> bool {
    let route = plan.routes[0].as_ref().expect("a route");
    let links: HashSet<usize> = route.arcs().iter().map(|arc| arc.link()).collect();
    assert_eq!(links.len(), 6);
    links.contains(&4) && links.contains(&5)
}

#[test]
fn a_plan_has_the_least_difference_unless_its_pair_shares_a_group_or_is_kept() {
    let network = crossed();
    let balanced = plan(&network);
    assert!(balanced.is_complete() && is_crossed(&balanced));
    let mut grouped = network.clone();
    grouped.groups.push(Group { name: "duct".into(), links: vec![4, 5] });
    grouped.links[4..6].iter_mut().for_each(|link| link.groups.push(0));
    let other = plan(&grouped);
    assert!(other.is_complete() && !is_crossed(&other));
    // Of a group that no path shares, nothing changes.
    grouped.links[5].groups.clear();
    grouped.groups[0].links.pop();
    assert!(is_crossed(&plan(&grouped)));
    let again = Plan::new(&network, &previous(&network, &other));
    assert_eq!((again.kept, &again.routes), (1, &other.routes));
}

#[test]
fn paths_that_must_share_elements_share_the_fewest_and_have_the_least_sum() {
    let mut random = Random(22);
    let (mut shared, mut disjoint) = (0, 0);
    for _ in 0..3000 {
        let nodes = 3 + random.below(14);
        let further = random.below(nodes);
        let mut network = random::connected(&mut random, nodes, further);
        let (from, to) = (random.below(nodes), random.below(nodes));
        if from == to {
            continue;
        }
        for node in &mut network.nodes {
            node.relay = random.below(12) > 0;
        }
        network.streams.push(random::stream(0, from, &[to]));
        // Some links have no room.
        for link in &mut network.links {
            link.speed_mbps = if random.below(12) > 0 { 1000 } else { 1 };
        }
        let cost = |arc: Arc| network.idle_cost(arc);
        let rate = network.streams[0].rate();
        let room: Vec<u64> = network.arcs().map(|arc| network.capacity(arc)).collect();
        let transit: Vec<bool> = network.nodes.iter().map(|node| node.relay).collect();
        let available = Availability { room: &room, rate, transit: &transit };
        let [mut plain, mut sharing] = [false, true].map(|sharing| {
            let mut graph = Graph::new(&network, sharing);
            network.arcs().for_each(|arc| graph.set_cost(arc, cost(arc)));
            graph
        });
        let is_disjoint = plain.paths(from as u32, to as u32, 2, available).len() == 2;
        let plan = plan(&network);
        let Some(route) = &plan.routes[0] else { continue };
        assert_eq!(plan.streams[0] == StreamPlan::Protected, is_disjoint);
        let paths = sharing.paths(from as u32, to as u32, 2, available);
        let judge = Route { listeners: vec![ListenerPaths { listener: to as u32, paths }] };
        let of = |route: &Route| {
            let sum: u64 = route.paths().flatten().map(|arc| cost(*arc)).sum();
            (route.shared(&network).len(), sum)
        };
        assert_eq!(of(route), of(&judge), "{from} {to} {network:?}");
        shared += usize::from(!is_disjoint);
        disjoint += usize::from(is_disjoint);
    }
    assert!(shared > 500 && disjoint > 500, "{shared} {disjoint}");
}

#[test]
fn blocks_contain_all_disjoint_pairs() {
    let mut random = Random(23);
    let (mut apart, mut joined, mut pieces) = (0, 0, 0);
    for _ in 0..600 {
        let nodes = 2 + random.below(12);
        let further = random.below(nodes);
        let mut links = random::connected(&mut random, nodes, further).links;
        links.truncate(links.len() - random.below(2).min(links.len()));
        let mut network = random::network(nodes, &[]);
        network.links = links;
        let blocks = Blocks::new(&network);
        let mut graph = Graph::new(&network, false);
        let (room, transit) = (vec![1; 2 * network.links.len()], vec![true; nodes]);
        let available = Availability { room: &room, rate: 1, transit: &transit };
        for (from, to) in (0..nodes as u32).flat_map(|a| (0..nodes as u32).map(move |b| (a, b))) {
            if from == to {
                continue;
            }
            let has_pair = graph.paths(from, to, 2, available).len() == 2;
            assert_eq!(blocks.has_pair(from, to), has_pair, "{from} {to} {network:?}");
            // The inner nodes of the passages are those without which no path exists.
            let mut needed = |node: &u32| {
                let mut transit = transit.clone();
                transit[*node as usize] = false;
                let without = Availability { room: &room, rate: 1, transit: &transit };
                graph.paths(from, to, 1, without).is_empty()
            };
            let passages = blocks.between(from, to);
            assert_eq!(passages.is_none(), needed(&from), "{from} {to} {network:?}");
            let Some(passages) = passages else {
                pieces += 1;
                continue;
            };
            let mut inner: Vec<u32> = passages[1..].iter().map(|passage| passage.from).collect();
            inner.sort_unstable();
            let mut all = (0..nodes as u32).filter(|node| ![from, to].contains(node));
            let judge: Vec<u32> = all.by_ref().filter(&mut needed).collect();
            assert_eq!(inner, judge, "{from} {to} {network:?}");
            apart += usize::from(!has_pair);
            joined += usize::from(has_pair);
        }
    }
    assert!(apart > 1000 && joined > 1000 && pieces > 100, "{apart} {joined} {pieces}");
}

#[test]
fn a_full_relay_is_named() {
    let mut network = random::network(3, &[(0, 1, 1), (1, 2, 1)]);
    network.links.iter_mut().for_each(|link| link.speed_mbps = 100_000);
    for number in 0..65_536 {
        let mut stream = random::stream(number, 0, &[2]);
        (stream.paths, stream.interval_ns) = (1, 1_000_000_000);
        network.streams.push(stream);
    }
    let plan = plan(&network);
    let refused: Vec<&StreamPlan> =
        plan.streams.iter().filter(|stream| **stream != StreamPlan::Protected).collect();
    assert_eq!(refused, [&StreamPlan::Refused(Refusal::NodeFull { node: 1 })]);
}
