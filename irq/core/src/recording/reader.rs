//! Reading a recording, line by line.

use std::io::{BufRead, Read};

use super::{Error, FORMAT, Line, RecordingHeader, Result, VERSION};

/// Maximum length of a line: a longer one belongs to another kind of file, or would cost too much memory.
const LONGEST: u64 = 256 << 20;

/// Maximum number of characters of an invalid first line in an error.
const SHOWN: usize = 60;

/// Reads a recording. An iterator over the lines after the first; it ends after an error.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: RecordingHeader,
    line: u64,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The last line was read, or an error occurred.
    Over,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`Error::NoRecording`], [`Error::Version`], and read errors.
    pub fn open(mut from: R) -> Result<Self> {
        let octets = read_line(&mut from, 1)?;
        let other = || Error::NoRecording(shown(&octets));
        // The other members of another version are unknown.
        let value: serde_json::Value = serde_json::from_slice(&octets).map_err(|_| other())?;
        if value["format"] != FORMAT {
            return Err(other());
        }
        match value["version"].as_u64() {
            Some(1..=VERSION) => {}
            Some(found) => return Err(Error::Version { found }),
            None => return Err(other()),
        }
        match serde_json::from_value(value) {
            Ok(Line::Begin(header)) => Ok(Self { from, header, line: 1, state: State::Open }),
            Ok(_) => Err(other()),
            Err(error) => Err(Error::Line { line: 1, what: error.to_string() }),
        }
    }

    /// Method and machine of the recording.
    #[must_use]
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    fn read(&mut self) -> Result<Line> {
        let octets = read_line(&mut self.from, self.line + 1)?;
        if octets.last() != Some(&b'\n') {
            return Err(Error::CutOff { line: self.line });
        }
        self.line += 1;
        let broken = |what: String| Error::Line { line: self.line, what };
        let line = serde_json::from_slice(&octets).map_err(|error| broken(error.to_string()))?;
        if matches!(line, Line::Begin(_)) {
            return Err(broken("another recording starts".into()));
        }
        Ok(line)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Over {
            return None;
        }
        let line = self.read();
        if matches!(line, Ok(Line::End(_)) | Err(_)) {
            self.state = State::Over;
        }
        Some(line)
    }
}

/// A first line, formatted for an error.
fn shown(octets: &[u8]) -> String {
    match std::str::from_utf8(octets.trim_ascii_end()) {
        Ok("") => "empty".into(),
        Ok(text) if !text.contains(|c: char| c.is_control() && c != '\t') => {
            format!("{:?}", text.chars().take(SHOWN).collect::<String>())
        }
        _ => "binary".into(),
    }
}

fn read_line(from: &mut impl BufRead, line: u64) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    from.by_ref().take(LONGEST).read_until(b'\n', &mut octets)?;
    if octets.len() as u64 == LONGEST {
        return Err(Error::Line { line, what: format!("longer than {LONGEST} octets") });
    }
    Ok(octets)
}
