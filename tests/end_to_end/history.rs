//! The history of a recovery function changes under traffic: no frame is lost and none is doubled, although one
//! path is slower by some frames and doubles them.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         1,000 frames/s
//!                      \-------/
//!                        path2 (+ 4 ms, doubles every fifth frame)
//! ```

use onbeat_lab::fault::Impairment;
use onbeat_lab::{Topology, World};
use onbeat_node::config::Backend;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, can_run, eliminate_to, program, replicate, run, show, stream,
    two_paths,
};

const STREAM: &str = "axis";
const RATE: u64 = 1000;
/// Frames between two changes: more than the slower path has in flight.
const WHILE: u64 = 30;
const ROUNDS: usize = 8;
const LENGTHS: [u16; 6] = [128, 1024, 64, 65, 1000, 64];

fn recovering(length: u16, timeout_ms: u32) -> String {
    let recover = format!("{{ history-length = {length}, reset-timeout-ms = {timeout_ms} }}");
    let host = format!("tag = \"none\", vlan = {VLAN}");
    format!("{PORTS}{}", eliminate_to(STREAM, GROUP, &host, &recover))
}

fn network() -> Topology {
    let a = format!("{PORTS}{}", replicate(STREAM, GROUP, VLAN));
    let mut network = two_paths(&a, &recovering(64, 500));
    let slower = Impairment { delay_us: 4_000, duplicate: 0.2, seed: 1, ..Impairment::default() };
    network.impaired(slower);
    network
}

fn started(backend: Option<Backend>) -> (World, Flow) {
    let mut world = build(&network());
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    flow.advance(WHILE);
    (world, flow)
}

fn change_histories(backend: Option<Backend>) {
    let (mut world, flow) = started(backend);
    for round in 0..ROUNDS {
        for length in LENGTHS {
            let timeout_ms = 500 + round as u32;
            world.daemon("b").unwrap().reload(&recovering(length, timeout_ms)).unwrap();
            flow.advance(WHILE);
        }
    }
    let sent = flow.finish_whole();
    assert!(sent > (ROUNDS * LENGTHS.len()) as u64 * WHILE);
    let status = show("b");
    let recovery = stream(&status, STREAM).recovery.clone().unwrap();
    assert_eq!((recovery.counters.passed, recovery.counters.resets), (sent, 1), "{backend:?}");
    assert_eq!((recovery.counters.rogue, recovery.really_lost()), (0, 0), "{backend:?}");
}

#[test]
fn a_change_of_the_history_loses_and_doubles_no_frame() {
    if !can_run() {
        return;
    }
    change_histories(None);
    change_histories(Some(Backend::Packet));
}

/// The control: with a reset instead of each change, frames are doubled.
#[test]
fn a_reset_doubles_frames() {
    if !can_run() {
        return;
    }
    let (_world, flow) = started(None);
    for _ in 0..LENGTHS.len() {
        let reset = run(&["reset", STREAM, "--node", "b"]);
        assert_eq!(reset.code, 0, "{reset:?}");
        flow.advance(WHILE);
    }
    assert_ne!(flow.finish().delivery.record.duplicated(), 0);
}
