//! Parameters that outlive a reset (EPSG DS 301, 6.7; 0x1010 and 0x1011): a peer has them stored, or the
//! defaults restored, and something else keeps them, since a node has no memory of its own.
//!
//! What is to be kept [`poll_store`](ControlledNode::poll_store) tells, as a concise DCF; that it is,
//! [`handle_stored`](ControlledNode::handle_stored) takes. Only then the peer has its answer, and the
//! values are what the node begins with at its next reset.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use super::{ControlledNode, Event};
use crate::mn::{concise_dcf, dcf_entries};
use crate::od::{Abort, Access, AddError, Dictionary, Mappable, Object, ObjectId, id, profile};
use crate::sdo::Written;

/// All parameters.
const ALL: u8 = 1;
/// What is to be written to store, and to restore, so that nobody does it by accident.
const SAVE: &[u8] = b"save";
const LOAD: &[u8] = b"load";
/// What reads: the device does it on command, and not by itself.
const ON_COMMAND: u64 = 1;

/// What whoever keeps a node's parameters is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep<'a> {
    /// To keep these octets, in the place of those before.
    Parameters(&'a [u8]),
    /// To keep none any more.
    Nothing,
}

/// Why parameters cannot be those of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotKept {
    /// They are no concise DCF, or one that is cut off.
    Octets,
    /// An object is none that is kept.
    Object(ObjectId),
    /// An object does not take its value.
    Value(ObjectId, Abort),
    /// The node has an object of its own where it is told to store or to restore.
    Taken(AddError),
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotKept::Octets => f.write_str("they are no concise DCF, or one that is cut off"),
            NotKept::Object(object) => write!(f, "object {object} is none that the node keeps"),
            NotKept::Value(object, abort) => {
                write!(f, "object {object} does not take its value, {abort}")
            }
            NotKept::Taken(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NotKept {}

#[derive(Debug)]
enum Pending {
    Save(Vec<u8>),
    Restore,
}

/// What the node needs to know to store and to restore.
#[derive(Debug)]
pub(super) struct Store {
    /// What the parameters are by default.
    defaults: Vec<(ObjectId, Vec<u8>)>,
    /// What is being done.
    pending: Option<Pending>,
    /// Whoever keeps parameters knows of it.
    told: bool,
}

impl Store {
    /// A peer writes; `None` where it is nothing about storing.
    pub(super) fn write(
        &mut self,
        od: &Dictionary,
        object: ObjectId,
        value: &[u8],
    ) -> Result<Option<Written>, Abort> {
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
        self.told = false;
        Ok(Some(Written::Later))
    }
}

/// The parameters as they are.
fn image(od: &Dictionary) -> Vec<u8> {
    concise_dcf(covered(od).map(|object| (object, od.get(object).unwrap_or_default())))
}

/// Objects that are parameters: what a peer may write and read, but for process data, counters and what
/// is about now.
fn covered(od: &Dictionary) -> impl Iterator<Item = ObjectId> + '_ {
    let is_covered = |(object, described): &(ObjectId, &Object)| {
        let now = match object.index {
            profile::ERROR_HISTORY | profile::STORE | profile::RESTORE | profile::NODE_STATE => {
                true
            }
            // Of the DLL's counters the thresholds are parameters.
            0x1c00..=0x1c10 => object.sub != 3,
            _ => *object == profile::RESET_COMMAND || *object == profile::ERROR_REGISTER,
        };
        described.access == Access::ReadWrite && described.mappable == Mappable::No && !now
    };
    od.objects().filter(is_covered).map(|(object, _)| object)
}

impl ControlledNode {
    /// Gives the node, before it is turned on, somebody who keeps its parameters: it has 0x1010 and
    /// 0x1011 from now on. `kept` is what [`poll_store`](Self::poll_store) gave last, with which the node
    /// begins instead of with its defaults.
    ///
    /// # Errors
    /// What was kept is not of this node: nothing of it is taken then.
    pub fn set_store(&mut self, kept: Option<&[u8]>) -> Result<(), NotKept> {
        let objects = covered(&self.od).collect::<Vec<_>>();
        if let Some(octets) = kept {
            // What was read is all there is: nothing is cut off, and nothing is behind the entries.
            if concise_dcf(dcf_entries(octets)) != octets {
                return Err(NotKept::Octets);
            }
            for (object, value) in dcf_entries(octets) {
                if objects.binary_search(&object).is_err() {
                    return Err(NotKept::Object(object));
                }
                self.od.check(object, value).map_err(|why| NotKept::Value(object, why))?;
            }
        }
        for index in [profile::STORE, profile::RESTORE] {
            let number = |access, len, value| Object::unsigned(len, access, value);
            self.od
                .add(id(index, 0), number(Access::Constant, 1, ALL.into()))
                .map_err(NotKept::Taken)?;
            let command = number(Access::ReadWrite, 4, ON_COMMAND);
            self.od.add(id(index, ALL), command).map_err(NotKept::Taken)?;
        }
        let default =
            |object: ObjectId| Some((object, self.od.object(object).ok()?.default.clone()));
        let defaults = objects.into_iter().filter_map(default).collect();
        self.begin_with(dcf_entries(kept.unwrap_or_default()));
        self.store = Some(Store { defaults, pending: None, told: false });
        Ok(())
    }

    /// What is to be done about the node's parameters, once for each time; to be asked after whatever is
    /// done with the node.
    pub fn poll_store(&mut self) -> Option<Keep<'_>> {
        let store = self.store.as_mut()?;
        let pending = store.pending.as_ref()?;
        if core::mem::replace(&mut store.told, true) {
            return None;
        }
        Some(match pending {
            Pending::Save(octets) => Keep::Parameters(octets),
            Pending::Restore => Keep::Nothing,
        })
    }

    /// What [`poll_store`](Self::poll_store) told is done, or could not be.
    pub fn handle_stored(&mut self, now_ns: u64, done: bool) {
        let Some(mut store) = self.store.take() else { return };
        let pending = if store.told { store.pending.take() } else { None };
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

    /// Gives objects the values that they have behind the next reset.
    fn begin_with<'a>(&mut self, entries: impl Iterator<Item = (ObjectId, &'a [u8])>) {
        for (object, value) in entries {
            let set = self.od.set_power_on(object, value);
            debug_assert!(set.is_ok(), "{object} has had this value, or it was checked");
        }
    }
}
