//! /proc/PID/stat: state and CPU times of a process.

use std::fs;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Octets;

/// Fields of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its name.
    pub command: Octets,
    /// Its state: R runnable, S and I asleep, T stopped, and others.
    pub state: char,
    /// Time in user mode, in clock ticks (`sysconf(_SC_CLK_TCK)`), of all its threads.
    pub user_ticks: u64,
    /// Time in the kernel, likewise.
    pub system_ticks: u64,
    /// When it started, in clock ticks since boot; the low 32 bits.
    pub start_ticks: u32,
    /// Its priority by SCHED_FIFO or SCHED_RR, 1 to 99; 0 by other policies.
    pub realtime_priority: u32,
}

impl Stat {
    /// The fields of a process that runs, or is a zombie; `None` if another one has its number.
    #[must_use]
    pub fn of(process: Process) -> Option<Self> {
        Self::of_number(process.pid).filter(|stat| stat.start_ticks == process.start_ticks)
    }

    /// The fields of the process or thread that has this number now.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{number}/stat")).ok()?)
    }

    /// Time in user mode and in the kernel, in clock ticks.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }

    /// Whether it sleeps, as a kernel thread without work does.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        matches!(self.state, 'S' | 'I')
    }

    /// The name is in parentheses, and may contain parentheses, and any octet but NUL.
    pub(super) fn parse(octets: &[u8]) -> Option<Self> {
        let closed = octets.iter().rposition(|octet| *octet == b')')?;
        let (before, after) = octets.split_at(closed);
        let opened = before.iter().position(|octet| *octet == b'(')?;
        let command = &before[opened + 1..];
        let fields: Vec<&str> = std::str::from_utf8(&after[1..]).ok()?.split_whitespace().collect();
        // The first after the name is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            command: command.into(),
            state: fields.first()?.chars().next()?,
            user_ticks: field(14)?,
            system_ticks: field(15)?,
            start_ticks: field(22)? as u32,
            realtime_priority: field(40)? as u32,
        })
    }
}

/// The process with this number now.
#[must_use]
pub fn process(pid: u32) -> Option<Process> {
    Some(Process { pid, start_ticks: Stat::of_number(pid)?.start_ticks })
}

/// All processes, with their fields.
pub fn processes() -> impl Iterator<Item = (Process, Stat)> {
    numbers().filter_map(|pid| {
        let stat = Stat::of_number(pid)?;
        Some((Process { pid, start_ticks: stat.start_ticks }, stat))
    })
}

/// The numbers of all processes.
pub(super) fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_any_octets() {
        let before = "S 1 1 1 0 -1 4194560 1 2 3 4 55 66 7 8 20 0 1 0 4294967297";
        let fields = format!("{before} 99{} 42 1", " 0".repeat(16));
        for name in [&b"cat"[..], b"a b", b"((", b") S 1 (x", b"\xc3\xa9", b"\xff\n)", b""] {
            let text = [b"17 (", name, b") ", fields.as_bytes(), b"\n"].concat();
            let stat = Stat::parse(&text).unwrap();
            assert_eq!(stat.command.as_slice(), name);
            assert_eq!((stat.user_ticks, stat.system_ticks), (55, 66));
            assert_eq!((stat.state, stat.realtime_priority), ('S', 42));
            // Bits above 32 are cut off, as in the ledger.
            assert_eq!(stat.start_ticks, 1);
        }
        for broken in [
            "",
            "17",
            "17 (cat",
            "17 (cat) S 1",
            "17 (cat) S 1 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 x",
        ] {
            assert_eq!(Stat::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_list_includes_this_process() {
        let pid = std::process::id();
        let (process, stat) = processes().find(|(process, _)| process.pid == pid).unwrap();
        assert_eq!(Stat::of(process).unwrap().command, stat.command);
        assert_eq!(super::process(pid), Some(process));
        let successor = Process { start_ticks: process.start_ticks + 1, ..process };
        assert_eq!(Stat::of(successor), None);
    }
}
