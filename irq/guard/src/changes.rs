//! Changes that make a new scan necessary: bpf/changes.h.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{Link, MapHandle, ProgramInput};
use onbeat_bpf::{MappedArray, Object, UnloadedObject};
use onbeat_irq_core::policy::Rank;

use crate::abi::{guard_rank, guard_watch};
use crate::error::{Error, Result};

/// Programs at tracepoints.
const TRACED: [&str; 4] = ["on_inet_sock_set_state", "on_fork", "on_exec", "on_exit"];
/// Programs of the control group of all processes.
const GROUPED: [&str; 3] = ["on_sock_create", "on_bind4", "on_bind6"];
/// The program that compares the scheduling of watched threads.
const CHECK: &str = "check_watched";

/// Counts changes. Nothing outlives the process.
#[derive(Debug)]
pub(super) struct Changes {
    count: MappedArray<u64>,
    watched: MappedArray<guard_watch>,
    /// The count at the last scan; `None`: a scan is due in any case.
    seen: Option<u64>,
    /// Whether all threads are watched that must be.
    is_complete: bool,
    _links: Vec<Link>,
}

/// What this kernel reports.
#[derive(Debug)]
pub(super) struct Reports {
    group: Option<OwnedFd>,
    finds_threads: bool,
}

impl Reports {
    pub(super) fn of_kernel(types: &Btf<'_>) -> Self {
        let finds_threads = types.type_by_name::<Func<'_>>("bpf_task_from_pid").is_some();
        Self { group: onbeat_bpf::root_group(), finds_threads }
    }

    fn is_complete(&self) -> bool {
        self.group.is_some() && self.finds_threads
    }

    /// Leaves out programs that this kernel cannot run. Without one of them none is useful.
    pub(super) fn prepare(&self, object: &mut UnloadedObject) {
        if !self.is_complete() {
            TRACED.iter().chain(&GROUPED).chain([&CHECK]).for_each(|name| object.skip(name));
        }
    }
}

impl Changes {
    /// Starts to count; `None`: this kernel does not report all changes.
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
        Ok(Some(Self {
            count: MappedArray::new(&handle("changes")?)?,
            watched: MappedArray::new(&handle("watched")?)?,
            seen: None,
            is_complete: false,
            _links: links,
        }))
    }

    /// Whether a scan would find something new.
    pub(super) fn any(&self, object: &Object) -> Result<bool> {
        let Some(seen) = self.seen.filter(|_| self.is_complete) else { return Ok(true) };
        let check = object.program(CHECK).test_run(ProgramInput::default());
        check.map_err(|source| Error::kernel("compare the scheduling of threads", source))?;
        Ok(self.now() != seen)
    }

    fn now(&self) -> u64 {
        self.count.words()[0].load(Ordering::Acquire)
    }

    /// Records that a scan starts now.
    pub(super) fn begin_scan(&mut self) {
        self.seen = Some(self.now());
    }

    /// Watches the scheduling of these threads, as it was found.
    pub(super) fn watch(&mut self, threads: impl Iterator<Item = (u32, Rank)>) {
        let mut threads = threads;
        let room = self.watched.capacity();
        let mut slot = 0;
        for (tid, rank) in threads.by_ref().take(room as usize) {
            self.watched.set(slot, &watch(tid, rank));
            slot += 1;
        }
        if slot < room {
            self.watched.set(slot, &guard_watch::default());
        }
        self.is_complete = threads.next().is_none();
    }
}

fn watch(tid: u32, rank: Rank) -> guard_watch {
    let (kind, number) = match rank {
        Rank::Normal { nice } => (guard_rank::GUARD_NORMAL, (i32::from(nice) + 20) as u32),
        Rank::Realtime { priority } => (guard_rank::GUARD_REALTIME, priority.into()),
        Rank::Deadline => (guard_rank::GUARD_DEADLINE, 0),
        Rank::Idle => (guard_rank::GUARD_IDLE, 0),
    };
    guard_watch { tid, rank: kind.0 << 16 | number }
}
