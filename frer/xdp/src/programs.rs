//! Loading: one instance of the programs per port, all on the same tables.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapHandle, OpenMapMut, ProgramInput, ProgramMut};
use onbeat_bpf::{Object, Plain, UnloadedObject, bpf_object};
use onbeat_frer::spec::MAX_EGRESS;

use crate::abi::constants as c;
use crate::abi::frer_request;
use crate::error::{Context, Error, Result};
use crate::pin::PinDirectory;

onbeat_bpf::bpf_skeleton!(frer_skeleton, "frer.skel.rs");

onbeat_bpf::bpf_skeleton!(steer_skeleton, "steer.skel.rs");

onbeat_bpf::bpf_skeleton!(control_skeleton, "control.skel.rs");

/// A table of each steering program by itself.
const SOCKETS: &str = "sockets";

/// The program that replicas are rewritten by, as the kernel test-runs it.
const EGRESS_TEST: &str = "frer_egress_test";

/// What the programs on ports do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// FRER.
    Forward,
    /// They hand frames of streams to sockets.
    Steer,
}

/// Whether a node has a table of this name, which is that of its pin.
pub(crate) fn is_table(name: &str) -> bool {
    entries(name, Purpose::Forward, 1).is_some()
}

/// The number of entries of a table for a number of streams; `None`: not a table of a node.
fn entries(map: &str, purpose: Purpose, streams: u32) -> Option<u32> {
    Some(match map {
        // Their functions are elsewhere.
        "recoveries" | "recovery_records" | "generators" | "generator_records" | "egresses"
            if purpose == Purpose::Steer =>
        {
            1
        }
        "splits" if purpose == Purpose::Steer => 2 * c::MAX_PORTS,
        "node" => 1,
        "port_counters" | "egress_ports" => c::MAX_PORTS,
        // Two members a stream; each of them, and the stream, with a recovery function. A third more
        // than streams can have: what a change leaves is used anew only later.
        "recoveries" | "recovery_records" => 4 * streams,
        "generators" | "generator_records" => 2 * streams,
        // A change of every stream at once needs the old and the new.
        "members" | "member_records" | "ip_streams" | "mask_streams" => 4 * streams,
        "splits" => 2 * streams,
        // Lines of four entries: the first third as many as streams, so that it is dense.
        "l2_index" => 3 * streams.next_power_of_two(),
        // And the one that nobody sends by.
        "groups" => (2 * streams).max(64) + 1,
        // Each split has its own, where replicas differ.
        "egresses" => 2 * streams * MAX_EGRESS as u32,
        _ => return None,
    })
}

/// The tables of a node by name, shared by all instances.
#[derive(Debug)]
pub(crate) struct Maps {
    purpose: Purpose,
    streams: u32,
    directory: Option<Arc<PinDirectory>>,
    maps: BTreeMap<String, MapHandle>,
}

impl Maps {
    /// Tables pinned in `directory`, or ones that will be; `None`: tables that die with us.
    pub(crate) fn open(
        directory: Option<Arc<PinDirectory>>,
        purpose: Purpose,
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
        Ok(Self { purpose, streams: streams.max(1), directory, maps })
    }

