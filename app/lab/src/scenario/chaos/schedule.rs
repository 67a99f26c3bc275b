//! Schedule of faults, drawn from the seed of the network; each is reverted before the end.

use std::fmt;

use super::plan::{Plan, draw_recover};
use super::spec::{Function, Recovery};
use crate::fault::{Direction, Impairment};
use onbeat_wire::random::Random;

/// Undisturbed time at the start and at the end.
const CALM_MS: u64 = 1000;

/// A step of the schedule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// Time since the first frame. Steps before it may take longer and delay it.
    pub(super) at_ms: u64,
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Sets the impairment of a link's wire.
    Impair { link: usize, direction: Direction, impairment: Impairment },
    /// The port at an end of a link loses or regains its carrier.
    Carrier { link: usize, end: usize, on: bool },
    /// The interface of the port at an end of a link is set down or up.
    Turn { link: usize, end: usize, on: bool },
    /// The interface at an end of a link is removed.
    Remove { link: usize, end: usize },
    /// The interface is restored.
    Return { link: usize, end: usize },
    /// The daemon is terminated by SIGKILL or SIGTERM.
    End { node: usize, kill: bool },
    /// The daemon is started.
    Start { node: usize },
    /// The function of a stream at a node changes, or is restored: its file is changed and reloaded.
    Change { node: usize, stream: usize, function: Option<Function>, usual: bool },
    /// The rate of a talker changes, or is restored.
    Rate { stream: usize, rate: u64, usual: bool },
}

impl Action {
    /// The affected object: an action and its reversal have the same object.
    pub(super) fn object(&self) -> (&'static str, usize, usize) {
        match self {
            Action::Impair { link, direction, .. } => ("wire", *link, *direction as usize),
            Action::Carrier { link, end, .. } => ("carrier", *link, *end),
            Action::Turn { link, end, .. } => ("interface", *link, *end),
            Action::Remove { link, end } | Action::Return { link, end } => ("device", *link, *end),
            Action::End { node, .. } | Action::Start { node } => ("daemon", *node, 0),
            Action::Change { node, stream, .. } => ("stream", *node, *stream),
            Action::Rate { stream, .. } => ("rate", *stream, 0),
        }
    }

    /// Whether it reverts another action.
    pub(super) fn ends(&self) -> bool {
        match self {
            Action::Impair { impairment, .. } => {
                Impairment { seed: 0, ..*impairment } == Impairment::default()
            }
            Action::Carrier { on, .. } | Action::Turn { on, .. } => *on,
            Action::Return { .. } | Action::Start { .. } => true,
            Action::Remove { .. } | Action::End { .. } => false,
            Action::Change { usual, .. } | Action::Rate { usual, .. } => *usual,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turned = |on: &bool| if *on { "on" } else { "off" };
        match self {
            Action::Impair { link, direction, impairment: i } => write!(
                f,
                "wire l{link} {direction:?}: loss {:.2}, duplicate {:.2}, reorder {:.2} by {}, \
                 delay {} + {} us",
                i.loss,
                i.duplicate,
                i.reorder,
                i.max_held(),
                i.delay_us,
                i.jitter_us
            ),
            Action::Carrier { link, end, on } => {
                write!(f, "carrier of l{link} end {end} {}", turned(on))
            }
            Action::Turn { link, end, on } => {
                write!(f, "interface of l{link} end {end} {}", turned(on))
            }
            Action::Remove { link, end } => write!(f, "interface of l{link} end {end} removed"),
            Action::Return { link, end } => write!(f, "interface of l{link} end {end} restored"),
            Action::End { node, kill } => {
                write!(f, "n{node} {}", if *kill { "SIGKILL" } else { "SIGTERM" })
            }
            Action::Start { node } => write!(f, "n{node} started"),
            Action::Change { node, stream, function: None, .. } => {
                write!(f, "n{node} removes s{stream}")
            }
            Action::Change { node, stream, function: Some(function), .. } => write!(
                f,
                "n{node} sets s{stream} with members {:?}, egress {:?} (numbered {:?}), {:?}",
                function.members,
                function.egress.iter().map(|egress| egress.port).collect::<Vec<_>>(),
                function.egress.iter().map(|egress| egress.headers.numbered).collect::<Vec<_>>(),
                function.recover
            ),
            Action::Rate { stream, rate, .. } => write!(f, "s{stream} at {rate} frames/s"),
        }
    }
}

/// The schedule of a network, in order.
pub(super) fn draw(plan: &Plan) -> Vec<Step> {
    let mut drawing = ScheduleDraw {
        plan,
        random: Random::new(plan.seed ^ 0x5eed),
        links: vec![0; plan.links.len()],
        nodes: vec![0; plan.nodes.len()],
        steps: Vec::new(),
    };
    let mut now = CALM_MS;
    let end = plan.life_ms - CALM_MS;
    while now < end {
        drawing.fault(now, end);
        now += 50 + drawing.random.below(350);
    }
    drawing.steps.sort_by_key(|step| step.at_ms);
    drawing.steps
}

struct ScheduleDraw<'a> {
    plan: &'a Plan,
    random: Random,
    /// Time until which a link is reserved by a fault.
    links: Vec<u64>,
    /// Time until which a node's daemon or interfaces are.
    nodes: Vec<u64>,
    steps: Vec<Step>,
}

