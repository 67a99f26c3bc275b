//! The programs in the kernel.

use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use libbpf_rs::{Link, Map, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use onbeat_bpf::Runs;
use onbeat_bpf::tracepoints::Tracepoints;
use onbeat_bpf::{Object, PlainData, UnloadedObject};
use onbeat_netdev::Handle;

use crate::abi::hooks_cpu;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::packet::Packet;

static HOOKS: &[u8] = onbeat_bpf::bpf_object!("hooks.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "hooks.skel.rs");

use skeleton::types::{bss, rodata};

/// Octets of the buffer for reports: 190,000 packets.
const BUFFER: u32 = 16 << 20;

const REQUIRED: [(&str, &str); 12] = [
    ("softirq_entry", "a kernel with CONFIG_TRACEPOINTS"),
    ("netif_rx", "a kernel with CONFIG_NET"),
    ("napi_gro_receive_entry", "a kernel with CONFIG_NET"),
    ("netif_receive_skb", "a kernel with CONFIG_NET"),
    ("net_dev_queue", "a kernel with CONFIG_NET"),
    ("net_dev_start_xmit", "a kernel with CONFIG_NET"),
    ("net_dev_xmit", "a kernel with CONFIG_NET"),
    ("skb_copy_datagram_iovec", "a kernel with CONFIG_NET"),
    ("kfree_skb", "a kernel with CONFIG_NET"),
    ("consume_skb", "a kernel with CONFIG_NET"),
    ("sk_data_ready", "Linux 6.3 or later"),
    ("sock_recv_length", "Linux 6.3 or later"),
];

/// Tracepoints that not every kernel has; without them a stage is part of the next one.
const OPTIONAL: [(&str, &str); 2] =
    [("on_fib_table_lookup", "fib_table_lookup"), ("on_fib6_table_lookup", "fib6_table_lookup")];

/// Programs that are required only for stages and the number of packets in transit.
const OF_STAGES: [&str; 6] = [
    "on_softirq_entry",
    "on_fib_table_lookup",
    "on_fib6_table_lookup",
    "on_net_dev_queue",
    "on_net_dev_xmit",
    "on_consume_skb",
];

/// A device, by its index and the inode number of its network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The interface's index.
    pub index: u32,
    /// The namespace's inode number, as `/proc/self/ns/net` has it.
    pub netns: u32,
    /// True if it has an XDP program, which may forward packets before they reach the hooks.
    pub has_xdp: bool,
}

impl Device {
    /// Returns the device of this name in the caller's network namespace.
    ///
    /// # Errors
    /// There is no such device: lists the existing ones.
    pub fn find(name: &str) -> Result<Self> {
        let link = Handle::open()?.link(name)?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")
            .map_err(|source| Error::System { operation: "read the network namespace", source })?;
        let has_xdp = link.xdp_program().is_some();
        Ok(Self { index: link.index, netns: namespace.ino() as u32, has_xdp })
    }
}

/// The packets to trace through this host.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// The receiving device.
    pub arrivals: Device,
    /// The sending device, in the same network namespace; `None`: any.
    pub departures: Option<Device>,
    /// The packet filter.
    pub filter: Filter,
    /// The detail of reports.
    pub detail: Detail,
    /// True to report time stamps of the receiving NIC.
    pub device_stamps: bool,
}

/// The detail of reports. Less detail costs less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// All stages, until the sending driver has completed.
    #[default]
    Stages,
    /// The total delay only, until that driver starts.
    Whole,
}

/// Traces every packet of a hop from its start until it is dropped.
///
/// Nothing outlives the process: no program, no table.
pub struct Tracer {
    object: Object,
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    /// The callback of the buffer lives as long as the buffer; the poller lends it storage.
    seen: Rc<Cell<Vec<Packet>>>,
    detail: Detail,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of the receiving device, traced or not, for which a program ran. The kernel received further packets
    /// of the device's counters without running the programs.
    pub arrived: u64,
    /// Received packets that were traced. Answers are counted again.
    pub begun: u64,
    /// Completed packets: sent, read, answered, dropped or evicted.
    pub ended: u64,
    /// Packets that were not traced: the table was full.
    pub table_full: u64,
    /// Packets that the kernel merged into others or consumed.
    pub evicted: u64,
    /// Packets that were not reported: the ring buffer was full.
    pub unreported: u64,
}

impl Tracer {
    /// Starts to trace packets.
    ///
    /// # Errors
    /// [`Error::Bpf`]: this kernel lacks a tracepoint or type, or the caller lacks the permission to load programs.
    pub fn start(hop: &Hop) -> Result<Self> {
        let points = Tracepoints::require(&REQUIRED)?;
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(|source| kernel("count the CPUs", source))?;
        let object = Object::load(HOOKS, "the programs of the hooks", |object| {
            set_constants(object, hop);
            let missing = OPTIONAL.iter().filter(|(_, point)| points.arguments(point).is_none());
            missing.for_each(|(program, _)| object.skip(program));
            if hop.detail == Detail::Whole {
                OF_STAGES.iter().for_each(|program| object.skip(program));
            }
            object.set_entries("cpus", cpus as u32)?;
            object.set_entries("reports", BUFFER)
        })?;
        let seen = Rc::new(Cell::new(Vec::new()));
        let ring = ring(&object, hop.detail, &seen)
            .map_err(|source| kernel("open the buffer of the hooks", source))?;
        let mut tracer = Self { object, links: Vec::new(), ring, seen, detail: hop.detail };
        tracer.attach()?;
        Ok(tracer)
    }

