//! The programs in the kernel.

use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use libbpf_rs::{Link, Map, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use onbeat_bpf::Runs;
use onbeat_bpf::tracepoints::Tracepoints;
use onbeat_bpf::{Object, Plain, UnloadedObject};
use onbeat_netdev::Handle;

use crate::abi::hooks_cpu;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::packet::Packet;

static HOOKS: &[u8] = onbeat_bpf::bpf_object!("hooks.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "hooks.skel.rs");

use skeleton::types::{bss, rodata};

/// Octets of the buffer for packets that are gone: 190,000 of them.
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

/// Tracepoints that not every kernel has; without them a stage is part of the one behind it.
const OPTIONAL: [(&str, &str); 2] =
    [("on_fib_table_lookup", "fib_table_lookup"), ("on_fib6_table_lookup", "fib6_table_lookup")];

/// Programs that only stages, and how many packets are under way, need.
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
    /// Whether it has an XDP program, which may send packets on before they come to the hooks.
    pub has_xdp: bool,
}

impl Device {
    /// The device of this name in the caller's network namespace.
    ///
    /// # Errors
    /// Where there is none: names those there are.
    pub fn find(name: &str) -> Result<Self> {
        let link = Handle::open()?.link(name)?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")
            .map_err(|source| Error::System { operation: "see the network namespace", source })?;
        let has_xdp = link.xdp_program().is_some();
        Ok(Self { index: link.index, netns: namespace.ino() as u32, has_xdp })
    }
}

/// What is followed through this host.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// Where packets come in.
    pub arrivals: Device,
    /// Where they leave, of the same network namespace; by any device, without.
    pub departures: Option<Device>,
    /// Which of them.
    pub filter: Filter,
    /// What is told of each.
    pub detail: Detail,
    /// Whether stamps of the NIC that packets come by are told.
    pub device_stamps: bool,
}

/// What is told of a packet. The less, the less it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// All stages, to where the driver that sends it is done with it.
    #[default]
    Stages,
    /// Its whole time only, to where that driver begins.
    Whole,
}

/// Follows every packet of a hop from its start until it is dropped.
///
/// Nothing of it outlives the process: no program, no table.
pub struct Tracer {
    object: Object,
    links: Vec<Link>,
    told: RingBuffer<'static>,
    /// The callback of the buffer lives as long as the buffer; who polls lends it a place to put things.
    seen: Rc<Cell<Vec<Packet>>>,
    detail: Detail,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

/// What was seen since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of the device of arrivals, followed or not, for which a program ran. What the device counts
    /// beyond them the kernel received without running the programs.
    pub arrived: u64,
    /// Packets that came in and were followed. Answers are counted again.
    pub begun: u64,
    /// Packets that are gone: they left, were read, answered or dropped, or were forgotten.
    pub ended: u64,
    /// Packets that found no room in the table, and were not followed.
    pub crowded: u64,
    /// Packets that the kernel merged into others or consumed.
    pub forgotten: u64,
    /// Packets that were not recorded: the ring buffer was full.
    pub untold: u64,
}

impl Tracer {
    /// Begins to follow packets.
    ///
    /// # Errors
    /// [`Error::Bpf`]: a tracepoint or type that this kernel lacks; without the right to load
    /// programs.
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
            object.set_entries("told", BUFFER)
        })?;
        let seen = Rc::new(Cell::new(Vec::new()));
        let told = ring(&object, hop.detail, &seen)
            .map_err(|source| kernel("open the buffer of the hooks", source))?;
        let mut tracer = Self { object, links: Vec::new(), told, seen, detail: hop.detail };
        tracer.attach()?;
        Ok(tracer)
    }

    /// Attaches all programs, and has them begin at once.
    fn attach(&mut self) -> Result<()> {
        for program in self.object.programs() {
            let link = program.attach().map_err(|source| {
                kernel(format!("attach {}", program.name().to_string_lossy()), source)
            })?;
            self.links.push(link);
        }
        self.follow(true)
    }

    /// Has the programs, where they are attached, follow packets, as they do from the start, or leave
    /// them alone: then they cost what any program costs at these places, and nothing is told.
    ///
    /// # Errors
    /// Where the kernel does not let us write.
    pub fn follow(&self, kept: bool) -> Result<()> {
        self.object
            .set_variables(&[(offset_of!(bss, kept), &[kept.into()])])
            .map_err(|source| kernel("tell the hooks to begin or to end", source))
    }

    /// Hands over the packets that are gone since the call before, in the order in which they went.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    pub fn take(&mut self) -> Result<Vec<Packet>> {
        self.told.consume().map_err(|source| kernel("read the buffer of the hooks", source))?;
        Ok(self.seen.take())
    }

    /// Stops, and hands over all packets that are gone and were not taken yet.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    pub fn stop(&mut self) -> Result<Vec<Packet>> {
        // Where the kernel does not let us, they end with the links, one after another.
        let _ = self.follow(false);
        self.links.clear();
        let mut packets = self.take()?;
        // What waited to be told together with others.
        let map = self.object.map("cpus");
        for cpu in 0..map.max_entries() {
            let cpu = self.cpu(&map, cpu)?;
            let waiting = cpu.batch.iter().take(cpu.waiting as usize);
            packets.extend(waiting.filter_map(|told| Packet::of(told, self.detail)));
        }
        Ok(packets)
    }

    /// What is known of a CPU.
    fn cpu(&self, map: &Map<'_>, cpu: u32) -> Result<hooks_cpu> {
        let octets = map
            .lookup(&cpu.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| kernel("read what the hooks saw", source))?;
        Ok(octets.as_deref().and_then(hooks_cpu::from_start).expect("the table has it"))
    }

    /// What was seen since the start.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
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
            sum.crowded += cpu.crowded;
            sum.forgotten += cpu.forgotten;
            sum.untold += cpu.untold;
        }
        // A program ran at either tracepoint or at both.
        sum.arrived = sum.arrived.max(received);
        Ok(sum)
    }

    /// What each of the programs has taken, by name, while
    /// [`Statistics`](onbeat_bpf::statistics::Statistics) were on.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn runs(&self) -> onbeat_bpf::Result<Vec<(String, Runs)>> {
        self.object.runs()
    }
}

/// The buffer of packets that are gone.
fn ring(
    object: &Object,
    detail: Detail,
    seen: &Rc<Cell<Vec<Packet>>>,
) -> std::result::Result<RingBuffer<'static>, libbpf_rs::Error> {
    let into = Rc::clone(seen);
    let map = object.map("told");
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
