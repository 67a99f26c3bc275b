//! Outputs that another controlled node sends: `from = { node = 1, input = "position" }`.

use onbeat_config::Value;
use onbeat_powerlink::network::{Network, ReceivedSignal};
use onbeat_powerlink::od::{DataType, ObjectId};
use onbeat_wire::powerlink::NodeId;

/// An output whose source is resolved when all nodes are known.
pub(super) struct Reference<'a> {
    /// The receiving node.
    node: NodeId,
    /// `from`.
    value: Value<'a>,
    source: NodeId,
    input: String,
    name: String,
    object: ObjectId,
    /// Its type, if the file or a description defines it.
    data_type: Option<DataType>,
}

impl<'a> Reference<'a> {
    /// Reads `from` of an output.
    pub(super) fn read(
        value: Value<'a>,
        name: String,
        object: ObjectId,
        data_type: Option<DataType>,
    ) -> Option<Self> {
        let mut table = value.table()?;
        let source = table.require("node", "1").and_then(|value| value.number(1_u8..=239));
        let input = table.require("input", "\"position\"").and_then(|value| value.text());
        table.finish();
        let (source, input) = (NodeId(source?), input?.to_owned());
        Some(Reference { node: NodeId::NONE, value, source, input, name, object, data_type })
    }

    /// Sets the receiving node.
    pub(super) fn of(self, node: NodeId) -> Self {
        Reference { node, ..self }
    }

    /// Adds the signal to the receiving node, unless its source is invalid.
    pub(super) fn resolve(self, network: &mut Network) {
        let Reference { node, value, source, input, name, object, data_type } = self;
        let found = network.nodes.iter().find(|station| station.node == source);
        let Some(sender) = found.filter(|_| source != node) else {
            let what = if source == node { "is this node" } else { "not found in the network" };
            return value.fault(format!("node {source} {what}"), "use the id of another node");
        };
        let Some(place) = sender.inputs.iter().position(|signal| signal.name == input) else {
            let names: Vec<&str> = sender.inputs.iter().map(|signal| &*signal.name).collect();
            let help = format!("inputs of node {source}: {}", names.join(", "));
            return value.fault(format!("node {source} has no input {input:?}"), help);
        };
        let sent = sender.inputs[place].data_type;
        if let Some(own) = data_type.filter(|own| *own != sent) {
            let what = format!("input {input:?} of node {source} is {sent}, this output {own}");
            return value.fault(what, "use the type of the input");
        }
        let signal = ReceivedSignal { name, object, data_type: sent, source, input: place };
        if let Some(station) = network.nodes.iter_mut().find(|station| station.node == node) {
            station.received.push(signal);
        }
    }
}
