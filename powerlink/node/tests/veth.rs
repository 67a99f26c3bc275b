//! Nodes on ports of each kind, on a cable.
//!
//! ```text
//!   managing node "mn" ------------ "cn" controlled node
//! ```

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_link::Backend;
use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{ManagingNode, Step};
use onbeat_powerlink::network::managing_input;
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::observe::Request;
use onbeat_powerlink::od::id;
use onbeat_powerlink_node::{File, NodePlacement, Sender, Simulation};
use onbeat_report::Run;
use onbeat_testing::memory::taken;
use onbeat_testing::{Feature, require_all};
use onbeat_wire::powerlink::NodeId;

onbeat_testing::count_allocations!();

/// Maximum wait for an event that always comes.
const BOUND: Duration = Duration::from_secs(120);

/// A cycle and timeouts that a busy machine meets.
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

/// Turns after all nodes are in OPERATIONAL.
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

/// Boots a network of two, exchanges values, and checks both ends.
fn exchange(backend: Backend) {
    exchange_over(cable(), backend, Sender::Process, backend, Sender::Process);
}

/// The same on a cable, with a back end at each end, and senders of SoC and of responses to polls.
fn exchange_over(
    [mn, cn]: [Handle; 2],
    backend: Backend,
    soc: Sender,
    other_backend: Backend,
    response: Sender,
) {
    let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let controlled = scope.spawn(|| {
            let (namespace, sender) = (cn.namespace(), response);
            let place = NodePlacement {
                namespace,
                interface: "cn",
                backend: other_backend,
                sender,
                virtual_ethernet: None,
            };
            let mut runner = file.controlled(NodeId(1), &place).unwrap();
            let mut simulation = Simulation::controlled(&file, NodeId(1));
            let turn = |node: &mut ControlledNode| simulation.turn(node);
            runner.run(turn, |_| !stop.load(Ordering::Relaxed)).unwrap();
            (runner, simulation)
        });
        let place = NodePlacement {
            namespace: mn.namespace(),
            interface: "mn",
            backend,
            sender: soc,
            virtual_ethernet: None,
        };
        let mut runner = file.managing(&place).unwrap();
        let mut simulation = Simulation::managing(&file);
        let begun = Instant::now();
        let (turns, before, taking) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let turn = |node: &mut ManagingNode| {
            simulation.turn(node);
            if node.step(NodeId(1)) == Some(Step::Operational) {
                turns.set(turns.get() + 1);
            }
            // Except for cycles with an SDO frame or a new event.
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
        assert!(taking.get() < TURNS / 2, "{backend}: allocations in {} turns", taking.get());
        let polls = runner.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert!(polls.sent >= TURNS, "{backend}: {polls:?}");
        // The counter was sent to the node, and returned.
        assert!(simulation.changes()[0] > 0, "{backend}: {simulation:?}");
        assert!(answers.changes()[0] > 0, "{backend}: {answers:?}");
        let mut outcome = Run::begin("test").finish();
        runner.report(&simulation, &mut outcome).unwrap();
        other.report(&answers, &mut outcome).unwrap();
        let failed: Vec<_> = outcome.checks.iter().take(2).filter(|c| !c.ok()).collect();
        assert!(failed.is_empty(), "{failed:?}");
        let by_port = other.counts().answered;
        // A veth sends what a program answers only to a peer with NAPI, which a packet socket does not start.
        let without_napi = other_backend == Backend::Xdp && backend == Backend::Packet;
        let expected = response == Sender::Automatic && !without_napi;
        assert_eq!(by_port > 0, expected, "{backend}: {by_port} answers");
        let launched = runner.counts().launched;
        assert_eq!(launched > 0, soc == Sender::Automatic, "{backend}: {launched} SoC");
        // Its view of itself is complete: each cycle has a SoC, whichever component sent it.
        let frames = runner.bus().frames();
        assert!(frames.soc >= frames.preq, "{backend}: {frames:?}");
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

/// Tolerance for the delay of a busy machine, in nanoseconds.
const ETF: Etf =
    Etf { delta_ns: 5_000_000, deadline: false, offload: false, skip_socket_check: false };

#[test]
fn cycles_begin_by_launch_times() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = cable();
    let etf = Qdisc {
        parent: QdiscHandle::ROOT,
        handle: QdiscHandle::NONE,
        discipline: Discipline::Etf(ETF),
    };
    match cable[0].replace_qdisc("mn", &etf) {
        // The kernels of tests/vm have it; others need not.
        Err(error @ onbeat_netdev::Error::Unsupported { .. })
            if std::env::var_os("ONBEAT_VM").is_none() =>
        {
            eprintln!("SKIP: {error}; run it in tests/vm");
        }
        installed => {
            installed.unwrap();
            let (soc, response) = (Sender::Automatic, Sender::Process);
            exchange_over(cable, Backend::Txtime, soc, Backend::Packet, response);
        }
    }
}

/// On a virtual machine (tests/vm), with the kernel module.
#[test]
fn cycles_and_answers_by_the_kernel_module() {
    let Some(module) = std::env::var_os("ONBEAT_MODULE") else {
        return eprintln!("SKIP: needs onbeat.ko; run it in tests/vm");
    };
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    if !std::path::Path::new("/sys/module/onbeat").exists() {
        let done = std::process::Command::new("insmod").arg(module).status().unwrap();
        assert!(done.success(), "insmod: {done}");
    }
    let automatic = Sender::Automatic;
    exchange_over(cable(), Backend::Module, automatic, Backend::Module, automatic);
}

/// The driver would drop each answer: the process answers instead, and says so.
#[test]
fn polls_are_answered_by_the_process_if_the_peer_of_a_veth_runs_no_napi() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    exchange_over(cable(), Backend::Packet, Sender::Process, Backend::Xdp, Sender::Automatic);
}

