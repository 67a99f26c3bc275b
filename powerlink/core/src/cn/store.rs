//! Parameters that persist over a reset (EPSG DS 301, 6.7; 0x1010 and 0x1011): a peer stores them, or restores
//! the defaults, of all or of a part. The node has no storage of its own; its driver writes it.
//!
//! [`poll_store`](ControlledNode::poll_store) returns the parameters to write, as a concise DCF;
//! [`handle_stored`](ControlledNode::handle_stored) reports the result. Only then the peer receives its answer,
//! and the values apply from the node's next reset on.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use super::{ControlledNode, Event};
use crate::mn::{concise_dcf, dcf_entries, is_concise_dcf};
use crate::od::{Abort, Access, AddError, Dictionary, Object, ObjectId, PdoMapping, id, profile};
use crate::sdo::WriteOutcome;

/// Sub-index of all parameters.
const ALL: u8 = 1;
/// The sub-indices: all parameters, those of communication, of the application, of the manufacturer.
const PARTS: u8 = 4;
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
    /// The value of an object is invalid.
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
                write!(f, "value of object {object} is invalid: {abort}")
            }
            StoredParametersError::Occupied(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StoredParametersError {}

#[derive(Debug)]
enum PendingCommand {
    Save(Vec<u8>),
    /// The parameters after a part was restored.
    RestorePart(Vec<u8>),
    Restore,
}

/// Whether an object belongs to the part of a sub-index.
fn is_part(sub: u8, object: ObjectId) -> bool {
    match sub {
        ALL => true,
        2 => matches!(object.index, 0x1000..=0x1fff),
        3 => matches!(object.index, 0x6000..=0x9fff),
        _ => matches!(object.index, 0x2000..=0x5fff),
    }
}

/// The state of storing and restoring.
#[derive(Debug)]
pub(super) struct Store {
    /// The default values of the parameters.
    defaults: Vec<(ObjectId, Vec<u8>)>,
    /// The command in progress.
    pending: Option<PendingCommand>,
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
            ObjectId { index: profile::STORE, sub: 1..=PARTS } => (SAVE, true),
            ObjectId { index: profile::RESTORE, sub: 1..=PARTS } => (LOAD, false),
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
        self.pending = Some(match (saves, object.sub) {
            (true, sub) => PendingCommand::Save(image(od, |object| match is_part(sub, object) {
                true => od.get(object).unwrap_or_default(),
                false => od.default_of(object).unwrap_or_default(),
            })),
            (false, ALL) => PendingCommand::Restore,
            (false, sub) => {
                let parts = self.defaults.iter().filter(|(object, _)| is_part(sub, *object));
                let parts: BTreeMap<ObjectId, &[u8]> =
                    parts.map(|(object, value)| (*object, value.as_slice())).collect();
                let value = |object| match parts.get(&object) {
                    Some(default) => default,
                    None => od.default_of(object).unwrap_or_default(),
                };
                PendingCommand::RestorePart(image(od, value))
            }
        });
        self.returned = false;
        Ok(Some(WriteOutcome::Later))
    }
}

/// All parameters, with these values.
fn image<'a>(od: &'a Dictionary, value: impl Fn(ObjectId) -> &'a [u8]) -> Vec<u8> {
    concise_dcf(covered(od).map(|object| (object, value(object))))
}

/// The objects that are parameters.
fn covered(od: &Dictionary) -> impl Iterator<Item = ObjectId> + '_ {
    let covered = od.objects().filter(|(object, described)| is_parameter(*object, described));
    covered.map(|(object, _)| object)
}

/// Whether an object is a parameter: writable and readable for a peer, except process data, counters and present
/// values.
fn is_parameter(object: ObjectId, described: &Object) -> bool {
    let now = match object.index {
        profile::ERROR_HISTORY | profile::STORE | profile::RESTORE | profile::NODE_STATE => true,
        // Of the counters of the DLL, the thresholds are parameters.
        0x1c00..=0x1c10 => object.sub != 3,
        _ => object == profile::RESET_COMMAND || object == profile::ERROR_REGISTER,
    };
    described.access == Access::ReadWrite && described.mappable == PdoMapping::No && !now
}

/// Applies a peer's write to the validity of the configuration's id (0x1020/3 and 4): it identifies the
/// parameters until one of them is written.
pub(super) fn written(od: &mut Dictionary, object: ObjectId) {
    let invalid = match object {
        profile::CONFIGURATION_ID => 0,
        profile::CONFIGURATION_DATE | profile::CONFIGURATION_TIME => return,
        _ if od.object(object).is_ok_and(|described| is_parameter(object, described)) => 1,
        _ => return,
    };
    // A device may describe another record.
    let _ = od.set_number(profile::CONFIGURATION_INVALID, invalid);
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
            if !is_concise_dcf(octets) {
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
            let parts = number(Access::Constant, 1, PARTS.into());
            let command = number(Access::ReadWrite, 4, ON_COMMAND);
            let added = self.od.add(id(index, 0), parts);
            added
                .and_then(|()| self.od.add_array(index, PARTS, command))
                .map_err(StoredParametersError::Occupied)?;
        }
        let default = |object: ObjectId| Some((object, self.od.default_of(object).ok()?.to_vec()));
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
            PendingCommand::Save(octets) | PendingCommand::RestorePart(octets) => {
                StoreCommand::Write(octets)
            }
            PendingCommand::Restore => StoreCommand::Clear,
        })
    }

    /// Reports the result of the command that [`poll_store`](Self::poll_store) returned.
    pub fn handle_stored(&mut self, now_ns: u64, done: bool) {
        let Some(mut store) = self.store.take() else { return };
        let pending = if store.returned { store.pending.take() } else { None };
        let event = match (&pending, done) {
            (Some(PendingCommand::Save(octets)), true) => {
                self.begin_with(dcf_entries(octets));
                Some(Event::Stored)
            }
            (Some(PendingCommand::RestorePart(octets)), true) => {
                self.begin_with(dcf_entries(octets));
                Some(Event::Restored)
            }
            (Some(PendingCommand::Restore), true) => {
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
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.finish(now_ns, answer);
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