    /// Attaches all programs, and starts them at once.
    fn attach(&mut self) -> Result<()> {
        for program in self.object.programs() {
            let link = program.attach().map_err(|source| {
                kernel(format!("attach {}", program.name().to_string_lossy()), source)
            })?;
            self.links.push(link);
        }
        self.follow(true)
    }

    /// Starts or stops tracing by the attached programs. While stopped, they cost as much as any program at these
    /// points, and nothing is reported.
    ///
    /// # Errors
    /// The kernel refuses the write.
    pub fn follow(&self, kept: bool) -> Result<()> {
        self.object
            .set_variables(&[(offset_of!(bss, kept), &[kept.into()])])
            .map_err(|source| kernel("start or stop the hooks", source))
    }

    /// Detaches all programs. Packets in transit are reported after [`resume`](Self::resume) as not ended.
    ///
    /// # Errors
    /// The kernel refuses the write.
    pub fn pause(&mut self) -> Result<()> {
        self.follow(false)?;
        self.links.clear();
        Ok(())
    }

    /// Attaches all programs again.
    ///
    /// # Errors
    /// The kernel refuses to attach one.
    pub fn resume(&mut self) -> Result<()> {
        self.attach()
    }

    /// Returns the packets completed since the previous call, in order of completion.
    ///
    /// # Errors
    /// The kernel refuses the read.
    pub fn take(&mut self) -> Result<Vec<Packet>> {
        self.ring.consume().map_err(|source| kernel("read the buffer of the hooks", source))?;
        Ok(self.seen.take())
    }

    /// Stops, and returns all completed packets that were not read yet.
    ///
    /// # Errors
    /// The kernel refuses the read.
    pub fn stop(&mut self) -> Result<Vec<Packet>> {
        // If the kernel refuses, they stop with their links, one after another.
        let _ = self.follow(false);
        self.links.clear();
        let mut packets = self.take()?;
        // The unfinished batch.
        let map = self.object.map("cpus");
        for cpu in 0..map.max_entries() {
            let cpu = self.cpu(&map, cpu)?;
            let waiting = cpu.batch.iter().take(cpu.waiting as usize);
            packets.extend(waiting.filter_map(|ring| Packet::of(ring, self.detail)));
        }
        Ok(packets)
    }

    /// Reads the data of a CPU.
    fn cpu(&self, map: &Map<'_>, cpu: u32) -> Result<hooks_cpu> {
        let octets = map
            .lookup(&cpu.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| kernel("read the counters of the hooks", source))?;
        Ok(octets.as_deref().and_then(hooks_cpu::from_start).expect("the table has all CPUs"))
    }

    /// Returns the counters since the start.
    ///
    /// # Errors
    /// The kernel refuses the read.
    pub fn counts(&self) -> Result<Counts> {
        let map = self.object.map("cpus");
        let mut sum = Counts::default();
        let mut received = 0;
        for cpu in 0..map.max_entries() {
            let cpu = self.cpu(&map, cpu)?;
            sum.arrived += cpu.arrived;
            received += cpu.received;
            sum.begun += cpu.begun;
            sum.ended += cpu.ended + cpu.ended_here;
            sum.table_full += cpu.table_full;
            sum.evicted += cpu.evicted;
            sum.unreported += cpu.unreported;
        }
        // A program ran at either tracepoint or at both.
        sum.arrived = sum.arrived.max(received);
        Ok(sum)
    }

    /// Returns the run time of each program, by name, while [`Statistics`](onbeat_bpf::statistics::Statistics) were
    /// enabled.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn runs(&self) -> onbeat_bpf::Result<Vec<(String, Runs)>> {
        self.object.runs()
    }
}

/// Opens the buffer of reports.
fn ring(
    object: &Object,
    detail: Detail,
    seen: &Rc<Cell<Vec<Packet>>>,
) -> std::result::Result<RingBuffer<'static>, libbpf_rs::Error> {
    let into = Rc::clone(seen);
    let map = object.map("reports");
    let mut builder = RingBufferBuilder::new();
    builder.add(&map, move |octets| {
        let mut packets = into.take();
        packets.extend(Packet::several(octets, detail));
        into.set(packets);
        0
    })?;
    builder.build()
}

fn set_constants(object: &mut UnloadedObject, hop: &Hop) {
    let departures = hop.departures.map_or(0, |device| device.index);
    object.set_constants(&[
        (offset_of!(rodata, in_device), &hop.arrivals.index.to_ne_bytes()),
        (offset_of!(rodata, out_device), &departures.to_ne_bytes()),
        (offset_of!(rodata, netns), &hop.arrivals.netns.to_ne_bytes()),
        (offset_of!(rodata, whole), &[u8::from(hop.detail == Detail::Whole)]),
        (offset_of!(rodata, device_stamps), &[hop.device_stamps.into()]),
        (offset_of!(rodata, filter), hop.filter.encode().octets()),
    ]);
}

fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Error {
    onbeat_bpf::Error::kernel(what, source).into()
}