/// Number of values in the image below: it is long enough to mix values of several turns.
const IMAGE: u8 = 64;

/// A node whose whole image is one number, 64 times. Its polls are as long as its responses: on a veth there is
/// no room after a frame for the driver to extend it.
fn image() -> String {
    let value = r#"{ type = "u64", simulate = "constant" }"#;
    let values = vec![value; IMAGE.into()].join(", ");
    format!(
        r#"
[network]
cycle-us = 5000
async-slot-us = 2000
loss-threshold = 1000

[[node]]
id = 1
mandatory = true
pres-timeout-us = 3000
response = "automatic"
backend = "xdp"
input = [{values}]
output = [{values}]
"#
    )
}

/// In one of this many turns the process stops in the middle of its image until polls were answered.
const HALF_WAY: u64 = 16;
/// Polls answered meanwhile, in turns of the managing node.
const ANSWERED: u64 = 2;

/// The driver answers each poll, also while the process is in the middle of its image. Each response is an
/// image that the process completed.
#[test]
fn by_answers_in_the_driver() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let file = File::parse(&image(), "network").unwrap_or_else(|error| panic!("{error}"));
    let [mn, cn] = cable();
    let (stop, exchanged) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let controlled = scope.spawn(|| {
            let place = NodePlacement {
                namespace: cn.namespace(),
                interface: "cn",
                backend: Backend::Xdp,
                sender: Sender::Automatic,
                virtual_ethernet: None,
            };
            let mut runner = file.controlled(NodeId(1), &place).unwrap();
            let (mut number, mut waited) = (0_u64, 0_u64);
            let turn = |node: &mut ControlledNode| {
                number += 1;
                let wait = node.state() == State::Operational && number % HALF_WAY == 0;
                for value in 1..=IMAGE {
                    node.set_object(id(0x6000, value), &number.to_le_bytes()).unwrap();
                    if wait && value == IMAGE / 2 {
                        let (begun, before) = (Instant::now(), exchanged.load(Ordering::Acquire));
                        let left = || stop.load(Ordering::Relaxed) || begun.elapsed() > BOUND;
                        while exchanged.load(Ordering::Acquire) < before + ANSWERED && !left() {
                            thread::yield_now();
                        }
                        waited += 1;
                    }
                }
            };
            runner.run(turn, |_| !stop.load(Ordering::Relaxed)).unwrap();
            (runner, waited)
        });
        // An XDP program on this end, too: a veth accepts frames that XDP sends only then.
        let place = NodePlacement {
            namespace: mn.namespace(),
            interface: "mn",
            backend: Backend::Xsk,
            sender: Sender::Process,
            virtual_ethernet: None,
        };
        let mut runner = file.managing(&place).unwrap();
        let begun = Instant::now();
        let (images, torn, last) = (Cell::new(0_u64), Cell::new(0_u64), Cell::new(0));
        let turn = |node: &mut ManagingNode| {
            if node.step(NodeId(1)) != Some(Step::Operational) {
                return;
            }
            let input = |place: u8| node.objects().number(managing_input(NodeId(1), place.into()));
            let first = input(0);
            torn.set(torn.get() + u64::from((1..IMAGE).any(|place| input(place) != first)));
            images.set(images.get() + u64::from(first != last.replace(first)));
            exchanged.fetch_add(1, Ordering::Release);
        };
        runner.run(turn, |_| images.get() < 10 * HALF_WAY && begun.elapsed() < BOUND).unwrap();
        stop.store(true, Ordering::Relaxed);
        let (mut answering, waited) = controlled.join().unwrap();

        let counts = answering.counts();
        let reports: Vec<_> = answering.events().chain(None).collect();
        assert!(images.get() >= 10 * HALF_WAY, "{} images; {counts:?} {reports:?}", images.get());
        assert_eq!(torn.get(), 0, "of {} images", images.get());
        assert!(waited > 0, "the process never stopped in the middle");
        let polls = runner.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert!(counts.answered >= images.get() && counts.answered <= polls.sent, "{counts:?}");
        assert_eq!(counts.responses, 0, "this process sent no response");
        assert_eq!(answering.diagnostics().unwrap().responses, counts.answered);
        // The node observed the responses, and their times.
        let seen = answering.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert_eq!((seen.sent, seen.unanswered), (counts.answered, 0));
        let mut outcome = Run::begin("test").finish();
        answering.report(&Simulation::default(), &mut outcome).unwrap();
        let Some(onbeat_report::Figure::Distribution(times)) = outcome.figures.get("response time")
        else {
            panic!("{:?}", outcome.figures.keys())
        };
        let polls = times.series.iter().find(|series| series.name == "PRes of node 1").unwrap();
        // If this thread did not run for long, the port may have dropped its report.
        let untimed = outcome.notes.iter().find_map(|note| {
            note.split_once(" answered by the port, which")?.0.split(' ').next()?.parse().ok()
        });
        assert_eq!(polls.count + untimed.unwrap_or(0), counts.answered, "{:?}", outcome.notes);
        assert!(outcome.notes.iter().any(|note| note.contains("answered by the back end xdp")));
    });
}

