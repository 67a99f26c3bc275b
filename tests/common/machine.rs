//! Locks of tests on the machine that they share.
//!
//! All end-to-end tests are one process, and run in parallel on one thread per CPU. A test that
//! measures, that changes priorities of threads or NAPI modes, or that lists objects of the whole
//! kernel or process (BPF programs, packets that a process reads) must run alone: [`exclusive`]. Other
//! tests run in parallel with each other. They need no call of their own: [`super::program`] and
//! [`super::can`], which every test with the program or a network calls, call [`shared`].
//!
//! A lock belongs to the thread of the test, and is released on its exit.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

static MACHINE: RwLock<()> = RwLock::new(());

#[allow(dead_code, reason = "they are held until the thread exits")]
enum MachineLock {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static LOCK: RefCell<Option<MachineLock>> = const { RefCell::new(None) };
}

/// Waits until no other test holds the machine exclusively. Does nothing if this thread holds a lock,
/// or is a thread that a test started: such threads have no name, and run under the lock of their test.
pub(crate) fn shared() {
    if thread::current().name().is_none() {
        return;
    }
    LOCK.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            MachineLock::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
        });
    });
}

/// Waits until no other test runs, and prevents others from running until this one exits. A test calls
/// it first.
pub(crate) fn exclusive() {
    LOCK.with_borrow_mut(|turn| {
        if !matches!(turn, Some(MachineLock::Exclusive(_))) {
            // A shared lock would wait for itself.
            drop(turn.take());
            let lock = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
            *turn = Some(MachineLock::Exclusive(lock));
        }
    });
}
