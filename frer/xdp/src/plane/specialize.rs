//! Programs for the features in use. A change that requires more replaces the programs first, then changes the tables;
//! a change that leaves some unused replaces them last. Each frame is processed by one program: none is lost.

use std::collections::{BTreeMap, HashMap};
use std::ops::BitOr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use onbeat_frer::dataplane::{PortSpec, ReceiveQueues};
use onbeat_frer::spec::MAX_PORTS;

use super::entries::{Entry, MemberActions};
use super::{Plane, Port, index, splits};
use crate::abi::constants as c;
use crate::abi::frer_split;
use crate::compile::{Key, State};
use crate::error::{Context, Result};
use crate::features::{Features, OnlyMember};
use crate::programs::{Instance, InstanceSpec, ProgramPurpose};

/// Features by slot of the port.
pub(super) type PortFeatures = BTreeMap<u8, Features>;

/// Adds what an entry requires.
fn require(ports: &mut PortFeatures, port: u8, more: Features) {
    let features = ports.entry(port).or_insert(Features::NONE);
    *features = *features | more;
}

/// Whether only the programs of a port draw numbers of its generators, one at a time.
pub(super) fn has_exclusive_generators(queues: ReceiveQueues, features: Features) -> bool {
    queues == ReceiveQueues::Single && !features.shares_generators()
}

/// Sets of ports with keys of a generator, by its slot.
#[derive(Debug, Default)]
pub(super) struct GeneratorPorts(HashMap<u32, u64>);

impl GeneratorPorts {
    /// Adds a key at a port, which leads to this function.
    pub(super) fn add(&mut self, state: State, port: u8) {
        if let State::Generator(slot) = state {
            *self.0.entry(slot).or_default() |= 1 << port;
        }
    }

    /// Adds what generators of several ports require there.
    pub(super) fn require(&self, features: &mut PortFeatures) {
        let several = self.0.values().filter(|ports| ports.count_ones() > 1);
        let shared = several.fold(0, |all, ports| all | ports);
        for port in (0..MAX_PORTS as u8).filter(|port| shared & 1 << port != 0) {
            require(features, port, Features::SHARED_GENERATOR);
        }
    }
}

impl Plane {
    /// Loads the programs of a port.
    pub(super) fn load(
        &mut self,
        slot: u8,
        features: Features,
        &PortSpec { queues, mode, .. }: &PortSpec,
    ) -> Result<Instance> {
        let spec = InstanceSpec {
            port: slot,
            features,
            serial_queues: queues != ReceiveQueues::Concurrent,
            exclusive_generators: has_exclusive_generators(queues, features),
            test_clock: self.test_clock,
            redundancy: self.lre.role(slot, mode),
        };
        Instance::load(&mut self.maps, &spec)
    }

    /// Returns what the entries in the tables require of the programs of a port.
    pub(super) fn features_at(&self, slot: u8) -> Features {
        let entries = self.entries.iter().filter(|(key, _)| key.port() == slot);
        let features = entries.map(|(key, entry)| self.features_of_entry(key, entry));
        let features = features.fold(Features::NONE, Features::bitor);
        let mut shared = PortFeatures::new();
        self.generator_ports().require(&mut shared);
        // Programs of an earlier process may use entries that streams do not have any more.
        let unknown = if self.swept { Features::NONE } else { Features::SHARED_GENERATOR };
        features | unknown | shared.get(&slot).copied().unwrap_or(Features::NONE)
    }

    /// Returns the ports with keys of generators.
    fn generator_ports(&self) -> GeneratorPorts {
        let mut ports = GeneratorPorts::default();
        self.entries.iter().for_each(|(key, entry)| ports.add(entry.does.state, key.port()));
        ports
    }

    /// Returns what the entries in the tables require.
    fn features(&self) -> PortFeatures {
        let mut ports = PortFeatures::new();
        for (key, entry) in &self.entries {
            require(&mut ports, key.port(), self.features_of_entry(key, entry));
        }
        self.generator_ports().require(&mut ports);
        ports
    }

    /// Returns what a change of a key requires, before and after: `does` is its new entry, if it is not removed.
    pub(super) fn require_change(
        &self,
        ports: &mut PortFeatures,
        key: &Key,
        does: Option<&MemberActions>,
    ) {
        // Constants of its member would be wrong at once.
        let features = does.map_or(Features::NONE, |does| {
            self.features_of(key, does, &self.tables.splits.get(does.split))
        });
        require(ports, key.port(), features | Features::of_member(None));
    }

    /// Adds what entries of an earlier process may require, whose streams are not known.
    pub(super) fn require_unknown(&self, ports: &mut PortFeatures) {
        for port in self.ports.values() {
            require(ports, port.slot, Features::SHARED_GENERATOR);
        }
    }

