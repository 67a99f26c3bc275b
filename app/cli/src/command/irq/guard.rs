//! `onbeat irq guard`

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use onbeat_host::settings::{self, ChangeLine, RestoreOutcome};
use onbeat_host::trust;
use onbeat_irq_guard::{
    self as guard, Event, Explanation, HighestWaiter, InterfaceExplanation, SocketExplanation,
    SocketName, SocketsExplanation, Usage, WaitingExplanation, journal_directory,
};
use onbeat_node::config::load_guard;
use onbeat_realtime::BlockedSignals;
use onbeat_report::format::count;
use serde::Serialize;

use crate::command::restored;
use onbeat_terminal::exit::{CommandResult, Failure, Result, load_to_preview, warn};
use onbeat_terminal::output::{self, Reader};

/// Run receive processing at the priority of the waiting process
///
/// Interfaces of the file's [guard] table receive in threads (threaded NAPI). The priority of these threads
/// follows the highest priority among the threads that wait for packets of the interface. Packets for
/// low-priority processes then do not delay those for higher ones. Processes can have budgets: packets that
/// exceed a budget are dropped early.
///
/// Runs until Ctrl-C, then restores all settings. After a kill -9, the next start or --restore restores
/// them. /usr/share/doc/onbeat/docs/reference/guard.md describes the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq guard guard.toml --dry-run
  onbeat irq guard guard.toml --dry-run --watch 60
  onbeat irq guard guard.toml --explain 1234
  onbeat irq guard guard.toml --explain udp:10.0.0.1:5000
  onbeat irq guard guard.toml
  onbeat irq guard guard.toml --json | jq -c 'select(.event == \"priority-changed\")'
  onbeat irq guard --restore

Exit status: 0 all settings are restored, 1 a setting could not be restored, 2 error.")]
pub(super) struct Guard {
    /// Configuration of a node, or a file with only a [guard] table
    #[arg(value_name = "FILE", required_unless_present = "restore")]
    file: Option<PathBuf>,
    /// Print the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: for this time, print also what the guard would do
    #[arg(long, value_name = "SECONDS", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
    /// Print the budget of a process, or of the processes of a socket, and the priority of NAPI threads, with the reasons
    ///
    /// Changes nothing. A socket is PROTOCOL:ADDRESS:PORT such as tcp:10.0.0.1:80, udp:[::]:53 or udp:*:5000. Or ino:N or sk:N as
    /// `ss -e` prints them.
    #[arg(long, value_name = "PID|SOCKET", conflicts_with = "dry_run", requires = "file")]
    explain: Option<ExplainSubject>,
    /// Restore the settings that a killed guard left
    #[arg(long, conflicts_with_all = ["file", "dry_run"])]
    restore: bool,
    /// Discard settings that cannot be restored, such as those of a deleted interface, and a damaged journal
    // clap does not enforce `requires` if FILE excludes --restore.
    #[arg(long, requires = "restore", conflicts_with_all = ["file", "dry_run"])]
    forget: bool,
    /// Print JSON: one object per line for each event, one object for other output
    #[arg(long)]
    json: bool,
}

/// The argument of `--explain`.
#[derive(Debug, Clone)]
enum ExplainSubject {
    Process(u32),
    Socket(SocketName),
}

impl FromStr for ExplainSubject {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.parse() {
            Ok(pid) => Ok(Self::Process(pid)),
            Err(_) => text.parse().map(Self::Socket),
        }
    }
}

/// Output of `--dry-run --json`.
#[derive(Serialize)]
struct PreviewReport {
    changes: Vec<ChangeLine>,
    later: Vec<String>,
    cannot: Vec<String>,
    events: Vec<Event>,
    /// The last use of each budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets: Option<Vec<Usage>>,
}

/// Interval at which the use of budgets is printed.
const USAGE_INTERVAL: Duration = Duration::from_secs(1);

