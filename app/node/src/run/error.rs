//! Errors of running a node.

use std::path::PathBuf;

use onbeat_host::Holder;
use onbeat_netconf::Datastore;

use super::prove::DroppedProbes;
use crate::config::{ConfigError, LoadError, TRAILER, UnsupportedBackend, name_rule};
use crate::control::{BindError, ClientError, UnknownStream};
use crate::service::MissingDropIns;

/// Error of running or changing a node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The argument is neither a file nor a valid name of a node.
    #[error(
        "node {node:?}: no such file, and the name of a node is {rule} (a file has a \"/\" or \
         the extension .toml)",
        rule = name_rule()
    )]
    NoNode {
        /// The argument.
        node: String,
    },
    /// There is no node of this name.
    #[error(
        "cannot find the node: no node {name:?} at {} or {}",
        pin.display(),
        control.display()
    )]
    UnknownNode {
        /// Its name.
        name: String,
        /// Its pin directory.
        pin: PathBuf,
        /// Its control socket.
        control: PathBuf,
    },
    /// A port's interface is too small for the sequence tag.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] BindError),
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The process at a control socket is not the daemon of this node.
    #[error(
        "control socket {control:?}: {cause}; nothing was stopped or removed; set another \
         control under [node], or stop that process"
    )]
    OtherDaemon {
        /// The socket.
        control: PathBuf,
        /// The process that listens there.
        cause: String,
    },
    /// An interface.
    #[error("port {port:?}: {source}")]
    Port {
        /// The port.
        port: String,
        /// The error of its interface.
        source: onbeat_netdev::Error,
    },
    /// The driver of a port's interface does not set it up.
    #[error("port {port:?}: {source}; the log of the kernel may name the cause: dmesg")]
    NotUp {
        /// The port.
        port: String,
        /// The error of its interface.
        source: onbeat_netdev::Error,
    },
    /// The two interfaces of a port with `create = "veth"` exist and are not one pair.
    #[error(
        "port {port:?}: interfaces {interface:?} and {attached:?} exist and are not the two ends of a \
         veth pair; set another interface, or delete one of them: ip link delete {interface}"
    )]
    NotOnePair {
        /// The port.
        port: String,
        /// The end for programs of this machine.
        interface: String,
        /// The end for the data plane.
        attached: String,
    },
    /// Two ports have one interface.
    #[error(
        "ports {:?} and {:?} have the same interface: {:?} and {:?} are names of {interface:?}; use \
         a separate interface for each port",
        ports[0], ports[1], names[0], names[1]
    )]
    SameInterface {
        /// The ports.
        ports: [String; 2],
        /// The interface of each, as configured.
        names: [String; 2],
        /// The kernel's name.
        interface: String,
    },
    /// udev has yet to name a port's interface.
    #[error(
        "port {port:?}: udev has not named interface {interface:?} yet: it may get another name; if that lasts, run: \
         udevadm trigger --action=add /sys/class/net/{interface}"
    )]
    NotNamed {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
    },
    /// Another process uses a port's interface.
    #[error("port {port:?}: {source}")]
    InUse {
        /// The port.
        port: String,
        /// The process.
        source: onbeat_host::Error,
    },
    /// The journal has former settings that may be of another interface with this name.
    #[error(
        "interface {interface:?} cannot be changed: the journal has settings to restore: {why}; {remedy}, or \
         discard them with: onbeat down {node} --forget"
    )]
    FormerSettings {
        /// The interface.
        interface: String,
        /// The difference of the interface from the journal, or its location.
        why: String,
        /// The remedy.
        remedy: String,
        /// The argument of `onbeat down` for the node.
        node: String,
    },
    /// The journal, or the directory of the control socket.
    #[error(transparent)]
    Host(#[from] onbeat_host::Error),
    /// Network devices in general.
    #[error(transparent)]
    Device(#[from] onbeat_netdev::Error),
    /// The data plane.
    #[error(transparent)]
    Plane(#[from] onbeat_frer_xdp::Error),
    /// Forwarding in user space.
    #[error(transparent)]
    Forward(#[from] onbeat_frer_user::Error),
    /// The guard of interrupt work.
    #[error("guard: {0}")]
    Guard(onbeat_irq_guard::Error),
    /// The guard lacks permission.
    #[error(
        "guard: priorities of NAPI threads cannot be set: the process lacks CAP_SYS_NICE; start it with \
         this capability"
    )]
    GuardPermission,
    /// A LAN of a PRP node, or a path of a wildcard, is too narrow for frames of the host with their trailer or R-TAG.
    #[error(
        "port {port:?} ({interface}) has MTU {room}, frames from port {host:?} require {needed}: set mtu = {needed} on \
         the ports of both networks, or mtu = {} on port {host:?}",
        room.saturating_sub(TRAILER)
    )]
    NarrowLan {
        /// The port of the LAN.
        port: String,
        /// Its interface.
        interface: String,
        /// The port of the host.
        host: String,
        /// The MTU of the LAN's interface.
        room: u32,
        /// The MTU that it requires.
        needed: u32,
    },
    /// A LAN of a PRP node, or a path of a wildcard, in generic mode over a veth.
    #[error(
        "port {port:?} ({interface}): a PRP node or wildcard does not receive by a veth in generic mode; the warning of this port names what \
         prevents native mode, and its remedy; or set backend = \"packet\" under [node] (--backend packet)"
    )]
    GenericVethLan {
        /// The port of the LAN.
        port: String,
        /// Its interface.
        interface: String,
    },
    /// Frames of a PRP node's host are too long for a trailer.
    #[error(
        "port {port:?} has MTU {mtu}, and PRP carries packets of up to {most} octets; set mtu = {most} there"
    )]
    LongFrames {
        /// The port of the host.
        port: String,
        /// Its MTU.
        mtu: u32,
        /// The greatest MTU.
        most: u32,
    },
    /// The data plane does not support the protocol of the node.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedBackend),
    /// The node has another protocol.
    #[error(
        "node {node:?} has no table of nodes: it is no PRP node (protocol = \"prp\"), and has no stream of type \"all\" or \
         \"vlan\""
    )]
    NotPrp {
        /// Its name.
        node: String,
    },
    /// The stream is a wildcard.
    #[error("stream {name:?} is a wildcard of the file; change the file, then run onbeat reload")]
    Wildcard {
        /// Its name.
        name: String,
    },
    /// A requested stream does not exist.
    #[error(transparent)]
    Unknown(#[from] UnknownStream),
    /// Another system changes the node.
    #[error(
        "node {node:?} is managed by {manager:?} (managed-by in its file), which undoes other changes; change it there, \
         or repeat the command with --force"
    )]
    Managed {
        /// The node.
        node: String,
        /// The system.
        manager: String,
    },
    /// Managers have no right to change the node.
    #[error("node {node:?} is not managed; set managed-by under [node], and restart it")]
    NotManaged {
        /// The node.
        node: String,
    },
    /// A text of managers is longer than its streams can be.
    #[error(
        "a text of {octets} octets is longer than {longest}, the most for max-streams of the node's file; raise it, and \
         restart the node"
    )]
    LongText {
        /// Its length.
        octets: usize,
        /// Greatest length.
        longest: u64,
    },
    /// The node's file has changes that do not run.
    #[error(
        "{} has changed since node {node:?} read it, and nothing is replaced; run onbeat reload {node} --force",
        file.display()
    )]
    FileChanged {
        /// The file.
        file: PathBuf,
        /// The node.
        node: String,
    },
    /// The configuration is not the one that a change is derived from.
    #[error(
        "the configuration of node {node:?} has changed since it was read; nothing is set: read it again, and repeat \
         the change"
    )]
    Changed {
        /// The node.
        node: String,
    },
    /// A NETCONF session has the lock.
    #[error(
        "{datastore} of node {node:?} is locked by {holder}; repeat the request when that session has unlocked it, or \
         end the session{}",
        holder.pid.map_or_else(String::new, |pid| format!(": kill {pid}"))
    )]
    Locked {
        /// The node.
        node: String,
        /// The datastore.
        datastore: Datastore,
        /// The session.
        holder: Holder,
    },
    /// Stored streams are additional to those of the file.
    #[error(
        "stream {stream:?} {how} the node's file {file}, and the streams that are set are stored beside it; change the \
         stream there, then run onbeat reload"
    )]
    OfFile {
        /// Its name.
        stream: String,
        /// Its difference from the running stream.
        how: &'static str,
        /// The file.
        file: String,
    },
    /// More streams than the tables have room for.
    #[error(
        "max-streams is {room}, and the node would have {present}; raise max-streams under [node], or remove streams"
    )]
    NoRoom {
        /// Number of streams.
        present: usize,
        /// Number of places.
        room: u32,
    },
    /// The stream does not exist.
    #[error("the node has no stream {stream:?}; onbeat show lists the streams")]
    NoStream {
        /// Its name.
        stream: String,
    },
    /// The stream has no sequence generation.
    #[error(
        "stream {stream:?} numbers no packets; set the number where the stream has generate = true, at its talker"
    )]
    NoNumbers {
        /// Its name.
        stream: String,
    },
    /// Probes of a stream have no paths.
    #[error("stream {stream:?} cannot be proved: {why}")]
    NotProvable {
        /// Its name.
        stream: String,
        /// Cause and remedy.
        why: String,
    },
    /// Too many streams to prove at once.
    #[error(
        "too many streams to prove at once: {streams}, at most {most} in a request; prove fewer at a time"
    )]
    ManyProved {
        /// Their number.
        streams: usize,
        /// Maximum number.
        most: usize,
    },
    /// A probe was not sent.
    #[error(
        "stream {stream:?}: a probe of {octets} octets cannot be sent by port {port:?} ({interface}): {source}; check its \
         link and MTU (ip link show {interface})"
    )]
    Probe {
        /// The stream.
        stream: String,
        /// The length of the frame without FCS.
        octets: usize,
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
        /// Cause.
        source: std::io::Error,
    },
    /// Interfaces dropped probes.
    #[error("{0}")]
    DroppedProbes(DroppedProbes),
    /// A change that requires a restart.
    #[error(
        "[node] {key} changed from {old} to {new}, which requires a restart: \
         run onbeat down {node}, and start the node again"
    )]
    NeedsRestart {
        /// The changed key.
        key: &'static str,
        /// Previous value.
        old: String,
        /// New value.
        new: String,
        /// The node.
        node: String,
    },
    /// The process lacks privileges.
    #[error(
        "a node requires root with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON: run it with sudo, \
         or as a service of systemd"
    )]
    Permission,
    /// Patterns of names of streams are too long.
    #[error("patterns of streams have more than {most} octets; use shorter ones, or fewer")]
    Patterns {
        /// Maximum length of all of them.
        most: usize,
    },
    /// The start failed in a service whose unit lacks drop-ins.
    #[error("{source}; {missing}")]
    DropIns {
        /// The error.
        source: Box<Error>,
        /// The drop-ins, with the commands that install them.
        missing: MissingDropIns,
    },
    /// The BPF file system cannot be mounted.
    #[error("cannot mount a BPF file system at {path}: {source}", path = .path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// Cause.
        source: nix::errno::Errno,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The error.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the interface of a port does not exist, or has yet to be named.
    pub(super) fn is_missing(&self) -> bool {
        match self {
            Error::NotNamed { .. } => true,
            Error::Port { source, .. } => source.is_not_found(),
            _ => false,
        }
    }

    /// Whether a port's interface does not exist, or cannot be set up: that may end without a change of the file.
    pub(super) fn is_away(&self) -> bool {
        self.is_missing() || matches!(self, Error::NotUp { .. })
    }

    /// Whether each further start fails as well, until an administrator changes the file or the unit, or removes the
    /// node whose tables do not fit.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        use onbeat_frer_xdp::Error as Plane;
        matches!(
            self,
            Error::Load(_)
                | Error::DropIns { .. }
                | Error::Plane(
                    Plane::Incompatible { .. } | Plane::NodesTable { .. } | Plane::Full { .. }
                )
        )
    }
}

/// A result of running a node.
pub type Result<T> = std::result::Result<T, Error>;
