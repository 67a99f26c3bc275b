//! The machine that the tests have for themselves: its module, and its kernel's log.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// There is one module, and tests unload it.
static MODULE: Mutex<()> = Mutex::new(());

/// Kernel messages that report a fault.
const COMPLAINTS: [&str; 8] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "unregister_netdevice: waiting",
    "refcount_t:",
    "INFO: task",
    "leaked reference",
    "onbeat: self-test",
];

/// The module, loaded, for one test; at its end the kernel must not have complained.
pub(crate) struct Module {
    log: File,
    _alone: MutexGuard<'static, ()>,
}

/// `None`: not on this host.
pub(crate) fn module() -> Option<Module> {
    if env::var_os("ONBEAT_VM").is_none_or(|value| value != "1") {
        let test = thread::current().name().unwrap_or("test").to_owned();
        // Straight to the descriptor: what goes through eprintln! is shown for failed tests only.
        let _ = writeln!(std::io::stderr(), "SKIP: {test}: needs a machine of its own (tests/vm)");
        return None;
    }
    let alone = MODULE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg")
        .expect("the kernel's log");
    log.seek(SeekFrom::End(0)).unwrap();
    load();
    Some(Module { log, _alone: alone })
}

impl Drop for Module {
    fn drop(&mut self) {
        let mut record = [0; 8192];
        let mut complaints = String::new();
        loop {
            match self.log.read(&mut record) {
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]);
                    if COMPLAINTS.iter().any(|complaint| text.contains(complaint)) {
                        complaints.push_str(&text);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Records were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => panic!("the kernel's log: {error}"),
            }
        }
        if !thread::panicking() {
            assert_eq!(complaints, "", "the kernel complains");
        }
    }
}

pub(crate) fn load() {
    if Path::new("/sys/module/onbeat").exists() {
        return;
    }
    // Nothing loads what the tests' networks are made of on such a machine.
    for needed in ["veth", "bridge"] {
        let done = Command::new("modprobe").arg(needed).status().unwrap();
        assert!(done.success(), "modprobe {needed}: {done}");
    }
    let path = env::var_os("ONBEAT_MODULE").expect("ONBEAT_MODULE says where onbeat.ko is");
    let done = Command::new("insmod").arg(path).arg("selftest=1").status().unwrap();
    assert!(done.success(), "insmod: {done}");
}

pub(crate) fn unload() {
    let done = Command::new("rmmod").arg("onbeat").status().unwrap();
    assert!(done.success(), "rmmod: {done}");
    assert!(!Path::new("/sys/module/onbeat").exists());
}
