//! Loading of programs: one instance per port, all on the same tables.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapHandle, OpenMapMut, ProgramInput, ProgramMut};
use nix::time::{ClockId, clock_getres};
use onbeat_bpf::{Object, PlainData, UnloadedObject, bpf_object};
use onbeat_frer::spec::MAX_EGRESS;

use crate::abi::constants as c;
use crate::abi::{frer_node, frer_request};
use crate::error::{Context, Error, Result};
use crate::features::{Features, OnlyMember};
use crate::pin::PinDirectory;
use crate::table::Table;

onbeat_bpf::bpf_skeleton!(frer_skeleton, "frer.skel.rs");

onbeat_bpf::bpf_skeleton!(lre_skeleton, "lre.skel.rs");

onbeat_bpf::bpf_skeleton!(wildcard_skeleton, "wildcard.skel.rs");

onbeat_bpf::bpf_skeleton!(steer_skeleton, "steer.skel.rs");

onbeat_bpf::bpf_skeleton!(control_skeleton, "control.skel.rs");

/// Programs of a port of wildcards. They have every table of streams and of the link redundancy entity.
static WILDCARD: &[u8] = bpf_object!("wildcard.bpf.o");

/// The table that each steering program has for itself.
const SOCKETS: &str = "sockets";

/// Programs for frames that a port receives, with what they serve: those for a fixed set of features, then the one for
/// any set.
const INGRESS: [(&str, Features); 7] = {
    const fn of(bits: u32) -> Features {
        Features::of_destinations(bits)
    }
    const REWRITE: u32 = c::USES_REWRITE;
    const INDIVIDUAL: u32 = c::USES_INDIVIDUAL;
    [
        ("frer_generate", of(c::USES_TO_GENERATE)),
        ("frer_eliminate", of(c::USES_TO_ELIMINATE)),
        ("frer_generate_rewrite", of(c::USES_TO_GENERATE | REWRITE)),
        ("frer_eliminate_rewrite", of(c::USES_TO_ELIMINATE | REWRITE)),
        ("frer_eliminate_individual", of(c::USES_TO_ELIMINATE | INDIVIDUAL)),
        ("frer_eliminate_both", of(c::USES_TO_ELIMINATE | INDIVIDUAL | REWRITE)),
        ("frer_ingress", Features::ALL),
    ]
};

/// Returns whether a program of this name processes frames that a port receives.
pub(crate) fn is_ingress(name: &str) -> bool {
    [REDUNDANCY, WILDCARDS].contains(&name) || INGRESS.iter().any(|(ingress, _)| *ingress == name)
}

/// The program of a port of the link redundancy entity, for any set of features.
const REDUNDANCY: &str = "lre_ingress";

/// The program of a port of wildcards, for any set of features.
const WILDCARDS: &str = "wildcard_ingress";

/// The program for copies on LAN B, and its form for tests.
const LAN_B: [&str; 2] = ["lre_lan_b", "lre_lan_b_test"];

/// The program that edits replicas, in a form that the kernel can test-run.
const EGRESS_TEST: &str = "frer_egress_test";

/// The purpose of the programs on ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramPurpose {
    /// FRER.
    Forward,
    /// Redirection of frames of streams to sockets.
    Steer,
}

/// Lines of rings per stream: a history of up to 1,024.
const RING_LINES: u32 = 16;

/// Lines of rings of a node with few streams: four of the longest histories.
const LEAST_RING_LINES: u32 = 2048;

/// Room in the tables of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableCapacity {
    /// Streams.
    pub(crate) streams: u32,
    /// Entries of the NodesTable, and of the ProxyNodeTable, of all wildcards together.
    pub(crate) nodes: u32,
}

/// Returns whether a node has a table of this name, which is also the name of its pin.
pub(crate) fn is_table(name: &str) -> bool {
    entries(name, ProgramPurpose::Forward, TableCapacity { streams: 1, nodes: 1 }).is_some()
}

