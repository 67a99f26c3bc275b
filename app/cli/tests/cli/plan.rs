//! `onbeat plan`: its files are valid for `onbeat run`, and forward frames as the report states.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use crate::common::run;
use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::PortId;
use onbeat_node::config::Config;
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::route::Element;
use onbeat_plan::{Network, Plan, failure, node_file};
use onbeat_testing::{CommandOutput, TemporaryDirectory, root};
use serde_json::Value;

/// A ladder of three rungs, one node of which is the only way to a further ring: shared paths occur.
fn ladder() -> String {
    let links = [
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
        ("e", "f"),
        ("f", "g"),
        ("g", "h"),
        ("a", "e"),
        ("b", "f"),
        ("c", "g"),
        ("d", "h"),
        ("h", "i"),
        ("i", "j"),
        ("j", "k"),
        ("k", "h"),
    ];
    let mut text = String::new();
    for node in "abcdefghijk".chars() {
        let ports: Vec<String> = links
            .iter()
            .filter(|(a, b)| a.starts_with(node) || b.starts_with(node))
            .map(|(a, b)| format!("{{ name = \"{a}{b}\" }}"))
            .collect();
        text += &format!(
            "[[node]]\nname = \"{node}\"\nhost = {{ interface = \"tsn0\", create = \"veth\" }}\nport = [{}]\n",
            ports.join(", ")
        );
    }
    for (a, b) in links {
        text += &format!("[[link]]\na = \"{a}:{a}{b}\"\nb = \"{b}:{a}{b}\"\ndelay-ns = 100\n");
    }
    let streams: [(&str, &[&str]); 6] = [
        ("a", &["d"]),
        ("e", &["c"]),
        ("b", &["e", "d", "g"]),
        ("a", &["j"]),
        ("i", &["k", "j"]),
        ("d", &["a", "f"]),
    ];
    for (number, (talker, listeners)) in streams.into_iter().enumerate() {
        text += &format!(
            "[[stream]]\nname = \"s{number}\"\ntalker = \"{talker}\"\nlisteners = {listeners:?}\n\
             address = \"01:00:5e:00:01:{number:02x}\"\ninterval-us = 1000\nsize = 100\n"
        );
    }
    text
}

/// Nodes with the planes that their files configure.
struct World<'a> {
    network: &'a Network,
    nodes: HashMap<u32, (Config, Plane)>,
}

impl<'a> World<'a> {
    fn new(network: &'a Network, plan: &Plan) -> Self {
        let mut nodes = HashMap::new();
        for file in node_file::all(network, plan) {
            let config = Config::parse(&file.text, "node.toml").expect("a valid file");
            let mut plane = Plane::new(config.ports.len());
            for stream in &config.streams {
                plane.set(stream).expect("a valid stream");
            }
            nodes.insert(file.node, (config, plane));
        }
        Self { network, nodes }
    }

    /// Sends a frame of a stream; returns the copies that each node delivers.
    fn send(&mut self, stream: usize, failed: Option<Element>, now_ns: u64) -> HashMap<u32, usize> {
        let network = self.network;
        let stream = &network.streams[stream];
        let mut frame = stream.address.0.to_vec();
        frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame.resize(96, 0);
        let mut delivered = HashMap::new();
        let mut open = vec![(stream.talker, "host".to_owned(), frame)];
        let mut steps = 0;
        while let Some((node, port, frame)) = open.pop() {
            steps += 1;
            assert!(steps < 1000, "frames circle");
            if failed == Some(Element::Node(node)) {
                continue;
            }
            let Some((config, plane)) = self.nodes.get_mut(&node) else { continue };
            let id = config.ports.iter().position(|config| config.name == port).expect("a port");
            let Disposition::Sent(replicas) = plane.frame(PortId(id as u8), now_ns, &frame) else {
                continue;
            };
            for replica in replicas {
                let mut copy = vec![0; replica.max_len()];
                let length = replica.write(&mut copy).expect("room");
                copy.truncate(length);
                let name = &config.ports[usize::from(replica.port.0)].name;
                if name == "host" {
                    assert_eq!(copy[12..14], [0x88, 0xb5], "an R-TAG is delivered");
                    *delivered.entry(node).or_insert(0) += 1;
                    continue;
                }
                let arc = network.arcs().find(|arc| {
                    let [from, _] = network.link_ends(*arc);
                    from.node == node
                        && network.nodes[node as usize].ports[from.port as usize].name == *name
                });
                let arc = arc.expect("a link");
                let [_, to] = network.link_ends(arc);
                if failed.is_none_or(|failed| !failed.interrupts(network, arc)) {
                    let port = network.nodes[to.node as usize].ports[to.port as usize].name.clone();
                    open.insert(0, (to.node, port, copy));
                }
            }
        }
        delivered
    }
}

