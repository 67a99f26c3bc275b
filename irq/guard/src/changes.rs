//! Changes that make a new scan necessary, of a process or of all: bpf/changes.h.

use std::collections::HashMap;
use std::fs;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, ProgramInput, RingBuffer, RingBufferBuilder,
};
use onbeat_bpf::{MappedArray, Object, PlainData, UnloadedObject};
use onbeat_irq_core::policy::Rank;

use crate::abi::{guard_changes, guard_interrupts, guard_rank};
use crate::error::{Error, Result};
use crate::walk::rodata;

/// Programs at tracepoints.
const TRACED: [&str; 5] = ["on_inet_sock_set_state", "on_fork", "on_exec", "on_exit", "on_switch"];
/// Programs of the control group of all processes.
const GROUPED: [&str; 3] = ["on_sock_create", "on_bind4", "on_bind6"];
/// Words of `changes`.
const COUNT: usize = offset_of!(guard_changes, count) / size_of::<u64>();
const PROCESSES: usize = offset_of!(guard_changes, processes) / size_of::<u64>();
const LOADER: usize = offset_of!(guard_changes, loader) / size_of::<u64>();
const SCANS: usize = offset_of!(guard_changes, scans) / size_of::<u64>();
/// The program that starts comparisons of the scheduling of watched threads.
const CHECK: &str = "start_checks";
/// The program that compares once.
const CHECK_NOW: &str = "check_now";

/// Counts changes. Nothing outlives the process.
#[derive(Debug)]
pub(super) struct Changes {
    count: MappedArray<guard_changes>,
    changed: MapHandle,
    wakes: MapHandle,
    wake_entries: RingBuffer<'static>,
    /// Reports of interrupts among them, until they are taken.
    interrupts: Arc<Mutex<Vec<guard_interrupts>>>,
    watched: KnownTable,
    waiting: KnownTable,
    /// The count at the last scan of all; `None`: one is due in any case.
    seen: Option<u64>,
    /// The count of changed processes that were taken.
    taken: u64,
    has_timers: bool,
    /// Whether all threads are watched that must be.
    is_complete: bool,
    _links: Vec<Link>,
}

/// What this kernel reports.
#[derive(Debug)]
pub(super) struct Reports {
    group: Option<OwnedFd>,
    finds_threads: bool,
    /// Whether programs may have timers: not on PREEMPT_RT.
    has_timers: bool,
}

impl Reports {
    pub(super) fn of_kernel(types: &Btf<'_>) -> Self {
        let finds_threads = types.type_by_name::<Func<'_>>("bpf_task_from_pid").is_some();
        let realtime = fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
        let has_timers = realtime.trim() != "1";
        Self { group: onbeat_bpf::root_group(), finds_threads, has_timers }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.group.is_some() && self.finds_threads
    }

    /// Leaves out programs that this kernel cannot run. Without one of them none is useful.
    pub(super) fn prepare(&self, object: &mut UnloadedObject) {
        if !self.is_complete() {
            let programs = TRACED.iter().chain(&GROUPED).chain([&CHECK, &CHECK_NOW]);
            programs.for_each(|name| object.skip(name));
        }
        object.set_constants(&[(offset_of!(rodata, has_timers), &[self.has_timers.into()])]);
    }
}

impl Changes {
    /// Starts to count; `None`: this kernel does not report all changes, or not to this process.
    pub(super) fn start(object: &Object, reports: &Reports) -> Result<Option<Self>> {
        let (Some(group), true) = (&reports.group, reports.is_complete()) else { return Ok(None) };
        let failed =
            |name: &str, source| Error::kernel(format!("attach the guard's {name}"), source);
        let traced = TRACED
            .iter()
            .map(|name| object.program(name).attach().map_err(|source| failed(name, source)));
        let grouped = GROUPED.iter().map(|name| {
            let program = object.program(name);
            program.attach_cgroup(group.as_raw_fd()).map_err(|source| failed(name, source))
        });
        let links = traced.chain(grouped).collect::<Result<_>>()?;
        let handle = |name: &str| {
            let handle = MapHandle::try_from(&object.map(name));
            handle.map_err(|source| Error::kernel(format!("map the guard's table {name}"), source))
        };
        let wakes = handle("wakes")?;
        let mut entries = RingBufferBuilder::new();
        let interrupts = Arc::<Mutex<Vec<guard_interrupts>>>::default();
        let written = Arc::clone(&interrupts);
        let each = move |octets: &[u8]| {
            // Other entries only wake.
            let report = guard_interrupts::from_octets(octets);
            written.lock().unwrap_or_else(PoisonError::into_inner).extend(report);
            0
        };
        entries.add(&wakes, each).map_err(read_failed)?;
        let changes = Self {
            wake_entries: entries.build().map_err(read_failed)?,
            interrupts,
            wakes,
            count: object.mapped_array("changes")?,
            changed: handle("changed")?,
            watched: KnownTable::new(handle("watched")?),
            waiting: KnownTable::new(handle("waiting")?),
            seen: None,
            taken: 0,
            is_complete: false,
            has_timers: reports.has_timers,
            _links: links,
        };
        let checks = object.program(CHECK).test_run(ProgramInput::default());
        let checks =
            checks.map_err(|source| Error::kernel("compare the scheduling of threads", source))?;
        if checks.return_value != 0 {
            return Ok(None);
        }
        // In a PID namespace of its own, this process does not know the ids of others.
        let is_known = changes.load(LOADER) == u64::from(std::process::id());
        Ok(is_known.then_some(changes))
    }

