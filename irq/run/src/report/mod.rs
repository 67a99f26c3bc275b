//! The result of a recording.

mod outcome;
mod rows;

use std::io::{BufReader, Read};
use std::path::Path;

use onbeat_host::file;
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::ProcessInfo;
use onbeat_irq_core::recording::{self, Reader, Summary, Timelines};
use onbeat_irq_core::view::{GroupKey, ProcessRow, Table};
use onbeat_report::{InputKind, Inputs, Outcome, Run};

use crate::{Error, Result};

/// Maximum number of processes or groups with a time line.
const LINES: usize = 6;

/// Reads a recording; with `partial` also one without its end line. With a key other than the process, the result has
/// a table by this key.
///
/// # Errors
/// [`Error::Read`].
pub fn read(path: &Path, partial: bool, by: GroupKey) -> Result<Outcome> {
    let run = Run::analysis("irq-recording");
    let outcome = || {
        let summary = Summary::of(open(path, run.inputs())?, partial)?;
        let name = |process| line_name(&summary, process, by);
        let lines = Timelines::of(open(path, run.inputs())?, &summary, LINES, name)?;
        Ok((summary, lines))
    };
    let (summary, lines) = outcome().map_err(|source| Error::Read { path: path.into(), source })?;
    Ok(outcome::of(run, summary, &lines, by))
}

/// The name of the time line of a process: its group, if the key is one of processes.
fn line_name(summary: &Summary, process: Process, by: GroupKey) -> String {
    let description = summary.description(process).cloned();
    let row = ProcessRow::named(process, ProcessInfo { description, ended: false });
    let key = if by.is_of_process() { by } else { GroupKey::Process };
    key.of(&row).unwrap_or_else(|| "none".into())
}

/// Reads the caused time of a recording as folded stacks, for flame graphs.
///
/// # Errors
/// [`Error::Read`].
pub fn folded(path: &Path, partial: bool, by: GroupKey) -> Result<String> {
    let run = Run::analysis("irq-recording");
    let summary = open(path, run.inputs()).and_then(|reader| Summary::of(reader, partial));
    let mut summary = summary.map_err(|source| Error::Read { path: path.into(), source })?;
    let estimate = summary.estimate();
    let length_ns = summary.length_ns;
    Ok(Table::of_estimate(&estimate, length_ns, &mut summary).folded(by))
}

fn open(
    path: &Path,
    inputs: &Inputs,
) -> recording::Result<Reader<BufReader<Box<dyn Read + Send>>>> {
    let file = file::open_regular(path)?;
    let file = inputs.read(path, InputKind::File, Box::new(file));
    Reader::open(BufReader::new(file))
}
