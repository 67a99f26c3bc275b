//! Schedule of faults, drawn from the seed of the network; each is reverted before the end.

use std::fmt;

use onbeat_wire::random::Random;

use super::judge::Lan;
use super::plan::Plan;
use crate::fault::{Direction, Impairment};

/// Undisturbed time at the start and at the end.
const CALM_MS: u64 = 500;

/// A step of the schedule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// Time since the first frame.
    pub(super) at_ms: u64,
    pub(super) action: Action,
}

/// Faults of a node and its links to the LANs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Sets the impairment of a link; `Forward` is away from the node.
    Impair { node: usize, lan: Lan, direction: Direction, impairment: Impairment },
    /// The port loses or regains its carrier.
    Carrier { node: usize, lan: Lan, on: bool },
    /// The interface of the port is set down or up.
    Turn { node: usize, lan: Lan, on: bool },
    /// The daemon is terminated by SIGKILL or SIGTERM.
    End { node: usize, kill: bool },
    /// The daemon is started.
    Start { node: usize },
}

impl Action {
    /// The affected object: an action and its reversal have the same object.
    pub(super) fn object(&self) -> (&'static str, usize, usize) {
        match self {
            Action::Impair { node, lan, direction, .. } => {
                ("wire", *node, 2 * *lan as usize + *direction as usize)
            }
            Action::Carrier { node, lan, .. } => ("carrier", *node, *lan as usize),
            Action::Turn { node, lan, .. } => ("interface", *node, *lan as usize),
            Action::End { node, .. } | Action::Start { node } => ("daemon", *node, 0),
        }
    }

    /// Whether it reverts another action.
    pub(super) fn ends(&self) -> bool {
        match self {
            Action::Impair { impairment, .. } => {
                Impairment { seed: 0, ..*impairment } == Impairment::default()
            }
            Action::Carrier { on, .. } | Action::Turn { on, .. } => *on,
            Action::Start { .. } => true,
            Action::End { .. } => false,
        }
    }

