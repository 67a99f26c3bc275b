//! The agent: one action at a time, so that it can be killed between any two.
//!
//! ```text
//!  doorbell, 5 s, reconnected            greater step              running: hash
//!     Idle ──► Read ─────────────► Prepare ──► Save ──► Apply ──► Inspect ──► Prove ──► Acknowledge ──► Idle
//!                │                    │ refused                                              ▲
//!                │ own step, not acknowledged ─────────────────► Inspect                     │
//!                │                    └── state: not ok ─────────────────────────────────────┘
//!                └ another node of this name: Twin
//! ```
//!
//! An action that fails or has an unknown outcome ends in `Idle`: the next [`Agent::wake`] starts from a new read, and every
//! action can be repeated. Without store, lease or controller the node keeps what it runs.

use crate::phase::{Current, Phase, Step};
use crate::record::{FileHash, NodeState};

/// What an agent has on disk, with the files of both plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskRecord {
    /// The record that the node follows.
    pub current: Current,
    /// Hash of its stage.
    pub hash: FileHash,
}

/// An action of the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Wait for [`Agent::wake`].
    Idle,
    /// Read `plan/current` and the own state in one linearizable transaction.
    Read,
    /// Fetch and verify manifests and files of both plans, and compute the stage of this record.
    Prepare(Current),
    /// Write record and files to disk: new files, fsync, rename, fsync of the directory.
    Save(DiskRecord),
    /// Put the stage of the saved record into the node's file, and make the node read it.
    Apply(DiskRecord),
    /// Query the hash of the file that the node runs.
    Inspect,
    /// Send probes of the node's sources, and read the counters of new members.
    Prove(Current),
    /// Write the state by compare of this revision, under the lease.
    Acknowledge(NodeState, u64),
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The action failed, or its outcome is unknown.
    Failed,
    /// [`Action::Read`].
    Read {
        /// The verified record, if there is one.
        current: Option<Current>,
        /// The own state and its revision.
        own: Option<(NodeState, u64)>,
    },
    /// [`Action::Prepare`], [`Action::Apply`]: the plan or the node refuses.
    Refused(String),
    /// [`Action::Prepare`], [`Action::Inspect`]: the hash.
    Hash(FileHash),
    /// [`Action::Prove`]: members that counted their probes, and those that did not.
    Proved {
        /// With at least 10 probes.
        counted: u32,
        /// With fewer.
        missing: u32,
    },
    /// [`Action::Save`], [`Action::Apply`], [`Action::Acknowledge`].
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Read,
    Prepare(Current),
    Save(DiskRecord),
    Apply,
    Inspect,
    Recheck,
    Prove(FileHash),
    Acknowledge(NodeState),
    Twin,
}

/// The agent of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    instance: u64,
    saved: Option<DiskRecord>,
    /// Whether this process has applied the saved record: a former one may have been killed before.
    is_applied: bool,
    /// Revision of the own state, 0 without one.
    revision: u64,
    /// The refusal that the own state has.
    refusal: Option<(Step, String)>,
    work: Work,
}

impl Agent {
    /// Starts from what the disk has.
    #[must_use]
    pub fn start(instance: u64, saved: Option<DiskRecord>) -> Self {
        let work = if saved.is_some() { Work::Apply } else { Work::Read };
        Self { instance, saved, is_applied: false, revision: 0, refusal: None, work }
    }

    /// The record that the node follows.
    #[must_use]
    pub fn saved(&self) -> Option<DiskRecord> {
        self.saved
    }

    /// Whether the store has a state of another node with this name.
    #[must_use]
    pub fn is_twin(&self) -> bool {
        self.work == Work::Twin
    }

    /// Starts a read, if no action is in progress: at each event of a watch, each 5 s, after a reconnection.
    pub fn wake(&mut self) {
        if matches!(self.work, Work::Idle | Work::Twin) {
            self.work = Work::Read;
        }
    }

    /// Checks whether the node still runs its stage, if no action is in progress: each minute.
    pub fn recheck(&mut self) {
        if self.work == Work::Idle && self.is_applied {
            self.work = Work::Recheck;
        }
    }

