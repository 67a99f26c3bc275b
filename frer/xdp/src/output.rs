//! Frames that left by each port, counted where the kernel passes redirected frames to drivers.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_bpf::tracepoints::Tracepoints;
use onbeat_bpf::{Link, MappedArray, PlainData, bpf_object};

use crate::abi::constants as c;
use crate::abi::{frer_output, frer_output_port};
use crate::error::{Context, Error, Result};
use crate::pin::PinDirectory;
use crate::programs::Maps;

/// The place in the kernel of a counting program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Tracepoint,
    Function,
}

/// A program, and the name of its tracepoint or function, which is also that of its pin.
#[derive(Debug)]
struct CountingProgram {
    program: &'static str,
    hook: Hook,
    name: &'static str,
}

const fn of(program: &'static str, hook: Hook, name: &'static str) -> CountingProgram {
    CountingProgram { program, hook, name }
}

/// For frames of programs in native mode.
const NATIVE: [CountingProgram; 1] = [of("frer_sent_native", Hook::Tracepoint, "xdp_devmap_xmit")];

/// For frames of programs in generic mode.
const GENERIC: [CountingProgram; 2] = [
    of("frer_sent_generic", Hook::Function, "generic_xdp_tx"),
    of("frer_refused_generic", Hook::Tracepoint, "xdp_exception"),
];

/// Returns whether a node pins a link of this name, other than those of ports.
pub(crate) fn is_hook(name: &str) -> bool {
    NATIVE.iter().chain(&GENERIC).any(|program| program.name == name)
}

/// The counters of a node's output.
#[derive(Debug)]
pub(crate) struct OutputCounters {
    ports: MappedArray<frer_output_port>,
    outputs: MapHandle,
    /// Why frames of native or generic programs are not counted.
    native: Option<String>,
    generic: Option<String>,
    /// Keep the programs attached if no pin does.
    _links: Vec<Link>,
}

impl OutputCounters {
    /// Adopts pinned programs, or loads and attaches them.
    ///
    /// # Errors
    /// The reason why no frame can be counted.
    pub(crate) fn open(
        maps: &mut Maps,
        directory: Option<&PinDirectory>,
    ) -> std::result::Result<Self, String> {
        let mut links = Vec::new();
        let mut gap = |programs| attach(maps, directory, programs, &mut links).err();
        let (native, generic) = (gap(&NATIVE), gap(&GENERIC));
        if let (Some(native), Some(_)) = (&native, &generic) {
            return Err(native.clone());
        }
        let handle = |name| maps.handle(name).map_err(|error| error.to_string());
        let ports =
            MappedArray::new(&handle("output_ports")?).map_err(|error| error.to_string())?;
        let outputs = handle("outputs")?;
        Ok(Self { ports, outputs, native, generic, _links: links })
    }

    /// Counts frames that leave by an interface of this network namespace as those of a port. Its former interface
    /// counts as well until [`OutputCounters::release_others`]; frames may still wait in its queue.
    pub(crate) fn add_interface(&self, slot: u8, ifindex: u32) {
        let new = line(slot, ifindex);
        let mut free = None;
        for number in 0..c::OUTPUT_TRIES {
            let line = (ifindex + number) % c::OUTPUT_PORTS;
            let there = self.ports.get(line);
            if (there.namespace, there.ifindex) == (new.namespace, new.ifindex) {
                // The interface of another port until now: with a second line, the first one would be found.
                self.ports.set(line, &new);
                return;
            }
            if there.namespace == 0 && free.is_none() {
                free = Some(line);
            }
        }
        // At most 64 of 1,024 lines are in use.
        if let Some(line) = free {
            self.ports.set(line, &new);
        }
    }

    /// Returns whether frames of another interface count as those of a port.
    pub(crate) fn has_others(&self, slot: u8, ifindex: u32) -> bool {
        let kept = line(slot, ifindex);
        self.lines_of(slot).any(|(_, there)| there.octets() != kept.octets())
    }

    /// Stops counting frames of interfaces of a port other than this one.
    pub(crate) fn release_others(&self, slot: u8, ifindex: u32) {
        self.release(slot, Some(&line(slot, ifindex)));
    }

    /// Stops counting for a port. Programs in progress may still count a frame.
    pub(crate) fn release_port(&self, slot: u8) {
        self.release(slot, None);
    }

    /// Resets the counters of a port for which no program counts.
    pub(crate) fn reset_port(&self, slot: u8) -> Result<()> {
        let cpus = libbpf_rs::num_possible_cpus().context(|| "read the CPUs".to_string())?;
        let zero = vec![frer_output::default().octets().to_vec(); cpus];
        self.outputs
            .update_percpu(u32::from(slot).octets(), &zero, MapFlags::ANY)
            .context(|| "reset the output of a port".to_string())
    }

