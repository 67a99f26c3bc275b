//! Imports: GraphML and node-link JSON that networkx writes, LLDP neighbors that lldpd printed, YANG and NetJSON by hand.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Network;
use crate::import::Draft;
use crate::plan::{Plan, PreviousRoutes};

/// Writes random graphs as GraphML and as node-link JSON; each answer has both, and the degrees by label.
const WRITER: &str = r#"
import io, json, random
import networkx

random.seed(7)
for number in range(60):
    kind = [networkx.Graph, networkx.MultiGraph, networkx.DiGraph][number % 3]
    graph = networkx.connected_watts_strogatz_graph(6 + number % 9, 4, 0.3, seed=number)
    graph = kind(graph)
    labels = {node: f"Städt/{node} \"&<" for node in graph}
    networkx.set_node_attributes(graph, labels, "label")
    for edge in graph.edges(keys=True) if kind is networkx.MultiGraph else graph.edges():
        name, speed = [("speed_mbps", 100), ("LinkSpeedRaw", 1e8)][number % 2]
        graph.edges[edge][name] = speed
        graph.edges[edge]["dist"] = 2.5
    if kind is networkx.MultiGraph:
        graph.add_edge(0, 1)
    text = io.BytesIO()
    networkx.write_graphml(graph, text)
    degrees = {labels[node]: degree for node, degree in networkx.Graph(graph).degree()}
    if kind is networkx.MultiGraph:
        degrees = {labels[node]: degree for node, degree in graph.degree()}
    print(json.dumps([text.getvalue().decode(), networkx.node_link_data(graph), degrees]))
"#;

fn parse(draft: &Draft) -> Network {
    let text = draft.to_string();
    Network::parse(&text, "net.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn graphs_that_networkx_writes_are_read_with_all_links() {
    let Some(output) = onbeat_testing::python::run(WRITER, "networkx", "python3-networkx", "")
    else {
        return;
    };
    let mut graphs = 0;
    for line in output.lines() {
        let (graphml, node_link, degrees): (String, Value, BTreeMap<String, usize>) =
            serde_json::from_str(line).expect("JSON");
        for text in [graphml, node_link.to_string()] {
            let mut draft = Draft::default();
            draft.add(&text, "graph").unwrap();
            let network = parse(&draft);
            let mut found: Vec<usize> = network.nodes.iter().map(|node| node.ports.len()).collect();
            let mut expected: Vec<usize> = degrees.values().copied().collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert!(draft.to_string().contains("# Städt/0 \"&<\n"));
            let with_speed = network.links.iter().filter(|link| link.speed_mbps == 100);
            assert!(with_speed.clone().all(|link| link.delay_ns == 12_500));
            assert!(with_speed.count() + 1 >= network.links.len());
            graphs += 1;
        }
    }
    assert_eq!(graphs, 120);
}

#[test]
fn neighbors_of_lldpd_become_links_and_the_silent_node_is_named() {
    let text = include_str!("data/lldp.json");
    let mut draft = Draft::default();
    draft.add(text, "outputs/la.lldp.json").unwrap();
    let remark = "# no LLDP output of its own";
    assert!(draft.to_string().contains(remark));
    // The view of the other node: the same links from their other ends, one neighbor without a list.
    let neighbor = |port: &str| {
        json!({
            "chassis": { "la": { "id": { "type": "mac", "value": "02:00:00:00:00:01" } } },
            "port": { "id": { "type": "ifname", "value": port }, "descr": "uplink" }
        })
    };
    let one = json!({ "lldp": { "interface": { "eth2": neighbor("eth1") } } });
    draft.add(&one.to_string(), "outputs/lb.json").unwrap();
    let doctor = json!({ "worst": "bad", "findings": [
        { "id": "x", "interface": "eth2", "level": "bad", "what": "MTU", "value": "1500", "remedy": "raise\nit" },
        { "id": "y", "interface": null, "level": "ok", "what": "kernel", "value": "6.1", "remedy": null }
    ] });
    draft.add(&doctor.to_string(), "lb.doctor.json").unwrap();
    let written = draft.to_string();
    assert!(!written.contains(remark), "{written}");
    assert!(written.contains("# doctor: eth2, MTU: 1500; raise it\n"), "{written}");
    let network = parse(&draft);
    let names: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["la", "lb"]);
    assert_eq!(network.links.len(), 2);
    assert!(network.links.iter().all(|link| link.speed_mbps == 10_000));

    let twice =
        json!({ "lldp": { "interface": [{ "eth1": neighbor("a") }, { "eth1": neighbor("b") }] } });
    let error = Draft::default().add(&twice.to_string(), "la.json").unwrap_err().to_string();
    assert!(
        error.starts_with("la.json: lldp.interface.eth1: the port has several neighbors"),
        "{error}"
    );
}

