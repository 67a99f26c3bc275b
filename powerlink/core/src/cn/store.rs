//! Parameters that persist over a reset (EPSG DS 301, 6.7; 0x1010 and 0x1011): a peer stores them, or restores
//! the defaults. The node has no storage of its own; its driver writes it.
//!
//! [`poll_store`](ControlledNode::poll_store) returns the parameters to write, as a concise DCF;
//! [`handle_stored`](ControlledNode::handle_stored) reports the result. Only then the peer receives its answer,
//! and the values apply from the node's next reset on.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use super::{ControlledNode, Event};
use crate::mn::{concise_dcf, dcf_entries};
use crate::od::{Abort, Access, AddError, Dictionary, Mappable, Object, ObjectId, id, profile};
use crate::sdo::WriteOutcome;

/// All parameters.
const ALL: u8 = 1;
/// The signatures to write to store and to restore, as protection against accidental writes.
const SAVE: &[u8] = b"save";
const LOAD: &[u8] = b"load";
/// The value read: the device stores on command, not autonomously.
const ON_COMMAND: u64 = 1;

/// A command for the storage of a node's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCommand<'a> {
    /// Replace the stored octets with these.
    Write(&'a [u8]),
    /// Clear the storage.
    Clear,
}

/// An error of stored parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredParametersError {
    /// Not a concise DCF, or a truncated one.
    Octets,
    /// An object that is not stored.
    Object(ObjectId),
    /// An object refuses its value.
    Value(ObjectId, Abort),
    /// The node has its own object at an index for storing or restoring.
    Occupied(AddError),
}

impl fmt::Display for StoredParametersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredParametersError::Octets => f.write_str("not a concise DCF, or truncated"),
            StoredParametersError::Object(object) => {
                write!(f, "object {object} is not a stored parameter")
            }
            StoredParametersError::Value(object, abort) => {
                write!(f, "object {object} refuses its value, {abort}")
            }
            StoredParametersError::Occupied(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StoredParametersError {}

#[derive(Debug)]
enum Pending {
    Save(Vec<u8>),
    Restore,
}

/// The state of storing and restoring.
#[derive(Debug)]
pub(super) struct Store {
    /// The default values of the parameters.
    defaults: Vec<(ObjectId, Vec<u8>)>,
    /// The command in progress.
    pending: Option<Pending>,
    /// The command was returned by `poll_store`.
    returned: bool,
}

impl Store {
    /// Handles a peer's write; `None` if the object is not for storing.
    pub(super) fn write(
        &mut self,
        od: &Dictionary,
        object: ObjectId,
        value: &[u8],
    ) -> Result<Option<WriteOutcome>, Abort> {
        let (signature, saves) = match object {
            ObjectId { index: profile::STORE, sub: ALL } => (SAVE, true),
            ObjectId { index: profile::RESTORE, sub: ALL } => (LOAD, false),
            _ => return Ok(None),
        };
        match value.len().cmp(&signature.len()) {
            core::cmp::Ordering::Less => return Err(Abort::TOO_SHORT),
            core::cmp::Ordering::Greater => return Err(Abort::TOO_LONG),
            core::cmp::Ordering::Equal if value != signature => return Err(Abort::NOT_STORED),
            core::cmp::Ordering::Equal => {}
        }
        if self.pending.is_some() {
            return Err(Abort::STATE);
        }
        self.pending = Some(if saves { Pending::Save(image(od)) } else { Pending::Restore });
        self.returned = false;
        Ok(Some(WriteOutcome::Later))
    }
}

/// The present parameters.
fn image(od: &Dictionary) -> Vec<u8> {
    concise_dcf(covered(od).map(|object| (object, od.get(object).unwrap_or_default())))
}

/// The objects that are parameters: writable and readable for a peer, except process data, counters and present
/// values.
fn covered(od: &Dictionary) -> impl Iterator<Item = ObjectId> + '_ {
    let is_covered = |(object, described): &(ObjectId, &Object)| {
        let now = match object.index {
            profile::ERROR_HISTORY | profile::STORE | profile::RESTORE | profile::NODE_STATE => {
                true
            }
            // Of the counters of the DLL, the thresholds are parameters.
            0x1c00..=0x1c10 => object.sub != 3,
            _ => *object == profile::RESET_COMMAND || *object == profile::ERROR_REGISTER,
        };
        described.access == Access::ReadWrite && described.mappable == Mappable::No && !now
    };
    od.objects().filter(is_covered).map(|(object, _)| object)
}