impl ScheduleDraw<'_> {
    /// Draws one fault that starts now and is reverted by `end`, if its object is available.
    fn fault(&mut self, now: u64, end: u64) {
        let link = self.below(self.plan.links.len());
        let side = self.below(2);
        let node = self.below(self.plan.nodes.len());
        let length = 20 + self.random.below(1200);
        let until = (now + length).min(end);
        match self.random.below(100) {
            0..=44 if self.links[link] <= now => self.impair(link, now, until),
            45..=52 if self.links[link] <= now => {
                self.links[link] = until;
                self.pair(now, until, |on| Action::Carrier { link, end: side, on });
            }
            53..=60 if self.links[link] <= now => {
                self.links[link] = until;
                self.pair(now, until, |on| Action::Turn { link, end: side, on });
            }
            61..=66 => self.remove(link, side, now, until),
            67..=74 if self.nodes[node] <= now => {
                self.nodes[node] = until + 100;
                let kill = self.random.chance(0.6);
                self.push(now, Action::End { node, kill });
                self.push(until, Action::Start { node });
            }
            75..=92 if self.nodes[node] <= now => self.change(node, now, until),
            93.. => {
                let stream = self.below(self.plan.streams.len());
                let rate = self.plan.streams[stream].rate;
                let other = [0, rate / 4, rate * 2][self.below(3)];
                self.push(now, Action::Rate { stream, rate: other, usual: false });
                self.push(until, Action::Rate { stream, rate, usual: true });
            }
            _ => {}
        }
    }

    fn impair(&mut self, link: usize, now: u64, until: u64) {
        self.links[link] = until;
        let seed = self.random.number();
        let clean = Impairment { seed, ..Impairment::default() };
        let share = 0.02 + self.random.below(500) as f64 / 1000.0;
        let impairment = match self.random.below(8) {
            0 | 1 => Impairment { loss: 1.0, ..clean },
            2 => Impairment { loss: share, ..clean },
            3 => Impairment { duplicate: share, ..clean },
            4 => Impairment { reorder: share / 2.0, ..clean },
            5 => {
                let overtaken = 20 + self.random.below(400) as u16;
                Impairment { reorder: share / 10.0, overtaken, ..clean }
            }
            6 => Impairment { delay_us: self.random.below(60_000), jitter_us: 2000, ..clean },
            _ => Impairment {
                loss: share / 2.0,
                duplicate: share / 2.0,
                reorder: share / 2.0,
                delay_us: self.random.below(20_000),
                ..clean
            },
        };
        let both = [Direction::Forward, Direction::Backward];
        let directions = match self.below(3) {
            0 => &both[..],
            1 => &both[..1],
            _ => &both[1..],
        };
        for &direction in directions {
            self.push(now, Action::Impair { link, direction, impairment });
            self.push(until, Action::Impair { link, direction, impairment: clean });
        }
    }

    /// Removes an interface. Its node is not changed meanwhile: the interfaces that a file names must
    /// exist when it is read.
    fn remove(&mut self, link: usize, end: usize, now: u64, until: u64) {
        let ends = self.plan.links[link].nodes;
        if self.links[link] > now || ends.iter().any(|node| self.nodes[*node] > now) {
            return;
        }
        self.links[link] = until + 100;
        ends.iter().for_each(|node| self.nodes[*node] = until + 100);
        self.push(now, Action::Remove { link, end });
        self.push(until, Action::Return { link, end });
    }

    /// Changes a stream of a node for a time.
    fn change(&mut self, node: usize, now: u64, until: u64) {
        let streams = self.plan.streams.iter().enumerate();
        let there: Vec<usize> = streams
            .filter(|(_, stream)| stream.functions[node].is_some())
            .map(|(n, _)| n)
            .collect();
        if there.is_empty() {
            return;
        }
        let stream = there[self.below(there.len())];
        let Some(usual) = &self.plan.streams[stream].functions[node] else { return };
        let mut changed = usual.clone();
        // An accepted copy without a number is not a duplicate of any frame.
        let functions = || self.plan.streams[stream].functions.iter().flatten();
        let taken = functions().filter_map(|function| function.recover);
        let numbers_are_needed = !taken.clone().any(|recover| recover.take_no_sequence);
        let function = match self.below(5) {
            0 => None,
            1 if usual.recover.is_some() => {
                let take_no_sequence =
                    usual.recover.is_some_and(|recover| recover.take_no_sequence);
                let drawn = draw_recover(&mut self.random);
                changed.recover = Some(Recovery { take_no_sequence, ..drawn });
                Some(changed)
            }
            2 if usual.egress.len() > 1 => {
                changed.egress.remove(self.below(usual.egress.len()));
                Some(changed)
            }
            3 if usual.members.len() > 1 => {
                changed.members.remove(self.below(usual.members.len()));
                Some(changed)
            }
            4 if usual.egress.len() > 1 && numbers_are_needed => {
                // A path removes the numbers.
                let place = self.below(usual.egress.len());
                changed.egress[place].headers.numbered = false;
                Some(changed)
            }
            _ => return,
        };
        self.nodes[node] = until + 100;
        let before = Some(usual.clone());
        self.push(now, Action::Change { node, stream, function, usual: false });
        self.push(until, Action::Change { node, stream, function: before, usual: true });
    }

    fn pair(&mut self, now: u64, until: u64, action: impl Fn(bool) -> Action) {
        self.push(now, action(false));
        self.push(until, action(true));
    }

    fn push(&mut self, at_ms: u64, action: Action) {
        self.steps.push(Step { at_ms, action });
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }
}