#[test]
fn a_node_whose_file_has_another_name_than_its_neighbors_report_is_one_node() {
    let own = include_str!("data/lldp.json").to_owned();
    let neighbor = |name: &str, port: &str| {
        json!({
            "chassis": { name: { "id": { "type": "mac", "value": "02:00:00:00:00:01" } } },
            "port": { "id": { "type": "ifname", "value": port }, "descr": "uplink" }
        })
    };
    let lb = |name: &str, port: &str| {
        let neighbors = json!({ "lldp": { "interface": { "eth2": neighbor(name, port) } } });
        (neighbors.to_string(), "outputs/lb.json".to_owned())
    };
    let written = |files: &[(String, String)]| {
        let draft = Draft::read(files).unwrap();
        let names: Vec<String> = parse(&draft).nodes.into_iter().map(|node| node.name).collect();
        (draft.to_string(), names)
    };
    let file = (own, "outputs/cell-7.lldp.json".to_owned());
    let silent = "# no LLDP output of its own";
    for files in [[file.clone(), lb("la", "eth1")], [lb("la", "eth1"), file.clone()]] {
        let (text, names) = written(&files);
        assert_eq!(names.iter().filter(|name| *name == "cell-7").count(), 1);
        assert_eq!(names.len(), 2, "{text}");
        assert!(text.contains("# named by its file; its LLDP system name is \"la\"\n"), "{text}");
        assert!(!text.contains(silent), "{text}");
        assert_eq!(text.matches("[[link]]").count(), 2, "{text}");
    }
    // Another port is another device, which has the cable at eth2 as well: a mistake that the draft shows.
    let text = Draft::read(&[file, lb("lx", "eth9")]).unwrap().to_string();
    assert!(text.matches("[[node]]").count() == 3 && text.contains(silent), "{text}");
}

#[test]
fn ten_thousands_of_nodes_with_one_label_get_names() {
    // Beyond some thousands, a search from the first number for each node would not end within hours.
    const NODES: usize = 100_000;
    let node = |id: usize| json!({ "id": id, "label": "cabinet" });
    let graph = json!({ "nodes": (0..NODES).map(node).collect::<Vec<_>>(), "links": [] });
    let mut draft = Draft::default();
    draft.add(&graph.to_string(), "net.json").unwrap();
    let text = draft.to_string();
    assert!(text.contains("name = \"cabinet\"\n"));
    let last = format!("name = \"cabinet-{NODES}\"\n");
    assert_eq!((text.matches("[[node]]").count(), text.matches(&last).count()), (NODES, 1));
}

/// A ring of four bridges as RFC 8345 describes it, each link in both directions.
fn yang_ring() -> Value {
    let node = |number: usize| {
        json!({
            "node-id": format!("sw{number}"),
            "ietf-network-topology:termination-point": [{ "tp-id": "1" }, { "tp-id": "2",
                "ietf-l2-topology:l2-termination-point-attributes": { "interface-name": "eth2" } }],
            "ietf-l2-topology:l2-node-attributes": { "bridge-id": [format!("80:00:02:00:00:00:00:0{number}")] }
        })
    };
    let link = |(from, to, ports): (usize, usize, [&str; 2])| {
        json!({
            "link-id": format!("{from}-{to}"),
            "source": { "source-node": format!("sw{from}"), "source-tp": ports[0] },
            "destination": { "dest-node": format!("sw{to}"), "dest-tp": ports[1] },
            "ietf-l2-topology:l2-link-attributes": { "rate": "100000", "delay": 3 }
        })
    };
    let links = (0..4).flat_map(|a| {
        let b = (a + 1) % 4;
        [(a, b, ["1", "2"]), (b, a, ["2", "1"])]
    });
    json!({ "ietf-network:networks": { "network": [{
        "network-id": "plant",
        "network-types": { "ietf-l2-topology:l2-topology": {} },
        "node": (0..4).map(node).collect::<Vec<_>>(),
        "ietf-network-topology:link": links.map(link).collect::<Vec<_>>()
    }] } })
}

