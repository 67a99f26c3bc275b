//! The programs of `bpf/bench.bpf.c`: source, sink, and the redirects that are the baseline of FRER.

use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut};
use onbeat_bpf::PlainData;
use onbeat_netdev::Handle;
use onbeat_realtime::interrupt::Interruption;

use super::chain::Interface;
use super::frames;
use crate::programs::{self, failed, number};
use crate::{Error, Result};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("bench.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "bench.skel.rs");

use skeleton::types::{bss, source_state};

onbeat_bpf::bpf_plain!(unsafe: source_state);

// `state` is the whole section and has no padding: it is written and read as octets.
const _: () = {
    assert!(offset_of!(bss, state) == 0 && size_of::<bss>() == size_of::<source_state>());
    assert!(size_of::<source_state>() == 40);
};

/// Length in octets of the headers that `replay` writes: Ethernet, IPv4 and UDP.
pub(super) const REPLAYED: usize = 42;

/// The loaded programs.
#[derive(Debug)]
pub(super) struct Programs(programs::Programs);

impl Programs {
    pub(super) fn load() -> Result<Self> {
        programs::Programs::load(OBJECT, "the bench").map(Self)
    }

    pub(super) fn program(&self, name: &str) -> ProgramMut<'_> {
        self.0.program(name)
    }

    /// Attaches a program to an interface, in native mode.
    pub(super) fn attach(
        &self,
        name: &str,
        handle: &Handle,
        interface: &Interface,
    ) -> Result<Link> {
        self.0.attach(name, handle, &interface.name)
    }

    /// Replaces the program of `link` by another one.
    pub(super) fn replace_program(&self, link: &mut Link, name: &str) -> Result<()> {
        link.update_prog(&self.program(name)).map_err(failed(format!("replace by program {name}")))
    }

    /// Sets the target of a redirect.
    pub(super) fn set_target(
        &self,
        map: &str,
        key: u32,
        handle: &Handle,
        interface: &Interface,
    ) -> Result<()> {
        self.0.set_target(map, key, handle, &interface.name)
    }

    /// Redirects all frames that enter by an interface to a socket, if the program `to_socket` is
    /// attached to the interface. For one namespace: interfaces are identified by their index.
    pub(super) fn redirect_to_socket(
        &self,
        interface: &Interface,
        socket: BorrowedFd<'_>,
    ) -> Result<()> {
        let (key, value) = (interface.index.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        self.0
            .map("to_sockets")
            .update(&key, &value, MapFlags::ANY)
            .map_err(failed(format!("redirect {} to a socket", interface.name)))
    }

    /// Configures the source to send frames of these streams by `interface`, and resets its
    /// counter.
    pub(super) fn configure_source(
        &self,
        interface: &Interface,
        streams: Range<u32>,
    ) -> Result<()> {
        let state = source_state {
            interface: interface.index,
            first: streams.start,
            next: streams.start,
            end: streams.end,
            vid: frames::VLAN,
            ethertype: frames::ETHERTYPE,
            destination: frames::destination(0).0,
            source: frames::SOURCE.0,
            ..Default::default()
        };
        self.0.set_state(state.octets())
    }

    /// Frames sent since the source was configured.
    pub(super) fn sent(&self) -> Result<u64> {
        Ok(self.0.state::<source_state>()?.sent)
    }

    /// Frames that sinks have received in total.
    pub(super) fn received(&self) -> Result<u64> {
        let values = self
            .0
            .map("received")
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("read the counter of the sink"))?
            .unwrap_or_default();
        Ok(values.iter().map(|octets| number(octets)).sum())
    }

    /// Configures `replay` to send frames with these headers by `interface`.
    pub(super) fn configure_replay(
        &self,
        interface: &Interface,
        headers: &[u8; REPLAYED],
    ) -> Result<()> {
        let mut octets = interface.index.to_ne_bytes().to_vec();
        octets.extend(headers);
        octets.extend([0; 2]);
        self.0
            .map("replayed")
            .update(&0_u32.to_ne_bytes(), &octets, MapFlags::ANY)
            .map_err(failed("configure the headers to replay"))
    }

    /// Returns `program`, a source of the bench, for calls by any thread.
    pub(super) fn source(&self, program: &str) -> Result<FrameProgram> {
        let program = self.program(program).as_fd().try_clone_to_owned();
        let program = program.map_err(|error| Error::io("duplicate a descriptor", error))?;
        Ok(FrameProgram(program))
    }

    /// As [`FrameProgram::send`], by `program`.
    pub(super) fn send(
        &self,
        program: &str,
        octets: &[u8],
        frames: u32,
        batch: u32,
    ) -> Result<f64> {
        self.source(program)?.send(octets, frames, batch)
    }
}

/// A program that sends frames.
#[derive(Debug)]
pub(super) struct FrameProgram(OwnedFd);

impl FrameProgram {
    /// Sends `frames` frames with these octets in batches of `batch`, on the calling thread's CPU and in its
    /// namespace; returns nanoseconds per frame.
    pub(super) fn send(&self, octets: &[u8], frames: u32, batch: u32) -> Result<f64> {
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            data_in: octets.as_ptr().cast(),
            data_size_in: octets.len() as u32,
            repeat: frames as i32,
            flags: sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..Default::default()
        };
        // SAFETY: the program's descriptor is open; the frame and the options outlive the call.
        let code = unsafe { sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &raw mut options) };
        match -code {
            // The kernel's own clock excludes the overhead of the call, milliseconds in which it waits
            // for other tasks; its mean is truncated to whole nanoseconds.
            0 => Ok(f64::from(options.duration) + 0.5),
            libc::EINTR => Err(Interruption.into()),
            code => Err(Error::io(
                "send frames by BPF_PROG_TEST_RUN (requires Linux 5.18)",
                io::Error::from_raw_os_error(code),
            )),
        }
    }
}
