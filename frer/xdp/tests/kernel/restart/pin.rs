//! Operations on pin directories of all kinds: links and tables of a node are added and removed, and nothing
//! else is changed.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use onbeat_frer_xdp::{Error, Options, PinDirectory, PinOwner, Plane};

use super::with_private_bpffs;
use crate::harness::{can_run, owner};

/// Returns each path below, with its type, mode, owner and inode, and the text of files.
pub(super) fn listing(root: &Path) -> BTreeMap<PathBuf, String> {
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

fn open(pin: &Path) -> Result<Plane, Error> {
    let directory = Some(Arc::new(PinDirectory::create(pin, &owner())?));
    Plane::open(&Options { directory, max_streams: 4, test_clock: true, count_output: true })
}

/// Removes the pins of the node of these tests, like `onbeat down`.
fn remove(pin: &Path, owner: &PinOwner) -> Result<Vec<PathBuf>, Error> {
    match PinDirectory::open(pin)? {
        Some(directory) if directory.is_of_node()? => directory.claim(owner)?.remove(),
        _ => Ok(Vec::new()),
    }
}

/// Checks that neither a start nor a removal changes anything below `root`, and that both refuse `pin`.
#[track_caller]
fn refused(root: &Path, pin: &Path) -> Error {
    let before = listing(root);
    let error = open(pin).expect_err("no pin directory");
    let removal = remove(pin, &owner());
    assert_eq!(listing(root), before, "{}", pin.display());
    assert!(removal.is_err() || !pin.join("tables").exists(), "{removal:?}");
    assert!(error.to_string().contains(&format!("{pin:?}")), "{error}");
    error
}

/// Creates a tree that resembles a node's.
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
fn an_ordinary_directory_is_not_changed() {
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
    fs::remove_dir_all(&root).expect("the directory of the test");
}

#[test]
fn pins_and_directories_of_others_stay() {
    with_private_bpffs(|directory| {
        let root = directory.parent().expect("the mount");
        let node = |name: &str| root.join(name);
        // Links and maps of another program, some under names of a node.
        drop(open(&node("other")).expect("a data plane"));
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
        // The root of a mount, with any name.
        let error = refused(root, root);
        assert!(matches!(error, Error::PinPath { .. }), "{error}");
        let before = listing(root);
        for pin in ["empty", "half", "foreign", "mixed"] {
            assert!(remove(&node(pin), &owner()).expect("a pin directory").is_empty());
        }
        assert!(remove(&node("none"), &owner()).expect("no directory").is_empty());
        assert_eq!(listing(root), before);

        // An entry of another program beside a node's own pins stays and is reported.
        drop(open(&node("node")).expect("a data plane"));
        fs::rename(node("mixed/groups"), node("node/tables/foreign")).expect("a pin");
        assert!(
            PinDirectory::open(&node("node"))
                .expect("open")
                .is_some_and(|d| d.is_of_node().expect("read"))
        );
        assert_eq!(
            remove(&node("node"), &owner()).expect("removed"),
            [node("node/tables/foreign")]
        );
        assert_eq!(listing(&node("node")).len(), 3, "{:?}", listing(&node("node")));
        drop(open(&node("second")).expect("a data plane"));
        assert!(remove(&node("second"), &owner()).expect("removed").is_empty());
        assert!(!node("second").exists());
    });
}

#[test]
fn directories_writable_by_others_are_refused() {
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
        // No node pins below it: another user keeps none from its removal by such a directory.
        for pin in [directory.to_path_buf(), directory.join("below")] {
            assert!(PinDirectory::open(&pin).expect("no error").is_none());
        }

        // A mount on a directory of another owner is a root, too.
        let inner = root.join("inner");
        fs::create_dir(&inner).expect("a directory");
        mount(Some("bpf"), &inner, Some("bpf"), MsFlags::empty(), None::<&str>).expect("a mount");
        assert!(matches!(refused(root, &inner), Error::PinPath { .. }));
        drop(open(&inner.join("node")).expect("a data plane"));
        nix::mount::umount(&inner).expect("unmounted");
    });
}

/// A process that can open a directory can lock it.
#[test]
fn a_pin_directory_becomes_private() {
    with_private_bpffs(|directory| {
        fs::create_dir_all(directory).expect("a directory");
        fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("a mode");
        let other = fs::File::open(directory).expect("opened like another user");
        let lock = Flock::lock(other, FlockArg::LockExclusiveNonblock).expect("a lock");
        let error = PinDirectory::create(directory, &owner()).map(drop).expect_err("it is locked");
        assert!(matches!(error, Error::PinLocked { .. }), "{error}");
        drop(lock);
        drop(PinDirectory::create(directory, &owner()).expect("it is free"));
        let mode = fs::metadata(directory).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    });
}

/// A directory belongs to one node: while its process runs, after it was killed, and if the former version
/// recorded none.
#[test]
fn a_pin_directory_of_another_node_is_refused_with_its_name() {
    with_private_bpffs(|directory| {
        let other = PinOwner::new(Path::new("/run/onbeat/other.sock"), false);
        let refused = |owner: &PinOwner, why: &str| {
            let before = listing(directory);
            for error in [
                PinDirectory::create(directory, owner).map(drop).expect_err("another node's"),
                remove(directory, owner).map(drop).expect_err("another node's"),
            ] {
                assert!(error.to_string().contains(why), "{error}");
            }
            assert_eq!(listing(directory), before);
        };
        let plane = open(directory).expect("a data plane");
        refused(&other, "belongs to the node with control socket \"/run/onbeat/test.sock\"");
        refused(&owner(), "is in use by the node with control socket \"/run/onbeat/test.sock\"");
        drop(plane);
        refused(&other, "belongs to the node with control socket \"/run/onbeat/test.sock\"");
        drop(open(directory).expect("a data plane"));

        fs::remove_file(directory.join("node")).expect("the record");
        refused(&other, "by the former version");
        let adopting = PinOwner::new(Path::new("/run//onbeat/./other.sock"), true);
        drop(PinDirectory::create(directory, &adopting).expect("adopted"));
        refused(&owner(), "belongs to the node with control socket \"/run/onbeat/other.sock\"");
        assert_eq!(remove(directory, &other).expect("removed"), [""; 0].map(PathBuf::from));
        assert!(!directory.exists());
    });
}
