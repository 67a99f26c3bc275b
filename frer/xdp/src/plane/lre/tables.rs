//! The tables of the entity, which programs change at the same time.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_bpf::{MappedArray, PlainData};
use onbeat_wire::MacAddress;

use super::super::grace::{Epoch, GracePeriods};
use super::NS_PER_MS;
use crate::abi::constants as c;
use crate::abi::*;
use crate::error::{Context, Result};
use crate::programs::Maps;
use crate::table::Table;

/// Words of `frer_lre`.
pub(super) mod word {
    use std::mem::offset_of;

    use super::frer_lre;
    use super::frer_lre_source as source;

    pub(in super::super) const MAC: usize = offset_of!(frer_lre, mac) / 8;
    pub(in super::super) const LAN_MAC: usize = offset_of!(frer_lre, lan_mac) / 8;
    pub(in super::super) const PERIOD_NS: usize = offset_of!(frer_lre, period_ns) / 8;
    pub(in super::super) const SILENT_UNTIL_NS: usize = offset_of!(frer_lre, silent_until_ns) / 8;
    pub(in super::super) const IS_SEGMENT: usize = offset_of!(frer_lre, is_segment) / 8;
    pub(in super::super) const BLOCKED_UNTIL_NS: usize = offset_of!(frer_lre, blocked_until_ns) / 8;
    pub(in super::super) const BLOCKED_BY: usize = offset_of!(frer_lre, blocked_by) / 8;
    pub(in super::super) const HELLO_NS: usize = offset_of!(frer_lre, hello_ns) / 8;
    pub(in super::super) const IS_ON_LAN: usize = offset_of!(frer_lre, is_on_lan) / 8;
    pub(in super::super) const OTHER_NS: usize = offset_of!(frer_lre, other_ns) / 8;
    pub(in super::super) const BLOCKED_NS: usize = offset_of!(frer_lre, blocked_ns) / 8;
    pub(in super::super) const YIELDING_NS: usize = offset_of!(frer_lre, yielding_ns) / 8;
    pub(in super::super) const PORTS: usize = offset_of!(frer_lre, ports) / 8;
    pub(in super::super) const DRAWN: usize = offset_of!(frer_lre, drawn) / 8;
    pub(in super::super) const STARTED: usize = offset_of!(frer_lre, started) / 8;
    pub(in super::super) const INVALID_SUPERVISION: usize =
        offset_of!(frer_lre, invalid_supervision) / 8;
    pub(in super::super) const FOREIGN_CLAIMS: usize = offset_of!(frer_lre, foreign_claims) / 8;
    pub(in super::super) const NAME_OWNER: usize = offset_of!(frer_lre, owner) / 8;
    pub(in super::super) const SOURCES: usize = offset_of!(frer_lre, sources) / 8;
    pub(in super::super) const STATIONS: usize = offset_of!(frer_lre, stations) / 8;
    pub(in super::super) const MAX_SOURCES: usize = offset_of!(frer_lre, max_sources) / 8;

    pub(in super::super) const OWNER: usize = offset_of!(source, owner) / 8;
    pub(in super::super) const ALIAS: usize = offset_of!(source, alias) / 8;
    pub(in super::super) const NEWEST: usize = offset_of!(source, newest) / 8;
    pub(in super::super) const CONTRADICTED: usize = offset_of!(source, contradicted) / 8;
    pub(in super::super) const LANS: usize = offset_of!(source, lans) / 8;
    pub(in super::super) const HEARD: usize = offset_of!(source, heard) / 8;
    /// Of a record of a LAN.
    pub(in super::super) const RECORD: usize = size_of::<super::frer_lre_record>() / 8;
    pub(in super::super) const UNTAGGED: usize = offset_of!(super::frer_lre_record, untagged) / 8;
}

/// A lap of numbers, in the word of the newest one: all words are of earlier laps then.
const LAP: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct LreTables {
    pub(super) entity: MappedArray<frer_lre>,
    pub(super) nodes: Table<u64, u32>,
    pub(super) sources: MappedArray<frer_lre_source>,
    pub(super) numbers: MappedArray<frer_lre_numbers>,
    pub(super) singles: Table<u64, frer_lre_single>,
    pub(super) proxies: Table<u64, u64>,
    pub(super) lans: Table<u32, bpf_devmap_val>,
    pub(super) counters: MapHandle,
    pub(super) free: MapHandle,
    pub(super) supervision: MapHandle,
}

