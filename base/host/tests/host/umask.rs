//! Modes do not depend on the umask, which is of the whole process.

use std::fs;

use crate::common::mode;
use nix::sys::stat::{Mode, umask};
use onbeat_host::PrivateDirectory;
use onbeat_testing::{TemporaryDirectory, alone};

#[test]
fn created_directories_are_private_with_any_umask() {
    if !alone("umask::created_directories_are_private_with_any_umask") {
        return;
    }
    let temporary = TemporaryDirectory::new("made");
    let path = temporary.file("a/b");
    assert!(PrivateDirectory::open(&path).unwrap().is_none());
    PrivateDirectory::check(&path).unwrap();
    assert!(!path.exists(), "a check makes nothing");
    for mask in [0, 0o777] {
        let before = umask(Mode::from_bits_truncate(mask));
        let made = PrivateDirectory::create(&path);
        umask(before);
        made.unwrap();
        assert_eq!((mode(&temporary.file("a")), mode(&path)), (0o700, 0o700), "umask {mask:o}");
        fs::remove_dir_all(temporary.file("a")).unwrap();
    }
}
