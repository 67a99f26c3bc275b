//! `onbeat plan`: its files are valid for `onbeat run`, and forward frames as the report states.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use crate::common::run;
use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::PortId;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_node::config::Config;
use onbeat_plan::bridge::{self, StaticEntry};
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::route::Element;
use onbeat_plan::{Network, Plan, failure, node_file};
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all, root};
use serde_json::Value;

/// A ladder of three rungs, one node of which is the only way to a further ring: shared paths occur.
///
/// With labels, one node is a foreign bridge, and two streams have the same address.
fn ladder_with(labels: bool) -> String {
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
    if labels {
        text += "[network]\nlabel-vlans = [101, 106]\n";
    }
    for node in "abcdefghijk".chars() {
        let ports: Vec<String> = links
            .iter()
            .filter(|(a, b)| a.starts_with(node) || b.starts_with(node))
            .map(|(a, b)| format!("{{ name = \"{a}{b}\" }}"))
            .collect();
        let role = match node {
            'f' if labels => "bridge = \"br0\"",
            _ => "host = { interface = \"tsn0\", create = \"veth\" }",
        };
        text += &format!("[[node]]\nname = \"{node}\"\n{role}\nport = [{}]\n", ports.join(", "));
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
        ("d", if labels { &["a", "e"] } else { &["a", "f"] }),
    ];
    for (number, (talker, listeners)) in streams.into_iter().enumerate() {
        let low = if labels && number == 1 { 0 } else { number };
        text += &format!(
            "[[stream]]\nname = \"s{number}\"\ntalker = \"{talker}\"\nlisteners = {listeners:?}\n\
             address = \"01:00:5e:00:01:{low:02x}\"\ninterval-us = 1000\nsize = 100\n"
        );
    }
    text
}

fn ladder() -> String {
    ladder_with(false)
}

/// Nodes with the planes that their files configure.
struct World<'a> {
    network: &'a Network,
    nodes: HashMap<u32, (Config, Plane)>,
    bridges: Vec<StaticEntry>,
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
        Self { network, nodes, bridges: bridge::entries(network, plan) }
    }

    /// Sends a frame of a stream; returns the copies that each node delivers.
    fn send(&mut self, stream: usize, failed: &[Element], now_ns: u64) -> HashMap<u32, usize> {
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
            if failed.contains(&Element::Node(node)) {
                continue;
            }
            if network.nodes[node as usize].bridge.is_some() {
                open.splice(0..0, self.bridged(node, &port, &frame, failed));
                continue;
            }
            let Some((config, plane)) = self.nodes.get_mut(&node) else { continue };
            let id = config.ports.iter().position(|config| config.name == port).expect("a port");
            let Disposition::Sent(replicas) = plane.frame(PortId(id as u8), now_ns, &frame) else {
                continue;
            };
            let mut copies = Vec::new();
            for replica in replicas {
                let mut copy = vec![0; replica.max_len()];
                let length = replica.write(&mut copy).expect("room");
                copy.truncate(length);
                let name = config.ports[usize::from(replica.port.0)].name.clone();
                if name == "host" {
                    assert_eq!(copy[12..14], [0x88, 0xb5], "an R-TAG is delivered");
                    *delivered.entry(node).or_insert(0) += 1;
                    continue;
                }
                copies.push((name, copy));
            }
            for (name, copy) in copies {
                let next = self.next(node, &name, failed);
                open.splice(0..0, next.map(|(node, port)| (node, port, copy)));
            }
        }
        delivered
    }

    /// The node and port at the other end of a link, unless it failed.
    fn next(&self, node: u32, port: &str, failed: &[Element]) -> Option<(u32, String)> {
        let network = self.network;
        let arc = network.arcs().find(|arc| {
            let [from, _] = network.link_ends(*arc);
            from.node == node && network.nodes[node as usize].ports[from.port as usize].name == port
        });
        let arc = arc.expect("a link");
        let [_, to] = network.link_ends(arc);
        let name = || network.nodes[to.node as usize].ports[to.port as usize].name.clone();
        (!failed.iter().any(|failed| failed.interrupts(network, arc))).then(|| (to.node, name()))
    }

    /// The frames that a foreign bridge sends by its static entries.
    fn bridged(
        &self,
        node: u32,
        port: &str,
        frame: &[u8],
        failed: &[Element],
    ) -> Vec<(u32, String, Vec<u8>)> {
        assert_eq!(frame[12..14], [0x81, 0x00], "no VLAN tag");
        let vlan = u16::from_be_bytes([frame[14] & 0xf, frame[15]]);
        let entry = self.bridges.iter().find(|entry| {
            (entry.node, entry.vlan, &entry.address.0[..]) == (node, vlan, &frame[..6])
        });
        let entry = entry.expect("a static entry");
        let name = |port: &u32| &self.network.nodes[node as usize].ports[*port as usize].name;
        assert!(entry.ingress.iter().any(|ingress| name(ingress) == port));
        let ports = entry.egress.iter().map(name).filter(|name| *name != port);
        let next = ports.filter_map(|port| self.next(node, port, failed));
        next.map(|(node, port)| (node, port, frame.to_vec())).collect()
    }
}

