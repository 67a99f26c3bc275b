//! One roll-out, with a fault in each phase.

use std::time::Duration;

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{self, pause};
use onbeat_rollout::Phase;

use super::faults::{Fault, FaultDeck};
use super::network::Ladder;
use super::plant::{Plant, RolloutEnd};
use super::traffic::Traffic;
use crate::{Error, Result, World};

/// Longest time of a roll-out.
const LONGEST_NS: u64 = 600 * SECOND;

/// Interval at which the controller and faults are checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// A roll-out that ended.
#[derive(Debug)]
pub(super) struct RolloutRecord {
    pub(super) end: RolloutEnd,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Phases as they were reported, each with its start.
    pub(super) phases: Vec<(Phase, u64)>,
    pub(super) faults: Vec<Fault>,
}

impl RolloutRecord {
    pub(super) fn seconds(&self) -> f64 {
        seconds(self.end_ns - self.start_ns)
    }

    /// Duration of a phase in seconds, if the roll-out went through it once.
    pub(super) fn phase_seconds(&self, phase: Phase) -> Option<f64> {
        let index = self.phases.iter().position(|(known, _)| *known == phase)?;
        let next = self.phases.get(index + 1).map_or(self.end_ns, |(_, from_ns)| *from_ns);
        (self.end == RolloutEnd::Done).then(|| seconds(next - self.phases[index].1))
    }

    /// Time until the first phase: the controller compares the plans, and writes files and records.
    pub(super) fn preparation_seconds(&self) -> Option<f64> {
        Some(seconds(self.phases.first()?.1 - self.start_ns))
    }
}

fn seconds(ns: u64) -> f64 {
    // Rounded: the controller polls.
    (ns as f64 / SECOND as f64 * 1000.0).round() / 1000.0
}

/// Frames that were sent before an event.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) sent: u64,
    pub(super) event: String,
}

/// Roll-outs one after the other.
pub(super) struct RolloutSequence<'a> {
    pub(super) traffic: Option<&'a Traffic>,
    pub(super) faults: Option<(FaultDeck, &'a World, &'a Ladder)>,
    pub(super) marks: Vec<Mark>,
}

impl RolloutSequence<'_> {
    fn mark(&mut self, event: String) {
        let sent = self.traffic.map_or(0, Traffic::sent);
        self.marks.push(Mark { sent, event });
    }

    /// Rolls a plan out; calls `show` with the phase.
    pub(super) fn roll_out(
        &mut self,
        plant: &mut Plant,
        (number, plan): (u32, &str),
        mut show: impl FnMut(Phase),
    ) -> Result<RolloutRecord> {
        let start_ns = now_ns();
        self.mark(format!("roll-out {number} starts"));
        let mut controller = Some(plant.control(Some(plan))?);
        let (mut phases, mut faults): (Vec<(Phase, u64)>, Vec<Fault>) = (Vec::new(), Vec::new());
        // The last fault, until it is reverted.
        let mut is_active = false;
        loop {
            interrupt::check()?;
            let now = now_ns();
            let last = phases.last().map(|(phase, _)| *phase);
            let news = controller.as_ref().and_then(|process| process.phase());
            let news = news.filter(|phase| *phase != Phase::Rest && Some(*phase) != last);
            let last = faults
                .last()
                .filter(|fault| is_active && (now >= fault.until_ns || news.is_some()));
            if let (Some((deck, world, _)), Some(fault)) = (&mut self.faults, last) {
                deck.revert(fault, world, plant, &mut controller)?;
                is_active = false;
                let event = format!("roll-out {number}, after {}", fault.describe());
                self.mark(event);
            }
            if let Some(phase) = news {
                phases.push((phase, now));
                self.mark(format!("roll-out {number}, {phase}"));
                let is_first = faults.iter().all(|fault| fault.phase != phase);
                if let Some((deck, world, ladder)) = self.faults.as_mut().filter(|_| is_first) {
                    let network = (*world, *ladder);
                    if let Some(fault) = deck.inject(phase, network, plant, &mut controller)? {
                        let event = format!("roll-out {number}, during {}", fault.describe());
                        self.mark(event);
                        faults.push(fault);
                        is_active = true;
                    }
                }
            }
            show(phases.last().map_or(Phase::Rest, |(phase, _)| *phase));
            let ended = match &mut controller {
                // What it reported before its end is read first.
                Some(process) if news.is_none() => process.end(plant)?,
                _ => None,
            };
            if let Some(end) = ended {
                let end_ns = now_ns();
                if let (Some((deck, world, _)), Some(fault)) =
                    (&mut self.faults, faults.last().filter(|_| is_active))
                {
                    deck.revert(fault, world, plant, &mut None)?;
                }
                self.mark(format!("after roll-out {number}"));
                return Ok(RolloutRecord { end, start_ns, end_ns, phases, faults });
            }
            if now - start_ns > LONGEST_NS {
                return Err(self.stuck(plant, number));
            }
            pause(INTERVAL)?;
        }
    }

    fn stuck(&self, plant: &Plant, number: u32) -> Error {
        let keys = plant.launcher.at("keys").display().to_string();
        let status = plant.launcher.run(&["status", "--fleet", &keys]);
        let log = status.map_or_else(|error| error.to_string(), |(_, text)| text);
        let reason = format!("not complete after {} s", LONGEST_NS / SECOND);
        Error::Command { command: format!("roll-out {number}"), reason, log }
    }
}
