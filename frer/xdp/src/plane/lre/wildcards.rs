//! Wildcards: bpf/wildcard.h. Each is an entity, and all draw from the number space of the first one.
//!
//! ```text
//!   lre_scopes: port, VLAN  ──►  entity, role of the port;  entity  ──►  lre_paths: both paths
//! ```

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use libbpf_rs::{MapCore, MapFlags};
use nix::time::ClockId;
use onbeat_bpf::{MappedArray, PlainData};
use onbeat_frer::dataplane::Mode;
use onbeat_frer::prp::{HostPort, Reading};
use onbeat_frer::wildcard::{MAX_IN_KERNEL, Scope, Wildcard, WildcardReading};

use super::super::Plane;
use super::super::grace::GracePeriods;
use super::super::groups::{new_group, put};
use super::state::{Entity, State};
use super::tables::{LreTables, address, is_of, key, word};
use super::{EntitySlots, ports_word};
use crate::abi::constants as c;
use crate::abi::frer_lre_scopes;
use crate::error::{Error, Result};
use crate::owner::owner;

const _: () = assert!(c::WILDCARDS as usize == MAX_IN_KERNEL);
// A change may replace all.
const _: () = assert!(c::LRE_ENTITIES >= 2 * c::WILDCARDS);

/// The entities of wildcards that an earlier process left.
pub(super) fn of_earlier_process(tables: &LreTables) -> Vec<u32> {
    let is_wildcard = |entity: &u32| tables.load_of(*entity, word::NAME_OWNER) != 0;
    (0..tables.entity.capacity()).filter(is_wildcard).collect()
}

/// Returns the wildcards of each port, by slot. `wildcards`: by precedence, with their entities and ports.
fn scopes(wildcards: &[(u32, Scope, EntitySlots)]) -> BTreeMap<u8, frer_lre_scopes> {
    let mut ports: BTreeMap<u8, frer_lre_scopes> = BTreeMap::new();
    for (entity, scope, slots) in wildcards {
        for (slot, role) in slots.iter().zip(super::ROLES) {
            let of_port = ports.entry(*slot).or_default();
            let value = u64::from(entity << c::SCOPE_ENTITY | role);
            match scope {
                Scope::All => of_port.all = value,
                Scope::Vlan(vlan) => {
                    of_port.of_vlan[of_port.vlans as usize] =
                        u64::from(*vlan) << c::SCOPE_VLAN | value;
                    of_port.vlans += 1;
                }
            }
            if role != c::LRE_HOST && of_port.first == 0 {
                of_port.first = value;
            }
        }
    }
    ports
}

impl Plane {
    /// Sets the wildcards of the node. Those of the same names continue with their tables and counters, and the numbers of
    /// the node continue.
    ///
    /// # Errors
    /// A port is not attached; the tables are too small; the kernel refuses.
    pub fn set_wildcards(&mut self, names: &[String], wildcards: &[Wildcard]) -> Result<()> {
        let Some(first) = wildcards.first() else {
            return if self.lre.wildcards.is_empty() { Ok(()) } else { self.remove_entities() };
        };
        let mut wildcards = wildcards.to_vec();
        wildcards.sort_by_key(|wildcard| wildcard.scope);
        let slots = wildcards.iter().map(|wildcard| self.entity_slots(names, &wildcard.link));
        let slots = slots.collect::<Result<Vec<_>>>()?;
        if wildcards.len() > MAX_IN_KERNEL {
            return Err(Error::Wildcards { wanted: wildcards.len() });
        }
        let max_nodes = wildcards.iter().map(|wildcard| u32::from(wildcard.link.max_nodes));
        self.fit_nodes(max_nodes.sum())?;
        if self.lre.slots.is_some() {
            self.remove_entities()?;
        }
        self.lre.wildcards.clone_from(&slots);
        // Without entries of their ports, the programs pass all frames.
        self.replace_roles()?;
        if self.lre.state.is_none() {
            let tables = LreTables::open(&self.maps)?;
            self.lre.state = Some(Mutex::new(State::new(tables, &[], &self.grace)?));
        }
        let (now_ns, tick_ns) = (self.lre_now_ns()?, self.tick_ns);
        let mut entries = Vec::new();
        if let Some(mut state) = self.lre.state() {
            state.tables.set_period(first.link.entry_forget_ms, tick_ns);
            if state.tables.load(word::SILENT_UNTIL_NS) == 0 {
                let silent_until_ns = now_ns.saturating_add(first.link.reboot_silence_ns());
                state.tables.store(word::SILENT_UNTIL_NS, silent_until_ns.max(1));
            }
            let entities = state.set_wildcards(&wildcards, &slots)?;
            for ((entity, wildcard), slots) in entities.into_iter().zip(&wildcards).zip(slots) {
                entries.push((entity, wildcard.scope, slots));
            }
        }
        self.write_paths()?;
        self.write_scopes(&scopes(&entries))?;
        match self.lre.state() {
            Some(mut state) => state.remove_other_wildcards(&self.grace),
            None => Ok(()),
        }
    }

