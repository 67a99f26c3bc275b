//! Compressed captures, told by how they begin.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame that decoders step over; pzstd begins its files with one.
const ZSTD_SKIPPABLE: u8 = 0x50;

/// Room for compressed octets.
const CHUNK: usize = 256 * 1024;

/// The input as it is, or what its gzip members or zstd frames hold.
pub fn decompress<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut start)?;
    let gzip = start.starts_with(&GZIP);
    let zstd =
        start == ZSTD || matches!(start[..], [first, 0x2a, 0x4d, 0x18] if is_skippable(first));
    let whole = Cursor::new(start).chain(input);
    Ok(if gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, whole)))
    } else if zstd {
        let input = BufReader::with_capacity(CHUNK, whole);
        Box::new(Zstd { input, frame: FrameDecoder::new(), within: false })
    } else {
        Box::new(whole)
    })
}

fn is_skippable(first: u8) -> bool {
    first & 0xf0 == ZSTD_SKIPPABLE
}

/// Frame after frame, as `zstd` itself reads a file.
struct Zstd<R: Read> {
    input: BufReader<R>,
    frame: FrameDecoder,
    within: bool,
}

impl<R: Read> Zstd<R> {
    /// Begins the next frame that holds something; `false` at the end of the input.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.input) {
                Ok(()) => {
                    self.within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = (&mut self.input).take(length.into());
                    io::copy(&mut { skipped }, &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.within && !self.begin()? {
                return Ok(0);
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(out.len());
                self.frame.decode_blocks(&mut self.input, some).map_err(damaged)?;
            }
            let read = self.frame.read(out)?;
            if read > 0 {
                return Ok(read);
            }
            self.within = false;
            let stated = self.frame.get_checksum_from_data();
            if stated.is_some() && stated != self.frame.get_calculated_checksum() {
                return Err(damaged("the checksum of a zstd frame does not match"));
            }
        }
    }
}

fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
