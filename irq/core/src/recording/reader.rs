//! Reading a recording, line by line.

use std::io::{BufRead, Read};

use super::{Begin, Error, FORMAT, Line, Result, VERSION, VERSION_SAMPLED};

/// No line of ours is longer: it is another kind of file, or not worth the memory.
const LONGEST: u64 = 256 << 20;

/// Characters of a first line that are shown where they are not what they should be.
const SHOWN: usize = 60;

/// Reads a recording. It is an iterator over the lines after the first; nothing follows an error.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    begin: Begin,
    line: u64,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The end was read, or an error.
    Over,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`Error::NoRecording`], [`Error::Version`], and those of reading.
    pub fn open(mut from: R) -> Result<Self> {
        let octets = read_line(&mut from, 1)?;
        let other = || Error::NoRecording(shown(&octets));
        // The other members of another version are not known.
        let value: serde_json::Value = serde_json::from_slice(&octets).map_err(|_| other())?;
        if value["format"] != FORMAT {
            return Err(other());
        }
        match value["version"].as_u64() {
            Some(VERSION | VERSION_SAMPLED) => {}
            Some(found) => return Err(Error::Version { found }),
            None => return Err(other()),
        }
        match serde_json::from_value(value) {
            Ok(Line::Begin(begin)) => Ok(Self { from, begin, line: 1, state: State::Open }),
            Ok(_) => Err(other()),
            Err(error) => Err(Error::Line { line: 1, what: error.to_string() }),
        }
    }

    /// How and where it was recorded.
    #[must_use]
    pub fn begin(&self) -> &Begin {
        &self.begin
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
            return Err(broken("another recording begins".into()));
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

/// A first line as an error shows it.
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
        return Err(Error::Line { line, what: format!("it is longer than {LONGEST} octets") });
    }
    Ok(octets)
}