    /// Returns the state of the wildcards, by precedence.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_wildcards(&self) -> Result<Vec<WildcardReading>> {
        let (Some(mut state), false) = (self.lre.state(), self.lre.wildcards.is_empty()) else {
            return Ok(Vec::new());
        };
        let now_ns = self.lre_now_ns()?;
        state.free_retired(&self.grace)?;
        let silence_ms = state.tables.silence_ms(self.clock_ns(ClockId::CLOCK_MONOTONIC_COARSE)?);
        let mut readings = Vec::new();
        let sources = state.tables.sources();
        for at in 0..state.entities.len() {
            let read = state.read_frames(at, &sources)?;
            state.remove_unused(at, &sources, &read, now_ns, &self.grace)?;
            let name = state.entities[at].name.clone();
            let link = state.read(at)?;
            // A wildcard has no other one at its host port.
            let link = link.map(|link| Reading { host_port: HostPort::default(), ..link });
            readings.extend(link.map(|link| WildcardReading { name, silence_ms, link }));
        }
        Ok(readings)
    }

    /// Writes the interfaces of the paths of all wildcards: a new map replaces the present one at once.
    pub(in super::super) fn write_paths(&self) -> Result<()> {
        let (Some(state), false) = (self.lre.state(), self.lre.wildcards.is_empty()) else {
            return Ok(());
        };
        let is_skipped = self.skips_ports_that_are_down();
        let mut paths = Vec::new();
        // Those of an earlier process keep their paths until they are set.
        for entity in state.entities.iter().filter(|entity| entity.parameters.is_some()) {
            let [a, b, _] = &entity.slots;
            let of_entity = self.ports.values().filter(|port| [a, b].contains(&&port.slot));
            let map = new_group(2)?;
            for (at, port) in (0_u32..).zip(of_entity.filter(|port| port.up || is_skipped)) {
                // An interface that is missing has no entry: its return attaches the port again.
                let _ = map.update(at.octets(), self.egress_entry(port).octets(), MapFlags::ANY);
            }
            paths.push((entity.index, map));
        }
        if paths.is_empty() { Ok(()) } else { put(&self.maps.handle("lre_paths")?, &paths) }
    }

    /// Whether the kernel leaves out a port that is down. In generic mode it would keep the frame from the other ones.
    pub(in super::super) fn skips_ports_that_are_down(&self) -> bool {
        self.ports.values().all(|port| port.mode == Mode::Native)
    }

    /// Sets the wildcards of ports, and removes those of all others. A frame meanwhile is in a former or a present one.
    fn write_scopes(&self, ports: &BTreeMap<u8, frer_lre_scopes>) -> Result<()> {
        let table = MappedArray::<frer_lre_scopes>::new(&self.maps.handle("lre_scopes")?)?;
        for slot in 0..c::MAX_PORTS {
            let scopes = ports.get(&(slot as u8)).copied().unwrap_or_default();
            let words = table.entry(slot);
            let store = |at: usize, value: u64| words[at].store(value, Release);
            store(offset_of!(frer_lre_scopes, first) / 8, scopes.first);
            let of_vlan = offset_of!(frer_lre_scopes, of_vlan) / 8;
            let places = offset_of!(frer_lre_scopes, vlans) / 8;
            let vlan = |word: u64| word >> c::SCOPE_VLAN;
            let wanted = &scopes.of_vlan[..scopes.vlans as usize];
            // Those that stay keep their places.
            let kept = |word: &AtomicU64| {
                let former = vlan(word.load(Relaxed));
                wanted.iter().copied().find(|wanted| vlan(*wanted) == former).unwrap_or(0)
            };
            let mut next: Vec<u64> = words[of_vlan..].iter().map(kept).collect();
            for wanted in wanted {
                if !next.contains(wanted) {
                    let free = next.iter_mut().find(|word| **word == 0);
                    *free.expect("as many places as wildcards") = *wanted;
                }
            }
            let used = next.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            let before = words[places].load(Relaxed);
            store(places, before.max(used as u64));
            for (at, word) in next.iter().enumerate() {
                store(of_vlan + at, *word);
            }
            store(offset_of!(frer_lre_scopes, all) / 8, scopes.all);
            store(places, used as u64);
        }
        Ok(())
    }

    /// Removes the wildcards of all ports.
    pub(super) fn clear_scopes(&self) -> Result<()> {
        if self.maps.has("lre_scopes") { self.write_scopes(&BTreeMap::new()) } else { Ok(()) }
    }
}

