//! What the managing node publishes, as a controlled node takes it (EPSG DS 301, 7.3.4).

use onbeat_wire::powerlink::{NmtCommand, NmtCommandId, NodeStates};

use super::{ControlledNode, Event};
use crate::od::{id, profile};

impl ControlledNode {
    /// The state of every node, as NMTPublishNodeStates told it last; at first all are off.
    pub fn node_states(&self) -> &NodeStates {
        &self.node_states
    }

    /// Takes what a service says that commands nothing; what is cut off says nothing.
    pub(super) fn published(&mut self, command: &NmtCommand<'_>) {
        match command.command {
            NmtCommandId::PUBLISH_TIME => {
                let Ok(time) = command.time_of_day() else { return };
                // What it cannot hold stays as it is.
                self.time = time.net_time().unwrap_or(self.time);
                self.events.push_back(Event::Time(time));
            }
            NmtCommandId::PUBLISH_NODE_STATES => {
                let Ok(states) = command.node_states() else { return };
                self.node_states = states;
                for (node, state) in states.iter() {
                    // Only a node that is meant to know of others has objects for them.
                    let _ = self.od.set_number(id(profile::NODE_STATE, node.0), state.0.into());
                }
                self.events.push_back(Event::NodeStates);
            }
            service if service.publishes_nodes() => {
                let Ok(nodes) = command.nodes() else { return };
                self.events.push_back(Event::Nodes(service, nodes));
            }
            _ => {}
        }
    }
}
