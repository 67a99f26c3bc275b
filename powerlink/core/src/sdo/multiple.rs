//! Writes the payload of commands that read or write several objects: `onbeat_wire::powerlink::ObjectEntries`
//! reads it, and describes it.

use alloc::vec::Vec;

use onbeat_wire::powerlink::{Abort, CommandId, ObjectEntries};

use super::assembly::AssembledCommand;
use super::transfer::is_segmented;
use crate::od::{ObjectId, id};

/// Octets of an object with its value before the value.
const BEFORE_VALUE: usize = 8;
/// Maximum octets of padding.
const PADDING: usize = 3;
/// Maximum octets of an object with its value besides the value.
pub(super) const OVERHEAD: usize = BEFORE_VALUE + PADDING;
/// An abort code instead of a value.
const ABORTED: u8 = 0x80;

/// Maximum number of objects in a request to a server: reading or writing one takes less than 1 us, and a cycle does not
/// wait.
pub(super) const MAX_OBJECTS: usize = 1024;

/// An object, and its value or the reason why there is none.
pub(super) type Entry<'a> = (ObjectId, Result<&'a [u8], Abort>);

/// Reads the first `limit` objects of a request or a response; `None`: invalid.
pub(super) fn read(
    command: CommandId,
    response: bool,
    AssembledCommand { payload, segmented }: &AssembledCommand,
    limit: usize,
) -> Option<Vec<Entry<'_>>> {
    let entries = ObjectEntries::new(command, response, *segmented, payload);
    entries
        .take(limit)
        .map(|entry| entry.ok().map(|entry| (id(entry.index, entry.sub), entry.result)))
        .collect()
}

/// Objects with values.
pub(super) fn values<'a>(response: bool, entries: impl Iterator<Item = Entry<'a>>) -> Vec<u8> {
    let (mut payload, mut starts) = (Vec::new(), Vec::new());
    for (object, result) in entries {
        let code = result.err().map(|abort| abort.0.to_le_bytes());
        let value = code.as_ref().map_or(result.unwrap_or_default(), |code| &code[..]);
        let padding = value.len().wrapping_neg() & PADDING;
        let flags = if code.is_some() { ABORTED } else { padding as u8 };
        starts.push(payload.len());
        payload.extend([0; 4]);
        payload.extend(object_id(object, flags));
        payload.extend_from_slice(value);
        payload.resize(payload.len() + padding, 0);
    }
    let first = ObjectEntries::first_offset(is_segmented(response, payload.len()));
    for pair in starts.windows(2) {
        let next = u32::try_from(first + pair[1]).unwrap_or(u32::MAX);
        payload[pair[0]..][..4].copy_from_slice(&next.to_le_bytes());
    }
    payload
}

/// Objects to read, or one to write.
pub(super) fn objects(objects: &[ObjectId]) -> Vec<u8> {
    objects.iter().flat_map(|object| object_id(*object, 0)).collect()
}

/// Objects that were not written.
pub(super) fn failures(failures: &[(ObjectId, Abort)]) -> Vec<u8> {
    let failure = |(object, abort): &(ObjectId, Abort)| {
        object_id(*object, ABORTED).into_iter().chain(abort.0.to_le_bytes())
    };
    failures.iter().flat_map(failure).collect()
}

fn object_id(object: ObjectId, flags: u8) -> [u8; 4] {
    let [low, high] = object.index.to_le_bytes();
    [low, high, object.sub, flags]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn objects_are_read_as_written(
            written in prop::collection::vec(
                (any::<u16>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..90), any::<bool>()),
                1..8,
            ),
            response: bool,
        ) {
            let entry = |(index, sub, value, fails): &(_, _, Vec<u8>, _)| {
                let result = if *fails { Err(Abort::LOCAL) } else { Ok(value.clone()) };
                (id(*index, *sub), result)
            };
            let written: Vec<_> = written.iter().map(entry).collect();
            let entries = || written.iter().map(|(object, result)| (*object, result.as_deref().map_err(|abort| *abort)));
            let payload = values(response, entries());
            let segmented = is_segmented(response, payload.len());
            let command = match response {
                true => CommandId::READ_MULTIPLE_BY_INDEX,
                false => CommandId::WRITE_MULTIPLE_BY_INDEX,
            };
            let assembled = AssembledCommand { payload, segmented };
            prop_assert_eq!(read(command, response, &assembled, usize::MAX), Some(entries().collect()));
        }

        #[test]
        fn any_octets(payload in prop::collection::vec(any::<u8>(), 0..60), segmented: bool, response: bool) {
            let assembled = AssembledCommand { payload, segmented };
            for command in [CommandId::READ_MULTIPLE_BY_INDEX, CommandId::WRITE_MULTIPLE_BY_INDEX] {
                let entries = read(command, response, &assembled, usize::MAX);
                prop_assert!(entries.is_none_or(|entries| entries.len() <= assembled.payload.len() / 4));
            }
        }
    }
}
