//! Errors of a node: its error history (0x1003), its error register (0x1001), the error bits of its device, and
//! their way to the managing node (EPSG DS 301, 6.5).

use onbeat_wire::powerlink::ErrorEntry;

use super::ControlledNode;
use crate::code;
use crate::od::{Abort, Dictionary, ObjectId, id, profile};

/// Bits of the error register: any error, and communication error.
const GENERIC: u64 = 1;
const COMMUNICATION: u64 = 1 << 4;

/// Octets of the static error bits after the error register and a reserved octet.
pub(super) const DEVICE_ERRORS: usize = 6;

impl ControlledNode {
    /// Reports an error of the application: an entry of the history, which is sent to the managing node with
    /// the next status. `kind` as in [`ErrorEntry::kind`].
    pub fn report(&mut self, kind: u16, code: u16, additional: u64) {
        let entry = ErrorEntry { kind, code, time: self.time, additional };
        if entry.is_end() {
            // It would hide the entries after it.
            return;
        }
        record(&mut self.od, &entry);
        self.signaling.report(entry);
    }

    /// Sets the current errors of the device, as bits.
    pub fn set_device_errors(&mut self, bits: [u8; 6]) {
        self.set_errors(bits, self.od.number(profile::ERROR_REGISTER) & COMMUNICATION != 0);
    }

    /// Reports a communication error that made the node leave the cycle.
    pub(super) fn communication_error(&mut self, code: u16) {
        self.report(code::OCCURRED, code, 0);
        self.set_errors(self.device_errors, true);
    }

    /// Reports that the node is back in the cycle.
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
            debug_assert!(set.is_ok(), "every octet is valid for the register");
            self.signaling.change();
        }
    }

    /// The error register, a reserved octet, and the bits of the device.
    pub(super) fn static_errors(&self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.device_errors;
        [self.od.number(profile::ERROR_REGISTER) as u8, 0, a, b, c, d, e, f]
    }
}

/// Adds an entry to the history, newest first.
fn record(od: &mut Dictionary, entry: &ErrorEntry) {
    let place = |sub| id(profile::ERROR_HISTORY, sub);
    let entries = od.number(place(0));
    if od.object(place(0)).is_err() {
        return;
    }
    for sub in (1..profile::HISTORY_ENTRIES).rev() {
        let older = od.get(place(sub)).unwrap_or_default().to_vec();
        let moved = od.set(place(sub + 1), &older);
        debug_assert!(moved.is_ok(), "entries have one type");
    }
    let added = od.set(place(1), &entry.to_octets());
    debug_assert!(added.is_ok(), "the value has the type of an entry");
    let entries = (entries + 1).min(profile::HISTORY_ENTRIES.into());
    let counted = od.set_number(place(0), entries);
    debug_assert!(counted.is_ok(), "the number of entries fits its octet");
}

/// Checks a peer's write to the history: 0 for the number of entries, which clears it.
pub(super) fn check_write(object: ObjectId, value: &[u8]) -> Result<(), Abort> {
    if object == id(profile::ERROR_HISTORY, 0) && value.iter().any(|octet| *octet != 0) {
        return Err(Abort::TOO_GREAT);
    }
    Ok(())
}

/// Applies a peer's write: a cleared history has no entries.
pub(super) fn written(od: &mut Dictionary, object: ObjectId) {
    if object == id(profile::ERROR_HISTORY, 0) {
        for sub in 1..=profile::HISTORY_ENTRIES {
            let cleared = od.set(id(profile::ERROR_HISTORY, sub), &[]);
            debug_assert!(cleared.is_ok(), "an entry may be empty");
        }
    }
}
