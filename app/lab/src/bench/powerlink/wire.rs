//! The wire of a row: `bpf/powerlink.bpf.c`, which stamps passing frames.

use std::mem::{offset_of, size_of};

use libbpf_rs::{Link, MapCore, MapFlags};
use onbeat_bpf::{PlainData, UnloadedObject};
use onbeat_netdev::Handle;

use super::trace::WireEvent;
use crate::Result;
use crate::programs::{Programs, failed, number};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("powerlink.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "powerlink.skel.rs");

use skeleton::types::{bss, wire_state};

onbeat_bpf::bpf_plain!(unsafe: wire_state);

// `state` is the whole section: it is written and read as octets.
const _: () = assert!(offset_of!(bss, state) == 0 && size_of::<bss>() == size_of::<wire_state>());

/// The loaded programs of a row.
#[derive(Debug)]
pub(super) struct Wire {
    programs: Programs,
    /// Capacity of the event table.
    room: u32,
    links: Vec<Link>,
}

/// A recording of events.
#[derive(Debug)]
pub(super) struct WireRecord {
    pub(super) events: Vec<WireEvent>,
    /// Events that did not fit in the table.
    pub(super) lost: u64,
    /// Foreign frames.
    pub(super) foreign: u64,
}

impl Wire {
    /// Starts a wire between two interfaces of a namespace, with room for this number of events.
    pub(super) fn start(handle: &Handle, [to_mn, to_cn]: [&str; 2], room: u32) -> Result<Self> {
        let size = |object: &mut UnloadedObject| object.set_entries("events", room);
        let programs = Programs::load_sized(OBJECT, "the wire", size)?;
        programs.set_target("to_mn", 0, handle, to_mn)?;
        programs.set_target("to_cn", 0, handle, to_cn)?;
        let links = [("from_mn", to_mn), ("from_cn", to_cn)]
            .map(|(program, interface)| programs.attach(program, handle, interface));
        let links = links.into_iter().collect::<Result<_>>()?;
        Ok(Self { programs, room, links })
    }

    /// Makes a program reflect polls on an interface.
    pub(super) fn reflect(&mut self, handle: &Handle, interface: &str) -> Result<()> {
        self.links.push(self.programs.attach("reflect", handle, interface)?);
        Ok(())
    }

    /// Starts recording.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.programs.set_state(wire_state { recording: 1, ..wire_state::default() }.octets())
    }

    /// Stops recording; returns the recorded events.
    pub(super) fn end(&mut self) -> Result<WireRecord> {
        let wire_state { next, foreign, .. } = self.programs.state()?;
        // Frames that pass meanwhile still advance the counters; the next start resets them.
        self.programs.set_state(wire_state::default().octets())?;
        let kept = next.min(self.room.into());
        let map = self.programs.map("events");
        let mut events = Vec::with_capacity(kept as usize);
        for index in 0..kept as u32 {
            let found = map.lookup(&index.to_ne_bytes(), MapFlags::ANY);
            let octets = found.map_err(failed("read the events of the wire"))?;
            events.extend(WireEvent::of(number(&octets.unwrap_or_default())));
        }
        Ok(WireRecord { events, lost: next - kept, foreign })
    }
}
