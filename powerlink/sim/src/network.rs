//! A POWERLINK network: a managing node, and controlled nodes with an octet of input and one of output each.

use onbeat_powerlink::cn::{self, ControlledNode, StoreCommand};
use onbeat_powerlink::mn::{self, ManagingNode, Step};
use onbeat_powerlink::network::{self, Signal, managing_input, managing_output};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_powerlink::od::{Access, DataType, Dictionary, Object, ObjectId, id};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{NetTime, NodeId};

use crate::{Bus, Checker, Conditions, DiagnosticDevice, Node};

/// A controlled node's input and output.
const INPUT: ObjectId = id(0x6000, 1);
const OUTPUT: ObjectId = id(0x6200, 1);
/// An object of any length in each controlled node, without effect.
pub const DATA: ObjectId = id(0x2100, 0);
/// Time of day at the start of a bus, in seconds since 1970.
const START_S: u32 = 1_800_000_000;
/// Threshold of the managing node's error counters: five losses in a row. With the profile's own, two in three
/// cycles, no network that loses one of a hundred frames is stable.
const THRESHOLD: u32 = 40;
/// Threshold of the controlled nodes' error counters.
const NODE_THRESHOLD: u32 = 80;

/// Timeout of the diagnostic device's connection, in nanoseconds.
const SDO_TIMEOUT_NS: u64 = 15_000_000_000;

/// Properties of a network.
#[derive(Debug, Clone, Copy)]
pub struct NetworkConfig {
    /// Controlled nodes, with the ids starting at 1: up to 239.
    pub nodes: u8,
    /// Length of a cycle, in microseconds.
    pub cycle_us: u32,
    /// The network does not run without all of them.
    pub mandatory: bool,
    /// Number of cycles in a multiplexed cycle, in which every second node has a slot, in turn; 0: all are
    /// polled in every cycle.
    pub multiplexed_cycles: u8,
    /// Properties of the medium.
    pub conditions: Conditions,
    /// Seed of all random values.
    pub seed: u64,
}

/// A recorded event of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineEvent {
    /// Of a controlled node.
    Controlled(cn::Event),
    /// Of the managing node.
    Managing(mn::Event),
}

/// An event, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its time.
    pub time_ns: u64,
    /// The event.
    pub what: MachineEvent,
}

/// Storage of a controlled node's parameters that persists without power.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The stored octets.
    pub kept: Option<Vec<u8>>,
    /// Writes fail.
    pub fails: bool,
    /// The number of writes, including clearing.
    pub writes: u32,
}

impl Memory {
    /// Executes the node's command; returns whether it succeeded, `None` without a command.
    fn serve(&mut self, node: &mut ControlledNode) -> Option<bool> {
        let kept = match node.poll_store()? {
            StoreCommand::Write(octets) => Some(octets.to_vec()),
            StoreCommand::Clear => None,
        };
        if !self.fails {
            self.kept = kept;
            self.writes += 1;
        }
        Some(!self.fails)
    }
}

/// A managing or a controlled node, and its events except those of every cycle.
pub struct Machine {
    kind: MachineNode,
    /// Recorded events.
    pub records: Vec<Record>,
    /// The storage of a controlled node, if it has one.
    pub memory: Option<Memory>,
}

// There are few of them, and boxing would not help.
#[allow(clippy::large_enum_variant)]
enum MachineNode {
    Managing(ManagingNode),
    Controlled(ControlledNode),
    Diagnostic(DiagnosticDevice),
}

impl Machine {
    fn new(kind: MachineNode) -> Self {
        Machine { kind, records: Vec::new(), memory: None }
    }

