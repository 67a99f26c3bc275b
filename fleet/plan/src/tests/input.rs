//! net.toml: valid files, and each kind of fault with its place and remedy.

use std::fmt::Write;

use proptest::prelude::*;

use crate::Network;

/// Four nodes in a ring.
pub(super) const RING: &str = r#"
[[node]]
name = "a"
host = { interface = "tsn0", create = "veth" }
port = [{ name = "p1" }, { name = "p2" }]
[[node]]
name = "b"
port = [{ name = "p1" }, { name = "p2" }]
[[node]]
name = "c"
port = [{ name = "p1" }, { name = "p2" }]
[[node]]
name = "d"
host = { interface = "tsn0" }
port = [{ name = "p1", interface = "eth7" }, { name = "p2" }]
[[group]]
name = "tray"
[[group]]
name = "duct"
group = ["tray"]
[[link]]
a = "a:p1"
b = "b:p1"
delay-ns = 500
group = ["tray"]
[[link]]
a = "a:p2"
b = "c:p1"
[[link]]
name = "right"
a = "b:p2"
b = "d:p1"
[[link]]
a = "c:p2"
b = "d:p2"
group = ["duct"]
[[stream]]
name = "axis"
talker = "a"
listeners = ["d"]
address = "01:00:5e:00:00:01"
interval-us = 1000
size = 128
max-delay-us = 2000
"#;

#[test]
fn a_valid_file_is_read_completely() {
    let network = Network::parse(RING, "net.toml").unwrap();
    assert_eq!((network.nodes.len(), network.links.len(), network.load_percent), (4, 4, 75));
    assert_eq!(network.nodes[3].ports[0].interface, "eth7");
    assert_eq!(network.nodes[1].forwarding_ns, 50_000);
    let names: Vec<&str> = network.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["a:p1-b:p1", "a:p2-c:p1", "right", "c:p2-d:p2"]);
    // The links of a group inside another belong to both.
    assert_eq!(network.groups[1].links, [0, 3]);
    assert_eq!(network.links[0].groups, [0, 1]);
    let stream = &network.streams[0];
    assert_eq!(
        (stream.paths, stream.interval_ns, stream.max_delay_ns),
        (2, 1_000_000, Some(2_000_000))
    );
    assert_eq!(stream.octets(), 128 + 6 + 8 + 12);
}

/// The report of the faults of the ring after a replacement.
fn faults(from: &str, to: &str) -> String {
    assert!(RING.contains(from), "{from}");
    let text = RING.replacen(from, to, 1);
    Network::parse(&text, "net.toml").unwrap_err().to_string()
}