pub(super) fn address(mac: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

pub(super) fn mac(address: u64) -> MacAddress {
    let [a, b, c, d, e, f, ..] = address.to_le_bytes();
    MacAddress([a, b, c, d, e, f])
}

/// Returns the key of a source or station of an entity.
pub(super) fn key(entity: u32, mac: MacAddress) -> u64 {
    u64::from(entity) << c::LRE_KEY_SHIFT | address(mac)
}

/// Octets of an address in a word.
pub(super) const MAC_MASK: u64 = c::LRE_SOURCE - 1;

/// Returns whether a key is that of an entity.
pub(super) fn is_of(entity: u32, key: u64) -> bool {
    key >> c::LRE_KEY_SHIFT == u64::from(entity)
}

/// Returns `frer_lre_source::alias` of a source on a LAN.
pub(super) fn alias_word(alias: MacAddress, lan: usize) -> u64 {
    c::LRE_SOURCE | address(alias) | (lan as u64) << c::LRE_LAN_SHIFT
}

impl LreTables {
    pub(super) fn open(maps: &Maps) -> Result<Self> {
        Ok(Self {
            entity: MappedArray::new(&maps.handle("lre")?)?,
            nodes: Table::new(maps.handle("lre_nodes")?),
            sources: MappedArray::new(&maps.handle("lre_sources")?)?,
            numbers: MappedArray::new(&maps.handle("lre_numbers")?)?,
            singles: Table::new(maps.handle("lre_singles")?),
            proxies: Table::new(maps.handle("lre_proxies")?),
            lans: Table::new(maps.handle("lre_lans")?),
            counters: maps.handle("lre_counters")?,
            free: maps.handle("lre_free")?,
            supervision: maps.handle("lre_supervision")?,
        })
    }

    /// Returns a word of the first entity.
    pub(super) fn load(&self, word: usize) -> u64 {
        self.load_of(0, word)
    }

    /// Returns a word of an entity.
    pub(super) fn load_of(&self, entity: u32, word: usize) -> u64 {
        self.entity.entry(entity)[word].load(Relaxed)
    }

    /// Adds 1 to a counter of this process.
    pub(super) fn count(&self, word: usize) {
        self.entity.entry(0)[word].fetch_add(1, Relaxed);
    }

    /// Sets a word of the first entity.
    pub(super) fn store(&self, word: usize, value: u64) {
        self.store_of(0, word, value);
    }

    /// Sets a word of an entity.
    pub(super) fn store_of(&self, entity: u32, word: usize, value: u64) {
        self.entity.entry(entity)[word].store(value, Relaxed);
    }

    /// Ends an entity. Numbers and times are those of the node.
    pub(super) fn reset(&self, entity: u32) -> Result<()> {
        let of_node = [word::PERIOD_NS, word::SILENT_UNTIL_NS, word::DRAWN];
        let started = word::STARTED..word::STARTED + c::LRE_PERIODS as usize;
        for (at, word) in self.entity.entry(entity).iter().enumerate() {
            if !of_node.contains(&at) && !started.contains(&at) {
                word.store(0, Relaxed);
            }
        }
        self.reset_counters(entity)
    }

    /// Sets the length of a period. Numbers that are remembered by another one have no age any more.
    pub(super) fn set_period(&self, entry_forget_ms: u32, tick_ns: u64) {
        // The clock of the programs has no finer steps.
        let period_ns = (u64::from(entry_forget_ms) * NS_PER_MS / 2).max(tick_ns).max(1);
        if self.load(word::PERIOD_NS) != period_ns {
            self.store(word::PERIOD_NS, period_ns);
            (0..c::LRE_PERIODS as usize).for_each(|n| self.store(word::STARTED + n, 0));
            self.sources().iter().for_each(|(_, slot)| self.forget(*slot));
        }
    }

    /// Returns the rest of the silence after a start, in milliseconds; `None`: it has ended. `now_ns`: by the clock of the
    /// programs, which is late by a tick, or more on a loaded virtual machine.
    pub(super) fn silence_ms(&self, now_ns: u64) -> Option<u32> {
        let until_ns = self.load(word::SILENT_UNTIL_NS);
        let rest_ns = until_ns.checked_sub(now_ns).filter(|rest_ns| *rest_ns > 0)?;
        Some(u32::try_from(rest_ns.div_ceil(NS_PER_MS)).unwrap_or(u32::MAX))
    }

    /// Makes a slot available to programs. None uses it.
    pub(super) fn release(&self, slot: u32) -> Result<()> {
        self.numbers.entry(slot).iter().for_each(|word| word.store(0, Relaxed));
        self.sources.entry(slot).iter().for_each(|word| word.store(0, Relaxed));
        let pushed = self.free.update(&[], &slot.to_ne_bytes(), MapFlags::ANY);
        pushed.context(|| "return an entry of the NodesTable".to_owned())
    }

    /// Takes all free slots, and returns their number: those that no source uses are unknown after a restart.
    pub(super) fn drain(&self) -> usize {
        std::iter::from_fn(|| self.free.lookup_and_delete(&[]).ok().flatten()).count()
    }

    /// Counts the stations and sources of an entity; `sources`: those of all entities. Programs may add some meanwhile: the
    /// next call counts them.
    pub(super) fn count_entries(&self, entity: u32, sources: &[(u64, u32)]) {
        // A source and its alias have one slot.
        let of_entity = sources.iter().filter(|(key, _)| is_of(entity, *key));
        let slots: HashSet<u32> = of_entity.map(|(_, slot)| *slot).collect();
        self.store_of(entity, word::SOURCES, slots.len() as u64);
        self.store_of(entity, word::STATIONS, self.stations(entity).len() as u64);
    }

    /// Removes all sources and stations.
    pub(super) fn clear(&self) -> Result<()> {
        self.nodes.keys().iter().try_for_each(|key| self.nodes.remove(key).map(drop))?;
        self.singles.keys().iter().try_for_each(|key| self.singles.remove(key).map(drop))?;
        self.proxies.keys().iter().try_for_each(|key| self.proxies.remove(key).map(drop))
    }

    /// Returns the stations of an entity.
    pub(super) fn stations(&self, entity: u32) -> Vec<u64> {
        let mut keys = self.proxies.keys();
        keys.retain(|key| is_of(entity, *key));
        keys
    }

    /// Returns the sources of all entities, with their slots.
    pub(super) fn sources(&self) -> Vec<(u64, u32)> {
        let slot = |key: u64| Some((key, self.nodes.get(&key).ok()??));
        self.nodes.keys().into_iter().filter_map(slot).collect()
    }

    /// Ends the use of a slot; it is free after this epoch.
    pub(super) fn retire(&self, slot: u32, grace: &GracePeriods) -> (Epoch, u32) {
        self.sources.entry(slot)[word::OWNER].store(0, Relaxed);
        self.sources.entry(slot)[word::ALIAS].store(0, Relaxed);
        (grace.now(), slot)
    }

    /// Draws a number like the programs.
    pub(super) fn draw(&self, now_ns: u64) -> u16 {
        let period = (now_ns / self.load(word::PERIOD_NS).max(1)) as u32;
        let words = self.entity.entry(0);
        let started = &words[word::STARTED + (period % c::LRE_PERIODS) as usize];
        let before = started.load(Relaxed);
        if (before >> 32) as u32 != period {
            let drawn = u64::from(words[word::DRAWN].load(Relaxed) as u32);
            let start = u64::from(period) << 32 | drawn;
            let _ = started.compare_exchange(before, start, Relaxed, Relaxed);
        }
        words[word::DRAWN].fetch_add(1, Relaxed) as u16
    }

    /// Forgets the numbers in a slot, also while programs use it.
    pub(super) fn forget(&self, slot: u32) {
        let newest = &self.sources.entry(slot)[word::NEWEST];
        let later = |newest: u64| {
            (newest != 0).then(|| {
                newest & !0xffff_ffff | u64::from((newest as u32).wrapping_add(LAP as u32))
            })
        };
        let _ = newest.fetch_update(Relaxed, Relaxed, later);
    }

    /// Sets the counters of an entity to 0.
    pub(super) fn reset_counters(&self, entity: u32) -> Result<()> {
        let cpus = libbpf_rs::num_possible_cpus().context(|| "count CPUs".to_owned())?;
        let zeros = vec![vec![0; size_of::<frer_lre_counters>()]; cpus];
        (0..c::LRE_ROLES).try_for_each(|role| {
            let at = entity * c::LRE_ROLES + role;
            let reset = self.counters.update_percpu(&at.to_ne_bytes(), &zeros, MapFlags::ANY);
            reset.context(|| "reset counters of a wildcard".to_owned())
        })
    }

    /// Returns the counters of a role in an entity, of all CPUs.
    pub(super) fn counters(&self, entity: u32, role: u32) -> Result<frer_lre_counters> {
        let at = entity * c::LRE_ROLES + role;
        let values = self
            .counters
            .lookup_percpu(&at.to_ne_bytes(), MapFlags::ANY)
            .context(|| "read counters of a PRP node or wildcard".to_owned())?;
        let mut sum = [0_u64; size_of::<frer_lre_counters>() / 8];
        for octets in values.iter().flatten() {
            for (sum, word) in sum.iter_mut().zip(octets.chunks_exact(8)) {
                *sum += u64::from_ne_bytes(*word.first_chunk().expect("eight octets"));
            }
        }
        let octets: Vec<u8> = sum.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(frer_lre_counters::from_octets(&octets).expect("as many octets"))
    }
}
