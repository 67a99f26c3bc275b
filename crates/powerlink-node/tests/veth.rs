//! Nodes on ports of each kind, on a cable.
//!
//! ```text
//!   managing node "mn" ------------ "cn" controlled node
//! ```

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_netdev::testing::{Feature, require_all};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{ManagingNode, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::observe::Request;
use onbeat_powerlink_node::{Backend, File, Runner, Simulation, open};
use onbeat_report::Run;
use onbeat_test_memory::taken;
use onbeat_wire::powerlink::NodeId;

/// Longest wait for what comes unless it never comes.
const BOUND: Duration = Duration::from_secs(120);

/// A cycle and time-outs that a busy machine keeps.
const NETWORK: &str = r#"
[network]
cycle-us = 20000
async-slot-us = 2000
loss-threshold = 1000

[[node]]
id = 1
mandatory = true
pres-timeout-us = 10000
input = [{ type = "u16", simulate = "copy" }, { type = "bool", simulate = "toggle" }]
output = [{ type = "u16", simulate = "counter" }]
"#;

/// Turns that are run once everything is in OPERATIONAL.
const TURNS: u64 = 50;

fn cable() -> [Handle; 2] {
    let [mn, cn] =
        [(); 2].map(|()| Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap());
    let far = VethEnd::new("cn").queues(1, 1).namespace(cn.namespace());
    mn.create_veth(&VethEnd::new("mn").queues(1, 1), &far).unwrap();
    for (handle, name) in [(&mn, "mn"), (&cn, "cn")] {
        handle.set_ipv6(name, false).unwrap();
        handle.set_up(name).unwrap();
    }
    for (handle, name) in [(&mn, "mn"), (&cn, "cn")] {
        handle.wait_carrier(name, BOUND).unwrap();
    }
    [mn, cn]
}

/// Boots a network of two, lets it exchange values, and looks at both ends.
fn exchange(backend: Backend) {
    let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
    let [mn, cn] = cable();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let controlled = scope.spawn(|| {
            let port = open(backend, cn.namespace(), "cn").unwrap();
            let node = file.network.controlled(NodeId(1), port.mac_address()).unwrap();
            let mut runner = Runner::new(port, node).unwrap();
            let mut simulation = Simulation::controlled(&file, NodeId(1));
            let turn = |node: &mut ControlledNode| simulation.turn(node);
            runner.run(turn, |_| !stop.load(Ordering::Relaxed)).unwrap();
            (runner, simulation)
        });
        let port = open(backend, mn.namespace(), "mn").unwrap();
        let node = file.network.managing(port.mac_address()).unwrap();
        let mut runner = Runner::new(port, node).unwrap();
        let mut simulation = Simulation::managing(&file);
        let begun = Instant::now();
        let (turns, before, taking) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let turn = |node: &mut ManagingNode| {
            simulation.turn(node);
            if node.step(NodeId(1)) == Some(Step::Operational) {
                turns.set(turns.get() + 1);
            }
            // But for cycles with an SDO frame or a new event.
            let taken = before.replace(taken()) != taken();
            taking.set(taking.get() + u64::from(taken && turns.get() > 0));
        };
        let go_on = |_: &ManagingNode| turns.get() < TURNS && begun.elapsed() < BOUND;
        runner.run(turn, go_on).unwrap();
        stop.store(true, Ordering::Relaxed);
        let (mut other, answers) = controlled.join().unwrap();

        let events: Vec<_> = runner.events().collect();
        assert_eq!(runner.station().state(), State::Operational, "{backend}: {events:?}");
        assert_eq!(turns.get(), TURNS, "{backend}: {events:?}");
        assert!(taking.get() < TURNS / 2, "{backend}: memory taken in {} turns", taking.get());
        let polls = runner.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert!(polls.asked >= TURNS, "{backend}: {polls:?}");
        // The counter went to the node, and came back.
        assert!(simulation.changes()[0] > 0, "{backend}: {simulation:?}");
        assert!(answers.changes()[0] > 0, "{backend}: {answers:?}");
        let mut outcome = Run::begin("test").finish();
        runner.tell(&simulation, &mut outcome).unwrap();
        other.tell(&answers, &mut outcome).unwrap();
        let first = &outcome.checks[0];
        assert!(first.ok(), "{first:?}");
    });
}

#[test]
fn by_packet_sockets() {
    if require_all(&[Feature::Root, Feature::Veth]) {
        exchange(Backend::Packet);
    }
}

#[test]
fn by_af_xdp() {
    if require_all(&[Feature::Root, Feature::Veth]) {
        exchange(Backend::Xsk);
    }
}
