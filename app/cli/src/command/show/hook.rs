//! `onbeat show --events --follow --exec`: a program for each event.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use onbeat_node::control::Event;
use onbeat_terminal::exit::{self, Failure, Result};

/// Number of starts in a burst; one more is possible each [`REFILL`].
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(6);
/// Maximum run time of the program.
const LIMIT: Duration = Duration::from_secs(30);
/// Poll interval of the end of the program.
const LOOK: Duration = Duration::from_millis(10);

/// The program, and the number of its starts that are possible.
pub(super) struct Hook {
    program: PathBuf,
    limit: Limit,
    /// Events without a start, and the last one of them.
    skipped: Option<(u64, Event)>,
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

    fn take(&mut self, now: Instant) -> bool {
        let refills = now.duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let refills = u32::try_from(refills).unwrap_or(BURST).min(BURST);
        self.left = (self.left + refills).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * refills };
        let is_possible = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_possible
    }
}

impl Hook {
    /// Refuses to run programs as root: names in events come from configurations of others.
    pub(super) fn new(program: PathBuf) -> Result<Self> {
        if nix::unistd::geteuid().is_root() {
            return Err(Failure::new(
                "--exec starts no program as root; run the command as a member of group \"onbeat\", as onbeat-hook@.service does",
            ));
        }
        Ok(Self { program, limit: Limit::new(Instant::now()), skipped: None })
    }

    /// Starts the program for each event, as often as the limit permits; then for the last event without a start.
    pub(super) fn pass(&mut self, events: &[&Event]) -> Result<()> {
        for event in events {
            self.skipped = Some((self.skipped.take().map_or(0, |(n, _)| n) + 1, (*event).clone()));
            self.start_if_possible()?;
        }
        // Also with no event: those of a burst are not forgotten.
        self.start_if_possible()
    }

    fn start_if_possible(&mut self) -> Result<()> {
        if self.skipped.is_none() || !self.limit.take(Instant::now()) {
            return Ok(());
        }
        let Some((waiting, event)) = self.skipped.take() else { return Ok(()) };
        self.start(&event, waiting - 1)
    }

    /// Runs the program to its end, or for its maximum time.
    fn start(&self, event: &Event, skipped: u64) -> Result<()> {
        let json = serde_json::to_vec(event).map_err(Failure::new)?;
        let mut command = Command::new(&self.program);
        command.env("ONBEAT_EVENT", event.detail.name());
        command.env("ONBEAT_STREAM", event.stream.as_deref().unwrap_or_default());
        command.env("ONBEAT_PORT", event.port.as_deref().unwrap_or_default());
        command.env("ONBEAT_BAD", if event.detail.is_bad() { "1" } else { "0" });
        command.env("ONBEAT_TEXT", event.to_string()).env("ONBEAT_SKIPPED", skipped.to_string());
        command.stdin(Stdio::piped()).process_group(0);
        let name = self.program.display();
        let mut child = command
            .spawn()
            .map_err(|error| Failure::new(format!("--exec {name}: cannot start it: {error}")))?;
        if let Some(mut input) = child.stdin.take() {
            // It fits into the pipe. The program may not read it.
            let _ = input.write_all(&json);
        }
        match wait(&mut child) {
            Some(status) if status.success() => {}
            Some(status) => exit::warn(format!("{name}: {status}, of event {}", event.number)),
            None => exit::warn(format!(
                "{name}: killed after {} s, of event {}",
                LIMIT.as_secs(),
                event.number
            )),
        }
        Ok(())
    }
}

/// Waits for the end of a process; kills its group after its maximum time.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
            _ => {
                // The group is the program's: it started in one of its own.
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_start_each_refill() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let starts = |limit: &mut Limit, at: Duration| {
            (0..100).filter(|_| limit.take(start + at)).count() as u32
        };
        assert_eq!(starts(&mut limit, Duration::ZERO), BURST);
        assert_eq!(starts(&mut limit, REFILL - LOOK), 0);
        assert_eq!(starts(&mut limit, REFILL), 1);
        assert_eq!(starts(&mut limit, REFILL * 3), 2);
        assert_eq!(starts(&mut limit, REFILL * 1000), BURST);
    }
}