    /// Compares the scheduling of watched threads, if no timer does.
    pub(super) fn check(&self, object: &Object) -> Result<()> {
        if !self.has_timers {
            let program = object.program(CHECK_NOW);
            let checked = program.test_run(ProgramInput::default());
            checked.map_err(|source| Error::kernel("compare the scheduling of threads", source))?;
        }
        Ok(())
    }

    /// A descriptor that is readable after a change, until [`Self::processes`].
    pub(super) fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Returns the processes that changed since the last call. Without a change it makes no system call.
    pub(super) fn processes(&mut self) -> Result<Vec<u32>> {
        self.wake_entries.consume().map_err(read_failed)?;
        // A program that still finds an entry has counted before.
        fence(Ordering::SeqCst);
        let count = self.load(PROCESSES);
        if std::mem::replace(&mut self.taken, count) == count {
            return Ok(Vec::new());
        }
        let mut pids = Vec::new();
        for key in self.changed.keys().collect::<Vec<_>>() {
            // Before its scan: what changes from now on is a change of its own.
            match self.changed.delete(&key) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(read_failed(source));
                }
                _ => pids.extend(key.try_into().map(u32::from_ne_bytes)),
            }
        }
        Ok(pids)
    }

    /// Reports of interrupts since the last call, as far as [`Self::processes`] has read them.
    pub(super) fn interrupts(&self) -> Vec<guard_interrupts> {
        std::mem::take(&mut self.interrupts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether only a scan of all would find what is new.
    pub(super) fn of_all(&self) -> bool {
        !self.is_complete || self.seen != Some(self.load(COUNT))
    }

    fn load(&self, word: usize) -> u64 {
        self.count.words()[word].load(Ordering::Acquire)
    }

    /// Records that a scan of all starts now.
    pub(super) fn begin_scan(&mut self) {
        self.seen = Some(self.load(COUNT));
        self.count.words()[SCANS].store(1, Ordering::SeqCst);
    }

    /// Watches the scheduling of these threads, as it was found, and these processes.
    pub(super) fn watch(
        &mut self,
        threads: impl Iterator<Item = (u32, Rank)>,
        processes: impl Iterator<Item = u32>,
    ) -> Result<()> {
        let ranks = threads.map(|(tid, rank)| (tid, number(rank).to_ne_bytes().to_vec()));
        let processes = processes.map(|pid| (pid, vec![1]));
        self.is_complete =
            self.watched.set(ranks.collect())? & self.waiting.set(processes.collect())?;
        self.count.words()[SCANS].store(0, Ordering::SeqCst);
        Ok(())
    }
}

fn read_failed(source: libbpf_rs::Error) -> Error {
    Error::kernel("read the changed processes", source)
}

/// A table by number that only the loader removes from, with its content.
#[derive(Debug)]
struct KnownTable {
    table: MapHandle,
    content: HashMap<u32, Vec<u8>>,
}

impl KnownTable {
    fn new(table: MapHandle) -> Self {
        Self { table, content: HashMap::new() }
    }

    /// Sets the entries; returns false if there is no room for all. What programs added besides stays.
    fn set(&mut self, entries: HashMap<u32, Vec<u8>>) -> Result<bool> {
        let failed = |source| Error::kernel("watch threads and processes", source);
        for key in self.content.keys().filter(|key| !entries.contains_key(key)) {
            match self.table.delete(&key.to_ne_bytes()) {
                Err(source) if source.kind() != ErrorKind::NotFound => return Err(failed(source)),
                _ => {}
            }
        }
        let mut is_complete = true;
        for (key, value) in &entries {
            if self.content.get(key) == Some(value) {
                continue;
            }
            match self.table.update(&key.to_ne_bytes(), value, MapFlags::ANY) {
                Err(full) if matches!(full.kind(), ErrorKind::TooBig | ErrorKind::OutOfMemory) => {
                    is_complete = false;
                }
                set => set.map_err(failed)?,
            }
        }
        self.content = if is_complete { entries } else { HashMap::new() };
        Ok(is_complete)
    }
}

/// The rank of a thread as in the table.
fn number(rank: Rank) -> u32 {
    let (kind, number) = match rank {
        Rank::Normal { nice } => (guard_rank::GUARD_NORMAL, (i32::from(nice) + 20) as u32),
        Rank::Realtime { priority } => (guard_rank::GUARD_REALTIME, priority.into()),
        Rank::Deadline => (guard_rank::GUARD_DEADLINE, 0),
        Rank::Idle => (guard_rank::GUARD_IDLE, 0),
    };
    kind.0 << 16 | number
}