/// Returns the number of entries of a table; `None`: not a table of a node.
fn entries(
    map: &str,
    purpose: ProgramPurpose,
    TableCapacity { streams, nodes }: TableCapacity,
) -> Option<u32> {
    Some(match map {
        "lre" | "lre_paths" => c::LRE_ENTITIES,
        "lre_lans" => 2,
        "lre_counters" => c::LRE_ENTITIES * c::LRE_ROLES,
        "lre_supervision" => c::LRE_WAITING,
        // A source and its alias.
        "lre_nodes" => 2 * nodes,
        "lre_sources" | "lre_numbers" | "lre_free" | "lre_singles" | "lre_proxies" => nodes,
        // Their functions are in user space.
        "recoveries" | "recovery_records" | "rings" | "generators" | "generator_records"
        | "egresses" | "skews" | "arrivals_of"
            if purpose == ProgramPurpose::Steer =>
        {
            1
        }
        "splits" if purpose == ProgramPurpose::Steer => 2 * c::MAX_PORTS,
        "lre_scopes" => c::MAX_PORTS,
        "node" => 1,
        "outputs" => c::MAX_PORTS,
        "output_ports" => c::OUTPUT_PORTS,
        "port_counters" | "egress_ports" => c::MAX_PORTS,
        // Two members per stream; a recovery function for each of them and for the stream. A third more than
        // streams can have: slots that a change releases are reused only later.
        "recoveries" | "recovery_records" | "arrivals_of" => 4 * streams,
        "rings" => (RING_LINES * streams).max(LEAST_RING_LINES),
        "generators" | "generator_records" => 2 * streams,
        // A change of all streams at once needs the old and the new entries.
        "members" | "member_records" | "skews" | "ip_streams" | "mask_streams" => 4 * streams,
        "splits" => 2 * streams,
        // Lines of four entries: the first third has a line per stream, so that it is dense.
        "l2_index" => 3 * streams.next_power_of_two(),
        // And the group that no split uses.
        "groups" => (2 * streams).max(64) + 1,
        // One per split, where replicas differ.
        "egresses" => 2 * streams * MAX_EGRESS as u32,
        _ => return None,
    })
}

/// The tables of a node by name, shared by all instances.
#[derive(Debug)]
pub(crate) struct Maps {
    purpose: ProgramPurpose,
    capacity: TableCapacity,
    directory: Option<Arc<PinDirectory>>,
    maps: BTreeMap<String, MapHandle>,
}

impl Maps {
    /// Opens the tables pinned in `directory`, or prepares to create them; `None`: tables end with this
    /// process.
    pub(crate) fn open(
        directory: Option<Arc<PinDirectory>>,
        purpose: ProgramPurpose,
        streams: u32,
    ) -> Result<Self> {
        let mut maps = BTreeMap::new();
        if let Some(directory) = &directory {
            for name in directory.tables()? {
                let map = MapHandle::from_pinned_path(directory.table(&name))
                    .context(|| format!("open table {name} in {}", directory.path().display()))?;
                maps.insert(name, map);
            }
        }
        let capacity = TableCapacity { streams: streams.max(1), nodes: 1 };
        Ok(Self { purpose, capacity, directory, maps })
    }

    /// Sets the capacity of tables of nodes that do not exist yet.
    pub(crate) fn set_nodes(&mut self, nodes: u32) {
        self.capacity.nodes = nodes.max(1);
    }

    /// Returns what programs on these tables are for.
    pub(crate) fn purpose(&self) -> ProgramPurpose {
        self.purpose
    }

