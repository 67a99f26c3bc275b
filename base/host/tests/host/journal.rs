//! A journal is the former one or the new one; anything else is refused with a remedy.

use std::env;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{copy, mode, set_mode, wait_for_line};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use onbeat_host::{Content, Error, Journal, PrivateDirectory};
use onbeat_testing::{Feature, TemporaryDirectory, require};
use serde::{Deserialize, Serialize};

/// Environment variable with the directory to write to.
const WRITE_IN: &str = "ONBEAT_TEST_WRITE_IN";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mtu {
    before: u32,
}

impl Content for Mtu {
    fn check(&self) -> Result<(), String> {
        if self.before >= 68 { Ok(()) } else { Err(format!("{} is not an MTU", self.before)) }
    }
}

fn journal(temporary: &TemporaryDirectory) -> Journal<Mtu> {
    let directory = PrivateDirectory::create(&temporary.file("a")).unwrap();
    Journal::new(directory, "a.json", "discard it with: onbeat down a --forget")
}

#[test]
fn written_content_is_read_until_removed() {
    let temporary = TemporaryDirectory::new("written");
    let journal = journal(&temporary);
    assert_eq!(journal.read().unwrap(), None);
    for before in [1500, 9000] {
        journal.write(&Mtu { before }).unwrap();
        assert_eq!(journal.read().unwrap(), Some(Mtu { before }));
        assert_eq!(mode(&journal.path()), 0o600);
    }
    assert_eq!(fs::read_dir(temporary.file("a")).unwrap().count(), 1, "no temporary file stays");
    journal.remove().unwrap();
    journal.remove().unwrap();
    assert_eq!(journal.read().unwrap(), None);
}

/// Not a test by itself: writes until it is killed, on several threads, most of which wait for the directory
/// during a write.
#[test]
fn writes_to_the_given_directory() {
    let Some(path) = env::var_os(WRITE_IN) else { return };
    let path = Path::new(&path);
    let journals = journals(path);
    journals.iter().for_each(|journal| journal.write(&Mtu { before: 1500 }).unwrap());
    println!("\nwriting");
    thread::scope(|scope| {
        for journal in &journals {
            scope.spawn(|| -> ! {
                loop {
                    journal.write(&Mtu { before: 9000 }).unwrap();
                }
            });
        }
    });
}

/// Eight journals of one directory.
fn journals(path: &Path) -> Vec<Journal<Mtu>> {
    let directory = PrivateDirectory::create(path).unwrap();
    let journal = |number| Journal::new(directory.clone(), &format!("{number}.json"), "remove it");
    (0..8).map(journal).collect()
}

#[test]
fn a_killed_process_leaves_whole_journals_and_the_next_reader_removes_the_rest() {
    let temporary = TemporaryDirectory::below(Path::new("/dev/shm"), "killed");
    let journals = journals(temporary.path());
    let mut child =
        copy("journal::writes_to_the_given_directory", WRITE_IN, temporary.path()).spawn().unwrap();
    wait_for_line(&mut child, "writing");
    stop_while_it_writes(&child, temporary.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!unfinished(temporary.path()).is_empty(), "it was killed while it wrote");
    for journal in &journals {
        journal.read().unwrap().expect("it was written before");
    }
    assert_eq!(unfinished(temporary.path()), Vec::<PathBuf>::new());
}

/// Stops a process at a moment when a file of a journal is not finished.
fn stop_while_it_writes(child: &Child, directory: &Path) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let start = Instant::now();
    loop {
        kill(pid, Signal::SIGSTOP).unwrap();
        let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
        if !unfinished(directory).is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it writes nothing");
        kill(pid, Signal::SIGCONT).unwrap();
        thread::yield_now();
    }
}

/// Returns the files of a directory that are incomplete journals.
fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|name| name.extension() != Some("json".as_ref())).collect()
}

/// A planted file in the place of the temporary one is not written through.
#[test]
fn a_link_beside_the_journal_is_not_followed() {
    let temporary = TemporaryDirectory::new("link");
    let journal = journal(&temporary);
    fs::write(temporary.file("canary"), "precious").unwrap();
    symlink(temporary.file("canary"), temporary.file("a/a.json.new")).unwrap();
    journal.write(&Mtu { before: 9000 }).unwrap();
    assert_eq!(journal.read().unwrap(), Some(Mtu { before: 9000 }));
    assert_eq!(fs::read_to_string(temporary.file("canary")).unwrap(), "precious");
}

#[test]
fn one_of_an_earlier_boot_restores_nothing() {
    let temporary = TemporaryDirectory::new("boot");
    let journal = journal(&temporary);
    for text in [
        r#"{"version":1,"boot":"another","content":{"before":1500}}"#,
        r#"{"pid":7,"boot":"another","before":1500}"#,
    ] {
        fs::write(journal.path(), text).unwrap();
        assert_eq!(journal.read().unwrap(), None, "{text}");
    }
}

