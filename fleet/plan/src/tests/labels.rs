//! Labels: the colors of graphs, beside HiGHS; forwarding by the old and the new plan at once; files of nodes and bridges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::input::RING;
use super::judge::judge;
use super::random::{self, Random};
use crate::bridge;
use crate::color_graph::ColorGraph;
use crate::manifest::Manifest;
use crate::network::{Arc, Network};
use crate::plan::{Plan, PreviousRoutes, Refusal, StreamPlan};
use crate::{node_file, report};

#[test]
fn colors_exist_exactly_where_the_judge_finds_some() {
    let mut random = Random(41);
    let (mut problems, mut found) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let (vertices, colors) = (2 + random.below(9), 2 + random.below(4));
        let mut neighbors = vec![BTreeSet::new(); vertices];
        let mut edges = Vec::new();
        for a in 0..vertices {
            for b in a + 1..vertices {
                if random.below(2) == 0 {
                    neighbors[a].insert(b);
                    neighbors[b].insert(a);
                    edges.push((a, b));
                }
            }
        }
        let banned: Vec<BTreeSet<u16>> = (0..vertices)
            .map(|_| (0..random.below(3)).map(|_| 100 + random.below(colors) as u16).collect())
            .collect();
        let range = 100..=99 + colors as u16;
        let lists: Vec<Vec<u16>> = banned
            .iter()
            .map(|banned| range.clone().filter(|color| !banned.contains(color)).collect())
            .collect();
        let lists_of = |vertex: usize| &lists[vertex];
        let listed: Vec<Vec<usize>> =
            neighbors.iter().map(|set| set.iter().copied().collect()).collect();
        let chosen = ColorGraph::new(range.clone(), listed, banned).solve();
        for (vertex, color) in chosen.iter().enumerate() {
            let Some(color) = color else { continue };
            assert!(lists_of(vertex).contains(color));
            assert!(!neighbors[vertex].iter().any(|other| chosen[*other] == Some(*color)));
        }
        found.push(chosen.iter().all(Option::is_some));
        problems.push(json!({ "kind": "coloring", "colors": lists, "edges": edges }));
    }
    let Some(answers) = judge(&problems) else { return };
    for ((problem, found), answer) in problems.iter().zip(&found).zip(&answers) {
        assert_eq!(*found, answer.as_bool().expect("true or false"), "{problem}");
    }
    let solved = found.iter().filter(|found| **found).count();
    assert!(solved > 50 && found.len() - solved > 50, "{solved}");
}

/// What a node does with frames of an address and VLAN at a port: the stream and the arcs on which it sends them. A
/// foreign bridge has one entry for all ports.
type Forwarding = BTreeMap<(u32, u32, [u8; 6], u16), BTreeSet<(String, Vec<Arc>)>>;

fn add_forwarding(network: &Network, plan: &Plan, forwarding: &mut Forwarding) {
    for (index, route) in plan.routed() {
        let stream = &network.streams[index];
        for part in route.parts(network, stream) {
            for arc in &part.ingress {
                let [_, end] = network.link_ends(*arc);
                let is_bridge = network.nodes[end.node as usize].bridge.is_some();
                let port = if is_bridge { u32::MAX } else { end.port };
                let vlan = bridge::label(plan, index, *arc).expect("a label");
                let key = (end.node, port, stream.address.0, vlan);
                let action = (stream.name.clone(), part.egress.clone());
                forwarding.entry(key).or_default().insert(action);
            }
        }
    }
}