#[test]
fn each_fault_names_its_place_and_remedy() {
    let cases = [
        ("talker = \"a\"", "talker = \"x\"", "net.toml:", "no node is named \"x\""),
        ("talker = \"a\"", "talker = \"b\"", "stream[\"axis\"].talker", "has no host port"),
        ("[\"d\"]", "[\"a\"]", "stream[\"axis\"].listeners", "the talker is also a listener"),
        ("[\"d\"]", "[\"d\", \"d\"]", "listeners", "listed twice"),
        ("[\"d\"]", "[]", "listeners", "no listener"),
        (
            "{ name = \"p1\", interface = \"eth7\" }",
            "{ name = \"p1\", speed-mbps = 100 }",
            "link[\"right\"].b",
            "1000 and 100 Mbit/s",
        ),
        ("b = \"d:p1\"", "b = \"d:p3\"", "link[\"right\"].b", "ports of the node: p1, p2"),
        ("b = \"d:p1\"", "b = \"d\"", "link[\"right\"].b", "such as \"a:p1\""),
        ("b = \"d:p1\"", "b = \"b:p1\"", "link[\"right\"].b", "both ends are ports of one node"),
        ("b = \"d:p1\"", "b = \"d:p2\"", "link", "already has link"),
        (
            "name = \"right\"",
            "name = \"tray\"",
            "link[\"tray\"].name",
            "also names a node or a group",
        ),
        ("name = \"tray\"", "name = \"tray\"\ngroup = [\"duct\"]", "group", "contain each other"),
        ("name = \"tray\"", "name = \"a\"", "group[\"a\"].name", "also names a node"),
        (
            "group = [\"tray\"]\n[[link]]",
            "group = [\"trey\"]\n[[link]]",
            "group[\"duct\"]",
            "did you mean \"tray\"?",
        ),
        ("name = \"c\"", "name = \"c\"\nbridge = \"br0\"", "node[\"c\"].bridge", "add label-vlans"),
        ("name = \"d\"", "name = \"d\"\nbridge = \"br0\"", "node[\"d\"].bridge", "remove host"),
        (
            "\n[[node]]\nname = \"a\"",
            "\n[network]\nlabel-vlans = [7, 7]\n[[node]]\nname = \"a\"",
            "network.label-vlans",
            "two VLANs",
        ),
        ("name = \"c\"", "name = \"b\"", "node[\"b\"].name", "another node is named \"b\""),
        ("size = 128", "size = 63", "stream[\"axis\"].size", "from 64 to 9018"),
        (
            "size = 128",
            "size = 128\npaths = 3\nrecover-at = \"auto\"",
            "stream[\"axis\"].recover-at",
            "one listener and two paths",
        ),
        ("size = 128", "size = 128\npaths = 9", "stream[\"axis\"].paths", "from 1 to 8"),
        ("size = 128", "siize = 128", "stream[\"axis\"]", "did you mean size?"),
        ("interval-us = 1000", "interval-us = 0", "interval-us", "from 1 to"),
        ("01:00:5e:00:00:01", "01:00:5e", "address", "is not a MAC address"),
        ("name = \"axis\"", "name = \"a b\"", "name", "is not a valid name"),
        ("create = \"veth\"", "create = \"tap\"", "host.create", "use one of \"veth\""),
        (
            "interface = \"tsn0\", create",
            "interface = \"longinterf0\", create",
            "host.interface",
            "too long",
        ),
        (
            "{ name = \"p2\" }]\n[[node]]\nname = \"b\"",
            "{ name = \"host\" }]\n[[node]]\nname = \"b\"",
            "port",
            "is the port of applications",
        ),
    ];
    for (from, to, place, message) in cases {
        let report = faults(from, to);
        assert!(report.contains(place) && report.contains(message), "{from} -> {to}: {report}");
        assert!(report.contains("= help: "), "{report}");
    }
}

#[test]
fn pieces_and_duplicate_addresses_are_reported() {
    let start = RING.find("[[link]]\na = \"a:p2\"").unwrap();
    let text = RING.replace("a = \"b:p2\"\nb = \"d:p1\"", "a = \"b:p2\"\nb = \"c:p2\"");
    let text = text
        .replace("a = \"c:p2\"\nb = \"d:p2\"\ngroup = [\"duct\"]", "")
        .replace("[[link]]\n\n", "");
    assert!(start > 0);
    let report = Network::parse(&text, "net.toml").unwrap_err().to_string();
    assert!(report.contains("no links lead from node \"d\" to node \"a\""), "{report}");

    let second = RING[RING.find("[[stream]]").unwrap()..].replace("axis", "other");
    let report = Network::parse(&format!("{RING}{second}"), "net.toml").unwrap_err().to_string();
    assert!(report.contains("stream \"axis\" has the same address"), "{report}");
    // Labels tell streams of two talkers apart, but not those of one.
    let labels = format!("[network]\nlabel-vlans = [101, 102]\n{RING}");
    let back = second.replace("\"a\"", "\"x\"").replace("\"d\"", "\"a\"").replace("\"x\"", "\"d\"");
    assert!(Network::parse(&format!("{labels}{back}"), "net.toml").is_ok());
    assert!(Network::parse(&format!("{labels}{second}"), "net.toml").is_err());
    let apart = RING.replace("size = 128", "size = 128\nvlan = 7");
    let second = second.replace("size = 128", "size = 128\nvlan = 8");
    assert_eq!(Network::parse(&format!("{apart}{second}"), "net.toml").unwrap().streams.len(), 2);
}

