//! A parsed `[[stream]]` table, and its expansion to streams.

use std::collections::HashSet;
use std::ops::Range;

use onbeat_frer::spec::Stream;
use onbeat_report::format::count as counted;
use onbeat_yang::StreamHandles;

use super::reader::{Faults, Value};
use super::repeat::Repeat;
use super::set::StreamNotes;
use super::text::is_name;

/// A `[[stream]]` table: one stream, or `count` of them.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// The first of its streams; its name is the template.
    pub(super) first: Stream,
    pub(super) repeat: Repeat,
    pub(super) place: Location,
    pub(super) members: Vec<Location>,
    /// Members whose paths are being removed.
    pub(super) draining: Vec<usize>,
    pub(super) egress: Vec<Location>,
    /// Handles of its first stream.
    pub(super) handles: Option<StreamHandles>,
}

/// Location of a value in the file, for faults found later.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) span: Range<usize>,
    pub(super) path: String,
}

impl Location {
    pub(super) fn of(value: &Value<'_>) -> Location {
        Location { span: value.span(), path: value.path.clone() }
    }
}

/// The notes of unfolded streams. Two streams with one handle are a fault.
pub(super) fn notes(blocks: &[Block], streams: &[(usize, Stream)], faults: &Faults) -> StreamNotes {
    let mut notes = StreamNotes::default();
    for (block, stream) in streams {
        let block = &blocks[*block];
        one_handle_each(block, &stream.name, &notes, &HashSet::new(), faults);
        notes.set(&stream.name, &block.draining, block.handles.as_ref());
    }
    notes
}

/// Refuses handles of a table that another stream keeps, except streams that are `replaced`.
pub(super) fn one_handle_each(
    block: &Block,
    name: &str,
    notes: &StreamNotes,
    replaced: &HashSet<&str>,
    faults: &Faults,
) {
    for handle in block.handles.iter().flat_map(StreamHandles::iter) {
        let Some(other) = notes.owner(handle) else { continue };
        if other == name || replaced.contains(other) {
            continue;
        }
        faults.note(
            block.place.span.clone(),
            &block.place.path,
            format!("stream {name:?} has handle {handle}, and stream {other:?} has it, too"),
            "give each member its own handle, or remove the keys",
        );
    }
}

/// The streams of all tables, each with the index of its table. The node has `already` streams.
pub(super) fn unfold(
    blocks: &[Block],
    already: usize,
    room: u32,
    faults: &Faults,
) -> Vec<(usize, Stream)> {
    let mut streams: Vec<(usize, Stream)> = Vec::new();
    let mut names: HashSet<String> = HashSet::new();
    let mut total = already as u64;
    for (index, block) in blocks.iter().enumerate() {
        let fault = |message: String, help: &str| {
            faults.note(block.place.span.clone(), &block.place.path, message, help);
        };
        total += u64::from(block.repeat.count);
        if total > u64::from(room) {
            let message = format!(
                "this results in {}, and the node has room for {room}",
                counted(total, "stream")
            );
            fault(message, "raise max-streams under [node], or remove streams");
            break;
        }
        for n in 0..block.repeat.count {
            let name = match block.repeat.count {
                1 => block.first.name.clone(),
                _ => block.first.name.replace("{n}", &n.to_string()),
            };
            let mut stream = Stream { name, ..block.first.clone() };
            if !is_name(&stream.name) {
                let help = "use 1 to 63 letters, digits, hyphens, underscores and dots";
                fault(format!("{:?} is not a valid name", stream.name), help);
                break;
            }
            if let Err(overflow) = block.repeat.step.apply(&mut stream, n) {
                fault(
                    format!("stream {n} of {}: {} does not fit", block.repeat.count, overflow.key),
                    "use a smaller count or step, or a smaller first value",
                );
                break;
            }
            // The reader checks these rules key by key; this check also covers rules added later.
            if let Err(error) = stream.validate() {
                fault(error.to_string(), "correct the stream");
                break;
            }
            if !names.insert(stream.name.clone()) {
                let message = format!("another stream is named {:?}", stream.name);
                fault(message, "give each stream its own name");
                break;
            }
            streams.push((index, stream));
        }
    }
    streams
}