    fn record(&mut self, time_ns: u64) {
        let records = &mut self.records;
        match &mut self.kind {
            MachineNode::Managing(node) => {
                while let Some(event) = node.poll_event() {
                    use mn::Event::{Cycle, Exchanged, LostPres, LostStatus, Received};
                    if !matches!(event, Cycle | Exchanged | Received(_))
                        && !matches!(event, LostPres(_) | LostStatus(_))
                    {
                        records.push(Record { time_ns, what: MachineEvent::Managing(event) });
                    }
                }
            }
            MachineNode::Controlled(node) => {
                if let Some(done) = self.memory.as_mut().and_then(|memory| memory.serve(node)) {
                    node.handle_stored(time_ns, done);
                }
                while let Some(event) = node.poll_event() {
                    use cn::Event::{NodeStates, Nodes, State, Time, Unmapped};
                    use cn::Event::{NotStored, Restored, Stored};
                    if matches!(event, State { .. } | Unmapped { .. })
                        || matches!(event, Stored | Restored | NotStored)
                        || matches!(event, Nodes(..) | NodeStates | Time(_))
                    {
                        records.push(Record { time_ns, what: MachineEvent::Controlled(event) });
                    }
                }
            }
            MachineNode::Diagnostic(_) => {}
        }
    }

    fn node_mut(&mut self) -> &mut dyn Node {
        match &mut self.kind {
            MachineNode::Managing(node) => node,
            MachineNode::Controlled(node) => node,
            MachineNode::Diagnostic(device) => device,
        }
    }
}

impl Node for Machine {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.node_mut().handle_frame(now_ns, frame);
        self.record(now_ns);
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        self.node_mut().handle_deadline(now_ns);
        self.record(now_ns);
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        match &self.kind {
            MachineNode::Managing(node) => node.next_deadline_ns(),
            MachineNode::Controlled(node) => node.next_deadline_ns(),
            MachineNode::Diagnostic(device) => device.next_deadline_ns(),
        }
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.node_mut().poll_transmit()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.node_mut().recycle(frame);
    }
}

/// A running network, observed by a [`Checker`].
pub struct Network {
    config: NetworkConfig,
    described: network::Network,
    /// The managing node at index 0, node n at index n.
    pub bus: Bus<Machine>,
    /// The checker of its frames.
    pub checker: Checker,
}

impl Network {
    /// Creates a network, turned on.
    ///
    /// # Panics
    /// With no node or with more than 239.
    pub fn new(config: NetworkConfig) -> Self {
        Self::changed(config, |_| ())
    }

    /// The same with changes of its description.
    ///
    /// # Panics
    /// As [`Network::new`]; if the objects of a node conflict.
    pub fn changed(config: NetworkConfig, change: impl FnOnce(&mut network::Network)) -> Self {
        let nodes = 1..=config.nodes;
        assert!(
            (1..=239).contains(&config.nodes),
            "number of nodes: {}; a network has 1 to 239",
            config.nodes
        );
        let mut bus = Bus::new(config.seed, config.conditions);
        let mut described = described(config);
        change(&mut described);
        bus.add(mac(NodeId(0)), Machine::new(MachineNode::Managing(managing(&described, 0))));
        for node in nodes.map(NodeId) {
            let mut controlled = described.controlled(node, mac(node)).expect(FITS);
            controlled.start(0);
            bus.add(mac(node), Machine::new(MachineNode::Controlled(controlled)));
        }
        let checker = Checker::new(config.cycle_us.into());
        Network { config, described, bus, checker }
    }

    /// Runs for a time.
    pub fn run_for(&mut self, ns: u64) {
        self.run_watched(ns, |_, _| ());
    }

    /// The same; `watch` receives every frame and its time, as the checker does.
    pub fn run_watched(&mut self, ns: u64, mut watch: impl FnMut(u64, &[u8])) {
        let end_ns = self.bus.now_ns() + ns;
        let checker = &mut self.checker;
        self.bus.run_until(end_ns, |time_ns, frame| {
            checker.observe(time_ns, frame);
            watch(time_ns, frame);
        });
    }

