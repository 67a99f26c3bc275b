//! The controller: from what the store has to the next step.
//!
//! A program reads [`View`] by one linearizable request, calls [`Controller::decide`], and writes the record that comes out
//! by compare of the revision that it read, with the deadline of its step in the same transaction. Any number of
//! controllers may do so: one transaction succeeds, the others read again. So do those whose transaction has an unknown
//! outcome.
//!
//! | phase | condition | next |
//! |---|---|---|
//! | rest | all acknowledged, another plan is wanted | accept |
//! | accept, prove | all acknowledged | the phase after |
//! | send | all acknowledged, D and the time without loss have passed since | drain |
//! | accept, prove, send | a refusal, or the deadline has passed, or the old plan is wanted | the phase before |
//! | send | lost frames, unless the time without loss is 0 | prove |
//! | drain | all acknowledged | rest of the new plan |
//! | returning: send to prove, prove to accept | all acknowledged | the phase before |
//! | returning: accept to rest | all acknowledged, D has passed since | rest |
//!
//! Before D the last frames of a label can be on their way to nodes that no longer know it. A controller measures D from
//! the time at which it saw all acknowledgements itself, so a successor waits again.
//!
//! An acknowledgement counts if it has the hash that the signed plans require, and in the phase prove all new members:
//! [`ExpectedState::judge`]. Another one is a refusal.
//!
//! A roll-out that goes back never turns: a node that is missing then holds it in a safe state.

use onbeat_report::format::count_of;

use crate::phase::{Current, Generation, Phase, Step};
use crate::record::{FileHash, NodeState};

/// The intention of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Complete what is under way.
    Continue,
    /// Roll this plan out.
    Reach(Generation),
    /// Return to the old plan, if it has not been removed.
    Return,
}

/// What a node must report to acknowledge a record, by the signed plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedState {
    /// Hash of its file.
    pub hash: FileHash,
    /// Members that count probes in the phase prove.
    pub new_members: u32,
}

impl ExpectedState {
    /// A state as controllers count it: an acknowledgement that contradicts the plans is a refusal.
    #[must_use]
    pub fn judge(&self, current: &Current, state: NodeState) -> NodeState {
        if !state.acknowledges(current) {
            return state;
        }
        let is_proving = current.phase == Phase::Prove && !current.is_returning();
        let why = if state.hash != self.hash {
            let [reported, signed] = [state.hash, self.hash].map(|hash| hash.to_string());
            format!(
                "it reports a file with SHA-256 {}..., and the signed plan has {}...: its agent is faulty, or of another \
                 version of onbeat-fleet; upgrade or restart it",
                &reported[..12],
                &signed[..12]
            )
        } else if is_proving && state.proved < self.new_members {
            let members = count_of(state.proved.into(), self.new_members.into(), "new member");
            format!(
                "it reports probes at {members} only: its agent is faulty, or of another version of onbeat-fleet; \
                 upgrade or restart it"
            )
        } else {
            return state;
        };
        NodeState { ok: false, why, ..state }
    }
}

/// What the store has.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The record of all nodes.
    pub current: Current,
    /// States of the affected nodes of `current`, as [`ExpectedState::judge`] returns them; none without a key.
    pub states: &'a [Option<NodeState>],
    /// Whether the deadline of the step has passed: its key is absent.
    pub is_late: bool,
}

impl View<'_> {
    fn is_acknowledged(&self) -> bool {
        self.missing().next().is_none()
    }

    fn is_refused(&self) -> bool {
        self.states.iter().flatten().any(|state| state.refuses(&self.current))
    }

    /// Whether streams with new paths lose frames.
    fn is_lossy(&self) -> bool {
        let of_step = |state: &&NodeState| state.current == self.current;
        self.states.iter().flatten().filter(of_step).any(|state| state.lost > 0)
    }

    /// Indices of the nodes without an acknowledgement, for people.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let current = self.current;
        let acknowledges = move |state: &Option<NodeState>| {
            state.as_ref().is_some_and(|state| state.acknowledges(&current))
        };
        let missing = self.states.iter().enumerate().filter(move |(_, state)| !acknowledges(state));
        missing.map(|(index, _)| index)
    }

    /// The latest step of a state, if it is newer than the record: the store was restored from a snapshot.
    #[must_use]
    pub fn newer(&self) -> Option<Step> {
        let steps = self.states.iter().flatten().map(|state| state.current.step);
        steps.max().filter(|step| *step > self.current.step)
    }
}

