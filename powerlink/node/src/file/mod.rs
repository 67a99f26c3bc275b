//! Network files in TOML (docs/reference/powerlink.md): a network, and the hosts of its nodes.

mod ability;
mod cross;
mod node;
mod object;
mod project;
mod xdd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat_config::{
    ConfigError, Faults, LoadError, Source, Table, Value, file, interface, reader, realtime,
};
use onbeat_host::trust::{self, UntrustedFile};
use onbeat_link::Backend;
use onbeat_powerlink::network::Network;
use onbeat_powerlink::od::profile;
use onbeat_realtime::Profile;
use onbeat_report::Input;

use crate::{Pattern, Sender};
use node::ReadNode;
pub use project::{Project, ProjectFileError};
use xdd::Descriptions;

/// Shortest and longest cycle, in microseconds.
const CYCLE_US: std::ops::RangeInclusive<u32> = 200..=10_000_000;
/// Default threshold of the managing node's counters: five losses in a row. A process loses its CPU for some cycles
/// at once, which the default of the profile (15, two losses) does not survive.
const THRESHOLD: u32 = 40;
/// Default of 0x1F98/9.
const PRESCALER: u16 = 2;
/// Default slot of the reduced cycle: wide enough for software at both ends.
const ASYNC_SLOT_US: u32 = 500;
/// Default of 0x1F89/3.
const PRE_OPERATIONAL_1_MS: u32 = 500;

/// A network, and the hosts of its nodes.
#[derive(Debug, Clone)]
pub struct File {
    /// The network.
    pub network: Network,
    /// The host of the managing node.
    pub managing: Host,
    /// The sender of its SoC; `None`: the default of its back end.
    pub soc: Option<Sender>,
    /// The hosts of the network's nodes, in the same order.
    pub nodes: Vec<NodeHost>,
    /// The project of another tool that configures the managing node; the network then has no nodes.
    pub project: Option<Project>,
    /// Real-time settings of a node's thread.
    pub realtime: Profile,
    /// The reason why a privileged process must not use the file: another user could have written it, or a file
    /// that it refers to.
    pub untrusted: Option<UntrustedFile>,
    /// The file and the device descriptions that it names, with their hashes.
    pub inputs: Vec<Input>,
}

/// The host of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// The interface; if none, the command line must name one.
    pub interface: Option<String>,
    /// The back end of its port.
    pub backend: Backend,
    /// The interface by which the host takes part in the IP network of the bus.
    pub virtual_ethernet: Option<String>,
}

/// The host of a controlled node, and its simulated values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHost {
    /// The host.
    pub host: Host,
    /// The file that stores its parameters, if it has one.
    pub store: Option<PathBuf>,
    /// The sender of its responses to polls; `None`: the default of its back end.
    pub response: Option<Sender>,
    /// The patterns of its inputs.
    pub inputs: Vec<Pattern>,
    /// The patterns of its outputs, which the managing node sends.
    pub outputs: Vec<Pattern>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a valid network.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        // Checked before reading: a path that passes always leads to the same file afterwards.
        let checked = trust::check_file(path);
        let (text, name) = file::load(path)?;
        let mut parsed = Self::parse(&text, &name)?;
        parsed.untrusted = checked.err().or(parsed.untrusted);
        parsed.inputs.insert(0, Input::of_file(path, text.as_bytes()));
        Ok(parsed)
    }

    /// Parses a text; `name` is its name in errors.
    ///
    /// # Errors
    /// Every error of the text, with its position.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let source = Source { file: name.into(), text: text.into() };
        let root = file::parse(text, &source)?;
        let (file, faults) = reader::read(&root, |table, faults| tables(table, name, faults));
        faults.into_result(&source)?;
        Ok(file)
    }

    /// A file that only has a project.
    #[must_use]
    pub fn of_project(project: Project) -> Self {
        let file = File {
            network: unset(),
            managing: Host::default(),
            soc: None,
            nodes: Vec::new(),
            project: None,
            realtime: Profile::default(),
            untrusted: None,
            inputs: Vec::new(),
        };
        file.with_project(project)
    }

    /// Replaces the network by a project.
    #[must_use]
    pub fn with_project(mut self, project: Project) -> Self {
        (self.network.nodes, self.nodes) = (Vec::new(), Vec::new());
        let cycle_us = project.project.objects().number(profile::CYCLE_LENGTH_US);
        self.network.cycle_us = cycle_us as u32;
        self.inputs.extend(project.inputs.iter().cloned());
        self.untrusted = self.untrusted.take().or_else(|| project.untrusted.clone());
        self.project = Some(project);
        self
    }
}

