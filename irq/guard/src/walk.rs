//! Walks sockets and threads in the kernel: loads bpf/waiters.bpf.c, reads its entries.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::ErrorKind as Kind;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Iter, IterOpts, Link, Map, MapCore, MapFlags, ProgramMut};
use onbeat_bpf::{MappedArray, Object, PlainData};

use super::TimeSlice;
use super::candidates::{Reader, Scan, Socket, Thread, WaitingThread};
use super::changes::{Changes, Reports};
use super::config::{Config, Namespaces};
use super::foreign;
use crate::abi::{
    guard_interrupts, guard_limit, guard_member, guard_receiver, guard_socket, guard_thread,
    irq_owner,
};
use crate::error::{Error, Result};
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::Rank;

static WAITERS: &[u8] = onbeat_bpf::bpf_object!("waiters.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "waiters.skel.rs");

use skeleton::types::bss;
pub(super) use skeleton::types::rodata;

/// Walks the sockets of a network namespace and all threads, at each call.
///
/// No program or table outlives the process.
#[derive(Debug)]
pub(super) struct Walk {
    object: Object,
    files: Slices,
    tasks: Slices,
    sockets: BTreeSet<Socket>,
    threads: Vec<Thread>,
    /// Complete walks over threads.
    thread_walks: u32,
    /// Incremented when processes receive numbers.
    numbering: u32,
    /// The first entry has the number of all processes without their own.
    limits: MappedArray<guard_limit>,
    /// `None`: this kernel does not report all changes.
    changes: Option<Changes>,
    _reads: Option<Link>,
    _foreign: Vec<Link>,
}

impl Walk {
    /// Walks the sockets of the network namespace with this inode, or of all, as configured.
    pub(super) fn new(netns: u32, config: &Config) -> Result<Self> {
        let budgets = !config.budgets.is_empty();
        let types = Btf::from_vmlinux().map_err(onbeat_bpf::Error::NoTypes)?;
        // Without it no reads are observed (before Linux 6.3).
        let reports_reads = types.type_by_name::<Typedef<'_>>("btf_trace_sock_recv_length");
        let reports = Reports::of_kernel(&types);
        let mut foreign = Vec::new();
        let object = Object::load(WAITERS, "the guard's programs", |object| {
            let cpus = config.cpus.as_ref().filter(|_| reports.is_complete());
            foreign = foreign::prepare(object, cpus, &types);
            if let Some(cpus) = cpus {
                let words = foreign::words(cpus).map(u64::to_ne_bytes);
                object.set_constants(&[(offset_of!(rodata, guarded_cpus), words.as_flattened())]);
            }
            object.set_constants(&[
                (offset_of!(rodata, netns), &netns.to_ne_bytes()),
                (offset_of!(rodata, everywhere), &[(config.namespaces == Namespaces::All).into()]),
                (offset_of!(rodata, budgets), &[budgets.into()]),
            ]);
            if reports_reads.is_none() {
                object.skip("on_sock_recv_length");
            }
            reports.prepare(object);
            config.process_rows.map_or(Ok(()), |rows| object.set_entries("numbers", rows))
        })?;
        let files = Slices::new(&object, "each_file")?;
        let tasks = Slices::new(&object, "each_task")?;
        let reads = reports_reads
            .map(|_| attach(&object, "on_sock_recv_length", |program| program.attach()))
            .transpose()?;
        let changes = Changes::start(&object, &reports)?;
        let foreign = match &changes {
            Some(_) => foreign::attach(&object, &foreign)?,
            None => Vec::new(),
        };
        Ok(Self {
            files,
            tasks,
            sockets: BTreeSet::new(),
            threads: Vec::new(),
            thread_walks: 0,
            numbering: 0,
            limits: object.mapped_array("limits")?,
            changes,
            _reads: reads,
            _foreign: foreign,
            object,
        })
    }

    /// Reads sockets and threads, each for `slice` of CPU time, and continues at the next call. Updates
    /// complete parts of `scan`, and the known entries of the rest: `has_address` is false for an address that
    /// no interface has. Returns whether a part is complete.
    pub(super) fn scan(
        &mut self,
        slice: Duration,
        has_address: impl Fn(&IpAddr) -> bool,
        scan: &mut Scan,
    ) -> Result<bool> {
        let Self { files, tasks, sockets, threads, changes, .. } = self;
        // Before the walk: what changes during it may be missed by it.
        changes.as_mut().map(Changes::begin_scan);
        let each = |entry: &guard_thread| threads.push(thread(entry));
        let threads_complete = tasks.advance(&TimeSlice::new(slice), each)?;
        if threads_complete {
            scan.threads = std::mem::take(threads);
            self.thread_walks = self.thread_walks.wrapping_add(1);
        }
        // Equal sockets are one: other users decide their number.
        let each = |entry: &guard_socket| {
            sockets.extend(socket_of(entry, &has_address));
        };
        let sockets_complete = files.advance(&TimeSlice::new(slice), each)?;
        if sockets_complete {
            scan.sockets = std::mem::take(sockets).into_iter().collect();
        }
        // After a scan of several slices the next one probably has too many files as well.
        let slices = files.slices.max(tasks.slices);
        scan.partial = !(sockets_complete && threads_complete) || slices > 1;
        Ok(sockets_complete || threads_complete)
    }

    /// Whether only a scan of all finds what is new; always, if this kernel does not report all changes.
    pub(super) fn is_changed(&self) -> bool {
        self.changes.as_ref().is_none_or(Changes::of_all)
    }

    /// Compares the scheduling of watched threads, if this kernel does not do it by a timer.
    pub(super) fn check(&self) -> Result<()> {
        self.changes.as_ref().map_or(Ok(()), |changes| changes.check(&self.object))
    }

    /// A descriptor that is readable after a change; `None`: this kernel does not report all changes.
    pub(super) fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(Changes::wakes)
    }

    /// Processes that changed since the last call, as far as the kernel reports them.
    pub(super) fn changed_processes(&mut self) -> Result<Vec<u32>> {
        self.changes.as_mut().map_or(Ok(Vec::new()), Changes::processes)
    }

    /// Reports of interrupts since the last call.
    pub(super) fn interrupts(&self) -> Vec<guard_interrupts> {
        self.changes.as_ref().map(Changes::interrupts).unwrap_or_default()
    }

    /// Reads sockets and threads of one process; `None`: they take more than this slice.
    pub(super) fn scan_process(
        &self,
        pid: u32,
        slice: &TimeSlice,
        has_address: impl Fn(&IpAddr) -> bool,
    ) -> Result<Option<Scan>> {
        let (mut scan, mut sockets) = (Scan::default(), BTreeSet::new());
        let failed = |source: std::io::Error| Error::kernel("scan a process", source.into());
        let program = |name: &str| self.object.program(name);
        let mut is_over = false;
        onbeat_bpf::entries_of_process(
            program("each_task").as_fd(),
            pid,
            |entry: &guard_thread| {
                scan.threads.push(thread(entry));
                is_over |= slice.is_over();
                !is_over
            },
        )
        .map_err(failed)?;
        onbeat_bpf::entries_of_process(
            program("each_file").as_fd(),
            pid,
            |entry: &guard_socket| {
                sockets.extend(socket_of(entry, &has_address));
                is_over |= slice.is_over();
                !is_over
            },
        )
        .map_err(failed)?;
        scan.sockets = sockets.into_iter().collect();
        Ok((!is_over).then_some(scan))
    }

    /// Watches the scheduling of these threads, except that of the calling thread, and these processes.
    pub(super) fn watch(
        &mut self,
        threads: impl Iterator<Item = (u32, Rank)>,
        processes: impl Iterator<Item = u32>,
    ) -> Result<()> {
        let own = own_tid();
        match &mut self.changes {
            Some(changes) => changes.watch(threads.filter(|(tid, _)| *tid != own), processes),
            None => Ok(()),
        }
    }

    /// Complete walks over threads, modulo 2^32.
    pub(super) fn thread_walks(&self) -> u32 {
        self.thread_walks
    }

    /// Processes without a number that read a socket since the last call; `None`: more than there is room or,
    /// in `slice`, time for. The next call returns some of the rest.
    pub(super) fn new_readers(&self, slice: &TimeSlice) -> Result<Option<Vec<u32>>> {
        let table = self.object.map("new_readers");
        let (mut keys, mut pids) = (table.keys(), Vec::new());
        let mut next = keys.next();
        while let Some(key) = next {
            // The kernel finds the next key by this one.
            next = keys.next();
            match table.delete(&key) {
                Err(source) if source.kind() != Kind::NotFound => {
                    return Err(Error::kernel("read the new readers of sockets", source));
                }
                _ => {}
            }
            pids.extend(key.try_into().map(u32::from_ne_bytes));
            if slice.is_over() {
                break;
            }
        }
        let complete = next.is_none() && pids.len() < table.max_entries() as usize;
        Ok(complete.then_some(pids))
    }

    /// Processes that can have a number at a time.
    pub(super) fn table_size(&self) -> usize {
        self.object.map("numbers").max_entries() as usize
    }

    /// Sets the number that limits a process's sockets; false if the table is full. It applies to sockets after
    /// [`Self::publish_numbers`]. `grouped`: children of the process have it as well.
    pub(super) fn number(&mut self, process: Process, number: u32, grouped: bool) -> Result<bool> {
        let Process { pid, start_ticks } = process;
        let numbers = self.object.map("numbers");
        let grouped = u32::from(grouped);
        let member = guard_member { number, grouped, start_ticks, ..guard_member::default() };
        match numbers.update(&pid.to_ne_bytes(), member.octets(), MapFlags::ANY) {
            Ok(()) => {
                self.numbering = self.numbering.wrapping_add(1);
                if grouped != 0 {
                    self.keep_after_exit(process, number)?;
                }
                Ok(true)
            }
            Err(full) if matches!(full.kind(), Kind::TooBig | Kind::OutOfMemory) => Ok(false),
            Err(source) => Err(Error::kernel(format!("number process {pid}"), source)),
        }
    }

    /// Packets of sockets that a process was the last to read count for its group, also once it has exited.
    fn keep_after_exit(&self, process: Process, number: u32) -> Result<()> {
        let key = owner(process);
        let inherited = self.object.map("inherited");
        let kept = inherited.update(key.octets(), &number.to_ne_bytes(), MapFlags::ANY);
        kept.map_err(|source| Error::kernel("keep the number of a process", source))
    }

    /// The number that a process had from its parent when it started.
    pub(super) fn inherited_number(&self, process: Process) -> Result<Option<u32>> {
        let key = owner(process);
        let number = self.object.map("inherited").lookup(key.octets(), MapFlags::ANY);
        let number = number.map_err(|source| Error::kernel("read the number of a process", source));
        Ok(number?.and_then(|octets| octets.try_into().ok().map(u32::from_ne_bytes)))
    }

    /// Removes the number of a process, if it has one. Its sockets keep it until they are scanned: their next
    /// read is a change of the process.
    pub(super) fn remove_number(&mut self, pid: u32) -> Result<()> {
        match self.object.map("numbers").delete(&pid.to_ne_bytes()) {
            Ok(()) => self.numbering = self.numbering.wrapping_add(1),
            Err(source) if source.kind() == Kind::NotFound => {}
            Err(source) => {
                return Err(Error::kernel(format!("remove the number of process {pid}"), source));
            }
        }
        Ok(())
    }

    /// Applies the numbers of readers to their sockets at the next read; `others` is the number of all
    /// processes without their own, 0: none.
    pub(super) fn publish_numbers(&mut self, others: u32) -> Result<()> {
        let number = &self.limits.entry(0)[offset_of!(guard_limit, number) / size_of::<u64>()];
        if number.swap(others.into(), Ordering::Relaxed) != u64::from(others) {
            self.numbering = self.numbering.wrapping_add(1);
        }
        self.object
            .set_variables(&[(offset_of!(bss, numbering), &self.numbering.to_ne_bytes())])
            .map_err(|source| Error::kernel("publish the numbers of processes", source))
    }

    /// The receiver of a socket's packets that has a number, by the cookie of the socket.
    pub(super) fn receiver(&self, cookie: u64) -> Result<Option<guard_receiver>> {
        let receiver = self.object.map("cookies").lookup(&cookie.to_ne_bytes(), MapFlags::ANY);
        let receiver =
            receiver.map_err(|source| Error::kernel("read the receiver of a socket", source))?;
        Ok(receiver.and_then(|octets| guard_receiver::from_octets(&octets)))
    }

    /// The tables that limits and the ledger use as well.
    pub(super) fn tables_of_budgets(&self) -> [Map<'_>; 7] {
        let names = ["slots", "cookies", "inherited", "guarded", "limits", "spent", "numbers"];
        names.map(|name| self.object.map(name))
    }
}

