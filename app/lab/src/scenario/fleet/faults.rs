//! Faults of links, agents, the controller and the leader of etcd.

use nix::sys::signal::Signal;
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::pause_until;
use onbeat_rollout::Phase;
use onbeat_wire::random::Random;

use super::network::{Ladder, name};
use super::plant::{Controller, Plant};
use crate::world::CutEnds;
use crate::{Result, World};

/// Phases with faults: those in which nodes change.
pub(super) const PHASES: [Phase; 4] = [Phase::Accept, Phase::Prove, Phase::Send, Phase::Drain];

/// Time between the end of a cut and the next one: each stream has both paths again.
const BETWEEN_CUTS_NS: u64 = 500_000_000;

const NS_PER_MS: u64 = 1_000_000;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    LinkCut,
    AgentKilled,
    AgentStopped,
    ControllerKilled,
    ControllerStopped,
    LeaderKilled,
    LeaderStopped,
}

impl FaultKind {
    pub(super) const ALL: [Self; 7] = [
        Self::LinkCut,
        Self::AgentKilled,
        Self::AgentStopped,
        Self::ControllerKilled,
        Self::ControllerStopped,
        Self::LeaderKilled,
        Self::LeaderStopped,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LinkCut => "link cut",
            Self::AgentKilled => "agent killed (SIGKILL)",
            Self::AgentStopped => "agent stopped (SIGSTOP)",
            Self::ControllerKilled => "controller killed (SIGKILL)",
            Self::ControllerStopped => "controller stopped (SIGSTOP)",
            Self::LeaderKilled => "leader of etcd killed (SIGKILL)",
            Self::LeaderStopped => "leader of etcd stopped (SIGSTOP)",
        }
    }

    /// Shortest and longest duration in ms.
    fn duration_ms(self) -> (i64, i64) {
        match self {
            Self::LinkCut | Self::AgentKilled | Self::ControllerKilled => (200, 1500),
            Self::AgentStopped | Self::ControllerStopped => (500, 3000),
            // An election takes 1 s and more.
            Self::LeaderKilled | Self::LeaderStopped => (1500, 4000),
        }
    }
}

/// A fault that was injected.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) phase: Phase,
    object: Object,
    /// When it is to be reverted.
    pub(super) until_ns: u64,
}

#[derive(Debug)]
enum Object {
    Link(String),
    Agent(u32),
    Controller,
    Server(usize),
}

/// Draws faults: each phase has all kinds in random order, again and again.
#[derive(Debug)]
pub(super) struct FaultDeck {
    random: Random,
    rest: [Vec<FaultKind>; PHASES.len()],
    /// End of the last cut.
    restored_ns: u64,
}

impl FaultDeck {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            rest: [const { Vec::new() }; PHASES.len()],
            restored_ns: 0,
        }
    }

    /// The next kind in a phase; `None`: the phase has no faults.
    fn draw(&mut self, phase: Phase) -> Option<FaultKind> {
        let rest = &mut self.rest[PHASES.iter().position(|with| *with == phase)?];
        if rest.is_empty() {
            rest.extend(FaultKind::ALL);
        }
        let index = self.random.below(rest.len() as u64) as usize;
        Some(rest.swap_remove(index))
    }

    /// Injects the next fault of a phase.
    pub(super) fn inject(
        &mut self,
        phase: Phase,
        (world, ladder): (&World, &Ladder),
        plant: &mut Plant,
        controller: &mut Option<Controller>,
    ) -> Result<Option<Fault>> {
        let Some(kind) = self.draw(phase) else { return Ok(None) };
        let object = match kind {
            FaultKind::LinkCut => {
                let link = self.random.pick(&ladder.link_names()).clone();
                pause_until(self.restored_ns + BETWEEN_CUTS_NS, || ())?;
                world.cut(&link, CutEnds::Both)?;
                Object::Link(link)
            }
            FaultKind::AgentKilled | FaultKind::AgentStopped => {
                let node = self.random.below(ladder.nodes().into()) as u32;
                match kind {
                    FaultKind::AgentKilled => plant.kill_agent(node),
                    _ => plant.signal_agent(node, Signal::SIGSTOP)?,
                }
                Object::Agent(node)
            }
            FaultKind::ControllerKilled => {
                *controller = None;
                Object::Controller
            }
            FaultKind::ControllerStopped => {
                controller.as_ref().map_or(Ok(()), |process| process.signal(Signal::SIGSTOP))?;
                Object::Controller
            }
            FaultKind::LeaderKilled | FaultKind::LeaderStopped => {
                let leader = plant.etcd.leader(&plant.launcher)?;
                match kind {
                    FaultKind::LeaderKilled => plant.etcd.kill(leader),
                    _ => plant.etcd.signal(leader, Signal::SIGSTOP)?,
                }
                Object::Server(leader)
            }
        };
        let (shortest, longest) = kind.duration_ms();
        let duration_ms = self.random.between(shortest, longest) as u64;
        let until_ns = now_ns() + duration_ms * NS_PER_MS;
        Ok(Some(Fault { kind, phase, object, until_ns }))
    }

    /// Reverts a fault.
    pub(super) fn revert(
        &mut self,
        fault: &Fault,
        world: &World,
        plant: &mut Plant,
        controller: &mut Option<Controller>,
    ) -> Result<()> {
        match (&fault.object, fault.kind) {
            (Object::Link(link), _) => {
                world.restore(link)?;
                self.restored_ns = now_ns();
            }
            (Object::Agent(node), FaultKind::AgentKilled) => plant.start_agent(*node)?,
            (Object::Agent(node), _) => plant.signal_agent(*node, Signal::SIGCONT)?,
            (Object::Controller, FaultKind::ControllerKilled) => {
                *controller = Some(plant.control(None)?);
            }
            (Object::Controller, _) => {
                controller.as_ref().map_or(Ok(()), |process| process.signal(Signal::SIGCONT))?;
            }
            (Object::Server(server), FaultKind::LeaderKilled) => {
                plant.etcd.restart(&plant.launcher, *server)?;
            }
            (Object::Server(server), _) => plant.etcd.signal(*server, Signal::SIGCONT)?,
        }
        Ok(())
    }
}

impl Fault {
    pub(super) fn describe(&self) -> String {
        let object = match &self.object {
            Object::Link(link) => link.clone(),
            Object::Agent(node) => name(*node),
            Object::Controller => return format!("{}: {}", self.phase, self.kind.name()),
            Object::Server(server) => format!("etcd{server}"),
        };
        format!("{}: {} {object}", self.phase, self.kind.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_roll_outs_have_each_kind_in_each_phase() {
        let mut deck = FaultDeck::new(3);
        for phase in PHASES {
            let mut drawn: Vec<FaultKind> =
                FaultKind::ALL.iter().filter_map(|_| deck.draw(phase)).collect();
            drawn.sort();
            assert_eq!(drawn, FaultKind::ALL);
        }
        assert_eq!(deck.draw(Phase::Rest), None);
    }
}
