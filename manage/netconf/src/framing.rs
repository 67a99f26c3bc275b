//! Framing of messages (RFC 6242): by an end mark until both sides have said hello, then in chunks if both can.

/// Maximum length of a message in octets.
pub const LONGEST: usize = 1 << 20;

/// Maximum length of a message in octets whose end is awaited. Those beyond [`LONGEST`] are discarded.
const DISCARDED: usize = 64 << 20;

/// End of a message without chunks.
const END_MARK: &[u8] = b"]]>]]>";

/// Maximum number of digits of a chunk's length.
const DIGITS: usize = 10;

/// A message that is not received, or octets that are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// More than [`LONGEST`].
    #[error("a message is longer than {LONGEST} octets; send a smaller one")]
    TooLong {
        /// Its first octets.
        start: Vec<u8>,
        /// Whether it is received to its end, and the next message follows.
        is_whole: bool,
    },
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
    is_chunked: bool,
    /// Octets of the message so far, up to [`LONGEST`].
    message: Vec<u8>,
    /// Number of octets of the message so far.
    length: usize,
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
        let mut octets = self.message.iter().chain(&self.input);
        self.missing > 0 || octets.any(|octet| !octet.is_ascii_whitespace())
    }

    /// Returns the next message; `None`: it is not complete.
    ///
    /// # Errors
    /// The octets are no frame, or the message is too long.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        if self.is_chunked { self.next_of_chunks() } else { self.next_of_mark() }
    }

    fn next_of_mark(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let found = self.input.windows(END_MARK.len()).position(|octets| octets == END_MARK);
        // An end mark may start in the last octets.
        self.keep(found.unwrap_or((self.input.len() + 1).saturating_sub(END_MARK.len())));
        if found.is_none() {
            return self.check_length(0).map(|()| None);
        }
        self.input.drain(..END_MARK.len());
        self.finish().map(Some)
    }

    /// Moves octets of the input to the message, or discards them.
    fn keep(&mut self, octets: usize) {
        let kept = octets.min(LONGEST - self.message.len());
        self.message.extend(self.input.drain(..octets).take(kept));
        self.length += octets;
    }

    /// The message, which is complete.
    fn finish(&mut self) -> Result<Vec<u8>, FramingError> {
        let message = std::mem::take(&mut self.message);
        match std::mem::take(&mut self.length) {
            length if length > LONGEST => {
                Err(FramingError::TooLong { start: message, is_whole: true })
            }
            _ => Ok(message),
        }
    }

    /// Checks that the end of a message with this number of further octets is awaited.
    fn check_length(&mut self, further: usize) -> Result<(), FramingError> {
        if self.length + further > DISCARDED {
            let start = std::mem::take(&mut self.message);
            return Err(FramingError::TooLong { start, is_whole: false });
        }
        Ok(())
    }

    fn next_of_chunks(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        loop {
            let taken = self.missing.min(self.input.len());
            self.keep(taken);
            self.missing -= taken;
            if self.missing > 0 {
                return Ok(None);
            }
            match self.header()? {
                None => return Ok(None),
                Some(0) => return self.finish().map(Some),
                Some(length) => {
                    self.check_length(length)?;
                    self.missing = length;
                }
            }
        }
    }

    /// Removes the header of a chunk; returns its length, 0: end of the chunks.
    fn header(&mut self) -> Result<Option<usize>, FramingError> {
        let input = &self.input[..self.input.len().min(DIGITS + 3)];
        // The first octet that does not fit decides, however many have arrived.
        let invalid = |at: usize| FramingError::NoChunk {
            found: String::from_utf8_lossy(&input[..=at]).into_owned(),
        };
        for (at, octet) in input.iter().enumerate() {
            let is_end = at > 2 && *octet == b'\n';
            let fits = match at {
                0 => *octet == b'\n',
                1 => *octet == b'#',
                2 if *octet == b'#' => !self.message.is_empty(),
                2 => matches!(octet, b'1'..=b'9'),
                _ if is_end => true,
                _ => octet.is_ascii_digit() && input[2] != b'#' && at < 2 + DIGITS,
            };
            if !fits {
                return Err(invalid(at));
            }
            if is_end {
                let length = match std::str::from_utf8(&input[2..at]) {
                    Ok("#") => 0,
                    digits => digits.unwrap_or_default().parse::<u32>().map_err(|_| invalid(at))?,
                };
                self.input.drain(..=at);
                return Ok(Some(length as usize));
            }
        }
        Ok(None)
    }
}

/// The frame of a message.
pub fn encode(message: &str, is_chunked: bool) -> Vec<u8> {
    match is_chunked {
        true => format!("\n#{}\n{message}\n##\n", message.len()).into_bytes(),
        false => [message.as_bytes(), END_MARK].concat(),
    }
}
