//! Writes to files by any process (inotify). Those of sysfs and procfs report writes of processes, not changes by the
//! kernel.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Reports writes to some files.
#[derive(Debug)]
pub(super) struct FileWrites {
    events: Inotify,
}

impl FileWrites {
    /// Of no file yet.
    pub(super) fn new() -> nix::Result<Self> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Ok(Self { events: Inotify::init(flags)? })
    }

    /// Watches a file, if the kernel permits it.
    pub(super) fn watch(&self, path: &Path) {
        let _ = self.events.add_watch(path, AddWatchFlags::IN_MODIFY);
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether a file was written since the last call.
    pub(super) fn take(&self) -> bool {
        let mut is_written = false;
        while self.events.read_events().is_ok_and(|events| !events.is_empty()) {
            is_written = true;
        }
        is_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_testing::TemporaryDirectory;

    #[test]
    fn writes_are_reported_until_they_are_taken() {
        let directory = TemporaryDirectory::new("file-writes");
        let [watched, other] = ["watched", "other"].map(|name| directory.file(name));
        for file in [&watched, &other] {
            std::fs::write(file, "0").unwrap();
        }
        let writes = FileWrites::new().unwrap();
        writes.watch(&watched);
        writes.watch(&directory.file("missing"));
        assert!(!writes.take());
        std::fs::write(&other, "1").unwrap();
        std::fs::read(&watched).unwrap();
        assert!(!writes.take());
        (0..3).for_each(|_| std::fs::write(&watched, "1").unwrap());
        assert!(writes.take());
        assert!(!writes.take());
    }
}
