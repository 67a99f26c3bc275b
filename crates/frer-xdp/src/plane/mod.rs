//! The data plane of one node: ports with programs on them, streams as table entries.
//!
//! The tables are the truth. A daemon that starts reads what is there, a daemon that reloads
//! compares with what is there, and both then do the same: write new slots, switch the entries
//! that refer to them, free what nothing refers to any more.

mod apply;
mod attach;
mod index;
mod members;
mod owned;
mod read;
mod splits;
mod testing;

use std::collections::BTreeMap;
use std::path::PathBuf;

use libbpf_rs::{MapCore, MapHandle};
use nix::time::ClockId;
use onbeat_frer::spec::Stream;

use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::Key;
use crate::error::{Error, Result};
use crate::link::{Link, Mode};
use crate::mapped::Mapped;
use crate::programs::{Control, Instance, Maps, Purpose};
use crate::slots::Slots;
use crate::table::Table;
use index::Index;
use members::{Live, Retired};
use owned::Owned;
use splits::Split;

/// How a data plane is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory in a BPF file system that outlives the daemon; `None`: nothing is pinned, and
    /// everything ends with this process.
    pub directory: Option<PathBuf>,
    /// Streams to make room for, where the tables are not there yet.
    pub max_streams: u32,
    /// Programs take the time from [`Plane::set_test_clock`] instead of the kernel's clock.
    pub test_clock: bool,
}

/// A port to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Unique within the node.
    pub name: String,
    /// Its interface, for messages.
    pub interface: String,
    /// The interface's index.
    pub ifindex: u32,
    /// How programs are to run on it.
    pub mode: Mode,
    /// XDP programs that the interface runs now.
    pub running: Vec<Running>,
}

/// An XDP program that an interface runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its id.
    pub program: u32,
    /// How it runs; `None`: in the device.
    pub mode: Option<Mode>,
}

#[derive(Debug)]
struct Port {
    slot: u8,
    ifindex: u32,
    mode: Mode,
    /// Its interface is turned on.
    up: bool,
    programs: Instance,
    /// Holds the programs on the interface as long as no pin does; `None` in tests, where they are
    /// only called.
    _link: Option<Link>,
}

/// What of a stream is in the tables.
#[derive(Debug)]
struct Applied {
    stream: Stream,
    /// Slot of each port that `stream` names, in the order of its members and egress ports.
    port_slots: Vec<u8>,
    /// Of the stream itself.
    owner: u64,
    generator: u32,
    recovery: u32,
    members: Vec<AppliedMember>,
}

#[derive(Debug)]
struct AppliedMember {
    owner: u64,
    keys: Vec<Key>,
    /// What frames go by that are found under one of these keys, unless an earlier stream has it.
    functions: frer_functions,
}

#[derive(Debug)]
struct Tables {
    node: Table<u32, frer_node>,
    port_counters: Table<u32, frer_port_counters>,
    l2_index: Mapped<frer_index_line>,
    ip: Table<frer_ip_key, u32>,
    masks: Table<frer_mask_key, u32>,
    members: Mapped<frer_member>,
    records: Mapped<frer_member_record>,
    generators: Table<u32, frer_generator>,
    recoveries: Table<u32, frer_recovery>,
    splits: Table<u32, frer_split>,
    egresses: Table<u32, frer_egress>,
    egress_ports: Table<u32, bpf_devmap_val>,
    groups: MapHandle,
}

impl Tables {
    fn l2(&self) -> Index<'_> {
        Index::new(self.l2_index.words())
    }
}

/// What one [`Plane::apply`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Streams that are new.
    pub added: usize,
    /// Streams that are otherwise than before.
    pub changed: usize,
    /// Streams that are gone.
    pub removed: usize,
    /// Streams that stayed as they are.
    pub kept: usize,
}

/// A node's data plane in XDP.
#[derive(Debug)]
pub struct Plane {
    directory: Option<PathBuf>,
    test_clock: bool,
    /// How much the programs' clock moves at a time.
    tick_ns: u64,
    maps: Maps,
    tables: Tables,
    control: Control,
    ports: BTreeMap<String, Port>,
    streams: BTreeMap<String, Applied>,
    /// What frames are found by, by the octets of their keys.
    live: BTreeMap<Vec<u8>, Live>,
    /// Masks that keys of these refer to, by their id.
    masks: BTreeMap<u64, frer_mask>,
    members: Slots,
    generators: Owned,
    recoveries: Owned,
    /// Splits that this process wrote, by what they say.
    splits: BTreeMap<Vec<u8>, Split>,
    /// Groups that the programs loaded by this process send by.
    groups: BTreeMap<(u64, bool), u32>,
    /// What the last change left, and programs may still look at.
    retired: Option<Retired>,
}

impl Plane {
    /// Opens a node's data plane: takes over what is pinned, or makes it.
    ///
    /// # Errors
    /// No BPF file system; pinned state of another version; what the kernel refuses.
    pub fn open(options: &Options) -> Result<Self> {
        Self::open_for(options, Purpose::Forward)
    }

