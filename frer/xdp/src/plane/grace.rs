//! A thread that waits for running programs on behalf of changes: it reports when no program uses retired
//! items any more, and inserts groups into their slots.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::signal::SigSet;
use onbeat_bpf::PlainData;

use super::groups::{GroupSlot, new_group, put};
use crate::error::{Context, Error, Result};

/// An epoch: items retired before it are free once its grace period is over.
pub(super) type Epoch = u64;

/// The thread that waits for programs.
#[derive(Debug)]
pub(super) struct GracePeriods {
    shared: Arc<GraceShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct GraceShared {
    state: Mutex<GraceState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GraceState {
    /// The last requested epoch.
    asked: Epoch,
    /// Every program run that started before this epoch has finished.
    over: Epoch,
    /// The reason for which the kernel no longer reports it.
    failed: Option<Error>,
    /// Groups to insert, and those inserted.
    groups: Vec<GroupSlot>,
    placed: Vec<GroupSlot>,
    ended: bool,
}

impl GraceShared {
    fn lock(&self) -> MutexGuard<'_, GraceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GracePeriods {
    /// `groups`: the table of groups, and an unused slot.
    pub(super) fn start(groups: MapHandle, slot: u32) -> Result<Self> {
        let shared = Arc::new(GraceShared::default());
        let waits = ProgramBarrier { groups, slot, unused: new_group(1)? };
        let theirs = shared.clone();
        let body = move || {
            // Signals are for the other threads of the daemon.
            let _ = SigSet::all().thread_block();
            serve(&theirs, &waits);
        };
        let thread = thread::Builder::new().name("frer-grace".into()).spawn(body);
        let thread = thread.map_err(|source| Error::Thread { source })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the epoch after all actions so far.
    pub(super) fn now(&self) -> Epoch {
        let mut state = self.shared.lock();
        state.asked += 1;
        self.shared.changed.notify_all();
        state.asked
    }

    /// Submits unused groups for insertion.
    pub(super) fn put(&self, groups: Vec<GroupSlot>) {
        self.shared.lock().groups.extend(groups);
        self.shared.changed.notify_all();
    }

    /// Returns the groups inserted since the last call.
    pub(super) fn placed(&self) -> Vec<GroupSlot> {
        std::mem::take(&mut self.shared.lock().placed)
    }

    /// Returns whether no program run from before an epoch is in progress.
    pub(super) fn is_over(&self, moment: Epoch) -> bool {
        self.shared.lock().over >= moment
    }

    /// Waits until no program run from before an epoch is in progress.
    pub(super) fn wait(&self, moment: Epoch) -> Result<()> {
        let mut state = self.shared.lock();
        while state.over < moment {
            if let Some(error) = state.failed.take() {
                // The next waiting caller retries it.
                state.asked += 1;
                self.shared.changed.notify_all();
                return Err(error);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for GracePeriods {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(shared: &GraceShared, waits: &ProgramBarrier) {
    let mut state = shared.lock();
    let mut tried = state.over;
    while !state.ended {
        if !state.groups.is_empty() {
            let groups = std::mem::take(&mut state.groups);
            drop(state);
            let put = put(&waits.groups, &groups);
            state = shared.lock();
            match put {
                Ok(()) => state.placed.extend(groups),
                Err(error) => tracing::warn!("cannot keep groups ready: {error}"),
            }
            continue;
        }
        if state.asked == tried {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        tried = state.asked;
        drop(state);
        let waited = waits.for_programs();
        state = shared.lock();
        match waited {
            Ok(()) => (state.over, state.failed) = (tried, None),
            Err(error) => {
                tracing::warn!("cannot reuse entries of removed streams: {error}");
                state.failed = Some(error);
            }
        }
        shared.changed.notify_all();
    }
}

/// The means of waiting for programs.
#[derive(Debug)]
struct ProgramBarrier {
    groups: MapHandle,
    slot: u32,
    unused: MapHandle,
}

impl ProgramBarrier {
    /// Returns when every program run that started before has finished. The kernel waits for that when a map
    /// in a map of maps is replaced, so that callers know that no program uses the old one.
    fn for_programs(&self) -> Result<()> {
        let unused = self.unused.as_fd().as_raw_fd();
        self.groups
            .update(self.slot.octets(), unused.octets(), MapFlags::ANY)
            .context(|| "wait for running programs".to_string())
    }
}
