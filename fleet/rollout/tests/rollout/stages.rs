//! Stages of node files that `onbeat plan` writes, and changes that are refused.

use std::collections::BTreeSet;

use onbeat_plan::Network;
use onbeat_rollout::Phase;
use onbeat_rollout::change::{self, PlanFiles, Refusal, Settings};
use onbeat_rollout::stage::{NewMember, StageRefusal, Stages};

use super::network;

const SETTINGS: Settings =
    Settings { soak_ms: 10_000, deadline_s: 30, bridges_loaded: false, without: BTreeSet::new() };

/// A ring of four nodes and a chord.
const SQUARE: &str = r#"
[network]
label-vlans = [101, 102]
[[node]]
name = "a"
host = { interface = "tsn0", create = "veth" }
port = [{ name = "p1" }, { name = "p2" }, { name = "p3" }]
[[node]]
name = "b"
host = { interface = "tsn0", create = "veth" }
port = [{ name = "p1" }, { name = "p2" }]
[[node]]
name = "c"
host = { interface = "tsn0", create = "veth" }
port = [{ name = "p1" }, { name = "p2" }]
[[node]]
name = "d"
host = { interface = "tsn0", create = "veth" }
port = [{ name = "p1" }, { name = "p2" }, { name = "p3" }]
[[link]]
a = "a:p1"
b = "b:p1"
[[link]]
a = "b:p2"
b = "d:p1"
[[link]]
a = "a:p2"
b = "c:p1"
[[link]]
a = "c:p2"
b = "d:p2"
[[link]]
a = "a:p3"
b = "d:p3"
[[stream]]
name = "axis"
talker = "a"
listeners = ["d"]
address = "01:00:5e:00:00:01"
interval-us = 1000
size = 128
"#;

fn parse(text: &str) -> Network {
    Network::parse(text, "net.toml").unwrap()
}

/// The plans with the chord, and without it.
fn plans() -> (PlanFiles, PlanFiles) {
    let (before, old) = network::plan(&parse(SQUARE), None, 1);
    let mut without = parse(SQUARE);
    without.links[4].speed_mbps = 1;
    let (_, new) = network::plan(&without, Some(&before), 2);
    (old, new)
}

fn stages(old: &PlanFiles, new: &PlanFiles, node: &str) -> Stages {
    let text = |plan: &PlanFiles| plan.files.get(node).cloned();
    Stages::new(node, text(old).as_deref(), text(new).as_deref()).unwrap()
}

fn streams(text: &str) -> &str {
    text.split_once("[[stream]]").map_or("", |(_, streams)| streams)
}

