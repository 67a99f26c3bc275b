//! Interface of a data plane, and its configuration and state as plain data.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::reading::StreamReading;
use crate::spec::Stream;

/// How a program runs on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the network stack, where the driver cannot.
    Generic,
}

impl Mode {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }
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

/// How a data plane receives a port's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// A program in the kernel.
    Xdp(Mode),
    /// Packet sockets.
    Packet,
    /// AF_XDP sockets, and a program in front of them.
    Xsk {
        /// How that program runs.
        mode: Mode,
        /// The driver receives into the memory of the sockets.
        zero_copy: bool,
    },
}

impl Attachment {
    /// As logs have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp(mode) => mode.name(),
            Self::Packet => "packet",
            Self::Xsk { mode: Mode::Generic, .. } => "xsk, copies, generic",
            Self::Xsk { zero_copy: true, .. } => "xsk, zero copy",
            Self::Xsk { zero_copy: false, .. } => "xsk, copies",
        }
    }
}

/// A port that is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPort {
    /// Its name.
    pub name: String,
    /// The index of its interface when it was attached.
    pub ifindex: u32,
    /// How its frames are received.
    pub attachment: Attachment,
}

/// Memory of a node's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Streams that there is room for.
    pub streams: u32,
    /// Octets of all tables, as the kernel tells them.
    pub octets: u64,
}

impl Memory {
    /// Octets for each stream that there is room for.
    pub fn octets_per_stream(&self) -> u64 {
        self.octets / u64::from(self.streams.max(1))
    }
}

/// Result of one [`DataPlane::apply`] or [`DataPlane::change`].
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

/// A node's data plane: ports, streams, counters. `E` is the error of the program that holds it.
pub trait DataPlane<E>: fmt::Debug {
    /// Whether it goes on without the daemon.
    fn is_in_kernel(&self) -> bool;

    /// Attaches a port by a program, in place of its former attachment.
    ///
    /// # Errors
    /// A foreign program, unless `replace`; a driver that does not support the port's mode.
    fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<(), E>;

    /// As [`DataPlane::attach`], by packet sockets where the data plane has them.
    ///
    /// # Errors
    /// A foreign program.
    fn attach_packet(&mut self, port: &PortSpec) -> Result<(), E> {
        self.attach(port, false)
    }

    /// Detaches a port, attached by this process or an earlier one.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn detach(&mut self, port: &str) -> Result<(), E>;

    /// Ports that are attached.
    fn ports(&self) -> Vec<AttachedPort>;

    /// Names of ports that an earlier daemon or configuration attached, those of now among them.
    ///
    /// # Errors
    /// The pin directory cannot be read.
    fn known_ports(&self) -> Result<Vec<String>, E>;

    /// Whether a port's program, where it has one, runs where it was attached.
    fn runs(&self, port: &str) -> bool;

    /// Whether pins outlive this process's mount namespace; `None` where nothing is pinned, or that
    /// cannot be read.
    fn pins_last(&self) -> Option<bool> {
        None
    }

    /// Notes that a port's interface was turned on or off. Sockets see that by themselves.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn set_up(&mut self, _port: &str, _up: bool) -> Result<(), E> {
        Ok(())
    }

    /// Makes `streams` the node's, without losing a frame of any that stays. Port number `n` of the
    /// streams is `names[n]`.
    ///
    /// # Errors
    /// What this data plane does not support, or has no room for; nothing has changed then.
    fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes, E>;

    /// Removes the streams named in `gone`, and adds or changes `streams`, all or none, in a time that
    /// depends on these alone.
    ///
    /// # Errors
    /// As [`DataPlane::apply`].
    fn change(&mut self, names: &[String], gone: &[&str], streams: &[Stream])
    -> Result<Changes, E>;

    /// A stream's counters; `None` where there is no such stream.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn read_stream(&self, name: &str) -> Result<Option<StreamReading>, E>;

    /// The counters of some streams, in their order.
    ///
    /// # Errors
    /// As [`DataPlane::read_stream`].
    fn read_streams(&self, names: &[Rc<str>]) -> Result<Vec<Option<StreamReading>>, E> {
        names.iter().map(|name| self.read_stream(name)).collect()
    }

    /// Memory of the tables for streams; `None` where each stream allocates its own.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn memory(&self) -> Result<Option<Memory>, E> {
        Ok(None)
    }

    /// Frames of no stream that came in at a port.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn unmatched(&self, port: &str) -> Result<u64, E>;

    /// Resets a stream's functions; whether there is such a stream.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn reset(&self, stream: &str) -> Result<bool, E>;

    /// Resets recovery functions whose time ran out without a packet.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn expire(&self) -> Result<(), E>;
}
