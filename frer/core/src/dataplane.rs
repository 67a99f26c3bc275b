//! Interface of a data plane, and its configuration and state as plain data.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::paths::PathsReading;
use crate::prp;
use crate::reading::{PortReading, StreamReading};
use crate::spec::Stream;
use crate::wildcard::{Wildcard, WildcardReading};

/// Streams that are read at a time: a data plane in user space forwards no frames meanwhile.
pub const READ_AT_ONCE: usize = 64;

/// The XDP mode of a program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the network stack, for drivers without native XDP.
    Generic,
}

impl Mode {
    /// Returns the name used in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }
}

/// The processing of frames that an interface receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveQueues {
    /// Several CPUs may process frames of one queue at a time.
    Concurrent,
    /// The driver processes the frames of each queue one at a time, and numbers the queues of the interface uniquely.
    Serial,
    /// The same, with one queue at present.
    Single,
}

/// A port to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// A name that is unique within the node.
    pub name: String,
    /// The name of its interface, for messages.
    pub interface: String,
    /// The index of the interface.
    pub ifindex: u32,
    /// The requested XDP mode.
    pub mode: Mode,
    /// The receive queues of the interface.
    pub queues: ReceiveQueues,
    /// XDP programs that the interface runs at present.
    pub running: Vec<RunningProgram>,
}

/// An XDP program that runs on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningProgram {
    /// The program id.
    pub program: u32,
    /// The XDP mode; `None`: offloaded to the device.
    pub mode: Option<Mode>,
}

/// The method by which a data plane receives frames of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// A program in the kernel.
    Xdp(Mode),
    /// Packet sockets.
    Packet,
    /// AF_XDP sockets, with a program that selects their frames.
    Xsk {
        /// The XDP mode of that program.
        mode: Mode,
        /// Whether the driver receives into the memory of the sockets.
        zero_copy: bool,
    },
}

impl Attachment {
    /// Returns the name used in log messages.
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

/// An attached port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPort {
    /// Its name.
    pub name: String,
    /// The index of its interface at the time of attachment.
    pub ifindex: u32,
    /// The receive method.
    pub attachment: Attachment,
}

/// Memory of the tables of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Capacity, in streams.
    pub streams: u32,
    /// Octets of all tables, as reported by the kernel.
    pub octets: u64,
}

impl Memory {
    /// Returns the octets per stream of capacity.
    pub fn octets_per_stream(&self) -> u64 {
        self.octets / u64::from(self.streams.max(1))
    }
}

/// Result of one [`DataPlane::apply`] or [`DataPlane::change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Added streams.
    pub added: usize,
    /// Changed streams.
    pub changed: usize,
    /// Removed streams.
    pub removed: usize,
    /// Unchanged streams.
    pub kept: usize,
}

/// The data plane of a node: ports, streams, counters. `E` is the error type of the calling program.
pub trait DataPlane<E>: fmt::Debug {
    /// Returns whether forwarding continues without the daemon.
    fn is_in_kernel(&self) -> bool;

    /// Attaches a port by a program and replaces its former attachment.
    ///
    /// # Errors
    /// A program of another owner is attached and `replace` is false; the driver does not support the
    /// requested mode.
    fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<(), E>;

    /// Attaches a port by packet sockets if the data plane supports them, otherwise like
    /// [`DataPlane::attach`].
    ///
    /// # Errors
    /// A program of another owner is attached.
    fn attach_packet(&mut self, port: &PortSpec) -> Result<(), E> {
        self.attach(port, false)
    }

    /// Reserves a port whose interface is missing: streams can have it, and frames to it are lost until it is attached.
    /// Changes nothing if the port is attached or reserved.
    ///
    /// # Errors
    /// There are too many ports; the kernel refuses.
    fn reserve(&mut self, port: &str) -> Result<(), E>;

    /// Detaches a port that this or an earlier process attached, or releases a reserved one.
    ///
    /// # Errors
    /// The kernel refuses.
    fn detach(&mut self, port: &str) -> Result<(), E>;

    /// Returns the attached ports.
    fn ports(&self) -> Vec<AttachedPort>;

    /// Returns the names of all ports attached or reserved by this or an earlier daemon or configuration.
    ///
    /// # Errors
    /// The pin directory cannot be read.
    fn known_ports(&self) -> Result<Vec<String>, E>;

    /// Returns whether the program of a port, if it has one, runs on the interface it was attached to.
    fn runs(&self, port: &str) -> bool;

    /// Returns whether pins outlive the mount namespace of this process; `None` if nothing is pinned or that
    /// cannot be read.
    fn pins_last(&self) -> Option<bool> {
        None
    }