    /// Replaces a map of an object by the node's table, or sets its size if there is none yet.
    fn prepare(&self, map: &mut OpenMapMut<'_>) -> Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        let Some(entries) = entries(&name, self.purpose, self.capacity) else {
            let own = name == SOCKETS || name.contains('.');
            assert!(own, "table {name} has no size");
            return Ok(());
        };
        match self.maps.get(&name) {
            Some(table) => {
                self.require_sizes(table, map)?;
                map.reuse_fd(table.as_fd()).context(|| format!("reuse table {name}"))
            }
            None => map.set_max_entries(entries).context(|| format!("size table {name}")),
        }
    }

    fn require_sizes(&self, table: &MapHandle, map: &OpenMapMut<'_>) -> Result<()> {
        let same = table.key_size() == map.key_size() && table.value_size() == map.value_size();
        if same { Ok(()) } else { Err(self.incompatible()) }
    }

    /// Refuses tables of another version, before any is created, used or replaced.
    pub(crate) fn require_version(&self) -> Result<()> {
        let Some(node) = self.maps.get("node") else { return Ok(()) };
        let sizes = [node.key_size(), node.value_size()].map(|size| size as usize);
        if sizes != [size_of::<u32>(), size_of::<frer_node>()] {
            return Err(self.incompatible());
        }
        let node = Table::<u32, frer_node>::new(self.handle("node")?);
        // 0: a process was killed before it recorded the version.
        match node.get(&0)?.unwrap_or_default().abi_version {
            0 | c::ABI_VERSION => Ok(()),
            _ => Err(self.incompatible()),
        }
    }

    /// Refuses tables that the programs do not accept, or that have no room for this capacity. Changes nothing.
    pub(crate) fn require_layout(&self, capacity: TableCapacity) -> Result<()> {
        self.require_version()?;
        let mut object = UnloadedObject::open(WILDCARD, "the programs of a port")?;
        for map in object.maps() {
            if let Some(table) = self.maps.get(&*map.name().to_string_lossy()) {
                self.require_sizes(table, &map)?;
            }
        }
        let streams = self.maps.get("splits").map_or(u32::MAX, |splits| splits.max_entries() / 2);
        if streams < capacity.streams {
            return Err(self.incompatible());
        }
        self.require_nodes(capacity.nodes)
    }

    /// Checks whether the NodesTable, if there is one, has room for this number of nodes.
    pub(crate) fn require_nodes(&self, wanted: u32) -> Result<()> {
        match self.maps.get("lre_sources").map(|sources| sources.max_entries()) {
            Some(capacity) if capacity < wanted => Err(Error::NodesTable { wanted, capacity }),
            _ => Ok(()),
        }
    }

    fn incompatible(&self) -> Error {
        let path = self.directory.as_ref().map(|directory| directory.path().to_path_buf());
        Error::Incompatible { path: path.unwrap_or_default() }
    }

    /// Adds the maps created by an object to the node's tables.
    fn adopt(&mut self, object: &Object) -> Result<()> {
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if !is_table(&name) || self.maps.contains_key(&name) {
                continue;
            }
            let mut handle = MapHandle::try_from(&map).context(|| format!("open table {name}"))?;
            if let Some(directory) = &self.directory {
                handle
                    .pin(directory.table(&name))
                    .context(|| format!("pin table {name} in {}", directory.path().display()))?;
            }
            self.maps.insert(name, handle);
        }
        Ok(())
    }

    /// Returns all tables but those of the link redundancy entity.
    pub(crate) fn of_streams(&self) -> impl Iterator<Item = &MapHandle> {
        self.maps.iter().filter(|(name, _)| !name.starts_with("lre")).map(|(_, map)| map)
    }

    /// Returns whether a table exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.maps.contains_key(name)
    }

    /// Returns a second handle on a table.
    pub(crate) fn handle(&self, name: &str) -> Result<MapHandle> {
        let map = self.maps.get(name).expect("the first load creates every table");
        MapHandle::try_from(map).context(|| format!("open table {name}"))
    }

    /// Returns the mask of line numbers in the first third of the index.
    fn index_mask(&self) -> Result<u32> {
        Ok(self.handle("l2_index")?.max_entries() / 3 - 1)
    }

    /// Loads an object with the node's tables.
    pub(crate) fn load(
        &mut self,
        file: &[u8],
        what: &str,
        prepare: impl FnOnce(&mut UnloadedObject),
    ) -> Result<Object> {
        let object = Object::load(file, what, |object| {
            prepare(object);
            object.maps().try_for_each(|mut map| self.prepare(&mut map))
        })?;
        self.adopt(&object)?;
        Ok(object)
    }
}

/// Returns the period of the kernel's tick, by which the programs measure time: reading the precise clock for each
/// packet would cost more than all of recovery.
pub(crate) fn tick_ns() -> u64 {
    // The kernel's coarse clock has this resolution.
    let resolution = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE);
    resolution
        .map_or(10_000_000, |tick| tick.tv_sec() as u64 * 1_000_000_000 + tick.tv_nsec() as u64)
}

/// What the programs of a port are loaded for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InstanceSpec {
    /// Slot of the port.
    pub(crate) port: u8,
    pub(crate) features: Features,
    /// The driver processes frames of a receive queue one at a time.
    pub(crate) serial_queues: bool,
    /// Only these programs draw numbers of the port's generators, one at a time.
    pub(crate) exclusive_generators: bool,
    pub(crate) test_clock: bool,
    pub(crate) redundancy: Option<Redundancy>,
}

/// What a port has besides streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redundancy {
    /// A PRP node.
    Prp(RedundancyRole),
    /// Wildcards, whose ports are in tables.
    Wildcards,
}

/// The function of a port in the link redundancy entity of a PRP node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedundancyRole {
    /// `LRE_*`.
    pub(crate) role: u32,
    /// Slot of the host port.
    pub(crate) host: u8,
    /// Frames are sent by a program behind this one.
    pub(crate) passes_frames: bool,
}

/// The programs of one port.
#[derive(Debug)]
pub(crate) struct Instance {
    object: Object,
    /// Name of the program for frames that the port receives.
    ingress: &'static str,
}

