//! Handles information that the managing node publishes (EPSG DS 301, 7.3.4).

use onbeat_wire::powerlink::{NmtCommand, NmtCommandId, NodeStates};

use super::{ControlledNode, Event};
use crate::od::{id, profile};

impl ControlledNode {
    /// The state of every node, as last published by NMTPublishNodeStates; initially off.
    pub fn node_states(&self) -> &NodeStates {
        &self.node_states
    }

    /// Handles a service that commands nothing; truncated data is ignored.
    pub(super) fn published(&mut self, command: &NmtCommand<'_>) {
        match command.command {
            NmtCommandId::PUBLISH_TIME => {
                let Ok(time) = command.time_of_day() else { return };
                // A value out of range leaves the time unchanged.
                self.time = time.net_time().unwrap_or(self.time);
                self.events.push_back(Event::Time(time));
            }
            NmtCommandId::PUBLISH_NODE_STATES => {
                let Ok(states) = command.node_states() else { return };
                self.node_states = states;
                for (node, state) in states.iter() {
                    // Only nodes configured to know others have objects for them.
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
