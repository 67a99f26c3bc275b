//! The files under examples/ describe the networks that they promise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat_frer::spec::{Identification, Stream};
use onbeat_node::config::Config;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn load(path: &Path) -> Config {
    Config::load(path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_example_is_valid_and_leaves_room_for_the_tag() {
    let mut count = 0;
    for folder in [examples(), examples().join("ladder")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                count += 1;
                let config = load(&path);
                let warnings =
                    config.check(|_| Some(1500)).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(warnings.to_string(), "", "an example is no trap");
                let stem = path.file_stem().unwrap().to_str().unwrap();
                assert!(stem.starts_with(&config.node.name), "{stem} names its node otherwise");
            }
        }
    }
    assert_eq!(count, 14);
}

#[test]
fn without_their_mtu_the_paths_are_too_narrow() {
    for name in ["talker-end-system", "relay-two-paths"] {
        let path = examples().join(format!("{name}.toml"));
        let text = fs::read_to_string(path).unwrap().replace("mtu = 1506", "");
        let config = Config::parse(&text, "narrow.toml").unwrap();
        let error = config.check(|_| Some(1500)).unwrap_err().to_string();
        assert!(error.contains("has MTU 1500, frames from port"), "{error}");
        assert!(error.contains("require 1506"), "{error}");
        assert!(error.contains("set mtu = 1506 on port \"path1\""), "{error}");
        config.check(|_| None).unwrap();
    }
}

#[test]
fn many_streams_unfold_to_what_their_comment_says() {
    let config = load(&examples().join("many-streams.toml"));
    assert_eq!(config.streams.len(), 4096);
    let destination = |name: &str| {
        let stream = config.streams.iter().find(|stream| stream.name == name).unwrap();
        let Identification::Null { destination, .. } = stream.members[0].identification else {
            panic!("{name} is not identified by its destination")
        };
        destination.0
    };
    assert_eq!(destination("there-0"), [2, 0, 0, 0, 0, 0]);
    assert_eq!(destination("there-2047"), [2, 0, 0, 0, 7, 0xff]);
    assert_eq!(destination("back-1"), [2, 0, 0, 0, 0x10, 1]);
}

/// The six nodes, and the number of replicas of one frame that reach the eliminating end.
struct Ladder(BTreeMap<String, Config>);

impl Ladder {
    fn load() -> Ladder {
        let node = |name: &str| load(&examples().join(format!("ladder/{name}.toml")));
        Ladder(["a", "b", "c", "d", "e", "f"].map(|name| (name.into(), node(name))).into())
    }

    /// Follows every replica of a frame from a host; a link in `cut` carries nothing.
    fn replicas(&self, stream: &str, from: &str, to: &str, cut: &str) -> usize {
        let mut on_the_way = vec![(from.to_owned(), "host".to_owned())];
        let mut arrived = 0;
        let mut hops = 0;
        while let Some((node, port)) = on_the_way.pop() {
            hops += 1;
            assert!(hops < 100, "{stream} runs in circles");
            let config = &self.0[&node];
            let Some(entry) = config.streams.iter().find(|entry| entry.name == stream) else {
                panic!("node {node} does not know {stream}, and port {port} brings it")
            };
            let member = |stream: &Stream| {
                stream.members.iter().any(|member| config.port(member.port).name == port)
            };
            assert!(member(entry), "node {node}: {stream} comes in at {port} and is no member");
            if entry.recover.is_some() {
                assert_eq!(node, to, "{stream} is eliminated at {node}");
                arrived += 1;
                continue;
            }
            assert_eq!(entry.generate, node == from, "{stream} at node {node}");
            for egress in &entry.egress {
                let next = config.port(egress.port).name.strip_prefix("to-").unwrap();
                let mut ends = [node.as_str(), next];
                ends.sort_unstable();
                if ends.concat() != cut {
                    on_the_way.push((next.into(), format!("to-{node}")));
                }
            }
        }
        arrived
    }
}

#[test]
fn the_ladder_replicates_as_figure_1_does() {
    let ladder = Ladder::load();
    assert_eq!(ladder.replicas("red", "a", "f", ""), 2);
    assert_eq!(ladder.replicas("green", "a", "f", ""), 3);
    assert_eq!(ladder.replicas("blue", "f", "a", ""), 2);
}

#[test]
fn the_ladder_survives_the_cuts_that_figure_1_survives_and_no_others() {
    let ladder = Ladder::load();
    let streams = [("red", "a", "f"), ("green", "a", "f"), ("blue", "f", "a")];
    for cut in ["ac", "bd", "be", "ce", "df"] {
        for (stream, from, to) in streams {
            assert!(
                ladder.replicas(stream, from, to, cut) >= 1,
                "{stream} is lost when {cut} is cut"
            );
        }
    }
    assert_eq!(ladder.replicas("red", "a", "f", "ab"), 0);
    assert_eq!(ladder.replicas("green", "a", "f", "ab"), 1);
    assert_eq!(ladder.replicas("blue", "f", "a", "ef"), 0);
}

#[test]
fn ladder_streams_look_the_same_on_every_node() {
    let mut seen: BTreeMap<String, Identification> = BTreeMap::new();
    for config in Ladder::load().0.values() {
        for stream in &config.streams {
            for member in &stream.members {
                let first = seen.entry(stream.name.clone());
                let first = first.or_insert_with(|| member.identification.clone());
                assert_eq!(
                    *first, member.identification,
                    "{} at {}",
                    stream.name, config.node.name
                );
            }
        }
    }
    assert_eq!(seen.len(), 3);
}
