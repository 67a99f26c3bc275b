//! Automatic responses: the slot that answers a frame. Pure.

use crate::{Error, Filter, Result, Slot};

/// The handle of a response of a port, by which it is removed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Response {
    port: u32,
    pub(crate) id: u64,
}

#[derive(Debug)]
struct ResponseEntry {
    id: u64,
    filter: Filter,
    slot: Slot,
}

/// The responses of a port, oldest first, in memory that is allocated once.
#[derive(Debug)]
pub(crate) struct Responses {
    port: u32,
    capacity: usize,
    next_id: u64,
    entries: Vec<ResponseEntry>,
}

impl Responses {
    pub(crate) fn new(port: u32, capacity: usize) -> Self {
        Self { port, capacity, next_id: 0, entries: Vec::with_capacity(capacity) }
    }

    pub(crate) fn add(&mut self, filter: Filter, slot: Slot) -> Result<Response> {
        if self.entries.len() == self.capacity {
            return Err(Error::Full { what: "responses", capacity: self.capacity });
        }
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(ResponseEntry { id, filter, slot });
        Ok(Response { port: self.port, id })
    }

    pub(crate) fn remove(&mut self, response: &Response) -> Result<()> {
        let place = self.entries.iter().position(|entry| entry.id == response.id);
        let place = place.filter(|_| response.port == self.port).ok_or(Error::NoSuchResponse)?;
        self.entries.remove(place);
        Ok(())
    }

    /// Returns true if a response uses the slot.
    pub(crate) fn uses(&self, slot: Slot) -> bool {
        self.entries.iter().any(|entry| entry.slot == slot)
    }

    /// Iterates over filters and the slots of their responses, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Filter, Slot)> {
        self.entries.iter().map(|entry| (&entry.filter, entry.slot))
    }

    /// Returns the slot that answers `frame`.
    pub(crate) fn to(&self, frame: &[u8]) -> Option<Slot> {
        self.entries.iter().find(|entry| entry.filter.matches(frame)).map(|entry| entry.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slots;

    #[test]
    fn the_oldest_matching_filter_answers() {
        let mut slots = Slots::new(0, 2, 100);
        let (a, b) = (slots.allocate(60).unwrap(), slots.allocate(60).unwrap());
        let filter = |first| Filter::new(&[first], &[0xf0]).unwrap();
        let mut responses = Responses::new(0, 3);
        let first = responses.add(filter(0x10), a).unwrap();
        responses.add(filter(0x10), b).unwrap();
        let third = responses.add(filter(0x20), b).unwrap();
        assert!(matches!(responses.add(filter(0x30), a), Err(Error::Full { capacity: 3, .. })));
        assert_eq!(responses.to(&[0x1f]), Some(a));
        assert_eq!(responses.to(&[0x2f]), Some(b));
        assert_eq!(responses.to(&[0x3f]), None);
        assert_eq!(responses.to(&[]), None);
        responses.remove(&first).unwrap();
        assert_eq!(responses.to(&[0x1f]), Some(b));
        assert!(!responses.uses(a) && responses.uses(b));
        assert!(matches!(responses.remove(&first), Err(Error::NoSuchResponse)));
        let mut other = Responses::new(1, 1);
        other.add(filter(0x10), a).unwrap();
        assert!(matches!(other.remove(&third), Err(Error::NoSuchResponse)));
    }
}
