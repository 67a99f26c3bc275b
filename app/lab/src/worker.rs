//! Threads that run until they are stopped.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::{Error, Result};

/// A thread that runs until this value is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread with the affinity and namespaces of the caller. `run` returns soon after its
    /// flag is set.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&flag));
        let thread = thread.map_err(|error| Error::io(format!("start thread {name}"), error))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Whether the thread has returned.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread; returns its result.
    pub(crate) fn stop(mut self) -> T {
        let result = self.join().expect("a worker is stopped once");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T> Worker<T> {
    fn join(&mut self) -> Option<thread::Result<T>> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join)
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        let _ = self.join();
    }
}