impl ControlledNode {
    /// Connects the node, before it is turned on, to storage of its parameters: it then has 0x1010 and 0x1011.
    /// `kept` is the last value of [`poll_store`](Self::poll_store), which replaces the node's defaults.
    ///
    /// # Errors
    /// `kept` is not valid for this node: none of it is used then.
    pub fn set_store(&mut self, kept: Option<&[u8]>) -> Result<(), StoredParametersError> {
        let objects = covered(&self.od).collect::<Vec<_>>();
        if let Some(octets) = kept {
            // The entries cover all octets: no entry is truncated, and no octets follow.
            if concise_dcf(dcf_entries(octets)) != octets {
                return Err(StoredParametersError::Octets);
            }
            for (object, value) in dcf_entries(octets) {
                if objects.binary_search(&object).is_err() {
                    return Err(StoredParametersError::Object(object));
                }
                self.od
                    .check(object, value)
                    .map_err(|why| StoredParametersError::Value(object, why))?;
            }
        }
        for index in [profile::STORE, profile::RESTORE] {
            let number = |access, len, value| Object::unsigned(len, access, value);
            self.od
                .add(id(index, 0), number(Access::Constant, 1, ALL.into()))
                .map_err(StoredParametersError::Occupied)?;
            let command = number(Access::ReadWrite, 4, ON_COMMAND);
            self.od.add(id(index, ALL), command).map_err(StoredParametersError::Occupied)?;
        }
        let default =
            |object: ObjectId| Some((object, self.od.object(object).ok()?.default.clone()));
        let defaults = objects.into_iter().filter_map(default).collect();
        self.begin_with(dcf_entries(kept.unwrap_or_default()));
        self.store = Some(Store { defaults, pending: None, returned: false });
        Ok(())
    }

    /// Returns each command for the storage once. Call it after each call of the node.
    pub fn poll_store(&mut self) -> Option<StoreCommand<'_>> {
        let store = self.store.as_mut()?;
        let pending = store.pending.as_ref()?;
        if core::mem::replace(&mut store.returned, true) {
            return None;
        }
        Some(match pending {
            Pending::Save(octets) => StoreCommand::Write(octets),
            Pending::Restore => StoreCommand::Clear,
        })
    }

    /// Reports the result of the command that [`poll_store`](Self::poll_store) returned.
    pub fn handle_stored(&mut self, now_ns: u64, done: bool) {
        let Some(mut store) = self.store.take() else { return };
        let pending = if store.returned { store.pending.take() } else { None };
        let event = match (&pending, done) {
            (Some(Pending::Save(octets)), true) => {
                self.begin_with(dcf_entries(octets));
                Some(Event::Stored)
            }
            (Some(Pending::Restore), true) => {
                let defaults = store.defaults.iter();
                self.begin_with(defaults.map(|(object, value)| (*object, value.as_slice())));
                Some(Event::Restored)
            }
            (Some(_), false) => Some(Event::NotStored),
            (None, _) => None,
        };
        self.store = Some(store);
        if let Some(event) = event {
            self.events.push_back(event);
            let answer = if done { Ok(()) } else { Err(Abort::HARDWARE) };
            let mut frames = VecDeque::new();
            self.sdo.finish(now_ns, answer, &mut frames);
            for (peer, frame) in frames {
                self.queue_sdo(peer, &frame);
            }
        }
    }

    /// Sets the values that objects have after the next reset.
    fn begin_with<'a>(&mut self, entries: impl Iterator<Item = (ObjectId, &'a [u8])>) {
        for (object, value) in entries {
            let set = self.od.set_power_on(object, value);
            debug_assert!(set.is_ok(), "{object} had this value before, or it was checked");
        }
    }
}