/// A process as programs know it.
fn owner(process: Process) -> irq_owner {
    irq_owner { pid: process.pid, start_ticks: process.start_ticks }
}

/// A walk that is read in slices, each from the end of the previous one.
#[derive(Debug)]
pub(super) struct Slices {
    link: Link,
    current: Option<Iter>,
    /// The start of an entry that is not read completely.
    rest: Vec<u8>,
    /// Slices of the current walk, or of the last one.
    slices: u32,
}

/// Octets per read: the kernel's walk for them is not interrupted.
const READ: usize = 4096;

impl Slices {
    pub(super) fn new(object: &Object, name: &str) -> Result<Self> {
        let link = attach(object, name, |program| program.attach_iter_with_opts(IterOpts::None))?;
        Ok(Self { link, current: None, rest: Vec::new(), slices: 0 })
    }

    /// Reads entries while there is time, at least some; true at the end of the walk.
    pub(super) fn advance<T: PlainData>(
        &mut self,
        slice: &TimeSlice,
        mut each: impl FnMut(&T),
    ) -> Result<bool> {
        let mut iter = match self.current.take() {
            Some(iter) => iter,
            None => {
                (self.slices, self.rest) = (0, Vec::new());
                Iter::new(&self.link).map_err(|source| Error::kernel("start a scan", source))?
            }
        };
        self.slices = self.slices.saturating_add(1);
        loop {
            let mut octets = [0; READ];
            match iter.read(&mut octets) {
                Ok(0) => return Ok(true),
                Ok(length) => self.rest.extend_from_slice(&octets[..length]),
                // After a million files without an entry the kernel requires another call.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(Error::kernel("scan sockets and threads", error.into())),
            }
            let entries = self.rest.chunks_exact(size_of::<T>());
            let whole = entries.len() * size_of::<T>();
            entries.filter_map(T::from_octets).for_each(|entry| each(&entry));
            self.rest.drain(..whole);
            if slice.is_over() {
                self.current = Some(iter);
                return Ok(false);
            }
        }
    }
}

