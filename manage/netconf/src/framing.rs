//! Framing of messages (RFC 6242): by an end mark until both sides have said hello, then in chunks if both can.

/// Maximum length of a message in octets.
pub const LONGEST: usize = 1 << 20;

/// End of a message without chunks.
const END_MARK: &[u8] = b"]]>]]>";

/// Maximum number of digits of a chunk's length.
const DIGITS: usize = 10;

/// Octets that are no frame. The session ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// More than [`LONGEST`].
    #[error("a message is longer than {LONGEST} octets; send a smaller one")]
    TooLong,
    /// No start of a chunk, or of the end of chunks.
    #[error(
        "octets {found:?} do not start a chunk; send \"\\n#LENGTH\\n\", or \"\\n##\\n\" at the end"
    )]
    NoChunk {
        /// The first octets.
        found: String,
    },
}

/// Messages out of received octets.
#[derive(Debug, Default)]
pub struct Decoder {
    input: Vec<u8>,
    /// Octets of the input in which no end mark starts.
    searched: usize,
    is_chunked: bool,
    /// Octets of the message's chunks so far.
    message: Vec<u8>,
    /// Missing octets of the present chunk.
    missing: usize,
}

impl Decoder {
    /// Messages from the next one on are in chunks.
    pub fn use_chunks(&mut self) {
        self.is_chunked = true;
    }

    /// Adds received octets.
    pub fn push(&mut self, octets: &[u8]) {
        self.input.extend_from_slice(octets);
    }

    /// Whether a message is incomplete.
    pub fn is_partial(&self) -> bool {
        self.missing > 0
            || !self.message.is_empty()
            || self.input.iter().any(|octet| !octet.is_ascii_whitespace())
    }

    /// Returns the next message; `None`: it is not complete.
    ///
    /// # Errors
    /// The octets are no frame, or the message is too long.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        if self.is_chunked { self.next_of_chunks() } else { self.next_of_mark() }
    }

    fn next_of_mark(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let unsearched = self.input[self.searched..].windows(END_MARK.len());
        let found = { unsearched }.position(|octets| octets == END_MARK);
        let Some(end) = found.map(|end| self.searched + end) else {
            self.searched = (self.input.len() + 1).saturating_sub(END_MARK.len());
            return if self.input.len() > LONGEST { Err(FramingError::TooLong) } else { Ok(None) };
        };
        if end > LONGEST {
            return Err(FramingError::TooLong);
        }
        let message = self.input[..end].to_vec();
        self.input.drain(..end + END_MARK.len());
        self.searched = 0;
        Ok(Some(message))
    }

    fn next_of_chunks(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        loop {
            let taken = self.missing.min(self.input.len());
            self.message.extend(self.input.drain(..taken));
            self.missing -= taken;
            if self.missing > 0 {
                return Ok(None);
            }
            match self.header()? {
                None => return Ok(None),
                Some(0) => return Ok(Some(std::mem::take(&mut self.message))),
                Some(length) if self.message.len() + length > LONGEST => {
                    return Err(FramingError::TooLong);
                }
                Some(length) => self.missing = length,
            }
        }
    }

    /// Removes the header of a chunk; returns its length, 0: end of the chunks.
    fn header(&mut self) -> Result<Option<usize>, FramingError> {
        let input = &self.input[..self.input.len().min(DIGITS + 3)];
        let invalid = || FramingError::NoChunk {
            found: String::from_utf8_lossy(&input[..input.len().min(DIGITS)]).into_owned(),
        };
        if !input.starts_with(&b"\n#"[..input.len().min(2)]) {
            return Err(invalid());
        }
        let Some(rest) = input.get(2..) else { return Ok(None) };
        let Some(end) = rest.iter().position(|octet| *octet == b'\n') else {
            let is_start = rest.len() <= DIGITS
                && (rest == b"#"
                    || rest.iter().all(u8::is_ascii_digit) && rest.first() != Some(&b'0'));
            return if is_start { Ok(None) } else { Err(invalid()) };
        };
        let length = match &rest[..end] {
            b"#" if !self.message.is_empty() => 0,
            digits if digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0") => {
                let text = std::str::from_utf8(digits).unwrap_or_default();
                text.parse::<u32>().map_err(|_| invalid())? as usize
            }
            _ => return Err(invalid()),
        };
        self.input.drain(..2 + end + 1);
        Ok(Some(length))
    }
}

/// The frame of a message.
pub fn encode(message: &str, is_chunked: bool) -> Vec<u8> {
    match is_chunked {
        true => format!("\n#{}\n{message}\n##\n", message.len()).into_bytes(),
        false => [message.as_bytes(), END_MARK].concat(),
    }
}
