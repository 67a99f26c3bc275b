//! A network and where its nodes run, from one TOML file (docs/reference/powerlink.md).

mod node;
mod object;
mod xdd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat_config::{
    ConfigError, Faults, LoadError, Source, Table, Value, file, interface, realtime,
};
use onbeat_host::trust::{self, Untrusted};
use onbeat_link::Backend;
use onbeat_powerlink::network::Network;
use onbeat_realtime::Profile;
use onbeat_report::Input;
use onbeat_wire::MacAddress;

use crate::{Pattern, Sender};
use xdd::Descriptions;

/// Shortest and longest cycle, in microseconds.
const CYCLE_US: std::ops::RangeInclusive<u32> = 200..=10_000_000;
/// 0x1C09 and the like.
const THRESHOLD: u32 = 15;
/// 0x1F98/9.
const PRESCALER: u16 = 2;
/// As wide as a reduced cycle's slot is where nobody says else: software at either end of it.
const ASYNC_SLOT_US: u32 = 500;
/// 0x1F89/3.
const PRE_OPERATIONAL_1_MS: u32 = 500;

/// A network, and where its nodes run.
#[derive(Debug, Clone)]
pub struct File {
    /// The network.
    pub network: Network,
    /// Where the managing node runs.
    pub managing: Host,
    /// Who sends its SoC; `None`: as is usual with its back end.
    pub soc: Option<Sender>,
    /// Of each node of the network, in its order.
    pub nodes: Vec<NodeHost>,
    /// What the thread of a node asks of the host.
    pub realtime: Profile,
    /// Why a privileged process must not act on it: another user could have written it, or a file that
    /// it names.
    pub untrusted: Option<Untrusted>,
    /// The file and the device descriptions that it names, with their hashes.
    pub inputs: Vec<Input>,
}

/// Where a node runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// The interface; where there is none, the command line must say.
    pub interface: Option<String>,
    /// What moves its frames.
    pub backend: Backend,
    /// The interface by which the host takes part in the IP network of the bus.
    pub virtual_ethernet: Option<String>,
}

/// Where a controlled node runs, and what its simulated values do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHost {
    /// Where it runs.
    pub host: Host,
    /// The file that keeps its parameters, where it has one.
    pub store: Option<PathBuf>,
    /// Who answers its polls; `None`: as is usual with its back end.
    pub response: Option<Sender>,
    /// Of each of its inputs.
    pub inputs: Vec<Pattern>,
    /// Of each of its outputs, which the managing node gives.
    pub outputs: Vec<Pattern>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no network.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        // Before it is read: a path that passes leads to the same file from then on.
        let checked = trust::check_file(path);
        let (text, name) = file::load(path)?;
        let mut parsed = Self::parse(&text, &name)?;
        parsed.untrusted = checked.err().or(parsed.untrusted);
        parsed.inputs.insert(0, Input::of_file(path.to_string_lossy(), text.as_bytes()));
        Ok(parsed)
    }

    /// Reads a text; `name` is what its faults call it.
    ///
    /// # Errors
    /// It is no network: every fault, with its place.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let source = Source { file: name.into(), text: text.into() };
        let root = file::parse(text, &source)?;
        let faults = Faults::default();
        let mut table = Table::root(&root, &faults);
        let mut network = network(&mut table);
        let managing = table.take("managing").and_then(|value| {
            let mut table = value.table()?;
            let host = host(&mut table);
            let basic = table.take("basic-ethernet").and_then(|value| value.flag());
            network.basic_ethernet = basic.unwrap_or(false);
            let soc = table.take("soc").and_then(|value| soc(&value, host.backend));
            table.finish();
            Some((host, soc))
        });
        let realtime = table.take("realtime").map(|value| realtime::read(&value));
        let items = table.items("node");
        if items.is_empty() && faults.count() == 0 {
            table.fault("the network has no node", "add [[node]] with id = 1");
        }
        let mut descriptions = Descriptions::beside(Path::new(name));
        let (mut nodes, mut ids): (Vec<NodeHost>, _) = (Vec::new(), BTreeMap::new());
        for item in &items {
            let Some((station, host)) = node::read(item, &network, &mut descriptions) else {
                continue;
            };
            if ids.insert(station.node, ()).is_some() {
                let help = "give each node an id of its own, from 1 to 239";
                item.fault(format!("there are two nodes with id {}", station.node), help);
                continue;
            }
            let same = |other: &&NodeHost| host.store.is_some() && other.store == host.store;
            if let Some(path) = nodes.iter().find(same).and_then(|other| other.store.as_ref()) {
                let what = format!("two nodes keep their parameters in {}", path.display());
                item.fault(what, "give each node a store of its own");
            }
            network.nodes.push(station);
            nodes.push(host);
            // What is wrong with this one is told at this one.
            let only = Network {
                nodes: network.nodes.last().cloned().into_iter().collect(),
                ..network.clone()
            };
            if let Err(error) = only.managing(MacAddress::default()) {
                let help = "objects of signals must differ, be as a device description has them, and \
                            fit into 1490 octets each way; a parameter's octets must be as many \
                            as its object has";
                item.fault(error.to_string(), help);
            }
        }
        table.finish();
        faults.judge(&source)?;
        let ((managing, soc), realtime) =
            (managing.unwrap_or_default(), realtime.unwrap_or_default());
        let Descriptions { untrusted, inputs, .. } = descriptions;
        Ok(File { network, managing, soc, nodes, realtime, untrusted, inputs })
    }
}

/// The `[network]` table, without nodes.
fn network(root: &mut Table<'_>) -> Network {
    let mut network = Network {
        cycle_us: 10_000,
        async_slot_ns: ASYNC_SLOT_US * 1000,
        pre_operational_1_us: PRE_OPERATIONAL_1_MS * 1000,
        soc_tolerance_ns: 0,
        soc_jitter_ns: 0,
        threshold: THRESHOLD,
        multiplexed_cycles: 0,
        prescaler: PRESCALER,
        start_all: false,
        basic_ethernet: false,
        nodes: Vec::new(),
    };
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
        // Half a cycle, unless the file says else.
        let tolerance_us = tolerance_us.unwrap_or(network.cycle_us.min(2_000_000) / 2);
        network.soc_tolerance_ns = tolerance_us * 1000;
        let jitter_us = number("soc-jitter-us", 0..=1_000_000);
        network.soc_jitter_ns = jitter_us.unwrap_or(0) * 1000;
        network.threshold = number("loss-threshold", 0..=1_000_000).unwrap_or(THRESHOLD);
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
            let help = "give it a name of its own, such as \"plk0\": the interface is made";
            value.fault(format!("{name:?} is the interface of the bus"), help);
            return None;
        }
        Some(name)
    });
    Host { interface: named, backend: backend.unwrap_or_default(), virtual_ethernet }
}

/// Who sends SoC.
fn soc(value: &Value<'_>, backend: Backend) -> Option<Sender> {
    let sender = value.choice(&Sender::ALL)?;
    if sender == Sender::Automatic && !backend.launches() {
        let what = format!("the back end {backend} does not send at an instant by itself");
        value.fault(what, "take backend = \"txtime\" or \"module\", or soc = \"process\"");
        return None;
    }
    Some(sender)
}

#[cfg(test)]
mod tests;