/// The tables of the file `name`.
fn tables(mut table: Table<'_>, name: &str, faults: &Faults) -> File {
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let managing = table.take("managing").and_then(|value| {
        let mut table = value.table()?;
        let host = host(&mut table);
        let basic = table.take("basic-ethernet").and_then(|value| value.flag());
        let soc = table.take("soc").and_then(|value| soc(&value, host.backend));
        let project = project::read(&mut table, folder);
        table.finish();
        Some(ManagingTable { host, soc, basic: basic.unwrap_or(false), project })
    });
    let ManagingTable { host: managing, soc, basic, project } = managing.unwrap_or_default();
    let mut network = match project {
        Some(_) => of_project(&mut table),
        None => network(&mut table),
    };
    network.basic_ethernet = basic;
    let realtime = table.take("realtime").map(|value| realtime::read(&value));
    let items = if project.is_some() { Vec::new() } else { table.items("node") };
    if items.is_empty() && project.is_none() && faults.count() == 0 {
        table.fault("the network has no nodes", "add [[node]] with id = 1");
    }
    let project = project.flatten();
    let mut descriptions = Descriptions::beside(Path::new(name));
    let (mut nodes, mut ids): (Vec<NodeHost>, _) = (Vec::new(), BTreeMap::new());
    let mut references = Vec::new();
    for item in &items {
        let read = node::read(item, &network, &mut descriptions);
        let Some(ReadNode { station, host, received, device }) = read else { continue };
        if ids.insert(station.node, (item, device)).is_some() {
            let help = "use a different id for each node, from 1 to 239";
            item.fault(format!("duplicate node id {}", station.node), help);
            continue;
        }
        let same = |other: &&NodeHost| host.store.is_some() && other.store == host.store;
        if let Some(path) = nodes.iter().find(same).and_then(|other| other.store.as_ref()) {
            let what = format!("duplicate store {}", path.display());
            item.fault(what, "use a different store for each node");
        }
        references.extend(received);
        network.nodes.push(station);
        nodes.push(host);
    }
    references.into_iter().for_each(|reference| reference.resolve(&mut network));
    for (node, (item, device)) in ids {
        let station = network.nodes.iter().find(|station| station.node == node);
        if let (Some(device), Some(station)) = (device, station) {
            let faults_before = faults.count();
            ability::check(item, &device, station, &network);
            if faults.count() > faults_before {
                continue;
            }
        }
        // An error of a node is reported at this node.
        if let Err(error) = network.check(node) {
            let help = "objects of signals must differ, match the device description, and \
                        fit into 1490 octets in each direction; a parameter must have the \
                        number of octets of its object";
            item.fault(error.to_string(), help);
        }
    }
    table.finish();
    let realtime = realtime.unwrap_or_default();
    let Descriptions { untrusted, inputs, .. } = descriptions;
    let file = File { network, managing, soc, nodes, project: None, realtime, untrusted, inputs };
    match project {
        Some(project) => file.with_project(project),
        None => file,
    }
}

/// `[managing]`.
#[derive(Default)]
struct ManagingTable {
    host: Host,
    soc: Option<Sender>,
    /// `basic-ethernet`.
    basic: bool,
    /// The outer `None` without a project, the inner one with an invalid project.
    project: Option<Option<Project>>,
}

/// Refuses what a project configures; returns a network without nodes.
fn of_project(root: &mut Table<'_>) -> Network {
    for key in ["network", "node"] {
        if let Some(value) = root.take(key) {
            let help = "remove it, or cdc; the project has the network and its nodes";
            value.fault(format!("{key} together with managing.cdc"), help);
        }
    }
    unset()
}

