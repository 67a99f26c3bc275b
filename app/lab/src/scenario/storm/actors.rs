//! The processes of the experiment, each forked: a task that computes, a server that counts, a
//! receiver that measures. None has anything open but its own socket: who has a socket open waits
//! for packets, as the guard sees it.

use std::hint::black_box;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

use nix::sched::{CpuSet, sched_setaffinity};
use onbeat_irq::names::Stat;
use onbeat_irq_core::charge::Process;
use onbeat_realtime::clock::{now_ns, sleep_until};

use super::board::{Board, LATENCIES};
use crate::child::Child;
use crate::{Error, Result};

/// Steps of a piece of work: less than a microsecond.
const STEPS: u32 = 1 << 10;
/// Pieces after which work is counted.
const PIECES: usize = 32;

/// A process; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Actor {
    child: Child,
}

/// When a task works.
#[derive(Debug, Clone, Copy)]
pub(super) enum TaskSchedule {
    /// All the time.
    Steady { from_ns: u64, to_ns: u64 },
    /// Jobs of so much work, one released each period and due at its end.
    Periodic { from_ns: u64, to_ns: u64, period_ns: u64, work_ns: u64 },
}

impl Actor {
    /// A task that computes, at rest until [`Actor::resume`].
    pub(super) fn task(board: &Board, work: TaskSchedule) -> Result<Self> {
        let child = Child::fork(|| {
            keep_open(None);
            match work {
                TaskSchedule::Steady { from_ns, to_ns } => compute(board, from_ns, to_ns),
                TaskSchedule::Periodic { from_ns, to_ns, period_ns, work_ns } => {
                    jobs(board, from_ns, to_ns, period_ns, work_ns);
                }
            }
            // Its account stays to be read.
            loop {
                sleep_until(u64::MAX / 2);
            }
        })?;
        Self::wait_stopped(child)
    }

    /// A server that counts what comes.
    pub(super) fn server(board: &Board, socket: UdpSocket) -> Result<Self> {
        let child = Child::fork(|| {
            let socket = keep_open(Some(&socket));
            let mut octets = [0_u8; 2048];
            while receive(socket, &mut octets) {
                board.received.fetch_add(1, Relaxed);
            }
        })?;
        Self::wait_stopped(child)
    }

    /// A receiver that measures how old a stamp at the beginning of what comes is.
    pub(super) fn receiver(board: &Board, socket: UdpSocket) -> Result<Self> {
        let child = Child::fork(|| {
            let socket = keep_open(Some(&socket));
            let mut octets = [0_u8; 2048];
            while receive(socket, &mut octets) {
                let now = now_ns();
                let stamp = u64::from_ne_bytes(octets[..8].try_into().unwrap_or_default());
                let number = board.received.fetch_add(1, Relaxed) as usize;
                board.latencies_ns[number % LATENCIES].store(now.saturating_sub(stamp), Relaxed);
            }
        })?;
        Self::wait_stopped(child)
    }

    fn wait_stopped(child: Child) -> Result<Self> {
        child.wait_stopped()?;
        Ok(Self { child })
    }

    /// Has it run on a CPU, by SCHED_FIFO at `priority` or, with 0, normally.
    pub(super) fn resume(&self, cpu: u16, priority: u8) -> Result<()> {
        let failed = |errno| Error::io("place a process of the storm", errno);
        let mut cpus = CpuSet::new();
        cpus.set(cpu.into()).map_err(failed)?;
        sched_setaffinity(self.child.pid(), &cpus).map_err(failed)?;
        let parameters = libc::sched_param { sched_priority: priority.into() };
        let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
        // SAFETY: `parameters` lives across the call.
        let set = unsafe {
            libc::sched_setscheduler(self.child.pid().as_raw(), policy, &raw const parameters)
        };
        nix::errno::Errno::result(set).map_err(failed)?;
        self.child.resume()
    }

    /// As the ledger names it.
    pub(super) fn process(&self) -> Result<Process> {
        self.child.process()
    }

    /// What the kernel says it took, user and system time together, in ticks of 10 ms.
    pub(super) fn ticks(&self) -> Result<u64> {
        let process = self.process()?;
        let stat = Stat::of(process);
        let ended = || Error::Invalid(format!("process {} of the storm ended", process.pid));
        Ok(stat.ok_or_else(ended)?.ticks())
    }
}

/// Closes everything else; what is kept has the number that is returned.
fn keep_open(socket: Option<&UdpSocket>) -> i32 {
    const KEPT: i32 = 3;
    // SAFETY: descriptors are this process's own, which uses no other from now on.
    unsafe {
        match socket {
            Some(socket) => {
                libc::dup2(socket.as_raw_fd(), KEPT);
                libc::syscall(libc::SYS_close_range, KEPT + 1, u32::MAX, 0);
            }
            None => _ = libc::syscall(libc::SYS_close_range, KEPT, u32::MAX, 0),
        }
    }
    KEPT
}

fn receive(socket: i32, octets: &mut [u8]) -> bool {
    // SAFETY: the buffer is as long as said.
    let read = unsafe { libc::recv(socket, octets.as_mut_ptr().cast(), octets.len(), 0) };
    read >= 0
}

/// Works for a while, and says how much that was: what its pieces take when nothing interrupts them.
/// Most are not interrupted, so that it is their median. A machine whose speed changes, as virtual ones
/// do, changes this alike. To find that out is work, too: as much as a piece at most.
fn work(board: &Board) -> u64 {
    let mut took_ns = [0; PIECES];
    let mut before = now_ns();
    for took in &mut took_ns {
        for step in 0..STEPS {
            black_box(step);
        }
        let now = now_ns();
        *took = now - before;
        before = now;
    }
    let (_, median, _) = took_ns.select_nth_unstable(PIECES / 2);
    let worked_ns = *median * PIECES as u64 + (now_ns() - before).min(*median);
    board.worked_ns.fetch_add(worked_ns, Relaxed);
    worked_ns
}

fn compute(board: &Board, from_ns: u64, to_ns: u64) {
    sleep_until(from_ns);
    board.busy.store(true, Relaxed);
    while now_ns() < to_ns {
        work(board);
    }
    board.busy.store(false, Relaxed);
}

/// A job that is late holds up the next, as it would a process that has all of them to do.
fn jobs(board: &Board, from_ns: u64, to_ns: u64, period_ns: u64, work_ns: u64) {
    let mut release = from_ns;
    while release + period_ns <= to_ns {
        if now_ns() < release {
            sleep_until(release);
        }
        board.busy.store(true, Relaxed);
        let mut left_ns = work_ns;
        while left_ns > 0 && now_ns() < to_ns {
            left_ns = left_ns.saturating_sub(work(board));
        }
        board.busy.store(false, Relaxed);
        if left_ns == 0 && now_ns() <= release + period_ns {
            board.in_time.fetch_add(1, Relaxed);
        }
        release += period_ns;
    }
}
