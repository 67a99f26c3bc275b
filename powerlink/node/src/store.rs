//! Stores a controlled node's parameters in a file (0x1010, 0x1011).
//!
//! A disk write would delay the node's thread, so another thread writes. After a power failure the file is
//! either the former or the new one, complete.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use onbeat_host::{file, trust};
use onbeat_powerlink::cn::StoreCommand;
use onbeat_report::format;

/// Maximum octets of a file of parameters.
const LONGEST: u64 = 16 << 20;

/// A command for the thread: write these octets, or remove the file.
type Order = Option<Vec<u8>>;

/// A file for parameters, and the thread that writes it.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    orders: Option<Sender<Order>>,
    results: Receiver<io::Result<()>>,
    thread: Option<JoinHandle<()>>,
    written: u64,
    failed: Option<io::Error>,
}

impl Store {
    /// Opens the store, and returns its content.
    ///
    /// # Errors
    /// The file cannot be read, is longer than [`LONGEST`], or another user could have written it; its folder
    /// does not exist.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Option<Vec<u8>>)> {
        let directory = File::open(folder(path))?;
        onbeat_host::remove_unfinished(directory, path.file_name().unwrap_or_default())?;
        let kept = read(path)?;
        let (orders, to_do) = mpsc::channel::<Order>();
        let (done, results) = mpsc::channel();
        let file = path.to_owned();
        let work = move || {
            while let Ok(order) = to_do.recv() {
                let result = match order {
                    Some(octets) => replace(&file, &octets),
                    None => remove(&file),
                };
                if done.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("powerlink-store".into()).spawn(work)?;
        let path = path.to_owned();
        let (orders, thread) = (Some(orders), Some(thread));
        Ok((Store { path, orders, results, thread, written: 0, failed: None }, kept))
    }

    /// Passes a command of the node to the thread.
    pub(crate) fn keep(&mut self, keep: StoreCommand<'_>) {
        let order = match keep {
            StoreCommand::Write(octets) => Some(octets.to_vec()),
            StoreCommand::Clear => None,
        };
        if let Some(orders) = &self.orders {
            // `done` reports a thread that has exited.
            let _ = orders.send(order);
        }
    }

    /// The result of the command, true if it succeeded; `None` while it is in progress.
    pub(crate) fn done(&mut self) -> Option<bool> {
        let result = match self.results.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(io::Error::other("the writer stopped")),
        };
        let done = result.is_ok();
        self.written += u64::from(done);
        if let Err(error) = result {
            self.failed = Some(error);
        }
        Some(done)
    }

    /// A summary as text.
    pub(crate) fn description(&self) -> String {
        let (path, written) = (self.path.display(), self.written);
        let times = format::count(written, "time");
        let words = format!("parameters are stored in {path}: written or removed {times}");
        match &self.failed {
            None => words,
            Some(error) => format!("{words}; the last attempt failed: {error}"),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Pending commands are executed before the process exits.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads the stored parameters; `None` if there are none.
///
/// # Errors
/// As [`Store::open`].
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    File::open(folder(path))?;
    match trust::load(path, |path| file::read(path, LONGEST)) {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a file atomically.
fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    onbeat_host::replace(File::open(folder(path))?, path.file_name().unwrap_or_default(), octets)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(()) => File::open(folder(path))?.sync_all(),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir();
            let path = path.join(format!("onbeat-store-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The result of the next command.
    fn wait(store: &mut Store) -> bool {
        let result = store.results.recv().unwrap();
        // As in the runner, without waiting.
        let (again, results) = mpsc::channel();
        again.send(result).unwrap();
        let results = std::mem::replace(&mut store.results, results);
        let done = store.done();
        store.results = results;
        done.unwrap()
    }

    #[test]
    fn a_file_is_replaced_and_removed() {
        let folder = Folder::new("replaced");
        let path = folder.0.join("drive.dcf");
        // Left by a process that was killed while it wrote.
        let mut options = File::options();
        let left = folder.0.join("drive.dcf.0123456789abcdef.new");
        options.write(true).create_new(true).mode(0o600).open(left).unwrap();
        let (mut store, kept) = Store::open(&path).unwrap();
        assert_eq!(folder.names(), [""; 0]);
        assert_eq!((kept, store.done()), (None, None));
        store.keep(StoreCommand::Clear);
        assert!(wait(&mut store), "nothing to remove");
        for octets in [&b"one"[..], b"another one"] {
            store.keep(StoreCommand::Write(octets));
            assert!(wait(&mut store));
            assert_eq!(Store::open(&path).unwrap().1.as_deref(), Some(octets));
            assert_eq!(folder.names(), ["drive.dcf"]);
        }
        assert!(
            store.description().ends_with("drive.dcf: written or removed 3 times"),
            "{}",
            store.description()
        );
        store.keep(StoreCommand::Clear);
        drop(store);
        assert_eq!(folder.names(), [""; 0], "pending commands are executed before the end");
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = Folder::new("link");
        let (path, canary) = (folder.0.join("drive.dcf"), folder.0.join("canary"));
        fs::write(&canary, "precious").unwrap();
        let (mut store, _) = Store::open(&path).unwrap();
        for link in [&path, &folder.0.join("drive.dcf.new")] {
            std::os::unix::fs::symlink(&canary, link).unwrap();
            store.keep(StoreCommand::Write(b"parameters"));
            assert!(wait(&mut store));
            assert_eq!(fs::read(&canary).unwrap(), b"precious");
            assert_eq!(fs::read(&path).unwrap(), b"parameters");
        }
    }

    #[test]
    fn a_failed_write_is_reported_and_keeps_the_file() {
        let folder = Folder::new("fails");
        let missing = Store::open(&folder.0.join("none").join("drive.dcf")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let path = folder.0.join("drive.dcf");
        fs::write(&path, "before").unwrap();
        let (mut store, kept) = Store::open(&path).unwrap();
        assert_eq!(kept.as_deref(), Some(&b"before"[..]));
        let moved = Folder(folder.0.with_extension("moved"));
        fs::rename(&folder.0, &moved.0).unwrap();
        store.keep(StoreCommand::Write(b"after"));
        assert!(!wait(&mut store));
        assert_eq!(moved.names(), ["drive.dcf"]);
        assert_eq!(fs::read(moved.0.join("drive.dcf")).unwrap(), b"before");
        assert!(
            store.description().contains("written or removed 0 times; the last attempt failed: "),
            "{}",
            store.description()
        );
        assert!(Store::open(&moved.0).is_err(), "a folder is not a valid store");
    }

    #[test]
    fn a_file_writable_by_another_user_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = Folder::new("trust");
        let path = folder.0.join("drive.dcf");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.contains("(mode 0664); chmod go-w "), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        Store::open(&path).unwrap();
    }
}
