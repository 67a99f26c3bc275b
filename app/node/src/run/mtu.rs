//! Changes of the MTU of ports, checked against the streams.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_frer::spec::PortId;

use super::assembly::Node;
use super::events::EventSubject;
use crate::config::narrow_paths;
use crate::control::EventDetail;

/// MTUs of ports.
pub(super) type Mtus = BTreeMap<String, u32>;

impl Node {
    /// Reads the MTUs of ports that are not known yet.
    pub(super) fn read_mtus(&mut self) {
        let ports = &self.setup.ports;
        self.mtus.retain(|name, _| ports.iter().any(|port| port.name == *name));
        for port in ports {
            if let (false, Some(mtu)) = (self.mtus.contains_key(&port.name), self.devices.mtu(port))
            {
                self.mtus.insert(port.name.clone(), mtu);
            }
        }
    }

    /// Records an event if the MTU of port number `index` changed.
    pub(super) fn report_mtu(&mut self, index: usize) {
        let port = &self.setup.ports[index];
        let Some(mtu) = self.devices.mtu(port) else { return };
        let Some(before) = self.mtus.insert(port.name.clone(), mtu) else { return };
        if before == mtu {
            return;
        }
        let mut mtus: Vec<_> =
            self.setup.ports.iter().map(|port| self.mtus.get(&port.name).copied()).collect();
        let why = self.narrow(index, &mtus);
        // Until the next reading, frames may have been lost that fit by now.
        mtus[index] = Some(before);
        for narrow in narrow_paths(self.setup.streams.iter(), &self.setup.wildcards, &mtus) {
            self.upkeep.output.note_narrow(&self.setup.port(narrow.port).name);
        }
        let port = &self.setup.ports[index];
        let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
        let interface = port.attached_interface();
        self.events.record(&subject, EventDetail::PortMtu { interface, mtu, before, why });
    }

    /// Streams that port number `index` sends or receives whose frames may not fit, and the remedy.
    fn narrow(&self, index: usize, mtus: &[Option<u32>]) -> Option<String> {
        let is_port = |port: PortId| usize::from(port.0) == index;
        let receives = |name: &str| {
            let stream = self.setup.streams.get(name);
            let mut wildcards = self.setup.wildcards.iter();
            stream.is_some_and(|stream| stream.members.iter().any(|member| is_port(member.port)))
                || wildcards.any(|wildcard| wildcard.name == name && is_port(wildcard.link.host))
        };
        let paths = narrow_paths(self.setup.streams.iter(), &self.setup.wildcards, mtus);
        let mut paths: Vec<_> =
            paths.filter(|path| is_port(path.port) || receives(path.stream)).collect();
        // Those of the port itself first; the widest requirement covers all streams of its port.
        paths.sort_by_key(|path| (!is_port(path.port), std::cmp::Reverse(path.needed)));
        let first = *paths.first()?;
        let to = self.setup.port(first.port);
        let interface = to.attached_interface();
        let streams: BTreeSet<&str> = paths.iter().map(|path| path.stream).collect();
        let others = match streams.len() - 1 {
            0 => String::new(),
            1 => " and of one other stream".to_owned(),
            others => format!(" and of {others} other streams"),
        };
        Some(format!(
            "the longest frames of stream {:?}{others} no longer fit: port {:?} requires \
             {}; run: ip link set {interface} mtu {}",
            first.stream, to.name, first.needed, first.needed
        ))
    }
}