    /// Replaces an object's map by the node's table, or sets its size where there is none yet.
    fn prepare(&self, map: &mut OpenMapMut<'_>) -> Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        let Some(entries) = entries(&name, self.purpose, self.streams) else {
            let own = name == SOCKETS || name.contains('.');
            assert!(own, "table {name} has no size");
            return Ok(());
        };
        match self.maps.get(&name) {
            Some(table) => {
                let same =
                    table.key_size() == map.key_size() && table.value_size() == map.value_size();
                if !same {
                    return Err(self.incompatible());
                }
                map.reuse_fd(table.as_fd()).context(|| format!("reuse table {name}"))
            }
            None => map.set_max_entries(entries).context(|| format!("size table {name}")),
        }
    }

    pub(crate) fn incompatible(&self) -> Error {
        let path = self.directory.as_ref().map(|directory| directory.path().to_path_buf());
        Error::Incompatible { path: path.unwrap_or_default() }
    }

    /// Takes what an object made into the node's tables.
    fn adopt(&mut self, object: &Object) -> Result<()> {
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if !is_table(&name) || self.maps.contains_key(&name) {
                continue;
            }
            let mut handle = MapHandle::try_from(&map).context(|| format!("hold table {name}"))?;
            if let Some(directory) = &self.directory {
                handle
                    .pin(directory.table(&name))
                    .context(|| format!("pin table {name} in {}", directory.path().display()))?;
            }
            self.maps.insert(name, handle);
        }
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &MapHandle> {
        self.maps.values()
    }

    /// A second handle on a table.
    pub(crate) fn handle(&self, name: &str) -> Result<MapHandle> {
        let map = self.maps.get(name).expect("every table is made by the first load");
        MapHandle::try_from(map).context(|| format!("hold table {name}"))
    }

    /// What the number of a line in the first third of the index is cut to.
    fn index_mask(&self) -> Result<u32> {
        Ok(self.handle("l2_index")?.max_entries() / 3 - 1)
    }

    /// Loads an object onto the node's tables.
    fn load(
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

/// The programs of one port.
#[derive(Debug)]
pub(crate) struct Instance(Object);

impl Instance {
    /// Loads them; `test_clock` makes them take the time from the node table, and callable.
    pub(crate) fn load(maps: &mut Maps, port: u8, test_clock: bool) -> Result<Self> {
        let index_mask = maps.index_mask()?.to_ne_bytes();
        if maps.purpose == Purpose::Steer {
            use steer_skeleton::types::rodata;
            let file = bpf_object!("steer.bpf.o");
            let object = maps.load(file, "the steering program of a port", |object| {
                object.set_constants(&[
                    (offset_of!(rodata, port), &[port]),
                    (offset_of!(rodata, index_mask), &index_mask),
                ]);
            });
            return object.map(Self);
        }
        use frer_skeleton::types::rodata;
        let object = maps.load(bpf_object!("frer.bpf.o"), "the programs of a port", |object| {
            object.set_constants(&[
                (offset_of!(rodata, port), &[port]),
                (offset_of!(rodata, test_clock), &[test_clock.into()]),
                (offset_of!(rodata, index_mask), &index_mask),
            ]);
            if !test_clock {
                object.skip(EGRESS_TEST);
            }
        });
        object.map(Self)
    }

    /// What runs on the port's interface.
    pub(crate) fn ingress(&self) -> ProgramMut<'_> {
        let ours = |p: &ProgramMut<'_>| p.name() == "frer_ingress" || p.name() == "frer_steer";
        self.0.programs().find(ours).expect("the object holds it")
    }

    /// Sockets by receive queue, where frames are steered to them.
    pub(crate) fn sockets(&self) -> Result<MapHandle> {
        MapHandle::try_from(&self.0.map(SOCKETS)).context(|| format!("hold table {SOCKETS}"))
    }

    /// What runs on replicas that leave by the port.
    pub(crate) fn egress(&self) -> ProgramMut<'_> {
        self.0.program("frer_egress")
    }

    /// The same, as tests can call it; only where loaded with `test_clock`.
    pub(crate) fn egress_test(&self) -> ProgramMut<'_> {
        self.0.program(EGRESS_TEST)
    }
}

/// The control program.
#[derive(Debug)]
pub(crate) struct Control(Object);

impl Control {
    /// Loads it, and makes the tables that are not there yet.
    pub(crate) fn load(maps: &mut Maps, test_clock: bool) -> Result<Self> {
        use control_skeleton::types::rodata;
        let clock = (offset_of!(rodata, test_clock), &[test_clock.into()][..]);
        let file = bpf_object!("control.bpf.o");
        maps.load(file, "the control program", |object| object.set_constants(&[clock])).map(Self)
    }

    pub(crate) fn program(&self) -> ProgramMut<'_> {
        self.0.program("frer_control")
    }

    /// Carries out one request.
    pub(crate) fn run(&self, request: &frer_request) -> Result<()> {
        let program = self.program();
        let mut out = [0; size_of::<frer_request>()];
        let input = ProgramInput {
            data_in: Some(request.octets()),
            data_out: Some(&mut out),
            ..Default::default()
        };
        let output = program.test_run(input).context(|| "run the control program".to_string())?;
        assert_ne!(output.return_value, 0, "the control program knows every request we make");
        Ok(())
    }
}