#[test]
fn each_kind_of_stream_has_its_stages() {
    let (old, new) = plans();
    let prepared = change::prepare(&old, &new, &SETTINGS).unwrap();
    // One of b and c had a path before.
    let relay = if old.files.contains_key("b") { "c" } else { "b" };
    let other = if relay == "b" { "c" } else { "b" };
    assert_eq!(
        prepared.change.affected,
        ["a", relay, other, "d"]
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert_eq!((prepared.change.drain_ms, prepared.change.deadline_s), (1000, 30));
    // The new relay.
    let stages_of_relay = stages(&old, &new, relay);
    assert_eq!(streams(stages_of_relay.text(Phase::Rest)), "");
    for phase in [Phase::Accept, Phase::Prove, Phase::Send, Phase::Drain] {
        assert!(streams(stages_of_relay.text(phase)).contains("name = \"axis.v102\""));
    }
    // The relay of both plans has both labels until the drain.
    let both = stages(&old, &new, other);
    for (phase, labels) in [
        (Phase::Rest, [true, false]),
        (Phase::Accept, [true, true]),
        (Phase::Send, [true, true]),
        (Phase::Drain, [false, true]),
    ] {
        let found = ["axis.v101", "axis.v102"].map(|name| both.text(phase).contains(name));
        assert_eq!(found, labels, "{phase}");
    }
    // The talker changes its egress ports in one phase.
    let talker = stages(&old, &new, "a");
    assert_eq!(streams(talker.text(Phase::Prove)), streams(&old.files["a"]));
    assert_eq!(streams(talker.text(Phase::Send)), streams(&new.files["a"]));
    assert_eq!(
        talker.probes,
        [("axis".to_owned(), format!("[[stream]]{}", streams(&new.files["a"])))]
    );
    // The listener has the members of both plans; those of the silent one are draining.
    let listener = stages(&old, &new, "d");
    let members = |phase| {
        let lines = listener.text(phase).lines().filter(|line| line.contains("identify"));
        let lines = lines.map(|line| {
            let label = if line.contains("vlan = 101") { 101 } else { 102 };
            (label, line.contains("draining = true"))
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(members(Phase::Rest), [(101, false), (101, false)]);
    assert_eq!(members(Phase::Prove), [(101, false), (101, false), (102, true), (102, true)]);
    assert_eq!(members(Phase::Send), [(101, true), (101, true), (102, false), (102, false)]);
    assert_eq!(members(Phase::Drain), [(102, false), (102, false)]);
    let new_member = |member| NewMember { stream: "axis".into(), member };
    assert_eq!(listener.new_members, [2, 3].map(new_member));
    // Hashes are those of the texts, and those that the controller publishes.
    let published = prepared.nodes.iter().find(|node| node.node == "d").unwrap();
    assert_eq!(published.hashes, listener.hashes());
    assert_eq!(published.hashes[1], published.hashes[2]);
    assert_eq!(published.hashes.iter().collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn the_longer_history_of_both_plans_is_used_in_between() {
    let (old, new) = plans();
    let set = |plan: &PlanFiles, history: u32, timeout: u32| {
        let text = &plan.files["d"];
        let at = text.find("recover = {").unwrap();
        let end = at + text[at..].find('\n').unwrap();
        let recover =
            format!("recover = {{ history-length = {history}, reset-timeout-ms = {timeout} }}");
        text[..at].to_owned() + &recover + &text[end..]
    };
    let stages = Stages::new("d", Some(&set(&old, 64, 300)), Some(&set(&new, 256, 50))).unwrap();
    for (phase, history, timeout) in [
        (Phase::Rest, 64, 300),
        (Phase::Accept, 256, 300),
        (Phase::Send, 256, 300),
        (Phase::Drain, 256, 50),
    ] {
        let wanted = format!("history-length = {history}, reset-timeout-ms = {timeout}");
        assert!(stages.text(phase).contains(&wanted), "{phase}: {}", stages.text(phase));
    }
    // Other parameters reset the function.
    let other = set(&new, 64, 50).replace("recover = {", "recover = { take-no-sequence = true,");
    assert!(matches!(
        Stages::new("d", Some(&set(&old, 64, 50)), Some(&other)),
        Err(StageRefusal::Recovery { .. })
    ));
}

fn refusals(old: &PlanFiles, new: &PlanFiles) -> Vec<Refusal> {
    change::prepare(old, new, &SETTINGS).unwrap_err()
}

#[test]
fn changes_that_would_lose_frames_are_refused_before_they_start() {
    let (old, new) = plans();
    // Another talker.
    let moved = SQUARE.replace("talker = \"a\"", "talker = \"b\"");
    let (_, moved) = network::plan(&parse(&moved), None, 2);
    let found = refusals(&old, &moved);
    let talker = Refusal::Stage(StageRefusal::TalkerMoved { stream: "axis".into() });
    assert!(found.contains(&talker), "{found:?}");
    assert!(found[0].to_string().contains("another name"));
    // Other paths with the label of the plan that runs, or with none.
    let relay = if old.files.contains_key("b") { "b" } else { "c" };
    let other_way =
        old.files[relay].replace("egress = [{ port = \"p2\"", "egress = [{ port = \"p1\"");
    for edit in [|text: &str| text.to_owned(), |text: &str| text.replace(", vlan = 101", "")] {
        let (before, after) = (edit(&old.files[relay]), edit(&other_way));
        assert_ne!(before, after);
        let found = Stages::new(relay, Some(&before), Some(&after)).unwrap_err();
        assert!(matches!(found, StageRefusal::Label { .. }), "{found}");
        assert!(found.to_string().contains("--keep"));
    }
    // A frame of two streams.
    let other = old.files[relay].replace("axis", "other");
    let found = Stages::new(relay, Some(&old.files[relay]), Some(&other)).unwrap_err();
    assert!(matches!(found, StageRefusal::Conflict { .. }), "{found}");
    // Settings of a node's start, and no room.
    let edit = |from: &str, to: &str| {
        let mut plan = new.clone();
        let text = plan.files.get_mut("a").unwrap();
        *text = text.replace(from, to);
        plan
    };
    let found = refusals(&old, &edit("interface = \"p1\"", "interface = \"eth7\""));
    let restart = StageRefusal::NeedsRestart { node: "a".into(), keys: vec!["[port]".into()] };
    assert_eq!(found, [Refusal::Stage(restart)]);
    let small = |plan: &PlanFiles| {
        let mut plan = plan.clone();
        for text in plan.files.values_mut() {
            *text = text.replacen("[node]\n", "[node]\nmax-streams = 1\n", 1);
        }
        plan
    };
    let is_full = |refusal: &Refusal| {
        matches!(refusal, Refusal::Stage(StageRefusal::NoRoom { required: 2, room: 1, .. }))
    };
    assert!(refusals(&small(&old), &small(&new)).iter().any(is_full));
    // Histories that do not cover the delays of both plans.
    let mut far = new.clone();
    far.streams[0].listeners[0].delay.as_mut().unwrap().latest_copy_ns = 500_000_000;
    let found = refusals(&old, &far);
    assert!(
        matches!(&found[..], [Refusal::Window { required: 512, history: 64, .. }]),
        "{found:?}"
    );
}

#[test]
fn streams_without_recovery_are_not_proved() {
    let text = SQUARE.to_owned()
        + "[[stream]]\nname = \"log\"\ntalker = \"a\"\nlisteners = [\"d\"]\npaths = 1\n\
           address = \"01:00:5e:00:00:02\"\ninterval-us = 1000\nsize = 128\n";
    let (before, old) = network::plan(&parse(&text), None, 1);
    let mut without = parse(&text);
    without.links[4].speed_mbps = 1;
    let (_, new) = network::plan(&without, Some(&before), 2);
    assert_eq!(change::changed(&old, &new), ["axis", "log"]);
    let prepared = change::prepare(&old, &new, &SETTINGS).unwrap();
    for node in &prepared.nodes {
        let expected: &[&str] = if node.node == "a" { &["log"] } else { &[] };
        assert_eq!(node.unproved, expected, "{}", node.node);
    }
}

#[test]
fn a_node_is_left_out_if_nothing_requires_it() {
    let (old, new) = plans();
    let all = change::prepare(&old, &new, &SETTINGS).unwrap().change.affected;
    let without = |node: &str| Settings { without: BTreeSet::from([node.to_owned()]), ..SETTINGS };
    // The chord was the path of the old plan: the new one uses b and c.
    let (mut left_out, mut refused) = (Vec::new(), Vec::new());
    for node in &all {
        match change::prepare(&new, &old, &without(node)) {
            Ok(prepared) => {
                assert_eq!(prepared.change.affected.len(), all.len() - 1, "{node}");
                assert_eq!(prepared.nodes.len(), all.len(), "it follows when it is back");
                left_out.push(node.as_str());
            }
            Err(refusals) => {
                assert!(matches!(&refusals[..], [Refusal::RequiredNode { .. }]), "{refusals:?}");
                refused.push(node.as_str());
            }
        }
    }
    assert_eq!(left_out.len(), 1, "{left_out:?}: the relay of the new paths alone");
    assert!(refused.contains(&"a") && refused.contains(&"d"), "{refused:?}");
}

#[test]
fn a_batch_changes_some_streams() {
    let text = SQUARE.to_owned()
        + "[[stream]]\nname = \"axis.v7\"\ntalker = \"a\"\nlisteners = [\"d\"]\n\
           address = \"01:00:5e:00:00:02\"\ninterval-us = 1000\nsize = 128\n";
    let (before, old) = network::plan(&parse(&text), None, 1);
    let mut without = parse(&text);
    without.links[4].speed_mbps = 1;
    let (_, new) = network::plan(&without, Some(&before), 3);
    assert_eq!(change::changed(&old, &new), ["axis", "axis.v7"]);
    let batch = old.with_streams(&new, &BTreeSet::from(["axis.v7"]), 2);
    assert_eq!(change::changed(&old, &batch), ["axis.v7"]);
    assert_eq!(change::changed(&batch, &new), ["axis"]);
    let is_between =
        |plan: &PlanFiles| change::is_between(&old.streams, &plan.streams, &new.streams);
    assert!(is_between(&batch) && is_between(&new) && !is_between(&old));
    change::prepare(&old, &batch, &SETTINGS).unwrap();
    change::prepare(&batch, &new, &SETTINGS).unwrap();
    let all = old.with_streams(&new, &BTreeSet::from(["axis", "axis.v7"]), 2);
    for (node, text) in &all.files {
        assert_eq!(streams(text), new.files.get(node).map_or("", |text| streams(text)), "{node}");
    }
}
