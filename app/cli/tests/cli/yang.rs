//! `onbeat yang`: judged by yanglint.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::run;
use crate::node::run_beside;
use onbeat_frer::counters::Counters;
use onbeat_node::config::Config;
use onbeat_node::control::{
    EgressStatus, GenerationStatus, LinkState, MemberStatus, NodeStatus, PortStatus,
    RecoveryStatus, Reply, Request, Response, Server, StreamStatus,
};
use onbeat_testing::{CommandOutput, TemporaryDirectory, command, require_that, root};
use serde_json::Value;

/// The judge, with the modules.
struct YangLint {
    modules: PathBuf,
    directory: TemporaryDirectory,
}

impl YangLint {
    /// Modules of the data, by file. Their revisions are named: with two in a directory, libyang may choose the older one.
    const MODULES: [(&str, &str); 5] = [
        ("ieee802-dot1cb-stream-identification", "2021-12-08"),
        ("ieee802-dot1cb-mask-and-match", "2021-12-09"),
        ("ieee802-dot1cb-frer", "2025-11-12"),
        ("ietf-interfaces", "2018-02-20"),
        ("iana-if-type", ""),
    ];

    /// `None`, with the reason on standard error: the licence of the modules permits no copy in this tree.
    fn new(name: &str) -> Option<Self> {
        let Some(modules) = std::env::var_os("ONBEAT_YANG_MODULES").map(PathBuf::from) else {
            eprintln!(
                "SKIP: set ONBEAT_YANG_MODULES to a directory with the modules of IEEE 802.1CB"
            );
            return None;
        };
        let found = Command::new("yanglint").arg("--version").output().is_ok();
        if !require_that(found, "yanglint (apt-get install libyang-tools)") {
            return None;
        }
        let directory = TemporaryDirectory::new(&format!("yang-lint-{name}"));
        for (name, revision) in Self::MODULES {
            let found = fs::read_dir(&modules).unwrap().map(|entry| entry.unwrap().path());
            let text = found
                .filter(|path| {
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                    stem.split('@').next() == Some(name)
                })
                .map(|path| fs::read_to_string(path).unwrap())
                .find(|text| text.contains(&format!("revision {revision}")));
            let text = text.unwrap_or_else(|| panic!("no {name} of {revision} in {modules:?}"));
            // libyang refuses so long a pattern.
            let text = text.replace("{1,1983}", "{1,999}");
            fs::write(directory.path().join(format!("{name}.yang")), text).unwrap();
        }
        Some(Self { modules, directory })
    }

    /// Validates a document; `kind`: `config` without state, `data` with it.
    fn validate(&self, kind: &str, document: &str) -> CommandOutput {
        let file = self.directory.path().join("document.json");
        fs::write(&file, document).unwrap();
        let path = self.directory.path();
        let mut lint = command(Path::new("yanglint"));
        lint.args(["--disable-searchdir", "--type", kind]);
        lint.arg("--path").arg(path).arg("--path").arg(&self.modules);
        lint.args(Self::MODULES.map(|(name, _)| path.join(format!("{name}.yang")))).arg(&file);
        lint.output().expect("it starts").into()
    }
}

fn examples() -> Vec<PathBuf> {
    let examples = root().join("examples");
    let files = [examples.clone(), examples.join("ladder")]
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()));
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files: Vec<PathBuf> = files.filter(is_toml).collect();
    files.sort();
    assert!(files.len() > 10);
    files
}

fn get(file: &Path) -> CommandOutput {
    run(&["yang", "get", file.to_str().unwrap()])
}

#[test]
fn the_configuration_of_every_example_is_valid_for_yanglint() {
    let Some(lint) = YangLint::new("config") else { return };
    let directory = TemporaryDirectory::new("yang-examples");
    let mut document = String::new();
    for example in examples() {
        // The time of the judge grows with the square of the number of streams.
        let text = fs::read_to_string(&example).unwrap().replace("count = 2048", "count = 8");
        let copy = directory.path().join(example.file_name().unwrap());
        fs::write(&copy, text).unwrap();
        document = get(&copy).out;
        let judged = lint.validate("config", &document);
        assert!(judged.code == 0, "{example:?}: {}", judged.err);
    }
    // The judge refuses names that the modules do not have, and values.
    for (before, after) in [("\"handle\"", "\"handel\""), ("\"tagged\": \"", "\"tagged\": \"x")] {
        let judged = lint.validate("config", &document.replace(before, after));
        assert!(judged.code != 0, "{after}: {}", judged.out);
    }
}

#[test]
fn every_example_is_valid_for_check() {
    let directory = TemporaryDirectory::new("yang-check");
    for example in examples() {
        let document = get(&example).out;
        let file = directory.path().join("document.json");
        fs::write(&file, &document).unwrap();
        let checked = run(&["yang", "check", file.to_str().unwrap()]);
        assert_eq!(checked.code, 0, "{example:?}: {}", checked.err);
    }
}

