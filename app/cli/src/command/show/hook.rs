//! `onbeat show --events --follow --exec`: a program for each event.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{AccessFlags, Pid, access};
use onbeat_node::control::{Client, ClientError, DIRECTORY, Event};
use onbeat_realtime::interrupt;
use onbeat_terminal::exit::{self, CommandResult, Failure, Result};

use crate::node;

/// Number of starts in a burst; one more is possible each [`REFILL`].
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(6);
/// Maximum run time of the program.
const LIMIT: Duration = Duration::from_secs(30);
/// Interval of the requests of events, and of the looks at the program.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of events that wait for the end of the program.
const WAITING: usize = 100;

/// A program, and the events for which it is to be started.
pub(super) struct Hook {
    program: PathBuf,
    limit: Limit,
    waiting: VecDeque<Event>,
    /// Number of events for which the program is not started.
    skipped: u64,
    running: Option<HookProcess>,
}

/// A process of the program.
struct HookProcess {
    child: Child,
    event: u64,
    deadline: Instant,
}

/// A bucket of starts.
struct Limit {
    left: u32,
    since: Instant,
}

impl Limit {
    fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// The number of possible starts.
    fn left(&mut self, now: Instant) -> u32 {
        let refills = now.duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let refills = u32::try_from(refills).unwrap_or(BURST).min(BURST);
        self.left = (self.left + refills).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * refills };
        self.left
    }
}

/// Starts a program for each new event of a node, or of these streams.
pub(super) fn run(node: Option<String>, program: PathBuf, streams: &[String]) -> Result {
    let mut hook = Hook::new(program)?;
    let mut client = node::connect(node.as_deref(), "onbeat show --events")?;
    // Stored events are of the past.
    let (_, last) = client.events_after(None)?;
    let is_wanted = |event: &Event| {
        streams.is_empty() || event.stream.as_ref().is_some_and(|stream| streams.contains(stream))
    };
    hook.follow((node, client), last, is_wanted)?;
    Ok(CommandResult::Success)
}

impl Hook {
    /// Refuses to run programs as root: names in events come from configurations of others.
    pub(super) fn new(program: PathBuf) -> Result<Self> {
        let name = program.display();
        if nix::unistd::geteuid().is_root() {
            return Err(Failure::new(
                "--exec starts no program as root; run the command as a member of group \"onbeat\", as onbeat-hook@.service does",
            ));
        }
        if program.components().count() < 2 {
            return Err(Failure::new(format!(
                "--exec {name}: not searched in PATH; write its path, such as /usr/local/bin/{name}"
            )));
        }
        if let Err(error) = access(&program, AccessFlags::X_OK) {
            let remedy = "this user must be able to read and execute it";
            return Err(Failure::new(format!("--exec {name}: {}; {remedy}", error.desc())));
        }
        let limit = Limit::new(Instant::now());
        let (waiting, skipped, running) = (VecDeque::new(), 0, None);
        Ok(Self { program, limit, waiting, skipped, running })
    }

    /// Starts the program for each event after `last` for which `is_wanted`, also of later daemons of the node, until a
    /// signal.
    pub(super) fn follow(
        &mut self,
        (node, mut client): (Option<String>, Client),
        mut last: u64,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<()> {
        let _guard = interrupt::Guard::install();
        let mut is_silent = false;
        loop {
            match client.events_after(Some(last)) {
                Ok((events, now)) => {
                    (last, is_silent) = (now, false);
                    self.waiting.extend(events.into_iter().filter(|event| is_wanted(event)));
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_silent, true) {
                        exit::warn(format!("{error}; waiting for the node"));
                    }
                    // Events of a new daemon have lower numbers: it sends all of them.
                    if let Ok(again) = reconnect(node.as_deref()) {
                        client = again;
                    }
                }
            }
            self.step(Instant::now());
            if interrupt::pause(INTERVAL).is_err() {
                return Ok(());
            }
        }
    }

    /// Ends a program that takes too long, and starts it for the next event if that is possible.
    fn step(&mut self, now: Instant) {
        if let Some(running) = &mut self.running {
            let name = self.program.display();
            match running.child.try_wait() {
                Ok(None) if now < running.deadline => return,
                Ok(None) => {
                    exit::warn(format!(
                        "{name}: killed after {} s, of event {}",
                        LIMIT.as_secs(),
                        running.event
                    ));
                }
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => {
                    exit::warn(format!("{name}: {status}, of event {}", running.event));
                }
                Err(error) => exit::warn(format!("{name}: {error}")),
            }
            self.running = None;
        }
        let possible = self.limit.left(now);
        // In a flood, the last event says most.
        let most = if possible == 0 { 1 } else { WAITING };
        let left_out = self.waiting.len().saturating_sub(most);
        self.waiting.drain(..left_out);
        self.skipped += left_out as u64;
        if possible == 0 {
            return;
        }
        let Some(event) = self.waiting.pop_front() else { return };
        self.limit.left -= 1;
        match self.start(&event) {
            Ok(child) => {
                let deadline = now + LIMIT;
                self.running = Some(HookProcess { child, event: event.number, deadline });
            }
            Err(error) => {
                exit::warn(format!("--exec {}: cannot start it: {error}", self.program.display()));
            }
        }
        self.skipped = 0;
    }

    fn start(&self, event: &Event) -> std::io::Result<Child> {
        let json = serde_json::to_vec(event)?;
        let mut command = Command::new(&self.program);
        command.env("ONBEAT_EVENT", event.detail.name());
        command.env("ONBEAT_STREAM", event.stream.as_deref().unwrap_or_default());
        command.env("ONBEAT_PORT", event.port.as_deref().unwrap_or_default());
        command.env("ONBEAT_BAD", if event.detail.is_bad() { "1" } else { "0" });
        command.env("ONBEAT_TEXT", event.to_string());
        command.env("ONBEAT_SKIPPED", self.skipped.to_string());
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // It fits into the pipe. The program may not read it. A line, as the shell reads it.
            let _ = input.write_all(&[&json[..], b"\n"].concat());
        }
        Ok(child)
    }
}

impl Drop for HookProcess {
    fn drop(&mut self) {
        // The group is the program's: it started in one of its own. The number of a process that ended may be another's.
        if let Ok(None) = self.child.try_wait() {
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn reconnect(node: Option<&str>) -> std::result::Result<Client, ClientError> {
    Client::to_node(node, Path::new(DIRECTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_start_each_refill() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let starts = |limit: &mut Limit, at: Duration| {
            let possible = limit.left(start + at);
            limit.left = 0;
            possible
        };
        assert_eq!(starts(&mut limit, Duration::ZERO), BURST);
        assert_eq!(starts(&mut limit, REFILL - INTERVAL), 0);
        assert_eq!(starts(&mut limit, REFILL), 1);
        assert_eq!(starts(&mut limit, REFILL * 3), 2);
        assert_eq!(starts(&mut limit, REFILL * 1000), BURST);
    }
}
