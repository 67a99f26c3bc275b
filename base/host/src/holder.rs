//! The process that holds a lock.

use std::fmt;
use std::fs;

use nix::sys::stat::{FileStat, major, minor};
use serde::{Deserialize, Serialize};

/// Characters of a command line that a message shows.
const COMMAND_LENGTH: usize = 120;

/// The process that holds a lock, as far as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// Its process id; `None` where the kernel shows none here: of a process in another process
    /// namespace.
    pub pid: Option<u32>,
    /// Its description: a node, a command.
    pub what: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.what) {
            (Some(pid), Some(what)) => write!(f, "process {pid} ({what})"),
            (Some(pid), None) => write!(f, "process {pid}"),
            (None, _) => f.write_str("a process of another PID namespace"),
        }
    }
}

/// The content of a lock file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pid: u32,
    /// Start time, which distinguishes the process from a later one with its id.
    start: Option<u64>,
    boot: String,
    what: String,
}

impl Record {
    /// Creates the record of this process.
    pub(crate) fn new(what: &str) -> Self {
        let pid = std::process::id();
        Self { pid, start: running_since(pid), boot: boot(), what: what.to_owned() }
    }

    /// Whether the process that wrote the content of a lock file still exists; `None` where the
    /// content is none.
    pub(crate) fn is_of_live_process(content: &[u8]) -> Option<bool> {
        serde_json::from_slice::<Self>(content).ok().map(|record| record.is_alive())
    }

    fn is_alive(&self) -> bool {
        self.boot == boot() && self.start.is_some() && running_since(self.pid) == self.start
    }
}

/// The process that holds a flock on the file, by the kernel's table of locks; by the file's content
/// where the table does not list it.
pub(crate) fn holder(stat: &FileStat, content: &[u8]) -> Holder {
    let record = serde_json::from_slice::<Record>(content).ok().filter(Record::is_alive);
    let table = fs::read_to_string("/proc/locks").unwrap_or_default();
    let pid = flock_holder(&table, stat).or(record.as_ref().map(|record| record.pid));
    let what = match (pid, record) {
        (Some(pid), Some(record)) if record.pid == pid => Some(record.what),
        (Some(pid), _) => name(pid),
        (None, _) => None,
    };
    Holder { pid, what: what.map(|what| printable(&what)) }
}

/// The holder of a flock on the file by the kernel's table of locks, where it is a live process of
/// this effective user.
pub(crate) fn own_holder(stat: &FileStat) -> Option<Holder> {
    let table = fs::read_to_string("/proc/locks").ok()?;
    let pid = flock_holder(&table, stat)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let effective: u32 = uids.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let own = effective == nix::unistd::geteuid().as_raw();
    own.then(|| Holder { pid: Some(pid), what: name(pid).map(|what| printable(&what)) })
}

/// Of /proc/locks: `1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF`. A line with `->` waits.
fn flock_holder(table: &str, stat: &FileStat) -> Option<u32> {
    let (device, inode) = (stat.st_dev, stat.st_ino);
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let held = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file.as_str());
        held.then(|| words[4].parse().ok()).flatten()
    })
}

/// Returns the id of the boot; empty if the kernel does not report it, consistently within a boot.
pub(crate) fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The kernel's flag of a process that exits (`PF_EXITING`).
const EXITING: u64 = 4;

/// Fields of a process in /proc/PID/stat from number 3 on: the name before may contain any characters.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

/// Start time of a process in clock ticks since boot; `None`: there is no such process, or it exits. It closes its files
/// some time before its parent receives its status.
fn running_since(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    (field(9)? & EXITING == 0).then(|| field(22)).flatten()
}

/// Whether a signal (SIGSTOP, Ctrl-Z) has stopped a process, which does nothing until SIGCONT.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] == "T")
}

fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

impl Holder {
    /// The process with this id.
    pub(crate) fn of_pid(pid: Option<u32>) -> Self {
        Self { pid, what: pid.and_then(name).map(|what| printable(&what)) }
    }
}

/// The command line of this process, for the content of a lock.
#[must_use]
pub fn command_line() -> String {
    let octets = fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&octets);
    let words: Vec<&str> = text.split_terminator('\0').collect();
    words.join(" ")
}

/// Replaces control characters for output on a terminal.
fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(COMMAND_LENGTH).map(clean).collect();
    if text.chars().nth(COMMAND_LENGTH).is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let mut stat = nix::sys::stat::stat("/").unwrap();
        (stat.st_dev, stat.st_ino) = (nix::sys::stat::makedev(0, 0x1a), 77);
        let table = "\
1: POSIX  ADVISORY  WRITE 10 00:1a:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 11 00:1a:77 0 EOF
3: FLOCK  ADVISORY  WRITE 12 00:1b:77 0 EOF
4: FLOCK  ADVISORY  WRITE 13 00:1a:77 0 EOF
5: FLOCK
";
        assert_eq!(flock_holder(table, &stat), Some(13));
        // Each tmpfs numbers its inodes from 1.
        stat.st_dev = nix::sys::stat::makedev(9, 9);
        assert_eq!(flock_holder(table, &stat), None);
    }

    #[test]
    fn text_of_other_processes_is_sanitized() {
        let holder = Holder { pid: Some(7), what: Some(printable("a\x1b[2J\nb")) };
        assert_eq!(holder.to_string(), "process 7 (a?[2J?b)");
        assert!(printable(&"x".repeat(1000)).len() < 130);
    }

    #[test]
    fn a_process_that_exits_is_not_alive() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let record =
            Record { pid: child.id(), start: running_since(child.id()), ..Record::new("test") };
        assert!(record.is_alive());
        drop(child.stdin.take());
        let pid = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(child.id() as i32));
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(pid, flags).unwrap();
        assert!(!record.is_alive(), "its parent has not received its status yet");
        child.wait().unwrap();
    }

    #[test]
    fn a_later_process_with_the_same_id_is_distinguished() {
        let mut record = Record::new("test");
        assert!(record.is_alive());
        record.start = record.start.map(|start| start + 1);
        assert!(!record.is_alive());
        record = Record { boot: "another".into(), ..Record::new("test") };
        assert!(!record.is_alive());
    }
}
