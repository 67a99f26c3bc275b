//! Walks sockets and threads in the kernel: loads bpf/waiters.bpf.c, reads what it tells.

use std::io::{ErrorKind, Read};
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libbpf_rs::ErrorKind as Kind;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Iter, IterOpts, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramMut};
use onbeat_netdev::Plain;

use super::config::{Config, Namespaces};
use super::waiting::{Reader, Scan, Socket, Thread, Waiter};
use crate::abi::{guard_socket, guard_thread};
use crate::charge::Process;
use crate::error::{Error, Result};
use crate::names::Octets;
use crate::object::{map, set_constants, variables};
use crate::policy::Rank;

static WAITERS: &[u8] = onbeat_netdev::bpf_object!("waiters.bpf.o");

onbeat_netdev::bpf_skeleton!(skeleton, "waiters.skel.rs");

use skeleton::types::{bss, rodata};

/// Walks the sockets of a network namespace and all threads, whenever it is asked to.
///
/// Nothing of it outlives the process.
#[derive(Debug)]
pub(super) struct Walk {
    object: Object,
    files: Link,
    tasks: Link,
    _reads: Option<Link>,
}

impl Walk {
    /// For the sockets of the network namespace with this inode, or of all, as configured.
    pub(super) fn new(netns: u32, config: &Config) -> Result<Self> {
        let budgets = !config.budgets.is_empty();
        let types = Btf::from_vmlinux().map_err(Error::NoTypes)?;
        // Without it nobody is seen to read (before Linux 6.3).
        let told_of_reads = types.type_by_name::<Typedef<'_>>("btf_trace_sock_recv_length");
        let mut open = ObjectBuilder::default()
            .open_memory(WAITERS)
            .map_err(|source| Error::kernel("read the object file of the guard", source))?;
        set_constants(
            &mut open,
            &[
                (offset_of!(rodata, netns), &netns.to_ne_bytes()),
                (offset_of!(rodata, everywhere), &[(config.namespaces == Namespaces::All).into()]),
                (offset_of!(rodata, budgets), &[budgets.into()]),
            ],
        );
        for mut program in open.progs_mut() {
            if program.name() == "on_sock_recv_length" {
                program.set_autoload(told_of_reads.is_some());
            }
        }
        for mut map in open.maps_mut().filter(|map| map.name() == "numbers") {
            if let Some(processes) = config.process_rows {
                map.set_max_entries(processes)
                    .map_err(|source| Error::kernel("size the table of processes", source))?;
            }
        }
        let mut object =
            open.load().map_err(|source| Error::kernel("load the guard's programs", source))?;
        let files = walk(&mut object, "each_file")?;
        let tasks = walk(&mut object, "each_task")?;
        let reads = match told_of_reads {
            Some(_) => {
                Some(attach(&mut object, "on_sock_recv_length", |program| program.attach())?)
            }
            None => None,
        };
        Ok(Self { files, tasks, _reads: reads, object })
    }

    /// The sockets that are open now, and the threads.
    pub(super) fn scan(&self) -> Result<Scan> {
        // Sockets first: a thread that is not among the threads has ended, or begun since.
        let sockets = entries::<guard_socket>(&self.files)?;
        let threads = entries::<guard_thread>(&self.tasks)?;
        Ok(Scan {
            sockets: sockets.iter().map(socket).collect(),
            threads: threads.iter().map(thread).collect(),
        })
    }

    /// Processes that can have a number at a time.
    pub(super) fn table_size(&self) -> usize {
        map(&self.object, "numbers").max_entries() as usize
    }

    /// Gives a process the number by which its sockets are limited; false where the table is full.
    pub(super) fn number(&self, pid: u32, number: u32) -> Result<bool> {
        let numbers = map(&self.object, "numbers");
        match numbers.update(&pid.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY) {
            Ok(()) => Ok(true),
            Err(full) if matches!(full.kind(), Kind::TooBig | Kind::OutOfMemory) => Ok(false),
            Err(source) => Err(Error::kernel(format!("number process {pid}"), source)),
        }
    }

    /// Takes the number of a process away, where it has one.
    pub(super) fn forget_number(&self, pid: u32) -> Result<()> {
        match map(&self.object, "numbers").delete(&pid.to_ne_bytes()) {
            Err(source) if source.kind() != Kind::NotFound => {
                Err(Error::kernel(format!("take the number of process {pid}"), source))
            }
            _ => Ok(()),
        }
    }

    /// Sets the number of all processes that have none; 0: none.
    pub(super) fn number_others(&self, number: u32) -> Result<()> {
        let variables = variables(&self.object);
        let mut all = vec![0; variables.value_size() as usize];
        all[offset_of!(bss, number_of_others)..][..4].copy_from_slice(&number.to_ne_bytes());
        variables
            .update(&0u32.to_ne_bytes(), &all, MapFlags::ANY)
            .map_err(|source| Error::kernel("number all other processes", source))
    }

    /// The tables of the numbers that sockets have.
    pub(super) fn numbers_of_sockets(&self) -> [Map<'_>; 2] {
        ["slots", "cookies"].map(|name| map(&self.object, name))
    }
}

fn walk(object: &mut Object, name: &str) -> Result<Link> {
    attach(object, name, |program| program.attach_iter_with_opts(IterOpts::None))
}

fn attach(
    object: &mut Object,
    name: &str,
    attach: impl FnOnce(&ProgramMut<'_>) -> libbpf_rs::Result<Link>,
) -> Result<Link> {
    let program = object.progs_mut().find(|program| program.name() == name);
    attach(&program.expect("the object holds it"))
        .map_err(|source| Error::kernel(format!("attach the guard's {name}"), source))
}

fn entries<T: Plain>(link: &Link) -> Result<Vec<T>> {
    let mut octets = Vec::new();
    let mut iter = Iter::new(link).map_err(|source| Error::kernel("begin a walk", source))?;
    while let Err(error) = iter.read_to_end(&mut octets) {
        // After a million files that are none of ours the kernel asks to be called again.
        if error.kind() != ErrorKind::WouldBlock {
            return Err(Error::kernel("walk over sockets and threads", error.into()));
        }
    }
    Ok(octets.chunks_exact(size_of::<T>()).filter_map(T::from_octets).collect())
}

fn socket(entry: &guard_socket) -> Socket {
    let reader = entry.reader;
    Socket {
        pid: entry.pid,
        reader: (reader.pid != 0).then_some(Reader { pid: reader.pid, tid: reader.tid }),
        device: entry.device,
        address: address(entry),
        elsewhere: entry.elsewhere != 0,
    }
}

fn address(entry: &guard_socket) -> IpAddr {
    if entry.family == libc::AF_INET6 as u32 {
        // A socket of both families, as one of IPv4 says it.
        return Ipv6Addr::from(entry.address).to_canonical();
    }
    let [a, b, c, d, ..] = entry.address;
    Ipv4Addr::new(a, b, c, d).into()
}

fn thread(entry: &guard_thread) -> Thread {
    let process = Process { pid: entry.pid, start_ticks: entry.start_ticks };
    let length = entry.name.iter().position(|octet| *octet == 0).unwrap_or(entry.name.len());
    // SAFETY: it takes nothing.
    let is_this = entry.tid as i32 == unsafe { libc::gettid() };
    Thread {
        waiter: Waiter { process, tid: entry.tid },
        // What this thread has while it scans is not the priority at which it waits for packets.
        rank: if is_this { Rank::Normal { nice: 0 } } else { rank(entry) },
        name: Octets::from(&entry.name[..length]),
    }
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
