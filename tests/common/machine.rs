//! The turns of tests on the machine that they share.
//!
//! All end-to-end tests are one process, and run side by side on as many threads as there are CPUs. A test that
//! measures, that changes the priority of threads or how NAPI runs, or that lists what the whole kernel or this
//! whole process has (BPF programs, the packets that a process reads) must run alone: [`exclusive`]. Other
//! tests run side by side, but not beside one of those. They need not say so: [`super::program`] and
//! [`super::can`], without which no test reaches the program or a network, call [`shared`].
//!
//! A turn belongs to the thread of the test, and ends with it.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

static MACHINE: RwLock<()> = RwLock::new(());

#[allow(dead_code, reason = "they are held until the thread exits")]
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Waits until no other test needs the machine alone. Does nothing where this thread has a turn, or is one that
/// a test started: those have no name, and run in the turn of their test.
pub(crate) fn shared() {
    if thread::current().name().is_none() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
        });
    });
}

/// Waits until no other test runs, and keeps others from running until this one ends. A test calls it first.
pub(crate) fn exclusive() {
    TURN.with_borrow_mut(|turn| {
        if !matches!(turn, Some(Turn::Exclusive(_))) {
            // A shared turn would wait for itself.
            drop(turn.take());
            let lock = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
            *turn = Some(Turn::Exclusive(lock));
        }
    });
}
