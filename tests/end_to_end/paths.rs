//! The skew between the paths of a stream, and the parameters of recovery that follow it: one path is slower by a known
//! time.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         5,000 frames/s
//!                      \-------/
//!                        path2, one of both + 4 ms or + 40 ms
//! ```

use onbeat_lab::fault::Impairment;
use onbeat_lab::{Topology, World};
use onbeat_node::config::Backend;
use onbeat_node::control::{PathStatus, StreamPaths};

use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, can_run, eliminate_to, program, replicate, run, show, stream,
    wait_for,
};

const STREAM: &str = "axis";
const RATE: u64 = 5000;
const DELAY_US: u64 = 4_000;
const MS: i64 = 1_000_000;
/// One number of 128 is measured.
const FRAMES: u64 = 128 * 50;
const PATHS: [&str; 2] = ["path1", "path2"];

fn recovering(recover: &str) -> String {
    let host = format!("tag = \"none\", vlan = {VLAN}");
    format!("{PORTS}{}", eliminate_to(STREAM, GROUP, &host, recover))
}

fn network(slower: Option<(&str, u64)>, recover: &str) -> Topology {
    let a = format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN));
    let b = recovering(recover);
    let mut network = Topology::default();
    network.host("talker", 0, 0).host("listener", 3, 0).node("a", 1, 0, &a).node("b", 2, 0, &b);
    network.link("access", "talker:eth0", "a:host").link("exit", "b:host", "listener:eth0");
    for path in PATHS {
        network.link(path, &format!("a:{path}"), &format!("b:{path}"));
        if let Some((_, delay_us)) = slower.filter(|(slower, _)| *slower == path) {
            network.impaired(Impairment { delay_us, seed: 1, ..Impairment::default() });
        }
    }
    network
}

