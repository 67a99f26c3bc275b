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
use onbeat_powerlink_node::{File, Place, Sender, Simulation};
use onbeat_report::Run;
use onbeat_testing::memory::taken;
use onbeat_testing::{Feature, require_all};
use onbeat_wire::powerlink::NodeId;

onbeat_testing::count_allocations!();

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
    exchange_over(cable(), backend, Sender::Process, backend, Sender::Process);
}

/// The same on a cable, by a back end at either end; who sends SoC, and who answers polls.
fn exchange_over(
    [mn, cn]: [Handle; 2],
    backend: Backend,
    soc: Sender,
    other: Backend,
    response: Sender,
) {
    let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let controlled = scope.spawn(|| {
            let (namespace, sender) = (cn.namespace(), response);
            let place = Place {
                namespace,
                interface: "cn",
                backend: other,
                sender,
                virtual_ethernet: None,
            };
            let mut runner = file.controlled(NodeId(1), &place).unwrap();
            let mut simulation = Simulation::controlled(&file, NodeId(1));
            let turn = |node: &mut ControlledNode| simulation.turn(node);
            runner.run(turn, |_| !stop.load(Ordering::Relaxed)).unwrap();
            (runner, simulation)
        });
        let place = Place {
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
        let by_port = other.counts().answered;
        assert_eq!(by_port > 0, response == Sender::Automatic, "{backend}: {by_port} answers");
        let launched = runner.counts().launched;
        assert_eq!(launched > 0, soc == Sender::Automatic, "{backend}: {launched} SoC");
        // What it saw of itself is whole: each cycle has a SoC, whoever sent it.
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

/// A busy machine may be late by so much, in nanoseconds.
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
        // tests/vm has kernels with it; another need not.
        Err(error @ onbeat_netdev::Error::Unsupported { .. })
            if std::env::var_os("ONBEAT_VM").is_none() =>
        {
            eprintln!("SKIP: {error}; tests/vm has it");
        }
        installed => {
            installed.unwrap();
            let (soc, response) = (Sender::Automatic, Sender::Process);
            exchange_over(cable, Backend::Txtime, soc, Backend::Packet, response);
        }
    }
}

/// On a machine of its own (tests/vm), where the kernel module is.
#[test]
fn cycles_and_answers_by_the_kernel_module() {
    let Some(module) = std::env::var_os("ONBEAT_MODULE") else {
        return eprintln!("SKIP: needs onbeat.ko: tests/vm has it");
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

/// Values of the image below: it is long enough that its parts could be of several turns.
const IMAGE: u8 = 64;

/// A node whose whole image is one number, 64 times. Its polls are as long as its responses: on a veth
/// there is no room behind a frame that the driver could let it grow into.
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

/// In one turn of so many the process stays half way through its image until polls were answered.
const HALF_WAY: u64 = 16;
/// Turns of the managing node in which it does so.
const ANSWERED: u64 = 2;

/// The driver answers each poll, also while the process is in the middle of its image, and what it
/// answers with is an image as the process had it whole.
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
            let place = Place {
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
        // An XDP program on this end, too: a veth takes what XDP sends only there.
        let place = Place {
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
        let told: Vec<_> = answering.events().chain(None).collect();
        assert!(images.get() >= 10 * HALF_WAY, "{} images; {counts:?} {told:?}", images.get());
        assert_eq!(torn.get(), 0, "of {} images", images.get());
        assert!(waited > 0, "the process was never half way");
        let polls = runner.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert!(counts.answered >= images.get() && counts.answered <= polls.asked, "{counts:?}");
        assert_eq!(counts.responses, 0, "this process sent no response");
        assert_eq!(answering.diagnostics().unwrap().responses, counts.answered);
        // The node saw what was answered, and when.
        let seen = answering.bus().nodes()[&NodeId(1)].requests(Request::Poll);
        assert_eq!((seen.asked, seen.unanswered), (counts.answered, 0));
        let mut outcome = Run::begin("test").finish();
        answering.tell(&Simulation::default(), &mut outcome).unwrap();
        let Some(onbeat_report::Figure::Distribution(times)) = outcome.figures.get("response time")
        else {
            panic!("{:?}", outcome.figures.keys())
        };
        let polls = times.series.iter().find(|series| series.name == "PRes of node 1").unwrap();
        // Where this thread did not run for long, the port may no longer know when it answered.
        let untimed = outcome.notes.iter().find_map(|note| {
            note.split_once(" answered by the port, which")?.0.split(' ').next()?.parse().ok()
        });
        assert_eq!(polls.count + untimed.unwrap_or(0), counts.answered, "{:?}", outcome.notes);
        assert!(outcome.notes.iter().any(|note| note.contains("answered by the back end xdp")));
    });
}

#[test]
fn a_port_that_does_not_answer_by_itself_is_refused() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
    let [_mn, cn] = cable();
    let (namespace, interface, sender) = (cn.namespace(), "cn", Sender::Automatic);
    let place =
        Place { namespace, interface, backend: Backend::Packet, sender, virtual_ethernet: None };
    let refused = file.controlled(NodeId(1), &place).err().expect("it answers nothing");
    assert!(refused.to_string().contains("automatic response"), "{refused}");
}