    /// Runs until a condition holds, checked every cycle; returns whether it held within the limit.
    pub fn run_until(&mut self, limit_ns: u64, condition: impl Fn(&Self) -> bool) -> bool {
        let end_ns = self.bus.now_ns() + limit_ns;
        while !condition(self) {
            if self.bus.now_ns() >= end_ns {
                return false;
            }
            self.run_for(u64::from(self.config.cycle_us) * 1000);
        }
        true
    }

    /// The managing node.
    ///
    /// # Panics
    /// It is not at its index.
    pub fn managing(&mut self) -> &mut ManagingNode {
        match &mut self.bus.stations[0].node.kind {
            MachineNode::Managing(node) => node,
            _ => unreachable!("the managing node is at index 0"),
        }
    }

    /// A controlled node.
    ///
    /// # Panics
    /// There is no node with this id.
    pub fn controlled(&mut self, node: NodeId) -> &mut ControlledNode {
        match &mut self.bus.stations[usize::from(node.0)].node.kind {
            MachineNode::Controlled(node) => node,
            _ => unreachable!("controlled node n is at index n"),
        }
    }

    /// State of a node; the index of the managing node is 0.
    pub fn state(&self, place: u8) -> State {
        match &self.bus.stations[usize::from(place)].node.kind {
            MachineNode::Managing(node) => node.state(),
            MachineNode::Controlled(node) => node.state(),
            MachineNode::Diagnostic(_) => State::Off,
        }
    }

    /// Whether the managing node and all controlled nodes are in OPERATIONAL, and the managing node has
    /// confirmed it.
    pub fn is_operational(&self) -> bool {
        let known = match &self.bus.stations[0].node.kind {
            MachineNode::Managing(node) => {
                (1..=self.config.nodes).all(|id| node.step(NodeId(id)) == Some(Step::Operational))
            }
            _ => false,
        };
        known && (0..=self.config.nodes).all(|place| self.state(place) == State::Operational)
    }

    /// Turns a controlled node off, or on as a new one.
    pub fn power(&mut self, node: NodeId, on: bool) {
        let now_ns = self.bus.now_ns();
        let mut controlled = self.described.controlled(node, mac(node)).expect(FITS);
        let machine = &mut self.bus.stations[usize::from(node.0)].node;
        if let Some(memory) = &machine.memory {
            controlled.set_store(memory.kept.as_deref()).expect(FITS);
        }
        if on {
            controlled.start(now_ns);
        }
        machine.kind = MachineNode::Controlled(controlled);
        self.checker.forget(node);
    }

    /// Connects a controlled node to storage for its parameters, and restarts it.
    pub fn set_memory(&mut self, node: NodeId, memory: Memory) {
        self.bus.stations[usize::from(node.0)].node.memory = Some(memory);
        self.power(node, true);
    }

    /// The storage of a controlled node, if it has one.
    pub fn memory(&mut self, node: NodeId) -> Option<&mut Memory> {
        self.bus.stations[usize::from(node.0)].node.memory.as_mut()
    }

    /// Restarts the managing node, as a new one.
    pub fn restart_managing(&mut self) {
        self.bus.stations[0].node.kind =
            MachineNode::Managing(managing(&self.described, self.bus.now_ns()));
    }

    /// Disconnects or connects a node's cable.
    pub fn connect(&mut self, node: NodeId, connected: bool) {
        self.bus.stations[usize::from(node.0)].connected = connected;
        self.checker.forget(node);
    }

    /// Connects a diagnostic device behind the controlled nodes.
    pub fn add_diagnostic(&mut self) {
        let mac = mac(NodeId::DIAGNOSTIC);
        let device =
            MachineNode::Diagnostic(DiagnosticDevice::new(mac, NodeId::MN, SDO_TIMEOUT_NS));
        self.bus.add(mac, Machine::new(device));
    }

