//! The `[node]` and `[[port]]` tables.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};

use onbeat_frer::spec::{MAX_PORTS, PortId};
use onbeat_frer_user::PollMode;
use onbeat_frer_xdp::check_pin_path;
use onbeat_netdev::MAX_NAME;
use onbeat_realtime::Profile;
use onbeat_wire::MacAddress;

use super::reader::Value;
use super::text::{is_name, name_rule};
use super::{
    Backend, EventsConfig, InterfaceKind, Mode, NodeConfig, PortConfig, PortIds, Promiscuous,
    Protocol, VETH_SUFFIX,
};
use super::{events, interface, managed, prp, realtime, stored};

/// Default of `max-streams`.
const DEFAULT_MAX_STREAMS: u32 = 4096;

/// Maximum of `max-streams`: the index range of the tables.
const MAX_STREAMS: u32 = 65536;

/// `sun_path` of a socket address, without its closing 0.
const SOCKET_PATH_LENGTH: usize = 107;

/// Parent of the default pin directories.
pub(crate) const PINS: &str = "/sys/fs/bpf/onbeat";

/// Default pin directory of the node with this name.
pub(crate) fn default_pin(name: &str) -> PathBuf {
    Path::new(PINS).join(name)
}

pub(super) fn read(value: Option<Value<'_>>, file: &str) -> (NodeConfig, Option<Range<usize>>) {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    let mut config = NodeConfig {
        name: stem.filter(|stem| is_name(stem)).unwrap_or("node").into(),
        protocol: Protocol::default(),
        backend: Backend::default(),
        poll: PollMode::default(),
        realtime: Profile::default(),
        max_streams: DEFAULT_MAX_STREAMS,
        control: PathBuf::new(),
        readers: None,
        ptp_socket: None,
        tag: None,
        managed_by: None,
        managers: None,
        managed_file: PathBuf::new(),
        stored_streams: PathBuf::new(),
        pin: PathBuf::new(),
        events: EventsConfig::default(),
        guard: None,
    };
    let (mut control, mut pin, mut control_at) = (None, None, None);
    let (mut stored, mut managed) = (None, None);
    if let Some(mut table) = value.and_then(|value| value.table()) {
        if let Some(name) = table.take("name").and_then(|value| read_name(&value)) {
            config.name = name;
        }
        let protocol = table.take("protocol").and_then(|value| value.choice(&Protocol::ALL));
        config.protocol = protocol.unwrap_or_default();
        let backend = table.take("backend").and_then(|value| {
            let backend = value.choice(&Backend::ALL)?;
            supported(&value, config.protocol, backend)
        });
        config.backend = backend.unwrap_or(config.protocol.default_backend());
        let poll = [("epoll", PollMode::Sleep), ("busy", PollMode::Busy)];
        let poll = table.take("poll").and_then(|value| value.choice(&poll));
        config.poll = poll.unwrap_or_default();
        config.realtime =
            table.take("realtime").map(|value| realtime::read(&value)).unwrap_or_default();
        if let Some(value) = table.take("max-streams") {
            config.max_streams = value.number(1..=MAX_STREAMS).unwrap_or(DEFAULT_MAX_STREAMS);
        }
        config.events = table.take("events").map(|value| events::read(&value)).unwrap_or_default();
        let named = table.take("control");
        control_at = named.as_ref().map(Value::span);
        control = named.and_then(|value| path(&value, SOCKET_PATH_LENGTH));
        config.readers = table.take("readers").and_then(|value| read_group(&value));
        let ptp_socket = table.take("ptp-socket");
        config.ptp_socket = ptp_socket.and_then(|value| path(&value, SOCKET_PATH_LENGTH));
        config.tag = table.take("tag").and_then(|value| read_name(&value));
        config.managed_by = table.take("managed-by").and_then(|value| read_name(&value));
        let managers = table.take("managers");
        if let (Some(value), None) = (&managers, &config.managed_by) {
            value.fault(
                "only a node with managed-by has managers",
                "set managed-by = \"fleet\", or remove it",
            );
        }
        config.managers = managers.and_then(|value| read_group(&value));
        managed = table.take("managed-file").and_then(|value| read_file(&value));
        stored = table.take("stored-streams").and_then(|value| read_file(&value));
        pin = table.take("pin").and_then(|value| read_pin(&value));
        table.finish();
    }
    config.control = control
        .unwrap_or_else(|| Path::new(onbeat_host::RUN).join(format!("{}.sock", config.name)));
    config.stored_streams = stored.unwrap_or_else(|| stored::default_file(&config.name));
    config.managed_file = managed.unwrap_or_else(|| managed::default_file(&config.name));
    config.pin = pin.unwrap_or_else(|| default_pin(&config.name));
    (config, control_at)
}

