//! Ports whose interface becomes a port of a bridge, bond or team, which takes its frames besides.

use std::collections::BTreeMap;

use super::assembly::Node;
use super::events::EventSubject;
use crate::control::EventDetail;

/// By port: its interface, and the index of the bridge, bond or team of that.
pub(super) type Masters = BTreeMap<String, (String, Option<u32>)>;

/// Kinds of interfaces that take the frames of their ports.
const KINDS: [&str; 3] = ["bridge", "bond", "team"];

impl Node {
    /// Returns the present interface of port number `index`, and its master; `None`: it is missing.
    fn master(&self, index: usize) -> Option<(String, Option<u32>)> {
        let interface = self.setup.ports[index].attached_interface();
        let handle = &self.devices.handle;
        let master = handle.link(&interface).ok()?.master;
        let takes_frames = |index: &u32| {
            let kind = handle.link_by_index(*index).ok().and_then(|link| link.kind);
            kind.is_some_and(|kind| KINDS.contains(&kind.as_str()))
        };
        Some((interface, master.filter(takes_frames)))
    }

    /// Reads the masters of ports that are not known yet: those of the start are intended.
    pub(super) fn read_masters(&mut self) {
        let ports = &self.setup.ports;
        self.masters.retain(|name, _| ports.iter().any(|port| port.name == *name));
        for index in 0..self.setup.ports.len() {
            let name = &self.setup.ports[index].name;
            let interface = self.setup.ports[index].attached_interface();
            let is_known = self.masters.get(name).is_some_and(|(of, _)| *of == interface);
            if let (false, Some(master)) = (is_known, self.master(index)) {
                self.masters.insert(name.clone(), master);
            }
        }
    }

    /// Records an event if the master of port number `index` changed.
    pub(super) fn report_master(&mut self, index: usize) {
        // An interface that is missing keeps what it was.
        let Some((interface, master)) = self.master(index) else { return };
        let port = &self.setup.ports[index];
        let before = self.masters.insert(port.name.clone(), (interface.clone(), master));
        if before.is_none_or(|(of, before)| of != interface || before == master) {
            return;
        }
        let name = |index: u32| {
            let link = self.devices.handle.link_by_index(index);
            link.map_or_else(|_| format!("interface {index}"), |link| link.name)
        };
        let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
        let master = master.map(name);
        self.events.record(&subject, EventDetail::PortMaster { interface, master });
    }
}