fn attach(
    object: &Object,
    name: &str,
    attach: impl FnOnce(&ProgramMut<'_>) -> libbpf_rs::Result<Link>,
) -> Result<Link> {
    attach(&object.program(name))
        .map_err(|source| Error::kernel(format!("attach the guard's {name}"), source))
}

/// Returns the socket of an entry, without an address that no interface has; `None`: an empty entry.
fn socket_of(entry: &guard_socket, has_address: impl Fn(&IpAddr) -> bool) -> Option<Socket> {
    let socket = socket(entry);
    (socket.pid != 0).then(|| socket.with_known_address(has_address))
}

pub(super) fn socket(entry: &guard_socket) -> Socket {
    let reader = entry.reader;
    Socket {
        pid: entry.pid,
        reader: (reader.pid != 0).then_some(Reader { pid: reader.pid, tid: reader.tid }),
        device: entry.device,
        address: address_of(entry.family, entry.address),
        elsewhere: entry.elsewhere != 0,
    }
}

/// An address as sockets of a family have it; unspecified for other families.
pub(super) fn address_of(family: u32, octets: [u8; 16]) -> IpAddr {
    if family == libc::AF_INET6 as u32 {
        // A socket of both families: report IPv4 addresses as such.
        return Ipv6Addr::from(octets).to_canonical();
    }
    let [a, b, c, d, ..] = octets;
    Ipv4Addr::new(a, b, c, d).into()
}

fn thread(entry: &guard_thread) -> Thread {
    let process = Process { pid: entry.pid, start_ticks: entry.start_ticks };
    let length = entry.name.iter().position(|octet| *octet == 0).unwrap_or(entry.name.len());
    let is_this = entry.tid == own_tid();
    Thread {
        waiter: WaitingThread { process, tid: entry.tid },
        // The priority of this thread while it scans is not the priority at which it waits for packets.
        rank: if is_this { Rank::Normal { nice: 0 } } else { rank(entry) },
        name: Octets::from(&entry.name[..length]),
        user: entry.user,
    }
}

fn own_tid() -> u32 {
    // SAFETY: it has no arguments.
    unsafe { libc::gettid() }.unsigned_abs()
}

fn rank(entry: &guard_thread) -> Rank {
    match entry.policy as libc::c_int {
        libc::SCHED_FIFO | libc::SCHED_RR => {
            Rank::Realtime { priority: u8::try_from(entry.priority).unwrap_or(u8::MAX) }
        }
        libc::SCHED_DEADLINE => Rank::Deadline,
        libc::SCHED_IDLE => Rank::Idle,
        _ => Rank::Normal { nice: i8::try_from(entry.nice).unwrap_or_default() },
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use onbeat_netdev::Namespace;
    use onbeat_testing::{Feature, require_all};

    use super::*;

    /// With no time each slice is one read; together they are a complete scan.
    #[test]
    fn slices_are_bounded_and_complete_a_scan() {
        const SOCKETS: usize = 400;
        if !require_all(&[Feature::Root, Feature::Btf]) {
            return;
        }
        let open = |at: usize| UdpSocket::bind((Ipv4Addr::new(127, 1, 0, at as u8), 0)).unwrap();
        let namespace = Namespace::new().unwrap();
        let _sockets: Vec<UdpSocket> = namespace
            .run(|| {
                let lo = onbeat_netdev::Handle::open().unwrap();
                lo.set_up("lo").unwrap();
                (0..SOCKETS).map(|at| open(at % 200 + 1)).collect()
            })
            .unwrap();
        let config = Config::of(vec!["r0".to_owned()]);
        let mut walk = Walk::new(namespace.inode() as u32, &config).unwrap();
        let (mut scan, mut slices) = (Scan::default(), 0);
        while scan.sockets.is_empty() || scan.threads.is_empty() {
            walk.scan(Duration::ZERO, |_| false, &mut scan).unwrap();
            slices += 1;
            assert!(slices < 10_000, "{scan:?}");
        }
        let at_least = SOCKETS * size_of::<guard_socket>() / READ;
        assert!(slices > at_least && scan.partial, "{slices} slices, {scan:?}");
        let this = |scan: &Scan| {
            let pid = std::process::id();
            let sockets = scan.sockets.iter().filter(|socket| socket.pid == pid);
            // Two at each address are one.
            sockets.count()
        };
        assert_eq!(this(&scan), 200);
        assert!(scan.threads.iter().any(|thread| thread.waiter.tid == std::process::id()));
        // The walk of threads was shorter and may have started again.
        let mut scan = Scan::default();
        for partial in [true, false] {
            walk.scan(Duration::MAX, |_| false, &mut scan).unwrap();
            assert!(partial || !scan.partial);
        }
        assert_eq!(this(&scan), 200);
    }

    #[test]
    fn new_readers_are_bounded_by_time_and_room() {
        if !require_all(&[Feature::Root, Feature::Btf]) {
            return;
        }
        let namespace = Namespace::new().unwrap();
        let config = Config::of(vec!["r0".to_owned()]);
        let walk = Walk::new(namespace.inode() as u32, &config).unwrap();
        let table = walk.object.map("new_readers");
        let note = |pids: std::ops::Range<u32>| {
            pids.for_each(|pid| table.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY).unwrap());
        };
        let (all, none) = (TimeSlice::new(Duration::MAX), TimeSlice::new(Duration::ZERO));
        note(0..10);
        assert_eq!(walk.new_readers(&none).unwrap(), None);
        assert_eq!(walk.new_readers(&all).unwrap().unwrap().len(), 9);
        assert_eq!(walk.new_readers(&all).unwrap().unwrap().len(), 0);
        note(0..table.max_entries());
        assert_eq!(walk.new_readers(&all).unwrap(), None);
        assert_eq!(walk.new_readers(&all).unwrap().unwrap().len(), 0);
    }
}
