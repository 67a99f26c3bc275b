//! A node whose thread was stopped: a controlled node on a cable with a scripted managing node, or a managing node.
//!
//! ```text
//!   script "mn" ------------ "cn" controlled node
//! ```
//!
//! Both run in one thread: the runner calls the script, and does not run meanwhile.

use std::time::{Duration, Instant};

use onbeat_link::Backend;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::ManagingNode;
use onbeat_powerlink_node::{File, NodePlacement, Runner, Sender, Simulation};
use onbeat_realtime::clock::now_ns;
use onbeat_report::figure::DistributionSeries;
use onbeat_report::{Figure, Outcome, Run};
use onbeat_testing::{Feature, RawSocket, require_all};
use onbeat_wire::powerlink::{MessageType, NodeId, RequestedService, multicast};

/// Maximum wait for an event that always comes.
const BOUND: Duration = Duration::from_secs(60);

const MN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 240];

/// A cycle and timeouts that do not pass during a test.
const NETWORK: &str = r#"
[network]
cycle-us = 10000000
loss-threshold = 0

[[node]]
id = 1
input = [{ type = "u16" }]
"#;

/// Frames to the node, and the frames that it sends.
struct Script {
    handles: [Handle; 2],
    mn: RawSocket,
    /// Beside the node's port: it receives the same frames.
    cn: RawSocket,
    begun: Instant,
    answers: Vec<Vec<u8>>,
}

impl Script {
    fn new() -> Self {
        let handles =
            [(); 2].map(|()| Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap());
        let [mn, cn] = &handles;
        let far = VethEnd::new("cn").queues(1, 1).namespace(cn.namespace());
        mn.create_veth(&VethEnd::new("mn").queues(1, 1), &far).unwrap();
        for (handle, name) in [(mn, "mn"), (cn, "cn")] {
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        mn.wait_carrier("mn", BOUND).unwrap();
        let [mn, cn] = [RawSocket::open(mn, "mn"), RawSocket::open(cn, "cn")];
        Self { handles, mn, cn, begun: Instant::now(), answers: Vec::new() }
    }

    fn runner(&self, backend: Backend) -> Runner<ControlledNode> {
        let file = File::parse(NETWORK, "network").unwrap_or_else(|error| panic!("{error}"));
        let place = NodePlacement {
            namespace: self.handles[1].namespace(),
            interface: "cn",
            backend,
            sender: Sender::Process,
            virtual_ethernet: None,
        };
        file.controlled(NodeId(1), &place).unwrap()
    }

    /// Sends frames and waits until all are queued at the node, whose thread does not run meanwhile.
    fn queue(&self, frames: &[Vec<u8>]) {
        let last = frame([0xff; 6], [0x88, 0xb5], &[]);
        for octets in frames.iter().chain([&last]) {
            self.mn.send(octets);
        }
        while self.cn.receive(BOUND).expect("the frames arrive") != last {}
    }

    /// Whether the node has sent this number of frames, or the bound has passed.
    fn has(&mut self, answers: usize) -> bool {
        self.answers.extend(self.mn.receive(Duration::ZERO));
        self.answers.len() >= answers || self.begun.elapsed() > BOUND
    }

    /// Types of the node's frames; of ASnd the service.
    fn kinds(&self) -> Vec<(u8, u8)> {
        let service = |kind, frame: &[u8]| if kind == MessageType::ASND.0 { frame[17] } else { 0 };
        self.answers.iter().map(|frame| (frame[14], service(frame[14], frame))).collect()
    }
}

/// A frame with these octets after its EtherType.
fn frame(to: [u8; 6], ether_type: [u8; 2], octets: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &MN_MAC, &ether_type, octets].concat();
    frame.resize(60, 0);
    frame
}

fn soa(service: RequestedService) -> Vec<u8> {
    frame(multicast::SOA.0, [0x88, 0xab], &[5, 255, 240, 0, 0, 0, service.0, 1, 0x20])
}

fn soc() -> Vec<u8> {
    frame(multicast::SOC.0, [0x88, 0xab], &[1, 255, 240])
}

fn poll(runner: &Runner<ControlledNode>) -> Vec<u8> {
    frame(runner.mac_address().0, [0x88, 0xab], &[3, 1, 240])
}

fn result(runner: &mut Runner<ControlledNode>) -> Outcome {
    let mut outcome = Run::begin("test").finish();
    runner.report(&Simulation::default(), &mut outcome).unwrap();
    outcome
}

fn series<'a>(outcome: &'a Outcome, figure: &str, name: &str) -> Option<&'a DistributionSeries> {
    let Some(Figure::Distribution(found)) = outcome.figures.get(figure) else { return None };
    found.series.iter().find(|series| series.name == name)
}

