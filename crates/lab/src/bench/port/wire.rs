//! The wire of a rig: `bpf/port.bpf.c`, which stamps what passes.

use std::mem::offset_of;

use libbpf_rs::{Link, MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenObject, ProgramMut};
use onbeat_netdev::{Handle, XdpMode};

use super::super::programs::{Aligned, failed};
use super::frames::{FRAME_LEN, Frame};
use crate::{Error, Result};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o")));

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    dead_code,
    unused
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/port.skel.rs"));
}

use skeleton::types::{bss, direction, wire_state};

// `state` is all of the section, and has no padding: it is written and read as octets.
const _: () = {
    assert!(offset_of!(bss, state) == 0 && size_of::<bss>() == size_of::<wire_state>());
    assert!(size_of::<direction>() == 3 * 8 + FRAME_LEN + 44);
    assert!(size_of::<wire_state>() == 2 * size_of::<direction>());
};

/// What passed one way since the round began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Frames as they should be.
    pub(super) count: u64,
    /// Frames of the protocol that are not.
    pub(super) wrong: u64,
    /// Frames of others.
    pub(super) foreign: u64,
}

/// One rig's programs, loaded.
#[derive(Debug)]
pub(super) struct Wire {
    object: Object,
    expected: [Frame; 2],
    links: Vec<Link>,
}

impl Wire {
    /// A wire with room for so many stamps each way, between two ends of a namespace.
    pub(super) fn start(
        handle: &Handle,
        [to_mn, to_cn]: [&str; 2],
        request: Frame,
        response: Frame,
        stamps: u32,
    ) -> Result<Self> {
        let sized = |mut object: OpenObject| {
            for mut map in object.maps_mut() {
                if ["requests", "responses"].iter().any(|name| map.name() == *name) {
                    map.set_max_entries(stamps)?;
                }
            }
            Ok(object)
        };
        let object = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .and_then(sized)
            .and_then(OpenObject::load)
            .map_err(failed("load the programs of the wire"))?;
        let mut wire = Self { object, expected: [request, response], links: Vec::new() };
        wire.lead("to_mn", handle, to_mn)?;
        wire.lead("to_cn", handle, to_cn)?;
        for (program, interface) in [("request", to_mn), ("response", to_cn)] {
            let link = wire.attach(program, handle, interface)?;
            wire.links.push(link);
        }
        wire.begin()?;
        Ok(wire)
    }

    /// Answers every frame in the driver of this interface.
    pub(super) fn reflect(&mut self, handle: &Handle, interface: &str) -> Result<()> {
        let link = self.attach("reflect", handle, interface)?;
        self.links.push(link);
        Ok(())
    }

    /// Counts from 0 again. Nothing is on the wire meanwhile.
    pub(super) fn begin(&mut self) -> Result<()> {
        let [request, response] =
            self.expected.map(|expected| direction { expected, ..direction::default() });
        let state = wire_state { request, response };
        // SAFETY: the structure is plain data without padding, as is asserted above.
        let octets = unsafe {
            std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of_val(&state))
        };
        self.map(".bss")
            .update(&0_u32.to_ne_bytes(), octets, MapFlags::ANY)
            .map_err(failed("set up the wire"))
    }

    /// What passed: requests, responses.
    pub(super) fn passed(&mut self) -> Result<[Passed; 2]> {
        let octets = self
            .map(".bss")
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("read the wire"))?
            .unwrap_or_default();
        Ok([offset_of!(wire_state, request), offset_of!(wire_state, response)].map(|at| {
            let counter = |offset: usize| number(&octets[at + offset..]);
            Passed {
                count: counter(offset_of!(direction, count)),
                wrong: counter(offset_of!(direction, wrong)),
                foreign: counter(offset_of!(direction, foreign)),
            }
        }))
    }

    /// When the requests passed that were counted, and the responses; nanoseconds of
    /// CLOCK_MONOTONIC.
    pub(super) fn stamps(&mut self) -> Result<[Vec<u64>; 2]> {
        let [requests, responses] = self.passed()?;
        Ok([self.read("requests", requests.count)?, self.read("responses", responses.count)?])
    }

    fn read(&mut self, map: &str, count: u64) -> Result<Vec<u64>> {
        let map = self.map(map);
        let stamp = |index: u64| {
            let found = map.lookup(&(index as u32).to_ne_bytes(), MapFlags::ANY);
            let octets = found.map_err(failed("read the stamps of the wire"))?;
            Ok(number(&octets.unwrap_or_default()))
        };
        (0..count).map(stamp).collect()
    }

    fn program(&mut self, name: &str) -> ProgramMut<'_> {
        self.object.progs_mut().find(|program| program.name() == name).expect("the object holds it")
    }

    fn map(&mut self, name: &str) -> MapMut<'_> {
        let named = |map: &MapMut<'_>| map.name().to_string_lossy().ends_with(name);
        self.object.maps_mut().find(named).expect("the object holds it")
    }

    /// Puts a program on an interface, in native mode.
    fn attach(&mut self, name: &str, handle: &Handle, interface: &str) -> Result<Link> {
        let index = handle.index(interface)? as i32;
        let link = handle.namespace().run(|| {
            let attached = self.program(name).attach_xdp(index);
            attached.map_err(failed(format!("put an XDP program on {interface}")))
        })??;
        // Where nothing is said of the mode, the kernel may choose the generic one.
        if handle.link(interface)?.xdp.iter().any(|xdp| xdp.mode == XdpMode::Native) {
            Ok(link)
        } else {
            Err(Error::Invalid(format!("{interface} runs no XDP in native mode")))
        }
    }

    /// Says where a redirect leads.
    fn lead(&mut self, map: &str, handle: &Handle, interface: &str) -> Result<()> {
        let index = handle.index(interface)?;
        // The index is looked up in the namespace of the thread that writes it.
        handle.namespace().run(|| {
            self.map(map)
                .update(&0_u32.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed(format!("lead a redirect to {interface}")))
        })?
    }
}

fn number(octets: &[u8]) -> u64 {
    octets.first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets))
}