    /// The diagnostic device.
    ///
    /// # Panics
    /// There is none.
    pub fn diagnostic(&mut self) -> &mut DiagnosticDevice {
        match self.bus.stations.last_mut().map(|station| &mut station.node.kind) {
            Some(MachineNode::Diagnostic(device)) => device,
            _ => unreachable!("the diagnostic device is the last one"),
        }
    }

    /// Sets an input of a controlled node.
    pub fn set_input(&mut self, node: NodeId, value: u8) {
        let set = self.controlled(node).set_object(INPUT, &[value]);
        debug_assert!(set.is_ok(), "every node has an input");
    }

    /// A node's input in the managing node.
    pub fn input(&mut self, node: NodeId) -> u8 {
        self.managing().objects().number(managing_input(node, 0)) as u8
    }

    /// Sets a node's output in the managing node.
    pub fn set_output(&mut self, node: NodeId, value: u8) {
        let set = self.managing().set_object(managing_output(node, 0), &[value]);
        debug_assert!(set.is_ok(), "there is an output for every node");
    }

    /// A node's output in the node.
    pub fn output(&mut self, node: NodeId) -> u8 {
        self.controlled(node).objects().number(OUTPUT) as u8
    }
}

/// Creates a managing node, turned on.
fn managing(network: &network::Network, now_ns: u64) -> ManagingNode {
    let mut managing = network.managing(mac(NodeId(0))).expect(FITS);
    let (seconds, nanoseconds) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
    let time = NetTime { seconds: START_S + seconds as u32, nanoseconds: nanoseconds as u32 };
    managing.start(now_ns, time);
    managing
}

fn mac(node: NodeId) -> MacAddress {
    MacAddress([2, 0x45, 0x50, 0x4c, 0, node.0])
}

const FITS: &str = "the objects of a simulated node fit each other";

/// The cycle of a multiplexed cycle in which a node is polled, starting at 1; 0: every cycle.
fn slot(config: NetworkConfig, node: u8) -> u8 {
    match config.multiplexed_cycles {
        cycles if cycles > 0 && node % 2 == 0 => (node / 2 - 1) % cycles + 1,
        _ => 0,
    }
}

/// The description of the network.
fn described(config: NetworkConfig) -> network::Network {
    let identity = Identity {
        device_type: 0x000f_0191,
        vendor_id: 1,
        product_code: 2,
        revision_number: 3,
        serial_number: 4,
        features: profile::CONTROLLED_NODE_FEATURES,
        device_name: b"simulated".to_vec(),
        host_name: b"simulated".to_vec(),
    };
    let octet = |name: &str, object| {
        vec![Signal { name: name.into(), object, data_type: DataType::Unsigned(1) }]
    };
    let mut objects = Dictionary::new();
    objects.add(DATA, Object::new(DataType::Domain, Access::ReadWrite, Vec::new())).expect(FITS);
    let station = |node| network::Station {
        node: NodeId(node),
        mandatory: config.mandatory,
        identity: identity.clone(),
        // The first poll of a cycle is sent after the SoC.
        pres_timeout_ns: 40_000,
        soc_to_poll_ns: 0,
        multiplexed: slot(config, node),
        inputs: octet("input", INPUT),
        outputs: octet("output", OUTPUT),
        received: Vec::new(),
        described: Some(objects.clone()),
        parameters: Vec::new(),
    };
    network::Network {
        cycle_us: config.cycle_us,
        async_slot_ns: 100_000,
        // All of them are configured by then.
        pre_operational_1_us: 500_000 + 20_000 * u32::from(config.nodes),
        soc_tolerance_ns: config.cycle_us * 500,
        soc_jitter_ns: 0,
        threshold: THRESHOLD,
        node_threshold: NODE_THRESHOLD,
        multiplexed_cycles: config.multiplexed_cycles,
        prescaler: 2,
        start_all: false,
        basic_ethernet: false,
        nodes: (1..=config.nodes).map(station).collect(),
    }
}
