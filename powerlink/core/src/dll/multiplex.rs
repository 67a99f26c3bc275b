//! Multiplexed polls of a node, as the node itself detects them (EPSG DS 301, 4.2.4.1.1.1).

use super::Losses;

/// Detects whether a node was polled in each multiplexed cycle.
///
/// A multiplexed cycle ends where MC of SoC toggles. So the node need not know its own cycle in it: a poll was
/// lost if a whole multiplexed cycle had none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplex {
    assigned: bool,
    /// MC of the last SoC.
    completed: bool,
    /// The node was polled in this multiplexed cycle, or was not to be polled in all of it.
    polled: bool,
    missed: bool,
    /// A SoC was lost, perhaps with the toggle of MC: a poll may be counted for the previous multiplexed cycle.
    unsure: bool,
}

impl Multiplex {
    /// `assigned`: the node has a slot in a multiplexed cycle; otherwise it is polled in every cycle.
    pub const fn new(assigned: bool) -> Self {
        Multiplex { assigned, completed: false, polled: true, missed: false, unsure: false }
    }

    /// Whether the node has a slot in a multiplexed cycle: MS of its PRes.
    pub const fn is_assigned(&self) -> bool {
        self.assigned
    }

    /// Starts a cycle; `completed` is its MC. `expected`: whether the node is in a state in which it is polled.
    pub fn soc(&mut self, completed: bool, expected: bool) {
        if core::mem::replace(&mut self.completed, completed) != completed {
            let unsure = core::mem::take(&mut self.unsure);
            self.missed = !core::mem::replace(&mut self.polled, unsure) && !unsure;
        }
        self.polled |= !expected;
    }

    /// Handles a poll; `slot` is MS of the poll, which has precedence over the configuration.
    pub fn preq(&mut self, slot: bool) {
        self.assigned = slot;
        self.polled = true;
    }

    /// Filters losses: a cycle without a poll is not a loss for a multiplexed node.
    pub fn losses(&mut self, losses: Losses) -> Losses {
        self.unsure |= losses.soc;
        let missed = core::mem::take(&mut self.missed);
        if self.assigned { Losses { preq: missed, ..losses } } else { losses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREQ: Losses = Losses { soc: false, preq: true, soa: false };
    const NONE: Losses = Losses { soc: false, preq: false, soa: false };

    /// Counts losses in multiplexed cycles of four, with a poll in the third; some polls are lost.
    fn counted(multiplex: &mut Multiplex, cycles: u32, lost: impl Fn(u32) -> bool) -> u32 {
        let mut counted = 0;
        for cycle in 0..cycles {
            multiplex.soc(cycle / 4 % 2 == 1, true);
            counted += u32::from(multiplex.losses(NONE).preq);
            let polled = cycle % 4 == 2 && !lost(cycle / 4);
            if polled {
                multiplex.preq(true);
            }
            // The cycle's own state machine expects a poll in every other cycle as well.
            let losses = if polled { NONE } else { PREQ };
            counted += u32::from(multiplex.losses(losses).preq);
        }
        counted
    }

    #[test]
    fn one_poll_in_a_multiplexed_cycle_is_enough() {
        assert_eq!(counted(&mut Multiplex::new(true), 400, |_| false), 0);
    }

    #[test]
    fn a_multiplexed_cycle_without_a_poll_is_one_loss() {
        // A loss is known at the end of its multiplexed cycle.
        let lost = |n: u32| n % 5 == 1;
        assert_eq!(counted(&mut Multiplex::new(true), 401, lost), 20);
    }

    #[test]
    fn the_poll_overrides_the_configuration() {
        let mut multiplex = Multiplex::new(false);
        assert_eq!(multiplex.losses(PREQ), PREQ, "polled in every cycle");
        multiplex.preq(true);
        assert!(multiplex.is_assigned());
        assert_eq!(multiplex.losses(PREQ), NONE);
        multiplex.preq(false);
        assert_eq!(multiplex.losses(PREQ), PREQ);
    }

    /// The SoC with which MC toggles is lost, and the node is polled in that cycle.
    #[test]
    fn a_late_change_of_mc_is_not_a_loss() {
        let mut multiplex = Multiplex::new(true);
        for cycle in 0..40 {
            if cycle == 20 {
                assert!(!multiplex.losses(Losses { soc: true, ..PREQ }).preq);
            } else {
                multiplex.soc(cycle / 4 % 2 == 1, true);
            }
            assert_eq!(multiplex.losses(NONE), NONE, "{cycle}");
            if cycle % 4 == 0 {
                multiplex.preq(true);
            }
        }
    }

    #[test]
    fn a_node_that_is_not_polled_has_no_losses() {
        let mut multiplex = Multiplex::new(true);
        for cycle in 0..40 {
            multiplex.soc(cycle % 2 == 1, false);
            assert_eq!(multiplex.losses(PREQ), NONE);
        }
        // From the first whole multiplexed cycle on.
        multiplex.soc(false, true);
        assert_eq!(multiplex.losses(NONE), NONE);
        multiplex.soc(true, true);
        assert_eq!(multiplex.losses(NONE), PREQ);
    }
}