#[test]
fn the_old_and_the_new_plan_forward_side_by_side() {
    let mut random = Random(42);
    let (mut moved, mut kept, mut separate, mut refused) = (0, 0, 0, 0);
    for round in 0..150 {
        let nodes = 8 + random.below(8);
        let mut network = random::connected(&mut random, nodes, 2 * nodes);
        network.label_vlans = Some([101, [102, 104, 120][round % 3]]);
        for node in 0..nodes / 3 {
            network.nodes[node].bridge = Some("br0".into());
        }
        for number in 0..12 {
            let first = nodes / 3;
            let talker = first + random.below(nodes - first);
            let most = 1 + random.below(3);
            let mut listeners = random::listeners(&mut random, nodes, talker, most);
            listeners.retain(|listener| *listener >= first);
            if listeners.is_empty() {
                continue;
            }
            let mut stream = random::stream(number, talker, &listeners);
            // A third of the streams have a common address.
            if number % 3 == 0 {
                stream.address = random::stream(0, 0, &[1]).address;
            }
            network.streams.push(stream);
        }
        let mut previous = PreviousRoutes::default();
        let mut last: Option<(Network, Plan)> = None;
        for _ in 0..4 {
            let plan = Plan::new(&network, &previous);
            refused += plan
                .streams
                .iter()
                .filter(|stream| {
                    matches!(stream, StreamPlan::Refused(Refusal::Label | Refusal::Bridge { .. }))
                })
                .count();
            let mut forwarding = Forwarding::new();
            add_forwarding(&network, &plan, &mut forwarding);
            if let Some((before, old)) = &last {
                add_forwarding(before, old, &mut forwarding);
                for (index, route) in plan.routed() {
                    let Some(old_route) = &old.routes[index] else { continue };
                    let (now, then) = (&plan.labels[index], &old.labels[index]);
                    match old_route == route {
                        true => kept += usize::from(now == then),
                        false => {
                            assert!(now.iter().all(|vlan| !then.contains(vlan)));
                            moved += 1;
                        }
                    }
                }
            }
            for (key, actions) in &forwarding {
                assert_eq!(actions.len(), 1, "{key:?}: {actions:?}");
            }
            let labels = plan.labels.iter();
            separate += labels.filter(|labels| labels.len() > 1).count();
            let files = node_file::all(&network, &plan);
            previous = Manifest::new(&network, &plan, &files).previous(&network);
            last = Some((network.clone(), plan));
            // The next plan: without a link that the tree of the network does not need.
            let link = nodes - 1 + random.below(network.links.len() - nodes + 1);
            network.links[link].speed_mbps = 1;
        }
    }
    eprintln!("moved: {moved}, kept: {kept}, a VLAN for each path: {separate}, refused: {refused}");
    assert!(moved > 100 && kept > 500 && separate > 3 && refused > 10);
}

#[test]
fn files_set_the_label_at_the_talker_and_restore_the_vlan_at_the_listener() {
    let text =
        format!("[network]\nlabel-vlans = [101, 102]\n{}", RING.replace("group = [\"duct\"]", ""));
    let network = Network::parse(&text, "net.toml").unwrap();
    assert_eq!(network.streams[0].octets(), 128 + 6 + 4 + 20);
    let plan = Plan::new(&network, &PreviousRoutes::default());
    assert_eq!(plan.labels, [[101]]);
    let files = node_file::all(&network, &plan);
    let lines = |node: usize| files[node].text.split_once("[[stream]]").unwrap().1.to_owned();
    assert_eq!(
        lines(0),
        r#"
name = "axis"
generate = true
member = [
  { port = "host", identify = { type = "null", destination = "01:00:5e:00:00:01", tagged = "priority" } },
]
egress = [{ port = "p1", tag = "r-tag", vlan = 101 }, { port = "p2", tag = "r-tag", vlan = 101 }]
"#
    );
    assert_eq!(
        lines(1),
        r#"
name = "axis.v101"
member = [
  { port = "p1", identify = { type = "null", destination = "01:00:5e:00:00:01", vlan = 101 } },
]
egress = [{ port = "p2" }]
"#
    );
    assert!(lines(3).contains("name = \"axis\"\nrecover"));
    assert!(lines(3).contains("egress = [{ port = \"host\", tag = \"none\", vlan = \"remove\" }]"));
    let tagged = text.replace("size = 128", "size = 128\nvlan = 7");
    let network = Network::parse(&tagged, "net.toml").unwrap();
    assert_eq!(network.streams[0].octets(), 128 + 6 + 20);
    let plan = Plan::new(&network, &PreviousRoutes::default());
    let files = node_file::all(&network, &plan);
    assert!(
        files[0].text.contains("vlan = 7 } }") && files[3].text.contains("\"none\", vlan = 7 }")
    );
}

