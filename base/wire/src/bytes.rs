//! Access to octets without panics.

use crate::{EmitError, TruncationError};

/// Splits off the first `N` octets.
pub(crate) fn split<'a, const N: usize>(
    what: &'static str,
    octets: &'a [u8],
) -> Result<(&'a [u8; N], &'a [u8]), TruncationError> {
    octets.split_first_chunk().ok_or(TruncationError { what, needed: N, len: octets.len() })
}

/// Returns the first `N` octets of a buffer to write to.
pub(crate) fn room<'a, const N: usize>(
    what: &'static str,
    buffer: &'a mut [u8],
) -> Result<&'a mut [u8; N], EmitError> {
    let len = buffer.len();
    buffer.first_chunk_mut().ok_or(EmitError::NoRoom { what, needed: N, len })
}

/// Reads the big-endian 16-bit number at `at`; `None`: incomplete.
pub(crate) fn be16(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// Writes slices one after another.
pub(crate) struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Writer { buffer, at: 0 }
    }

    /// Returns the unwritten part.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.at..).unwrap_or_default()
    }

    /// Counts `n` octets of [`rest`](Self::rest) as written.
    pub(crate) fn advance(&mut self, n: usize) {
        self.at += n;
    }

    pub(crate) fn put(&mut self, what: &'static str, octets: &[u8]) -> Result<(), EmitError> {
        let rest = self.rest();
        let len = rest.len();
        rest.get_mut(..octets.len())
            .ok_or(EmitError::NoRoom { what, needed: octets.len(), len })?
            .copy_from_slice(octets);
        self.advance(octets.len());
        Ok(())
    }

    /// Returns the number of octets written.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}
