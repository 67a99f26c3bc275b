//! A clock that ticks on every CPU, like that of the kernel patched in the paper.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Link, MapCore, ProgramMut, RingBuffer, RingBufferBuilder};
use onbeat_bpf::PlainData;

use crate::abi::irq_tick;
use crate::error::{Error, Result};
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::{TICK_NS, Tick};

/// Octets of the buffer for ticks: one second of 160 CPUs.
pub(super) const BUFFER: u32 = 1 << 20;

/// The clocks, and their recorded ticks.
#[derive(Debug)]
pub struct Ticks {
    buffer: RingBuffer<'static>,
    seen: Rc<RefCell<Vec<Tick>>>,
    _links: Vec<Link>,
}

impl Ticks {
    pub(super) fn start(program: &ProgramMut<'_>, map: &impl MapCore) -> Result<Self> {
        let links = online()?
            .into_iter()
            .map(|cpu| {
                let refused =
                    |source| Error::kernel(format!("start the tick clock of CPU {cpu}"), source);
                let clock = clock(cpu).map_err(|error| refused(error.into()))?;
                let link = program.attach_perf_event(clock.as_raw_fd()).map_err(refused)?;
                // The link closes it.
                std::mem::forget(clock);
                Ok(link)
            })
            .collect::<Result<_>>()?;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&seen);
        let refused = |source| Error::kernel("open the buffer for ticks", source);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |octets| {
                into.borrow_mut().extend(irq_tick::from_octets(octets).map(Tick::from));
                0
            })
            .map_err(refused)?;
        Ok(Self { buffer: builder.build().map_err(refused)?, seen, _links: links })
    }

    /// Returns the ticks since the last call.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn take(&mut self) -> Result<Vec<Tick>> {
        self.buffer
            .consume()
            .map_err(|source| Error::kernel("read the buffer for ticks", source))?;
        Ok(self.seen.take())
    }
}

impl From<irq_tick> for Tick {
    fn from(tick: irq_tick) -> Self {
        let process = Process { pid: tick.running.pid, start_ticks: tick.running.start_ticks };
        Self {
            cpu: tick.cpu,
            running: (process.pid != 0).then_some(process),
            packets: tick.packets,
            bottom_half_ns: tick.bottom_half_ns,
        }
    }
}

fn online() -> Result<Vec<u32>> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(FILE)
        .map_err(|error| Error::kernel(format!("read {FILE}"), error.into()))?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}

/// A software event of the kernel, which requires no hardware counter.
fn clock(cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = sys::perf_event_attr {
        type_: sys::PERF_TYPE_SOFTWARE,
        size: size_of::<sys::perf_event_attr>() as u32,
        config: sys::PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = TICK_NS;
    let (every_process, alone, flags) = (-1, -1, sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are as long as they say, and outlive the call.
    let fd = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_perf_event_open,
            &raw const attributes,
            every_process,
            cpu as i32,
            alone,
            flags as u64,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
