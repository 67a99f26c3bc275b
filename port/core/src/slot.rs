//! Prebuilt transmit frames, in memory that is allocated once. Pure: no socket, no clock.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// Shortest frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;

/// A transmit slot of a port: a frame that is built once and sent many times.
///
/// It is a handle, not the frame. The handle of a freed slot is not reused until 2^32 others have used its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    pub(crate) port: u32,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transmit slot {}", self.index)
    }
}

/// Returns a unique number for each port of the process, so that no port accepts another's slots and frames.
pub(crate) fn next_port() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug, Default)]
struct SlotEntry {
    generation: u32,
    used: bool,
    len: usize,
    octets: Vec<u8>,
}

/// The slots of a port that copies a frame when it sends it: an update never meets a partly sent frame.
#[derive(Debug)]
pub(crate) struct Slots {
    port: u32,
    max_frame: usize,
    entries: Vec<SlotEntry>,
}

impl Slots {
    /// Creates `capacity` slots for frames of up to `max_frame` octets.
    pub(crate) fn new(port: u32, capacity: usize, max_frame: usize) -> Self {
        Self { port, max_frame, entries: (0..capacity).map(|_| SlotEntry::default()).collect() }
    }

    /// Allocates a slot for frames of up to `capacity` octets. Only this function allocates memory.
    pub(crate) fn allocate(&mut self, capacity: usize) -> Result<Slot> {
        if !(MIN_FRAME..=self.max_frame).contains(&capacity) {
            let max = self.max_frame;
            return Err(Error::FrameLength { len: capacity, min: MIN_FRAME, max });
        }
        let full = Error::Full { what: "transmit slots", capacity: self.entries.len() };
        let index = self.entries.iter().position(|entry| !entry.used).ok_or(full)?;
        let entry = &mut self.entries[index];
        entry.used = true;
        entry.len = 0;
        entry.octets.clear();
        entry.octets.resize(capacity, 0);
        Ok(Slot { port: self.port, index: index as u32, generation: entry.generation })
    }

    /// Puts a frame into the slot.
    pub(crate) fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()> {
        let index = self.check(slot)?;
        let entry = &mut self.entries[index];
        if !(MIN_FRAME..=entry.octets.len()).contains(&frame.len()) {
            let max = entry.octets.len();
            return Err(Error::FrameLength { len: frame.len(), min: MIN_FRAME, max });
        }
        entry.octets[..frame.len()].copy_from_slice(frame);
        entry.len = frame.len();
        Ok(())
    }

    /// Returns the frame in the slot.
    pub(crate) fn frame(&self, slot: Slot) -> Result<&[u8]> {
        let entry = &self.entries[self.check(slot)?];
        if entry.len == 0 { Err(Error::EmptySlot(slot)) } else { Ok(&entry.octets[..entry.len]) }
    }

    /// Frees the slot.
    pub(crate) fn free(&mut self, slot: Slot) -> Result<()> {
        let index = self.check(slot)?;
        let entry = &mut self.entries[index];
        entry.used = false;
        entry.generation = entry.generation.wrapping_add(1);
        Ok(())
    }

    /// Checks that the slot belongs to this port; returns its index.
    pub(crate) fn check(&self, slot: Slot) -> Result<usize> {
        let index = slot.index as usize;
        let known = self.entries.get(index).is_some_and(|entry| {
            entry.used && entry.generation == slot.generation && self.port == slot.port
        });
        if known { Ok(index) } else { Err(Error::NoSuchSlot(slot)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_the_last_frame() {
        let mut slots = Slots::new(7, 2, 1514);
        let slot = slots.allocate(64).unwrap();
        assert!(matches!(slots.frame(slot), Err(Error::EmptySlot(_))));
        slots.update(slot, &[1; 60]).unwrap();
        slots.update(slot, &[2; 20]).unwrap();
        assert_eq!(slots.frame(slot).unwrap(), &[2; 20], "no octets of the longer former frame");
        for len in [0, 13, 65] {
            let refused = slots.update(slot, &vec![3; len]);
            assert!(matches!(refused, Err(Error::FrameLength { .. })), "{len}");
        }
        assert_eq!(slots.frame(slot).unwrap(), &[2; 20], "a refused update changes nothing");
    }

    #[test]
    fn slots_are_limited_in_number_and_size() {
        let mut slots = Slots::new(0, 2, 1514);
        assert!(matches!(slots.allocate(1515), Err(Error::FrameLength { len: 1515, .. })));
        assert!(matches!(slots.allocate(13), Err(Error::FrameLength { .. })));
        let first = slots.allocate(1514).unwrap();
        slots.allocate(14).unwrap();
        assert!(matches!(slots.allocate(14), Err(Error::Full { capacity: 2, .. })));
        slots.free(first).unwrap();
        assert!(slots.allocate(14).is_ok());
    }

    #[test]
    fn handles_of_freed_slots_and_of_other_ports_are_invalid() {
        let mut slots = Slots::new(1, 1, 100);
        let old = slots.allocate(60).unwrap();
        slots.update(old, &[1; 60]).unwrap();
        slots.free(old).unwrap();
        let new = slots.allocate(60).unwrap();
        assert_eq!(old.index, new.index);
        assert!(matches!(slots.frame(new), Err(Error::EmptySlot(_))), "a new slot is empty");
        assert!(matches!(slots.update(old, &[1; 60]), Err(Error::NoSuchSlot(_))));
        assert!(matches!(slots.free(old), Err(Error::NoSuchSlot(_))));
        let mut other = Slots::new(2, 1, 100);
        other.allocate(60).unwrap();
        assert!(matches!(other.update(new, &[1; 60]), Err(Error::NoSuchSlot(_))));
    }
}
