//! Where and with which priority the two nodes run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::unistd::Pid;

use crate::{Error, Result};

const THIS_THREAD: Pid = Pid::from_raw(0);

/// CPUs and priority of the nodes' threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) mn_cpu: usize,
    pub(super) cn_cpu: usize,
    /// Of SCHED_FIFO; `None`: as any other thread.
    pub(super) priority: Option<u8>,
}

impl Place {
    /// `cpus`: of the managing and of the controlled node; else the first and the last one there
    /// are. A `priority` of 0 is none.
    pub(super) fn choose(cpus: Option<(usize, usize)>, priority: u8) -> Result<Self> {
        let allowed = sched_getaffinity(THIS_THREAD)
            .map_err(|errno| Error::io("ask which CPUs may be used", errno))?;
        let list: Vec<usize> =
            (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect();
        let ends = (list.first().copied().unwrap_or(0), list.last().copied().unwrap_or(0));
        let (mn_cpu, cn_cpu) = cpus.unwrap_or(ends);
        for cpu in [mn_cpu, cn_cpu] {
            if !list.contains(&cpu) {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                let reason = format!("CPUs that may be used: {}", list.join(", "));
                return Err(Error::Option { option: "cpus", value: cpu.to_string(), reason });
            }
        }
        let place = Self { mn_cpu, cn_cpu, priority: (priority > 0).then_some(priority) };
        // Refused now rather than in the middle.
        let tried = thread::scope(|scope| scope.spawn(|| place.take(mn_cpu)).join());
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(place)
    }

    /// Keeps this thread on a CPU, at the priority.
    pub(super) fn take(&self, cpu: usize) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(cpu)
            .and_then(|()| sched_setaffinity(THIS_THREAD, &set))
            .map_err(|errno| Error::io(format!("keep a thread on CPU {cpu}"), errno))?;
        let Some(priority) = self.priority else { return Ok(()) };
        let parameters = libc::sched_param { sched_priority: priority.into() };
        // SAFETY: the parameters live through the call.
        match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
            0 => Ok(()),
            _ => Err(Error::io(
                "take a real-time priority (CAP_SYS_NICE; priority 0 does without)",
                std::io::Error::last_os_error(),
            )),
        }
    }
}

/// While it lives, memory stays where it is and CPUs do not sleep deeply; as far as the host lets
/// us.
#[derive(Debug)]
pub(super) struct Awake {
    _latency: Option<File>,
    /// Whether the kernel was asked to keep CPUs out of deep sleep.
    pub(super) no_deep_sleep: bool,
    /// Whether memory is locked.
    pub(super) locked: bool,
}

impl Awake {
    pub(super) fn begin() -> Self {
        // The request holds for as long as the file is open.
        let open = || {
            let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
            file.write_all(&0_i32.to_ne_bytes())?;
            Ok::<_, std::io::Error>(file)
        };
        let latency = open().ok();
        let locked = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).is_ok();
        Self { no_deep_sleep: latency.is_some(), locked, _latency: latency }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // Nothing is wrong with memory that stays locked.
        let _ = munlockall();
    }
}