impl Guard {
    pub(super) fn execute(self) -> Result {
        let directory = journal_directory()?;
        let Some(file) = &self.file else {
            let _signals = BlockedSignals::begin()?;
            if self.forget {
                restored::discard_damaged(&directory)?;
            }
            let restored = guard::restore(&directory, self.forget)?;
            return restored::print(restored, self.forget, self.json);
        };
        if self.dry_run {
            let config = load_to_preview(file, load_guard)?;
            let mut preview = guard::preview(&config)?;
            let budgets = match self.watch {
                Some(seconds) => {
                    Some(watch(&config, Duration::from_secs(seconds), &mut preview.events)?)
                }
                None => None,
            };
            return self.preview(preview, budgets);
        }
        if let Some(subject) = &self.explain {
            let config = load_to_preview(file, load_guard)?;
            return match subject {
                ExplainSubject::Process(pid) => {
                    let explanation = guard::explain(&config, *pid)?;
                    self.explain(&explanation, || explained(&explanation))
                }
                ExplainSubject::Socket(name) => {
                    let explanation = guard::explain_sockets(&config, name)?;
                    self.explain(&explanation, || sockets_explained(&explanation))
                }
            };
        }
        let config = trust::load(file, load_guard)?;
        // Before any other thread starts: a change in progress is completed or undone.
        let signals = BlockedSignals::begin()?;
        let mut printer = Printer::new(self.json);
        let mut failure = None;
        let restored = {
            let stop = signals.descriptor()?;
            let mut print = |events: &[Event], usage: &[Usage]| {
                failure = failure.take().or(printer.print(events, usage).err());
            };
            guard::run(&config, &directory, stop.as_fd(), &mut print)?
        };
        // The pending signal would terminate this process.
        signals.wait_for(Duration::ZERO)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let count = |outcome| restored.iter().filter(|one| one.outcome == outcome).count();
        let (restored_now, failed) =
            (count(RestoreOutcome::Restored), count(RestoreOutcome::Failed));
        printer.print(&[Event::Restored { restored: restored_now, failed }], &[])?;
        for one in restored.iter().filter(|one| one.outcome == RestoreOutcome::Failed) {
            let reason = one.reason.as_deref().unwrap_or_default();
            let place = &one.entry.place;
            warn(format!("{place} not restored: {reason}; try: onbeat irq guard --restore"));
        }
        Ok(CommandResult::good_if(restored.iter().all(|one| one.outcome != RestoreOutcome::Failed)))
    }

    fn explain(&self, json: &impl Serialize, text: impl FnOnce() -> String) -> Result {
        match self.json {
            true => output::print_json(json)?,
            false => output::print(&text())?,
        }
        Ok(CommandResult::Success)
    }

    fn preview(&self, preview: guard::Preview, budgets: Option<Vec<Usage>>) -> Result {
        let guard::Preview { report, events } = preview;
        let answer = CommandResult::good_if(report.is_good());
        if self.json {
            output::print_json(&PreviewReport {
                changes: settings::lines(&report.changes),
                later: report.later,
                cannot: report.cannot,
                events,
                budgets,
            })?;
            return Ok(answer);
        }
        let mut text = settings::table(&report);
        for event in events {
            text.push_str(&format!("would    {event}\n"));
        }
        for usage in budgets.unwrap_or_default() {
            text.push_str(&format!("would    {usage}\n"));
        }
        if text.is_empty() {
            text.push_str("nothing to change now\n");
        }
        output::print(&text)?;
        Ok(answer)
    }
}

/// What a guard would do within a time: adds events, and returns the last use of each budget. Ctrl-C ends it early.
fn watch(
    config: &guard::Config,
    time: Duration,
    events: &mut Vec<Event>,
) -> std::result::Result<Vec<Usage>, Failure> {
    /// The reaction to an early end of the preview.
    const STEP: Duration = Duration::from_millis(100);
    let signals = BlockedSignals::begin()?;
    let (stop, stops) = UnixStream::pair()?;
    let deadline = Instant::now() + time;
    let mut last: BTreeMap<u32, Usage> = BTreeMap::new();
    // Those of its first step come again.
    events.clear();
    let mut report = |new: &[Event], usage: &[Usage]| {
        events.extend_from_slice(new);
        last.extend(usage.iter().map(|one| (one.process.pid, one.clone())));
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| guard::watch(config, stops.as_fd(), &mut report));
        while !watching.is_finished() && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if signals.wait_for(left.min(STEP))?.is_some() {
                break;
            }
        }
        drop(stop);
        match watching.join() {
            Ok(watched) => watched.map_err(Failure::from),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    Ok(last.into_values().collect())
}

/// Sockets that the explanation in words lists.
const LISTED_SOCKETS: usize = 20;