#[test]
fn more_streams_than_a_node_supports_are_one_fault() {
    let mut text = RING[..RING.find("[[stream]]").unwrap()].to_owned();
    for number in 0..65_537u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = write!(
            text,
            "[[stream]]\nname = \"s{number}\"\ntalker = \"a\"\nlisteners = [\"d\"]\n\
             address = \"01:00:5e:{a:02x}:{b:02x}:{c:02x}\"\ninterval-us = 1000000\nsize = 64\n"
        );
    }
    let error = Network::parse(&text, "net.toml").unwrap_err();
    // One for the talker, one for the listener.
    assert_eq!(error.count(), 2);
    let report = error.to_string();
    assert!(report.contains("this is stream 65537 of node \"a\""), "{report}");
    assert!(report.contains("net.toml:"), "{report}");
}

#[test]
fn groups_can_be_nested_64_times() {
    let chain = |last: &str, link: usize| {
        let group = |number: usize| match number {
            19_999 => format!("[[group]]\nname = \"g19999\"\n{last}"),
            _ => format!("[[group]]\nname = \"g{number}\"\ngroup = [\"g{}\"]\n", number + 1),
        };
        let groups: String = (0..20_000).map(group).collect();
        let text = RING.replace("group = [\"duct\"]", &format!("group = [\"g{link}\"]"));
        Network::parse(&format!("{text}{groups}"), "net.toml")
    };
    let network = chain("", 63).unwrap();
    assert_eq!(network.links[3].groups.len(), 64);
    let report = chain("", 64).unwrap_err().to_string();
    assert!(report.contains("link[3].group") && report.contains("more than 64 groups"), "{report}");
    let error = chain("group = [\"g0\"]", 63).unwrap_err();
    let report = error.to_string();
    assert!(
        error.count() == 1 && report.contains("\"g19999\" and \"g0\" contain each other"),
        "{report}"
    );
    let report = faults("name = \"tray\"", "name = \"tray\"\ngroup = [\"tray\"]");
    assert!(report.contains("group \"tray\" contains itself"), "{report}");
}

#[test]
fn thousands_of_unknown_names_are_reported_without_long_searches() {
    let start = RING.find("[[stream]]").unwrap();
    let mut text = RING[..start].to_owned();
    for number in 0..60_000 {
        let _ = writeln!(text, "[[group]]\nname = \"g{number}\"\ngroup = [\"h{number}\"]");
    }
    let error = Network::parse(&text, "net.toml").unwrap_err();
    assert_eq!(error.count(), 1001);
    let report = error.to_string();
    assert!(report.contains("no group is named \"h0\""), "{report}");
    assert!(report.contains("add [[group]] with name = \"h0\""), "{report}");
    assert!(report.contains("more than the first 1000"), "{report}");
}

#[test]
fn a_file_of_100_mb_is_refused_unread() {
    let directory = onbeat_testing::TemporaryDirectory::new("plan-large");
    let path = directory.path().join("net.toml");
    std::fs::File::create(&path).unwrap().set_len(100_000_000).unwrap();
    let error = Network::load(&path).unwrap_err().to_string();
    assert!(
        error.contains("net.toml") && error.contains("longer than the limit of 33554432 octets"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}", at in 0usize..1000, cut in 0usize..40) {
        let _ = Network::parse(&text, "net.toml");
        // A valid file with a part replaced.
        let at = at.min(RING.len());
        let end = (at + cut).min(RING.len());
        let changed = format!("{}{text}{}", &RING[..at], &RING[end..]);
        if let Ok(network) = Network::parse(&changed, "net.toml") {
            let plan = crate::Plan::new(&network, &crate::plan::PreviousRoutes::default());
            prop_assert_eq!(plan.streams.len(), network.streams.len());
        }
    }
}