/// A network with the defaults, without nodes.
fn unset() -> Network {
    Network {
        cycle_us: 10_000,
        async_slot_ns: ASYNC_SLOT_US * 1000,
        pre_operational_1_us: PRE_OPERATIONAL_1_MS * 1000,
        soc_tolerance_ns: 0,
        soc_jitter_ns: 0,
        threshold: THRESHOLD,
        node_threshold: 2 * THRESHOLD,
        multiplexed_cycles: 0,
        prescaler: PRESCALER,
        start_all: false,
        basic_ethernet: false,
        nodes: Vec::new(),
    }
}

/// The `[network]` table, without nodes.
fn network(root: &mut Table<'_>) -> Network {
    let mut network = unset();
    let table = root.require("network", "{ cycle-us = 10000 }").and_then(|value| value.table());
    if let Some(mut table) = table {
        let cycle = table.require("cycle-us", "10000").and_then(|value| value.number(CYCLE_US));
        network.cycle_us = cycle.unwrap_or(network.cycle_us);
        let mut number = |key, range| table.take(key).and_then(|value| value.number(range));
        let slot_us = number("async-slot-us", 10..=1_000_000).unwrap_or(ASYNC_SLOT_US);
        network.async_slot_ns = slot_us * 1000;
        let wait_ms = number("pre-operational-1-ms", 0..=1_000_000);
        network.pre_operational_1_us = wait_ms.unwrap_or(PRE_OPERATIONAL_1_MS) * 1000;
        let tolerance_us = number("soc-tolerance-us", 0..=1_000_000);
        // Default: half a cycle.
        let tolerance_us = tolerance_us.unwrap_or(network.cycle_us.min(2_000_000) / 2);
        network.soc_tolerance_ns = tolerance_us * 1000;
        let jitter_us = number("soc-jitter-us", 0..=1_000_000);
        network.soc_jitter_ns = jitter_us.unwrap_or(0) * 1000;
        network.threshold = number("loss-threshold", 0..=1_000_000).unwrap_or(THRESHOLD);
        // The managing node detects a loss before the node leaves the cycle, and reports the reason.
        let node_threshold = number("node-loss-threshold", 0..=1_000_000);
        network.node_threshold = node_threshold.unwrap_or(2 * network.threshold);
        let prescaler = table.take("prescaler").and_then(|value| value.number(0..=1000));
        network.prescaler = prescaler.unwrap_or(PRESCALER);
        let start = [("each", false), ("all", true)];
        let start = table.take("start").and_then(|value| value.choice(&start));
        network.start_all = start.unwrap_or(false);
        let cycles = table.take("multiplexed-cycles").and_then(|value| value.number(1..=u8::MAX));
        network.multiplexed_cycles = cycles.unwrap_or(0);
        table.finish();
    }
    network
}

/// The keys `interface`, `backend` and `virtual-ethernet` of a table.
fn host(table: &mut Table<'_>) -> Host {
    let named = table.take("interface").and_then(|value| interface::read(&value));
    let backend = table.take("backend").and_then(|value| value.choice(&Backend::ALL));
    let virtual_ethernet = table.take("virtual-ethernet").and_then(|value| {
        let name = interface::read(&value)?;
        if Some(&name) == named.as_ref() {
            let help = "use another name, such as \"plk0\": the interface is created";
            value.fault(format!("{name:?} is the interface of the bus"), help);
            return None;
        }
        Some(name)
    });
    Host { interface: named, backend: backend.unwrap_or_default(), virtual_ethernet }
}

/// The sender of SoC.
fn soc(value: &Value<'_>, backend: Backend) -> Option<Sender> {
    let sender = value.choice(&Sender::ALL)?;
    if sender == Sender::Automatic && !backend.launches() {
        let what = format!("back end {backend} does not support launch times");
        value.fault(what, "use backend = \"txtime\" or \"module\", or soc = \"process\"");
        return None;
    }
    Some(sender)
}

#[cfg(test)]
mod tests;