/// Brute force: each element is removed from a network of planes that run the files.
#[test]
fn each_failure_cuts_exactly_the_streams_of_the_report() {
    let network = Network::parse(&ladder(), "net.toml").expect("a valid network");
    let plan = Plan::new(&network, &PreviousRoutes::default());
    assert_eq!(plan.routed().count(), network.streams.len(), "{:?}", plan.streams);
    let mut cut = 0;
    let cases = Element::all(&network).map(Some).chain([None]);
    for failed in cases {
        let mut world = World::new(&network, &plan);
        let effects = failure::effects(&network, &plan, failed);
        for index in 0..network.streams.len() {
            let stream = &network.streams[index];
            for number in 0..5 {
                let delivered = world.send(index, failed, number * 1_000_000);
                let missing: BTreeSet<u32> = stream
                    .listeners
                    .iter()
                    .copied()
                    .filter(|listener| !delivered.contains_key(listener))
                    .filter(|listener| failed != Some(Element::Node(*listener)))
                    .collect();
                assert!(delivered.values().all(|copies| *copies == 1), "{failed:?}: {delivered:?}");
                let is_talker = failed == Some(Element::Node(stream.talker));
                let is_cut = effects.iter().any(|effect| effect.cut.contains(&index));
                assert_eq!(
                    !missing.is_empty() && !is_talker,
                    is_cut,
                    "{failed:?}, {}",
                    stream.name
                );
                cut += usize::from(is_cut);
            }
        }
    }
    // The stream through the only node between both rings.
    assert!(cut > 0);
}

#[test]
fn a_plan_is_written_compared_and_kept() {
    let directory = TemporaryDirectory::new("plan");
    let path = |name: &str| directory.file(name).to_str().expect("text").to_owned();
    let example = root().join("examples/plan/net.toml");
    let example = example.to_str().expect("text");
    let CommandOutput { code, out, err } =
        run(&["plan", example, "-o", &path("one"), "--what-if", "--explain", "axis", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let result: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&result["name"], &result["ok"]), (&Value::from("plan"), &Value::from(true)));
    assert!(
        result["figures"]["stream axis"].is_object() && result["figures"]["failures"].is_object()
    );

    let manifest = fs::read_to_string(directory.file("one/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let nodes = manifest["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 9);
    for node in nodes {
        let file = path(&format!("one/{}", node["file"].as_str().expect("a name")));
        let CommandOutput { code, out, err } = run(&["run", "--check", &file]);
        assert_eq!(code, 0, "{file}: {out}{err}");
    }
    // A directory with a plan is not overwritten.
    let CommandOutput { code, err, .. } = run(&["plan", example, "-o", &path("one")]);
    assert!(code == 2 && err.contains("is not empty; use a new one"), "{err}");

    let [one, two] = ["one", "two"].map(|plan| path(&format!("{plan}/manifest.json")));
    let CommandOutput { code, out, .. } =
        run(&["plan", example, "--keep", &one, "-o", &path("two"), "--json"]);
    assert_eq!(code, 0);
    let result: Value = serde_json::from_str(&out).expect("JSON");
    let kept = &result["figures"]["totals"]["rows"][4];
    assert_eq!(kept[1], 3);
    let CommandOutput { code, out, .. } = run(&["plan", "diff", &one, &two, "--json"]);
    let result: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, result["figures"]["streams"]["rows"].as_array().map(Vec::len)), (0, Some(0)));
}

#[test]
fn unprotected_streams_exit_with_1_and_errors_with_2() {
    let directory = TemporaryDirectory::new("plan-status");
    let file = directory.file("net.toml");
    fs::write(&file, ladder()).expect("a file");
    let file = file.to_str().expect("text");
    let CommandOutput { code, out, .. } = run(&["plan", file]);
    assert!(code == 1 && out.contains("node h") && out.contains("add a link around it"), "{out}");
    let CommandOutput { code, out, .. } = run(&["plan", file, "--fail", "h"]);
    assert!(code == 1 && out.contains("node h"), "{out}");
    for (arguments, message) in [
        (&["plan", file, "--fail", "x"][..], "no link, node or group is named \"x\""),
        (&["plan", file, "--explain", "x"], "no stream is named \"x\""),
        (&["plan", "/dev/zero"], "it is a device"),
        (&["plan", "diff", file, file], "not a manifest of a plan"),
        (&["plan", file, "--keep", file], "not a manifest of a plan"),
    ] {
        let CommandOutput { code, err, .. } = run(arguments);
        assert!(code == 2 && err.contains(message), "{arguments:?}: {err}");
    }
}