    /// One that hands frames of streams to sockets.
    pub(crate) fn open_steering(max_streams: u32) -> Result<Self> {
        let options = Options { directory: None, max_streams, test_clock: false };
        Self::open_for(&options, Purpose::Steer)
    }

    fn open_for(options: &Options, purpose: Purpose) -> Result<Self> {
        let tables_directory = options.directory.as_ref().map(|d| d.join("tables"));
        if let Some(directory) = &options.directory {
            for part in ["tables", "links"] {
                let path = directory.join(part);
                std::fs::create_dir_all(&path).map_err(|source| Error::Pin {
                    what: "make directory",
                    path: path.clone(),
                    source,
                })?;
            }
            attach::require_bpf_filesystem(directory)?;
        }
        let mut maps = Maps::open(tables_directory.as_deref(), purpose, options.max_streams)?;
        maps.create()?;
        let control = Control::load(&mut maps, options.test_clock)?;
        let tables = Tables {
            node: Table::new(maps.handle("node")?),
            port_counters: Table::new(maps.handle("port_counters")?),
            l2_index: Mapped::new(&maps.handle("l2_index")?)?,
            ip: Table::new(maps.handle("ip_streams")?),
            masks: Table::new(maps.handle("mask_streams")?),
            members: Mapped::new(&maps.handle("members")?)?,
            records: Mapped::new(&maps.handle("member_records")?)?,
            generators: Table::new(maps.handle("generators")?),
            recoveries: Table::new(maps.handle("recoveries")?),
            splits: Table::new(maps.handle("splits")?),
            egresses: Table::new(maps.handle("egresses")?),
            egress_ports: Table::new(maps.handle("egress_ports")?),
            groups: maps.handle("groups")?,
        };
        let mut node = tables.node.get(&0)?.unwrap_or_default();
        if node.abi_version == 0 {
            node.abi_version = c::ABI_VERSION;
            tables.node.set(&0, &node)?;
        } else if node.abi_version != c::ABI_VERSION {
            return Err(maps.incompatible());
        }

        let found = members::read(&tables)?;
        // Where no entry refers to any function, none has an owner: nothing need be read.
        let fresh = found.live.is_empty();
        let generators = Owned::read(&tables.generators, fresh, |g| g.owner)?;
        let recoveries = Owned::read(&tables.recoveries, fresh, |r| r.owner)?;
        let retired = (!found.retired.is_empty()).then(|| Retired {
            members: found.retired,
            generators: generators.owners().collect(),
            recoveries: recoveries.owners().collect(),
        });
        Ok(Self {
            directory: options.directory.clone(),
            test_clock: options.test_clock,
            tick_ns: if options.test_clock { 0 } else { tick_ns() },
            maps,
            tables,
            control,
            ports: BTreeMap::new(),
            streams: BTreeMap::new(),
            live: found.live,
            masks: masks(&node),
            members: found.slots,
            retired,
            generators,
            recoveries,
            splits: BTreeMap::new(),
            groups: BTreeMap::new(),
        })
    }

    /// Makes `streams` the node's streams, without losing a frame of any that stays. Port number
    /// `n` of the streams is the attached port `names[n]`.
    ///
    /// # Errors
    /// What this data plane cannot do, or has no room for; nothing has changed then.
    pub fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        apply::apply(self, names, streams)
    }

    /// Sets of egress ports there is room for: all but the last, which nobody sends by.
    fn group_capacity(&self) -> u32 {
        self.tables.groups.max_entries() - 1
    }

    /// Resets recovery functions whose time ran out without a packet.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn expire(&self) -> Result<()> {
        let bound = self.recoveries.bound();
        for slot in (0..bound).step_by(1024) {
            let count = (bound - slot).min(1024).into();
            self.control.run(&frer_request { op: c::OP_EXPIRE, slot, count, ..<_>::default() })?;
        }
        Ok(())
    }

    /// Sets the clock of programs loaded with `test_clock`.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn set_test_clock(&self, now_ns: u64) -> Result<()> {
        let mut node = self.tables.node.get(&0)?.unwrap_or_default();
        node.test_now_ns = now_ns;
        self.tables.node.set(&0, &node)
    }
}

/// The masks that a node uses.
fn masks(node: &frer_node) -> BTreeMap<u64, frer_mask> {
    let shapes = &node.shapes[node.active as usize & 1];
    shapes.masks.iter().take(shapes.mask_count as usize).map(|mask| (mask.id, *mask)).collect()
}

/// Resolution of CLOCK_MONOTONIC_COARSE, which the programs read: to read the precise clock for each
/// packet would cost more than all of recovery.
fn tick_ns() -> u64 {
    let resolution = nix::time::clock_getres(ClockId::CLOCK_MONOTONIC_COARSE);
    resolution
        .map_or(10_000_000, |tick| tick.tv_sec() as u64 * 1_000_000_000 + tick.tv_nsec() as u64)
}
