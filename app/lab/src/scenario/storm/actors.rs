//! The forked processes of the experiment: a task that computes, a server that counts, a receiver that
//! measures. Each has only its own socket open: for the guard, a process with an open socket may be
//! waiting for packets.

use std::hint::black_box;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

use nix::sched::{CpuSet, sched_setaffinity};
use onbeat_irq::names::Stat;
use onbeat_irq_core::charge::Process;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use super::board::{Board, LATENCIES};
use crate::child::Child;
use crate::{Error, Result};

/// Steps of a work unit: less than a microsecond.
const STEPS: u32 = 1 << 10;
/// Number of units after which work is counted.
const PIECES: usize = 32;

/// A process; killed on drop.
#[derive(Debug)]
pub(super) struct Actor {
    child: Child,
}

/// Schedule of a task.
#[derive(Debug, Clone, Copy)]
pub(super) enum TaskSchedule {
    /// Continuous.
    Steady { from_ns: u64, to_ns: u64 },
    /// Jobs of this much work, one released per period, with its end as deadline.
    Periodic { from_ns: u64, to_ns: u64, period_ns: u64, work_ns: u64, records_steal: bool },
}

impl Actor {
    /// Starts a task that computes, stopped until [`Actor::resume`].
    pub(super) fn task(board: &Board, work: TaskSchedule) -> Result<Self> {
        let child = Child::fork(|| {
            keep_open(None);
            match work {
                TaskSchedule::Steady { from_ns, to_ns } => compute(board, from_ns, to_ns),
                TaskSchedule::Periodic { from_ns, to_ns, period_ns, work_ns, records_steal } => {
                    let times = records_steal.then(TaskTimes::open);
                    jobs(board, (from_ns, to_ns), (period_ns, work_ns), times.as_ref());
                }
            }
            // Its accounts remain readable.
            loop {
                sleep_until(u64::MAX / 2);
            }
        })?;
        Self::wait_stopped(child)
    }

    /// Starts a server that counts received packets.
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

    /// Starts a receiver that measures the age of the stamp at the start of each packet.
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

    /// Resumes it on a CPU, with SCHED_FIFO at `priority` or, with 0, normal scheduling.
    pub(super) fn resume(&self, cpu: u16, priority: u8) -> Result<()> {
        let failed = |errno| Error::io("set CPU and priority of a process of the storm", errno);
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

    /// The process as identified by the ledger.
    pub(super) fn process(&self) -> Result<Process> {
        self.child.process()
    }

    /// Its CPU time by the kernel's accounts, user and system time together, in ticks of 10 ms.
    pub(super) fn ticks(&self) -> Result<u64> {
        let process = self.process()?;
        let stat = Stat::of(process);
        let ended = || Error::Invalid(format!("process {} of the storm has exited", process.pid));
        Ok(stat.ok_or_else(ended)?.ticks())
    }
}

/// Closes all other descriptors; returns the number of the remaining one.
///
/// The process gets a session of its own, as a service has a control group of its own: with a kernel that groups
/// processes by session (sched(7), autogroup), the sender's load on another CPU would reduce its share of this one.
fn keep_open(socket: Option<&UdpSocket>) -> i32 {
    const KEPT: i32 = 3;
    // SAFETY: no pointer is passed.
    unsafe { libc::setsid() };
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
    // SAFETY: the buffer has the given length.
    let read = unsafe { libc::recv(socket, octets.as_mut_ptr().cast(), octets.len(), 0) };
    read >= 0
}

/// Works for a short time; returns the amount of work in time units without interruption. Most units
/// are not interrupted, so the unit is their median. It follows machines of varying speed, such as
/// virtual ones. To determine it is work as well: one unit at most.
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

/// CPU steal from which on a late job is counted apart.
const STEAL_NS: u64 = 1_000_000;

/// Times of the calling process, which has one thread. Its CPU time does not contain CPU steal.
struct TaskTimes {
    schedstat: i32,
}

/// Nanoseconds on the clock, on a CPU, and ready to run on one.
#[derive(Clone, Copy)]
struct TaskTime {
    elapsed_ns: u64,
    ran_ns: u64,
    waited_ns: u64,
}

impl TaskTimes {
    fn open() -> Self {
        // SAFETY: a string that outlives the call. Without the file, reads fail.
        Self { schedstat: unsafe { libc::open(c"/proc/self/schedstat".as_ptr(), libc::O_RDONLY) } }
    }

    fn now(&self) -> TaskTime {
        let mut text = [0_u8; 64];
        // SAFETY: the buffer has this length.
        let read = unsafe { libc::pread(self.schedstat, text.as_mut_ptr().cast(), text.len(), 0) };
        let text = text.get(..usize::try_from(read).unwrap_or_default()).unwrap_or_default();
        let waited = text.split(|octet| *octet == b' ').nth(1).unwrap_or_default();
        let mut ran = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a pointer to memory of this stack.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ran) };
        TaskTime {
            elapsed_ns: now_ns(),
            ran_ns: ran.tv_sec as u64 * SECOND + ran.tv_nsec as u64,
            waited_ns: waited
                .iter()
                .fold(0, |sum, digit| sum * 10 + u64::from(digit.wrapping_sub(b'0'))),
        }
    }
}

