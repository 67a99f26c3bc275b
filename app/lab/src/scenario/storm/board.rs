//! Memory shared with forked processes.

use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{Error, Result};

/// Maximum number of recorded latencies.
pub(super) const LATENCIES: usize = 1 << 18;

/// Maximum number of late jobs with recorded times: more than a run has.
const JOBS: usize = 256;

/// Values reported by processes. Initially all zero.
#[derive(Debug)]
#[repr(C)]
pub(super) struct BoardContent {
    /// The task is working.
    pub(super) busy: AtomicBool,
    /// Work done, in nanoseconds without interruption.
    pub(super) worked_ns: AtomicU64,
    /// Jobs completed in time.
    pub(super) in_time: AtomicU64,
    /// Late jobs that would have been in time without recorded CPU steal.
    pub(super) stolen: AtomicU64,
    /// Number of other late jobs, and the first of them.
    pub(super) late: AtomicU64,
    pub(super) late_jobs: [LateJobCell; JOBS],
    /// Datagrams received.
    pub(super) received: AtomicU64,
    /// Latencies of the first of them, in nanoseconds.
    pub(super) latencies_ns: [AtomicU64; LATENCIES],
}

/// A late job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LateJob {
    pub(super) late_ns: u64,
    /// When the task was idle last, and when the job ended.
    pub(super) time: [u64; 2],
    /// In this time: CPU time of the task beyond its work, and time of other threads on its CPU.
    pub(super) beyond_ns: u64,
    pub(super) waited_ns: u64,
}

/// A [`LateJob`] in shared memory.
#[derive(Debug)]
pub(super) struct LateJobCell([AtomicU64; 5]);

impl BoardContent {
    /// Records a late job.
    pub(super) fn add_late(&self, job: LateJob) {
        let number = self.late.load(Relaxed) as usize;
        if let Some(cell) = self.late_jobs.get(number) {
            let LateJob { late_ns, time: [idle_ns, end_ns], beyond_ns, waited_ns } = job;
            let values = [late_ns, idle_ns, end_ns, beyond_ns, waited_ns];
            cell.0.iter().zip(values).for_each(|(cell, value)| cell.store(value, Relaxed));
            self.late.store(number as u64 + 1, Release);
        }
    }

    /// The recorded late jobs.
    pub(super) fn late_jobs(&self) -> impl Iterator<Item = LateJob> + '_ {
        let number = self.late.load(Acquire) as usize;
        self.late_jobs.iter().take(number).map(|LateJobCell(values)| {
            let [late_ns, idle_ns, end_ns, beyond_ns, waited_ns] =
                values.each_ref().map(|value| value.load(Relaxed));
            LateJob { late_ns, time: [idle_ns, end_ns], beyond_ns, waited_ns }
        })
    }
}

/// A board to which processes forked later write.
#[derive(Debug)]
pub(super) struct Board(NonNull<BoardContent>);

impl Board {
    pub(super) fn new() -> Result<Self> {
        const LENGTH: NonZeroUsize = NonZeroUsize::new(size_of::<BoardContent>()).unwrap();
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping.
        let memory = unsafe { mmap_anonymous(None, LENGTH, access, MapFlags::MAP_SHARED) };
        let memory = memory.map_err(|errno| Error::io("share memory with processes", errno))?;
        Ok(Self(memory.cast()))
    }
}

impl Deref for Board {
    type Target = BoardContent;

    fn deref(&self) -> &BoardContent {
        // SAFETY: the mapping is as long as the content and aligned to a page, lives as long as this,
        // and its zeros are valid for every field; all fields are atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it anymore.
        let _ = unsafe { munmap(self.0.cast(), size_of::<BoardContent>()) };
    }
}