/// Times of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeTimes {
    /// D: the longest delay of a frame, at least 1 s.
    pub drain_ns: u64,
    /// Time without loss before the old paths are removed.
    pub soak_ns: u64,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Write this record, by compare of the revision that was read.
    Write(Current),
    /// Read again when a state changes.
    Wait,
    /// Read again at this time.
    WaitUntil(u64),
    /// Another roll-out is under way.
    Busy,
    /// The store is older than its nodes: it was restored. Write no step before [`adopted`] has one.
    Restored(Step),
    /// Nothing is under way.
    Rest,
}

/// The memory of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Controller {
    /// The step of which all acknowledgements were seen, and when.
    barrier: Option<(Step, u64)>,
}

impl Controller {
    /// Decides on the next step.
    pub fn decide(
        &mut self,
        view: &View<'_>,
        waits: ChangeTimes,
        goal: Goal,
        now_ns: u64,
    ) -> Decision {
        let current = view.current;
        if let Some(step) = view.newer() {
            return Decision::Restored(step);
        }
        let all = view.is_acknowledged();
        self.barrier = self.barrier.filter(|(step, _)| *step == current.step);
        let wanted = match goal {
            Goal::Reach(to) => Some(to),
            Goal::Continue | Goal::Return => None,
        };
        let is_other = wanted.is_some_and(|to| to != current.to);
        match (current.phase, current.is_returning()) {
            (Phase::Rest, _) => match wanted.filter(|to| *to != current.from) {
                Some(to) if all => Decision::Write(current.start(to)),
                _ if all => Decision::Rest,
                _ => Decision::Wait,
            },
            (Phase::Drain, _) if all => Decision::Write(current.forward()),
            (Phase::Drain, _) => Decision::Wait,
            _ if is_other => Decision::Busy,
            (phase, true) => match current.back() {
                Some(back) if all => {
                    let wait = if phase == Phase::Accept { waits.drain_ns } else { 0 };
                    self.after(wait, back, now_ns)
                }
                _ => Decision::Wait,
            },
            (phase, false) => {
                let is_lossy = phase == Phase::Send && waits.soak_ns > 0 && view.is_lossy();
                let must_return = goal == Goal::Return || view.is_refused() || is_lossy;
                match current.back() {
                    // Without all acknowledgements a node may be in the phase before: no other is permitted.
                    Some(back) if must_return || view.is_late && !all => Decision::Write(back),
                    _ if !all => Decision::Wait,
                    _ => {
                        let wait = match phase {
                            Phase::Send => waits.drain_ns.max(waits.soak_ns),
                            _ => 0,
                        };
                        self.after(wait, current.forward(), now_ns)
                    }
                }
            }
        }
    }

    /// A record that is due some time after all acknowledgements.
    fn after(&mut self, wait_ns: u64, next: Current, now_ns: u64) -> Decision {
        if wait_ns == 0 {
            return Decision::Write(next);
        }
        let (_, seen) = *self.barrier.get_or_insert((next.step - 1, now_ns));
        match seen.saturating_add(wait_ns) {
            due if due <= now_ns => Decision::Write(next),
            due => Decision::WaitUntil(due),
        }
    }

    /// Moves the time of the memory: an explorer keeps `now_ns` constant.
    pub fn age(&mut self, by_ns: u64, at_least: u64) {
        if let Some((_, seen)) = &mut self.barrier {
            *seen = seen.saturating_sub(by_ns).max(at_least);
        }
    }
}

/// The record with which a restored store continues: that of the latest step that a node runs, as a new step. `None` unless
/// all nodes of the fleet have a state, because a missing one may run a later step.
///
/// Remove all states before: those of the snapshot say what nodes ran when it was taken. A state that was written since is
/// true as long as the store has no later record, because its node then follows none.
#[must_use]
pub fn adopted(states: &[Option<NodeState>]) -> Option<Current> {
    let states: Option<Vec<&NodeState>> = states.iter().map(Option::as_ref).collect();
    let latest =
        states?.into_iter().map(|state| state.current).max_by_key(|current| current.step)?;
    Some(Current { step: latest.step + 1, ..latest })
}