    /// Releases the lines of a port, but one with this content.
    fn release(&self, slot: u8, but: Option<&frer_output_port>) {
        for (line, there) in self.lines_of(slot) {
            if but.is_none_or(|but| but.octets() != there.octets()) {
                self.ports.set(line, &frer_output_port { namespace: 0, ..there });
            }
        }
    }

    /// Yields the lines of a port.
    fn lines_of(&self, slot: u8) -> impl Iterator<Item = (u32, frer_output_port)> + '_ {
        let lines = (0..c::OUTPUT_PORTS).map(|line| (line, self.ports.get(line)));
        lines.filter(move |(_, there)| there.namespace != 0 && there.port == u32::from(slot))
    }

    /// Returns the output of a port.
    pub(crate) fn read(&self, slot: u8) -> Result<frer_output> {
        let values = self
            .outputs
            .lookup_percpu(u32::from(slot).octets(), MapFlags::ANY)
            .context(|| "read the output of a port".to_string())?;
        let mut sum = frer_output::default();
        for value in values.unwrap_or_default() {
            let output = frer_output::from_start(&value).unwrap_or_default();
            // A frame may be sent and refused on two CPUs.
            sum.sent = sum.sent.wrapping_add(output.sent);
            sum.refused = sum.refused.wrapping_add(output.refused);
        }
        Ok(sum)
    }

    /// Returns why the output of ports with programs in native or generic mode is not counted.
    pub(crate) fn gap(&self, generic: bool) -> Option<&str> {
        if generic { self.generic.as_deref() } else { self.native.as_deref() }
    }
}

/// Returns the line of a port whose interface is in the network namespace of this thread.
fn line(slot: u8, ifindex: u32) -> frer_output_port {
    // Without /proc nothing is counted, which shows as frames that are lost.
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino());
    let (namespace, port) = (namespace as u32, slot.into());
    frer_output_port { namespace, ifindex, port, ..Default::default() }
}

/// Attaches these programs, unless they are pinned.
fn attach(
    maps: &mut Maps,
    directory: Option<&PinDirectory>,
    programs: &'static [CountingProgram],
    links: &mut Vec<Link>,
) -> std::result::Result<(), String> {
    let pinned = directory.map_or(Ok(Vec::new()), PinDirectory::hooks);
    let pinned = pinned.map_err(|error| error.to_string())?;
    let is_missing = |program: &&CountingProgram| !pinned.iter().any(|name| name == program.name);
    // A process that was killed in between has pinned some of them.
    if !programs.iter().any(|program| is_missing(&program)) {
        return Ok(());
    }
    require(programs)?;
    let others = NATIVE.iter().chain(&GENERIC).map(|program| program.program);
    let others = others.filter(|name| programs.iter().all(|program| program.program != *name));
    // The caller reports the reason.
    let print = libbpf_rs::set_print(None);
    let object = maps.load(bpf_object!("output.bpf.o"), "programs that count output", |object| {
        others.for_each(|other| object.skip(other));
    });
    libbpf_rs::set_print(print);
    let names: Vec<_> = programs.iter().map(|program| program.name).collect();
    let cannot = |error: String| format!("cannot trace {}: {error}", names.join(" and "));
    let object = object.map_err(|error| match error {
        Error::Bpf(onbeat_bpf::Error::Kernel { source, .. }) => cannot(source.to_string()),
        error => cannot(error.to_string()),
    })?;
    for program in programs.iter().filter(is_missing) {
        let loaded = object.program(program.program);
        let link = match program.hook {
            Hook::Tracepoint => Link::tracepoint(loaded.as_fd()),
            Hook::Function => Link::function_start(loaded.as_fd()),
        };
        let mut link = link.map_err(|error| cannot(error.to_string()))?;
        if let Some(directory) = directory {
            link.pin(&directory.link_path(program.name))
                .map_err(|error| cannot(error.to_string()))?;
        }
        links.push(link);
    }
    Ok(())
}

/// Requires the tracepoints and functions of these programs.
fn require(programs: &[CountingProgram]) -> std::result::Result<(), String> {
    /// Kernels that have them.
    const SINCE: &str = "Linux 6.1";
    let of = |hook| programs.iter().filter(move |program| program.hook == hook);
    let tracepoints: Vec<_> = of(Hook::Tracepoint).map(|program| (program.name, SINCE)).collect();
    let known = Tracepoints::require(&tracepoints).map_err(|error| error.to_string())?;
    match of(Hook::Function).find(|program| !known.has_function(program.name)) {
        Some(lacking) => {
            Err(format!("this kernel has no function {}; requires {SINCE}", lacking.name))
        }
        None => Ok(()),
    }
}
