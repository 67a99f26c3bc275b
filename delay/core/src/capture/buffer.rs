//! The input window in which records are decoded.

use std::io::{self, Read};

/// Octets requested at once, and the memory of a reader. The octets of a read are still in the CPU's nearest caches
/// when its packets are processed.
const CHUNK: usize = 64 * 1024;

pub(super) struct Buffer<R> {
    input: R,
    octets: Vec<u8>,
    /// The octets not consumed yet: `octets[start..end]`.
    start: usize,
    end: usize,
    /// The position of `octets[0]` in the input.
    base: u64,
    ended: bool,
    cut_off: bool,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(input: R) -> Self {
        Buffer {
            input,
            octets: vec![0; CHUNK],
            start: 0,
            end: 0,
            base: 0,
            ended: false,
            cut_off: false,
        }
    }

    /// Returns the next `len` octets without consuming them; `None` if the input is shorter.
    #[inline]
    pub(super) fn peek(&mut self, len: usize) -> io::Result<Option<&[u8]>> {
        if self.end - self.start < len && !self.fill(len)? {
            return Ok(None);
        }
        Ok(self.octets.get(self.start..self.start + len))
    }

    /// Like [`peek`](Self::peek), within a record: an input that ends here is cut off.
    #[inline]
    pub(super) fn need(&mut self, len: usize) -> io::Result<Option<&[u8]>> {
        if self.end - self.start < len && !self.fill(len)? {
            self.cut_off |= self.end > self.start;
            return Ok(None);
        }
        Ok(self.octets.get(self.start..self.start + len))
    }

    /// Reads until `len` octets are present, if the input has them.
    #[cold]
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        self.octets.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if self.octets.len() < len {
            self.octets.resize(len, 0);
        }
        while self.end < len && !self.ended {
            match self.input.read(&mut self.octets[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.end >= len)
    }

    /// Consumes `len` octets.
    #[inline]
    pub(super) fn take(&mut self, len: usize) {
        self.start += len;
    }

    /// Returns the last consumed octets: `len` of them, starting `back` before the next one.
    #[inline]
    pub(super) fn taken(&self, back: usize, len: usize) -> &[u8] {
        &self.octets[self.start - back..][..len]
    }
}

impl<R> Buffer<R> {
    pub(super) fn remaining(&self) -> &[u8] {
        &self.octets[self.start..self.end]
    }

    /// The position of the next octet in the input.
    pub(super) fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    pub(super) fn cut_off(&self) -> bool {
        self.cut_off
    }
}
