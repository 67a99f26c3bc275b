//! A guard in a thread of its own, beside something else.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use onbeat_host::settings::Restored;

use super::{Config, Event, Usage, run};
use crate::{Error, Result};

/// A guard of the network namespace in which it was started. It ends when it is dropped, and then
/// puts everything back.
#[derive(Debug)]
pub struct Background {
    /// Dropped, it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<Vec<Restored>>>>,
}

impl Background {
    /// Returns once the interfaces are guarded. `directory` is that of the journal
    /// ([`journal_directory`](super::journal_directory)); `tell` hears what happens.
    ///
    /// # Errors
    /// What keeps the guard from beginning; nothing is changed then.
    pub fn start(
        config: Config,
        directory: PathBuf,
        mut tell: impl FnMut(&[Event], &[Usage]) + Send + 'static,
    ) -> Result<Self> {
        let (stop, stops) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel::<()>();
        let guard = move || {
            let mut begun = Some(begun);
            let mut go_on =
                move |pause| stops.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
            let mut tell = |events: &[Event], usage: &[Usage]| {
                tell(events, usage);
                // Who waits for it gives up waiting, or has ended.
                begun.take().map(|begun| begun.send(()));
            };
            run(&config, &directory, &mut go_on, &mut tell)
        };
        let thread = thread::Builder::new().name("guard".into()).spawn(guard);
        let thread = thread
            .map_err(|source| Error::System { operation: "start the guard's thread", source })?;
        let mut guard = Self { stop: Some(stop), thread: Some(thread) };
        // Without a word the thread has ended.
        if begins.recv().is_err() {
            guard.join()?;
        }
        Ok(guard)
    }

    /// Whether it has ended by itself: where it can no longer tell who waits.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; what could not be put back is in the result, and stays in the journal.
    ///
    /// # Errors
    /// Why it had ended before; everything was put back then.
    pub fn end(mut self) -> Result<Vec<Restored>> {
        self.join()
    }

    fn join(&mut self) -> Result<Vec<Restored>> {
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
            tracing::error!("the guard has ended: {error}");
        }
    }
}