impl State {
    /// Sets the wildcards, and returns their entities. Programs find new ones by the entries of `lre_scopes`.
    fn set_wildcards(&mut self, wildcards: &[Wildcard], slots: &[EntitySlots]) -> Result<Vec<u32>> {
        let owners: Vec<u64> = wildcards.iter().map(|of| owner("wildcard", &[&of.name])).collect();
        let used: Vec<u64> = (0..self.tables.entity.capacity())
            .map(|entity| self.tables.load_of(entity, word::NAME_OWNER))
            .collect();
        // Programs still use those of wildcards that are removed.
        let unused = used.iter().zip(0..).filter(|(owner, _)| **owner == 0);
        let mut free = unused.map(|(_, entity)| entity);
        let mut former = std::mem::take(&mut self.entities);
        for ((wildcard, owner), slots) in wildcards.iter().zip(&owners).zip(slots) {
            let Wildcard { name, link, .. } = wildcard;
            let index = match used.iter().position(|of| of == owner) {
                Some(index) => index as u32,
                None => {
                    let index = free.next().expect("twice as many entities as wildcards");
                    self.tables.reset(index)?;
                    index
                }
            };
            let mut entity = match former.iter().position(|entity| entity.index == index) {
                Some(at) => former.swap_remove(at),
                None => Entity::new(index, &self.tables),
            };
            let tables = &self.tables;
            tables.store_of(index, word::MAC, address(link.mac));
            tables.store_of(index, word::IS_SEGMENT, u64::from(link.is_segment));
            tables.store_of(index, word::MAX_SOURCES, link.max_nodes.into());
            tables.store_of(index, word::NAME_OWNER, *owner);
            tables.entity.entry(index)[word::PORTS].store(ports_word(*slots), Release);
            tables.proxies.remove(&key(index, link.mac))?;
            entity.nodes.remove(link.mac);
            entity.name.clone_from(name);
            entity.slots = *slots;
            entity.parameters = Some(link.clone());
            self.entities.push(entity);
        }
        Ok(self.entities.iter().map(|entity| entity.index).collect())
    }

    /// Ends the entities of wildcards that the node has no more. No entry of `lre_scopes` refers to them.
    fn remove_other_wildcards(&mut self, grace: &GracePeriods) -> Result<()> {
        let mut gone = of_earlier_process(&self.tables);
        gone.retain(|index| !self.entities.iter().any(|entity| entity.index == *index));
        if gone.is_empty() {
            return Ok(());
        }
        // A program may be about to add a source.
        grace.wait(grace.now())?;
        for index in gone {
            self.remove_sources(index, grace)?;
            self.tables.reset(index)?;
        }
        Ok(())
    }

    /// Removes the sources and stations of an entity.
    fn remove_sources(&mut self, index: u32, grace: &GracePeriods) -> Result<()> {
        for (key, slot) in self.tables.sources() {
            if is_of(index, key) {
                self.tables.nodes.remove(&key)?;
                self.retired.push(self.tables.retire(slot, grace));
            }
        }
        self.tables.stations(index).iter().try_for_each(|key| self.tables.proxies.remove(key))
    }
}
