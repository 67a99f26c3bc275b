//! The configuration file of a node.
//!
//! A file is read completely, and all faults are reported at once, each with its location, key, value and
//! remedy ([`ConfigError`]). Without faults, [`Config::check`] reports warnings of known traps. The result is
//! plain data: [`PortId`]s, which count the `[[port]]` tables from 0, replace names of ports, and `count` is
//! expanded.

mod addition;
mod backend;
mod block;
mod check;
mod events;
mod guard;
mod identify;
mod managed;
mod mtu;
mod node;
mod prp;
mod recovery;
mod repeat;
mod set;
mod stored;
mod stream;
mod wildcard;
mod write;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use onbeat_config::diagnostic::Source;
pub use onbeat_config::file::LONGEST;
use onbeat_config::file::{load as source_of, parse};
use onbeat_config::reader::{Faults, Table};
pub(crate) use onbeat_config::text::{is_name, name_rule};
pub use onbeat_config::{ConfigError, LoadError, Warnings};
use onbeat_config::{diagnostic, interface, reader, realtime, suggestions, text};
use onbeat_frer::prp::Lan;
use onbeat_frer::spec::{PortId, Stream};
use onbeat_frer::wildcard::MAX_IN_KERNEL;
use onbeat_frer_user::PollMode;
use onbeat_host::{Error, PrivateDirectory};
use onbeat_realtime::Profile;
use onbeat_wire::MacAddress;
use onbeat_yang::KeptHandles;
use sha2::{Digest, Sha256};

use crate::control::in_directory;
use prp::LinkTable;
use stream::StreamTables;

pub use addition::{Addition, StreamOperation};
pub use backend::Backend;
pub use events::EventsConfig;
pub use guard::load_guard;
pub(crate) use mtu::{Frames, NarrowPath, narrow_paths};
pub(crate) use node::{PINS, default_pin};
pub(crate) use prp::TRAILER;
pub use prp::{LinkConfig, Protocol, UnsupportedBackend};
pub use set::{ReplacedStreams, StreamSet};
pub use stored::stored_text;
pub use wildcard::WildcardConfig;
pub use write::{StreamKeys, add_stream, configuration_text};

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node as a whole.
    pub node: NodeConfig,
    /// Its ports; a [`PortId`] is an index here.
    pub ports: Vec<PortConfig>,
    /// Its streams, in the order of the file, each name once.
    pub streams: Vec<Stream>,
    /// With the protocol PRP.
    pub prp: Option<LinkConfig>,
    /// Its wildcards, by precedence.
    pub wildcards: Vec<WildcardConfig>,
    /// SHA-256 of the text, hexadecimal.
    pub sha256: String,
    /// That of the node's file; another one if managers have replaced its streams.
    pub sha256_of_file: String,
    written: SourceText,
    /// Streams of the second file, which are among the streams.
    stored: Option<Addition>,
    /// The owner of each frame, by the number of the stream.
    taken: set::FrameOwners,
    notes: set::StreamNotes,
}

/// Source text of streams, for checks that follow later.
#[derive(Debug, Clone)]
struct SourceText {
    source: Source,
    /// Warnings from the text alone.
    warnings: Warnings,
    /// The table of each stream; several streams with `count`.
    blocks: Vec<block::Block>,
    /// Location of the control path.
    control: Option<Range<usize>>,
}

/// The `[node]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name of the node; the name of the file by default.
    pub name: String,
    /// Its redundancy protocol.
    pub protocol: Protocol,
    /// Its data plane.
    pub backend: Backend,
    /// Waiting method of the data plane in user space.
    pub poll: PollMode,
    /// Real-time profile of its thread.
    pub realtime: Profile,
    /// Maximum number of streams without a restart.
    pub max_streams: u32,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Group whose members may query the node; none: [`READER_GROUP`], if it exists.
    ///
    /// [`READER_GROUP`]: crate::control::READER_GROUP
    pub readers: Option<String>,
    /// Management socket of ptp4l; none: those of its usual paths.
    pub ptp_socket: Option<PathBuf>,
    /// Label of this version of the file.
    pub tag: Option<String>,
    /// The system that changes the node; local changes are refused then.
    pub managed_by: Option<String>,
    /// Group whose members may replace the streams of a managed node; none: [`MANAGER_GROUP`], if it exists.
    ///
    /// [`MANAGER_GROUP`]: crate::control::MANAGER_GROUP
    pub managers: Option<String>,
    /// File of the text that managers set last, with the streams of a managed node.
    pub managed_file: PathBuf,
    /// File of the streams that requests set and store.
    pub stored_streams: PathBuf,
    /// Directory in a bpffs where the data plane is pinned.
    pub pin: PathBuf,
    /// Events of streams.
    pub events: EventsConfig,
    /// Guard of interrupt work while the node runs.
    pub guard: Option<onbeat_irq_guard::Config>,
}

