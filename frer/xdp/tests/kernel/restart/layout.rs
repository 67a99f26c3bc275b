//! Tables of another version or size are refused before anything is changed.

use std::fs;
use std::mem::offset_of;
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_frer_xdp::abi::frer_node;
use onbeat_frer_xdp::{Error, Options, PinDirectory, Plane};

use super::pin::listing;
use super::{MAX_STREAMS, open, run_before, with_private_bpffs};
use crate::harness::pins;

fn check(directory: &Path, streams: u32) -> Result<(), Error> {
    Plane::check(PinDirectory::open(directory).unwrap().expect("pins"), streams, 0)
}

/// Checks that both a check and a start refuse the tables, and that neither changes them.
#[track_caller]
fn is_refused(directory: &Path) {
    let before = listing(directory);
    let claimed = pins(directory);
    let options =
        Options { directory: claimed, max_streams: 4, test_clock: true, count_output: true };
    for error in [check(directory, 1).unwrap_err(), Plane::open(&options).unwrap_err()] {
        assert!(matches!(error, Error::Incompatible { .. }), "{error}");
        assert!(error.to_string().contains("onbeat down"), "{error}");
    }
    assert_eq!(listing(directory), before);
}

#[test]
fn tables_of_another_version_are_refused_and_not_completed() {
    with_private_bpffs(|directory| {
        let (_, node, _) = run_before(directory);
        // Also while a daemon has claimed the directory.
        let before = listing(directory);
        check(directory, MAX_STREAMS).unwrap();
        assert_eq!(listing(directory), before);
        drop(node);

        // A table that the other version does not have.
        let table = MapHandle::from_pinned_path(directory.join("tables/node")).unwrap();
        let key = 0u32.to_ne_bytes();
        let original = table.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        let mut other = original.clone();
        let at = offset_of!(frer_node, abi_version);
        other[at..at + 4].copy_from_slice(&9999u32.to_ne_bytes());
        table.update(&key, &other, MapFlags::ANY).unwrap();
        fs::rename(directory.join("tables/skews"), directory.with_file_name("skews")).unwrap();
        is_refused(directory);

        table.update(&key, &original, MapFlags::ANY).unwrap();
        fs::rename(directory.with_file_name("skews"), directory.join("tables/skews")).unwrap();
        check(directory, MAX_STREAMS).unwrap();
        drop(open(directory));
    });
}

#[test]
fn tables_of_another_size_are_refused() {
    with_private_bpffs(|directory| {
        drop(run_before(directory));
        let error = check(directory, MAX_STREAMS + 1).unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }), "no room: {error}");
        let table = |name: &str| directory.join("tables").join(name);
        // "node" is read for the version.
        for (name, other) in [("node", "members"), ("members", "splits")] {
            let swap = || {
                let aside = directory.with_file_name("aside");
                fs::rename(table(name), &aside).unwrap();
                fs::rename(table(other), table(name)).unwrap();
                fs::rename(aside, table(other)).unwrap();
            };
            swap();
            is_refused(directory);
            swap();
            check(directory, MAX_STREAMS).unwrap();
        }
    });
}