fn cnc() -> Value {
    let station = |address: &str, name: &str| json!({ "end-station-interfaces": [{ "mac-address": address, "interface-name": name }] });
    let mut talker = station("02-00-00-00-00-00", "eth0");
    talker["data-frame-specification"] = json!([
        { "index": 0, "ieee802-mac-addresses": {
            "destination-mac-address": "01-00-5E-00-00-01", "source-mac-address": "02-00-00-00-00-00" } },
        { "index": 1, "ieee802-vlan-tag": { "priority-code-point": 6, "vlan-id": 100 } }
    ]);
    talker["traffic-specification"] = json!({
        "interval": { "numerator": 1, "denominator": 4000 }, "max-frames-per-interval": 1, "max-frame-size": 106
    });
    talker["user-to-network-requirements"] =
        json!({ "num-seamless-trees": 2, "max-latency": 2_000_000 });
    let mut listener = station("02-00-00-00-00-99", "sw2");
    listener["index"] = 0.into();
    listener["user-to-network-requirements"] = json!({ "max-latency": 1_500_000 });
    json!({ "ieee802-dot1q-cnc-config:cnc-config": { "domain": [{ "domain-id": "d", "cuc": [{
        "cuc-id": "c",
        "stream": [{ "stream-id": "02-00-00-00-00-00:00-01", "talker": talker, "listener": [listener] }]
    }] }] } })
}

#[test]
fn a_topology_of_rfc_8345_and_requirements_of_802_1qdj_make_a_plan() {
    let mut draft = Draft::default();
    draft.add(&yang_ring().to_string(), "topology.json").unwrap();
    draft.add(&cnc().to_string(), "streams.json").unwrap();
    let network = parse(&draft);
    assert_eq!((network.nodes.len(), network.links.len()), (4, 4));
    assert_eq!((network.links[0].speed_mbps, network.links[0].delay_ns), (100, 3000));
    assert_eq!(
        (network.nodes[0].name.as_str(), network.nodes[0].ports[1].name.as_str()),
        ("sw0", "eth2")
    );
    let stream = &network.streams[0];
    assert_eq!((stream.talker, &stream.listeners[..]), (0, &[2][..]));
    assert_eq!((stream.interval_ns, stream.size, stream.vlan), (250_000, 106 + 18 + 4, Some(100)));
    assert_eq!((stream.paths, stream.max_delay_ns), (2, Some(1_500_000)));
    assert!(Plan::new(&network, &PreviousRoutes::default()).is_complete());
}

#[test]
fn netjson_graphs_are_read_with_labels_and_properties() {
    let graph = json!({
        "type": "NetworkGraph", "protocol": "olsr", "version": "1", "metric": "etx",
        "nodes": [{ "id": "10.0.0.1", "label": "north" }, { "id": "10.0.0.2" }],
        "links": [{ "source": "10.0.0.1", "target": "10.0.0.2", "cost": 1.0,
                    "properties": { "speed-mbps": 2500, "delay-ns": 40 } },
                  { "source": "10.0.0.1", "target": "10.0.0.1", "cost": 1.0 }]
    });
    let mut draft = Draft::default();
    draft.add(&graph.to_string(), "graph.json").unwrap();
    let network = parse(&draft);
    assert_eq!(network.nodes[0].name, "north");
    assert_eq!((network.links[0].speed_mbps, network.links[0].delay_ns), (2500, 40));
    assert!(
        draft.to_string().contains("# links[1] leads from a node to itself, and is left out\n")
    );
}

/// Reads files of one network; returns the ends of the links, and the draft as text.
fn links(files: &[(&str, Value)]) -> (Vec<String>, String) {
    let files = files.iter().map(|(name, value)| match value {
        Value::String(text) => (text.clone(), (*name).to_owned()),
        value => (value.to_string(), (*name).to_owned()),
    });
    let draft = Draft::read(&files.collect::<Vec<_>>()).unwrap();
    (parse(&draft).links.into_iter().map(|link| link.name).collect(), draft.to_string())
}

