//! SDO: commands that read or write several objects (EPSG DS 301, 6.3.2.4).
//!
//! Their payload is a list of objects:
//!
//! | command | of each object, in octets |
//! |---|---|
//! | request to write, response with values | offset of the next (4; 0: the last), index (2), sub-index, flags, value, padding to a multiple of 4 |
//! | request to read | index (2), sub-index, reserved |
//! | response to a write: objects that were not written | index (2), sub-index, flags, abort code (4) |
//!
//! Offsets count from the start of the command layer: the first object is at 8, or at 12 after DataSize. Bit 7
//! of the flags: an abort code instead of a value; bits 1 and 0: octets of padding. That of the last value may be
//! missing.

use super::octets::{bit, u16_at, u32_at};
use super::{Abort, CommandId};
use crate::TruncationError;
use crate::bytes::split;

mod field {
    /// Behind the offset of the next object, if there is one.
    pub(super) const INDEX: usize = 0;
    pub(super) const SUB: usize = 2;
    pub(super) const FLAGS: usize = 3;
}

const OBJECT: &str = "POWERLINK SDO object";
const OFFSET_LEN: usize = 4;
const ID_LEN: usize = field::FLAGS + 1;
const PADDING: u8 = 3;

/// An object in a command that reads or writes several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectEntry<'a> {
    /// Index.
    pub index: u16,
    /// Sub-index.
    pub sub: u8,
    /// The value, which is empty in a request to read; or the reason why there is none.
    pub result: Result<&'a [u8], Abort>,
}

/// The objects of a command that reads or writes several. An error is the last item.
#[derive(Debug, Clone)]
pub struct ObjectEntries<'a> {
    layout: Layout,
    payload: &'a [u8],
    /// Octets before the next object; none after the last.
    at: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum Layout {
    /// Objects with values; the offset of the first one.
    Values(usize),
    /// Objects to read.
    Requested,
    /// Objects that were not written.
    NotWritten,
}

impl<'a> ObjectEntries<'a> {
    /// The offset of the first object in the command layer.
    pub const fn first_offset(segmented: bool) -> usize {
        if segmented { 12 } else { 8 }
    }

    /// The objects in the payload of a request or response; `segmented`: it was in several segments. Other
    /// commands have none.
    pub fn new(command: CommandId, response: bool, segmented: bool, payload: &'a [u8]) -> Self {
        let layout = match (command, response) {
            (CommandId::WRITE_MULTIPLE_BY_INDEX, false)
            | (CommandId::READ_MULTIPLE_BY_INDEX, true) => {
                Some(Layout::Values(Self::first_offset(segmented)))
            }
            (CommandId::READ_MULTIPLE_BY_INDEX, false) => Some(Layout::Requested),
            (CommandId::WRITE_MULTIPLE_BY_INDEX, true) => Some(Layout::NotWritten),
            _ => None,
        };
        let may_be_empty = matches!(layout, Some(Layout::NotWritten));
        let at = layout.filter(|_| !(may_be_empty && payload.is_empty())).map(|_| 0);
        ObjectEntries { layout: layout.unwrap_or(Layout::Requested), payload, at }
    }

    /// Reads the object with a value at a place; returns the place of the next.
    fn value(
        &self,
        first: usize,
        at: usize,
    ) -> Result<(ObjectEntry<'a>, Option<usize>), TruncationError> {
        let (next, rest) = split::<OFFSET_LEN>(OBJECT, self.behind(at))?;
        let (id, _) = split::<ID_LEN>(OBJECT, rest)?;
        let len = self.payload.len();
        let next = match u32_at(next, 0) as usize {
            0 => None,
            next => Some(next.saturating_sub(first)),
        };
        let (start, flags) = (at + OFFSET_LEN + ID_LEN, id[field::FLAGS]);
        let padding = usize::from(flags & PADDING);
        let end = match next {
            // The reference stack announces the padding of the last value, and does not send it.
            None if (len - start) % 4 != 0 => ((len - start + padding) % 4 == 0).then_some(len),
            next => next.unwrap_or(len).checked_sub(padding),
        };
        let cut = TruncationError { what: OBJECT, needed: (start + padding).max(len + 1), len };
        let value = end.and_then(|end| self.payload.get(start..end)).ok_or(cut)?;
        let result = if bit(flags, 7) { Err(abort(value)?) } else { Ok(value) };
        Ok((entry(id, result), next))
    }

    /// Reads the object without a value at a place; returns the place of the next.
    fn id(
        &self,
        written: bool,
        at: usize,
    ) -> Result<(ObjectEntry<'a>, Option<usize>), TruncationError> {
        let (id, rest) = split::<ID_LEN>(OBJECT, self.behind(at))?;
        let (result, len) = if written { (Err(abort(rest)?), 4) } else { (Ok(&rest[..0]), 0) };
        let next = at + ID_LEN + len;
        Ok((entry(id, result), (next < self.payload.len()).then_some(next)))
    }

