//! The skew between the paths of a stream: one path is slower by a known time.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         5,000 frames/s
//!                      \-------/
//!                        path2, one of both + 4 ms
//! ```

use onbeat_lab::Topology;
use onbeat_lab::fault::Impairment;
use onbeat_node::config::Backend;
use onbeat_node::control::{PathStatus, StreamPaths};

use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, can_run, eliminate_to, program, replicate, run,
};

const STREAM: &str = "axis";
const RATE: u64 = 5000;
const DELAY_US: u32 = 4_000;
const MS: i64 = 1_000_000;
/// One number of 128 is measured.
const FRAMES: u64 = 128 * 50;
const PATHS: [&str; 2] = ["path1", "path2"];

fn network(slower: Option<&str>) -> Topology {
    let a = format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN));
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let recover = "{ history-length = 128, reset-timeout-ms = 500 }";
    let b = format!("{PORTS}{}", eliminate_to(STREAM, GROUP, &host, recover));
    let mut network = Topology::default();
    network.host("talker", 0, 0).host("listener", 3, 0).node("a", 1, 0, &a).node("b", 2, 0, &b);
    network.link("access", "talker:eth0", "a:host").link("exit", "b:host", "listener:eth0");
    for path in PATHS {
        network.link(path, &format!("a:{path}"), &format!("b:{path}"));
        if slower == Some(path) {
            let delay_us = DELAY_US.into();
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

/// Returns the paths after a flow of frames.
fn measured(backend: Option<Backend>, slower: Option<&str>) -> StreamPaths {
    let mut world = build(&network(slower));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
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
