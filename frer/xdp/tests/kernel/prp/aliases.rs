//! Two sources of one node: Linux 6.12 sends on each LAN with the address of that interface.
//!
//! The entity in the kernel learns and ends aliases by maintenance, which each reading includes.

use onbeat_frer::prp::Lan;
use onbeat_wire::MacAddress;

use super::{
    A, B, Both, LANS, MAX_NODES, MS, READY, parameters, supervision_of, tagged, with_trailer,
};
use crate::harness::can_run;

/// Two LifeCheckIntervals.
const ALIAS_AFTER: u64 = 4000 * MS;

const NODE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0a]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0b]);

fn both() -> Both {
    Both::new(&parameters(MAX_NODES))
}

/// A frame to both entities; returns whether the host receives it.
fn receive(both: &mut Both, lan: usize, source: MacAddress, number: u16) -> bool {
    let octets = tagged(source, number, LANS[lan]);
    !both.frame([A, B][lan], &octets, &format!("{source} {number}")).is_empty()
}

fn claim(both: &mut Both, lan: usize, source: MacAddress, node: MacAddress, number: u16) {
    let mut octets = supervision_of(source, node, None);
    octets.resize(60, 0);
    both.frame([A, B][lan], &with_trailer(&octets, number, LANS[lan]), "supervision");
    both.compare(&format!("{source} supervises {node}"));
}

/// Supervision frames of [`NODE`] by these sources until they are aliases, unless something forbids it.
fn supervise(both: &mut Both, sources: [MacAddress; 2], number: u16) {
    let start = both.now_ns();
    for (more, now_ns) in
        [start, start + ALIAS_AFTER / 2, start + ALIAS_AFTER].into_iter().enumerate()
    {
        both.at(now_ns);
        for (lan, source) in sources.into_iter().enumerate() {
            claim(both, lan, source, NODE, number + more as u16);
        }
    }
}

#[test]
fn copies_of_a_node_with_two_addresses_pass_once() {
    if !can_run() {
        return;
    }
    let mut both = both();
    supervise(&mut both, [NODE, OTHER], 0);
    let sources = [NODE, OTHER];
    for number in 10..300 {
        let first = usize::from(number % 3 == 0);
        assert!(receive(&mut both, first, sources[first], number), "{number}");
        assert!(!receive(&mut both, 1 - first, sources[1 - first], number), "{number}");
        both.compare("an alias");
    }
    let nodes = both.kernel.read().nodes;
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].mac, nodes[0].lans.map(|lan| lan.tagged)), (NODE, [293, 293]));
}

#[test]
fn claims_of_less_than_two_intervals_make_no_alias() {
    if !can_run() {
        return;
    }
    let mut both = both();
    claim(&mut both, 0, NODE, NODE, 0);
    claim(&mut both, 1, OTHER, NODE, 0);
    both.at(READY + ALIAS_AFTER - 1);
    claim(&mut both, 0, NODE, NODE, 1);
    claim(&mut both, 1, OTHER, NODE, 1);
    assert!(receive(&mut both, 0, NODE, 5));
    assert!(receive(&mut both, 1, OTHER, 5));
    both.compare("no alias");
}

#[test]
fn a_source_that_was_heard_on_both_lans_is_no_alias() {
    if !can_run() {
        return;
    }
    let mut both = both();
    assert!(receive(&mut both, 0, OTHER, 1000));
    supervise(&mut both, [NODE, OTHER], 0);
    for number in 10..20 {
        for source in [NODE, OTHER] {
            assert!(receive(&mut both, 0, source, number), "{source} {number}");
            assert!(!receive(&mut both, 1, source, number), "{source} {number}");
        }
    }
    both.compare("no alias");
}

/// From the contradiction on, no frame of either is discarded for one of the other.
fn contradict(lan: usize, source: MacAddress) {
    let mut both = both();
    supervise(&mut both, [NODE, OTHER], 0);
    assert!(receive(&mut both, 0, NODE, 10));
    assert!(!receive(&mut both, 1, OTHER, 10));
    let kernel = &both.kernel;
    assert!(kernel.accepts(LANS[lan], source, 11));
    // Before maintenance, copies may pass twice.
    for number in 12..20 {
        for source in [NODE, OTHER] {
            assert!(kernel.accepts(Lan::A, source, number), "{source} {number}");
        }
        assert!(kernel.accepts(Lan::B, OTHER, number), "{number}");
    }
    for round in 0..2 {
        kernel.read();
        for number in 20 + round * 10..30 + round * 10 {
            for source in [NODE, OTHER] {
                assert!(kernel.accepts(Lan::A, source, number), "{source} {number}");
                assert!(!kernel.accepts(Lan::B, source, number), "{source} {number}");
            }
        }
    }
    let nodes = kernel.read().nodes;
    assert_eq!(nodes.iter().map(|node| node.mac).collect::<Vec<_>>(), [NODE, OTHER]);
}

#[test]
fn an_alias_that_is_heard_on_the_other_lan_is_a_node() {
    if can_run() {
        contradict(0, OTHER);
    }
}

/// As through a RedBox that does not name itself.
#[test]
fn a_node_that_is_heard_on_the_lan_of_its_alias_has_none() {
    if can_run() {
        contradict(1, NODE);
    }
}

/// A source that supervises itself is a node, and has no number of the other one.
#[test]
fn an_alias_that_supervises_itself_is_a_node() {
    if !can_run() {
        return;
    }
    let mut both = both();
    supervise(&mut both, [NODE, OTHER], 0);
    assert!(receive(&mut both, 1, OTHER, 50));
    claim(&mut both, 1, OTHER, OTHER, 51);
    for number in 50..60 {
        assert!(receive(&mut both, 0, NODE, number), "{number}");
        assert!(receive(&mut both, 1, OTHER, number), "{number}");
    }
}

/// A neighbor forges supervision frames of one node with the source of another. Each has a path on one LAN only.
#[test]
fn forged_claims_join_no_nodes() {
    if !can_run() {
        return;
    }
    let mut both = both();
    for second in 0..30 {
        both.at(READY + u64::from(second) * 1000 * MS);
        let number = second * 10;
        if second % 2 == 0 {
            claim(&mut both, 0, NODE, NODE, number);
            claim(&mut both, 1, OTHER, OTHER, number);
        }
        claim(&mut both, 1, OTHER, NODE, 60_000);
        for number in number + 1..number + 9 {
            assert!(receive(&mut both, 0, NODE, number), "{second}");
            assert!(receive(&mut both, 1, OTHER, number), "{second}");
        }
    }
    assert_eq!(both.kernel.read().nodes.len(), 2);
}