/// The node and port of an action that affects a single port.
pub(super) fn port(plan: &Plan, action: &Action) -> Option<(usize, usize)> {
    match action {
        Action::Carrier { link, end, .. }
        | Action::Turn { link, end, .. }
        | Action::Remove { link, end }
        | Action::Return { link, end } => Some(plan.port_of(*link, *end)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::PortPeer;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_determines_the_schedule() {
        let plan = Plan::draw(3);
        assert_eq!(draw(&plan), draw(&plan));
    }

    /// Each action is reverted by the end, in order.
    #[test]
    fn every_action_is_reverted() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            let mut left = BTreeMap::new();
            let steps = draw(&plan);
            for step in &steps {
                assert!((CALM_MS..=plan.life_ms - CALM_MS).contains(&step.at_ms));
                kinds.insert(step.action.object().0);
                if let Action::Change { node, stream, function, usual: true } = &step.action {
                    assert_eq!(*function, plan.streams[*stream].functions[*node]);
                }
                left.insert(step.action.object(), step.action.ends());
            }
            assert!(left.values().all(|ended| *ended), "seed {seed}: {left:?}");
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }

    /// A daemon is neither stopped nor reloaded while it or one of its interfaces is unavailable.
    #[test]
    fn unavailable_objects_are_not_changed() {
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            let mut away = vec![false; plan.nodes.len()];
            for step in draw(&plan) {
                match step.action {
                    Action::Remove { link, .. } => {
                        assert!(plan.links[link].nodes.iter().all(|node| !away[*node]));
                        plan.links[link].nodes.iter().for_each(|node| away[*node] = true);
                    }
                    Action::Return { link, .. } => {
                        plan.links[link].nodes.iter().for_each(|node| away[*node] = false);
                    }
                    Action::End { node, .. } => {
                        assert!(!std::mem::replace(&mut away[node], true));
                    }
                    Action::Start { node } => away[node] = false,
                    Action::Change { node, .. } => assert!(!away[node]),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn ports_are_those_of_the_link() {
        let plan = Plan::draw(1);
        let action = Action::Remove { link: 0, end: 1 };
        let (node, port) = super::port(&plan, &action).unwrap();
        assert_eq!(plan.nodes[node].ports[port].at, PortPeer::Link(0));
    }
}