    fn behind(&self, at: usize) -> &'a [u8] {
        self.payload.get(at..).unwrap_or_default()
    }
}

fn entry<'a>(id: &[u8; ID_LEN], result: Result<&'a [u8], Abort>) -> ObjectEntry<'a> {
    ObjectEntry { index: u16_at(id, field::INDEX), sub: id[field::SUB], result }
}

fn abort(octets: &[u8]) -> Result<Abort, TruncationError> {
    split::<4>(OBJECT, octets).map(|(code, _)| Abort(u32_at(code, 0)))
}

impl<'a> Iterator for ObjectEntries<'a> {
    type Item = Result<ObjectEntry<'a>, TruncationError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        let read = match self.layout {
            Layout::Values(first) => self.value(first, at),
            Layout::Requested => self.id(false, at),
            Layout::NotWritten => self.id(true, at),
        };
        Some(read.map(|(entry, next)| {
            self.at = next;
            entry
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const READ: CommandId = CommandId::READ_MULTIPLE_BY_INDEX;
    const WRITE: CommandId = CommandId::WRITE_MULTIPLE_BY_INDEX;

    /// The objects of a command in one segment.
    fn entries(
        command: CommandId,
        response: bool,
        payload: &[u8],
    ) -> Result<Vec<ObjectEntry<'_>>, TruncationError> {
        ObjectEntries::new(command, response, false, payload).collect()
    }

    #[test]
    fn each_command_has_its_layout() {
        let entry = |index, sub, result| ObjectEntry { index, sub, result };
        let values = [
            &[20, 0, 0, 0, 0x06, 0x10, 0, 0, 0x50, 0xc3, 0, 0][..],
            &[0, 0, 0, 0, 0x00, 0x16, 1, 3, 7, 0, 0, 0],
        ]
        .concat();
        let expected = [entry(0x1006, 0, Ok(&[0x50, 0xc3, 0, 0][..])), entry(0x1600, 1, Ok(&[7]))];
        assert_eq!(entries(WRITE, false, &values).unwrap(), expected);
        assert_eq!(entries(READ, true, &values).unwrap(), expected);
        let missing = [entry(0x1600, 1, Err(Abort::NO_OBJECT))];
        let with_offset = [0, 0, 0, 0, 0x00, 0x16, 1, 0x80, 0, 0, 2, 6];
        assert_eq!(entries(READ, true, &with_offset).unwrap(), missing);
        assert_eq!(entries(WRITE, true, &with_offset[4..]).unwrap(), missing);
        assert_eq!(entries(WRITE, true, &[]).unwrap(), []);
        let requested = [entry(0x1006, 0, Ok(&[])), entry(0x1600, 1, Ok(&[]))];
        assert_eq!(entries(READ, false, &[6, 0x10, 0, 0, 0, 0x16, 1, 0]).unwrap(), requested);
        assert_eq!(entries(CommandId::READ_BY_INDEX, false, &values).unwrap(), []);
        let mut behind_data_size = values;
        behind_data_size[0] = 24;
        let segmented = ObjectEntries::new(WRITE, false, true, &behind_data_size);
        assert_eq!(segmented.collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn invalid_payloads_are_refused() {
        for payload in [&[][..], &[6, 0x10, 0], &[6, 0x10, 0, 0, 0]] {
            assert!(entries(READ, false, payload).is_err());
        }
        assert!(entries(WRITE, true, &[0; 7]).is_err());
        let entry = |next: u8, flags: u8| [next, 0, 0, 0, 6, 0x10, 0, flags, 1, 2, 3, 4];
        assert!(entries(WRITE, false, &entry(0, 0)).is_ok());
        assert!(entries(WRITE, false, &entry(0, 3)).is_ok());
        let whole = entry(0, 2);
        let unpadded = entries(READ, true, &whole[..10]).unwrap();
        assert_eq!(unpadded[0].result, Ok(&[1, 2][..]), "as of the reference stack");
        for (payload, what) in [
            (&[][..], "no entry"),
            (&entry(0, 0)[..7], "cut"),
            (&entry(20, 0), "the next one is missing"),
            (&entry(8, 0), "the next one is this one"),
            (&entry(7, 0), "an offset before the first"),
            (&entry(255, 0), "an offset beyond the end"),
            (&entry(0, 3)[..10], "more padding than data"),
            (&entry(0, 0x81), "a reason of three octets"),
        ] {
            assert!(entries(WRITE, false, payload).is_err(), "{what}");
        }
    }
}
