//! Observations of the captures, compared with those of tshark's dissector (`vectors/powerlink/observed.toml`).

use onbeat_powerlink::observe::{Observation, Observer, Request};
use onbeat_testing::vectors;
use onbeat_wire::powerlink::{NmtState, NodeId};
use toml::{Table, Value};

/// Count, minimum, maximum and sum.
fn spread(values: &[u64]) -> [u64; 4] {
    let least = values.iter().min().copied().unwrap_or_default();
    let greatest = values.iter().max().copied().unwrap_or_default();
    [values.len() as u64, least, greatest, values.iter().sum()]
}

fn number(table: &Table, key: &str) -> u64 {
    let value = table[key].as_integer().unwrap_or_else(|| panic!("{key}: {}", table[key]));
    u64::try_from(value).unwrap()
}

fn expected_spread(table: &Table, key: &str) -> [u64; 4] {
    let inner = table[key].as_table().unwrap();
    ["count", "min", "max", "sum"].map(|key| number(inner, key))
}

fn check(name: &str) {
    let expected: Table = vectors::read("powerlink/observed.toml");
    let expected = expected[name].as_table().unwrap();

    let mut observer = Observer::new();
    let (mut cycles, mut polls, mut idents, mut states) = (vec![], vec![], vec![], vec![]);
    for captured in crate::common::capture(name) {
        observer.observe(captured.time_ns, &captured.frame, |observation| match observation {
            Observation::Cycle { interval_ns, .. } => cycles.push(interval_ns),
            Observation::Response { request: Request::Poll, delay_ns, .. } => polls.push(delay_ns),
            Observation::Response { request: Request::Ident, delay_ns, .. } => {
                idents.push(delay_ns);
            }
            Observation::State { node, to, .. } => states.push((node, to)),
            _ => {}
        });
    }

    let frames = observer.frames();
    let counts = [frames.soc, frames.preq, frames.pres, frames.soa, frames.asnd];
    assert_eq!(counts, ["soc", "preq", "pres", "soa", "asnd"].map(|key| number(expected, key)));
    assert_eq!((frames.malformed, frames.amni), (0, 0));
    assert_eq!(spread(&cycles), expected_spread(expected, "cycles-ns"));
    assert_eq!(spread(&polls), expected_spread(expected, "polls-ns"));
    assert_eq!(spread(&idents), expected_spread(expected, "idents-ns"));
    let unanswered = |request| {
        let nodes = observer.nodes().values();
        nodes.map(|node| node.requests(request).unanswered).sum::<u64>()
    };
    assert_eq!(unanswered(Request::Poll), number(expected, "unanswered-polls"));
    assert_eq!(unanswered(Request::Ident), number(expected, "unanswered-idents"));
    let unasked: u64 = observer.nodes().values().map(|node| node.unsolicited).sum();
    assert_eq!(unasked, number(expected, "unasked"));
    let reported = expected["states"].as_array().unwrap().iter().map(|pair| {
        let pair: Vec<&Value> = pair.as_array().unwrap().iter().collect();
        let octet = |value: &Value| value.as_integer().unwrap() as u8;
        (NodeId(octet(pair[0])), NmtState(octet(pair[1])))
    });
    assert_eq!(states, reported.collect::<Vec<_>>());
}

#[test]
fn a_network_with_a_mandatory_node() {
    check("boot-1cn-mandatory");
}

#[test]
fn a_network_with_an_optional_node() {
    check("boot-1cn-stock");
}
