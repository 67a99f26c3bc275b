//! Files that a user names: regular files, read up to a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

/// Opens a regular file for reading. A FIFO would block until a writer comes, a device may have side
/// effects when it is opened: neither is.
///
/// # Errors
/// It does not exist, is not readable, or is not a regular file; files of /proc are none.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // O_PATH opens nothing but the name.
    let name = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&name)?.st_mode & SFlag::S_IFMT.bits());
    let found = match kind {
        // Reading one may never end (/proc/kmsg).
        SFlag::S_IFREG if fstatfs(&name)?.filesystem_type() == PROC_SUPER_MAGIC => {
            "a file of /proc"
        }
        SFlag::S_IFREG => return File::open(format!("/proc/self/fd/{}", name.as_raw_fd())),
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {found}, not a regular file")))
}

/// Reads a regular file of at most `limit` octets.
///
/// # Errors
/// As [`open_regular`]; the file is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    // Before it is read: a sparse file has any length.
    if file.metadata()?.len() > limit {
        return Err(too_long(limit));
    }
    read_stream(file, limit)
}

/// Reads a regular file of at most `limit` octets that is UTF-8 text.
///
/// # Errors
/// As [`read`]; the file is not text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read(path, limit)?)
}

/// Reads a stream of at most `limit` octets, such as standard input, to its end.
///
/// # Errors
/// What reading fails with; the stream is longer.
pub fn read_stream(input: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    input.take(limit + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > limit { Err(too_long(limit)) } else { Ok(octets) }
}

/// Octets as UTF-8 text.
///
/// # Errors
/// They are not; the error names the first line that is not.
pub fn text(octets: Vec<u8>) -> io::Result<String> {
    String::from_utf8(octets).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|octet| **octet == b'\n').count();
        let what = format!("line {line} is not UTF-8 text; save the file as UTF-8");
        io::Error::new(ErrorKind::InvalidData, what)
    })
}

fn too_long(limit: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it is longer than the limit of {limit} octets"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_never_end_is_refused() {
        let error = read_text(Path::new("/proc/kmsg"), 100).unwrap_err();
        assert_eq!(error.to_string(), "it is a file of /proc, not a regular file");
        let error = read_text(Path::new("/dev/zero"), 100).unwrap_err();
        assert_eq!(error.to_string(), "it is a device, not a regular file");
    }
}
