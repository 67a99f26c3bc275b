//! The wire of a rig: `bpf/port.bpf.c`, which stamps passing frames.

use std::mem::offset_of;

use libbpf_rs::{Link, MapCore, MapFlags};
use onbeat_bpf::{PlainData, UnloadedObject};
use onbeat_netdev::Handle;

use super::frames::{FRAME_LEN, Frame};
use crate::Result;
use crate::programs::{Programs, failed, number};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("port.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "port.skel.rs");

use skeleton::types::{bss, direction, wire_state};

onbeat_bpf::bpf_plain!(unsafe: wire_state);

// `state` is the whole section and has no padding: it is written and read as octets.
const _: () = {
    assert!(offset_of!(bss, state) == 0 && size_of::<bss>() == size_of::<wire_state>());
    assert!(size_of::<direction>() == 3 * 8 + FRAME_LEN + 44);
    assert!(size_of::<wire_state>() == 2 * size_of::<direction>());
};

/// Frames of one direction since the round started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WireCounters {
    /// Valid frames.
    pub(super) count: u64,
    /// Invalid frames of the protocol.
    pub(super) wrong: u64,
    /// Other frames.
    pub(super) foreign: u64,
}

/// The loaded programs of one rig.
#[derive(Debug)]
pub(super) struct Wire {
    programs: Programs,
    expected: [Frame; 2],
    links: Vec<Link>,
}

impl Wire {
    /// Starts a wire with room for this number of stamps per direction, between two interfaces of a
    /// namespace.
    pub(super) fn start(
        handle: &Handle,
        [to_mn, to_cn]: [&str; 2],
        request: Frame,
        response: Frame,
        stamps: u32,
    ) -> Result<Self> {
        let size = |object: &mut UnloadedObject| {
            object.set_entries("requests", stamps)?;
            object.set_entries("responses", stamps)
        };
        let programs = Programs::load_sized(OBJECT, "the wire", size)?;
        programs.set_target("to_mn", 0, handle, to_mn)?;
        programs.set_target("to_cn", 0, handle, to_cn)?;
        let links = [("request", to_mn), ("response", to_cn)]
            .map(|(program, interface)| programs.attach(program, handle, interface));
        let links = links.into_iter().collect::<Result<_>>()?;
        let mut wire = Self { programs, expected: [request, response], links };
        wire.begin()?;
        Ok(wire)
    }

    /// Reflects every frame in the driver of this interface.
    pub(super) fn reflect(&mut self, handle: &Handle, interface: &str) -> Result<()> {
        let link = self.programs.attach("reflect", handle, interface)?;
        self.links.push(link);
        Ok(())
    }

    /// Resets the counters. Nothing is on the wire meanwhile.
    pub(super) fn begin(&mut self) -> Result<()> {
        let [request, response] =
            self.expected.map(|expected| direction { expected, ..direction::default() });
        let state = wire_state { request, response };
        self.programs.set_state(state.octets())
    }

    /// Counters of requests and of responses.
    pub(super) fn passed(&mut self) -> Result<[WireCounters; 2]> {
        let wire_state { request, response } = self.programs.state()?;
        Ok([request, response].map(|direction { count, wrong, foreign, .. }| WireCounters {
            count,
            wrong,
            foreign,
        }))
    }

    /// Times of the counted requests and responses; nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn stamps(&mut self) -> Result<[Vec<u64>; 2]> {
        let [requests, responses] = self.passed()?;
        Ok([self.read("requests", requests.count)?, self.read("responses", responses.count)?])
    }

    fn read(&mut self, map: &str, count: u64) -> Result<Vec<u64>> {
        let map = self.programs.map(map);
        let stamp = |index: u64| {
            let found = map.lookup(&(index as u32).to_ne_bytes(), MapFlags::ANY);
            let octets = found.map_err(failed("read the stamps of the wire"))?;
            Ok(number(&octets.unwrap_or_default()))
        };
        (0..count).map(stamp).collect()
    }
}
