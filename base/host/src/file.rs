//! Files that a user names: regular files, read up to a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::statfs::{
    DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs,
};

/// File systems whose files are interfaces of the kernel: reading one may never end, or consume the
/// data of another program (/proc/kmsg, trace_pipe).
const KERNEL: [(FsType, &str); 4] = [
    (PROC_SUPER_MAGIC, "a file of /proc"),
    (SYSFS_MAGIC, "a file of sysfs"),
    (DEBUGFS_MAGIC, "a file of debugfs"),
    (TRACEFS_MAGIC, "a file of tracefs"),
];

/// Opens a regular file for reading. A FIFO would block until a writer comes, a device may have side
/// effects when it is opened: neither is.
///
/// # Errors
/// It does not exist, is not readable, or is not a regular file; files of /proc, sysfs, debugfs and
/// tracefs are none.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_kind(path, &[SFlag::S_IFREG], "a regular file")
}

/// Opens a file that is read once from start to end: a regular file, or a FIFO, whose writer this waits
/// for.
///
/// # Errors
/// As [`open_regular`].
pub fn open_stream(path: &Path) -> io::Result<File> {
    open_kind(path, &[SFlag::S_IFREG, SFlag::S_IFIFO], "a regular file or a pipe")
}

fn open_kind(path: &Path, allowed: &[SFlag], expected: &str) -> io::Result<File> {
    // O_PATH does not open the file itself.
    let name = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&name)?.st_mode & SFlag::S_IFMT.bits());
    let file_system = fstatfs(&name)?.filesystem_type();
    let of_kernel =
        KERNEL.iter().find(|(known, _)| kind == SFlag::S_IFREG && *known == file_system);
    let found = match (of_kernel, kind) {
        (Some((_, found)), _) => *found,
        (None, kind) if allowed.contains(&kind) => {
            return File::open(format!("/proc/self/fd/{}", name.as_raw_fd()));
        }
        (None, SFlag::S_IFDIR) => "a directory",
        (None, SFlag::S_IFIFO) => "a FIFO",
        (None, SFlag::S_IFSOCK) => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {found}, not {expected}")))
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
/// Reading fails; the stream is longer.
pub fn read_stream(input: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    input.take(limit + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > limit { Err(too_long(limit)) } else { Ok(octets) }
}

/// Converts octets to UTF-8 text.
///
/// # Errors
/// They are not UTF-8; the error names the first invalid line.
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
        format!("it is longer than the limit of {limit} octets; use a shorter file"),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_may_never_end_is_refused() {
        let error = read_text(Path::new("/proc/kmsg"), 100).unwrap_err();
        assert_eq!(error.to_string(), "it is a file of /proc, not a regular file");
        let error = read_text(Path::new("/dev/zero"), 100).unwrap_err();
        assert_eq!(error.to_string(), "it is a device, not a regular file");
        let error = open_stream(Path::new("/proc/kmsg")).unwrap_err();
        assert_eq!(error.to_string(), "it is a file of /proc, not a regular file or a pipe");
        let error = read_text(Path::new("/sys/kernel/uevent_seqnum"), 100).unwrap_err();
        assert_eq!(error.to_string(), "it is a file of sysfs, not a regular file");
    }

    #[test]
    fn a_stream_is_a_file_or_a_pipe() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"packets").unwrap();
        drop(writer);
        let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let error = open_regular(Path::new(&pipe)).unwrap_err();
        assert_eq!(error.to_string(), "it is a FIFO, not a regular file");
        let stream = open_stream(Path::new(&pipe)).unwrap();
        assert_eq!(read_stream(stream, 100).unwrap(), b"packets");
        open_stream(Path::new("/dev/null")).unwrap_err();
        open_stream(Path::new("/proc/self/exe")).unwrap();
    }
}
