//! Inputs of a command, hashed while they are read.

use std::ffi::OsStr;
use std::fmt::Write;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An input of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Path or name, as on the command line; `-` is standard input. A backslash is `\\`, an octet that is not part
    /// of UTF-8 is `\xNN`.
    pub name: String,
    /// The kind.
    pub kind: InputKind,
    /// Octets of a file, or of a pipe read to its end.
    pub size_octets: Option<u64>,
    /// SHA-256 of these octets, hexadecimal.
    pub sha256: Option<String>,
}

/// The kind of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// A regular file.
    File,
    /// Standard input or a FIFO, which can be read once.
    Pipe,
    /// A network interface, captured live.
    Interface,
    /// The file of a key. Neither its size nor its hash is recorded.
    Secret,
}

impl Input {
    /// Creates an interface that is captured live.
    pub fn interface(name: impl AsRef<OsStr>) -> Self {
        Self::without_hash(name, InputKind::Interface)
    }

    /// The file of a key.
    pub fn secret(name: impl AsRef<OsStr>) -> Self {
        Self::without_hash(name, InputKind::Secret)
    }

    /// Creates a file from its whole content.
    pub fn of_file(name: impl AsRef<OsStr>, content: &[u8]) -> Self {
        let digest = Sha256::digest(content);
        Self {
            size_octets: Some(content.len() as u64),
            sha256: Some(hexadecimal(&digest)),
            ..Self::without_hash(name, InputKind::File)
        }
    }

    fn without_hash(name: impl AsRef<OsStr>, kind: InputKind) -> Self {
        Self { name: written(name.as_ref()), kind, size_octets: None, sha256: None }
    }
}

/// A name as text, which differs for different names.
fn written(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for octet in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{octet:02x}");
        }
    }
    text
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The inputs of a command, in the order of opening.
#[derive(Debug, Clone, Default)]
pub struct Inputs(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug)]
enum Entry {
    Known(Input),
    Read { input: Input, stream: SharedStream },
}

type SharedStream = Arc<Mutex<Stream>>;

/// A stream with the hash of its content read so far.
struct Stream {
    from: Box<dyn Read + Send>,
    hash: Sha256,
    octets: u64,
    complete: bool,
}

impl Inputs {
    /// Adds an input; replaces one of the same name and kind.
    pub fn add(&self, input: Input) {
        let mut entries = lock(&self.0);
        let known = entries.iter_mut().find(|entry| entry.is(&input));
        match known {
            Some(entry) => *entry = Entry::Known(input),
            None => entries.push(Entry::Known(input)),
        }
    }

    /// Adds a file or a pipe, which is hashed while the returned reader is read. If an input is opened more
    /// than once, the first reader that reaches the end is used.
    pub fn read(
        &self,
        name: impl AsRef<OsStr>,
        kind: InputKind,
        from: Box<dyn Read + Send>,
    ) -> Box<dyn Read + Send> {
        let input = Input::without_hash(name, kind);
        let mut entries = lock(&self.0);
        let known = entries.iter().position(|entry| entry.is(&input));
        let is_known = known.is_some_and(|place| entries[place].is_complete());
        if is_known {
            return from;
        }
        let stream = Stream { from, hash: Sha256::new(), octets: 0, complete: false };
        let stream = Arc::new(Mutex::new(stream));
        let entry = Entry::Read { input, stream: Arc::clone(&stream) };
        match known {
            Some(place) => entries[place] = entry,
            None => entries.push(entry),
        }
        Box::new(HashedReader(stream))
    }

    /// Returns all inputs. Reads the remaining part of files; a pipe that was not read to its end has no
    /// hash.
    pub(crate) fn finish(&self) -> Vec<Input> {
        lock(&self.0).iter().map(Entry::finish).collect()
    }
}

impl Entry {
    fn is(&self, other: &Input) -> bool {
        let (Self::Known(input) | Self::Read { input, .. }) = self;
        input.name == other.name && input.kind == other.kind
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Read { stream, .. } => lock(stream).complete,
        }
    }

    fn finish(&self) -> Input {
        let (mut input, stream) = match self {
            Self::Known(input) => return input.clone(),
            Self::Read { input, stream } => (input.clone(), stream),
        };
        let mut stream = lock(stream);
        if input.kind == InputKind::File && !stream.complete {
            // A file that cannot be read to its end has no hash.
            let _ = io::copy(&mut *stream, &mut io::sink());
        }
        if stream.complete {
            input.size_octets = Some(stream.octets);
            input.sha256 = Some(hexadecimal(&stream.hash.clone().finalize()));
        }
        input
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        if !self.complete {
            self.hash.update(&into[..count]);
            self.octets += count as u64;
            self.complete = count == 0 && !into.is_empty();
        }
        Ok(count)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { octets, complete, .. } = self;
        f.debug_struct("Stream")
            .field("octets", octets)
            .field("complete", complete)
            .finish_non_exhaustive()
    }
}