impl Instance {
    /// Loads the programs of a port of a PRP node, also for streams with these features.
    fn load_prp(
        maps: &mut Maps,
        spec: &InstanceSpec,
        role: RedundancyRole,
        index_mask: &[u8],
    ) -> Result<Self> {
        use lre_skeleton::types::rodata;
        let file = bpf_object!("lre.bpf.o");
        let features = spec.features;
        let object = maps.load(file, "the programs of a port of a PRP node", |object| {
            object.set_constants(&[
                (offset_of!(rodata, port), &[spec.port]),
                (offset_of!(rodata, test_clock), &[spec.test_clock.into()]),
                (offset_of!(rodata, index_mask), index_mask),
                (offset_of!(rodata, serial_queues), &[spec.serial_queues.into()]),
                (offset_of!(rodata, features), &features.bits().to_ne_bytes()),
                (offset_of!(rodata, l2_shape), &features.shape().to_ne_bytes()),
                (offset_of!(rodata, port_line), &features.line().to_ne_bytes()),
                (offset_of!(rodata, tick_ns), &tick_ns().to_ne_bytes()),
                (offset_of!(rodata, lre_role), &[role.role as u8]),
                (offset_of!(rodata, lre_host_port), &[role.host]),
                (offset_of!(rodata, lre_passes_frames), &[role.passes_frames.into()]),
            ]);
            if !spec.test_clock {
                [EGRESS_TEST, LAN_B[1]].iter().for_each(|name| object.skip(name));
            }
        });
        Ok(Self { object: object?, ingress: REDUNDANCY })
    }

    /// Loads the programs of a port of wildcards, also for streams with these features.
    fn load_wildcards(maps: &mut Maps, spec: &InstanceSpec, index_mask: &[u8]) -> Result<Self> {
        use wildcard_skeleton::types::rodata;
        let features = spec.features;
        let object = maps.load(WILDCARD, "the programs of a port of wildcards", |object| {
            object.set_constants(&[
                (offset_of!(rodata, port), &[spec.port]),
                (offset_of!(rodata, test_clock), &[spec.test_clock.into()]),
                (offset_of!(rodata, index_mask), index_mask),
                (offset_of!(rodata, serial_queues), &[spec.serial_queues.into()]),
                (offset_of!(rodata, features), &features.bits().to_ne_bytes()),
                (offset_of!(rodata, l2_shape), &features.shape().to_ne_bytes()),
                (offset_of!(rodata, port_line), &features.line().to_ne_bytes()),
                (offset_of!(rodata, tick_ns), &tick_ns().to_ne_bytes()),
            ]);
            if !spec.test_clock {
                object.skip(EGRESS_TEST);
            }
        });
        Ok(Self { object: object?, ingress: WILDCARDS })
    }

    /// Loads the programs for streams with these features; with `test_clock` they read the time from the node table and
    /// can be test-run.
    pub(crate) fn load(maps: &mut Maps, spec: &InstanceSpec) -> Result<Self> {
        let &InstanceSpec { port, features, serial_queues, test_clock, redundancy, .. } = spec;
        let exclusive_generators = spec.exclusive_generators;
        let index_mask = maps.index_mask()?.to_ne_bytes();
        if maps.purpose == ProgramPurpose::Steer {
            use steer_skeleton::types::rodata;
            let file = bpf_object!("steer.bpf.o");
            let object = maps.load(file, "the steering program of a port", |object| {
                object.set_constants(&[
                    (offset_of!(rodata, port), &[port]),
                    (offset_of!(rodata, index_mask), &index_mask),
                ]);
            });
            return Ok(Self { object: object?, ingress: "frer_steer" });
        }
        match redundancy {
            Some(Redundancy::Prp(role)) => return Self::load_prp(maps, spec, role, &index_mask),
            Some(Redundancy::Wildcards) => return Self::load_wildcards(maps, spec, &index_mask),
            None => {}
        }
        use frer_skeleton::types::rodata;
        let (ingress, served) = INGRESS
            .into_iter()
            .find(|(_, served)| served.cover(features))
            .expect("the last one serves all");
        // It has all functions of the program.
        let only = features.only().filter(|only| only.uses == served.bits());
        let only = only.unwrap_or(OnlyMember::NONE);
        let object = maps.load(bpf_object!("frer.bpf.o"), "the programs of a port", |object| {
            object.set_constants(&[
                (offset_of!(rodata, port), &[port]),
                (offset_of!(rodata, test_clock), &[test_clock.into()]),
                (offset_of!(rodata, index_mask), &index_mask),
                (offset_of!(rodata, serial_queues), &[serial_queues.into()]),
                (offset_of!(rodata, exclusive_generators), &[exclusive_generators.into()]),
                (offset_of!(rodata, features), &features.bits().to_ne_bytes()),
                (offset_of!(rodata, l2_shape), &features.shape().to_ne_bytes()),
                (offset_of!(rodata, port_line), &features.line().to_ne_bytes()),
                (offset_of!(rodata, only_member), &only.member.to_ne_bytes()),
                (offset_of!(rodata, only_state), &only.state.to_ne_bytes()),
                (offset_of!(rodata, only_individual), &only.individual.to_ne_bytes()),
                (offset_of!(rodata, only_target), &only.target.to_ne_bytes()),
                (offset_of!(rodata, only_group), &[only.is_group.into()]),
                (offset_of!(rodata, only_destination), &only.destination.to_ne_bytes()),
                (offset_of!(rodata, only_vid), &only.vid.to_be_bytes()),
                (offset_of!(rodata, only_new_vid), &only.new_vid.to_be_bytes()),
                (offset_of!(rodata, tick_ns), &tick_ns().to_ne_bytes()),
            ]);
            if !test_clock {
                object.skip(EGRESS_TEST);
            }
            for (other, _) in INGRESS.iter().filter(|(name, _)| *name != ingress) {
                object.skip(other);
            }
        });
        Ok(Self { object: object?, ingress })
    }

