//! Error signalling: how a node's errors get to the managing node, none lost (EPSG DS 301, 6.5).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::powerlink::ErrorEntry;

/// Entries of a status response.
const SHOWN: usize = 2;
/// Entries as a status response has them.
pub(super) type Entries = [u8; SHOWN * ErrorEntry::LEN];
/// Entries that wait at most; the oldest ones are kept, since later ones follow from them.
const WAITING: usize = 32;

/// The flags EN and EC, and the entries they are about.
#[derive(Debug, Clone)]
pub(super) struct Signalling {
    /// EN: changes with every new list of entries.
    pub(super) new: bool,
    /// EC: signalling begins anew.
    pub(super) clear: bool,
    shown: Vec<ErrorEntry>,
    waiting: VecDeque<ErrorEntry>,
    /// The static error bits changed since EN did.
    changed: bool,
}

impl Signalling {
    pub(super) fn new() -> Self {
        let (shown, waiting) = (Vec::new(), VecDeque::new());
        Signalling { new: false, clear: true, shown, waiting, changed: false }
    }

    /// The managing node's ER of a status request: it wants to begin anew, or does so.
    pub(super) fn reset(&mut self, requested: bool) {
        if requested {
            *self = Signalling { clear: true, ..Signalling::new() };
        } else {
            self.clear = false;
        }
    }

    /// The managing node's EA: which EN it saw last. Once it has seen the entries that are shown,
    /// those that wait take their place.
    pub(super) fn acknowledge(&mut self, seen: bool) {
        let news = self.changed || !self.waiting.is_empty();
        if seen == self.new && !self.clear && news {
            self.changed = false;
            let next = self.waiting.len().min(SHOWN);
            self.shown = self.waiting.drain(..next).collect();
            self.new = !self.new;
        }
    }

    /// The static error bits changed, of which the managing node is to hear as well.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// Something happened.
    pub(super) fn report(&mut self, entry: ErrorEntry) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(entry);
        }
    }

    /// The entries of a status response, and an end for each that is not there.
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

    fn codes(signalling: &Signalling) -> Vec<u16> {
        let octets = signalling.octets();
        assert_eq!(octets.len(), 40);
        ErrorEntries::new(&octets).iter().map(|entry| entry.code).collect()
    }

    #[test]
    fn entries_stay_until_they_were_seen() {
        let mut signalling = Signalling::new();
        signalling.reset(true);
        signalling.reset(false);
        assert!(!signalling.clear);
        (1..=3).for_each(|code| signalling.report(entry(code)));
        assert_eq!(codes(&signalling), []);
        signalling.acknowledge(false);
        assert!(signalling.new);
        assert_eq!(codes(&signalling), [1, 2]);
        signalling.acknowledge(false);
        assert_eq!(codes(&signalling), [1, 2], "not seen yet");
        signalling.acknowledge(true);
        assert!(!signalling.new);
        assert_eq!(codes(&signalling), [3]);
        signalling.acknowledge(false);
        assert_eq!(codes(&signalling), [3], "nothing new");
    }

    #[test]
    fn beginning_anew_forgets_what_was() {
        let mut signalling = Signalling::new();
        signalling.report(entry(1));
        signalling.acknowledge(false);
        assert_eq!(codes(&signalling), [], "not before signalling began");
        signalling.reset(true);
        signalling.reset(false);
        signalling.acknowledge(false);
        assert_eq!(codes(&signalling), []);
        (0..100).for_each(|code| signalling.report(entry(code)));
        assert_eq!(signalling.waiting.len(), WAITING);
        assert_eq!(signalling.waiting.front().map(|entry| entry.code), Some(0));
    }
}
