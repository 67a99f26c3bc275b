//! Access control lists of files.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tags of entries (linux/posix_acl.h).
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// Lets a user read and write a file, in addition to its mode, like `setfacl -m u:UID:rw`.
/// Returns whether the file system has access control lists.
///
/// # Panics
/// The file does not exist, or belongs to another user.
#[must_use]
pub fn allow_writing(path: &Path, uid: u32) -> bool {
    let mode = fs::metadata(path).expect("a file").mode();
    let of = |shift: u32| (mode >> shift & 7) as u16;
    let none = u32::MAX;
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permission, id) in [
        (OWNER, of(6), none),
        (USER, 6, uid),
        (GROUP, of(3), none),
        (MASK, of(3) | 6, none),
        (OTHERS, of(0), none),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permission.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let name = c"system.posix_acl_access".as_ptr();
    // SAFETY: both strings end with NUL, and the kernel reads no more than the octets of the list.
    let result =
        unsafe { libc::setxattr(path.as_ptr(), name, list.as_ptr().cast(), list.len(), 0) };
    let error = io::Error::last_os_error();
    let unsupported = result < 0 && error.raw_os_error() == Some(libc::EOPNOTSUPP);
    assert!(result == 0 || unsupported, "{error}");
    !unsupported
}