    /// Records that the interface of a port was set up or down. Sockets observe that themselves.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_up(&mut self, _port: &str, _up: bool) -> Result<(), E> {
        Ok(())
    }

    /// Follows the receive queues of an attached port, whose number has changed. Packet sockets do not depend on it.
    ///
    /// # Errors
    /// The kernel refuses.
    fn follow_queues(&mut self, _port: &PortSpec) -> Result<(), E> {
        Ok(())
    }

    /// Replaces the streams of the node by `streams` without losing a frame of any stream that stays. Port
    /// number `n` of the streams is `names[n]`.
    ///
    /// # Errors
    /// This data plane does not support a stream, or has no room for it; nothing has changed.
    fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes, E>;

    /// Removes the streams named in `gone` and adds or changes `streams`, all or none. The time depends on
    /// the number of these streams only.
    ///
    /// # Errors
    /// Those of [`DataPlane::apply`].
    fn change(&mut self, names: &[String], gone: &[&str], streams: &[Stream])
    -> Result<Changes, E>;

    /// Sets the link redundancy entity of the node; `None`: it has none. Port number `n` of the entity is `names[n]`.
    ///
    /// # Errors
    /// A port is neither attached nor reserved; this data plane does not support redundancy entities.
    fn set_lre(&mut self, names: &[String], lre: Option<&prp::Parameters>) -> Result<(), E>;

    /// Checks whether an entity, or all wildcards together, can have a NodesTable of this size.
    ///
    /// # Errors
    /// The present table is smaller, and cannot grow.
    fn check_max_nodes(&self, _max_nodes: u32) -> Result<(), E> {
        Ok(())
    }

    /// Returns the tables and counters of the link redundancy entity.
    ///
    /// # Errors
    /// The kernel refuses.
    fn read_lre(&self) -> Result<Option<prp::Reading>, E> {
        Ok(None)
    }

    /// Sets the wildcards of the node, which has no link redundancy entity then. Port number `n` is `names[n]`.
    ///
    /// # Errors
    /// A port is neither attached nor reserved; there are more than [`crate::wildcard::MAX_IN_KERNEL`] of them in the kernel.
    fn set_wildcards(&mut self, names: &[String], wildcards: &[Wildcard]) -> Result<(), E>;

    /// Returns the state of the wildcards, by precedence.
    ///
    /// # Errors
    /// The kernel refuses.
    fn read_wildcards(&self) -> Result<Vec<WildcardReading>, E>;

    /// Sends the supervision frames that are due, and removes expired nodes. Returns the time until the next call, in
    /// milliseconds; `None`: the node has neither a link redundancy entity nor wildcards.
    ///
    /// # Errors
    /// The kernel refuses.
    fn supervise(&self) -> Result<Option<u32>, E> {
        Ok(None)
    }

    /// Blocks the host port of a RedBox until others have sent hellos: its link was down.
    ///
    /// # Errors
    /// The kernel refuses.
    fn listen(&self) -> Result<(), E> {
        Ok(())
    }

    /// Informs other RedBoxes that this one ends.
    ///
    /// # Errors
    /// The kernel refuses.
    fn leave(&self) -> Result<(), E> {
        Ok(())
    }

    /// Returns the counters of a stream; `None`: no such stream.
    ///
    /// # Errors
    /// The kernel refuses.
    fn read_stream(&self, name: &str) -> Result<Option<StreamReading>, E>;

    /// Returns the skew between the paths of a stream; `None`: no such stream, or it has no sequence recovery.
    ///
    /// # Errors
    /// The kernel refuses.
    fn read_paths(&self, name: &str) -> Result<Option<PathsReading>, E>;

    /// Returns the counters of several streams, in their order.
    ///
    /// # Errors
    /// Those of [`DataPlane::read_stream`].
    fn read_streams(&self, names: &[Rc<str>]) -> Result<Vec<Option<StreamReading>>, E> {
        names.iter().map(|name| self.read_stream(name)).collect()
    }

    /// Passes each stream of the data plane with its counters, in any order. `streams` are these streams.
    ///
    /// # Errors
    /// Those of [`DataPlane::read_stream`].
    fn read_all(
        &self,
        streams: &mut dyn Iterator<Item = &Stream>,
        take: &mut dyn FnMut(&Stream, &StreamReading),
    ) -> Result<(), E> {
        loop {
            let some: Vec<&Stream> = streams.take(READ_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            let names: Vec<Rc<str>> =
                some.iter().map(|stream| stream.name.as_str().into()).collect();
            for (stream, reading) in some.into_iter().zip(self.read_streams(&names)?) {
                reading.iter().for_each(|reading| take(stream, reading));
            }
        }
    }

    /// Returns the memory of the stream tables; `None` if each stream allocates its own.
    ///
    /// # Errors
    /// The kernel refuses.
    fn memory(&self) -> Result<Option<Memory>, E> {
        Ok(None)
    }

    /// Returns the frames of a port that match no stream, those that left and those that were lost.
    ///
    /// # Errors
    /// The kernel refuses.
    fn read_port(&self, port: &str) -> Result<PortReading, E>;

    /// Returns why frames that left are not counted, if they are not.
    fn output_gap(&self) -> Option<&str> {
        None
    }

    /// Resets the functions of a stream; returns whether the stream exists.
    ///
    /// # Errors
    /// The kernel refuses.
    fn reset(&self, stream: &str) -> Result<bool, E>;

    /// Sets the number of the next packet of a stream (GenSeqNum); returns whether the stream numbers packets.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_number(&self, stream: &str, number: u16) -> Result<bool, E>;

    /// Resets recovery functions whose timeout has passed without a packet.
    ///
    /// # Errors
    /// The kernel refuses.
    fn expire(&self) -> Result<(), E>;
}
