//! Recovery in relays: ladders with and without rungs.

use super::random;
use crate::ladder::{self, RecoverAt};
use crate::manifest::Manifest;
use crate::network::Network;
use crate::plan::{Plan, PreviousRoutes, Refusal, StreamPlan};
use crate::route::Element;
use crate::{node_file, report};

/// Two rails of six relays, 0 to 5 and 6 to 11, with a rung at each; talker 12 and listener 13 at their ends.
fn network(recover_at: RecoverAt) -> Network {
    let rails = (0..5).flat_map(|at| [(at, at + 1, 100), (at + 6, at + 7, 100)]);
    let rungs = (0..6).map(|at| (at, at + 6, 100));
    let ends = [(12, 0, 100), (12, 6, 100), (5, 13, 100), (11, 13, 100)];
    let links: Vec<_> = rails.chain(rungs).chain(ends).collect();
    let mut network = random::network(14, &links);
    let mut stream = random::stream(0, 12, &[13]);
    stream.recover_at = recover_at;
    network.streams.push(stream);
    network
}

fn plan(network: &Network) -> Plan {
    Plan::new(network, &PreviousRoutes::default())
}

/// Pairs of elements, ends of the stream excluded, whose failure cuts the stream.
fn cutting_pairs(network: &Network, plan: &Plan) -> usize {
    let (stream, route) = (&network.streams[0], plan.routes[0].as_ref().unwrap());
    let is_end = |element: &Element| matches!(element, Element::Node(12 | 13));
    let elements: Vec<Element> = Element::all(network).filter(|element| !is_end(element)).collect();
    let cuts = |pair: &[Element]| route.reached(network, stream, pair).is_empty();
    let pairs = elements
        .iter()
        .enumerate()
        .flat_map(|(number, a)| elements[number + 1..].iter().map(|b| [*a, *b]));
    pairs.filter(|pair| cuts(pair)).count()
}

#[test]
fn rungs_survive_all_failures_but_those_of_one_segment() {
    let (plain, auto) = (network(RecoverAt::Listeners), network(RecoverAt::Auto));
    let (without, with) = (plan(&plain), plan(&auto));
    assert!(without.is_complete() && with.is_complete());
    assert_eq!(with.relays[0].len(), 12);
    // Each rail has 7 links and 6 relays: any of one with any of the other.
    assert_eq!(cutting_pairs(&plain, &without), 13 * 13);
    // With rungs only elements beside each other: both relays of a rung, both links of a segment, a relay and a link at that
    // of the other rail, a relay and the next one of the other rail.
    assert_eq!(cutting_pairs(&auto, &with), 6 + 7 + 2 * (6 * 2) + 2 * 5);
    let route = with.routes[0].as_ref().unwrap();
    for element in Element::all(&auto) {
        let loss = route.losses(&auto, &auto.streams[0], element);
        let rung = matches!(element, Element::Link(10..16));
        assert_eq!((loss.cut, loss.ended > 0), (0, matches!(element, Element::Node(12 | 13))));
        // A lost rung leaves two paths.
        assert_eq!(loss.single, usize::from(!rung && loss.ended == 0), "{element:?}");
    }
    // Each link carries one copy in each direction of its use.
    assert!(with.load.iter().all(|load| *load <= auto.streams[0].rate()));
}

#[test]
fn each_relay_has_the_history_of_its_own_segment_and_of_the_previous_plan() {
    let mut slow = network(RecoverAt::Relays);
    slow.streams[0].interval_ns = 100_000;
    let first = plan(&slow);
    let (near, far) = (&first.relays[0][0], &first.relays[0][5]);
    assert_eq!((near.node, far.node), (0, 5));
    assert!(near.delay.latest_copy_ns < far.delay.latest_copy_ns);
    assert!(near.delay.shortest_ns < far.delay.shortest_ns);
    // A long rung of the previous plan counts until its copies have arrived.
    let mut long = slow.clone();
    long.links[10].delay_ns = 5_000_000;
    let before = plan(&long);
    let files = node_file::all(&long, &before);
    let manifest = serde_json::to_string(&Manifest::new(&long, &before, &files)).unwrap();
    let previous = Manifest::parse(&manifest, "manifest.json").unwrap().previous(&slow);
    let again = Plan::new(&slow, &previous);
    assert_eq!((again.kept, &again.routes), (1, &before.routes));
    let window = |plan: &Plan| plan.relays[0][0].window.history_length;
    assert_eq!(window(&again), window(&before));
    assert!(window(&again) > window(&first), "{} {}", window(&again), window(&first));
    let text = &node_file::all(&slow, &again)[0].text;
    assert!(text.contains(&format!("recover = {{ history-length = {},", window(&again))), "{text}");
}

#[test]
fn recovery_that_does_not_fit_is_refused_or_given_up() {
    // The rungs take longer than any history holds.
    for recover_at in [RecoverAt::Relays, RecoverAt::Auto] {
        let mut network = network(recover_at);
        network.links[10..16].iter_mut().for_each(|link| link.delay_ns = 900_000_000);
        network.streams[0].interval_ns = 250_000;
        let plan = plan(&network);
        match recover_at {
            RecoverAt::Relays => {
                let refused = &plan.streams[0];
                assert!(matches!(refused, StreamPlan::Refused(Refusal::Window(_))), "{refused:?}");
                assert!(
                    report::reason(&network, &plan, 0).unwrap().contains("requires a history of")
                );
            }
            _ => {
                assert!(plan.is_complete());
                assert!(!ladder::has_rungs(&network.streams[0], plan.routes[0].as_ref().unwrap()));
            }
        }
    }
    // No link joins both paths.
    for (recover_at, is_complete) in [(RecoverAt::Relays, false), (RecoverAt::Auto, true)] {
        let mut network = network(recover_at);
        network.links[10..16].iter_mut().for_each(|link| link.speed_mbps = 1);
        let plan = plan(&network);
        assert_eq!(plan.is_complete(), is_complete);
        if !is_complete {
            let reason = report::reason(&network, &plan, 0).unwrap();
            assert!(reason.contains("no link with room joins both paths"), "{reason}");
        }
    }
}
