//! What belongs to the host and to its interfaces: planned, journalled, changed, verified, put back.
//!
//! ```text
//!  Host::survey ──> plan ──> Log (the journal) ──> Host::write, Host::read ──> Change
//!  what there is    pure     before any change     one by one, verified         what came of it
//! ```
//!
//! [`plan`] and [`apply`] know no file: a [`Host`] reads and writes, a [`Log`] remembers. [`Live`]
//! and [`Journal`] are this host's; tests have others, which fail where they are told to.
//!
//! Whatever happens, each change is undone in the reverse order: at once where a later one fails,
//! by [`roll_back`] at the end of a session, by [`restore`] in any later process.

mod error;
mod journal;
mod kind;
mod live;
mod look;
mod place;
mod plan;
mod report;
mod survey;
mod transaction;
mod value;

use std::fmt;

pub use error::{Error, Result};
pub use journal::Journal;
pub use kind::Kind;
pub use live::Live;
pub use place::Place;
pub use plan::{Plan, Setting, Tuning, plan};
pub use report::{Line, RestoredLine, lines, restored_table, table};
pub use survey::{Governor, InterfaceSurvey, NapiThread, Survey};
pub use transaction::{
    Change, Entry, Outcome, PutBack, Report, Restored, apply, change_all, restore, roll_back,
};

use onbeat_netdev::InterfaceIdentity;

/// Where settings are read and written.
pub trait Host {
    /// What there is to set on the host and on these interfaces.
    ///
    /// # Errors
    /// Where an interface does not exist.
    fn survey(&mut self, interfaces: &[String]) -> Result<Survey>;

    /// The threads that an interface's NAPI instances run in; none where they do not.
    ///
    /// # Errors
    /// Where the interface does not exist.
    fn napi_threads(&mut self, interface: &str) -> Result<Vec<NapiThread>> {
        let survey = self.survey(&[interface.to_owned()])?;
        Ok(survey.interfaces.into_iter().flat_map(|survey| survey.threads).collect())
    }

    /// The value there now.
    ///
    /// # Errors
    /// [`Refusal`].
    fn read(&mut self, place: &Place) -> std::result::Result<String, Refusal>;

    /// Writes a value, which was read there or planned for it.
    ///
    /// # Errors
    /// [`Refusal`].
    fn write(&mut self, place: &Place, value: &str) -> std::result::Result<(), Refusal>;

    /// The identity of an interface, for the journal.
    ///
    /// # Errors
    /// [`Refusal`]: it does not exist.
    fn identify(&self, interface: &str) -> std::result::Result<InterfaceIdentity, Refusal>;

    /// The present name of an interface of the journal; `None` where it does not exist.
    ///
    /// # Errors
    /// [`Refusal`]: another interface has its index or name, or it is in another network namespace.
    fn find(&self, identity: &InterfaceIdentity) -> std::result::Result<Option<String>, Refusal>;
}

/// What was there before, kept where it outlives the process.
pub trait Log {
    /// What is not put back yet, oldest first.
    fn entries(&self) -> Vec<Entry>;

    /// Keeps these in place of those, all or nothing.
    ///
    /// # Errors
    /// [`Error::Host`].
    fn replace(&mut self, entries: Vec<Entry>) -> Result<()>;
}

/// Why a value could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The place is gone for good, and its value with it: a thread that ended, an interrupt that
    /// was freed.
    Gone,
    /// This kernel, driver or device does not have it; says which.
    Unsupported(String),
    /// It should work and does not; says why, with the way out.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Gone => f.write_str("it is gone"),
            Refusal::Unsupported(why) | Refusal::Failed(why) => f.write_str(why),
        }
    }
}
