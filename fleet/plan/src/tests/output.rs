//! Manifests, files, failures, differences and pictures.

use super::input::RING;
use super::random::{self, Random};
use crate::difference::{self, ChangeKind, FileChange};
use crate::failure;
use crate::manifest::Manifest;
use crate::plan::PreviousRoutes;
use crate::route::Element;
use crate::{Network, Plan, node_file, picture, report};

fn plan(network: &Network) -> Plan {
    Plan::new(network, &PreviousRoutes::default())
}

fn manifest(network: &Network, plan: &Plan) -> Manifest {
    Manifest::new(network, plan, &node_file::all(network, plan))
}

#[test]
fn files_of_the_nodes_of_a_ring() {
    let mut network = Network::parse(RING, "net.toml").unwrap();
    network.groups.clear();
    network.links.iter_mut().for_each(|link| link.groups.clear());
    let plan = plan(&network);
    let files = node_file::all(&network, &plan);
    assert_eq!(files.iter().map(|file| file.streams).collect::<Vec<_>>(), [1, 1, 1, 1]);
    let expected = r#"# Written by onbeat plan.

[node]
name = "d"

[[port]]
name = "p1"
interface = "eth7"

[[port]]
name = "p2"
interface = "p2"

[[port]]
name = "host"
interface = "tsn0"

[[stream]]
name = "axis"
recover = { history-length = 64, reset-timeout-ms = 51 }
member = [
  { port = "p1", identify = { type = "null", destination = "01:00:5e:00:00:01" } },
  { port = "p2", identify = { type = "null", destination = "01:00:5e:00:00:01" } },
]
egress = [{ port = "host", tag = "none" }]
"#;
    assert_eq!(files[3].text, expected);
}

#[test]
fn a_manifest_keeps_routes_through_json() {
    let mut random = Random(31);
    let mut network = random::grid(4, 4);
    for number in 0..20 {
        let (talker, listener) = (random.below(16), random.below(16));
        if talker != listener {
            network.streams.push(random::stream(number, talker, &[listener]));
        }
    }
    let first = plan(&network);
    let written = manifest(&network, &first);
    let text = serde_json::to_string(&written).unwrap();
    let read = Manifest::parse(&text, "manifest.json").unwrap();
    assert_eq!(read, written);
    let again = Plan::new(&network, &read.previous(&network));
    assert_eq!((again.kept, &again.routes), (network.streams.len(), &first.routes));
    assert!(difference::between(&written, &manifest(&network, &again)).is_empty());

    // Without its links, no route is kept, and nothing panics.
    let other = random::grid(2, 2);
    assert!(read.previous(&other).values().all(|stream| stream.route.is_none()));
    for (text, message) in [
        ("{}", "not a manifest"),
        (&text.replace("onbeat-plan/1", "onbeat-plan/9"), "onbeat-plan/9"),
    ] {
        let error = Manifest::parse(text, "manifest.json").unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("manifest.json"), "{error}");
    }
}

#[test]
fn differences_name_streams_and_nodes() {
    let mut network =
        random::network(4, &[(0, 1, 1), (1, 3, 1), (0, 2, 1), (2, 3, 1), (0, 3, 900_000)]);
    network.streams = vec![random::stream(0, 0, &[3]), random::stream(1, 0, &[1])];
    let old = manifest(&network, &plan(&network));
    network.streams.remove(1);
    network.links[4].delay_ns = 0;
    network.streams.push(random::stream(2, 1, &[2]));
    let new = manifest(&network, &plan(&network));
    let changes = difference::between(&old, &new);
    let kinds: Vec<_> = changes.iter().map(|change| (change.name.as_str(), change.kind)).collect();
    assert_eq!(
        kinds,
        [("s0", ChangeKind::Reroute), ("s1", ChangeKind::Removal), ("s2", ChangeKind::Addition)]
    );
    assert!(changes[0].nodes.contains(&"n3".to_owned()));
    let [streams, nodes] = report::differences(&old, &new);
    assert_eq!((streams.rows.len(), nodes.rows.len()), (3, 4));
}

#[test]
fn differences_name_nodes_whose_files_differ() {
    let ring = RING.replace("size = 128", "size = 128\nvlan = 100");
    assert_ne!(ring, RING);
    let network = |text: &str| Network::parse(text, "net.toml").unwrap();
    let of = |network: &Network| manifest(network, &plan(network));
    let old = of(&network(&ring));
    let files = |new: &Manifest| -> Vec<(String, FileChange)> {
        assert!(difference::between(&old, new).is_empty());
        let files = difference::files(&old, new);
        files.into_iter().map(|(node, change)| (node.to_owned(), change)).collect()
    };
    assert!(files(&old).is_empty());
    let changes = [
        ("vlan = 100", "vlan = 200", &["a", "b", "c", "d"][..]),
        ("eth7", "eth8", &["d"]),
        ("tsn0", "tsn1", &["a", "d"]),
    ];
    for (from, to, nodes) in changes {
        let changed = ring.replace(from, to);
        let new = of(&network(&changed));
        let expected: Vec<_> =
            nodes.iter().map(|node| ((*node).to_owned(), FileChange::Content)).collect();
        assert_eq!(files(&new), expected, "{changed}");
        let [streams, rows] = report::differences(&old, &new);
        assert_eq!((streams.rows.len(), rows.rows.len()), (0, nodes.len()));
    }
    // Of an older version, and with another set of nodes.
    let mut older = old.clone();
    older.nodes.iter_mut().for_each(|node| node.sha256 = None);
    let text = serde_json::to_string(&older).unwrap();
    assert!(!text.contains("sha256"));
    let older = Manifest::parse(&text, "manifest.json").unwrap();
    assert!(files(&older).iter().all(|(_, change)| *change == FileChange::Unknown));
    let mut fewer = old.clone();
    fewer.nodes.remove(1);
    assert_eq!(files(&fewer), [("b".to_owned(), FileChange::Removal)]);
    assert_eq!(difference::files(&fewer, &old)["b"], FileChange::Addition);
}

