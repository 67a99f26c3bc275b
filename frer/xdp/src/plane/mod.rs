//! The data plane of one node: ports with programs on them, streams as table entries.
//!
//! The tables are authoritative. A daemon reads them at start; a reload and a change of one stream compare
//! with them. All then proceed alike: write new slots, switch the entries that refer to them, and retire
//! items that are no longer referenced, to be freed later.

mod attach;
mod change;
mod claims;
mod dataplane;
mod entries;
mod grace;
mod groups;
mod history;
mod index;
mod lre;
mod memory;
mod owned_slots;
mod read;
mod recovery;
mod requested_stream;
mod retirement;
mod rings;
mod shapes;
mod specialize;
mod splits;
mod testing;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapHandle};
use onbeat_bpf::{Link, MappedArray, PlainData};
use onbeat_frer::dataplane::{Changes, Mode, ReceiveQueues};
use onbeat_frer::spec::Stream;

use crate::abi::constants as c;
use crate::abi::*;
use crate::compile::{Key, State};
use crate::error::Result;
use crate::features::Features;
use crate::output::OutputCounters;
use crate::pin::PinDirectory;
use crate::programs::{self, Control, Instance, Maps, ProgramPurpose, Redundancy, TableCapacity};
use crate::slots::Slots;
use crate::table::Table;
use claims::Claims;
use entries::{CounterSlot, Entry, MemberActions};
use grace::{Epoch, GracePeriods};
use groups::Groups;
use index::Index;
use lre::RedundancyEntities;
use owned_slots::OwnedSlots;
use retirement::RetiredItem;
use rings::Rings;
use shapes::Shapes;
use specialize::PortFeatures;
use splits::Splits;

/// Options of a data plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory in a BPF file system that outlives the daemon, claimed for a node; `None`: nothing is
    /// pinned, and all state ends with this process.
    pub directory: Option<Arc<PinDirectory>>,
    /// Capacity in streams, if the tables do not exist yet.
    pub max_streams: u32,
    /// Whether programs read the time from [`Plane::set_test_clock`] instead of the kernel's clock.
    pub test_clock: bool,
    /// Whether frames that leave are counted, by programs that run for all XDP frames of the machine.
    pub count_output: bool,
}

#[derive(Debug)]
struct Port {
    slot: u8,
    ifindex: u32,
    mode: Mode,
    /// As in [`onbeat_frer::dataplane::PortSpec`].
    queues: ReceiveQueues,
    /// The attached program.
    program: Option<u32>,
    /// Whether its interface is up.
    up: bool,
    programs: Instance,
    /// What the programs were loaded for.
    features: Features,
    /// As for `features`.
    redundancy: Option<Redundancy>,
    /// The programs draw numbers without atomic additions.
    has_exclusive_generators: bool,
    /// Keeps the programs on the interface if no pin does; `None` in tests, which only test-run them.
    link: Option<Link>,
}

/// A stream in the tables.
#[derive(Debug)]
struct AppliedStream {
    stream: Stream,
    /// Slot of each port in `stream`, in the order of members and egress ports.
    port_slots: Vec<u8>,
    /// Owners of the stream and of its functions.
    owner: u64,
    generator: Option<u64>,
    recovery: Option<u64>,
    state: State,
    members: Vec<AppliedMember>,
}

#[derive(Debug)]
struct AppliedMember {
    owner: u64,
    individual: Option<u64>,
    keys: Vec<Key>,
    /// Processing of frames with these keys, unless another member has the key.
    does: MemberActions,
}

impl AppliedStream {
    /// Returns the owners of its recovery functions.
    fn recoveries(&self) -> impl Iterator<Item = u64> {
        self.recovery.into_iter().chain(self.members.iter().filter_map(|m| m.individual))
    }
}

#[derive(Debug)]
struct Tables {
    node: Table<u32, frer_node>,
    port_counters: Table<u32, frer_port_counters>,
    l2_index: MappedArray<frer_index_line>,
    ip: Table<frer_ip_key, u64>,
    masks: Table<frer_mask_key, u64>,
    members: MappedArray<frer_member>,
    records: MappedArray<frer_member_record>,
    skews: MappedArray<frer_skew>,
    arrivals: MappedArray<frer_arrivals>,
    generators: MappedArray<frer_generator>,
    generator_records: MappedArray<frer_generator_record>,
    recoveries: MappedArray<frer_recovery>,
    recovery_records: MappedArray<frer_recovery_record>,
    rings: MappedArray<frer_ring_line>,
    splits: MappedArray<frer_split>,
    egresses: Table<u32, frer_egress>,
    egress_ports: Table<u32, bpf_devmap_val>,
    groups: MapHandle,
}