/// Edges between the nodes a and b in each direction, as GraphML.
fn graphml(kind: &str, there: usize, back: usize) -> Value {
    let edges = "<edge source='a' target='b'/>".repeat(there)
        + &"<edge source='b' target='a'/>".repeat(back);
    format!("<graphml><graph {kind}><node id='a'/><node id='b'/>{edges}</graph></graphml>").into()
}

/// The same as node-link JSON.
fn node_link(mut kind: Value, there: usize, back: usize) -> Value {
    let edge = |a: &str, b: &str| json!({ "source": a, "target": b });
    let mut edges = vec![edge("a", "b"); there];
    edges.extend(vec![edge("b", "a"); back]);
    kind["nodes"] = json!([{ "id": "a" }, { "id": "b" }]);
    kind["links"] = edges.into();
    kind
}

#[test]
fn both_directions_of_a_cable_are_one_link() {
    let directed = json!({ "directed": true, "multigraph": true });
    let netjson = json!({ "type": "NetworkGraph" });
    let cases = [
        (graphml("edgedefault='directed'", 2, 2), 2),
        (graphml("edgedefault='directed'", 1, 3), 3),
        (graphml("edgedefault='undirected'", 1, 1), 2),
        (node_link(directed.clone(), 1, 1), 1),
        (node_link(directed, 2, 2), 2),
        (node_link(netjson.clone(), 1, 1), 1),
        (node_link(netjson, 3, 0), 3),
        (node_link(json!({ "directed": false, "multigraph": true }), 1, 1), 2),
        (node_link(json!({ "directed": false, "multigraph": false }), 1, 1), 1),
    ];
    for (graph, count) in cases {
        let (links, text) = links(&[("graph", graph.clone())]);
        assert_eq!(links.len(), count, "{graph}");
        assert!(!text.contains("# check"), "{text}");
    }
    let ports = "<graphml><graph edgedefault='directed'><node id='a'/><node id='b'/>\
        <edge source='a' sourceport='x' target='b'/><edge source='a' sourceport='y' target='b'/>\
        <edge source='b' target='a' targetport='y'><data key='speed_mbps'>100</data></edge>\
        <edge source='b' target='a' targetport='x'/></graph></graphml>";
    let (links, text) = links(&[("graph", ports.into())]);
    assert_eq!(links, ["a:x-b:p1", "a:y-b:p2"]);
    assert!(text.contains("{ name = \"y\", speed-mbps = 100 }") && !text.contains("# check"));
}

#[test]
fn reports_of_several_files_about_one_cable_are_one_link() {
    /// LLDP output with a neighbor at each interface: its name, and the type and value of its port id.
    fn lldp(neighbors: &[(&str, &str, &str, &str)]) -> Value {
        let neighbor = |&(interface, name, kind, port): &(&str, &str, &str, &str)| {
            let id = json!({ "type": "mac", "value": "02:00:00:00:00:99" });
            json!({ interface: {
                "chassis": { name: { "id": id } }, "port": { "id": { "type": kind, "value": port } }
            } })
        };
        let neighbors: Vec<Value> = neighbors.iter().map(neighbor).collect();
        json!({ "lldp": { "interface": neighbors } })
    }
    let (number, guess) = ("two reports may be one cable", "were taken for one cable");
    let mac = "02:00:00:00:00:20";
    let a = ("a.json", lldp(&[("eth0", "b", "mac", mac)]));
    let b = ("b.json", lldp(&[("eth5", "a", "mac", mac)]));
    let named = ("a.json", lldp(&[("eth0", "b", "ifname", "eth5")]));
    let other = ("b.json", lldp(&[("eth5", "a", "local", "7")]));
    let a2 = ("a.json", lldp(&[("eth0", "b", "mac", mac), ("eth1", "b", "mac", mac)]));
    let b2 = ("b.json", lldp(&[("eth5", "a", "mac", mac), ("eth6", "a", "mac", mac)]));
    let topology = ("t.json", node_link(json!({}), 1, 0));
    let two = ("two.json", node_link(json!({}), 2, 2));
    let one = &["a:eth0-b:eth5"][..];
    let cases = [
        (vec![&a, &b], one, ""),
        (vec![&named, &b, &a], one, ""),
        (vec![&named, &named], one, ""),
        (vec![&topology, &named], one, guess),
        (vec![&topology, &a, &b], one, guess),
        (vec![&topology, &topology], &["a:p1-b:p1"], guess),
        (vec![&two, &named], &["a:eth0-b:eth5", "a:p1-b:p1"], guess),
        (vec![&a2, &b2], &["a:eth0-b:eth5", "a:eth1-b:eth6"], guess),
        (vec![&a2], &["a:eth0-b:p1", "a:eth1-b:p2"], ""),
        (vec![&a, &other], &["a:eth0-b:p1", "a:7-b:eth5"], number),
    ];
    for (files, expected, remark) in cases {
        let files: Vec<(&str, Value)> = files.into_iter().cloned().collect();
        let (mut links, text) = links(&files);
        links.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(links, expected, "{files:?}");
        assert_eq!(text.contains("# check"), !remark.is_empty(), "{text}");
        assert!(text.contains(remark), "{text}");
    }
    // The names of ports by their interfaces, whichever file comes first.
    let ring = || ("topology.json", yang_ring());
    let of_sw0 = || ("sw0.json", lldp(&[("eth2", "sw3", "ifname", "1")]));
    for files in [[ring(), of_sw0()], [of_sw0(), ring()]] {
        assert_eq!(links(&files).0.len(), 4);
    }
}