fn path(value: &Value<'_>, longest: usize) -> Option<PathBuf> {
    let text = value.text()?;
    if !text.starts_with('/') || text.contains('\0') {
        value.fault(format!("{text:?} is not an absolute path"), "use a path that starts with /");
    } else if text.len() > longest {
        value.fault(
            format!("the path has {} octets, more than the {longest} of Linux", text.len()),
            "use a shorter path",
        );
    } else {
        return Some(text.into());
    }
    None
}

/// A file to write.
fn read_file(value: &Value<'_>) -> Option<PathBuf> {
    let file = path(value, 4095)?;
    if file.file_name().is_some() {
        return Some(file);
    }
    value.fault(
        format!("{file:?} does not end in a file name"),
        "write it such as /var/lib/onbeat/a.toml",
    );
    None
}

/// The name of a group, as useradd(8) permits it.
fn read_group(value: &Value<'_>) -> Option<String> {
    const LONGEST: usize = 32;
    let group = value.text()?;
    let is_first = |octet: u8| octet.is_ascii_alphabetic() || octet == b'_';
    let is_next = |octet: u8| is_first(octet) || octet.is_ascii_digit() || b".-".contains(&octet);
    let mut octets = group.bytes();
    if group.len() <= LONGEST && octets.next().is_some_and(is_first) && octets.all(is_next) {
        return Some(group.into());
    }
    value.fault(format!("{group:?} is not the name of a group"), "use a name of /etc/group");
    None
}

/// A pin directory. Only the path is checked: it may be for another machine.
fn read_pin(value: &Value<'_>) -> Option<PathBuf> {
    let pin = path(value, 4095)?;
    match check_pin_path(&pin) {
        Ok(()) => Some(pin),
        Err(reason) => {
            value.fault(
                format!("{pin:?} {reason}"),
                "use a separate directory in a BPF file system, such as /sys/fs/bpf/onbeat/NAME",
            );
            None
        }
    }
}

/// The name of a node, port or stream.
pub(super) fn read_name(value: &Value<'_>) -> Option<String> {
    let name = value.text()?;
    if is_name(name) {
        return Some(name.into());
    }
    value.fault(format!("{name:?} is not a valid name"), format!("use {}", name_rule()));
    None
}

/// Returns the back end if it supports the protocol.
fn supported(value: &Value<'_>, protocol: Protocol, backend: Backend) -> Option<Backend> {
    if protocol.supports(backend) {
        return Some(backend);
    }
    value.fault(
        format!("the back end {:?} does not support protocol = \"prp\"", backend.to_string()),
        "use \"packet\" or \"xdp\", or leave it out",
    );
    None
}

