//! Common functions of the end-to-end tests: the built program, the network with two paths, streams,
//! and single frames.
//!
//! Tests wait for conditions, at most for [`BOUND`]: results do not depend on the speed of the machine.

#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

pub(crate) mod delay;
mod file;
mod frames;
pub(crate) mod json;
pub(crate) mod machine;
mod network;
mod onbeat;
pub(crate) mod powerlink;
pub(crate) mod process;
mod resident;
mod stream;
mod xdp;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_netdev::Namespace;
use onbeat_node::control::{NodeStatus, PortStatus, StreamStatus};
use onbeat_realtime::interrupt::wait_until;
use onbeat_testing::{Feature, require_all};

pub(crate) use file::{TemporaryFile, make_executable};
pub(crate) use frames::{Capture, FrameText, Injector};
pub(crate) use network::{
    GROUP, PORTS, VLAN, build, eliminate, eliminate_to, one_node, ports_in_mode, replicate,
    replicate_alike, start, two_paths,
};
pub(crate) use onbeat::{onbeat, program, run};
pub(crate) use onbeat_testing::{CommandOutput, root};
pub(crate) use resident::ResidentProcess;
pub(crate) use stream::{Flow, address, sink};
pub(crate) use xdp::xdp_program;

/// Maximum wait for an event that is expected at once.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// Whether this machine can run a network of nodes; if not, prints the missing feature.
pub(crate) fn can_run() -> bool {
    can(&[Feature::Btf])
}

/// Whether this machine has the features that every network requires, and `features`; if not, prints
/// the missing one.
pub(crate) fn can(features: &[Feature]) -> bool {
    machine::shared();
    require_all(&[Feature::Root, Feature::Veth]) && require_all(features)
}

/// Waits until `condition` holds; fails with `what` if it does not within [`BOUND`].
#[track_caller]
pub(crate) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_until(BOUND, condition).expect("no signal"), "not within {BOUND:?}: {what}");
}

/// Like [`run`], in a network namespace.
pub(crate) fn run_in(namespace: &Namespace, arguments: &[&str]) -> CommandOutput {
    namespace.start_in(onbeat().args(arguments)).output().expect("it starts").into()
}

/// The sources of the end-to-end tests.
pub(crate) fn sources() -> Vec<String> {
    let (mut texts, mut directories) = (Vec::new(), vec![root().join("tests/end_to_end")]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory of tests") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                texts.push(fs::read_to_string(path).expect("a test"));
            }
        }
    }
    texts
}

/// Output of `onbeat show NODE --json`.
pub(crate) fn show(node: &str) -> NodeStatus {
    let CommandOutput { code, out, err } = run(&["show", node, "--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "onbeat show {node} --json: {out}");
    serde_json::from_str(&out).expect("the state of a node")
}

/// A stream of a node.
pub(crate) fn stream<'a>(status: &'a NodeStatus, name: &str) -> &'a StreamStatus {
    let found = status.streams.iter().find(|stream| stream.name == name);
    found.unwrap_or_else(|| panic!("node {} has no stream {name}: {status:?}", status.node))
}

/// A port of a node.
pub(crate) fn port<'a>(status: &'a NodeStatus, name: &str) -> &'a PortStatus {
    let found = status.ports.iter().find(|port| port.name == name);
    found.unwrap_or_else(|| panic!("node {} has no port {name}: {status:?}", status.node))
}

/// Packets of a stream received at all of its ports.
pub(crate) fn input(stream: &StreamStatus) -> u64 {
    stream.members.iter().map(|member| member.input_packets).sum()
}

/// The log of a node of a world.
pub(crate) fn log(node: &str) -> String {
    fs::read_to_string(format!("/run/onbeat/lab/{node}.log")).unwrap_or_default()
}

/// Pins, journals and control sockets of a node.
pub(crate) fn left_behind(node: &str) -> Vec<PathBuf> {
    let files = |directory: &str| {
        let files = fs::read_dir(directory).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect::<Vec<_>>()
    };
    let mut left = files("/run/onbeat");
    left.extend(files("/sys/fs/bpf/onbeat"));
    let of_node = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split('.').next() == Some(node)
    };
    left.retain(of_node);
    left
}

/// Checks that nothing of a node is left.
#[track_caller]
pub(crate) fn assert_gone(node: &str) {
    let left = left_behind(node);
    assert!(left.is_empty(), "left behind: {left:?}");
}
