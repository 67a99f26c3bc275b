//! The journal of systemd as an output.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Returns whether an output is the journal. JOURNAL_STREAM names the journal's device and inode, and stays set if a
/// service redirects the output (systemd.exec(5)).
pub fn is_journal(output: impl AsFd) -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let metadata = output.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    metadata.is_ok_and(|is| *stream == *format!("{}:{}", is.dev(), is.ino()))
}