/// Frames of other nodes are between the requests: the next frame in the queue need not be the managing node's.
#[test]
fn only_the_newest_request_is_answered() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let mut script = Script::new();
    let mut runner = script.runner(Backend::Packet);
    let mut other = frame(multicast::ASND.0, [0x88, 0xab], &[6, 255, 2, 2]);
    other[11] = 2;
    let (ident, status) = (RequestedService::IDENT_REQUEST, RequestedService::STATUS_REQUEST);
    let requests = [
        vec![soa(ident), other.clone(), soa(ident), soa(ident), other, soa(status)],
        vec![soc(), poll(&runner), soa(status), soc(), poll(&runner), soa(ident)],
    ];
    let mut step = 0;
    let go_on = |_: &ControlledNode| {
        let (queued, answers) = match step {
            0 => (vec![soa(RequestedService::NO_SERVICE)], 0),
            1 => (requests[0].clone(), 0),
            2 => (requests[1].clone(), 1),
            _ => return !script.has(3),
        };
        if script.has(answers) {
            script.queue(&queued);
            step += 1;
        }
        true
    };
    runner.run(|_| (), go_on).unwrap();
    // StatusResponse, then PRes and IdentResponse.
    assert_eq!(script.kinds(), [(6, 2), (4, 0), (6, 1)]);
    assert_eq!(runner.late_requests(), 5);
    let outcome = result(&mut runner);
    let Some(Figure::Counters(port)) = outcome.figures.get("port") else { panic!() };
    let late = ["late requests not answered".into(), 5_u64.into()];
    assert!(port.rows.iter().any(|row| row[..] == late), "{:?}", port.rows);
    let Some(Figure::Counters(events)) = outcome.figures.get("events") else { panic!() };
    let text = "late request not answered, its slot was over; 1 so far";
    assert!(events.rows.iter().any(|row| row[1] == text.into()), "{:?}", events.rows);
}

/// How long the thread is stopped after a poll was received.
const STOPPED: Duration = Duration::from_millis(50);

/// A node that receives a poll while its thread is stopped: its result, and its delay at the other end.
fn late_response(backend: Backend) -> (Outcome, Duration) {
    let mut script = Script::new();
    let mut runner = script.runner(backend);
    let poll = poll(&runner);
    let (mut step, mut polled) = (0, Instant::now());
    let go_on = |_: &ControlledNode| {
        match step {
            0 => script.queue(&[soa(RequestedService::NO_SERVICE)]),
            1 => script.queue(&[soc()]),
            2 => {
                polled = Instant::now();
                script.queue(std::slice::from_ref(&poll));
                while polled.elapsed() < STOPPED {
                    std::hint::spin_loop();
                }
            }
            _ => return !script.has(1),
        }
        step += 1;
        true
    };
    runner.run(|_| (), go_on).unwrap();
    let took = polled.elapsed();
    assert_eq!(script.kinds(), [(4, 0)], "a PRes");
    (result(&mut runner), took)
}

/// From the time stamp of the poll to that of the response, both of the kernel.
#[test]
fn a_late_response_is_late_in_the_result() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (outcome, took) = late_response(Backend::Packet);
    for (figure, name) in
        [("response time", "PRes of node 1"), ("lateness", "frame handled after its reception")]
    {
        let max_ns = series(&outcome, figure, name).and_then(|series| series.max);
        let max = Duration::from_nanos(max_ns.unwrap_or_default());
        assert!(STOPPED <= max && max <= took, "{name}: {max:?}, {took:?} at the other end");
    }
    let submitted = series(&outcome, "response time", "PRes of node 1 (without driver)");
    assert_eq!(submitted, None, "each response is stamped");
}

/// A managing node, alone on the cable, whose thread does not run for some cycles.
#[test]
fn skipped_cycles_are_counted_beside_the_lateness_of_soc() {
    const CYCLE_NS: u64 = 10_000_000;
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let script = Script::new();
    let network = NETWORK.replace("cycle-us = 10000000", "cycle-us = 10000");
    let file = File::parse(&network, "network").unwrap_or_else(|error| panic!("{error}"));
    let place = NodePlacement {
        namespace: script.handles[0].namespace(),
        interface: "mn",
        backend: Backend::Packet,
        sender: Sender::Process,
        virtual_ethernet: None,
    };
    let mut runner = file.managing(&place).unwrap();
    let process = |node: &mut ManagingNode| {
        let until_ns = node.next_soc_ns() + 5 * CYCLE_NS;
        while node.skipped_cycles() == 0 && now_ns() < until_ns {
            std::hint::spin_loop();
        }
    };
    let go_on = |node: &ManagingNode| node.skipped_cycles() == 0 && script.begun.elapsed() < BOUND;
    runner.run(process, go_on).unwrap();
    let skipped = runner.skipped_cycles();
    // The first one is sent, late.
    assert!(skipped >= 5, "{skipped}");
    let mut outcome = Run::begin("test").finish();
    runner.report(&Simulation::default(), &mut outcome).unwrap();
    let soc = series(&outcome, "lateness", "SoC sent after its instant").expect("the series");
    assert_eq!(soc.lost, skipped);
    let Some(Figure::Counters(port)) = outcome.figures.get("port") else { panic!() };
    let row = ["SoC skipped after an exceeded cycle".into(), skipped.into()];
    assert!(port.rows.iter().any(|found| found[..] == row), "{:?}", port.rows);
}

/// AF_XDP has no time stamps of transmissions.
#[test]
fn a_time_without_the_driver_is_named() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let (outcome, took) = late_response(Backend::Xsk);
    let found = series(&outcome, "response time", "PRes of node 1 (without driver)");
    let max = Duration::from_nanos(found.and_then(|series| series.max).unwrap_or_default());
    assert!(max > Duration::ZERO && max <= took, "{found:?}, {took:?} at the other end");
    assert_eq!(series(&outcome, "response time", "PRes of node 1"), None);
}