    /// The action in progress.
    #[must_use]
    pub fn action(&self) -> Action {
        match &self.work {
            Work::Idle | Work::Twin => Action::Idle,
            Work::Read => Action::Read,
            Work::Prepare(current) => Action::Prepare(*current),
            Work::Save(saved) => Action::Save(*saved),
            Work::Apply => self.saved.map_or(Action::Read, Action::Apply),
            Work::Inspect | Work::Recheck => Action::Inspect,
            Work::Prove(_) => self.saved.map_or(Action::Read, |saved| Action::Prove(saved.current)),
            Work::Acknowledge(state) => Action::Acknowledge(state.clone(), self.revision),
        }
    }

    /// Continues after the action in progress.
    pub fn complete(&mut self, outcome: Outcome) {
        let work = std::mem::replace(&mut self.work, Work::Idle);
        self.work = match (work, outcome) {
            (Work::Read, Outcome::Read { current, own }) => self.read(current, own),
            // Without a store the node gets what the disk has.
            (Work::Read, Outcome::Failed) if self.saved.is_some() && !self.is_applied => {
                Work::Apply
            }
            (Work::Prepare(current), Outcome::Hash(hash)) => {
                Work::Save(DiskRecord { current, hash })
            }
            (Work::Prepare(current), Outcome::Refused(why)) => self.refuse(current, why),
            (Work::Save(saved), Outcome::Done) => {
                self.saved = Some(saved);
                self.is_applied = false;
                Work::Apply
            }
            (Work::Apply, Outcome::Done) => {
                self.is_applied = true;
                Work::Inspect
            }
            // The node runs the stage before, and tries again: the cause can pass.
            (Work::Apply, Outcome::Refused(why)) => match self.saved {
                Some(saved) => self.refuse(saved.current, why),
                None => Work::Idle,
            },
            (Work::Inspect, Outcome::Hash(hash)) => self.inspected(hash),
            (Work::Recheck, Outcome::Hash(hash)) => {
                self.is_applied = self.saved.is_some_and(|saved| saved.hash == hash);
                Work::Idle
            }
            (Work::Prove(hash), Outcome::Proved { counted, missing: 0 }) => {
                self.acknowledge(hash, counted)
            }
            // A completed acknowledgement included: the next read finds it, or another state.
            _ => Work::Idle,
        };
        if self.work == Work::Idle {
            (self.revision, self.refusal) = (0, None);
        }
    }

    fn read(&mut self, current: Option<Current>, own: Option<(NodeState, u64)>) -> Work {
        self.revision = own.as_ref().map_or(0, |(_, revision)| *revision);
        let own = own.map(|(state, _)| state);
        if own.as_ref().is_some_and(|own| own.instance != self.instance) {
            return Work::Twin;
        }
        let refused = own.as_ref().filter(|own| !own.ok);
        self.refusal = refused.map(|own| (own.current.step, own.why.clone()));
        let step = self.saved.map_or(0, |saved| saved.current.step);
        match current.filter(|current| current.step > step) {
            Some(current) => Work::Prepare(current),
            None if self.saved.is_none() => Work::Idle,
            None if !self.is_applied => Work::Apply,
            None if own.is_some_and(|own| own.current.step == step && own.ok) => Work::Idle,
            None => Work::Inspect,
        }
    }

    fn inspected(&mut self, hash: FileHash) -> Work {
        match self.saved {
            Some(saved) if saved.hash == hash => match saved.current.phase {
                // A roll-out that returns no longer needs the new paths, which may be its reason.
                Phase::Prove if !saved.current.is_returning() => Work::Prove(hash),
                _ => self.acknowledge(hash, 0),
            },
            // Another program changed the node: it gets its stage again.
            _ => {
                self.is_applied = false;
                Work::Idle
            }
        }
    }

    fn acknowledge(&self, hash: FileHash, proved: u32) -> Work {
        let Some(DiskRecord { current, .. }) = self.saved else { return Work::Idle };
        let instance = self.instance;
        Work::Acknowledge(NodeState {
            current,
            hash,
            ok: true,
            why: String::new(),
            instance,
            proved,
        })
    }

    /// Refuses a step. The next wake tries it again: in the phase drain, and on return, no other step follows.
    fn refuse(&self, current: Current, why: String) -> Work {
        if self.refusal.as_ref().is_some_and(|(step, same)| *step == current.step && *same == why) {
            return Work::Idle;
        }
        let (hash, instance) =
            (self.saved.map(|saved| saved.hash).unwrap_or_default(), self.instance);
        Work::Acknowledge(NodeState { current, hash, ok: false, why, instance, proved: 0 })
    }
}
