//! Files that only the program writes: the streams that requests set and store.

use std::io;
use std::path::Path;

use onbeat_frer::spec::Stream;
use onbeat_host::{Error, PrivateDirectory, remove_unfinished, replace};

use super::{
    Addition, Config, ConfigError, LONGEST, LoadError, NodeConfig, PortConfig, StreamKeys,
    StreamOperation, StreamSet, add_stream,
};

/// Parent of the default files.
const DIRECTORY: &str = "/var/lib/onbeat";

/// First lines of a file.
const HEADER: &str = "\
# Streams that were set by onbeat yang. The program writes this file: changes are lost with the next one.
";

/// Permission bits of other users to write.
const OTHERS: u32 = 0o022;

/// The default file of the node with this name.
pub(super) fn default_file(node: &str) -> std::path::PathBuf {
    Path::new(DIRECTORY).join(format!("{node}.toml"))
}

impl NodeConfig {
    /// Reads the text of the stored streams; none: there are none.
    ///
    /// # Errors
    /// Another user could have written the file; it cannot be read.
    pub fn stored_text(&self) -> Result<Option<String>, LoadError> {
        own_text(&self.stored_streams)
    }

    /// Replaces the text of the stored streams; after a crash the file has the former text or this one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store_text(&self, text: Option<&str>) -> Result<(), Error> {
        set_own_text(&self.stored_streams, text)
    }
}

/// Reads a file that only the program writes; none: it does not exist.
pub(super) fn own_text(path: &Path) -> Result<Option<String>, LoadError> {
    let failed = |error| LoadError::Read { path: path.to_owned(), source: error };
    let read = || -> Result<Option<String>, Error> {
        // Without a file, the directory is of no importance.
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let (directory, name) = parts(path);
        let Some(directory) = PrivateDirectory::open(directory)? else { return Ok(None) };
        let text = directory.read_text(name, LONGEST)?;
        let mode = directory.stat(name)?.map_or(0, |status| status.st_mode & 0o7777);
        if mode & OTHERS != 0 {
            return Err(Error::Refused {
                path: path.to_owned(),
                why: format!("other users can write to it (mode {mode:04o})"),
                remedy: "check its content, then chmod 600 it",
            });
        }
        Ok(text)
    };
    read().map_err(|error| failed(io::Error::other(error)))
}

/// Replaces or removes such a file; after a crash it has the former text or this one.
pub(super) fn set_own_text(path: &Path, text: Option<&str>) -> Result<(), Error> {
    let (directory, name) = parts(path);
    let directory = PrivateDirectory::create(directory)?;
    let failed = |source| Error::Io { path: path.to_owned(), operation: "write it", source };
    match text {
        Some(text) => {
            remove_unfinished(&directory, name.as_ref()).map_err(failed)?;
            replace(&directory, name.as_ref(), text.as_bytes()).map_err(failed)
        }
        None => directory.remove(name),
    }
}

/// The directory and the name of a file; its path was checked.
fn parts(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (path.parent().unwrap_or(Path::new("/")), name)
}

/// Text of a file with these streams.
pub fn stored_text<'s, 'd>(
    ports: &[PortConfig],
    streams: impl IntoIterator<Item = (&'s Stream, StreamKeys<'d>)>,
) -> Option<String> {
    let mut text = HEADER.to_owned();
    for (stream, keys) in streams {
        add_stream(&mut text, ports, stream, keys);
    }
    (text.len() > HEADER.len()).then_some(text)
}

impl Config {
    /// Reads the file of a node, with the streams that managers and requests have set, as root for a node to run.
    ///
    /// # Errors
    /// Another user could have written a file; faults; streams of both files that exclude each other.
    pub fn load_with_stored(path: &Path) -> Result<Config, LoadError> {
        let mut config = Config::load_managed(path)?;
        config.load_stored()?;
        Ok(config)
    }

    /// Reads the stored streams.
    ///
    /// # Errors
    /// As [`Config::load_with_stored`].
    pub fn load_stored(&mut self) -> Result<(), LoadError> {
        match self.node.stored_text()? {
            Some(text) => Ok(self.add_stored(&text)?),
            None => Ok(()),
        }
    }

    /// Adds stored streams.
    ///
    /// # Errors
    /// Faults of the text, and streams that exclude those of the file.
    pub fn add_stored(&mut self, text: &str) -> Result<(), ConfigError> {
        let file = self.node.stored_streams.display().to_string();
        let room = (self.streams.len(), self.node.max_streams);
        let how = StreamOperation::Store;
        let addition = Addition::parse(text, &file, how, &self.ports, room)?;
        let taken = std::mem::take(&mut self.taken);
        let notes = std::mem::take(&mut self.notes);
        let mut streams = StreamSet::new(std::mem::take(&mut self.streams), taken, notes);
        let entered = addition.enter(&mut streams, &self.ports);
        if entered.is_ok() {
            addition.note(&mut streams);
        }
        (self.streams, self.taken, self.notes) = streams.into_parts();
        entered?;
        self.stored = Some(addition);
        Ok(())
    }

    /// Number of its streams that are those of the file; the others are stored ones.
    pub fn streams_of_file(&self) -> usize {
        self.streams.len() - self.stored.as_ref().map_or(0, |stored| stored.streams.len())
    }
}