/// The ports, and their names. A faulty port keeps its name and number, so that streams that use it have no fault.
pub(super) fn read_ports(values: Vec<Value<'_>>, node: &NodeConfig) -> (Vec<PortConfig>, PortIds) {
    let of_node = node.backend;
    let mut ports = Vec::new();
    let mut ids = HashMap::new();
    let mut interfaces: HashMap<String, String> = HashMap::new();
    for (n, value) in values.into_iter().enumerate() {
        let Ok(id) = u8::try_from(n)
            .map_err(drop)
            .and_then(|n| if usize::from(n) < MAX_PORTS { Ok(PortId(n)) } else { Err(()) })
        else {
            value.fault(
                format!("this is port {}, more than the {MAX_PORTS} of a node", n + 1),
                "remove ports, or use two nodes",
            );
            break;
        };
        let Some(mut table) = value.table() else { continue };
        let name_value = table.require("name", "\"path1\"");
        let name = name_value.as_ref().and_then(read_name).unwrap_or_default();
        if let (Some(value), false) = (&name_value, name.is_empty()) {
            match ids.entry(name.clone()) {
                Entry::Occupied(_) => {
                    value.fault(
                        format!("another port is named {name:?}"),
                        "give each port its own name",
                    );
                }
                Entry::Vacant(entry) => {
                    entry.insert(id);
                }
            }
        }
        let interface_value = table.require("interface", "\"eth0\"");
        let create =
            table.take("create").and_then(|value| value.choice(&[("veth", InterfaceKind::Veth)]));
        let interface = interface_value.as_ref().and_then(|value| read_interface(value, create));
        if let (Some(value), Some(interface)) = (&interface_value, &interface) {
            if let Some(other) = interfaces.insert(interface.clone(), name.clone()) {
                value.fault(
                    format!("port {other:?} already has the interface {interface:?}"),
                    "give each port its own interface; one port serves both directions",
                );
            }
        }
        let backend = table.take("backend");
        let backend = backend.and_then(|value| {
            let backend = read_port_backend(&value, &name, of_node)?;
            supported(&value, node.protocol, backend)
        });
        let lan = table.take("lan").and_then(|value| {
            let lan = value.choice(&prp::LANS)?;
            if node.protocol == Protocol::Prp {
                return Some(lan);
            }
            value.fault(
                "only ports of a node with protocol = \"prp\" have a LAN",
                "set protocol = \"prp\" in [node], or remove it",
            );
            None
        });
        let mode = table.take("mode").and_then(|value| {
            value.choice(&[
                ("auto", Mode::Auto),
                ("native", Mode::Native),
                ("generic", Mode::Generic),
            ])
        });
        let mtu = table.take("mtu").and_then(|value| value.number(68..=65535));
        let mac = table.take("mac").and_then(|value| read_mac(&value, create));
        let promiscuous = table.take("promiscuous").and_then(|value| {
            value.choice(&[
                ("auto", Promiscuous::Auto),
                ("yes", Promiscuous::Yes),
                ("no", Promiscuous::No),
            ])
        });
        table.finish();
        ports.push(PortConfig {
            name,
            interface: interface.unwrap_or_default(),
            backend: backend.unwrap_or(of_node),
            mode: mode.unwrap_or_default(),
            lan,
            mtu,
            create,
            promiscuous: promiscuous.unwrap_or_default(),
            whole_frames: node.protocol == Protocol::Prp && create.is_none(),
            mac,
        });
    }
    (ports, ids)
}

fn read_mac(value: &Value<'_>, create: Option<InterfaceKind>) -> Option<MacAddress> {
    let mac = value.mac_address()?;
    if create.is_none() {
        value.fault(
            "only interfaces that the node makes get an address",
            "set create = \"veth\", or remove it",
        );
    } else if !mac.is_unicast() {
        value.fault(
            format!("{mac} is not the address of one interface"),
            "write it such as 02:00:00:00:00:01",
        );
    }
    Some(mac)
}

fn read_port_backend(value: &Value<'_>, port: &str, of_node: Backend) -> Option<Backend> {
    let backend = value.choice(&Backend::ALL)?;
    if backend.is_user_space() == of_node.is_user_space() {
        return Some(backend);
    }
    value.fault(
        format!(
            "port {port:?} has the back end {:?} and the node {:?}; ports in the kernel and ports in the \
             daemon cannot share the state of a stream",
            backend.to_string(),
            of_node.to_string()
        ),
        "remove it, or set backend = \"packet\" or \"xsk\" in [node]: its ports may use either of \
         these two",
    );
    None
}

fn read_interface(value: &Value<'_>, create: Option<InterfaceKind>) -> Option<String> {
    let name = interface::read(value)?;
    let longest = MAX_NAME - create.map_or(0, |InterfaceKind::Veth| VETH_SUFFIX.len());
    if name.len() <= longest {
        return Some(name);
    }
    value.fault(
        format!(
            "{name:?} is too long: the other end is named {:?}",
            format!("{name}{VETH_SUFFIX}")
        ),
        format!("use {longest} characters at most with create = \"veth\""),
    );
    None
}
