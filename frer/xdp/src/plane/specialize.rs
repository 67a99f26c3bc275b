//! Programs for the features in use. A change that requires more replaces the programs first, then changes the tables;
//! a change that leaves some unused replaces them last. Each frame is processed by one program: none is lost.

use std::collections::BTreeMap;
use std::ops::BitOr;
use std::os::fd::AsFd;

use super::entries::MemberActions;
use super::{Plane, Port, index};
use crate::compile::Key;
use crate::error::{Context, Result};
use crate::features::Features;
use crate::programs::{Instance, ProgramPurpose};

/// Features by slot of the port.
pub(super) type PortFeatures = BTreeMap<u8, Features>;

impl Plane {
    /// Loads the programs of a port.
    pub(super) fn load(
        &mut self,
        slot: u8,
        features: Features,
        serial_queues: bool,
    ) -> Result<Instance> {
        Instance::load(&mut self.maps, slot, features, serial_queues, self.test_clock)
    }

    /// Returns what the entries in the tables require of the programs of a port.
    pub(super) fn features_at(&self, slot: u8) -> Features {
        let entries = self.entries.iter().filter(|(key, _)| key.port() == slot);
        let features = entries.map(|(key, entry)| self.features_of(key, &entry.does));
        features.fold(Features::NONE, Features::bitor)
    }

    /// Returns what the entries in the tables require.
    fn features(&self) -> PortFeatures {
        let mut ports = PortFeatures::new();
        for (key, entry) in &self.entries {
            self.require(&mut ports, key, &entry.does);
        }
        ports
    }

    /// Adds what an entry requires.
    pub(super) fn require(&self, ports: &mut PortFeatures, key: &Key, does: &MemberActions) {
        let features = ports.entry(key.port()).or_insert(Features::NONE);
        *features = *features | self.features_of(key, does);
    }

    /// Returns what an entry requires.
    fn features_of(&self, key: &Key, does: &MemberActions) -> Features {
        let split = self.tables.splits.get(does.split);
        let functions = Features::of_functions(does.state, does.individual, &split);
        let place = match key {
            Key::L2(key) => self.tables.l2().find(key),
            Key::Ip(_) | Key::Mask(_) => None,
        };
        let line = place.map_or(Features::NONE, |place| Features::of_line(index::line(place)));
        Features::of_kind(key.kind()) | functions | line
    }

    /// Replaces the programs of ports that lack a feature.
    pub(super) fn widen(&mut self, needed: &PortFeatures) -> Result<()> {
        self.replace(|slot, loaded| match needed.get(&slot) {
            Some(needed) if !loaded.cover(*needed) => loaded | *needed,
            _ => loaded,
        })
    }

    /// Replaces the programs of ports that have features which no stream uses.
    pub(super) fn narrow(&mut self) -> Result<()> {
        let used = self.features();
        // Without streams at the port, no stream is any faster.
        self.replace(|slot, loaded| used.get(&slot).copied().unwrap_or(loaded))
    }

    /// Loads programs for all features, the largest ones.
    ///
    /// # Errors
    /// The kernel refuses.
    #[doc(hidden)]
    pub fn load_all_features(&mut self) -> Result<()> {
        self.replace(|_, _| Features::ALL)
    }

    /// Replaces the programs of each port whose features become other ones.
    fn replace(&mut self, features: impl Fn(u8, Features) -> Features) -> Result<()> {
        if self.maps.purpose() == ProgramPurpose::Steer {
            return Ok(());
        }
        for (name, port) in &mut self.ports {
            let new = features(port.slot, port.features);
            if new == port.features {
                continue;
            }
            let Port { slot, serial_queues, .. } = *port;
            let programs =
                Instance::load(&mut self.maps, slot, new, serial_queues, self.test_clock)?;
            if let Some(link) = &port.link {
                // Another process may have replaced or detached the program: then this one is not restored here.
                let info = link.info().context(|| "read a link".to_string())?;
                if Some(info.program) == port.program {
                    let replaced = link.update(programs.ingress().as_fd());
                    replaced.context(|| format!("replace the program of port {name:?}"))?;
                    let info = link.info().context(|| "read a link".to_string())?;
                    port.program = Some(info.program);
                }
            }
            (port.programs, port.features) = (programs, new);
        }
        Ok(())
    }
}