/// A `[[port]]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name in streams.
    pub name: String,
    /// The interface for programs of this machine.
    pub interface: String,
    /// Its data plane: that of the node, or another one in user space.
    pub backend: Backend,
    /// Attachment mode of the data plane.
    pub mode: Mode,
    /// The LAN of a PRP node.
    pub lan: Option<Lan>,
    /// MTU to set at start.
    pub mtu: Option<u32>,
    /// Interface to create at start.
    pub create: Option<InterfaceKind>,
    /// Whether the interface must receive frames for any address.
    pub promiscuous: Promiscuous,
    /// Whether received frames must be those of their senders, not merged ones.
    pub whole_frames: bool,
    /// The address of an interface to create; none: a random one, or one by those of the paths of a host port.
    pub mac: Option<MacAddress>,
}

/// Suffix of the interface's name for the node's end of a veth pair.
pub(crate) const VETH_SUFFIX: &str = "-frer";

impl PortConfig {
    /// The interface that the data plane is attached to: the node's end if it creates a veth pair.
    pub fn attached_interface(&self) -> String {
        match self.create {
            Some(InterfaceKind::Veth) => format!("{}{VETH_SUFFIX}", self.interface),
            None => self.interface.clone(),
        }
    }
}

/// Attachment mode of the data plane to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// In the driver if possible, otherwise in the generic hook.
    #[default]
    Auto,
    /// Only in the driver.
    Native,
    /// In the generic hook.
    Generic,
}

/// An interface that the node creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A veth pair: `interface` for the programs of this machine, `interface`-frer for the node.
    Veth,
}

/// Whether an interface is set promiscuous while the node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Promiscuous {
    /// If it is a NIC that filters addresses.
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

impl Config {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Config, LoadError> {
        let (text, file) = source_of(path)?;
        Ok(Config::parse(&text, &file)?)
    }

    /// Reads a text; faults name it `file`.
    pub fn parse(text: &str, file: &str) -> Result<Config, ConfigError> {
        let source = Source { file: file.into(), text: text.into() };
        let root = parse(text, &source)?;
        let (tables, faults) = reader::read(&root, |table, faults| read(table, file, faults));
        let Tables { node, control, mut ports, prp, streams, wildcard } = tables;
        let StreamTables { blocks, wildcards } = streams;
        let streams = block::unfold(&blocks, 0, node.max_streams, &faults);
        let named = streams.iter().map(|(_, stream)| stream.name.as_str());
        let wildcards = wildcard::check(&wildcards, named, &node, &mut ports, wildcard, &faults);
        let taken = check::all(&streams, &blocks, &ports, &faults);
        check::replicas(&streams, &blocks, &ports, &faults);
        let notes = block::notes(&blocks, &streams, &faults);

        let warnings = faults.into_result(&source)?;
        let streams = streams.into_iter().map(|(_, stream)| stream).collect();
        Ok(Config {
            node,
            ports,
            streams,
            prp,
            wildcards,
            sha256: sha256(text),
            sha256_of_file: sha256(text),
            written: SourceText { source, warnings, blocks, control },
            stored: None,
            taken,
            notes,
        })
    }

    /// Checks the directory of the control socket, the lock and the journal, as far as it exists.
    ///
    /// # Errors
    /// Other users could write there, or redirect the path.
    pub fn check_control(&self) -> Result<(), ConfigError> {
        let control = &self.node.control;
        let (message, help) = match in_directory(control).map(|(directory, _)| directory) {
            Ok(directory) => match PrivateDirectory::check(directory) {
                Ok(()) => return Ok(()),
                Err(Error::Refused { path, why, remedy }) => {
                    (format!("{path:?} is refused: {why}"), remedy.to_owned())
                }
                Err(error) => (error.to_string(), OTHER_CONTROL.to_owned()),
            },
            Err(_) => {
                (format!("{control:?} does not end in a file name"), OTHER_CONTROL.to_owned())
            }
        };
        let faults = Faults::default();
        faults.note(
            self.written.control.clone().unwrap_or_default(),
            "node.control",
            message,
            help,
        );
        faults.into_result(&self.written.source).map(drop)
    }

    /// The parts required while the node runs: the streams can be replaced; their locations in the file are
    /// dropped.
    pub fn into_parts(self) -> ConfigParts {
        let Self { node, ports, prp, wildcards, streams, taken, notes, .. } = self;
        let (sha256, sha256_of_file) = (self.sha256, self.sha256_of_file);
        let streams = StreamSet::new(streams, taken, notes);
        ConfigParts { node, ports, prp, wildcards, streams, sha256, sha256_of_file }
    }

