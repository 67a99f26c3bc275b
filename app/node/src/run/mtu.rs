//! Changes of the MTU of ports, checked against the streams.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_frer::spec::PortId;
use onbeat_netdev::Link;

use super::assembly::Node;
use super::events::EventSubject;
use super::prp::MAX_MTU;
use crate::config::{Frames, PortConfig};
use crate::control::EventDetail;

/// MTUs of interfaces.
pub(super) type Mtus = BTreeMap<String, u32>;

impl Node {
    /// Reads the MTUs of interfaces that are not known yet.
    pub(super) fn read_mtus(&mut self) {
        let interfaces: BTreeSet<String> = self.setup.ports.iter().flat_map(interfaces).collect();
        self.mtus.retain(|name, _| interfaces.contains(name));
        for name in interfaces {
            if let (false, Ok(link)) =
                (self.mtus.contains_key(&name), self.devices.handle.link(&name))
            {
                self.mtus.insert(name, link.mtu);
            }
        }
    }

    /// Records an event for each MTU of port number `index` that changed.
    pub(super) fn report_mtu(&mut self, index: usize) {
        for interface in interfaces(&self.setup.ports[index]) {
            let Ok(Link { mtu, .. }) = self.devices.handle.link(&interface) else { continue };
            let before = self.mtus.insert(interface.clone(), mtu);
            if before == Some(mtu) {
                continue;
            }
            let attached = self.setup.ports[index].attached_interface();
            let why = match self.mtus.get(&attached) {
                _ if interface == attached => self.report_narrow(index, before),
                Some(&room) if mtu > room => Some(format!(
                    "the node gets no packets of more than {room} octets from it; run: ip link set {interface} mtu \
                     {room}"
                )),
                _ => None,
            };
            // An interface that was missing at the start has no former MTU.
            if before.is_none() && why.is_none() {
                continue;
            }
            let before = before.unwrap_or(mtu);
            let port = &self.setup.ports[index];
            let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
            self.events.record(&subject, EventDetail::PortMtu { interface, mtu, before, why });
        }
    }

    /// Returns what no longer fits since the MTU of port number `index` changed.
    fn report_narrow(&mut self, index: usize, before: Option<u32>) -> Option<String> {
        let of = |port: &PortConfig| self.mtus.get(&port.attached_interface()).copied();
        let mut mtus: Vec<_> = self.setup.ports.iter().map(of).collect();
        let why = self.narrow(index, &mtus);
        // Until the next reading, frames may have been lost that fit by now.
        mtus[index] = before;
        for narrow in self.setup.narrow_paths(mtus) {
            self.upkeep.output.note_narrow(&self.setup.port(narrow.port).name);
        }
        why
    }

    /// Streams or a host whose frames may not fit by port number `index`, and the remedy.
    fn narrow(&self, index: usize, mtus: &[Option<u32>]) -> Option<String> {
        let is_port = |port: PortId| usize::from(port.0) == index;
        let lacks_size = self.setup.prp.as_ref().is_some_and(|link| is_port(link.host));
        if lacks_size && mtus[index].is_some_and(|mtu| mtu > MAX_MTU) {
            let interface = self.setup.ports[index].attached_interface();
            return Some(format!(
                "PRP carries packets of up to {MAX_MTU} octets; run: ip link set {interface} mtu {MAX_MTU}"
            ));
        }
        let receives = |frames| match frames {
            Frames::Stream(name) => {
                let stream = self.setup.streams.get(name);
                stream
                    .is_some_and(|stream| stream.members.iter().any(|member| is_port(member.port)))
            }
            Frames::Host(port) => is_port(port),
        };
        let mut paths: Vec<_> = self
            .setup
            .narrow_paths(mtus.to_vec())
            .into_iter()
            .filter(|path| is_port(path.port) || receives(path.frames))
            .collect();
        // Those of the port itself first; the widest requirement covers all frames of its port.
        paths.sort_by_key(|path| (!is_port(path.port), std::cmp::Reverse(path.needed)));
        let first = *paths.first()?;
        let to = self.setup.port(first.port);
        let interface = to.attached_interface();
        let of = match first.frames {
            Frames::Stream(name) => format!("stream {name:?}"),
            Frames::Host(host) => format!("port {:?}", self.setup.port(host).name),
        };
        let kinds: BTreeSet<Frames<'_>> = paths.iter().map(|path| path.frames).collect();
        let others = match kinds.len() - 1 {
            0 => String::new(),
            1 => " and of one other stream".to_owned(),
            others => format!(" and of {others} other streams"),
        };
        Some(format!(
            "the longest frames of {of}{others} no longer fit: port {:?} requires {}; run: ip link set \
             {interface} mtu {}",
            to.name, first.needed, first.needed
        ))
    }
}

/// The interface that the data plane uses, and that of the host's programs if the node creates both.
fn interfaces(port: &PortConfig) -> impl Iterator<Item = String> + use<> {
    let other = port.create.is_some().then(|| port.interface.clone());
    [port.attached_interface()].into_iter().chain(other)
}