/// The word of a function's record with its owner.
const GENERATOR_OWNER: usize = std::mem::offset_of!(frer_generator_record, owner) / 8;
const RECOVERY_OWNER: usize = std::mem::offset_of!(frer_recovery_record, owner) / 8;

impl Tables {
    fn open(maps: &Maps) -> Result<Self> {
        Ok(Self {
            node: Table::new(maps.handle("node")?),
            port_counters: Table::new(maps.handle("port_counters")?),
            l2_index: MappedArray::new(&maps.handle("l2_index")?)?,
            ip: Table::new(maps.handle("ip_streams")?),
            masks: Table::new(maps.handle("mask_streams")?),
            members: MappedArray::new(&maps.handle("members")?)?,
            records: MappedArray::new(&maps.handle("member_records")?)?,
            skews: MappedArray::new(&maps.handle("skews")?)?,
            arrivals: MappedArray::new(&maps.handle("arrivals_of")?)?,
            generators: MappedArray::new(&maps.handle("generators")?)?,
            generator_records: MappedArray::new(&maps.handle("generator_records")?)?,
            recoveries: MappedArray::new(&maps.handle("recoveries")?)?,
            recovery_records: MappedArray::new(&maps.handle("recovery_records")?)?,
            rings: MappedArray::new(&maps.handle("rings")?)?,
            splits: MappedArray::new(&maps.handle("splits")?)?,
            egresses: Table::new(maps.handle("egresses")?),
            egress_ports: Table::new(maps.handle("egress_ports")?),
            groups: maps.handle("groups")?,
        })
    }

    fn l2(&self) -> Index<'_> {
        Index::new(self.l2_index.words())
    }

    /// Clears the owner of a recovery function; programs may still count in it.
    fn disown_recovery(&self, slot: u32) {
        self.recovery_records.entry(slot)[RECOVERY_OWNER].store(0, Ordering::Relaxed);
    }
}

/// Returns the slots with an owner, which is in this word of their records.
fn owners<V: PlainData>(
    records: &MappedArray<V>,
    word: usize,
    fresh: bool,
) -> impl Iterator<Item = (u64, u32)> {
    let slots = 0..if fresh { 0 } else { records.capacity() };
    let owner = move |slot| (records.entry(slot)[word].load(Ordering::Relaxed), slot);
    slots.map(owner).filter(|(owner, _)| *owner != 0)
}

/// The XDP data plane of a node.
#[derive(Debug)]
pub struct Plane {
    directory: Option<Arc<PinDirectory>>,
    test_clock: bool,
    /// Step of the programs' clock.
    tick_ns: u64,
    maps: Maps,
    tables: Tables,
    control: Control,
    /// The counters of output, or why there are none.
    output: std::result::Result<OutputCounters, String>,
    ports: BTreeMap<String, Port>,
    /// Slots of ports that have no interface yet, by name.
    reserved: BTreeMap<String, u8>,
    /// Streams by number; the numbers by name.
    streams: Vec<Option<AppliedStream>>,
    free_numbers: Vec<usize>,
    names: HashMap<String, usize>,
    claims: Claims,
    /// Lookup entries by key.
    entries: HashMap<Key, Entry>,
    /// Slots with counters, by owner of the stream.
    held: HashMap<u64, Vec<CounterSlot>>,
    members: Slots,
    generators: OwnedSlots,
    recoveries: OwnedSlots,
    rings: Rings,
    /// Recovery functions between two steps of a change of their history.
    moving: Vec<u32>,
    splits: Splits,
    groups: Groups,
    shapes: Shapes,
    /// Items retired by changes; each is freed once its epoch is over.
    retired: VecDeque<(Epoch, RetiredItem)>,
    grace: GracePeriods,
    /// Whether items left by an earlier process have been assigned to streams or removed.
    swept: bool,
    lre: RedundancyEntities,
}

