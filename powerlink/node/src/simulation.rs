//! A process for a node that has none: patterns as its values, and a look at what comes.

use onbeat_powerlink::network::{Network, Signal, managing_input, managing_output};
use onbeat_powerlink::od::{DataType, ObjectId};
use onbeat_wire::powerlink::NodeId;

use crate::Station;
use crate::file::{File, NodeHost};

/// What a value does from cycle to cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// One more in each cycle, from 0 again behind its greatest.
    #[default]
    Counter,
    /// All bits change in each cycle.
    Toggle,
    /// What the other end sent at the same place of its own list.
    Copy,
    /// It stays what it is: 0.
    Constant,
}

impl Pattern {
    /// Each with its name in files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("counter", Self::Counter),
        ("toggle", Self::Toggle),
        ("copy", Self::Copy),
        ("constant", Self::Constant),
    ];
}

/// A value that is given.
#[derive(Debug, Clone)]
struct Given {
    of: NodeId,
    name: String,
    object: ObjectId,
    data_type: DataType,
    pattern: Pattern,
    /// What [`Pattern::Copy`] copies.
    source: Option<ObjectId>,
    value: u64,
}

/// A value that is looked at.
#[derive(Debug, Clone)]
struct Seen {
    of: NodeId,
    name: String,
    object: ObjectId,
    value: u64,
    changes: u64,
}

/// What came of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told<'a> {
    pub(crate) of: NodeId,
    pub(crate) name: &'a str,
    pub(crate) object: ObjectId,
    /// It was given; else it came.
    pub(crate) given: bool,
    pub(crate) value: u64,
    /// Turns with another value than the one before, of those that came.
    pub(crate) changes: Option<u64>,
}

/// Simulated inputs and outputs. In a turn it takes no memory.
#[derive(Debug, Clone, Default)]
pub struct Simulation {
    given: Vec<Given>,
    seen: Vec<Seen>,
}

impl Simulation {
    /// The process of a controlled node: it gives the node's inputs, and gets its outputs.
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
        }
        simulation
    }

    /// The process of a managing node: it gives all nodes' outputs, and gets their inputs.
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
            self.given.push(Given { of, name, object, data_type, pattern, source, value: 0 });
        }
    }

    fn look(&mut self, of: NodeId, signals: &[Signal], object: impl Fn(usize) -> Option<ObjectId>) {
        for (place, signal) in signals.iter().enumerate() {
            let Some(object) = object(place) else { continue };
            let name = signal.name.clone();
            self.seen.push(Seen { of, name, object, value: 0, changes: 0 });
        }
    }

    /// The process has its turn.
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
            debug_assert!(set.is_ok(), "a signal takes every value of its type");
        }
    }

    /// What came of each value.
    pub(crate) fn told(&self) -> impl Iterator<Item = Told<'_>> {
        let given = self.given.iter().map(|given| Told {
            of: given.of,
            name: &given.name,
            object: given.object,
            given: true,
            value: given.value,
            changes: None,
        });
        let seen = self.seen.iter().map(|seen| Told {
            of: seen.of,
            name: &seen.name,
            object: seen.object,
            given: false,
            value: seen.value,
            changes: Some(seen.changes),
        });
        given.chain(seen)
    }

    /// How often the values that came changed, those of the least first.
    #[must_use]
    pub fn changes(&self) -> Vec<u64> {
        let mut changes: Vec<u64> = self.seen.iter().map(|seen| seen.changes).collect();
        changes.sort_unstable();
        changes
    }
}