#[test]
fn a_fault_has_the_path_of_its_leaf() {
    let directory = TemporaryDirectory::new("yang-fault");
    let file = directory.path().join("document.json");
    let relay = get(&root().join("examples/relay-two-paths.toml")).out;
    let mut document: Value = serde_json::from_str(&relay).unwrap();
    document["ieee802-dot1cb-frer:frer"]["sequence-recovery"][0]["history-length"] = 1.into();
    fs::write(&file, document.to_string()).unwrap();
    let checked = run(&["yang", "check", file.to_str().unwrap()]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    let expected =
        "/ieee802-dot1cb-frer:frer/sequence-recovery[index='7']/history-length: 1 is not a number";
    assert!(checked.err.contains(expected), "{}", checked.err);
    fs::write(&file, "{").unwrap();
    assert_eq!(run(&["yang", "check", file.to_str().unwrap()]).code, 2);
}

#[test]
fn parts_that_yang_cannot_express_are_warnings() {
    let read = get(&root().join("examples/wildcards.toml"));
    assert_eq!(read.code, 0);
    assert!(
        read.err.contains("not in the document, as YANG cannot express it: wildcard"),
        "{}",
        read.err
    );
}

/// A node that runs a file, with counters that differ from each other.
fn status(config: &Config) -> NodeStatus {
    let mut last = 0;
    let mut next = || {
        last += 1;
        last
    };
    let ports = config.ports.iter().enumerate().map(|(number, port)| PortStatus {
        name: port.name.clone(),
        ifindex: number as u32 + 2,
        link: [LinkState::Up, LinkState::Down, LinkState::Missing][number % 3],
        admin_up: number % 3 < 2,
        input_packets: next(),
        output_packets: next(),
        passed: next(),
        discard: next(),
        ..PortStatus::default()
    });
    let ports = ports.collect();
    let mut recovery = || RecoveryStatus {
        counters: Counters {
            rogue: next(),
            discarded: 1000 + next(),
            passed: next(),
            ..Counters::default()
        },
        ..RecoveryStatus::default()
    };
    let streams = config.streams.iter().map(|stream| StreamStatus {
        name: stream.name.clone(),
        members: stream
            .members
            .iter()
            .map(|member| MemberStatus {
                seq_enc_errored: 7,
                individual: member.individual.map(|_| recovery()),
                ..MemberStatus::default()
            })
            .collect(),
        generation: stream.generate.then(GenerationStatus::default),
        recovery: stream.recover.map(|_| recovery()),
        egress: stream.egress.iter().map(|_| EgressStatus::default()).collect(),
        ..StreamStatus::default()
    });
    let streams = streams.collect();
    let counted_since = "2026-11-21T12:03:42Z".to_owned();
    NodeStatus { node: "a".into(), counted_since, ports, streams, ..NodeStatus::default() }
}

/// Prints a simulated node that runs a file.
fn get_running(test: &str, file: &Path, options: &[&str]) -> CommandOutput {
    let text = fs::read_to_string(file).unwrap();
    let config = Config::parse(&text, "a.toml").unwrap_or_else(|error| panic!("{error}"));
    let directory = TemporaryDirectory::new(&format!("yang-node-{test}"));
    let socket = directory.file("a.sock");
    let mut server = Server::bind(&socket).expect("a control socket");
    let line = [&["yang", "get", socket.to_str().unwrap()], options].concat();
    run_beside(&mut server, &line, |request| {
        Reply::Now(match request {
            Request::Configuration => Response::Configuration { text: text.clone() },
            Request::Show => Response::Status { status: Box::new(status(&config)) },
            _ => Response::Error { message: "no other request is required".into() },
        })
    })
}

#[test]
fn the_state_of_a_node_is_valid_for_yanglint() {
    let Some(lint) = YangLint::new("state") else { return };
    for example in ["reference", "listener-end-system", "relay-two-paths", "talker-end-system"] {
        let read = get_running("state", &root().join(format!("examples/{example}.toml")), &[]);
        assert_eq!(read.code, 0, "{}", read.err);
        let judged = lint.validate("data", &read.out);
        assert_eq!(judged.code, 0, "{example}: {}", judged.err);
        // It is state, and no configuration.
        assert_ne!(lint.validate("config", &read.out).code, 0, "{example}");
        assert!(read.out.contains("discontinuity-time"), "{example}");
    }
}

#[test]
fn counters_of_a_node_have_the_places_of_the_modules() {
    let listener = root().join("examples/listener-end-system.toml");
    let read = get_running("counters", &listener, &[]);
    assert_eq!((read.code, read.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&read.out).unwrap();
    let interface = |name: &str| {
        let interfaces = document["ietf-interfaces:interfaces"]["interface"].as_array().unwrap();
        interfaces.iter().find(|interface| interface["name"] == name).unwrap().clone()
    };
    let app = interface("tsn0-frer");
    assert_eq!(app["oper-status"], "up");
    assert_eq!(app["statistics"]["discontinuity-time"], "2026-11-21T12:03:42Z");
    let frer = &app["statistics"]["ieee802-dot1cb-frer:frer"];
    // The recovery of stream axis-1, whose members have handles 1 and 2: rogue packets are not discarded ones here.
    let recovery = &frer["per-port-per-stream-counters"][0];
    assert_eq!(
        (&recovery["direction-out-facing"], &recovery["handle"]),
        (&false.into(), &1.into())
    );
    let number = |name: &str| recovery[name].as_str().unwrap().parse::<u64>().unwrap();
    let rogue = number("rx-rogue-pkts");
    assert_eq!(number("rx-discarded-pkts"), 1000 + rogue + 1 - rogue);
    let path = interface("eth0");
    let frer = &path["statistics"]["ieee802-dot1cb-frer:frer"];
    assert_eq!(frer["per-port-counters"]["encode-errored-pkts"], "14", "of two members");
    assert_eq!(frer["per-port-per-stream-counters"][0]["encode-errored-pkts"], "7");
    assert_eq!(interface("eth1")["oper-status"], "not-present");

    // The configuration alone is that of the file.
    let read = get_running("counters", &listener, &["--config"]);
    assert_eq!(read.out, get(&listener).out);
}