#[test]
fn values_that_net_toml_does_not_permit_become_remarks() {
    let cases = [
        ("speed_mbps", "-5", "1 to 800000 Mbit/s"),
        ("speed_mbps", "900000", "1 to 800000 Mbit/s"),
        ("LinkSpeedRaw", "1000", "1 to 800000 Mbit/s"),
        ("speed-mbps", "fast", "1 to 800000 Mbit/s"),
        ("delay_ns", "1e300", "0 to 1000000000 ns"),
        ("length_km", "1000000000", "0 to 1000000000 ns"),
    ];
    for (name, value, permitted) in cases {
        let written = serde_json::from_str(value).unwrap_or(Value::from(value));
        let mut json = node_link(json!({}), 1, 0);
        json["links"][0][name] = written;
        let edge = "<edge source='a' target='b'/>";
        let with_data = edge.replace("/>", &format!("><data key='{name}'>{value}</data></edge>"));
        let xml = graphml("", 1, 0).as_str().unwrap().replace(edge, &with_data).into();
        for graph in [json, xml] {
            let (links, text) = links(&[("graph", graph)]);
            assert_eq!(links.len(), 1);
            assert!(text.contains(&format!("\n# {name} = ")), "{text}");
            assert!(
                text.contains(&format!(" is left out: not from {permitted}\n[[link]]")),
                "{text}"
            );
        }
    }
}

#[test]
fn parts_of_graphml_that_are_not_read_are_remarks() {
    let of = |extra: &str, loops: usize| {
        let loops = "<edge source='a' target='a'/>".repeat(loops);
        let graph = "<node id='a'/><node id='b'/><edge source='a' target='b'/>";
        let text = format!("<graphml><graph>{graph}{loops}</graph>\n{extra}</graphml>");
        links(&[("graph", text.into())])
    };
    let nested = "<graphml><graph><node id='a'>\n<graph><node id='c'/></graph></node><node id='b'/>\
                  <edge source='a' target='b'/></graph></graphml>";
    let hyper = "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/>\n<hyperedge/>\
                 <hyperedge/></graph></graphml>";
    let second = of("<graph><node id='c'/></graph>", 0);
    for ((links, text), remark) in [
        (second, "# line 2: <graph> is left out (1 in all)"),
        (links(&[("graph", nested.into())]), "# line 2: <graph> is left out (1 in all)"),
        (links(&[("graph", hyper.into())]), "# line 2: <hyperedge> is left out (2 in all)"),
        (of("", 10), "# line 1: an edge from a node to itself is left out (10 in all)"),
    ] {
        assert_eq!(links.len(), 1);
        assert!(text.contains(remark), "{text}");
    }
    for (count, is_cut) in [(8, false), (10, true)] {
        let mut graph = node_link(json!({}), 1 + count, 0);
        for edge in graph["links"].as_array_mut().unwrap().iter_mut().skip(1) {
            edge["target"] = "a".into();
        }
        let text = links(&[("graph", graph)]).1;
        assert_eq!(text.contains("# 2 further remarks are not shown\n"), is_cut, "{text}");
    }
}

