//! The result of a recording.

mod outcome;
mod rows;

use std::io::{BufReader, Read};
use std::path::Path;

use onbeat_host::file;
use onbeat_irq_core::recording::{self, Reader, Summary, Timelines};
use onbeat_report::{InputKind, Inputs, Outcome, Run};

use crate::{Error, Result};

/// Maximum number of processes with a time line.
const LINES: usize = 6;

/// Reads a recording; with `partial` also one without its end line.
///
/// # Errors
/// [`Error::Read`].
pub fn read(path: &Path, partial: bool) -> Result<Outcome> {
    let run = Run::analysis("irq-recording");
    let outcome = || {
        let summary = Summary::of(open(path, run.inputs())?, partial)?;
        let lines = Timelines::of(open(path, run.inputs())?, &summary, LINES)?;
        Ok((summary, lines))
    };
    let (summary, lines) = outcome().map_err(|source| Error::Read { path: path.into(), source })?;
    Ok(outcome::of(run, summary, &lines))
}

fn open(
    path: &Path,
    inputs: &Inputs,
) -> recording::Result<Reader<BufReader<Box<dyn Read + Send>>>> {
    let file = file::open_regular(path)?;
    let file = inputs.read(path, InputKind::File, Box::new(file));
    Reader::open(BufReader::new(file))
}
