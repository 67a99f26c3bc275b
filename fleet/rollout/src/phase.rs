//! Steps, phases and the record that all nodes follow.

use serde::{Deserialize, Serialize};

/// Number of a state of [`Current`]; each change has the next one.
pub type Step = u64;

/// Greater steps are invalid: the next one exists always.
pub const LAST_STEP: Step = 1 << 62;

/// Number of a plan. Plan 0 has no streams.
pub type Generation = u64;

/// A phase of a roll-out.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The old plan runs.
    #[default]
    Rest,
    /// Relays and sinks accept frames of both plans.
    Accept,
    /// Sources send probes along the new paths; sinks count them.
    Prove,
    /// Sources send along the new paths.
    Send,
    /// The old paths are removed.
    Drain,
}

impl Phase {
    /// All, in order.
    pub const ALL: [Self; 5] = [Self::Rest, Self::Accept, Self::Prove, Self::Send, Self::Drain];

    /// The phase after this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }

    /// The phase before this one.
    #[must_use]
    pub fn before(self) -> Option<Self> {
        Self::ALL[..self as usize].last().copied()
    }

    /// As in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Accept => "accept",
            Self::Prove => "prove",
            Self::Send => "send",
            Self::Drain => "drain",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What all nodes run: the record `plan/current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Current {
    /// Number of this state.
    pub step: Step,
    /// The old plan.
    pub from: Generation,
    /// The new plan; the old one if no roll-out has been started.
    pub to: Generation,
    /// The phase of the roll-out.
    pub phase: Phase,
    /// The phase before this state. Nodes without an acknowledgement of this step may be in it.
    pub prev: Phase,
}

impl Current {
    /// The first record of a fleet: no streams.
    pub const FIRST: Self = Self { step: 1, from: 0, to: 0, phase: Phase::Rest, prev: Phase::Rest };

    /// Whether the roll-out goes back to the old plan.
    #[must_use]
    pub fn is_returning(self) -> bool {
        self.prev > self.phase
    }

    /// Why it cannot be a state of the protocol.
    ///
    /// # Errors
    /// Phases more than one apart, a step or phase without a meaning.
    pub fn check(self) -> Result<(), InvalidCurrent> {
        let distance = (self.phase as i8 - self.prev as i8).abs();
        let is_idle = self.phase == Phase::Rest && self.prev == Phase::Rest;
        let is_valid = (1..=LAST_STEP).contains(&self.step)
            && (distance == 1 || is_idle)
            && (self.from != self.to || is_idle)
            // The phase drain is left for the rest of the new plan only.
            && !(self.phase == Phase::Send && self.prev == Phase::Drain);
        if is_valid { Ok(()) } else { Err(InvalidCurrent(self)) }
    }

    fn at(self, phase: Phase) -> Self {
        Self { step: self.step + 1, phase, prev: self.phase, ..self }
    }

    /// The next phase; after the last one the new plan rests.
    #[must_use]
    pub fn forward(self) -> Self {
        match self.phase.next() {
            Some(next) => self.at(next),
            None => Self {
                step: self.step + 1,
                from: self.to,
                to: self.to,
                phase: Phase::Rest,
                prev: Phase::Rest,
            },
        }
    }

    /// The phase before; `None` in the first and the last phase.
    #[must_use]
    pub fn back(self) -> Option<Self> {
        if self.phase == Phase::Drain {
            return None;
        }
        self.phase.before().map(|before| self.at(before))
    }

    /// The first phase of a roll-out of another plan.
    #[must_use]
    pub fn start(self, to: Generation) -> Self {
        Self { to, ..self.at(Phase::Accept) }
    }
}

/// A record that is no state of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "plan/current has step {step}, plans {from} to {to}, phase {phase} after {prev}: no such state exists; \
     restore the store from a snapshot",
    step = .0.step, from = .0.from, to = .0.to, phase = .0.phase, prev = .0.prev
)]
pub struct InvalidCurrent(pub Current);