    /// The reversal of a fault.
    fn reversal(&self) -> Action {
        match *self {
            Action::Impair { node, lan, direction, .. } => {
                Action::Impair { node, lan, direction, impairment: Impairment::default() }
            }
            Action::Carrier { node, lan, .. } => Action::Carrier { node, lan, on: true },
            Action::Turn { node, lan, .. } => Action::Turn { node, lan, on: true },
            Action::End { node, .. } | Action::Start { node } => Action::Start { node },
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turned = |on: &bool| if *on { "on" } else { "off" };
        match self {
            Action::Impair { node, lan, direction, impairment: i } => write!(
                f,
                "wire of n{node} to LAN {lan:?} {direction:?}: loss {:.2}, duplicate {:.2}, reorder {:.2}, delay {} + {} us",
                i.loss, i.duplicate, i.reorder, i.delay_us, i.jitter_us
            ),
            Action::Carrier { node, lan, on } => {
                write!(f, "carrier of n{node} on LAN {lan:?} {}", turned(on))
            }
            Action::Turn { node, lan, on } => {
                write!(f, "interface of n{node} on LAN {lan:?} {}", turned(on))
            }
            Action::End { node, kill } => {
                write!(f, "n{node} {}", if *kill { "SIGKILL" } else { "SIGTERM" })
            }
            Action::Start { node } => write!(f, "n{node} started"),
        }
    }
}

/// The schedule of a network, in order.
pub(super) fn draw(plan: &Plan) -> Vec<Step> {
    let random = &mut Random::new(plan.seed ^ 0x5eed);
    let mut steps = Vec::new();
    // Times at which objects are free: the links by node and LAN, and the daemons.
    let mut links = vec![[0_u64; 2]; plan.nodes.len()];
    let mut daemons = vec![0_u64; plan.nodes.len()];
    let (mut now, end) = (CALM_MS, plan.life_ms - CALM_MS);
    while now < end {
        let node = random.below(plan.nodes.len() as u64) as usize;
        let lan = Lan::BOTH[random.below(2) as usize];
        let until = (now + 100 + random.below(1400)).min(end);
        let kind = random.below(10);
        let is_free =
            if kind == 0 { links[node].iter().max() } else { Some(&links[node][lan as usize]) }
                .is_some_and(|free| *free <= now)
                && daemons[node] <= now;
        let action = match kind {
            0 => Action::End { node, kill: random.chance(0.5) },
            1 => Action::Carrier { node, lan, on: false },
            2 => Action::Turn { node, lan, on: false },
            _ => Action::Impair {
                node,
                lan,
                direction: if random.chance(0.5) {
                    Direction::Forward
                } else {
                    Direction::Backward
                },
                impairment: impairment(random),
            },
        };
        if is_free && until > now {
            // A pause between faults of one object.
            let free = until + 100;
            match action {
                // It then sends nothing for a while: it is not stopped again.
                Action::End { .. } => daemons[node] = free + 1000,
                _ => links[node][lan as usize] = free,
            }
            let reversal = action.reversal();
            steps.push(Step { at_ms: now, action });
            steps.push(Step { at_ms: until, action: reversal });
        }
        now += 30 + random.below(200);
    }
    steps.sort_by_key(|step| step.at_ms);
    steps
}

/// LAN B of every node is slow: copies are 20 ms apart.
pub(super) fn slow_lan(plan: &Plan) -> Vec<Step> {
    let impairment = Impairment { delay_us: 20_000, ..Impairment::default() };
    let slow =
        |node| Action::Impair { node, lan: Lan::B, direction: Direction::Backward, impairment };
    (0..plan.nodes.len()).map(|node| Step { at_ms: 0, action: slow(node) }).collect()
}

/// Draws an impairment, or a cut: all frames are lost.
fn impairment(random: &mut Random) -> Impairment {
    let seed = random.number();
    if random.chance(0.3) {
        return Impairment { loss: 1.0, seed, ..Impairment::default() };
    }
    let mut drawn = Impairment { seed, ..Impairment::default() };
    // At least one kind.
    let first = random.below(4);
    let mut is_chosen = |kind| random.chance(0.3) || kind == first;
    let chosen = [is_chosen(0), is_chosen(1), is_chosen(2), is_chosen(3)];
    if chosen[0] {
        drawn.loss = 0.05 + random.below(75) as f64 / 100.0;
    }
    if chosen[1] {
        drawn.duplicate = 0.05 + random.below(45) as f64 / 100.0;
    }
    if chosen[2] {
        drawn.reorder = 0.05 + random.below(45) as f64 / 100.0;
        drawn.overtaken = 1 + random.below(20) as u16;
    }
    if chosen[3] {
        drawn.delay_us = random.below(60_000);
        drawn.jitter_us = random.below(20_000);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_reverted() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            let mut open = BTreeSet::new();
            for step in draw(&plan) {
                let object = step.action.object();
                kinds.insert(object.0);
                match step.action.ends() {
                    true => assert!(open.remove(&object), "{seed}: {}", step.action),
                    false => assert!(open.insert(object), "{seed}: {}", step.action),
                }
                assert!(step.at_ms <= plan.life_ms - CALM_MS);
            }
            assert!(open.is_empty(), "{seed}: {open:?}");
        }
        assert_eq!(kinds.len(), 4, "{kinds:?}");
    }

    /// Copies stay within the time for which numbers are remembered.
    #[test]
    fn impairments_are_valid_and_short() {
        let random = &mut Random::new(1);
        for _ in 0..1000 {
            let drawn = impairment(random);
            assert_eq!(drawn.fault(), None);
            assert_ne!(Impairment { seed: 0, ..drawn }, Impairment::default());
            assert!(drawn.delay_us + drawn.jitter_us < 100_000);
        }
    }
}
