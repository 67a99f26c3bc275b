//! Judges from outside: networkx (disjointness and least sum) and HiGHS (groups, admission).

use serde_json::{Value, json};

use super::random::{self, Random};
use crate::graph::{Availability, Graph};
use crate::groups;
use crate::network::{Arc, Network};
use crate::plan::{Plan, PreviousRoutes, StreamPlan};
use crate::route::{ListenerPaths, Route};

/// Runs judge.py on problems. `None`: it cannot run here, which continuous integration does not permit.
pub(super) fn judge(problems: &[Value]) -> Option<Vec<Value>> {
    let input: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    let packages = "python3-networkx python3-scipy";
    let output =
        onbeat_testing::python::run(include_str!("judge.py"), "networkx, scipy", packages, &input)?;
    let answers: Vec<_> =
        output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), problems.len());
    Some(answers)
}

fn describe(network: &Network) -> Vec<(u32, u32, u64)> {
    let link = |link: &crate::network::Link| (link.ends[0].node, link.ends[1].node, link.delay_ns);
    network.links.iter().map(link).collect()
}

/// A graph whose costs are the delays alone.
fn graph(network: &Network) -> Graph {
    let mut graph = Graph::new(network, false);
    for arc in network.arcs() {
        graph.set_cost(arc, network.links[arc.link()].delay_ns);
    }
    graph
}

fn sum(network: &Network, paths: &[Vec<Arc>]) -> u64 {
    paths.iter().flatten().map(|arc| network.links[arc.link()].delay_ns).sum()
}

/// Panics unless paths lead from end to end and share nothing.
fn check_disjoint(network: &Network, from: u32, to: u32, paths: &[Vec<Arc>]) {
    for path in paths {
        let mut at = from;
        for arc in path {
            let (tail, head) = network.ends(*arc);
            assert_eq!(tail, at);
            at = head;
        }
        assert_eq!(at, to);
    }
    let paths = ListenerPaths { listener: to, paths: paths.to_vec() };
    assert_eq!(Route { listeners: vec![paths] }.shared(network), []);
}

#[test]
fn sums_of_disjoint_paths_equal_the_optimum() {
    let mut random = Random(1);
    let (mut problems, mut sums) = (Vec::new(), Vec::new());
    for _ in 0..3000 {
        let nodes = 2 + random.below(14);
        let further = random.below(2 * nodes);
        let network = random::connected(&mut random, nodes, further);
        let (from, to) = (random.below(nodes) as u32, random.below(nodes) as u32);
        if from == to {
            continue;
        }
        let count = 2 + random.below(2);
        let (room, transit) = (vec![1; 2 * network.links.len()], vec![true; nodes]);
        let available = Availability { room: &room, rate: 1, transit: &transit };
        let mut graph = graph(&network);
        // The first search leaves nothing behind.
        graph.paths(to, from, 3, available);
        let paths = graph.paths(from, to, count, available);
        check_disjoint(&network, from, to, &paths);
        sums.push((paths.len() == count).then(|| sum(&network, &paths)));
        problems.push(json!({
            "kind": "pair", "nodes": nodes, "links": describe(&network),
            "from": from, "to": to, "count": count,
        }));
    }
    assert!(sums.iter().flatten().count() > 1000 && sums.iter().any(Option::is_none));
    let Some(answers) = judge(&problems) else { return };
    for ((problem, sum), answer) in problems.iter().zip(sums).zip(answers) {
        assert_eq!(json!(sum), answer, "{problem}");
    }
}

#[test]
fn pairs_without_common_groups_equal_the_optimum() {
    let mut random = Random(2);
    let (mut problems, mut sums) = (Vec::new(), Vec::new());
    while problems.len() < 150 {
        let nodes = 4 + random.below(5);
        let further = 2 + random.below(nodes);
        let mut network = random::connected(&mut random, nodes, further);
        let number = 2 + random.below(3);
        random::add_groups(&mut random, &mut network, number, 3);
        let (from, to) = (random.below(nodes) as u32, random.below(nodes) as u32);
        let (room, transit) = (vec![1; 2 * network.links.len()], vec![true; nodes]);
        let available = Availability { room: &room, rate: 1, transit: &transit };
        let mut graph = graph(&network);
        if from == to {
            continue;
        }
        let paths = graph.paths(from, to, 2, available);
        let route = Route { listeners: vec![ListenerPaths { listener: to, paths }] };
        if route.listeners[0].paths.len() < 2 || route.shared(&network).is_empty() {
            continue;
        }
        let least = sum(&network, &route.listeners[0].paths);
        let found = groups::pair(&network, &graph, [from, to], available, least);
        assert!(found.is_proven);
        if let Some(pair) = &found.pair {
            check_disjoint(&network, from, to, pair);
        }
        sums.push(found.pair.map(|pair| sum(&network, &pair)));
        let groups: Vec<_> = network.groups.iter().map(|group| &group.links).collect();
        problems.push(json!({
            "kind": "groups", "nodes": nodes, "links": describe(&network), "groups": groups,
            "from": from, "to": to,
        }));
    }
    assert!(sums.iter().any(Option::is_some) && sums.iter().any(Option::is_none));
    let Some(answers) = judge(&problems) else { return };
    for ((problem, sum), answer) in problems.iter().zip(sums).zip(answers) {
        assert_eq!(json!(sum), answer, "{problem}");
    }
}

#[test]
fn accepted_streams_are_near_the_optimum() {
    let mut random = Random(3);
    let (mut problems, mut accepted) = (Vec::new(), 0);
    while problems.len() < 12 {
        let nodes = 6 + random.below(2);
        let mut network = random::connected(&mut random, nodes, nodes + 2);
        let mut number = 0;
        while number < 14 {
            let (from, to) = (random.below(nodes), random.below(nodes));
            if from != to {
                let mut stream = random::stream(number, from, &[to]);
                // Between a sixth and a third of a link's capacity.
                stream.size = 1000;
                stream.interval_ns = 33_000 + 1000 * random.below(30) as u64;
                network.streams.push(stream);
                number += 1;
            }
        }
        let plan = Plan::new(&network, &PreviousRoutes::default());
        for arc in network.arcs() {
            assert!(plan.load[arc.index()] <= network.capacity(arc));
        }
        // Streams without a bound of their delay count as refused, unlike those of the judge.
        accepted += plan.streams.iter().filter(|plan| **plan == StreamPlan::Protected).count();
        let streams: Vec<_> = network
            .streams
            .iter()
            .map(|stream| (stream.talker, stream.listeners[0], stream.rate()))
            .collect();
        problems.push(json!({
            "kind": "admission", "nodes": nodes, "links": describe(&network), "streams": streams,
            "capacity": network.capacity(Arc(0)),
        }));
    }
    let Some(answers) = judge(&problems) else { return };
    let optimum: u64 = answers.iter().map(|answer| answer.as_u64().expect("a number")).sum();
    eprintln!("streams accepted: {accepted}, at most {optimum}");
    assert!(accepted as f64 >= 0.95 * optimum as f64, "{accepted} of {optimum}");
}
