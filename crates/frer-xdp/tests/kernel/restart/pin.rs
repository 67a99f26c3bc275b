//! What is done in pin directories of all kinds: a node's own links and tables come and go, and
//! nothing else is touched.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use onbeat_frer_xdp::{Error, Options, PinDirectory, Plane};

use super::with_private_bpffs;
use crate::harness::can_run;

/// Each path below, with its type, mode, owner and inode, and the text of files.
fn listing(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let of = fs::symlink_metadata(&path).expect("an entry");
        let text = if of.len() > 0 { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        let shown = format!("{:o} {} {} {text:?}", of.mode(), of.uid(), of.ino());
        if of.is_dir() {
            left.extend(
                fs::read_dir(&path).expect("a directory").map(|e| e.expect("an entry").path()),
            );
        }
        found.insert(path, shown);
    }
    found
}

fn options(directory: &Path) -> Options {
    Options { directory: Some(directory.to_path_buf()), max_streams: 4, test_clock: true }
}

/// Neither a start nor a removal changes anything below `root`, and both refuse `pin`.
#[track_caller]
fn refused(root: &Path, pin: &Path) -> Error {
    let before = listing(root);
    let error = Plane::open(&options(pin)).expect_err("no pin directory");
    let removal = Plane::remove(pin);
    assert_eq!(listing(root), before, "{}", pin.display());
    assert!(removal.is_err() || !pin.join("tables").exists(), "{removal:?}");
    assert!(error.to_string().contains(&format!("{pin:?}")), "{error}");
    error
}

/// A tree that could be mistaken for a node's.
fn plant(root: &Path) {
    for directory in ["links", "tables", "own/deep"] {
        fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    for file in ["links/0-path1", "tables/node", "own/deep/file", "file"] {
        fs::write(root.join(file), file).expect("a file");
    }
    symlink(root.join("own"), root.join("to-own")).expect("a link");
}

#[test]
fn an_ordinary_directory_is_not_touched() {
    if !can_run() {
        return;
    }
    let root = std::env::temp_dir().join(format!("onbeat-canary-{}", std::process::id()));
    fs::create_dir_all(&root).expect("a directory");
    plant(&root);
    for pin in ["", "own", "own/new/deeper", "new"] {
        let error = refused(&root, &root.join(pin));
        assert!(matches!(error, Error::NoBpfFilesystem { .. }), "{error}");
    }
    for pin in ["file", "file/below", "to-own", "to-own/deep", "own/../own"] {
        let error = refused(&root, &root.join(pin));
        assert!(matches!(error, Error::PinPath { .. }), "{error}");
    }
    fs::remove_dir_all(&root).expect("what the test made");
}

#[test]
fn pins_and_directories_of_others_stay() {
    if !can_run() {
        return;
    }
    with_private_bpffs(|directory| {
        let root = directory.parent().expect("the mount");
        let node = |name: &str| root.join(name);
        // Links and maps of another program, under names of a node's as well.
        drop(Plane::open(&options(&node("other"))).expect("a data plane"));
        fs::create_dir_all(node("foreign/links")).expect("a directory");
        fs::rename(node("other/tables/node"), node("foreign/links/0-path1")).expect("a pin");
        fs::create_dir(node("empty")).expect("a directory");
        fs::create_dir_all(node("half/links")).expect("a directory");
        fs::create_dir_all(node("mixed/links/0-path1")).expect("a directory");
        fs::rename(node("other/tables/groups"), node("mixed/groups")).expect("a pin");

        for pin in ["foreign", "mixed"] {
            let error = refused(root, &node(pin));
            assert!(matches!(error, Error::ForeignPin { .. }), "{error}");
        }
        // The root of a mount, whatever it is called.
        let error = refused(root, root);
        assert!(matches!(error, Error::PinPath { .. }), "{error}");
        let before = listing(root);
        for pin in ["empty", "half", "foreign", "mixed"] {
            assert!(Plane::remove(&node(pin)).expect("a pin directory").is_empty());
        }
        assert!(Plane::remove(&node("none")).expect("no directory").is_empty());
        assert_eq!(listing(root), before);

        // What another program put beside a node's own pins stays, and is named.
        drop(Plane::open(&options(&node("node"))).expect("a data plane"));
        fs::rename(node("mixed/groups"), node("node/tables/foreign")).expect("a pin");
        assert!(
            PinDirectory::open(&node("node"))
                .expect("open")
                .is_some_and(|d| d.is_of_node().expect("read"))
        );
        assert_eq!(Plane::remove(&node("node")).expect("removed"), [node("node/tables/foreign")]);
        assert_eq!(listing(&node("node")).len(), 3, "{:?}", listing(&node("node")));
        drop(Plane::open(&options(&node("second"))).expect("a data plane"));
        assert!(Plane::remove(&node("second")).expect("removed").is_empty());
        assert!(!node("second").exists());
    });
}

#[test]
fn directories_that_others_may_write_to_are_refused() {
    if !can_run() {
        return;
    }
    with_private_bpffs(|directory| {
        let root = directory.parent().expect("the mount");
        fs::create_dir_all(directory).expect("a directory");
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(directory, Permissions::from_mode(mode)).expect("a mode");
            for pin in [directory.to_path_buf(), directory.join("below")] {
                assert!(matches!(refused(root, &pin), Error::PinPath { .. }));
            }
        }
        fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("a mode");
        std::os::unix::fs::chown(directory, Some(65534), None).expect("another owner");
        assert!(matches!(refused(root, &directory.join("below")), Error::PinPath { .. }));

        // A mount on a directory of another one is a root, too.
        let inner = root.join("inner");
        fs::create_dir(&inner).expect("a directory");
        mount(Some("bpf"), &inner, Some("bpf"), MsFlags::empty(), None::<&str>).expect("a mount");
        assert!(matches!(refused(root, &inner), Error::PinPath { .. }));
        drop(Plane::open(&options(&inner.join("node"))).expect("a data plane"));
        nix::mount::umount(&inner).expect("unmounted");
    });
}
