//! Load on the scheduler, as hackbench(8) makes it: groups of processes that send each other short
//! messages over pipes, as fast as they can.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2};

use crate::{Error, Result, child};

/// Senders of a group, and as many receivers.
const HALF: usize = 20;
/// Octets of a message.
const MESSAGE: usize = 100;

/// The processes, at rest until they are asked to [`run`](Hackbench::run).
///
/// They end with the thread that started them, however that ends.
#[derive(Debug)]
pub struct Hackbench {
    tasks: Vec<Pid>,
}

impl Hackbench {
    /// Groups of hackbench's own default: 400 tasks.
    pub const GROUPS: usize = 10;

    /// Starts so many groups of 40 tasks, at rest.
    ///
    /// # Errors
    /// Where there is no room for so many processes or pipes.
    pub fn start(groups: usize) -> Result<Self> {
        let mut all = Self { tasks: Vec::with_capacity(groups * 2 * HALF) };
        for _ in 0..groups {
            all.add_group()?;
        }
        all.tasks.iter().try_for_each(|task| child::at_rest(*task))?;
        Ok(all)
    }

    /// How many tasks there are.
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
            self.tasks.push(child::fork(|| receive(from.as_raw_fd()))?);
            self.tasks.push(child::fork(|| send(&to))?);
        }
        // The tasks have the pipes now.
        Ok(())
    }

    /// Lets the tasks run, until the result is dropped.
    ///
    /// # Errors
    /// Where a task has ended.
    pub fn run(&self) -> Result<Running<'_>> {
        let running = Running(self);
        for task in &self.tasks {
            kill(*task, Signal::SIGCONT).map_err(|errno| Error::io("start the load", errno))?;
        }
        Ok(running)
    }
}

impl Drop for Hackbench {
    fn drop(&mut self) {
        for task in &self.tasks {
            let _ = kill(*task, Signal::SIGKILL);
        }
        for task in &self.tasks {
            let _ = waitpid(*task, None);
        }
    }
}

/// The load, running.
#[derive(Debug)]
pub struct Running<'a>(&'a Hackbench);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for task in &self.0.tasks {
            let _ = kill(*task, Signal::SIGSTOP);
        }
        // What follows is not to be measured under their last breath.
        for task in &self.0.tasks {
            let _ = child::at_rest(*task);
        }
    }
}

fn receive(from: i32) {
    let mut message = [0_u8; MESSAGE];
    loop {
        // SAFETY: the buffer is as long as said.
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
            // SAFETY: the buffer is as long as said.
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
    use crate::interrupt::wait_until;
    use std::fs;
    use std::time::Duration;

    /// Longest wait for something that comes at once unless it never comes.
    const BOUND: Duration = Duration::from_secs(30);

    /// State letter and clock ticks used, of proc_pid_stat(5).
    fn state(task: Pid) -> Option<(char, u64)> {
        let stat = fs::read_to_string(format!("/proc/{task}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |field: &str| field.parse::<u64>().ok();
        Some((fields[0].chars().next()?, ticks(fields[11])? + ticks(fields[12])?))
    }

    #[test]
    fn tasks_rest_run_rest_and_are_gone() {
        let load = Hackbench::start(1).unwrap();
        assert_eq!(load.tasks(), 40);
        let tasks = load.tasks.clone();
        let resting = || tasks.iter().all(|task| state(*task).unwrap().0 == 'T');
        let used = || tasks.iter().map(|task| state(*task).unwrap().1).sum::<u64>();
        assert!(resting());
        let before = used();
        let running = load.run().unwrap();
        assert!(wait_until(BOUND, || used() > before).unwrap(), "they do nothing");
        drop(running);
        assert!(resting());
        drop(load);
        assert!(tasks.iter().all(|task| state(*task).is_none()));
    }
}