#[test]
fn foreign_bridges_get_static_entries_for_both_kinds_of_addresses() {
    let text = RING
        .replace("group = [\"duct\"]", "")
        .replace("name = \"b\"\n", "name = \"b\"\nbridge = \"br0\"\n");
    let text = format!("[network]\nlabel-vlans = [101, 102]\n{text}");
    for (address, command) in [
        ("01:00:5e:00:00:01", "mdb add dev br0 port p2 grp 01:00:5e:00:00:01 permanent vid 101"),
        ("02:00:00:00:00:09", "fdb add 02:00:00:00:00:09 dev p2 master static vlan 101"),
    ] {
        let text = text.replace("01:00:5e:00:00:01", address);
        let network = Network::parse(&text, "net.toml").unwrap();
        let plan = Plan::new(&network, &PreviousRoutes::default());
        assert!(plan.is_complete());
        let files = node_file::all(&network, &plan);
        assert_eq!(files.iter().map(|file| file.node).collect::<Vec<_>>(), [0, 2, 3]);
        let entries = bridge::entries(&network, &plan);
        assert_eq!(
            bridge::batch(&network, 1, &entries),
            format!(
                "# Written by onbeat plan: static entries of b, for `bridge -batch`.\nvlan add dev p1 vid 101\n\
                 vlan add dev p2 vid 101\n{command}\n"
            )
        );
        let manifest = Manifest::new(&network, &plan, &files);
        assert_eq!(manifest.bridges[0].file, "b.bridge");
    }
}

#[test]
fn streams_of_one_address_beyond_the_vlans_are_refused_with_a_reason() {
    // Three talkers at one relay, all to one listener behind it.
    let links = [(0, 3, 1), (1, 3, 1), (2, 3, 1), (3, 4, 1)];
    let mut network = random::network(5, &links);
    network.label_vlans = Some([101, 102]);
    for talker in 0..3 {
        let mut stream = random::stream(talker, talker, &[4]);
        stream.paths = 1;
        stream.address = random::stream(0, 0, &[1]).address;
        network.streams.push(stream);
    }
    let plan = Plan::new(&network, &PreviousRoutes::default());
    let refused: Vec<usize> = (0..3)
        .filter(|index| plan.streams[*index] == StreamPlan::Refused(Refusal::Label))
        .collect();
    assert_eq!(refused.len(), 1);
    let reason = report::reason(&network, &plan, refused[0]).unwrap();
    assert!(reason.contains("01:00:5e:01:00:00") && reason.contains("more VLANs"), "{reason}");
    network.label_vlans = Some([101, 103]);
    assert!(Plan::new(&network, &PreviousRoutes::default()).is_complete());
}

#[test]
fn many_streams_of_one_address_get_labels_where_they_do_not_meet() {
    // A ring whose streams all have one address: each port has room for four of them.
    let nodes = 400;
    let links: Vec<_> = (0..nodes).map(|node| (node, (node + 1) % nodes, 500)).collect();
    let mut network = random::network(nodes, &links);
    network.label_vlans = Some([101, 104]);
    for number in 0..nodes {
        let mut stream = random::stream(number, number, &[(number + 7) % nodes]);
        stream.address = random::stream(0, 0, &[1]).address;
        (stream.paths, stream.interval_ns) = (1, 10_000_000);
        network.streams.push(stream);
    }
    let plan = Plan::new(&network, &PreviousRoutes::default());
    let mut labels = BTreeMap::new();
    for (index, route) in plan.routed() {
        for arc in route.arcs() {
            let label = (arc, plan.labels[index][0]);
            assert_eq!(labels.insert(label, index), None, "{label:?}");
        }
    }
    // Of the seven streams of each link, four have a label.
    let refused =
        plan.streams.iter().filter(|stream| **stream == StreamPlan::Refused(Refusal::Label));
    assert_eq!(
        (plan.routed().count() + refused.count(), labels.len() * 10 > nodes * 35),
        (nodes, true)
    );
}