/// Hashes the content that is read through it.
#[derive(Debug)]
struct HashedReader(SharedStream);

impl Read for HashedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        lock(&self.0).read(into)
    }
}

/// A reader that panicked leaves consistent state.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const TEXT: &[u8] = b"packets\n";

    fn open(inputs: &Inputs, kind: InputKind, content: &'static [u8]) -> Box<dyn Read + Send> {
        inputs.read("in.pcap", kind, Box::new(content))
    }

    fn read_to_end(mut from: Box<dyn Read + Send>) -> Vec<u8> {
        let mut octets = Vec::new();
        from.read_to_end(&mut octets).unwrap();
        octets
    }

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        let path = std::env::temp_dir().join(format!("onbeat-sha256-{}", std::process::id()));
        for length in [0, 1, 55, 56, 63, 64, 65, 100_003] {
            let content: Vec<u8> = (0..length).map(|at: u32| ((at * 7919) >> 3) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let printed = Command::new("sha256sum").arg(&path).output().unwrap().stdout;
            let printed = String::from_utf8(printed).unwrap();
            let expected = printed.split(' ').next().unwrap();
            let inputs = Inputs::default();
            let file = std::fs::File::open(&path).unwrap();
            let read = read_to_end(inputs.read("x", InputKind::File, Box::new(file)));
            assert_eq!(read, content);
            let found = inputs.finish().remove(0);
            assert_eq!(found.sha256.as_deref(), Some(expected), "{length}");
            assert_eq!(found, Input::of_file("x", &content));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_rest_of_a_file_is_hashed_and_of_a_pipe_is_not_read() {
        for (kind, hashed) in [(InputKind::File, true), (InputKind::Pipe, false)] {
            let inputs = Inputs::default();
            let mut reader = open(&inputs, kind, TEXT);
            reader.read_exact(&mut [0; 3]).unwrap();
            drop(reader);
            let found = inputs.finish().remove(0);
            assert_eq!(found.sha256.is_some(), hashed, "{kind:?}");
            assert_eq!(found.size_octets, hashed.then_some(8), "{kind:?}");
        }
        let inputs = Inputs::default();
        read_to_end(open(&inputs, InputKind::Pipe, TEXT));
        assert_eq!(inputs.finish()[0].sha256, Input::of_file("", TEXT).sha256);
    }

    #[test]
    fn an_input_read_twice_is_recorded_and_hashed_once() {
        struct CountingReader(Arc<Mutex<u32>>, &'static [u8]);
        impl Read for CountingReader {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                *lock(&self.0) += 1;
                self.1.read(into)
            }
        }
        let inputs = Inputs::default();
        let reads = Arc::default();
        let open = || {
            let counted = CountingReader(Arc::clone(&reads), TEXT);
            inputs.read("in.pcap", InputKind::File, Box::new(counted))
        };
        open().read_exact(&mut [0; 3]).unwrap();
        let whole = read_to_end(open());
        open().read_exact(&mut [0; 3]).unwrap();
        assert_eq!(whole, TEXT);
        let before = *lock(&reads);
        let found = inputs.finish();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].sha256, Input::of_file("", TEXT).sha256);
        assert_eq!(*lock(&reads), before, "a complete input is not read again");
    }

    #[test]
    fn no_two_names_are_written_alike() {
        let names: [&[u8]; 8] = [
            b"a\xff",
            b"a\xfe",
            b"a\\xff",
            b"a\\\\xff",
            "a\u{fffd}".as_bytes(),
            b"a\xc3",
            "a\u{e9}".as_bytes(),
            b"a",
        ];
        let inputs = Inputs::default();
        for name in names {
            let name = OsStr::from_bytes(name);
            read_to_end(inputs.read(name, InputKind::File, Box::new(TEXT)));
            inputs.add(Input::of_file(name, TEXT));
        }
        let found = inputs.finish();
        let found: Vec<&str> = found.iter().map(|input| input.name.as_str()).collect();
        let written =
            ["a\\xff", "a\\xfe", "a\\\\xff", "a\\\\\\\\xff", "a\u{fffd}", "a\\xc3", "a\u{e9}", "a"];
        assert_eq!(found, written);
    }

    #[test]
    fn live_inputs_and_keys_have_no_hash() {
        let inputs = Inputs::default();
        inputs.add(Input::interface("eth0"));
        inputs.add(Input::secret("probe.key"));
        inputs.add(Input::interface("eth0"));
        let found = inputs.finish();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|input| input.sha256.is_none() && input.size_octets.is_none()));
    }
}
