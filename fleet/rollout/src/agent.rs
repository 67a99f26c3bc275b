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
    /// Read how many frames streams with new paths have lost since the node entered the phase send.
    Count(Current),
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
        /// The own state, if this node signed it.
        own: Option<NodeState>,
        /// Revision of its key, 0 without one.
        revision: u64,
    },
    /// [`Action::Read`]: the name belongs to a node with another key.
    Twin,
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
    /// [`Action::Count`]: lost frames, and where.
    Lost(u64, String),
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
    Count(NodeState),
    Acknowledge(NodeState),
    Twin,
}

/// The agent of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    instance: u64,
    saved: Option<DiskRecord>,
    /// Whether the disk has it: after a failed write it can have the next record, with which a restart continues.
    is_on_disk: bool,
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
        let (is_on_disk, is_applied) = (true, false);
        Self { instance, saved, is_on_disk, is_applied, revision: 0, refusal: None, work }
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
            Work::Count(state) => Action::Count(state.current),
            Work::Acknowledge(state) => Action::Acknowledge(state.clone(), self.revision),
        }
    }

    /// Continues after the action in progress.
    pub fn complete(&mut self, outcome: Outcome) {
        let work = std::mem::replace(&mut self.work, Work::Idle);
        self.work = match (work, outcome) {
            (Work::Read, Outcome::Read { current, own, revision }) => {
                self.revision = revision;
                self.read(current, own)
            }
            (Work::Read, Outcome::Twin) => Work::Twin,
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
                (self.is_on_disk, self.is_applied) = (true, false);
                Work::Apply
            }
            (Work::Save(_), _) => {
                self.is_on_disk = false;
                Work::Idle
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
            (Work::Count(own), Outcome::Lost(lost, why)) if lost > own.lost => {
                Work::Acknowledge(NodeState { lost, why, ..own })
            }
            // A completed acknowledgement included: the next read finds it, or another state.
            _ => Work::Idle,
        };
        if self.work == Work::Idle {
            (self.revision, self.refusal) = (0, None);
        }
    }

    fn read(&mut self, current: Option<Current>, own: Option<NodeState>) -> Work {
        if own.as_ref().is_some_and(|own| own.instance != self.instance) {
            return Work::Twin;
        }
        let refused = own.as_ref().filter(|own| !own.ok);
        self.refusal = refused.map(|own| (own.current.step, own.why.clone()));
        let step = self.saved.map_or(0, |saved| saved.current.step);
        if let Some(current) = current.filter(|current| current.step > step) {
            return Work::Prepare(current);
        }
        let Some(record) = self.saved else { return Work::Idle };
        if !self.is_on_disk {
            return Work::Save(record);
        }
        let saved = record.current;
        if !self.is_applied {
            return Work::Apply;
        }
        match own.filter(|own| own.acknowledges(&saved)) {
            Some(own) if saved.phase == Phase::Send && !saved.is_returning() => Work::Count(own),
            Some(_) => Work::Idle,
            None => Work::Inspect,
        }
    }

    fn inspected(&mut self, hash: FileHash) -> Work {
        match self.saved {
            _ if !self.is_on_disk => Work::Idle,
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
            lost: 0,
            proof: String::new(),
        })
    }

    /// Refuses a step. The next wake tries it again: in the phase drain, and on return, no other step follows.
    fn refuse(&self, current: Current, why: String) -> Work {
        if self.refusal.as_ref().is_some_and(|(step, same)| *step == current.step && *same == why) {
            return Work::Idle;
        }
        let (hash, instance) =
            (self.saved.map(|saved| saved.hash).unwrap_or_default(), self.instance);
        let (proved, lost, proof) = (0, 0, String::new());
        let state = NodeState { current, hash, ok: false, why, instance, proved, lost, proof };
        Work::Acknowledge(state)
    }
}
