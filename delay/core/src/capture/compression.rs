//! Compressed captures, recognized by their first octets.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame that decoders skip; pzstd starts its files with one.
const ZSTD_SKIPPABLE: u8 = 0x50;

/// Buffer for compressed octets.
const CHUNK: usize = 256 * 1024;

/// Binary logarithm of the largest window of a zstd frame, which its decoder keeps in memory: 128 MiB,
/// as the `zstd` command allows without `--long` or `--memory`.
const WINDOW_LOG: u32 = 27;
const ZSTD_LIMITS: &str =
    "; the limits are a window of 128 MiB (zstd --long=27) and blocks of 128 KiB";

/// The input itself, or the content of its gzip members or zstd frames.
///
/// Memory does not grow with the content: it is 32 KiB for gzip, and the window of the frame for zstd,
/// which is refused above 128 MiB. Errors name an octet of the compressed input before the fault, at most
/// 256 KiB before it.
pub fn decompress<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut start)?;
    let gzip = start.starts_with(&GZIP);
    let zstd =
        start == ZSTD || matches!(start[..], [first, 0x2a, 0x4d, 0x18] if is_skippable(first));
    let whole = Cursor::new(start).chain(input);
    if !gzip && !zstd {
        return Ok(Box::new(whole));
    }
    let consumed = Rc::new(Cell::new(0));
    let input = BufReader::with_capacity(CHUNK, whole);
    let input = CountingReader { input, consumed: Rc::clone(&consumed) };
    Ok(if gzip {
        Box::new(PositionedDecoder {
            content: MultiGzDecoder::new(input),
            consumed,
            format: "gzip",
            limits: "",
        })
    } else {
        let mut content = Decoder::with_buffer(input)?;
        content.window_log_max(WINDOW_LOG)?;
        Box::new(PositionedDecoder { content, consumed, format: "zstd", limits: ZSTD_LIMITS })
    })
}

fn is_skippable(first: u8) -> bool {
    first & 0xf0 == ZSTD_SKIPPABLE
}

/// Counts the octets that a decoder consumes.
struct CountingReader<R> {
    input: R,
    consumed: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for CountingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.consumed.set(self.consumed.get() + read as u64);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, octets: usize) {
        self.consumed.set(self.consumed.get() + octets as u64);
        self.input.consume(octets);
    }
}

/// A decoder whose errors name the position in the compressed input.
struct PositionedDecoder<R> {
    content: R,
    consumed: Rc<Cell<u64>>,
    format: &'static str,
    /// Appended to an error, of which they may be the cause.
    limits: &'static str,
}

impl<R: Read> Read for PositionedDecoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.content.read(out).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let PositionedDecoder { format, limits, .. } = self;
            let at = self.consumed.get();
            io::Error::new(error.kind(), format!("{format} data after octet {at}: {error}{limits}"))
        })
    }
}
