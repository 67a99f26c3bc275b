//! Error signaling: transfers a node's errors to the managing node without loss (EPSG DS 301, 6.5).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::powerlink::ErrorEntry;

/// Entries of a status response.
const SHOWN: usize = 2;
/// Entries in the format of a status response.
pub(super) type Entries = [u8; SHOWN * ErrorEntry::LEN];
/// Maximum number of queued entries; the oldest are kept, since later ones follow from them.
const WAITING: usize = 32;

/// The flags EN and EC, and their entries.
#[derive(Debug, Clone)]
pub(super) struct Signaling {
    /// EN: toggles with every new list of entries.
    pub(super) new: bool,
    /// EC: signaling restarts.
    pub(super) clear: bool,
    shown: Vec<ErrorEntry>,
    waiting: VecDeque<ErrorEntry>,
    /// The static error bits changed since EN did.
    changed: bool,
}

impl Signaling {
    pub(super) fn new() -> Self {
        let (shown, waiting) = (Vec::new(), VecDeque::new());
        Signaling { new: false, clear: true, shown, waiting, changed: false }
    }

    /// Applies ER of the managing node's status request: it requests a restart, or starts.
    pub(super) fn reset(&mut self, requested: bool) {
        if requested {
            *self = Signaling { clear: true, ..Signaling::new() };
        } else {
            self.clear = false;
        }
    }

    /// Applies EA of the managing node: the EN of the last status it received. Once it has received the present
    /// entries, queued ones replace them.
    pub(super) fn acknowledge(&mut self, seen: bool) {
        let news = self.changed || !self.waiting.is_empty();
        if seen == self.new && !self.clear && news {
            self.changed = false;
            let next = self.waiting.len().min(SHOWN);
            self.shown = self.waiting.drain(..next).collect();
            self.new = !self.new;
        }
    }

    /// Records a change of the static error bits, which the managing node must receive as well.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// Queues an entry.
    pub(super) fn report(&mut self, entry: ErrorEntry) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(entry);
        }
    }

    /// The entries of a status response; an empty entry ends the list.
    pub(super) fn octets(&self) -> Entries {
        let mut octets = [0; SHOWN * ErrorEntry::LEN];
        let entries = self.shown.iter().chain(core::iter::repeat(&ErrorEntry::END));
        for (place, entry) in octets.chunks_exact_mut(ErrorEntry::LEN).zip(entries) {
            place.copy_from_slice(&entry.to_octets());
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_wire::powerlink::ErrorEntries;

    fn entry(code: u16) -> ErrorEntry {
        ErrorEntry { kind: 0x3002, code, ..ErrorEntry::END }
    }

    fn codes(signaling: &Signaling) -> Vec<u16> {
        let octets = signaling.octets();
        assert_eq!(octets.len(), 40);
        ErrorEntries::new(&octets).iter().map(|entry| entry.code).collect()
    }

    #[test]
    fn entries_stay_until_they_were_seen() {
        let mut signaling = Signaling::new();
        signaling.reset(true);
        signaling.reset(false);
        assert!(!signaling.clear);
        (1..=3).for_each(|code| signaling.report(entry(code)));
        assert_eq!(codes(&signaling), []);
        signaling.acknowledge(false);
        assert!(signaling.new);
        assert_eq!(codes(&signaling), [1, 2]);
        signaling.acknowledge(false);
        assert_eq!(codes(&signaling), [1, 2], "not acknowledged yet");
        signaling.acknowledge(true);
        assert!(!signaling.new);
        assert_eq!(codes(&signaling), [3]);
        signaling.acknowledge(false);
        assert_eq!(codes(&signaling), [3], "nothing new");
    }

    #[test]
    fn a_restart_discards_earlier_entries() {
        let mut signaling = Signaling::new();
        signaling.report(entry(1));
        signaling.acknowledge(false);
        assert_eq!(codes(&signaling), [], "not before signaling started");
        signaling.reset(true);
        signaling.reset(false);
        signaling.acknowledge(false);
        assert_eq!(codes(&signaling), []);
        (0..100).for_each(|code| signaling.report(entry(code)));
        assert_eq!(signaling.waiting.len(), WAITING);
        assert_eq!(signaling.waiting.front().map(|entry| entry.code), Some(0));
    }
}