/// The former version wrote the content alone, some with its process and the boot.
#[test]
fn the_former_version_is_read() {
    let temporary = TemporaryDirectory::below(Path::new("/dev/shm"), "former");
    let journal = journal(&temporary);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for text in [
        r#"{"before":1500}"#.to_owned(),
        r#"{"pid":7,"before":1500}"#.to_owned(),
        format!(r#"{{"pid":7,"boot":{:?},"before":1500}}"#, boot.trim()),
    ] {
        fs::write(journal.path(), &text).unwrap();
        set_mode(&journal.path(), 0o644);
        assert_eq!(journal.read().unwrap(), Some(Mtu { before: 1500 }), "{text}");
    }
}

/// On a disk, a journal that names no boot may be of any.
#[test]
fn one_of_an_unknown_boot_on_a_disk_is_refused() {
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if statfs(disk).unwrap().filesystem_type() == TMPFS_MAGIC {
        eprintln!("{disk:?} is in memory: nothing here is on a disk");
        return;
    }
    let temporary = TemporaryDirectory::below(disk, "unknown");
    let journal = journal(&temporary);
    for text in [
        r#"{"before":1500}"#,
        r#"{"pid":7,"boot":"","before":1500}"#,
        r#"{"pid":7,"boot":1,"before":1500}"#,
        r#"{"version":1,"boot":"","content":{"before":1500}}"#,
    ] {
        fs::write(journal.path(), text).unwrap();
        damaged(&journal, "it does not name the boot that it was written in");
    }
    journal.set_aside().unwrap().expect("it cannot be used");
    journal.write(&Mtu { before: 1500 }).unwrap();
    assert_eq!(journal.read().unwrap(), Some(Mtu { before: 1500 }));
}

#[track_caller]
fn damaged(journal: &Journal<Mtu>, why: &str) {
    let error = journal.read().unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(why), "{text}");
    assert!(text.ends_with("; discard it with: onbeat down a --forget"), "{text}");
}

#[test]
fn a_damaged_one_names_the_remedy_which_moves_it_aside() {
    let temporary = TemporaryDirectory::below(Path::new("/dev/shm"), "damaged");
    let journal = journal(&temporary);
    journal.write(&Mtu { before: 1500 }).unwrap();
    let whole = fs::read(journal.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(journal.path(), &whole[..length]).unwrap();
        damaged(&journal, if length == 0 { "it is empty" } else { "it is not a journal" });
    }
    for (text, why) in [
        (r#"{"version":1,"boot":"","content":{"before":7}}"#, "7 is not an MTU"),
        (r#"{"version":2,"boot":"","content":{"before":1500}}"#, "another version of onbeat"),
        (r#"{"version":"1","boot":"","content":{"before":1500}}"#, "another version of onbeat"),
        (r#"{"version":1,"boot":"","content":{}}"#, "missing field"),
        ("[]", "not a journal"),
        (&"[".repeat(1 << 20), "not a journal"),
        (&" ".repeat((16 << 20) + 1), "longer than 16777216 octets"),
    ] {
        fs::write(journal.path(), text).unwrap();
        damaged(&journal, why);
        let aside = journal.set_aside().unwrap().expect("it is damaged");
        assert_eq!(fs::read_to_string(&aside).unwrap(), text);
        assert_eq!(journal.read().unwrap(), None);
    }
    // Each has a name of its own, and no more than there may be.
    let first = temporary.file("a/a.json.damaged");
    assert!(fs::read_to_string(&first).unwrap().ends_with(r#""content":{"before":7}}"#));
    for number in 7..100 {
        fs::write(temporary.file(format!("a/a.json.damaged.{number}")), "precious").unwrap();
    }
    fs::write(journal.path(), "damaged").unwrap();
    let error = journal.set_aside().unwrap_err().to_string();
    assert!(error.contains("a.json.damaged*\" exist; remove them first"), "{error}");
    assert_eq!(fs::read_to_string(journal.path()).unwrap(), "damaged");
    journal.write(&Mtu { before: 1500 }).unwrap();
    assert_eq!(journal.set_aside().unwrap(), None, "a valid one stays");
    assert_eq!(journal.read().unwrap(), Some(Mtu { before: 1500 }));
}

#[test]
fn one_that_another_user_could_have_written_is_refused() {
    let temporary = TemporaryDirectory::new("planted");
    let journal = journal(&temporary);
    let valid = r#"{"before":1500}"#;
    let plant = || fs::write(journal.path(), valid).unwrap();
    plant();
    for loose in [0o620, 0o602, 0o666] {
        set_mode(&journal.path(), loose);
        damaged(&journal, "other users can write to it");
    }
    fs::write(temporary.file("canary"), valid).unwrap();
    fs::remove_file(journal.path()).unwrap();
    symlink(temporary.file("canary"), journal.path()).unwrap();
    damaged(&journal, "it is a symbolic link");
    journal.set_aside().unwrap().unwrap();
    assert_eq!(fs::read_to_string(temporary.file("canary")).unwrap(), valid);
    fs::hard_link(temporary.file("canary"), journal.path()).unwrap();
    damaged(&journal, "it has 2 names");
    fs::remove_file(journal.path()).unwrap();
    mknod(&journal.path(), SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
    damaged(&journal, "it is not a regular file");
    fs::remove_file(journal.path()).unwrap();
    if require(Feature::Root) {
        plant();
        chown(journal.path(), Some(65534), None).unwrap();
        damaged(&journal, "it belongs to user 65534");
    }
}