/// The managing node is in OPERATIONAL, its optional node never was.
#[test]
fn a_node_that_never_came_up_is_a_negative_result() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let text = NETWORK.replace("mandatory = true", "mandatory = false");
    let file = File::parse(&text, "network").unwrap_or_else(|error| panic!("{error}"));
    let [mn, _cn] = cable();
    let place = NodePlacement {
        namespace: mn.namespace(),
        interface: "mn",
        backend: Backend::Packet,
        sender: Sender::Process,
        virtual_ethernet: None,
    };
    let mut runner = file.managing(&place).unwrap();
    let begun = Instant::now();
    let go_on = |node: &ManagingNode| node.state() != State::Operational && begun.elapsed() < BOUND;
    runner.run(|_| (), go_on).unwrap();
    let mut outcome = Run::begin("test").finish();
    runner.report(&Simulation::default(), &mut outcome).unwrap();
    let checks: Vec<_> = outcome.checks.iter().map(|c| (c.name.as_str(), c.ok())).collect();
    let expected = [("in OPERATIONAL at the end", true), ("node 1 reached OPERATIONAL", false)];
    assert_eq!(checks, expected);
    assert!(!outcome.ok());
    let Some(onbeat_report::Figure::Counters(boot)) = outcome.figures.get("boot") else {
        panic!("{:?}", outcome.figures.keys())
    };
    assert_eq!(boot.rows[0][..2], ["1".into(), "identification".into()]);
}

#[test]
fn a_port_without_automatic_responses_is_refused() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
    let [_mn, cn] = cable();
    let (namespace, interface, sender) = (cn.namespace(), "cn", Sender::Automatic);
    let place = NodePlacement {
        namespace,
        interface,
        backend: Backend::Packet,
        sender,
        virtual_ethernet: None,
    };
    let refused = file.controlled(NodeId(1), &place).err().expect("no automatic responses");
    assert!(refused.to_string().contains("automatic response"), "{refused}");
}