#[test]
fn nodes_with_one_label_or_the_id_of_another_are_apart() {
    let graph = json!({
        "nodes": [{ "id": 0, "name": "MIT" }, { "id": 1, "name": "MIT" }, { "id": 2, "name": "1" }],
        "edges": [{ "source": 0, "target": 1 }, { "source": 1, "target": 2 }]
    });
    let graphml = "<graphml><key id='k' attr.name='label'/><graph><node id='0'><data key='k'>MIT</data></node>\
                   <node id='1'><data key='k'>MIT</data></node><node id='2'><data key='k'>1</data></node>\
                   <edge source='0' target='1'/><edge source='1' target='2'/></graph></graphml>";
    for text in [graph.to_string(), graphml.to_owned()] {
        let mut draft = Draft::default();
        draft.add(&text, "graph").unwrap();
        let network = parse(&draft);
        let names: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!((names, network.links.len()), (vec!["MIT", "MIT-2", "1"], 2));
    }
}

#[test]
fn each_fault_of_an_import_names_file_place_and_remedy() {
    let ring = yang_ring();
    let change = |value: &Value, pointer: &str, new: Value| {
        let mut value = value.clone();
        *value.pointer_mut(pointer).expect("a place") = new;
        value.to_string()
    };
    let link = "/ietf-network:networks/network/0/ietf-network-topology:link";
    let stream = "/ieee802-dot1q-cnc-config:cnc-config/domain/0/cuc/0/stream/0";
    let traffic = format!("{stream}/talker/traffic-specification");
    let cases = [
        ("{".to_owned(), "line 1, column", "neither JSON nor XML"),
        ("{}".to_owned(), "top level", "JSON of an unknown format"),
        (
            r#"{ "schema": "onbeat-plan/1", "nodes": [] }"#.to_owned(),
            "top level",
            "a manifest of a plan",
        ),
        ("<a></b>".to_owned(), "line 1, column", "not well-formed XML"),
        ("<a/>".to_owned(), "line 1", "no graph"),
        (
            "<graphml><graph>\n<node id='a'/>\n<edge source='a' target='b'/></graph></graphml>"
                .to_owned(),
            "line 3",
            "no node has the id \"b\"",
        ),
        (json!({ "nodes": [{}] }).to_string(), "nodes[0]", "no id"),
        (
            json!({ "nodes": [{ "id": 1 }], "edges": [{ "source": 1, "target": 2 }] }).to_string(),
            "edges[0].target",
            "no node has the id \"2\"",
        ),
        (
            change(&ring, &format!("{link}/3/source/source-node"), "sw9".into()),
            "link[3].source.source-node",
            "no node has the node-id \"sw9\"",
        ),
        (change(&ring, link, json!([])), "networks", "no network has a link"),
        (
            change(&cnc(), &format!("{traffic}/interval/denominator"), 3.into()),
            "talker.traffic-specification.interval",
            "not a whole number of microseconds",
        ),
        (
            change(&cnc(), &format!("{traffic}/max-frames-per-interval"), 2.into()),
            "max-frames-per-interval",
            "2 in an interval",
        ),
        (
            change(
                &cnc(),
                &format!("{stream}/listener/0/end-station-interfaces/0/interface-name"),
                "sv2".into(),
            ),
            "listener[0]",
            "did you mean \"sw2\"?",
        ),
    ];
    for (text, place, message) in cases {
        let mut draft = Draft::default();
        if text.contains("cnc-config") {
            draft.add(&ring.to_string(), "topology.json").unwrap();
        }
        let error = draft.add(&text, "file.json").unwrap_err();
        assert!(error.place.contains(place), "{error}");
        assert!(error.message.contains(message) && !error.help.is_empty(), "{error}");
        assert!(error.to_string().starts_with("file.json: "));
    }
}

proptest! {
    #[test]
    fn no_text_makes_an_import_panic(text in ".{0,60}", at in 0usize..3000, cut in 0usize..40) {
        for whole in [yang_ring().to_string(), cnc().to_string(), include_str!("data/lldp.json").to_owned()] {
            let at = at.min(whole.len());
            let end = (at + cut).min(whole.len());
            let (Some(before), Some(after)) = (whole.get(..at), whole.get(end..)) else { continue };
            let mut draft = Draft::default();
            let _ = draft.add(&format!("{before}{text}{after}"), "a.json");
            let _ = Network::parse(&draft.to_string(), "net.toml");
        }
    }
}