impl Plane {
    /// Opens the data plane of a node: adopts pinned state or creates it.
    ///
    /// # Errors
    /// No BPF file system; pinned state of another version; the kernel refuses.
    pub fn open(options: &Options) -> Result<Self> {
        Self::open_for(options, ProgramPurpose::Forward)
    }

    /// Checks whether [`Plane::open`] accepts the tables pinned in a directory, and whether they have room for these
    /// numbers of streams, and of nodes of a PRP node or of wildcards. Changes nothing, and requires no claim.
    ///
    /// # Errors
    /// [`Incompatible`](crate::Error::Incompatible), [`NodesTable`](crate::Error::NodesTable); the kernel refuses access.
    pub fn check(directory: PinDirectory, streams: u32, nodes: u32) -> Result<()> {
        let directory = Some(Arc::new(directory));
        let maps = Maps::open(directory, ProgramPurpose::Forward, streams)?;
        maps.require_layout(TableCapacity { streams, nodes })
    }

    /// Opens a plane that redirects frames of streams to sockets.
    pub(crate) fn open_steering(max_streams: u32) -> Result<Self> {
        let options =
            Options { directory: None, max_streams, test_clock: false, count_output: false };
        Self::open_for(&options, ProgramPurpose::Steer)
    }

    fn open_for(options: &Options, purpose: ProgramPurpose) -> Result<Self> {
        let directory = options.directory.clone();
        let mut maps = Maps::open(directory.clone(), purpose, options.max_streams)?;
        maps.require_version()?;
        let control = Control::load(&mut maps, options.test_clock)?;
        let output = match purpose {
            ProgramPurpose::Forward if !options.count_output => Err("not requested".to_owned()),
            ProgramPurpose::Forward => OutputCounters::open(&mut maps, directory.as_deref()),
            ProgramPurpose::Steer => Err("its frames leave by sockets".to_owned()),
        };
        let tables = Tables::open(&maps)?;
        let mut node = tables.node.get(&0)?.unwrap_or_default();
        let fresh = node.abi_version == 0;
        if fresh {
            node.abi_version = c::ABI_VERSION;
            tables.node.set(&0, &node)?;
        }
        Self::take_over(options, directory, maps, tables, (control, output), &node, fresh)
    }

    /// Creates a plane from the content of its tables.
    fn take_over(
        options: &Options,
        directory: Option<Arc<PinDirectory>>,
        maps: Maps,
        tables: Tables,
        (control, output): (Control, std::result::Result<OutputCounters, String>),
        node: &frer_node,
        fresh: bool,
    ) -> Result<Self> {
        // The last group is unused.
        let groups = tables.groups.max_entries() - 1;
        let grace = GracePeriods::start(maps.handle("groups")?, groups)?;
        if !fresh {
            // Items freed by another process.
            grace.wait(grace.now())?;
        }
        let read = entries::read(&tables, fresh)?;
        let split = |entry: &Entry| (entry.does.split, tables.splits.get(entry.does.split));
        let splits = Splits::new(tables.splits.capacity(), read.entries.values().map(split));
        let generators = owners(&tables.generator_records, GENERATOR_OWNER, fresh);
        let recoveries: Vec<_> = owners(&tables.recovery_records, RECOVERY_OWNER, fresh).collect();
        let used = recoveries.iter().map(|(_, slot)| tables.recoveries.get(*slot).config);
        let used = used.filter_map(|config| history::ring_in_use(&config));
        let rings = Rings::new(tables.rings.capacity(), used);
        let used: Vec<u32> = recoveries.iter().map(|(_, slot)| *slot).collect();
        let most = |capacity: u32, of: u32| (capacity, capacity / (of + 1) * of);
        let (capacity, most_generators) = most(tables.generators.capacity(), 1);
        let generators = OwnedSlots::new(capacity, most_generators, generators);
        let (capacity, most_recoveries) = most(tables.recoveries.capacity(), 3);
        let recoveries = OwnedSlots::new(capacity, most_recoveries, recoveries.into_iter());
        let edits = |entry: &Entry| tables.splits.get(entry.does.split);
        let edited = read
            .entries
            .values()
            .map(edits)
            .filter(|split| u32::from(split.flags) & c::SPLIT_EGRESSES != 0);
        let edited = edited.fold(0, |ports, split| ports | split.ports);
        let groups = Groups::new(groups, splits.groups(), edited);
        let shapes = Shapes::new(node, read.entries.keys().map(Key::kind));
        let now = grace.now();
        let mut plane = Self {
            directory,
            test_clock: options.test_clock,
            tick_ns: if options.test_clock { 0 } else { programs::tick_ns() },
            maps,
            control,
            output,
            ports: BTreeMap::new(),
            reserved: BTreeMap::new(),
            streams: Vec::new(),
            free_numbers: Vec::new(),
            names: HashMap::new(),
            claims: Claims::default(),
            entries: read.entries,
            held: read.held,
            members: read.slots,
            generators,
            recoveries,
            rings,
            moving: Vec::new(),
            splits,
            groups,
            shapes,
            retired: read.left.into_iter().map(|left| (now, left)).collect(),
            grace,
            swept: fresh,
            lre: RedundancyEntities::default(),
            tables,
        };
        plane.adopt_lre()?;
        plane.note_moves(used);
        plane.settle_moves()?;
        Ok(plane)
    }

