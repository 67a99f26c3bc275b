//! The configuration file of a node.
//!
//! A file is read as a whole and every fault in it is reported at once, each with its place, key,
//! value and remedy ([`ConfigError`]); so is what is legal and a known trap, where there is no fault
//! ([`Config::check`]). What comes out is plain data: names of ports are replaced
//! by [`PortId`]s, which count the `[[port]]` tables from 0, and `count` is unfolded.

mod addition;
mod backend;
mod block;
mod check;
mod events;
mod guard;
mod identify;
mod mtu;
mod node;
mod recovery;
mod repeat;
mod set;
mod stream;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use onbeat_config::diagnostic::Source;
pub use onbeat_config::file::LONGEST;
use onbeat_config::file::{load as source_of, parse};
use onbeat_config::reader::{Faults, Table};
pub(crate) use onbeat_config::text::{is_name, name_rule};
pub use onbeat_config::{ConfigError, LoadError, Warnings};
use onbeat_config::{diagnostic, interface, reader, realtime, suggest, text};
use onbeat_frer::spec::{PortId, Stream};
use onbeat_frer_user::Poll;
use onbeat_host::{Error, PrivateDirectory};
use onbeat_realtime::Profile;

use crate::control::in_directory;

pub use addition::{Addition, StreamOperation};
pub use backend::Backend;
pub use events::EventsConfig;
pub use guard::load_guard;
pub use set::{ReplacedStreams, StreamSet};

/// What a node is told to do.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node as a whole.
    pub node: NodeConfig,
    /// Its ports; a [`PortId`] is an index here.
    pub ports: Vec<PortConfig>,
    /// Its streams, in the order of the file, each name once.
    pub streams: Vec<Stream>,
    written: SourceText,
    /// Whose frames are whose, by the number of the stream.
    taken: set::FrameOwners,
}

/// Streams as a text has them, for what can only be checked later.
#[derive(Debug, Clone)]
struct SourceText {
    source: Source,
    /// Traps that show in the text alone.
    warnings: Warnings,
    /// Where each stream stands; several where `count` made them.
    blocks: Vec<block::Block>,
    /// Where the control socket is named.
    control: Option<Range<usize>>,
}

/// The `[node]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name of the node; without it in the file, the name of the file.
    pub name: String,
    /// What moves its frames.
    pub backend: Backend,
    /// How the data plane in user space waits for frames.
    pub poll: Poll,
    /// What its thread asks of the host.
    pub realtime: Profile,
    /// Streams the node has room for without being built anew.
    pub max_streams: u32,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Directory in a bpffs where the data plane is pinned.
    pub pin: PathBuf,
    /// What is told of the streams.
    pub events: EventsConfig,
    /// Whose bottom halves are scheduled by who waits for them, while the node runs.
    pub guard: Option<onbeat_irq_guard::Config>,
}

/// A `[[port]]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// What streams call it.
    pub name: String,
    /// The interface, as programs of this machine see it.
    pub interface: String,
    /// What moves its frames: as the node, or another one in user space.
    pub backend: Backend,
    /// How the data plane attaches.
    pub mode: Mode,
    /// MTU to set at start.
    pub mtu: Option<u32>,
    /// What to create at start.
    pub create: Option<Create>,
    /// Whether the interface must take frames for any address.
    pub promiscuous: Promiscuous,
}

/// What the node's own end of a veth pair is called: the interface's name and this.
pub(crate) const VETH_SUFFIX: &str = "-frer";

impl PortConfig {
    /// The interface the data plane is attached to: the node's own end where it makes a pair.
    pub fn attached_interface(&self) -> String {
        match self.create {
            Some(Create::Veth) => format!("{}{VETH_SUFFIX}", self.interface),
            None => self.interface.clone(),
        }
    }
}

/// How the data plane attaches to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// In the driver where it can, in the generic hook otherwise.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the generic hook.
    Generic,
}

/// An interface the node makes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// A veth pair: `interface` for the programs of this machine, `interface`-frer for the node.
    Veth,
}

/// Whether an interface is set promiscuous while the node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Promiscuous {
    /// Where it is a NIC that filters addresses.
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

    /// Reads a text; `file` is what its faults name.
    pub fn parse(text: &str, file: &str) -> Result<Config, ConfigError> {
        let source = Source { file: file.into(), text: text.into() };
        let root = parse(text, &source)?;
        let faults = Faults::default();
        let mut table = Table::root(&root, &faults);
        let (mut node, control) = node::read(table.take("node"), file);
        node.guard = table.take("guard").and_then(|value| guard::read(&value));
        let (ports, ids) = node::read_ports(table.items("port"), node.backend);
        if ports.is_empty() && !table.has("port") {
            let help = "add [[port]] with name = \"path1\" and interface = \"eth0\"";
            table.fault("the node has no port", help);
        }
        let blocks = stream::read_all(table.items("stream"), &ids, &faults);
        table.finish();
        let streams = block::unfold(&blocks, 0, node.max_streams, &faults);
        let taken = check::all(&streams, &blocks, &ports, &faults);
        check::replicas(&streams, &blocks, &ports, &faults);

        let warnings = faults.judge(&source)?;
        let streams = streams.into_iter().map(|(_, stream)| stream).collect();
        Ok(Config {
            node,
            ports,
            streams,
            written: SourceText { source, warnings, blocks, control },
            taken,
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
        faults.judge(&self.written.source).map(drop)
    }

    /// What is needed while the node runs: the streams can be exchanged, and where they stood is
    /// forgotten.
    pub fn into_parts(self) -> (NodeConfig, Vec<PortConfig>, StreamSet) {
        (self.node, self.ports, StreamSet::new(self.streams, self.taken))
    }

    /// Has this move the frames of all ports, whatever the file says.
    pub fn set_backend(&mut self, backend: Backend) {
        self.node.backend = backend;
        self.ports.iter_mut().for_each(|port| port.backend = backend);
    }

    /// The port a stream's [`PortId`] stands for.
    ///
    /// # Panics
    /// Where the id is not of this configuration.
    pub fn port(&self, id: PortId) -> &PortConfig {
        &self.ports[usize::from(id.0)]
    }
}

/// The way out for a control socket whose directory cannot be used.
const OTHER_CONTROL: &str = "name a socket in a directory of root, such as /run/onbeat/NAME.sock";

/// The names of ports.
type PortIds = HashMap<String, PortId>;
