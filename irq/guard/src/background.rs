//! A guard in a thread of its own.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use onbeat_host::settings::RestoredEntry;

use super::{Config, Event, Usage, run};
use crate::{Error, Result};

/// A guard of the network namespace in which it was started. Dropping it stops the guard, which restores all
/// settings.
#[derive(Debug)]
pub struct Background {
    /// Stops the thread when dropped.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<Vec<RestoredEntry>>>>,
}

impl Background {
    /// Starts the guard, and returns once the interfaces are guarded. `directory` is the directory of the
    /// journal ([`journal_directory`](super::journal_directory)); `report` receives events and the usage of
    /// budgets.
    ///
    /// # Errors
    /// The guard could not start; nothing is changed.
    pub fn start(
        config: Config,
        directory: PathBuf,
        mut report: impl FnMut(&[Event], &[Usage]) + Send + 'static,
    ) -> Result<Self> {
        let failed = |source| Error::System { operation: "start the guard's thread", source };
        let (stop, stops) = UnixStream::pair().map_err(failed)?;
        let (started, starts) = mpsc::channel::<()>();
        let guard = move || {
            let mut started = Some(started);
            let mut report = |events: &[Event], usage: &[Usage]| {
                report(events, usage);
                // The receiver has stopped waiting, or has exited.
                started.take().map(|started| started.send(()));
            };
            run(&config, &directory, stops.as_fd(), &mut report)
        };
        let thread = thread::Builder::new().name("guard".into()).spawn(guard);
        let thread = thread.map_err(failed)?;
        let mut guard = Self { stop: Some(stop), thread: Some(thread) };
        // The thread exited without a message.
        if starts.recv().is_err() {
            guard.join()?;
        }
        Ok(guard)
    }

    /// Whether the guard has stopped by itself: because it can no longer find the waiting threads.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the guard. The result includes settings that could not be restored; these stay in the journal.
    ///
    /// # Errors
    /// The reason why it had stopped before; it restored all settings then.
    pub fn stop(mut self) -> Result<Vec<RestoredEntry>> {
        self.join()
    }

    fn join(&mut self) -> Result<Vec<RestoredEntry>> {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the guard has stopped: {error}");
        }
    }
}