    /// Replaces the streams of the node by `streams` without losing a frame of any stream that stays. Port
    /// number `n` of the streams is the attached or reserved port `names[n]`.
    ///
    /// # Errors
    /// This data plane does not support a stream, or has no room for it; nothing has changed.
    pub fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        let wanted: HashSet<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
        let gone: Vec<String> =
            self.names.keys().filter(|name| !wanted.contains(name.as_str())).cloned().collect();
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let changes = change::change(self, names, &gone, streams)?;
        self.sweep()?;
        self.narrow()?;
        Ok(changes)
    }

    /// Removes the streams named in `gone` and adds or changes `streams`, all or none, without losing a frame
    /// of any other stream. The time depends on the number of these streams only, without waiting for running
    /// programs, unless the history of a recovery function changes: that takes some grace periods. Each name is in `streams` at most once; a name in both changes the stream. Unknown names in
    /// `gone` are ignored.
    ///
    /// Port number `n` of the streams is the attached or reserved port `names[n]`.
    ///
    /// # Errors
    /// Those of [`Plane::apply`].
    pub fn change(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<Changes> {
        change::change(self, names, gone, streams)
    }

    /// Removes items left by an earlier process that no stream uses.
    fn sweep(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.swept, true) {
            return Ok(());
        }
        let mut left = Vec::new();
        let strays = self.entries.keys().filter(|key| !self.claims.has(key));
        let strays: Vec<Key> = strays.copied().collect();
        let mut ports = PortFeatures::new();
        strays.iter().for_each(|key| self.require_change(&mut ports, key, None));
        self.widen(&ports)?;
        for key in strays {
            self.lose(&key, &mut left)?;
        }
        let streams = || self.streams.iter().flatten();
        let generators = streams().filter_map(|stream| stream.generator).collect();
        let generators = self.generators.others(&generators);
        let recoveries = streams().flat_map(AppliedStream::recoveries).collect();
        let recoveries = self.recoveries.others(&recoveries);
        self.retire_functions(generators, recoveries, &mut left);
        (0..self.streams.len()).for_each(|number| self.clear_owners_of_members(number));
        let streams: HashSet<u64> =
            self.streams.iter().flatten().map(|stream| stream.owner).collect();
        let gone = self.held.keys().filter(|owner| !streams.contains(owner));
        for owner in gone.copied().collect::<Vec<_>>() {
            self.disown(owner);
        }
        self.retire(left);
        Ok(())
    }

    fn stream(&self, number: usize) -> &AppliedStream {
        self.streams[number].as_ref().expect("the number of a stream")
    }

    /// Resets recovery functions whose timeout has passed without a packet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn expire(&self) -> Result<()> {
        let bound = self.recoveries.bound();
        for slot in (0..bound).step_by(1024) {
            let count = (bound - slot).min(1024).into();
            let request = frer_request { op: c::OP_EXPIRE, slot, count, ..<_>::default() };
            self.control.run(&request)?;
        }
        Ok(())
    }

    /// Sets the clock of programs loaded with `test_clock`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_test_clock(&self, now_ns: u64) -> Result<()> {
        let mut node = self.tables.node.get(&0)?.unwrap_or_default();
        node.test_now_ns = now_ns;
        self.tables.node.set(&0, &node)
    }
}