/// Brute force: each element is removed from a network of planes that run the files.
#[test]
fn each_failure_cuts_exactly_the_streams_of_the_report() {
    each_failure_cuts_the_reported_streams(&ladder(), 0);
}

#[test]
fn each_failure_cuts_exactly_those_also_with_labels_and_a_foreign_bridge() {
    // The foreign bridge would have to copy frames of a listener that also forwards.
    each_failure_cuts_the_reported_streams(&ladder_with(true), 1);
}

#[test]
fn each_pair_of_failures_cuts_exactly_those_also_with_recovery_in_relays() {
    let text = ladder_with(false);
    let recovering =
        text.replace("listeners = [\"d\"]", "listeners = [\"d\"]\nrecover-at = \"relays\"");
    let counts = [text, recovering].map(|text| {
        let network = Network::parse(&text, "net.toml").expect("a valid network");
        let plan = Plan::new(&network, &PreviousRoutes::default());
        let route = plan.routes[0].as_ref().expect("a route");
        let stream = &network.streams[0];
        let ends = [stream.talker, stream.listeners[0]].map(Element::Node);
        let elements: Vec<Element> =
            Element::all(&network).filter(|element| !ends.contains(element)).collect();
        let mut cut = 0;
        for (number, a) in elements.iter().enumerate() {
            for b in &elements[number..] {
                let mut world = World::new(&network, &plan);
                let failed = [*a, *b];
                let delivered = world.send(0, &failed, 0);
                let is_cut = route.reached(&network, stream, &failed).is_empty();
                assert_eq!(delivered.is_empty(), is_cut, "{failed:?}");
                assert!(delivered.values().all(|copies| *copies == 1));
                cut += usize::from(is_cut);
            }
        }
        cut
    });
    assert!(counts[1] < counts[0], "{counts:?}");
}

