//! Settings of the host and its interfaces: planned, journaled, changed, verified, restored.
//!
//! ```text
//!  Host::survey ──> plan ──> Log (the journal) ──> Host::write, Host::read ──> Change
//!  current values   pure     before any change     one by one, verified         result
//! ```
//!
//! [`plan`] and [`apply`] access no file: a [`Host`] reads and writes, a [`Log`] stores former values.
//! [`LiveHost`] and [`Journal`] are the implementations for this host; tests have others with simulated failures.
//!
//! In any case, each change is undone in reverse order: immediately if a later one fails, by [`roll_back`] at
//! the end of a session, or by [`restore`] in any later process.

mod error;
mod file_writes;
mod journal;
mod kind;
mod live;
mod live_survey;
mod location;
mod manager;
mod plan;
mod report;
mod survey;
mod transaction;
mod value;

use std::fmt;

pub use error::{Error, Result};
pub use journal::Journal;
pub use kind::SettingKind;
pub use live::LiveHost;
pub use location::SettingLocation;
pub use manager::Manager;
pub use plan::{Plan, Setting, Tuning, plan};
pub use report::{ChangeLine, RestoredLine, lines, restored_table, table};
pub use survey::{Governor, InterfaceSurvey, NapiThread, PacketSteering, Survey};
pub use transaction::{
    Change, Entry, Outcome, Report, RestoreOutcome, RestoredEntry, apply, change_all, restore,
    roll_back,
};

use std::os::fd::BorrowedFd;

use onbeat_netdev::InterfaceIdentity;

/// Access to the settings of a host.
pub trait Host {
    /// Returns the current settings of the host and of interfaces that a tuning can change.
    ///
    /// # Errors
    /// An interface does not exist.
    fn survey(&mut self, tuning: &Tuning) -> Result<Survey>;

    /// Returns the threads of an interface's NAPI instances; empty if they do not run in threads.
    ///
    /// # Errors
    /// The interface does not exist.
    fn napi_threads(&mut self, interface: &str) -> Result<Vec<NapiThread>> {
        let only = vec![SettingKind::NapiPriority];
        let tuning = Tuning { interfaces: vec![interface.to_owned()], only, ..Tuning::default() };
        let survey = self.survey(&tuning)?;
        Ok(survey.interfaces.into_iter().flat_map(|survey| survey.threads).collect())
    }

    /// Returns the current value.
    ///
    /// # Errors
    /// [`Refusal`].
    fn read(&mut self, place: &SettingLocation) -> std::result::Result<String, Refusal>;

    /// Returns the current value of a location that is read often: files may stay open between calls.
    ///
    /// # Errors
    /// [`Refusal`].
    fn reread(&mut self, place: &SettingLocation) -> std::result::Result<String, Refusal> {
        self.read(place)
    }

    /// A descriptor that is readable after a process wrote a file that [`Host::reread`] has read, until
    /// [`Host::take_writes`]. Other changes are not reported.
    fn writes(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether a process has written such a file since the last call.
    fn take_writes(&mut self) -> bool {
        false
    }

    /// Writes a value that was read from or planned for this location.
    ///
    /// # Errors
    /// [`Refusal`].
    fn write(&mut self, place: &SettingLocation, value: &str) -> std::result::Result<(), Refusal>;

    /// Returns the identity of an interface, for the journal.
    ///
    /// # Errors
    /// [`Refusal`]: it does not exist.
    fn identify(&self, interface: &str) -> std::result::Result<InterfaceIdentity, Refusal>;

    /// Returns the present name of an interface of the journal; `None`: it does not exist.
    ///
    /// # Errors
    /// [`Refusal`]: another interface has its index or name, or it is in another network namespace.
    fn find(&self, identity: &InterfaceIdentity) -> std::result::Result<Option<String>, Refusal>;
}

/// Storage of former values that outlives the process.
pub trait Log {
    /// Returns the entries to restore, oldest first.
    fn entries(&self) -> Vec<Entry>;

    /// Replaces all entries atomically.
    ///
    /// # Errors
    /// [`Error::Host`].
    fn replace(&mut self, entries: Vec<Entry>) -> Result<()>;
}

/// The reason why a value could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The location no longer exists, and neither does its value: a thread that exited, an interrupt that was
    /// freed.
    Gone,
    /// Not supported by this kernel, driver or device; with the cause.
    Unsupported(String),
    /// Supported, but failed; with the cause and the remedy.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Gone => f.write_str("it no longer exists"),
            Refusal::Unsupported(why) | Refusal::Failed(why) => f.write_str(why),
        }
    }
}
