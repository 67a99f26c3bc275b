//! The result of a recording.

mod outcome;
mod rows;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use onbeat_host::file;
use onbeat_irq_core::recording::{self, Reader, Summary, Timelines};
use onbeat_report::Outcome;

use crate::{Error, Result};

/// Processes with a time line.
const LINES: usize = 6;

/// Reads a recording; with `partial` also one without its end.
///
/// # Errors
/// [`Error::Read`].
pub fn read(path: &Path, partial: bool) -> Result<Outcome> {
    let outcome = || {
        let summary = Summary::of(open(path)?, partial)?;
        let lines = Timelines::of(open(path)?, &summary, LINES)?;
        Ok(outcome::of(summary, &lines))
    };
    outcome().map_err(|source| Error::Read { path: path.into(), source })
}

fn open(path: &Path) -> recording::Result<Reader<BufReader<File>>> {
    Reader::open(BufReader::new(file::open_regular(path)?))
}