/// An explanation of sockets in words.
fn sockets_explained(explanation: &SocketsExplanation) -> String {
    let SocketsExplanation { sockets, processes } = explanation;
    let mut text: String = sockets.iter().take(LISTED_SOCKETS).map(socket_explained).collect();
    let more = sockets.len().saturating_sub(LISTED_SOCKETS) as u64;
    if more > 0 {
        text += &format!("and {}; --json lists all\n", count(more, "more socket"));
    }
    processes.iter().for_each(|process| text += &explained(process));
    text
}

fn socket_explained(explanation: &SocketExplanation) -> String {
    let SocketExplanation {
        protocol,
        local,
        peer,
        inode,
        cookie,
        namespace,
        elsewhere,
        interfaces,
        reason,
        processes,
    } = explanation;
    let mut text = format!("socket   {protocol} {local}");
    if let Some(peer) = peer {
        text += &format!(" to {peer}");
    }
    text += &format!(" (ino:{inode} sk:{cookie:x}");
    if *elsewhere {
        text += &format!(", network namespace {namespace}");
    }
    text += &match reason {
        Some(reason) => format!("): its processes do not wait for it: {reason}"),
        None => format!("): its processes wait for {}", interfaces.join(", ")),
    };
    let pids: Vec<String> = processes.iter().map(ToString::to_string).collect();
    text += match pids.len() {
        1 => "; open in process ",
        _ => "; the budget is that of the reader; open in processes ",
    };
    text + &pids.join(", ") + "\n"
}

/// An explanation in words.
fn explained(explanation: &Explanation) -> String {
    let Explanation { pid, command, cgroup, budget, budget_ns_per_s, interfaces } = explanation;
    let cgroup = cgroup.as_deref().unwrap_or("not readable");
    let mut text = format!("process {pid} ({command}), control group {cgroup}\n");
    text += &match (budget, budget_ns_per_s) {
        (Some(number), Some(ns)) => {
            format!("budget   {} us per second, by [[guard.budget]] {number}\n", ns / 1000)
        }
        _ => "budget   none: no [[guard.budget]] matches\n".to_owned(),
    };
    for InterfaceExplanation { interface, napi_threads, to, by, waiting } in interfaces {
        if waiting.is_empty() {
            text +=
                &format!("{interface}: it does not wait: no socket of it receives from there\n");
        }
        for WaitingExplanation { tid, name, priority } in waiting {
            text += &format!(
                "{interface}: thread {tid} ({name}) waits at {priority}, the highest one; a running guard takes the reader\n"
            );
        }
        let now = match napi_threads.first_key_value() {
            None => "no NAPI threads now".to_owned(),
            Some((first, policy)) => {
                format!(
                    "{} from {first} on, now {policy}",
                    count(napi_threads.len() as u64, "NAPI thread")
                )
            }
        };
        let decided = match (to, by) {
            (Some(to), Some(by)) => {
                let HighestWaiter { pid, tid, name, above_ceiling } = by;
                let bound = if *above_ceiling { ", bounded by ceiling" } else { "" };
                format!("; {to} for thread {tid} ({name}) of process {pid}{bound}")
            }
            (Some(to), None) => format!("; {to}, the floor: no waiting thread is above it"),
            (None, _) => "; it stays".to_owned(),
        };
        text += &format!("{interface}: {now}{decided}\n");
    }
    text
}

/// Prints events, and the use of budgets when it changes.
struct Printer {
    json: bool,
    reader: Reader,
    last: Option<Instant>,
    /// By process.
    printed: BTreeMap<u32, Usage>,
}

impl Printer {
    fn new(json: bool) -> Self {
        Self { json, reader: Reader::Open, last: None, printed: BTreeMap::new() }
    }

    fn print(&mut self, events: &[Event], usage: &[Usage]) -> std::result::Result<(), Failure> {
        let mut text = String::new();
        for event in events {
            text.push_str(&self.line(event, event)?);
        }
        let due = self.last.is_none_or(|last| last.elapsed() >= USAGE_INTERVAL);
        if due && !usage.is_empty() {
            self.last = Some(Instant::now());
            for one in usage {
                if self.printed.get(&one.process.pid) == Some(one) {
                    continue;
                }
                text.push_str(&self.line(one, one)?);
            }
            self.printed = usage.iter().map(|one| (one.process.pid, one.clone())).collect();
        }
        if !text.is_empty() && self.reader == Reader::Open {
            self.reader = output::print_to_reader(&text)?;
        }
        Ok(())
    }

