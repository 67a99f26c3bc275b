//! Directories that other users could write to or redirect are refused.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use crate::common::{mode, set_mode};
use onbeat_host::{Error, PrivateDirectory};
use onbeat_testing::{Feature, TemporaryDirectory, UnprivilegedProcess, require};

const OTHER_USER: u32 = 65534;

#[track_caller]
fn refused(path: &Path, why: &str) {
    for result in [
        PrivateDirectory::create(path).map(drop),
        PrivateDirectory::open(path).map(drop),
        PrivateDirectory::check(path),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let temporary = TemporaryDirectory::new("writable");
    let path = temporary.file("a");
    fs::create_dir_all(path.join("b")).unwrap();
    for loose in [0o775, 0o757, 0o1777] {
        set_mode(&path, loose);
        refused(&path, "other users can write to it");
    }
    refused(Path::new("/tmp"), "other users can write to it (mode 1777); use a directory that");
    // A sticky ancestor is as /tmp: others cannot rename what is not theirs.
    PrivateDirectory::create(&path.join("b")).unwrap();
    set_mode(&path, 0o777);
    refused(&path.join("b"), "other users can write to it (mode 0777)");
    set_mode(&path, 0o755);
    PrivateDirectory::create(&path.join("b")).unwrap();
    assert_eq!(mode(&path), 0o755, "a directory elsewhere keeps its mode");
}

#[test]
fn symbolic_links_are_not_followed_anywhere_on_the_path() {
    let temporary = TemporaryDirectory::new("link");
    fs::create_dir_all(temporary.file("real/below")).unwrap();
    symlink(temporary.file("real"), temporary.file("link")).unwrap();
    refused(&temporary.file("link"), "it is a symbolic link");
    refused(&temporary.file("link/below"), "it is a symbolic link");
    refused(&temporary.file("real/../real"), "it contains \"..\"");
    fs::write(temporary.file("file"), "").unwrap();
    refused(&temporary.file("file"), "it is not a directory");
}

#[test]
fn directories_of_other_users_are_refused_on_the_whole_path() {
    if !require(Feature::Root) {
        return;
    }
    let temporary = TemporaryDirectory::new("owner");
    let path = temporary.file("a/b");
    fs::create_dir_all(&path).unwrap();
    for of_other in [&path, &temporary.file("a")] {
        chown(of_other, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        refused(&path, "it belongs to user 65534");
        chown(of_other, Some(0), Some(0)).unwrap();
    }
    PrivateDirectory::create(&path).unwrap();
}

/// The run-time directory of the former version had the mode that the umask left.
#[test]
fn the_run_time_directory_is_tightened() {
    if !require(Feature::Root) {
        return;
    }
    let run = Path::new("/run/onbeat");
    let path = run.join(format!("directory-test-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    set_mode(&path, 0o755);
    PrivateDirectory::open(&path).unwrap();
    assert_eq!(mode(&path), 0o755, "opening changes nothing");
    PrivateDirectory::create(&path).unwrap();
    assert_eq!((mode(run), mode(&path)), (0o700, 0o700));
    assert!(UnprivilegedProcess::hold(&path).is_none());
    fs::remove_dir(&path).unwrap();
}

#[test]
fn names_lead_nowhere_else() {
    let temporary = TemporaryDirectory::new("names");
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    fs::write(temporary.file("precious"), "x").unwrap();
    for name in ["../precious", "..", ".", "", "b/c", "/etc/passwd", "precious/", "a\0b"] {
        assert!(directory.remove(name).is_err(), "{name:?}");
        assert!(directory.stat(name).is_err(), "{name:?}");
        assert!(directory.set_mode(name, 0o777).is_err(), "{name:?}");
    }
    assert_eq!(fs::read_to_string(temporary.file("precious")).unwrap(), "x");
}

#[test]
fn only_an_empty_directory_is_removed_and_open_ones_notice() {
    let temporary = TemporaryDirectory::new("empty");
    let path = temporary.file("a/b");
    PrivateDirectory::remove_empty(&path).unwrap();
    let directory = PrivateDirectory::create(&path).unwrap();
    fs::write(path.join("file"), "").unwrap();
    PrivateDirectory::remove_empty(&path).unwrap();
    assert!(path.join("file").exists() && !directory.is_removed().unwrap());
    directory.remove("file").unwrap();
    PrivateDirectory::remove_empty(&path).unwrap();
    assert!(!path.exists() && directory.is_removed().unwrap());
    symlink(temporary.file("a"), &path).unwrap();
    PrivateDirectory::remove_empty(&path).unwrap_err();
    assert!(path.is_symlink());
}
