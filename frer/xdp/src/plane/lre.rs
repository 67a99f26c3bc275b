//! The link redundancy entity of a PRP node: bpf/lre.h.
//!
//! ```text
//!   programs:  number, trailer, first copy?, records of sources  ──►  tables
//!                 │ supervision frames
//!                 ▼
//!   loader:    NodesTable (onbeat_frer::prp::Nodes) ──► aliases, entries to remove ──► tables
//! ```
//!
//! The tables outlive the daemon: numbered frames are forwarded without it in native mode. Supervision frames are not sent
//! meanwhile, and the programs of lans.rs have ended.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::time::{ClockId, clock_gettime};
use onbeat_bpf::{MappedArray, PlainData};
use onbeat_frer::dataplane::Mode;
use onbeat_frer::prp::{
    HostCounters, Lan, LanCounters, LanRecord, Nodes, Parameters, ProxyReading, Reading, Supervisor,
};
use onbeat_wire::prp::{Tail, supervision};
use onbeat_wire::{Frame, MacAddress};

use super::Plane;
use super::grace::{Epoch, GracePeriods};
use super::groups::egress_port;
use crate::abi::constants as c;
use crate::abi::*;
use crate::error::{Context, Error, Result};
use crate::lans::{LanPrograms, LanSpec};
use crate::programs::{Maps, RedundancyRole};
use crate::table::Table;

const NS_PER_MS: u64 = 1_000_000;

/// Words of `frer_lre`.
mod word {
    use std::mem::offset_of;

    use super::frer_lre;
    use super::frer_lre_source as source;

    pub(super) const MAC: usize = offset_of!(frer_lre, mac) / 8;
    pub(super) const LAN_MAC: usize = offset_of!(frer_lre, lan_mac) / 8;
    pub(super) const PERIOD_NS: usize = offset_of!(frer_lre, period_ns) / 8;
    pub(super) const SILENT_UNTIL_NS: usize = offset_of!(frer_lre, silent_until_ns) / 8;
    pub(super) const IS_SEGMENT: usize = offset_of!(frer_lre, is_segment) / 8;
    pub(super) const PORTS: usize = offset_of!(frer_lre, ports) / 8;
    pub(super) const DRAWN: usize = offset_of!(frer_lre, drawn) / 8;
    pub(super) const STARTED: usize = offset_of!(frer_lre, started) / 8;

    pub(super) const OWNER: usize = offset_of!(source, owner) / 8;
    pub(super) const ALIAS: usize = offset_of!(source, alias) / 8;
    pub(super) const NEWEST: usize = offset_of!(source, newest) / 8;
    pub(super) const CONTRADICTED: usize = offset_of!(source, contradicted) / 8;
    pub(super) const LANS: usize = offset_of!(source, lans) / 8;
    pub(super) const HEARD: usize = offset_of!(source, heard) / 8;
    /// Of a record of a LAN.
    pub(super) const RECORD: usize = size_of::<super::frer_lre_record>() / 8;
    pub(super) const UNTAGGED: usize = offset_of!(super::frer_lre_record, untagged) / 8;
}

/// A lap of numbers, in the word of the newest one: all words are of earlier laps then.
const LAP: u64 = 1 << 16;

/// Ports of the entity, by slot: LAN A, LAN B, host.
type Slots = [u8; 3];

/// The roles of these ports.
const ROLES: [u32; 3] = [c::LRE_LAN_A, c::LRE_LAN_B, c::LRE_HOST];

/// The entity of a node, if it has one.
#[derive(Debug, Default)]
pub(super) struct RedundancyEntity {
    slots: Option<Slots>,
    state: Option<Mutex<State>>,
}

