//! A simulated process: generates values by patterns, and observes received values.

use onbeat_powerlink::network::{Network, Signal, managing_input, managing_output};
use onbeat_powerlink::od::{DataType, ObjectId};
use onbeat_wire::powerlink::NodeId;

use crate::Station;
use crate::file::{File, NodeHost, Project};

/// The pattern of a value from cycle to cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// Increases by one in each cycle, and wraps to 0 after its maximum.
    #[default]
    Counter,
    /// All bits change in each cycle.
    Toggle,
    /// The value that the other end sent at the same position of its list.
    Copy,
    /// Stays 0.
    Constant,
}

impl Pattern {
    /// All patterns, with their names in files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("counter", Self::Counter),
        ("toggle", Self::Toggle),
        ("copy", Self::Copy),
        ("constant", Self::Constant),
    ];
}

/// A generated value.
#[derive(Debug, Clone)]
struct SimulatedValue {
    of: NodeId,
    name: String,
    object: ObjectId,
    data_type: DataType,
    pattern: Pattern,
    /// The object that [`Pattern::Copy`] copies.
    source: Option<ObjectId>,
    value: u64,
}

/// An observed value.
#[derive(Debug, Clone)]
struct ObservedValue {
    of: NodeId,
    name: String,
    object: ObjectId,
    value: u64,
    changes: u64,
}

/// The report on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueReport<'a> {
    pub(crate) of: NodeId,
    pub(crate) name: &'a str,
    pub(crate) object: ObjectId,
    /// Whether it was generated; otherwise it was received.
    pub(crate) given: bool,
    pub(crate) value: u64,
    /// For received values: turns with a change of the value.
    pub(crate) changes: Option<u64>,
}

/// Simulated inputs and outputs. A turn needs no allocation.
#[derive(Debug, Clone, Default)]
pub struct Simulation {
    given: Vec<SimulatedValue>,
    seen: Vec<ObservedValue>,
}

impl Simulation {
    /// The process of a controlled node: it sets the node's inputs, and observes its outputs.
    #[must_use]
    pub fn controlled(file: &File, node: NodeId) -> Self {
        let mut simulation = Self::default();
        let stations = file.network.nodes.iter().zip(&file.nodes);
        for (station, host) in stations.filter(|(station, _)| station.node == node) {
            let object = |signals: &[Signal], place: usize| signals.get(place).map(|s| s.object);
            simulation.give(
                node,
                &station.inputs,
                &host.inputs,
                |place| object(&station.inputs, place),
                |place| object(&station.outputs, place),
            );
            simulation.look(node, &station.outputs, |place| object(&station.outputs, place));
            for signal in &station.received {
                simulation.observe(node, &signal.name, signal.object);
            }
        }
        simulation
    }

    /// The process of a managing node: it sets all nodes' outputs, and observes their inputs.
    #[must_use]
    pub fn managing(file: &File) -> Self {
        let mut simulation = Self::default();
        let Network { nodes, .. } = &file.network;
        for (station, NodeHost { outputs, .. }) in nodes.iter().zip(&file.nodes) {
            let node = station.node;
            let input = |place| (place < station.inputs.len()).then(|| managing_input(node, place));
            let output = |place| Some(managing_output(node, place));
            simulation.give(node, &station.outputs, outputs, output, input);
            simulation.look(node, &station.inputs, input);
        }
        if let Some(Project { project, names, .. }) = &file.project {
            for (value, name) in project.values.iter().zip(names) {
                if value.is_sent {
                    simulation.given.push(SimulatedValue {
                        of: value.node,
                        name: name.clone(),
                        object: value.object,
                        data_type: value.data_type,
                        pattern: Pattern::default(),
                        source: None,
                        value: 0,
                    });
                } else {
                    simulation.observe(value.node, name, value.object);
                }
            }
        }
        simulation
    }

    fn give(
        &mut self,
        of: NodeId,
        signals: &[Signal],
        patterns: &[Pattern],
        object: impl Fn(usize) -> Option<ObjectId>,
        source: impl Fn(usize) -> Option<ObjectId>,
    ) {
        for (place, (signal, pattern)) in signals.iter().zip(patterns).enumerate() {
            let Some(object) = object(place) else { continue };
            let (name, data_type, pattern) = (signal.name.clone(), signal.data_type, *pattern);
            let source = source(place);
            self.given.push(SimulatedValue {
                of,
                name,
                object,
                data_type,
                pattern,
                source,
                value: 0,
            });
        }
    }

    fn look(&mut self, of: NodeId, signals: &[Signal], object: impl Fn(usize) -> Option<ObjectId>) {
        for (place, signal) in signals.iter().enumerate() {
            let Some(object) = object(place) else { continue };
            self.observe(of, &signal.name, object);
        }
    }

    fn observe(&mut self, of: NodeId, name: &str, object: ObjectId) {
        self.seen.push(ObservedValue { of, name: name.to_owned(), object, value: 0, changes: 0 });
    }

    /// Runs one turn of the process.
    pub fn turn(&mut self, station: &mut impl Station) {
        for seen in &mut self.seen {
            let value = station.objects().number(seen.object);
            seen.changes += u64::from(value != seen.value);
            seen.value = value;
        }
        for given in &mut self.given {
            let len = given.data_type.fixed_len().unwrap_or_default();
            let most = match given.data_type {
                DataType::Boolean => 1,
                _ => u64::MAX >> (64 - 8 * len.clamp(1, 8)),
            };
            given.value = match given.pattern {
                Pattern::Counter => given.value.wrapping_add(1) & most,
                Pattern::Toggle => !given.value & most,
                Pattern::Copy => {
                    given.source.map_or(0, |from| station.objects().number(from)) & most
                }
                Pattern::Constant => 0,
            };
            let octets = given.value.to_le_bytes();
            let set = station.set_object(given.object, &octets[..len.min(8)]);
            debug_assert!(set.is_ok(), "every value of its type is valid for a signal");
        }
    }

    /// The report on each value.
    pub(crate) fn reports(&self) -> impl Iterator<Item = ValueReport<'_>> {
        let given = self.given.iter().map(|given| ValueReport {
            of: given.of,
            name: &given.name,
            object: given.object,
            given: true,
            value: given.value,
            changes: None,
        });
        let seen = self.seen.iter().map(|seen| ValueReport {
            of: seen.of,
            name: &seen.name,
            object: seen.object,
            given: false,
            value: seen.value,
            changes: Some(seen.changes),
        });
        given.chain(seen)
    }

    /// The numbers of changes of received values, ascending.
    #[must_use]
    pub fn changes(&self) -> Vec<u64> {
        let mut changes: Vec<u64> = self.seen.iter().map(|seen| seen.changes).collect();
        changes.sort_unstable();
        changes
    }
}