fn paths(node: &str) -> StreamPaths {
    let shown = run(&["show", node, "--paths", "--json"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{}", shown.out);
    let streams: Vec<StreamPaths> = serde_json::from_str(&shown.out).expect("paths");
    let [paths] = streams.try_into().expect("one stream");
    paths
}

fn started(backend: Option<Backend>, slower: Option<(&str, u64)>, recover: &str) -> (World, Flow) {
    let mut world = build(&network(slower, recover));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    (world, flow)
}

/// Returns the paths after a flow of frames.
fn measured(backend: Option<Backend>, slower: Option<&str>) -> StreamPaths {
    let recover = "{ history-length = 128, reset-timeout-ms = 500 }";
    let (_world, flow) = started(backend, slower.map(|path| (path, DELAY_US)), recover);
    flow.advance(FRAMES);
    let sent = flow.finish_whole();
    let paths = paths("b");
    let text = run(&["show", "b", "--paths"]).out;
    assert!(text.starts_with("STREAM"), "{text}");
    for path in &paths.paths {
        let known = path.input_packets + path.lost_packets;
        assert!(known >= sent && path.input_packets <= sent, "{sent}: {paths:?}");
    }
    paths
}

fn p50(path: &PathStatus) -> i64 {
    path.skew_ns.expect("samples").p50
}

#[test]
fn the_skew_is_that_of_the_slower_path() {
    if !can_run() {
        return;
    }
    for backend in [None, Some(Backend::Packet), Some(Backend::Xsk)] {
        for slower in PATHS {
            let paths = measured(backend, Some(slower));
            for path in &paths.paths {
                assert!(PATHS.contains(&path.port.as_str()));
                // Exact to half an octave; the wire in user space adds its own delay.
                let skew = if path.port == slower { p50(path) } else { -p50(path) };
                assert!((2 * MS..40 * MS).contains(&skew), "{backend:?} {slower}: {paths:?}");
                let is_first = path.first * 10 > paths.measured * 9;
                assert_eq!(is_first, path.port != slower, "{backend:?}: {paths:?}");
            }
            let needed = paths.history_length_needed.expect("enough samples");
            assert!((21..=1024).contains(&needed), "{backend:?}: {paths:?}");
            assert!(paths.reset_timeout_ms_needed.is_some_and(|ms| ms >= 8), "{paths:?}");
        }
    }
}

/// The control: without a slower path there is hardly any skew.
#[test]
fn equal_paths_have_no_skew() {
    if !can_run() {
        return;
    }
    let paths = measured(None, None);
    for path in &paths.paths {
        assert!(p50(path).abs() < MS, "{paths:?}");
    }
}

/// "auto": history length and reset timeout follow the paths, without a frame lost or doubled.
#[test]
fn recovery_follows_the_paths() {
    if !can_run() {
        return;
    }
    let auto = "{ history-length = \"auto\", reset-timeout-ms = \"auto\" }";
    for backend in [None, Some(Backend::Packet)] {
        let (mut world, flow) = started(backend, Some(("path2", 40_000)), auto);
        let before = paths("b");
        assert_eq!((before.history_length, before.reset_timeout_ms), (Some(1024), 2000));
        wait_for("recovery follows the paths", || paths("b").reset_timeout_ms < 2000);
        // 40 ms are 200 frames; the history holds twice as many, and those of one timeout.
        let after = paths("b");
        let length = after.history_length.expect("vector recovery");
        assert!(after.history_length_auto && after.reset_timeout_auto, "{after:?}");
        assert!(after.reset_timeout_ms >= 80 && length >= 512, "{backend:?}: {after:?}");
        // A reload keeps them.
        world.daemon("b").unwrap().reload(&recovering(auto)).unwrap();
        let reloaded = paths("b");
        assert!(reloaded.reset_timeout_ms < 2000, "{reloaded:?}");
        if backend.is_none() {
            // A killed daemon leaves the data plane; the next one follows its measurements.
            world.daemon("b").unwrap().kill().unwrap();
            world.start("b", program()).unwrap_or_else(|error| panic!("{error}"));
            wait_for("the next daemon follows", || paths("b").reset_timeout_ms < 2000);
            assert!(paths("b").history_length >= Some(512));
        }
        flow.advance(FRAMES);
        flow.finish_whole();
        let events = run(&["show", "b", "--events"]).out;
        assert!(events.contains("recovery follows the measured paths"), "{events}");
    }
}

/// Returns the frames that a talker loses that starts again at number 0.
fn lost_at_a_restart(recover: &str, is_ready: impl Fn(&StreamPaths) -> bool) -> u64 {
    let (_world, flow) = started(None, Some(("path2", DELAY_US)), recover);
    wait_for("the parameters", || {
        let paths = paths("b");
        // The restart is a step of more than the longest history.
        is_ready(&paths) && paths.paths[0].input_packets > 5_000
    });
    let recovered = || stream(&show("b"), STREAM).recovery.clone().unwrap().counters;
    let before = recovered();
    let reset = run(&["reset", STREAM, "--node", "a"]);
    assert_eq!(reset.code, 0, "{reset:?}");
    wait_for("the new numbers are rogue", || recovered().rogue > before.rogue);
    let passed = recovered().passed;
    wait_for("the talker is heard", || recovered().passed > passed + 100);
    flow.finish().delivery.lost()
}

/// A restarted talker is heard after the reset timeout; much later with the default, its control: after that, or once its
/// numbers reach those of before.
#[test]
fn a_restarted_talker_is_heard_sooner() {
    if !can_run() {
        return;
    }
    let auto = "{ history-length = \"auto\", reset-timeout-ms = \"auto\" }";
    let followed = lost_at_a_restart(auto, |paths| paths.reset_timeout_ms < 500);
    let fixed = lost_at_a_restart("{ history-length = 512 }", |_| true);
    assert!(followed > 0 && fixed > RATE / 2 && followed * 2 < fixed, "{followed} {fixed}");
}