impl RedundancyEntity {
    /// Returns the role of a port in this mode.
    pub(super) fn role(&self, slot: u8, mode: Mode) -> Option<RedundancyRole> {
        let slots = self.slots?;
        let role = ROLES[slots.iter().position(|of| *of == slot)?];
        let passes_copies = role == c::LRE_HOST && mode == Mode::Generic;
        Some(RedundancyRole { role, host: slots[2], passes_copies })
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tables of the entity, and what only the loader knows.
#[derive(Debug)]
struct State {
    tables: LreTables,
    /// `None`: adopted from an earlier process, and not set yet.
    parameters: Option<Parameters>,
    nodes: Nodes<u32>,
    /// Whether the NodesTable has what an earlier process noted.
    is_adopted: bool,
    supervisor: Supervisor,
    /// Slots that programs may still use.
    retired: Vec<(Epoch, u32)>,
    /// Supervision frames by LAN.
    invalid: [u64; 2],
    foreign: [u64; 2],
    /// For supervision frames.
    socket: OwnedFd,
    /// For frames of the interfaces' network stacks.
    lan_programs: Option<LanPrograms>,
}

#[derive(Debug)]
struct LreTables {
    entity: MappedArray<frer_lre>,
    nodes: Table<u64, u32>,
    sources: MappedArray<frer_lre_source>,
    numbers: MappedArray<frer_lre_numbers>,
    singles: Table<u64, frer_lre_single>,
    proxies: Table<u64, u64>,
    lans: Table<u32, bpf_devmap_val>,
    counters: MapHandle,
    free: MapHandle,
    supervision: MapHandle,
}

fn address(mac: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn mac(address: u64) -> MacAddress {
    let [a, b, c, d, e, f, ..] = address.to_le_bytes();
    MacAddress([a, b, c, d, e, f])
}

/// Octets of an address in a word.
const MAC_MASK: u64 = c::LRE_SOURCE - 1;

/// Returns `frer_lre_source::alias` of a source on a LAN.
fn alias_word(alias: MacAddress, lan: usize) -> u64 {
    c::LRE_SOURCE | address(alias) | (lan as u64) << c::LRE_LAN_SHIFT
}

impl LreTables {
    fn open(maps: &Maps) -> Result<Self> {
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

    fn load(&self, word: usize) -> u64 {
        self.entity.entry(0)[word].load(Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.entity.entry(0)[word].store(value, Relaxed);
    }

    /// Makes a slot available to programs. None uses it.
    fn release(&self, slot: u32) -> Result<()> {
        self.numbers.entry(slot).iter().for_each(|word| word.store(0, Relaxed));
        self.sources.entry(slot).iter().for_each(|word| word.store(0, Relaxed));
        let pushed = self.free.update(&[], &slot.to_ne_bytes(), MapFlags::ANY);
        pushed.context(|| "return an entry of the NodesTable".to_owned())
    }

    /// Takes all free slots, and returns their number: those that no source uses are unknown after a restart.
    fn drain(&self) -> usize {
        std::iter::from_fn(|| self.free.lookup_and_delete(&[]).ok().flatten()).count()
    }

    /// Returns sources with their slots.
    fn sources(&self) -> Vec<(u64, u32)> {
        let slot = |address: u64| Some((address, self.nodes.get(&address).ok()??));
        self.nodes.keys().into_iter().filter_map(slot).collect()
    }

    /// Ends the use of a slot; it is free after this epoch.
    fn retire(&self, slot: u32, grace: &GracePeriods) -> (Epoch, u32) {
        self.sources.entry(slot)[word::OWNER].store(0, Relaxed);
        self.sources.entry(slot)[word::ALIAS].store(0, Relaxed);
        (grace.now(), slot)
    }

    /// Draws a number like the programs.
    fn draw(&self, now_ns: u64) -> u16 {
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
    fn forget(&self, slot: u32) {
        let newest = &self.sources.entry(slot)[word::NEWEST];
        let later = |newest: u64| {
            (newest != 0).then(|| {
                newest & !0xffff_ffff | u64::from((newest as u32).wrapping_add(LAP as u32))
            })
        };
        let _ = newest.fetch_update(Relaxed, Relaxed, later);
    }

    /// Returns the counters of a role, of all CPUs.
    fn counters(&self, role: u32) -> Result<frer_lre_counters> {
        let values = self
            .counters
            .lookup_percpu(&role.to_ne_bytes(), MapFlags::ANY)
            .context(|| "read counters of a PRP node".to_owned())?;
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

impl State {
    fn new(tables: LreTables) -> Result<Self> {
        // Protocol 0: it receives nothing.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None);
        let socket = socket.map_err(|errno| Error::Socket { source: errno.into() })?;
        // Nodes with numbers, and single ones.
        let nodes = Nodes::new(2 * tables.sources.capacity() as usize);
        Ok(Self {
            tables,
            parameters: None,
            nodes,
            is_adopted: false,
            supervisor: Supervisor::default(),
            retired: Vec::new(),
            invalid: [0; 2],
            foreign: [0; 2],
            socket,
            lan_programs: None,
        })
    }

    /// Assigns slots to sources after a start: those without a source are free.
    fn assign_slots(&mut self, grace: &GracePeriods) -> Result<()> {
        let tables = &self.tables;
        // A program may be about to add a source, or to return the slot of one that another CPU has added.
        tables.drain();
        loop {
            grace.wait(grace.now())?;
            if tables.drain() == 0 {
                break;
            }
        }
        let used: Vec<u32> = tables.sources().into_iter().map(|(_, slot)| slot).collect();
        (0..tables.sources.capacity())
            .filter(|slot| !used.contains(slot))
            .try_for_each(|slot| tables.release(slot))
    }

    /// Sets the parameters, with the slots of the ports.
    fn set(&mut self, parameters: &Parameters, slots: Slots, now_ns: u64, tick_ns: u64) {
        let tables = &self.tables;
        let is_new = tables.load(word::PORTS) == 0;
        // The clock of the programs has no finer steps.
        let period_ns = (u64::from(parameters.entry_forget_ms) * NS_PER_MS / 2).max(tick_ns).max(1);
        if tables.load(word::PERIOD_NS) != period_ns {
            tables.store(word::PERIOD_NS, period_ns);
            (0..c::LRE_PERIODS as usize).for_each(|n| tables.store(word::STARTED + n, 0));
            tables.sources().iter().for_each(|(_, slot)| tables.forget(*slot));
        }
        let Parameters { a, b, mac, is_segment, .. } = parameters;
        tables.store(word::MAC, address(*mac));
        tables.store(word::LAN_MAC, address(a.mac));
        tables.store(word::LAN_MAC + 1, address(b.mac));
        tables.store(word::IS_SEGMENT, u64::from(*is_segment));
        if is_new {
            let silent_until_ns = now_ns.saturating_add(parameters.reboot_silence_ns());
            tables.store(word::SILENT_UNTIL_NS, silent_until_ns);
        }
        self.nodes.remove(*mac);
        let _ = tables.proxies.remove(&address(*mac));
        tables.entity.entry(0)[word::PORTS]
            .store(ports_word(slots), std::sync::atomic::Ordering::Release);
        self.parameters = Some(parameters.clone());
    }

    fn forget_ns(&self) -> u64 {
        2 * self.tables.load(word::PERIOD_NS)
    }

    /// Brings NodesTable and tables of the programs together: records, supervision frames, aliases, entries to remove.
    fn maintain(&mut self, now_ns: u64, grace: &GracePeriods) -> Result<()> {
        let Some(parameters) = self.parameters.clone() else { return Ok(()) };
        self.free_retired(grace)?;
        if !self.is_adopted {
            self.read_frames()?;
            self.adopt_aliases()?;
            self.is_adopted = true;
        }
        self.end_aliases(grace)?;
        let read = self.read_frames()?;
        self.note_supervision(&parameters)?;
        // A source may have supervised itself.
        self.end_aliases(grace)?;
        self.add_aliases(grace)?;
        let capacity = self.tables.sources.capacity() as usize;
        // A reserve for new sources until the next call.
        self.nodes.evict_numbers(capacity - (capacity / 8).max(1), now_ns, self.forget_ns());
        let node_forget_ns = u64::from(parameters.node_forget_ms) * NS_PER_MS;
        self.nodes.expire(now_ns, node_forget_ns);
        self.nodes.remove(parameters.mac);
        self.remove_others(&read, grace)?;
        let proxies = &self.tables.proxies;
        for address in proxies.keys() {
            let last_ns = proxies.get(&address)?;
            if last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) >= node_forget_ns) {
                proxies.remove(&address)?;
            }
        }
        Ok(())
    }

    /// Attaches the programs between the network stacks of interfaces and the entity.
    fn attach_to_stacks(&mut self, spec: LanSpec) -> Result<()> {
        if self.lan_programs.as_ref().is_none_or(|programs| programs.spec() != spec) {
            // The former programs run until the new ones do.
            self.lan_programs = Some(LanPrograms::open(spec)?);
        }
        Ok(())
    }

    fn free_retired(&mut self, grace: &GracePeriods) -> Result<()> {
        let (over, retired) = self.retired.drain(..).partition(|(epoch, _)| grace.is_over(*epoch));
        self.retired = retired;
        let over: Vec<(Epoch, u32)> = over;
        over.into_iter().try_for_each(|(_, slot)| self.tables.release(slot))
    }

    /// Continues with the aliases that an earlier process found.
    fn adopt_aliases(&mut self) -> Result<()> {
        for slot in 0..self.tables.sources.capacity() {
            let source = self.tables.sources.get(slot);
            let alias = source.alias & MAC_MASK;
            if source.alias != 0 && self.tables.nodes.get(&alias)? == Some(slot) {
                let lan = usize::from(source.alias >> c::LRE_LAN_SHIFT != 0);
                self.nodes.adopt_alias(mac(alias), lan, mac(source.owner));
            }
        }
        Ok(())
    }

    /// Ends aliases that a frame contradicted, or that the NodesTable has ended: the numbers can be those of two nodes.
    fn end_aliases(&mut self, grace: &GracePeriods) -> Result<()> {
        let aliases: HashMap<u64, u64> = self
            .nodes
            .aliases()
            .map(|(of, lan, node)| (alias_word(of, lan), address(node)))
            .collect();
        let mut ended = Vec::new();
        for slot in 0..self.tables.sources.capacity() {
            let source = self.tables.sources.entry(slot);
            let (owner, alias) =
                (source[word::OWNER].load(Relaxed), source[word::ALIAS].load(Relaxed));
            let is_contradicted = source[word::CONTRADICTED].load(Relaxed) != 0;
            let node = aliases.get(&alias).map(|node| c::LRE_SOURCE | node);
            let is_ended = alias != 0 && node != Some(owner);
            if !is_contradicted && !is_ended {
                continue;
            }
            self.nodes.end_alias(mac(owner));
            if alias != 0 {
                // Programs discard by neither source's numbers now; some may still note them.
                source[word::CONTRADICTED].store(1, Relaxed);
                self.tables.nodes.remove(&(alias & MAC_MASK))?;
            }
            ended.push(slot);
        }
        if !ended.is_empty() {
            grace.wait(grace.now())?;
        }
        for slot in ended {
            let source = self.tables.sources.entry(slot);
            self.tables.forget(slot);
            source[word::ALIAS].store(0, Release);
            source[word::CONTRADICTED].store(0, Release);
        }
        Ok(())
    }

    /// Reads the records of all sources into the NodesTable. Returns the sources with numbers, and their last frames.
    fn read_frames(&mut self) -> Result<HashMap<u64, [u64; 2]>> {
        let mut singles = HashSet::new();
        for address in self.tables.singles.keys() {
            let Some(single) = self.tables.singles.get(&address)? else { continue };
            if let Some(slot) = self.tables.nodes.get(&address)? {
                // It sends trailers by now.
                let source = self.tables.sources.entry(slot);
                for lan in (0..2).filter(|lan| single.untagged[*lan] > 0) {
                    let record = word::LANS + lan * word::RECORD;
                    source[record + word::UNTAGGED].fetch_add(single.untagged[lan], Relaxed);
                    source[record].fetch_max(single.last_ns[lan], Relaxed);
                    source[word::HEARD + lan].store(1, Relaxed);
                }
                self.tables.singles.remove(&address)?;
                continue;
            }
            let record = |lan: usize| LanRecord {
                last_ns: (single.untagged[lan] > 0).then_some(single.last_ns[lan]),
                untagged: single.untagged[lan],
                ..LanRecord::default()
            };
            let heard = single.untagged.map(|frames| frames > 0);
            self.nodes.set_frames(mac(address), [record(0), record(1)], heard, None);
            singles.insert(mac(address));
        }
        // The kernel evicts them by itself.
        self.nodes.retain_singles(|mac| singles.contains(&mac));
        let mut read = HashMap::new();
        for (address, slot) in self.tables.sources() {
            let source = self.tables.sources.get(slot);
            if source.owner != c::LRE_SOURCE | address {
                continue;
            }
            let record = |record: &frer_lre_record| LanRecord {
                last_ns: Some(record.last_ns).filter(|last_ns| *last_ns > 0),
                tagged: record.tagged,
                untagged: record.untagged,
                wrong_lan: record.wrong_lan,
            };
            let [a, b] = &source.lans;
            let heard = source.heard.map(|heard| heard != 0);
            self.nodes.set_frames(mac(address), [record(a), record(b)], heard, Some(slot));
            read.insert(address, source.lans.map(|record| record.last_ns));
        }
        Ok(read)
    }

    fn note_supervision(&mut self, parameters: &Parameters) -> Result<()> {
        let forget_ns = self.forget_ns();
        let mut frames = Vec::new();
        for _ in 0..c::LRE_WAITING {
            let octets = self.tables.supervision.lookup_and_delete(&[]);
            let octets = octets.context(|| "read supervision frames".to_owned())?;
            let Some(waiting) = octets.and_then(|o| frer_lre_supervision::from_octets(&o)) else {
                break;
            };
            let lan = usize::from(waiting.lan != 0);
            let octets = waiting.octets.get(..waiting.length as usize).unwrap_or(&waiting.octets);
            let frame = Frame::parse(octets).ok();
            let view = frame.as_ref().map(|frame| supervision::View::new_checked(frame.payload()));
            let (Some(frame), Some(Ok(view))) = (&frame, view) else {
                self.invalid[lan] += 1;
                continue;
            };
            let content = supervision::Repr::parse(&view);
            let is_proxy = self.tables.proxies.get(&address(content.node))?.is_some();
            if content.node == parameters.mac || is_proxy || !content.node.is_unicast() {
                self.foreign[lan] += 1;
                continue;
            }
            frames.push((frame.source(), lan, content, waiting.at_ns));
        }
        if frames.len() == c::LRE_WAITING as usize {
            // Frames were lost: those that contradict a claim can be among them.
            self.nodes.forget_claims();
            frames.retain(|(source, _, content, _)| {
                *source == content.node || content.redbox.is_some()
            });
        }
        for (source, lan, content, at_ns) in frames {
            self.nodes.supervised(source, lan, &content, at_ns, forget_ns);
        }
        Ok(())
    }

    /// Adds new aliases to the tables: both sources then have the numbers of the node.
    fn add_aliases(&mut self, grace: &GracePeriods) -> Result<()> {
        let tables = &self.tables;
        for (alias, lan, node) in self.nodes.aliases() {
            let of = |mac: MacAddress| tables.nodes.get(&address(mac));
            let (of_alias, of_node) = (of(alias)?, of(node)?);
            let Some(slot) = of_node.or(of_alias) else { continue };
            let value = alias_word(alias, lan);
            let source = tables.sources.entry(slot);
            if source[word::ALIAS].load(Relaxed) == value && of_alias == of_node {
                continue;
            }
            source[word::OWNER].store(c::LRE_SOURCE | address(node), Relaxed);
            source[word::ALIAS].store(value, Relaxed);
            if of_node.is_none() {
                // It was the slot of the alias. If a program has added the node meanwhile, the next call joins both.
                if !tables.nodes.insert(&address(node), &slot)? {
                    source[word::OWNER].store(c::LRE_SOURCE | address(alias), Relaxed);
                    source[word::ALIAS].store(0, Relaxed);
                    continue;
                }
                source[word::HEARD + lan].store(0, Relaxed);
            }
            tables.nodes.set(&address(alias), &slot)?;
            if let Some(former) = of_alias.filter(|former| *former != slot) {
                let records =
                    word::LANS + lan * word::RECORD..word::LANS + (lan + 1) * word::RECORD;
                let former_source = tables.sources.entry(former);
                // Of the time of the last frame, either is good.
                for at in records.skip(1) {
                    source[at].fetch_add(former_source[at].load(Relaxed), Relaxed);
                }
                self.retired.push(tables.retire(former, grace));
            }
        }
        Ok(())
    }

    /// Removes entries of sources that the NodesTable does not have, unless they are new or were heard since `read`.
    fn remove_others(&mut self, read: &HashMap<u64, [u64; 2]>, grace: &GracePeriods) -> Result<()> {
        let tables = &self.tables;
        let is_gone = |address: u64| !self.nodes.contains(mac(address));
        let is_idle = |address: u64, slot: u32| {
            let source = tables.sources.get(slot);
            let is_owner = source.owner == c::LRE_SOURCE | address;
            let last_ns = source.lans.map(|record| record.last_ns);
            // An alias has no record of its own.
            !is_owner || read.get(&address) == Some(&last_ns)
        };
        let (gone, kept): (Vec<_>, Vec<_>) = tables
            .sources()
            .into_iter()
            .partition(|(address, slot)| is_gone(*address) && is_idle(*address, *slot));
        for (address, slot) in gone {
            tables.nodes.remove(&address)?;
            let is_used = kept.iter().any(|(_, used)| *used == slot);
            let is_retired = self.retired.iter().any(|(_, retired)| *retired == slot);
            if !is_used && !is_retired {
                self.retired.push(tables.retire(slot, grace));
            }
        }
        for address in tables.singles.keys().into_iter().filter(|address| is_gone(*address)) {
            tables.singles.remove(&address)?;
        }
        Ok(())
    }

    /// Sends a supervision frame on both LANs, numbered like the frames of the host.
    fn send(&mut self, now_ns: u64, octets: &[u8], lans: [Option<u32>; 2]) {
        let Ok(frame) = Frame::parse(octets) else { return };
        let number = self.tables.draw(now_ns);
        let Some(mut tail) = Tail::of(&frame, number, Lan::A) else { return };
        self.supervisor.sent += 1;
        for (lan, ifindex) in [Lan::A, Lan::B].into_iter().zip(lans) {
            tail.set_lan(lan);
            let Some(ifindex) = ifindex else { continue };
            // A LAN that is down has none; the other one has its copy.
            let _ = send_to(&self.socket, ifindex, &[octets, &tail].concat());
        }
    }

    fn read(&self) -> Result<Option<Reading>> {
        let Some(parameters) = &self.parameters else { return Ok(None) };
        let tables = &self.tables;
        let [a, b, host] = ROLES.map(|role| tables.counters(role));
        let (a, b, host) = (a?, b?, host?);
        let lan = |counters: frer_lre_counters, lan: usize| {
            let supervision = counters.supervision.saturating_sub(self.invalid[lan]);
            LanCounters {
                received: counters.passed
                    + counters.own
                    + counters.accepted
                    + counters.duplicates
                    + counters.untagged
                    + counters.supervision,
                passed: counters.passed,
                own: counters.own,
                own_of_other_lan: counters.own_of_other_lan,
                accepted: counters.accepted,
                duplicates: counters.duplicates,
                untagged: counters.untagged,
                supervision,
                invalid_supervision: counters.supervision - supervision,
                foreign_claims: self.foreign[lan],
                wrong_lan: counters.wrong_lan,
                without_entry: counters.without_entry,
                malformed: counters.malformed,
            }
        };
        let proxies = tables.proxies.keys().into_iter().map(|address| {
            let last_ns = tables.proxies.get(&address)?;
            Ok(last_ns.map(|last_ns| ProxyReading { mac: mac(address), last_ns }))
        });
        let mut proxies: Vec<_> = proxies.filter_map(Result::transpose).collect::<Result<_>>()?;
        proxies.sort_unstable_by_key(|proxy| proxy.mac);
        Ok(Some(Reading {
            mac: parameters.mac,
            nodes: self.nodes.read(),
            proxies,
            lans: [lan(a, 0), lan(b, 1)],
            host: HostCounters {
                received: host.numbered
                    + host.silent
                    + host.link_local
                    + host.local
                    + host.too_long,
                numbered: host.numbered,
                silent: host.silent,
                link_local: host.link_local,
                local: host.local,
                too_long: host.too_long,
                malformed: host.malformed,
                // Those of R-TAGs: of wildcards.
                tagged: 0,
            },
            next: tables.load(word::DRAWN) as u16,
            supervised: self.supervisor.sent,
            evicted: self.nodes.evicted(),
            unknown_proxies: host.unknown_proxies,
            max_nodes: parameters.max_nodes,
        }))
    }
}

/// Returns the slots of the ports as in `frer_lre::ports`.
fn ports_word(slots: Slots) -> u64 {
    let [a, b, host] = slots.map(|slot| slot + 1);
    u64::from_le_bytes([a, b, host, 0, 0, 0, 0, 0])
}

/// Returns the slots of the ports of an entity; `None`: there is none.
fn ports_of(word: u64) -> Option<Slots> {
    let [a, b, host, ..] = word.to_le_bytes();
    (a > 0 && b > 0 && host > 0).then(|| [a, b, host].map(|slot| slot - 1))
}

/// Sends a frame by an interface.
fn send_to(socket: &OwnedFd, ifindex: u32, frame: &[u8]) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: ifindex as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an open descriptor; frame and address outlive the call, with these lengths.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            length,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Plane {
    /// Continues with the entity of an earlier process, whose programs are on the interfaces.
    pub(super) fn adopt_lre(&mut self) -> Result<()> {
        if !self.maps.has("lre") {
            return Ok(());
        }
        let tables = LreTables::open(&self.maps)?;
        self.lre.slots = ports_of(tables.load(word::PORTS));
        let mut state = State::new(tables)?;
        state.assign_slots(&self.grace)?;
        self.lre.state = Some(Mutex::new(state));
        Ok(())
    }

    /// Sets the link redundancy entity; `None`: the node has none.
    ///
    /// # Errors
    /// A port is not attached; the NodesTable is to grow; the kernel refuses.
    pub fn set_lre(&mut self, names: &[String], parameters: Option<&Parameters>) -> Result<()> {
        let Some(parameters) = parameters else { return self.remove_lre() };
        let mut slots = Slots::default();
        let of_entity = [parameters.a.port, parameters.b.port, parameters.host];
        for (slot, port) in slots.iter_mut().zip(of_entity) {
            let name = &names[usize::from(port.0)];
            let attached = self.ports.get(name);
            *slot = attached.ok_or_else(|| Error::NotAttached { port: name.clone() })?.slot;
        }
        let capacity = self.lre.state().map(|state| state.tables.sources.capacity());
        let wanted = u32::from(parameters.max_nodes);
        if capacity.is_some_and(|capacity| capacity < wanted) {
            let capacity = capacity.unwrap_or_default();
            return Err(Error::NodesTable { wanted, capacity });
        }
        self.lre.slots = Some(slots);
        // Until the entity has its ports, the programs pass all frames.
        self.replace_roles()?;
        if self.lre.state.is_none() {
            let mut state = State::new(LreTables::open(&self.maps)?)?;
            state.assign_slots(&self.grace)?;
            self.lre.state = Some(Mutex::new(state));
        }
        let (now_ns, tick_ns) = (self.lre_now_ns()?, self.tick_ns);
        if let Some(mut state) = self.lre.state() {
            state.set(parameters, slots, now_ns, tick_ns);
        }
        self.write_lans()
    }

    fn remove_lre(&mut self) -> Result<()> {
        self.lre.slots = None;
        if let Some(mut state) = self.lre.state() {
            state.lan_programs = None;
            state.tables.store(word::PORTS, 0);
            // The second one refers to a program.
            [0, 1].iter().try_for_each(|lan| state.tables.lans.remove(lan))?;
        }
        self.lre.state = None;
        self.replace_roles()
    }

    /// Writes the interfaces of the LANs where programs send frames.
    pub(super) fn write_lans(&mut self) -> Result<()> {
        let (Some(slots), Some(mut state)) = (self.lre.slots, self.lre.state()) else {
            return Ok(());
        };
        let port = |slot: u8| self.ports.values().find(|port| port.slot == slot);
        let [a, b, host] = slots.map(port);
        let program = b.filter(|b| b.redundancy.is_some()).map(|b| b.programs.lan_b());
        let program = program.as_ref().map(|program| program.as_fd().as_raw_fd());
        let lans = [(a, None), (b, program)];
        for (lan, (port, program)) in (0..).zip(lans) {
            // After a restart, the programs of the former process send there until the port is attached again.
            let Some(port) = port else { continue };
            if state.tables.lans.set(&lan, &egress_port(port.ifindex, program)).is_err() {
                // The interface is missing: its return attaches the port again.
                state.tables.lans.remove(&lan)?;
            }
        }
        let (Some(host), false) = (host, self.test_clock) else { return Ok(()) };
        let lans = [a, b].map(|port| port.map(|port| port.ifindex));
        let sends_copies = host.redundancy.is_some_and(|role| role.passes_copies);
        state.attach_to_stacks(LanSpec { host: host.ifindex, lans, sends_copies })
    }

    /// Returns tables and counters of the link redundancy entity.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_lre(&self) -> Result<Option<Reading>> {
        let Some(mut state) = self.lre.state() else { return Ok(None) };
        state.maintain(self.lre_now_ns()?, &self.grace)?;
        state.read()
    }

    /// Sends the supervision frames that are due; returns the time until the next call, in milliseconds.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn supervise(&self) -> Result<Option<u32>> {
        let (Some(mut state), Some(slots)) = (self.lre.state(), self.lre.slots) else {
            return Ok(None);
        };
        let Some(parameters) = state.parameters.clone() else { return Ok(None) };
        let now_ns = self.lre_now_ns()?;
        let silent_until_ns = state.tables.load(word::SILENT_UNTIL_NS);
        if let Some(rest_ns @ 1..) = silent_until_ns.checked_sub(now_ns) {
            return Ok(Some(rest_ns.div_ceil(NS_PER_MS) as u32));
        }
        let mut stations: Vec<MacAddress> =
            state.tables.proxies.keys().into_iter().map(mac).collect();
        stations.sort_unstable();
        let (frames, next_ms) = state.supervisor.frames(parameters.mac, &stations);
        let port = |slot: u8| self.ports.values().find(|port| port.slot == slot);
        let lans = [slots[0], slots[1]].map(|slot| port(slot).map(|port| port.ifindex));
        frames.iter().for_each(|octets| state.send(now_ns, octets, lans));
        Ok(Some(next_ms))
    }

    /// Returns the time of the programs' clock.
    fn lre_now_ns(&self) -> Result<u64> {
        if self.test_clock {
            return Ok(self.tables.node.get(&0)?.unwrap_or_default().test_now_ns);
        }
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
        Ok(now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64))
    }
}
