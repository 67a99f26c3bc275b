//! Scheduler load like hackbench(8): groups of processes that send each other short messages over pipes
//! at full speed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::child::Child;
use crate::{Error, Result};

/// Number of senders of a group, and of receivers.
const HALF: usize = 20;
/// Octets of a message.
const MESSAGE: usize = 100;

/// Stopped processes, until [`run`](Hackbench::run).
///
/// They exit with the thread that started them.
#[derive(Debug)]
pub struct Hackbench {
    tasks: Vec<Child>,
}

impl Hackbench {
    /// Number of groups, hackbench's own default: 400 tasks.
    pub const GROUPS: usize = 10;

    /// Starts `groups` groups of 40 tasks, stopped.
    ///
    /// # Errors
    /// The limits of processes or pipes are too low.
    pub fn start(groups: usize) -> Result<Self> {
        let mut all = Self { tasks: Vec::with_capacity(groups * 2 * HALF) };
        for _ in 0..groups {
            all.add_group()?;
        }
        all.tasks.iter().try_for_each(Child::wait_stopped)?;
        Ok(all)
    }

    /// The number of tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    fn add_group(&mut self) -> Result<()> {
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..HALF)
            .map(|_| pipe2(OFlag::O_CLOEXEC))
            .collect::<nix::Result<_>>()
            .map_err(|errno| Error::io("make pipes for the load", errno))?;
        let to: Vec<i32> = pipes.iter().map(|(_, write)| write.as_raw_fd()).collect();
        for (from, _) in &pipes {
            self.tasks.push(Child::fork(|| receive(from.as_raw_fd()))?);
            self.tasks.push(Child::fork(|| send(&to))?);
        }
        // The tasks have inherited the pipes.
        Ok(())
    }

    /// Resumes the tasks until the result is dropped.
    ///
    /// # Errors
    /// A task has exited.
    pub fn run(&self) -> Result<RunningHackbench<'_>> {
        let running = RunningHackbench(self);
        self.tasks.iter().try_for_each(Child::resume)?;
        Ok(running)
    }
}

impl Drop for Hackbench {
    fn drop(&mut self) {
        // Kills all before waiting for each.
        for task in &self.tasks {
            let _ = task.kill();
        }
    }
}

/// The running load.
#[derive(Debug)]
pub struct RunningHackbench<'a>(&'a Hackbench);

impl Drop for RunningHackbench<'_> {
    fn drop(&mut self) {
        for task in &self.0.tasks {
            let _ = task.stop();
        }
        // Wait until all have stopped, so that the next measurement is not affected.
        for task in &self.0.tasks {
            let _ = task.wait_stopped();
        }
    }
}

fn receive(from: i32) {
    let mut message = [0_u8; MESSAGE];
    loop {
        // SAFETY: the buffer has the given length.
        let read = unsafe { libc::read(from, message.as_mut_ptr().cast(), MESSAGE) };
        if read == 0 || read < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
        {
            return;
        }
    }
}

fn send(to: &[i32]) {
    let message = [0_u8; MESSAGE];
    loop {
        for pipe in to {
            // SAFETY: the buffer has the given length.
            let written = unsafe { libc::write(*pipe, message.as_ptr().cast(), MESSAGE) };
            if written < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_irq::names::Stat;
    use onbeat_realtime::interrupt::wait_until;
    use std::time::Duration;

    /// Maximum wait for an event that is expected at once.
    const BOUND: Duration = Duration::from_secs(30);

    #[test]
    fn tasks_stop_run_stop_and_exit() {
        let load = Hackbench::start(1).unwrap();
        assert_eq!(load.tasks(), 40);
        let tasks: Vec<_> = load.tasks.iter().map(|task| task.process().unwrap()).collect();
        let stat = |task: &_| Stat::of(*task).unwrap();
        let resting = || tasks.iter().all(|task| stat(task).state == 'T');
        let used = || tasks.iter().map(|task| stat(task).ticks()).sum::<u64>();
        assert!(resting());
        let before = used();
        let running = load.run().unwrap();
        assert!(wait_until(BOUND, || used() > before).unwrap(), "the tasks do not run");
        drop(running);
        assert!(resting());
        drop(load);
        assert!(tasks.iter().all(|task| Stat::of(*task).is_none()));
    }
}
