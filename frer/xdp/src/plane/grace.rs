//! A thread that waits for programs, so that no change has to: it tells that no program uses what
//! was left, and puts groups in their places.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::signal::SigSet;
use onbeat_bpf::Plain;

use super::groups::{Placed, new_group, put};
use crate::error::{Context, Error, Result};

/// A moment: what was left before it is free once its grace period is over.
pub(super) type Moment = u64;

/// The thread that waits for programs.
#[derive(Debug)]
pub(super) struct Grace {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last moment that somebody asked about.
    asked: Moment,
    /// Every run of a program that began before this moment has ended.
    over: Moment,
    /// Why the kernel does not tell any more.
    failed: Option<Error>,
    /// Groups to put in their places, and those that are there.
    groups: Vec<Placed>,
    placed: Vec<Placed>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grace {
    /// `groups`: the table of groups, and a slot that nobody sends by.
    pub(super) fn start(groups: MapHandle, slot: u32) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let waits = Waits { groups, slot, nobody: new_group(1)? };
        let theirs = shared.clone();
        let body = move || {
            // Signals are for the daemon's own threads.
            let _ = SigSet::all().thread_block();
            serve(&theirs, &waits);
        };
        let thread = thread::Builder::new().name("frer-grace".into()).spawn(body);
        let thread = thread.map_err(|source| Error::Thread { source })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The moment after all that was done so far.
    pub(super) fn now(&self) -> Moment {
        let mut state = self.shared.lock();
        state.asked += 1;
        self.shared.changed.notify_all();
        state.asked
    }

    /// Has groups that nobody sends by put in their places.
    pub(super) fn put(&self, groups: Vec<Placed>) {
        self.shared.lock().groups.extend(groups);
        self.shared.changed.notify_all();
    }

    /// Those that are there by now.
    pub(super) fn placed(&self) -> Vec<Placed> {
        std::mem::take(&mut self.shared.lock().placed)
    }

    /// Whether no program of before a moment runs any more.
    pub(super) fn is_over(&self, moment: Moment) -> bool {
        self.shared.lock().over >= moment
    }

    /// Waits until no program of before a moment runs any more.
    pub(super) fn wait(&self, moment: Moment) -> Result<()> {
        let mut state = self.shared.lock();
        while state.over < moment {
            if let Some(error) = state.failed.take() {
                // The next one who waits has it tried again.
                state.asked += 1;
                self.shared.changed.notify_all();
                return Err(error);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared, waits: &Waits) {
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
                Err(error) => tracing::warn!("no groups are kept ready: {error}"),
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
                tracing::warn!("what streams left cannot be used anew: {error}");
                state.failed = Some(error);
            }
        }
        shared.changed.notify_all();
    }
}

/// How to wait for programs.
#[derive(Debug)]
struct Waits {
    groups: MapHandle,
    slot: u32,
    nobody: MapHandle,
}

impl Waits {
    /// Returns when every run of a program that began before has ended. The kernel waits for that
    /// when a map in a map of maps is exchanged, for callers to know that no program uses the old
    /// one.
    fn for_programs(&self) -> Result<()> {
        let nobody = self.nobody.as_fd().as_raw_fd();
        self.groups
            .update(self.slot.octets(), nobody.octets(), MapFlags::ANY)
            .context(|| "wait for running programs".to_string())
    }
}