    /// Sets the data plane of all ports, overriding the file.
    ///
    /// # Errors
    /// It does not support the protocol or a wildcard of the node; nothing has changed.
    pub fn set_backend(&mut self, backend: Backend) -> Result<(), UnsupportedBackend> {
        let unsupported = |feature| Err(UnsupportedBackend { backend, feature });
        if !self.node.protocol.supports(backend) {
            return unsupported(format!("protocol = \"{}\"", self.node.protocol));
        }
        match (&self.wildcards[..], backend) {
            ([wildcard, ..], Backend::Xsk) => {
                return unsupported(format!(
                    "type = {:?} of stream {:?}",
                    wildcard.scope.name(),
                    wildcard.name
                ));
            }
            (wildcards, Backend::Xdp) if wildcards.len() > MAX_IN_KERNEL => {
                return unsupported(format!(
                    "more than {MAX_IN_KERNEL} wildcards, here {}",
                    wildcards.len()
                ));
            }
            _ => {}
        }
        self.node.backend = backend;
        self.ports.iter_mut().for_each(|port| port.backend = backend);
        Ok(())
    }

    /// Host ports with two LANs or paths: of a PRP node, or of wildcards.
    pub fn links(&self) -> impl Iterator<Item = &LinkConfig> {
        self.wildcards.iter().map(|wildcard| &wildcard.link).chain(&self.prp)
    }

    /// The names of streams with members whose paths are being removed, sorted.
    pub fn draining_streams(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> = self.notes.draining.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.into_iter()
    }

    /// The keys of a stream that the data plane does not have.
    pub fn keys(&self, name: &str) -> StreamKeys<'_> {
        let draining = self.notes.draining.get(name).map_or(&[][..], Vec::as_slice);
        (draining, self.notes.handles.get(name))
    }

    /// The handles that streams keep.
    pub fn kept_handles(&self) -> &KeptHandles {
        &self.notes.handles
    }

    /// The port with this [`PortId`].
    ///
    /// # Panics
    /// If the id is not of this configuration.
    pub fn port(&self, id: PortId) -> &PortConfig {
        &self.ports[usize::from(id.0)]
    }
}

/// The parts of a configuration that are required while the node runs.
#[derive(Debug)]
pub struct ConfigParts {
    /// The node as a whole.
    pub node: NodeConfig,
    /// Its ports.
    pub ports: Vec<PortConfig>,
    /// With the protocol PRP.
    pub prp: Option<LinkConfig>,
    /// Its wildcards, by precedence.
    pub wildcards: Vec<WildcardConfig>,
    /// Its streams.
    pub streams: StreamSet,
    /// SHA-256 of the text, hexadecimal.
    pub sha256: String,
    /// That of the node's file; another one if managers have replaced its streams.
    pub sha256_of_file: String,
}

/// The tables of a file.
struct Tables {
    node: NodeConfig,
    /// Location of the control path.
    control: Option<Range<usize>>,
    ports: Vec<PortConfig>,
    prp: Option<LinkConfig>,
    streams: StreamTables,
    wildcard: Option<(block::Location, LinkTable)>,
}

fn read(mut table: Table<'_>, file: &str, faults: &Faults) -> Tables {
    let (mut node, control) = node::read(table.take("node"), file);
    node.guard = table.take("guard").and_then(|value| guard::read(&value));
    let (ports, ids) = node::read_ports(table.items("port"), &node);
    if ports.is_empty() && !table.has("port") {
        let help = "add [[port]] with name = \"path1\" and interface = \"eth0\"";
        table.fault("the node has no port", help);
    }
    let values = table.take("prp");
    let prp = values.as_ref().map(LinkTable::read).unwrap_or_default();
    let prp = match (node.protocol, &values) {
        (Protocol::Prp, _) if ports.is_empty() => None,
        (Protocol::Prp, _) => prp.with_lans(&table, &ports),
        (Protocol::Frer, Some(value)) => {
            value.fault(
                "only a node with protocol = \"prp\" has this table",
                "set protocol = \"prp\" in [node], or remove it",
            );
            None
        }
        (Protocol::Frer, None) => None,
    };
    let streams = stream::read_all(table.items("stream"), &ids, faults);
    let wildcard = table.take("wildcard");
    let wildcard = wildcard.map(|value| (block::Location::of(&value), LinkTable::read(&value)));
    table.finish();
    Tables { node, control, ports, prp, streams, wildcard }
}

/// Returns the SHA-256 of a text, as sha256sum prints it.
pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Remedy for a control socket whose directory cannot be used.
const OTHER_CONTROL: &str = "use a socket in a directory of root, such as /run/onbeat/NAME.sock";

/// Ids of ports by name.
type PortIds = HashMap<String, PortId>;