    /// Returns the program for the interface of the port.
    pub(crate) fn ingress(&self) -> ProgramMut<'_> {
        self.object.program(self.ingress)
    }

    /// Returns the sockets by receive queue, if frames are steered to them.
    pub(crate) fn sockets(&self) -> Result<MapHandle> {
        MapHandle::try_from(&self.object.map(SOCKETS)).context(|| format!("open table {SOCKETS}"))
    }

    /// Returns the program for replicas that leave by the port.
    pub(crate) fn egress(&self) -> ProgramMut<'_> {
        self.object.program("frer_egress")
    }

    /// Returns the program for copies on LAN B, of a port of the link redundancy entity.
    pub(crate) fn lan_b(&self) -> ProgramMut<'_> {
        self.object.program(LAN_B[0])
    }

    /// Returns that program in the form for tests.
    pub(crate) fn lan_b_test(&self) -> ProgramMut<'_> {
        self.object.program(LAN_B[1])
    }

    /// Returns the egress program in the form for tests; only if loaded with `test_clock`.
    pub(crate) fn egress_test(&self) -> ProgramMut<'_> {
        self.object.program(EGRESS_TEST)
    }
}

/// The control program.
#[derive(Debug)]
pub(crate) struct Control(Object);

impl Control {
    /// Loads the program and creates missing tables.
    pub(crate) fn load(maps: &mut Maps, test_clock: bool) -> Result<Self> {
        use control_skeleton::types::rodata;
        let tick = tick_ns().to_ne_bytes();
        let constants = [
            (offset_of!(rodata, test_clock), &[test_clock.into()][..]),
            (offset_of!(rodata, tick_ns), &tick),
        ];
        let file = bpf_object!("control.bpf.o");
        maps.load(file, "the control program", |object| object.set_constants(&constants)).map(Self)
    }

    pub(crate) fn program(&self) -> ProgramMut<'_> {
        self.0.program("frer_control")
    }

    /// Runs one request; returns false if it must be repeated.
    pub(crate) fn run(&self, request: &frer_request) -> Result<bool> {
        let program = self.program();
        let mut out = [0; size_of::<frer_request>()];
        let input = ProgramInput {
            data_in: Some(request.octets()),
            data_out: Some(&mut out),
            ..Default::default()
        };
        let output = program.test_run(input).context(|| "run the control program".to_string())?;
        assert_ne!(output.return_value, 0, "unknown request of the control program");
        Ok(output.return_value != c::AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A table that another object alone has would not be compared before a start.
    #[test]
    fn the_programs_of_wildcards_have_every_table() {
        let tables = |file| -> BTreeSet<String> {
            let mut object = UnloadedObject::open(file, "programs").expect("an object file");
            let names = object.maps().map(|map| map.name().to_string_lossy().into_owned());
            names.filter(|name| is_table(name)).collect()
        };
        let all = tables(WILDCARD);
        assert!(all.len() > 20, "{all:?}");
        let others =
            [bpf_object!("control.bpf.o"), bpf_object!("frer.bpf.o"), bpf_object!("lre.bpf.o")];
        for others in others.map(tables) {
            assert!(!others.is_empty() && others.is_subset(&all), "{others:?}");
        }
    }
}