impl TaskTime {
    /// The times since an earlier one.
    fn since(self, earlier: Self) -> Self {
        let since = |of: fn(Self) -> u64| of(self).saturating_sub(of(earlier));
        Self {
            elapsed_ns: since(|time| time.elapsed_ns),
            ran_ns: since(|time| time.ran_ns),
            waited_ns: since(|time| time.waited_ns),
        }
    }

    /// CPU steal: neither run time nor time of other threads.
    fn stolen_ns(self) -> u64 {
        self.elapsed_ns.saturating_sub(self.ran_ns + self.waited_ns)
    }
}

/// The jobs of a task as they would have been without CPU steal. A job that is late since the one before it was has the
/// cause of that one.
#[derive(Debug, Default)]
struct WithoutSteal {
    /// End of the last job.
    end_ns: u64,
    /// CPU steal since the task was idle.
    stolen_ns: u64,
}

impl WithoutSteal {
    /// Adds a job that took this time, of which that was CPU steal. `was_idle`: it was released while the task was idle.
    fn add(&mut self, release_ns: u64, was_idle: bool, took_ns: u64, stolen_ns: u64) {
        self.end_ns = self.end_ns.max(release_ns) + took_ns.saturating_sub(stolen_ns);
        self.stolen_ns = if was_idle { stolen_ns } else { self.stolen_ns + stolen_ns };
    }

    /// Whether the last job would have been in time.
    fn is_in_time(&self, deadline_ns: u64) -> bool {
        self.stolen_ns >= STEAL_NS && self.end_ns <= deadline_ns
    }
}

/// A late job delays the next one, as in a process that runs all jobs.
fn jobs(
    board: &Board,
    (from_ns, to_ns): (u64, u64),
    (period_ns, work_ns): (u64, u64),
    times: Option<&TaskTimes>,
) {
    let mut without_steal = WithoutSteal::default();
    let (mut release, mut before_ns, mut owed_ns) = (from_ns, 0, 0);
    while release + period_ns <= to_ns {
        let was_idle = now_ns() < release;
        if was_idle {
            sleep_until(release);
        }
        let started = times.map(TaskTimes::now);
        board.busy.store(true, Relaxed);
        let mut left_ns = work_ns;
        while left_ns > 0 && now_ns() < to_ns {
            left_ns = left_ns.saturating_sub(work(board));
        }
        board.busy.store(false, Relaxed);
        let stolen_ns =
            times.zip(started).map_or(0, |(times, started)| times.now().since(started).stolen_ns());
        let now = now_ns();
        // At the end of the measurement, the rest of the work takes at least its own time.
        owed_ns += left_ns;
        let took_ns = now - release.max(before_ns) + left_ns;
        without_steal.add(release, was_idle, took_ns, stolen_ns);
        let deadline_ns = release + period_ns;
        if now + owed_ns <= deadline_ns {
            board.in_time.fetch_add(1, Relaxed);
        } else if without_steal.is_in_time(deadline_ns) {
            board.stolen.fetch_add(1, Relaxed);
        }
        (release, before_ns) = (deadline_ns, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that runs and waits has no steal; a lost second is steal.
    #[test]
    fn steal_is_the_time_without_another_reason() {
        let times = TaskTimes::open();
        let before = times.now();
        let until = now_ns() + 20_000_000;
        while now_ns() < until {
            black_box(0);
        }
        let after = times.now();
        assert!(after.ran_ns > before.ran_ns, "it has run");
        assert!(after.waited_ns >= before.waited_ns);
        let time = |elapsed_ns, ran_ns, waited_ns| TaskTime { elapsed_ns, ran_ns, waited_ns };
        let stolen_ns = |time: TaskTime| {
            time.since(TaskTime { elapsed_ns: 100, ran_ns: 50, waited_ns: 7 }).stolen_ns()
        };
        assert_eq!(stolen_ns(time(200, 120, 37)), 0);
        assert_eq!(stolen_ns(time(200, 110, 17)), 30);
        // Clocks are not read at the same time.
        assert_eq!(stolen_ns(time(200, 151, 7)), 0);
    }

    #[test]
    fn a_job_is_late_by_steal_if_it_would_have_been_in_time_without() {
        const MS: u64 = 1_000_000;
        // Jobs of 42 ms in 50 ms: when they are released, what they take, and what of it is CPU steal.
        let late = |jobs: &[(u64, u64)]| -> Vec<bool> {
            let (mut without, mut before) = (WithoutSteal::default(), 0);
            let judge = |(number, (more, stolen)): (usize, &(u64, u64))| {
                let release = number as u64 * 50 * MS;
                let end = before.max(release) + (42 + more) * MS;
                without.add(
                    release,
                    before < release || number == 0,
                    (42 + more) * MS,
                    stolen * MS,
                );
                before = end;
                end > release + 50 * MS && !without.is_in_time(release + 50 * MS)
            };
            jobs.iter().enumerate().map(judge).collect()
        };
        assert_eq!(
            late(&[(0, 0), (20, 20), (0, 0), (0, 0)]),
            [false; 4],
            "and the jobs that waited"
        );
        assert_eq!(late(&[(20, 0), (0, 0), (0, 0)]), [true, true, false], "by other causes");
        assert_eq!(late(&[(20, 11)]), [true], "the other causes alone would have made it late");
        assert_eq!(late(&[(12, 12), (12, 0)]), [false, true], "the second by another cause");
    }
}
