//! Rules of polls: who is polled when, in cycles and in multiplexed cycles.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_wire::powerlink::{NodeId, Soc};

/// Polls of this cycle, and where multiplexed nodes have their slots.
#[derive(Debug, Default)]
pub(super) struct Polls {
    in_cycle: BTreeSet<NodeId>,
    /// MC of the last SoC.
    completed: Option<bool>,
    /// Cycles since MC changed.
    position: u64,
    /// The multiplexed cycle was seen from its begin on.
    whole: bool,
    /// Cycles of a multiplexed cycle, once one was seen from begin to end.
    length: Option<u64>,
    /// In which of them a node has its slot.
    slots: BTreeMap<NodeId, u64>,
}

impl Polls {
    /// A cycle begins.
    pub(super) fn soc(&mut self, soc: Soc) -> Option<String> {
        self.in_cycle.clear();
        let completed = soc.multiplexed_cycle_completed;
        let before = self.completed.replace(completed);
        if soc.relative_time_us == 0 {
            (self.position, self.whole) = (0, true);
            return completed.then(|| "the first SoC says that a multiplexed cycle ended".into());
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

    /// A node is polled; `slot` is MS of the poll.
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