fn each_failure_cuts_the_reported_streams(text: &str, refused: usize) {
    let network = Network::parse(text, "net.toml").expect("a valid network");
    let plan = Plan::new(&network, &PreviousRoutes::default());
    assert_eq!(plan.routed().count() + refused, network.streams.len(), "{:?}", plan.streams);
    let mut cut = 0;
    let cases = Element::all(&network).map(Some).chain([None]);
    for failed in cases {
        let mut world = World::new(&network, &plan);
        let effects = failure::effects(&network, &plan, failed);
        for (index, _) in plan.routed() {
            let stream = &network.streams[index];
            for number in 0..5 {
                let failed_elements: Vec<Element> = failed.into_iter().collect();
                let delivered = world.send(index, &failed_elements, number * 1_000_000);
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
    let text = fs::read_to_string(example).expect("the example");
    fs::write(path("net.toml"), text.replace("[101, 102]", "[201, 202]")).expect("a file");
    let three = path("three");
    let changed = ["plan", &path("net.toml"), "--keep", &two, "-o", &three];
    assert_eq!(run(&changed).code, 0);
    let three = format!("{three}/manifest.json");
    let CommandOutput { code, out, .. } = run(&["plan", "diff", &two, &three, "--json"]);
    let result: Value = serde_json::from_str(&out).expect("JSON");
    let nodes = result["figures"]["nodes"]["rows"].as_array().expect("rows");
    assert_eq!((code, nodes.len()), (0, 9), "{out}");
    assert!(nodes.iter().all(|row| row[2] == "differs"), "{out}");
}

/// A talker, a relay that is a listener, and a listener whose host interface exists, with streams of two frame sizes.
const SIZES: &str = r#"
node = [
  { name = "a", host = { interface = "tsn0", create = "veth" }, port = [{ name = "eth1" }, { name = "eth2" }] },
  { name = "b", host = { interface = "eth0" }, port = [{ name = "eth1" }, { name = "eth2" }] },
  { name = "c", host = { interface = "eth0" }, port = [{ name = "eth1" }, { name = "eth2" }] },
]
link = [{ a = "a:eth1", b = "b:eth1" }, { a = "b:eth2", b = "c:eth1" }, { a = "a:eth2", b = "c:eth2" }]
stream = [
  { name = "short", talker = "a", listeners = ["c"], address = "01:00:5e:00:00:01", interval-us = 1000, size = 128 },
  { name = "long", talker = "a", listeners = ["b"], address = "01:00:5e:00:00:02", interval-us = 1000, size = 9018, paths = 1 },
  { name = "back", talker = "c", listeners = ["b"], address = "01:00:5e:00:00:03", interval-us = 1000, size = 128, paths = 1 },
]
"#;

#[test]
fn files_of_a_plan_are_valid_where_their_interfaces_exist() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let directory = TemporaryDirectory::new("plan-interfaces");
    let path = |name: &str| directory.file(name).to_str().expect("text").to_owned();
    let example = fs::read_to_string(root().join("examples/plan/net.toml")).expect("the example");
    // The MTU of hosts, in files where the plan sets it.
    let hosts = [
        ("example", example.as_str(), vec![("press", 1500), ("robot", 1500), ("camera", 1500)]),
        ("sizes", SIZES, vec![("a", 9000), ("b", 9000)]),
    ];
    for (name, text, hosts) in hosts {
        let file = path(&format!("{name}.toml"));
        fs::write(&file, text).expect("a file");
        let CommandOutput { code, out, err } = run(&["plan", &file, "-o", &path(name)]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        for (node, mtu) in hosts {
            let text = fs::read_to_string(path(&format!("{name}/{node}.toml"))).expect("a file");
            let node = Config::parse(&text, "node.toml").expect("a valid file");
            let host = node.ports.iter().find(|port| port.name == "host").expect("a host");
            assert_eq!(host.mtu, Some(mtu), "{text}");
        }
        let network = Network::parse(text, "net.toml").expect("a valid network");
        for node in &network.nodes {
            let file = path(&format!("{name}/{}.toml", node.name));
            let namespace = Namespace::new().expect("a namespace");
            let handle = Handle::in_namespace(&namespace).expect("a handle");
            let existing = node.host.iter().filter(|host| !host.create).map(|host| &host.interface);
            for interface in node.ports.iter().map(|port| &port.interface).chain(existing) {
                let peer = VethEnd::new(format!("{interface}-peer"));
                handle.create_veth(&VethEnd::new(interface), &peer).expect("a veth");
                handle.set_up(interface).expect("up");
            }
            let check = || run(&["run", "--check", &file]);
            let CommandOutput { code, out, err } = namespace.run(check).expect("a thread in it");
            assert_eq!((code, err.as_str()), (0, ""), "{file}: {out}");
        }
    }
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

#[test]
fn discovered_files_become_a_network_that_can_be_planned() {
    let directory = TemporaryDirectory::new("plan-discover");
    let path = |name: &str| directory.file(name).to_str().expect("text").to_owned();
    let ends = ["a", "b", "c", "d"];
    for (number, node) in ends.iter().enumerate() {
        let neighbor = |other: usize, port: &str| {
            serde_json::json!({
                "chassis": { ends[other % 4]: { "id": { "type": "mac", "value": format!("02:00:00:00:00:0{}", other % 4) } } },
                "port": { "id": { "type": "ifname", "value": port } }
            })
        };
        let interface = [
            serde_json::json!({ "eth1": neighbor(number + 1, "eth2") }),
            serde_json::json!({ "eth2": neighbor(number + 3, "eth1") }),
        ];
        let lldp = serde_json::json!({ "lldp": { "interface": interface } });
        fs::write(path(&format!("{node}.lldp.json")), lldp.to_string()).expect("a file");
    }
    let mut files: Vec<String> =
        ends.iter().map(|node| path(&format!("{node}.lldp.json"))).collect();
    // The output of this host's doctor, of which a defect may be a remark.
    let CommandOutput { out, .. } = run(&["doctor", "--json"]);
    fs::write(path("a.doctor.json"), out).expect("a file");
    files.push(path("a.doctor.json"));
    let mut arguments = vec!["plan", "discover"];
    arguments.extend(files.iter().map(String::as_str));
    let CommandOutput { code, out, err } = run(&arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let net = path("net.toml");
    arguments.extend(["-o", &net]);
    assert_eq!(run(&arguments).code, 0);
    assert_eq!(fs::read_to_string(&net).expect("a file"), out);
    let CommandOutput { code, err, .. } = run(&arguments);
    assert!(code == 2 && err.contains("exists; use a new file"), "{err}");
    let stream = "[[stream]]\nname = \"s\"\ntalker = \"a\"\nlisteners = [\"c\"]\n\
                  address = \"01:00:5e:00:00:01\"\ninterval-us = 1000\nsize = 100\n";
    fs::write(&net, out + stream).expect("a file");
    let CommandOutput { code, out, err } = run(&["plan", &net, "--what-if"]);
    assert_eq!(code, 0, "{out}{err}");
    let CommandOutput { code, err, .. } = run(&["plan", "discover", &net]);
    assert!(code == 2 && err.contains("net.toml") && err.contains("neither JSON nor XML"), "{err}");
}
