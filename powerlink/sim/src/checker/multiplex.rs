//! Rules of polls, in cycles and in multiplexed cycles.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_wire::powerlink::{NodeId, Soc};

/// Polls of this cycle, and the slots of multiplexed nodes.
#[derive(Debug, Default)]
pub(super) struct Polls {
    in_cycle: BTreeSet<NodeId>,
    /// MC of the last SoC.
    completed: Option<bool>,
    /// Cycles since MC toggled.
    position: u64,
    /// The multiplexed cycle was observed from its start.
    whole: bool,
    /// Number of cycles in a multiplexed cycle, after a complete observation.
    length: Option<u64>,
    /// The slot of each node.
    slots: BTreeMap<NodeId, u64>,
}

impl Polls {
    /// Starts a cycle.
    pub(super) fn soc(&mut self, soc: Soc) -> Option<String> {
        self.in_cycle.clear();
        let completed = soc.multiplexed_cycle_completed;
        let before = self.completed.replace(completed);
        if soc.relative_time_us == 0 {
            (self.position, self.whole) = (0, true);
            return completed.then(|| "the first SoC ends a multiplexed cycle".into());
        }
        self.position += 1;
        let Some(length) = self.length else {
            if before.is_some_and(|before| before != completed) {
                let length = core::mem::take(&mut self.position);
                self.length = core::mem::replace(&mut self.whole, true).then_some(length);
            }
            return None;
        };
        let ends = self.position == length;
        let changed = before != Some(completed);
        if changed || ends {
            self.position = 0;
        }
        (changed != ends).then(|| {
            let how = if changed { "changed within" } else { "did not change after" };
            format!("MC {how} a multiplexed cycle of {length}")
        })
    }

    /// Checks a poll of a node; `slot` is MS of the poll.
    pub(super) fn preq(&mut self, node: NodeId, slot: bool) -> Option<String> {
        if !self.in_cycle.insert(node) {
            return Some(format!("node {node} is polled twice in a cycle"));
        }
        let position = self.position;
        match (slot, self.slots.get(&node)) {
            (false, Some(_)) => {
                Some(format!("node {node}, which has a slot, is polled without MS"))
            }
            (true, Some(at)) if *at != position => Some(format!(
                "node {node} is polled in cycle {position} of a multiplexed cycle, and was in {at}"
            )),
            (true, None) if self.whole => {
                self.slots.insert(node, position);
                None
            }
            _ => None,
        }
    }
}