    fn line(&self, words: impl std::fmt::Display, json: &impl Serialize) -> Result<String> {
        Ok(if self.json { serde_json::to_string(json)? } else { words.to_string() } + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::parse;

    #[test]
    fn an_explanation_names_budget_and_deciding_thread() {
        let waiting = |tid, name: &str, priority: &str| WaitingExplanation {
            tid,
            name: name.into(),
            priority: priority.into(),
        };
        let by = HighestWaiter { pid: 10, tid: 11, name: "loop".into(), above_ceiling: true };
        let interface = |name: &str, to: Option<&str>, by, waiting| InterfaceExplanation {
            interface: name.into(),
            napi_threads: [(7, "other".into()), (9, "other".into())].into(),
            to: to.map(str::to_owned),
            by,
            waiting,
        };
        let explanation = Explanation {
            pid: 10,
            command: "control".into(),
            cgroup: Some("/a".into()),
            budget: Some(2),
            budget_ns_per_s: Some(2_000_000),
            interfaces: vec![
                interface("eth0", Some("fifo 50"), Some(by), vec![waiting(11, "loop", "fifo 60")]),
                interface("eth1", None, None, vec![]),
            ],
        };
        assert_eq!(
            explained(&explanation),
            "\
process 10 (control), control group /a
budget   2000 us per second, by [[guard.budget]] 2
eth0: thread 11 (loop) waits at fifo 60, the highest one; a running guard takes the reader
eth0: 2 NAPI threads from 7 on, now other; fifo 50 for thread 11 (loop) of process 10, bounded by ceiling
eth1: it does not wait: no socket of it receives from there
eth1: 2 NAPI threads from 7 on, now other; it stays
"
        );
    }

    #[test]
    fn sockets_are_explained_with_their_processes() {
        let socket =
            |elsewhere: bool, interfaces: &[&str], reason: Option<&str>| SocketExplanation {
                protocol: "tcp",
                local: "10.0.0.1:80".parse().unwrap(),
                peer: elsewhere.then(|| "10.0.0.2:4000".parse().unwrap()),
                inode: 1129,
                cookie: 0x1b1,
                namespace: 4,
                elsewhere,
                interfaces: interfaces.iter().map(ToString::to_string).collect(),
                reason: reason.map(str::to_owned),
                processes: if elsewhere { [7].into() } else { [7, 8].into() },
            };
        let sockets = vec![
            socket(false, &["eth0", "eth1"], None),
            socket(true, &[], Some("it is in another network namespace")),
        ];
        let mut explanation = SocketsExplanation { sockets, processes: vec![] };
        assert_eq!(
            sockets_explained(&explanation),
            "\
socket   tcp 10.0.0.1:80 (ino:1129 sk:1b1): its processes wait for eth0, eth1; the budget is that of the reader; open in processes 7, 8
socket   tcp 10.0.0.1:80 to 10.0.0.2:4000 (ino:1129 sk:1b1, network namespace 4): its processes do not wait for it: it is in another network namespace; open in process 7
"
        );
        explanation.sockets = vec![socket(false, &["eth0"], None); LISTED_SOCKETS + 1];
        let text = sockets_explained(&explanation);
        assert!(text.ends_with("\nand 1 more socket; --json lists all\n"), "{text}");
    }

    #[test]
    fn guard_requires_a_file_or_restore() {
        for line in [
            "irq guard a.toml",
            "irq guard a.toml --dry-run --json",
            "irq guard a.toml --explain 1 --json",
            "irq guard a.toml --explain udp:*:5000",
            "irq guard a.toml --dry-run --watch 60",
            "irq guard --restore --forget",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "irq",
            "irq guard",
            "irq guard --forget",
            "irq guard a.toml --restore",
            "irq guard --restore --dry-run",
            "irq guard a.toml --forget",
            "irq guard --explain 1",
            "irq guard a.toml --explain 1 --dry-run",
            "irq guard a.toml --explain eth0",
            "irq guard a.toml --watch 60",
            "irq guard a.toml --dry-run --watch 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