    /// Returns what an entry requires, and its member.
    fn features_of_entry(&self, key: &Key, entry: &Entry) -> Features {
        let split = self.tables.splits.get(entry.does.split);
        let features = self.features_of(key, &entry.does, &split);
        let (uses, tag) = (features.bits(), u32::from(split.tag));
        let more = c::USES_REWRITE | c::USES_INDIVIDUAL;
        let is_usual = [(c::USES_TO_GENERATE, c::TAG_PUSH), (c::USES_TO_ELIMINATE, c::TAG_POP)]
            .contains(&(uses & !more, tag));
        // The only edit of such programs, besides that of the R-TAG.
        let sets_vid = split.up.flags == 0 && u32::from(split.rewrite.flags) == c::REWRITE_VLAN;
        let is_usual = is_usual && (uses & c::USES_REWRITE == 0 || sets_vid);
        let only = match (key, entry.does.state) {
            (Key::L2(l2), State::Generator(state) | State::Recovery(state)) if is_usual => {
                let (is_group, target) = splits::target(&split);
                let (destination, vid) = (l2.address & 0xffff_ffff_ffff, key.vid());
                Some(OnlyMember {
                    destination,
                    vid,
                    member: entry.slot,
                    state,
                    individual: entry.does.individual & c::FUNCTIONS_SLOT,
                    uses,
                    target,
                    is_group,
                    new_vid: split.rewrite.vid,
                })
            }
            _ => None,
        };
        features | Features::of_member(only)
    }

    /// Returns what an entry requires; `split`: the content of its split.
    fn features_of(&self, key: &Key, does: &MemberActions, split: &frer_split) -> Features {
        let functions = Features::of_functions(does.state, does.individual, split);
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
        let without = |loaded| loaded | Features::of_member(None);
        self.replace(|slot, loaded| used.get(&slot).copied().unwrap_or(without(loaded)))
    }

    /// Loads programs for all features, the largest ones.
    ///
    /// # Errors
    /// The kernel refuses.
    #[doc(hidden)]
    pub fn load_all_features(&mut self) -> Result<()> {
        self.replace(|_, _| Features::ALL)
    }

    /// Replaces the programs of ports whose role in the link redundancy entity became another one.
    pub(super) fn replace_roles(&mut self) -> Result<()> {
        self.replace(|_, loaded| loaded)
    }

    /// Replaces the programs of ports whose receive queues became other ones.
    pub(super) fn replace_for_queues(&mut self) -> Result<()> {
        self.replace(|_, loaded| loaded)
    }

    /// Before a port has exclusive generators: waits for program runs that draw from them at other ports, by entries
    /// that were removed, and removes marks.
    fn exclude_others(&self, exclusive: &[u8]) -> Result<()> {
        if exclusive.is_empty() {
            return Ok(());
        }
        self.grace.wait(self.grace.now())?;
        for (key, entry) in &self.entries {
            if let (State::Generator(slot), true) =
                (entry.does.state, exclusive.contains(&key.port()))
            {
                let next = &self.tables.generators.entry(slot)[0];
                next.fetch_and(!c::GENERATOR_SHARED, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Replaces the programs of each port whose features become other ones.
    fn replace(&mut self, features: impl Fn(u8, Features) -> Features) -> Result<()> {
        if self.maps.purpose() == ProgramPurpose::Steer {
            return Ok(());
        }
        let becomes_exclusive = |port: &&Port| {
            let new = features(port.slot, port.features);
            !port.has_exclusive_generators && has_exclusive_generators(port.queues, new)
        };
        let exclusive = self.ports.values().filter(becomes_exclusive).map(|port| port.slot);
        let exclusive: Vec<u8> = exclusive.collect();
        self.exclude_others(&exclusive)?;
        let (mut is_replaced, mut is_shared) = (false, false);
        for (name, port) in &mut self.ports {
            let new = features(port.slot, port.features);
            let redundancy = self.lre.role(port.slot, port.mode);
            let exclusive_generators = has_exclusive_generators(port.queues, new);
            if new == port.features
                && redundancy == port.redundancy
                && exclusive_generators == port.has_exclusive_generators
            {
                continue;
            }
            let spec = InstanceSpec {
                port: port.slot,
                features: new,
                serial_queues: port.queues != ReceiveQueues::Concurrent,
                exclusive_generators,
                test_clock: self.test_clock,
                redundancy,
            };
            let programs = Instance::load(&mut self.maps, &spec)?;
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
            (port.programs, port.features, port.redundancy) = (programs, new, redundancy);
            is_shared |= port.has_exclusive_generators && !exclusive_generators;
            port.has_exclusive_generators = exclusive_generators;
            is_replaced = true;
        }
        if is_shared {
            // The next change of the tables may allow other programs to draw numbers.
            self.grace.wait(self.grace.now())?;
        }
        // They refer to a program of LAN B.
        if is_replaced { self.write_lans() } else { Ok(()) }
    }
}
