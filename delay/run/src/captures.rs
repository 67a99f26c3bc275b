//! Captures as files or standard input, in any of their formats.

use std::io::{self, Read};
use std::path::Path;

use onbeat_delay::capture::{CaptureError, Reader, decompress};
use onbeat_delay::key::Recognition;
use onbeat_delay::pairing::Tally;
use onbeat_host::file;
use onbeat_report::format::{count, count_of};
use onbeat_report::{InputKind, Inputs};

use crate::error::{Error, Result};

/// Packets between two progress reports.
pub(super) const BATCH: u64 = 4096;

/// A capture of any source and compression.
pub type Capture = Reader<Box<dyn Read>>;

/// Returns true for standard input, which can be read only once.
pub fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns true if it can be read again from its start: a file, not a pipe.
pub(super) fn can_be_read_again(path: &Path) -> bool {
    !is_input(path) && path.is_file()
}

/// Opens a capture, which is hashed as one of the inputs while it is read; `-` is standard input.
///
/// # Errors
/// An error of the file, its compression or its format.
pub fn open(path: &Path, inputs: &Inputs) -> Result<Capture> {
    let (input, kind): (Box<dyn Read + Send>, _) = if is_input(path) {
        (Box::new(io::stdin()), InputKind::Pipe)
    } else {
        let file = file::open_stream(path).map_err(|error| failure(path, error))?;
        let is_regular = file.metadata().is_ok_and(|found| found.is_file());
        (Box::new(file), if is_regular { InputKind::File } else { InputKind::Pipe })
    };
    let input = inputs.read(path, kind, input);
    let octets = decompress(input).map_err(|error| failure(path, error))?;
    Reader::new(octets).map_err(|error: CaptureError| failure(path, error))
}

/// Converts an error of a capture.
pub fn failure(path: &Path, error: impl std::fmt::Display) -> Error {
    let name = if is_input(path) { "standard input".into() } else { path.display().to_string() };
    Error::input(name, error)
}

/// Formats the progress, from packets and octets read.
pub fn progress(what: &str, packets: u64, octets: u64) -> String {
    format!("{what}: {}, {} MB", count(packets, "packet"), octets / 1_000_000)
}

/// Notes on unusable parts of a capture.
pub(super) fn notes(
    what: &str,
    tally: &Tally,
    cut_off: bool,
    (without_time, dropped): (u64, u64),
    recognition: &Recognition,
) -> Vec<String> {
    let mut notes = Vec::new();
    if dropped > 0 {
        notes.push(format!(
            "{what}: the capture dropped {}; they count as lost or as departed without an arrival; use a larger \
             buffer, `tcpdump -B 65536`",
            count(dropped, "packet")
        ));
    }
    if tally.cut > 0 {
        let shortest = tally.shortest_cut.unwrap_or(0);
        let compared = match recognition.octets {
            usize::MAX => "matching compares whole packets".to_owned(),
            octets => format!("matching compares {}", count(octets as u64, "octet")),
        };
        let packets = count(tally.cut, "packet");
        let remedy = match shortest < recognition.octets {
            true => format!("try --octets {shortest}"),
            false => "too few for their headers; capture with `tcpdump -s 0`".into(),
        };
        notes.push(format!("{what}: {packets} captured in part, and {compared}: {remedy}"));
    }
    if tally.filtered > 0 {
        notes.push(format!(
            "{what}: the filter rejected {}",
            count_of(tally.filtered, tally.packets, "packet")
        ));
    }
    if tally.other_direction > 0 {
        let packets = count(tally.other_direction, "packet");
        notes.push(format!("{what}: ignored {packets} of the other direction"));
    }
    if tally.malformed > 0 {
        notes.push(format!("{what}: {} cut off within headers", count(tally.malformed, "packet")));
    }
    if without_time > 0 {
        notes.push(format!("{what}: {} without a time stamp", count(without_time, "packet")));
    }
    if cut_off {
        notes.push(format!(
            "{what} ends within a packet: it was truncated, or is still being written"
        ));
    }
    notes
}
