//! Processes that a test may kill or time out.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::world::die_with_parent;
use onbeat_netdev::Namespace;
use onbeat_wire::random::Random;

use super::{BOUND, program};

/// A process, killed on drop.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Starts the program in a namespace, without output.
    pub(crate) fn start(namespace: &Namespace, arguments: &[&str]) -> Process {
        let mut command = Command::new(program());
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        namespace.start_in(&mut command);
        Process::spawn(command)
    }

    /// Starts a command in its network namespace, or in that of this thread.
    pub(crate) fn spawn(mut command: Command) -> Process {
        command.stdin(Stdio::null());
        Process::spawn_with_input(command)
    }

    /// Like [`Process::spawn`], with the standard input of the command.
    pub(crate) fn spawn_with_input(mut command: Command) -> Process {
        command.process_group(0);
        die_with_parent(&mut command);
        Process(command.spawn().expect("it starts"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have exited.
        let _ = kill(Pid::from_raw(self.0.id() as i32), signal);
    }

    /// Kills it (SIGKILL) at a random time within `span`, unless it exits before.
    pub(crate) fn kill_within(mut self, random: &mut Random, span: Duration) {
        std::thread::sleep(random_part(random, span));
        let _ = self.0.kill();
        self.0.wait().expect("its exit status");
    }

    /// Waits until it exits; `None` if it does not within `bound`.
    pub(crate) fn wait(&mut self, bound: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + bound;
        loop {
            match self.0.try_wait().expect("its exit status") {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                status => return status,
            }
        }
    }

    /// Waits until it exits; returns its exit status, or minus the signal that terminated it.
    #[track_caller]
    pub(crate) fn code(mut self, what: &str) -> i32 {
        let status = self.wait(BOUND).unwrap_or_else(|| panic!("{what} does not exit"));
        status.code().unwrap_or_else(|| -status.signal().unwrap_or_default())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A random part of a span of time.
pub(crate) fn random_part(random: &mut Random, span: Duration) -> Duration {
    Duration::from_nanos(random.below(span.as_nanos() as u64))
}