#[test]
fn failures_of_a_ring_cut_nothing_and_groups_may() {
    let network = Network::parse(RING, "net.toml").unwrap();
    let ring = plan(&network);
    // Both sides of the ring are in the group "duct".
    assert!(!ring.is_complete());
    let effects = failure::effects(&network, &ring, Element::all(&network));
    for effect in &effects {
        let cut = effect.element == Element::Group(1);
        assert_eq!(effect.cut, if cut { vec![0] } else { vec![] }, "{effect:?}");
    }
    let reason = report::reason(&network, &ring, 0).unwrap();
    assert!(reason.contains("group duct") && reason.contains("no 2 paths share less"), "{reason}");
    for (name, element) in [
        ("right", Element::Link(2)),
        ("d:p1", Element::Link(2)),
        ("c", Element::Node(2)),
        ("tray", Element::Group(0)),
    ] {
        assert_eq!(Element::find(&network, name), Some(element));
    }
    assert_eq!(Element::find(&network, "x"), None);
}

/// The position, font size and text of each name in a picture.
fn names_of(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let attribute = |text: &str, name: &str| -> f64 {
        let start = text.find(&format!("{name}=\"")).expect(name) + name.len() + 2;
        text[start..].split('"').next().and_then(|value| value.parse().ok()).expect(name)
    };
    let size = attribute(svg, "font-size");
    let names = svg.split("<text").skip(1).filter(|text| text.contains("paint-order"));
    let name = |text: &str| text.split(['>', '<']).nth(1).expect("a name").to_owned();
    names.map(|text| (attribute(text, " x"), attribute(text, " y"), size, name(text))).collect()
}

#[test]
fn names_in_pictures_of_10_and_200_nodes_cover_no_other() {
    let ring = |nodes: usize| {
        let links: Vec<_> = (0..nodes).map(|node| (node, (node + 1) % nodes, 1)).collect();
        random::network(nodes, &links)
    };
    let networks = [
        ring(10),
        ring(200),
        random::grid(5, 2),
        random::grid(20, 10),
        random::grid(100, 2),
        random::connected(&mut Random(4), 200, 60),
    ];
    for mut network in networks {
        for (index, node) in network.nodes.iter_mut().enumerate() {
            node.name = format!("relay-{index}");
        }
        let plan = Plan::new(&network, &PreviousRoutes::default());
        let names = names_of(&picture::draw(&network, &plan, &[]));
        assert_eq!(names.len(), network.nodes.len());
        for (index, (x, y, size, name)) in names.iter().enumerate() {
            for (other_x, other_y, _, other) in &names[index + 1..] {
                // Letters of a sans-serif font are not wider than 0.6 of its size on average.
                let width = |name: &str| 0.6 * size * name.len() as f64;
                let beside = other_x - x >= width(name) || x - other_x >= width(other);
                assert!(beside || (y - other_y).abs() >= *size, "{name} covers {other}");
            }
        }
    }
}

#[test]
fn pictures_show_every_node_once() {
    for nodes in [2, 10, 200] {
        let mut random = Random(nodes as u64);
        let mut network = random::connected(&mut random, nodes, nodes);
        network.nodes[0].name = "<n>".into();
        network.streams.push(random::stream(0, 0, &[nodes - 1]));
        let svg = picture::draw(&network, &plan(&network), &[0]);
        assert_eq!(svg.matches("<circle").count(), nodes);
        assert!(svg.contains("&lt;n&gt;") && !svg.contains("NaN") && !svg.contains("inf"));
        // Names of nodes are apart.
        let places: Vec<(f64, f64)> = svg
            .lines()
            .filter_map(|line| {
                let (x, rest) = line.strip_prefix("<circle cx=\"")?.split_once('"')?;
                let y = rest.strip_prefix(" cy=\"")?.split_once('"')?.0;
                Some((x.parse().ok()?, y.parse().ok()?))
            })
            .collect();
        for (number, a) in places.iter().enumerate() {
            let near = |b: &&(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < 12.0;
            assert_eq!(places[number + 1..].iter().filter(near).count(), 0, "{nodes} nodes");
        }
    }
}
