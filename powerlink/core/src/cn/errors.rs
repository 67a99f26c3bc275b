//! What is wrong with a node: its error history (0x1003), its error register (0x1001) and the bits of
//! its device, and how they get to the managing node (EPSG DS 301, 6.5).

use onbeat_wire::powerlink::ErrorEntry;

use super::ControlledNode;
use crate::code;
use crate::od::{Abort, Dictionary, ObjectId, id, profile};

/// Bits of the error register: there is any error, and there is one of communication.
const GENERIC: u64 = 1;
const COMMUNICATION: u64 = 1 << 4;

/// Octets of the static error bits behind the error register and a reserved octet.
pub(super) const DEVICE_ERRORS: usize = 6;

impl ControlledNode {
    /// The application has an error to tell: an entry of the history, that goes to the managing node
    /// with the next status. `kind` is that of [`ErrorEntry::kind`].
    pub fn report(&mut self, kind: u16, code: u16, additional: u64) {
        let entry = ErrorEntry { kind, code, time: self.time, additional };
        if entry.is_end() {
            // It would hide those behind it.
            return;
        }
        record(&mut self.od, &entry);
        self.signalling.report(entry);
    }

    /// The application tells the errors that there are in its device, as bits: until it says else.
    pub fn set_device_errors(&mut self, bits: [u8; 6]) {
        self.set_errors(bits, self.od.number(profile::ERROR_REGISTER) & COMMUNICATION != 0);
    }

    /// An error of communication that led the node out of the cycle.
    pub(super) fn communication_error(&mut self, code: u16) {
        self.report(code::OCCURRED, code, 0);
        self.set_errors(self.device_errors, true);
    }

    /// The node is back in the cycle.
    pub(super) fn communication_works(&mut self) {
        self.set_errors(self.device_errors, false);
    }

    fn set_errors(&mut self, device: [u8; DEVICE_ERRORS], communication: bool) {
        let mut register = if communication { COMMUNICATION } else { 0 };
        if communication || device != [0; DEVICE_ERRORS] {
            register |= GENERIC;
        }
        let changed = register != self.od.number(profile::ERROR_REGISTER);
        if changed || device != self.device_errors {
            self.device_errors = device;
            let set = self.od.set_number(profile::ERROR_REGISTER, register);
            debug_assert!(set.is_ok(), "the register takes every octet");
            self.signalling.change();
        }
    }

    /// The error register, a reserved octet, and the bits of the device.
    pub(super) fn static_errors(&self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.device_errors;
        [self.od.number(profile::ERROR_REGISTER) as u8, 0, a, b, c, d, e, f]
    }
}

/// Adds an entry to the history, of which the newest is the first.
fn record(od: &mut Dictionary, entry: &ErrorEntry) {
    let place = |sub| id(profile::ERROR_HISTORY, sub);
    let entries = od.number(place(0));
    if od.object(place(0)).is_err() {
        return;
    }
    for sub in (1..profile::HISTORY_ENTRIES).rev() {
        let older = od.get(place(sub)).unwrap_or_default().to_vec();
        let moved = od.set(place(sub + 1), &older);
        debug_assert!(moved.is_ok(), "entries are alike");
    }
    let added = od.set(place(1), &entry.to_octets());
    debug_assert!(added.is_ok(), "an entry takes what entries are");
    let entries = (entries + 1).min(profile::HISTORY_ENTRIES.into());
    let counted = od.set_number(place(0), entries);
    debug_assert!(counted.is_ok(), "the number of entries fits its octet");
}

/// Whether a peer may write to the history: 0 to the number of entries, which clears it.
pub(super) fn check_write(object: ObjectId, value: &[u8]) -> Result<(), Abort> {
    if object == id(profile::ERROR_HISTORY, 0) && value.iter().any(|octet| *octet != 0) {
        return Err(Abort::TOO_GREAT);
    }
    Ok(())
}

/// A peer wrote: a history that was cleared has no entries.
pub(super) fn written(od: &mut Dictionary, object: ObjectId) {
    if object == id(profile::ERROR_HISTORY, 0) {
        for sub in 1..=profile::HISTORY_ENTRIES {
            let cleared = od.set(id(profile::ERROR_HISTORY, sub), &[]);
            debug_assert!(cleared.is_ok(), "an entry may be empty");
        }
    }
}
