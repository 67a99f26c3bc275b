//! Configuration files and the resulting data-plane configuration.

use std::path::Path;

use onbeat_frer::spec::{
    Adaptive, Algorithm, Egress, Identification, IpMatch, LatentErrorDetection, MaskAndMatch,
    Member, NextProtocol, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch, VlanAction,
    VlanMatch,
};
use onbeat_frer::wildcard::Scope;
use onbeat_node::config::{Backend, Config, InterfaceKind, LoadError, Mode, Promiscuous};
use onbeat_wire::MacAddress;

const PORTS: &str = "
[[port]]
name = \"talker\"
interface = \"eth0\"

[[port]]
name = \"path1\"
interface = \"eth1\"
mtu = 1508
mode = \"generic\"
promiscuous = \"no\"

[[port]]
name = \"app\"
interface = \"tsn0\"
create = \"veth\"
";

fn parse(streams: &str) -> Config {
    let text = format!("{PORTS}{streams}");
    Config::parse(&text, "/etc/onbeat/bridge.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn identification(identify: &str) -> Identification {
    let config = parse(&format!(
        "[[stream]]\nname = \"s\"\nmember = [{{ port = \"app\", identify = {{ {identify} }} }}]\n\
         egress = [{{ port = \"path1\" }}]\n"
    ));
    config.streams[0].members[0].identification.clone()
}

const GROUP: MacAddress = MacAddress([1, 0, 0x5e, 0, 0, 1]);
const ANY: VlanMatch = VlanMatch { tagged: TagMatch::All, vlan: 0 };

#[test]
fn a_node_without_a_table_is_named_after_its_file() {
    let config = parse("");
    assert_eq!(config.node.name, "bridge");
    assert_eq!(config.node.max_streams, 4096);
    assert_eq!(config.node.control, Path::new("/run/onbeat/bridge.sock"));
    assert_eq!(config.node.pin, Path::new("/sys/fs/bpf/onbeat/bridge"));
    assert!(config.streams.is_empty());
}

#[test]
fn a_file_has_a_tag_a_manager_and_draining_members() {
    let text = |draining: &str| {
        format!(
            "[node]\ntag = \"gen-7\"\nmanaged-by = \"fleet\"\n{PORTS}[[stream]]\nname = \"s-{{n}}\"\ncount = 2\n\
             step = {{ destination = 1 }}\nrecover = {{ history-length = 64 }}\nmember = [\n\
             {{ port = \"talker\", identify = {{ type = \"null\", destination = \"01:00:5e:00:00:01\" }} }},\n\
             {{ port = \"path1\"{draining}, identify = {{ type = \"null\", destination = \"01:00:5e:00:00:01\" }} }},\n\
             ]\negress = [{{ port = \"app\" }}]\n"
        )
    };
    let parse = |draining| Config::parse(&text(draining), "a.toml").unwrap();
    let config = parse(", draining = true");
    let node = &config.node;
    assert_eq!((node.tag.as_deref(), node.managed_by.as_deref()), (Some("gen-7"), Some("fleet")));
    // The data plane does not change, so that the state of the stream is kept.
    assert_eq!(config.streams, parse("").streams);
    assert_ne!(config.sha256, parse("").sha256);
    let streams = config.into_parts().streams;
    assert_eq!((streams.draining("s-0"), streams.draining("s-1")), (&[1][..], &[1][..]));
    assert!(parse(", draining = false").into_parts().streams.draining("s-0").is_empty());
}

#[test]
fn a_guard_by_its_table() {
    use onbeat_irq_guard as guard;
    assert_eq!(parse("").node.guard, None);
    let config = parse("[guard]\ninterfaces = [\"eth0\"]\n");
    assert_eq!(config.node.guard, Some(guard::Config::of(vec!["eth0".into()])));
    let config = parse(
        "[guard]
interfaces = [\"eth0\", \"eth1\"]
namespaces = \"all\"
cpus = \"1-2\"
floor = \"nice -5\"
ceiling = \"fifo 60\"
hold-ms = 7
interval-ms = 20
drop-at = \"xdp\"
[[guard.budget]]
command = \"iperf3\"
us-per-second = 5
[[guard.budget]]
cgroup = \"/system.slice\"
us-per-second = 2000000
[[guard.budget]]
user = \"root\"
per = \"rule\"
us-per-second = 6
[[guard.budget]]
user = \"1234567\"
per = \"user\"
us-per-second = 7
",
    );
    let guard = config.node.guard.unwrap();
    assert_eq!(guard.interfaces, ["eth0", "eth1"]);
    assert_eq!(guard.cpus.unwrap().to_string(), "1-2");
    let settings = guard.settings;
    assert_eq!(
        (settings.floor, settings.ceiling),
        ("nice -5".parse().unwrap(), "fifo 60".parse().unwrap())
    );
    assert_eq!((settings.hold_ns, guard.interval.as_millis()), (7_000_000, 20));
    assert_eq!(guard.drop_at, onbeat_irq_guard::DropPoint::Xdp);
    assert_eq!(guard.namespaces, onbeat_irq_guard::Namespaces::All);
    let budgets: Vec<_> = guard
        .budgets
        .iter()
        .map(|rule| (rule.command.as_deref(), rule.cgroup.as_deref(), rule.budget.ns_per_s))
        .collect();
    assert_eq!(
        budgets,
        [
            (Some("iperf3"), None, 5_000),
            (None, Some("/system.slice"), 2_000_000_000),
            (None, None, 6_000),
            (None, None, 7_000)
        ]
    );
    let groups: Vec<_> = guard.budgets.iter().map(|rule| (rule.user, rule.per)).collect();
    let process = (None, guard::BudgetScope::Process);
    assert_eq!(
        groups,
        [
            process,
            process,
            (Some(0), guard::BudgetScope::Rule),
            (Some(1_234_567), guard::BudgetScope::User)
        ]
    );
}

#[test]
fn ports_keep_their_order_and_defaults() {
    let config = parse("");
    let [talker, path1, app] = config.ports.as_slice() else { panic!("{:?}", config.ports) };
    assert_eq!((talker.mode, talker.promiscuous), (Mode::Auto, Promiscuous::Auto));
    assert_eq!((talker.mtu, talker.create), (None, None));
    assert_eq!((path1.mode, path1.promiscuous), (Mode::Generic, Promiscuous::No));
    assert_eq!(path1.mtu, Some(1508));
    assert_eq!(app.create, Some(InterfaceKind::Veth));
    assert_eq!(talker.attached_interface(), "eth0");
    assert_eq!(app.attached_interface(), "tsn0-frer");
    assert_eq!(config.port(PortId(1)).name, "path1");
}

#[test]
fn a_talker_s_stream() {
    let config = parse(
        r#"
        [[stream]]
        name = "axis-1"
        generate = true
        member = [{ port = "talker", identify = { type = "null", destination = "01:00:5e:00:00:01", vlan = 100 } }]
        egress = [
          { port = "path1", tag = "r-tag", vlan = 101, priority = 6, destination = "02:00:00:00:00:09" },
          { port = "app", tag = "none", vlan = "remove" },
        ]
        "#,
    );
    let vlan = VlanMatch { tagged: TagMatch::Tagged, vlan: 100 };
    let expected = Stream {
        name: "axis-1".into(),
        members: vec![Member {
            port: PortId(0),
            identification: Identification::Null { destination: GROUP, vlan },
            individual: None,
        }],
        generate: true,
        recover: None,
        egress: vec![
            Egress {
                port: PortId(1),
                tag: SequenceTag::RTag,
                rewrite: Rewrite {
                    destination: Some(MacAddress([2, 0, 0, 0, 0, 9])),
                    vlan: VlanAction::Set(101),
                    priority: Some(6),
                },
            },
            Egress {
                port: PortId(2),
                tag: SequenceTag::Remove,
                rewrite: Rewrite { vlan: VlanAction::Remove, ..Rewrite::default() },
            },
        ],
    };
    assert_eq!(config.streams, [expected]);
}

#[test]
fn recovery_and_its_defaults() {
    let config = parse(
        r#"
        [[stream]]
        name = "a"
        member = [{ port = "path1", identify = { type = "null", destination = "01:00:5e:00:00:01" }, individual = {} }]
        recover = { algorithm = "vector", history-length = 64, reset-timeout-ms = 0, take-no-sequence = true, latent-error = { difference = 10, paths = 3 } }
        egress = [{ port = "app" }]

        [[stream]]
        name = "b"
        member = [{ port = "path1", identify = { type = "null", destination = "01:00:5e:00:00:02" } }]
        recover = { algorithm = "match" }
        egress = [{ port = "app" }]

        [[stream]]
        name = "c"
        member = [{ port = "path1", identify = { type = "null", destination = "01:00:5e:00:00:03" } }]
        recover = { history-length = "auto", reset-timeout-ms = "auto" }
        egress = [{ port = "app" }]
        "#,
    );
    let latent =
        LatentErrorDetection { difference: 10, period_ms: 2000, paths: 3, reset_period_ms: 30000 };
    let full = Recovery {
        algorithm: Algorithm::Vector { history_length: 64 },
        reset_timeout_ms: 0,
        take_no_sequence: true,
        latent: Some(latent),
        adaptive: Adaptive::default(),
    };
    let plain = Recovery { reset_timeout_ms: 2000, ..Recovery::vector(2) };
    assert_eq!(config.streams[0].recover, Some(full));
    assert_eq!(config.streams[0].members[0].individual, Some(plain));
    assert_eq!(config.streams[1].recover, Some(Recovery { algorithm: Algorithm::Match, ..plain }));
    let adaptive = Adaptive { history_length: true, reset_timeout: true };
    let auto = Recovery { reset_timeout_ms: 2000, adaptive, ..Recovery::vector(1024) };
    assert_eq!(config.streams[2].recover, Some(auto));
    assert_eq!(config.streams[1].egress[0].tag, SequenceTag::Keep);
    assert_eq!(config.streams[1].egress[0].rewrite, Rewrite::default());
}

#[test]
fn identification_by_each_type() {
    assert_eq!(
        identification(
            "type = \"null\", destination = \"01:00:5e:00:00:01\", tagged = \"priority\""
        ),
        Identification::Null {
            destination: GROUP,
            vlan: VlanMatch { tagged: TagMatch::Priority, vlan: 0 }
        }
    );
    assert_eq!(
        identification(
            "type = \"source\", source = \"02-00-00-00-00-01\", tagged = \"all\", vlan = 4094"
        ),
        Identification::SourceMacVlan {
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            vlan: VlanMatch { tagged: TagMatch::All, vlan: 4094 },
        }
    );
    assert_eq!(
        identification(
            "type = \"active\", down = { destination = \"01:00:5e:00:00:01\" }, \
             up = { destination = \"02:00:00:00:00:02\", vlan = 10, priority = 0 }"
        ),
        Identification::ActiveDestination {
            destination: GROUP,
            vlan: ANY,
            up: Rewrite {
                destination: Some(MacAddress([2, 0, 0, 0, 0, 2])),
                vlan: VlanAction::Set(10),
                priority: Some(0),
            },
        }
    );
    let ip = IpMatch {
        destination: GROUP,
        vlan: ANY,
        ip_source: None,
        ip_destination: "ff02::1".parse().unwrap(),
        dscp: None,
        next_protocol: NextProtocol::None,
    };
    let base = "type = \"ip\", destination = \"01:00:5e:00:00:01\", ip-destination = \"ff02::1\"";
    assert_eq!(identification(base), Identification::Ip(ip.clone()));
    assert_eq!(
        identification(&format!(
            "{base}, ip-source = \"fe80::1\", dscp = 46, protocol = \"sctp\", destination-port = 0"
        )),
        Identification::Ip(IpMatch {
            ip_source: Some("fe80::1".parse().unwrap()),
            dscp: Some(46),
            next_protocol: NextProtocol::Sctp { source: None, destination: Some(0) },
            ..ip
        })
    );
    assert_eq!(
        identification(
            "type = \"mask\", source-mask = \"ff:ff:ff:00:00:00\", \
             source-match = \"02:00:00:00:00:00\", msdu-mask = \"ffff 0f\", msdu-match = \"88:f7 00\""
        ),
        Identification::MaskAndMatch(MaskAndMatch {
            destination_mask: MacAddress([0; 6]),
            destination_match: MacAddress([0; 6]),
            source_mask: MacAddress([255, 255, 255, 0, 0, 0]),
            source_match: MacAddress([2, 0, 0, 0, 0, 0]),
            msdu_mask: vec![0xff, 0xff, 0x0f],
            msdu_match: vec![0x88, 0xf7, 0x00],
        })
    );
}

#[test]
fn every_step_advances_its_key_wherever_it_stands() {
    let config = parse(
        r#"
        [[stream]]
        name = "s{n}"
        count = 3
        step = { destination = 256, vlan = 2, ip-destination = 1, ip-source = 1, destination-port = 1, source-port = 10 }
        member = [{ port = "app", identify = { type = "ip", destination = "02:00:00:00:fe:00", vlan = 10, ip-destination = "192.0.2.255", ip-source = "192.0.2.1", protocol = "udp", source-port = 100, destination-port = 200 } }]
        egress = [{ port = "path1", vlan = 20, destination = "02:00:00:00:00:01" }]
        "#,
    );
    let names: Vec<&str> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["s0", "s1", "s2"]);
    let last = &config.streams[2];
    let Identification::Ip(ip) = &last.members[0].identification else { panic!("{last:?}") };
    assert_eq!(ip.destination, MacAddress([2, 0, 0, 1, 0, 0]));
    assert_eq!(ip.vlan.vlan, 14);
    assert_eq!(ip.ip_destination.to_string(), "192.0.3.1");
    assert_eq!(ip.ip_source.unwrap().to_string(), "192.0.2.3");
    let ports = NextProtocol::Udp { source: Some(120), destination: Some(202) };
    assert_eq!(ip.next_protocol, ports);
    assert_eq!(last.egress[0].rewrite.vlan, VlanAction::Set(24));
    assert_eq!(last.egress[0].rewrite.destination, Some(MacAddress([2, 0, 0, 0, 2, 1])));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = Config::load(Path::new("/no/such/file.toml")).unwrap_err().to_string();
    assert!(
        missing.contains("/no/such/file.toml") && missing.contains("No such file"),
        "{missing}"
    );

    let path = std::env::temp_dir().join(format!("onbeat-config-{}.toml", std::process::id()));
    std::fs::write(&path, b"[node]\nname = \"\xff\"\n").unwrap();
    let error = Config::load(&path).unwrap_err();
    assert!(matches!(error, LoadError::NotText { line: 2, .. }), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn wildcards_are_in_order_of_precedence() {
    let text = include_str!("../../../../examples/wildcards.toml");
    let mut config = Config::parse(text, "wildcards.toml").unwrap();
    let names: Vec<_> =
        config.wildcards.iter().map(|wildcard| (wildcard.name.as_str(), wildcard.scope)).collect();
    assert_eq!(names, [("axes", Scope::Vlan(100)), ("rest", Scope::All)]);
    for wildcard in &config.wildcards {
        let link = &wildcard.link;
        let interfaces =
            [link.host, link.a, link.b].map(|port| config.port(port).interface.as_str());
        assert_eq!(interfaces, ["red0", "eth1", "eth2"]);
        assert_eq!((link.entry_forget_ms, link.node_forget_ms, link.max_nodes), (400, 60_000, 512));
    }
    assert_eq!(config.streams.len(), 2);
    assert_eq!(config.set_backend(Backend::Xdp), Ok(()));
    let error = config.set_backend(Backend::Xsk).unwrap_err().to_string();
    assert_eq!(
        error,
        "the back end \"xsk\" does not support type = \"vlan\" of stream \"axes\"; use \"packet\""
    );
    assert_eq!(config.set_backend(Backend::Packet), Ok(()));
    // The host port of an existing interface receives whole frames.
    let existing = Config::parse(&text.replace("create = \"veth\"", ""), "wildcards.toml").unwrap();
    let whole: Vec<_> = existing.ports.iter().map(|port| port.whole_frames).collect();
    assert_eq!(whole, [true, false, false]);
    assert!(config.ports.iter().all(|port| !port.whole_frames));
}
