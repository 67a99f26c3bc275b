//! What only the loader knows of the entity, and its maintenance of the tables.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};

use libbpf_rs::MapCore;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use onbeat_bpf::PlainData;
use onbeat_frer::prp::{
    DueFrames, HostCounters, HostPort, HostPortTimes, Lan, LanCounters, LanRecord, Nodes,
    Parameters, ProxyReading, Reading, Supervisor, announcements,
};
use onbeat_wire::prp::{Tail, supervision};
use onbeat_wire::{Frame, MacAddress};

use super::super::grace::{Epoch, GracePeriods};
use super::tables::{LreTables, MAC_MASK, address, alias_word, is_of, mac, word};
use super::{EntitySlots, NS_PER_MS, ROLES, ports_of, ports_word};
use crate::abi::constants as c;
use crate::abi::*;
use crate::error::{Context, Error, Result};
use crate::lans::{LanPrograms, LanSpec};
use crate::pin::PinDirectory;

/// What only the loader knows of an entity.
#[derive(Debug)]
pub(super) struct Entity {
    /// Its number in the tables.
    pub(super) index: u32,
    /// Of a wildcard that is set.
    pub(super) name: String,
    pub(super) slots: EntitySlots,
    /// `None`: adopted from an earlier process, and not set yet.
    pub(super) parameters: Option<Parameters>,
    pub(super) nodes: Nodes<u32>,
}

impl Entity {
    pub(super) fn new(index: u32, tables: &LreTables) -> Self {
        // Nodes with numbers, and single ones.
        let nodes = Nodes::new(2 * tables.sources.capacity() as usize);
        let slots = EntitySlots::default();
        Self { index, name: String::new(), slots, parameters: None, nodes }
    }
}

/// Tables of the entities, and what only the loader knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tables: LreTables,
    /// That of a PRP node, or those of wildcards.
    pub(super) entities: Vec<Entity>,
    /// Of a PRP node: whether the NodesTable has the aliases that an earlier process noted.
    pub(super) is_adopted: bool,
    pub(super) supervisor: Supervisor,
    /// Slots of sources that programs may still use.
    pub(super) retired: Vec<(Epoch, u32)>,
    /// For supervision frames.
    pub(super) socket: OwnedFd,
    /// For frames of the interfaces' network stacks.
    pub(super) lan_programs: Option<LanPrograms>,
}

impl State {
    /// Opens the tables of an earlier process, or new ones, whose entities are these.
    pub(super) fn new(tables: LreTables, entities: &[u32], grace: &GracePeriods) -> Result<Self> {
        // Protocol 0: it receives nothing.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None);
        let socket = socket.map_err(|errno| Error::Socket { source: errno.into() })?;
        let entities = entities.iter().map(|index| Entity::new(*index, &tables)).collect();
        let state = Self {
            tables,
            entities,
            is_adopted: false,
            supervisor: Supervisor::default(),
            retired: Vec::new(),
            socket,
            lan_programs: None,
        };
        state.assign_slots(grace)?;
        Ok(state)
    }

    /// Returns the parameters of a PRP node.
    pub(super) fn parameters(&self) -> Option<&Parameters> {
        self.entities.first()?.parameters.as_ref()
    }

    /// Returns the NodesTable of a PRP node.
    fn nodes(&mut self) -> &mut Nodes<u32> {
        &mut self.entities[0].nodes
    }

    /// Assigns slots to sources after a start: those without a source are free.
    fn assign_slots(&self, grace: &GracePeriods) -> Result<()> {
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

    /// Sets the parameters of a PRP node, with the slots of its ports.
    pub(super) fn set(
        &mut self,
        parameters: &Parameters,
        slots: EntitySlots,
        now_ns: u64,
        tick_ns: u64,
    ) {
        let tables = &self.tables;
        let is_new = tables.load(word::PORTS) == 0;
        tables.set_period(parameters.entry_forget_ms, tick_ns);
        let Parameters { a, b, mac, is_segment, .. } = parameters;
        tables.store(word::MAC, address(*mac));
        tables.store(word::LAN_MAC, address(a.mac));
        tables.store(word::LAN_MAC + 1, address(b.mac));
        let host = |word: u64| ports_of(word).map(|[.., host]| host);
        let had = (tables.load(word::IS_SEGMENT), host(tables.load(word::PORTS)));
        tables.store(word::IS_SEGMENT, u64::from(*is_segment));
        tables.store(word::MAX_SOURCES, parameters.max_nodes.into());
        let times = HostPortTimes::new(parameters.entry_forget_ms);
        tables.store(word::BLOCKED_NS, times.blocked_ns);
        tables.store(word::YIELDING_NS, times.yielding_ns);
        if is_new {
            let silent_until_ns = now_ns.saturating_add(parameters.reboot_silence_ns());
            tables.store(word::SILENT_UNTIL_NS, silent_until_ns);
        }
        if had != (u64::from(*is_segment), host(ports_word(slots))) {
            let is_start = is_new && *is_segment;
            let silent_until_ns = if is_start { tables.load(word::SILENT_UNTIL_NS) } else { 0 };
            self.set_host_port(&HostPort::new(silent_until_ns));
        }
        let _ = tables.proxies.remove(&address(*mac));
        tables.entity.entry(0)[word::PORTS].store(ports_word(slots), Release);
        self.nodes().remove(*mac);
        self.nodes().set_capacity(parameters.max_nodes.into());
        self.entities[0].parameters = Some(parameters.clone());
    }

    pub(super) fn forget_ns(&self) -> u64 {
        2 * self.tables.load(word::PERIOD_NS)
    }

    /// Brings the NodesTable of a PRP node and the tables of the programs together: records, supervision frames, aliases,
    /// entries to remove.
    pub(super) fn maintain(&mut self, now_ns: u64, grace: &GracePeriods) -> Result<()> {
        let Some(parameters) = self.parameters().cloned() else { return Ok(()) };
        self.free_retired(grace)?;
        if !self.is_adopted {
            self.read_frames(0, &self.tables.sources())?;
            self.adopt_aliases()?;
            self.is_adopted = true;
        }
        self.end_aliases(grace)?;
        let read = self.read_frames(0, &self.tables.sources())?;
        self.note_supervision(&parameters)?;
        // A source may have supervised itself.
        self.end_aliases(grace)?;
        self.add_aliases(grace)?;
        self.remove_unused(0, &self.tables.sources(), &read, now_ns, grace)
    }

    /// Removes entries of an entity that are out of use; `read`: those of its sources before.
    pub(super) fn remove_unused(
        &mut self,
        at: usize,
        sources: &[(u64, u32)],
        read: &HashMap<u64, [u64; 2]>,
        now_ns: u64,
        grace: &GracePeriods,
    ) -> Result<()> {
        let forget_ns = self.forget_ns();
        let capacity = self.tables.sources.capacity();
        let Entity { index, parameters: Some(parameters), nodes, .. } = &mut self.entities[at]
        else {
            return Ok(());
        };
        let most = capacity.min(parameters.max_nodes.into()) as usize;
        // A reserve for new sources until the next call.
        nodes.evict_numbers(most - (most / 8).max(1), now_ns, forget_ns);
        let node_forget_ns = u64::from(parameters.node_forget_ms) * NS_PER_MS;
        nodes.expire(now_ns, node_forget_ns);
        nodes.remove(parameters.mac);
        // The table of single nodes is another one, and supervision frames add nodes too.
        nodes.evict_without_numbers(most);
        let proxies = &self.tables.proxies;
        for key in self.tables.stations(*index) {
            let last_ns = proxies.get(&key)?;
            if last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) >= node_forget_ns) {
                proxies.remove(&key)?;
            }
        }
        let index = *index;
        self.remove_others(at, sources, read, grace)?;
        self.tables.count_entries(index, sources);
        Ok(())
    }

    /// Attaches the programs between the network stacks of interfaces and the entity.
    pub(super) fn attach_to_stacks(
        &mut self,
        spec: LanSpec,
        directory: Option<&PinDirectory>,
    ) -> Result<()> {
        let programs = match &mut self.lan_programs {
            Some(programs) => programs,
            None => self.lan_programs.insert(LanPrograms::open()?),
        };
        programs.set(spec, directory)
    }

    pub(super) fn free_retired(&mut self, grace: &GracePeriods) -> Result<()> {
        let (over, retired) = self.retired.drain(..).partition(|(epoch, _)| grace.is_over(*epoch));
        self.retired = retired;
        let over: Vec<(Epoch, u32)> = over;
        over.into_iter().try_for_each(|(_, slot)| self.tables.release(slot))
    }

    /// Continues with the aliases that an earlier process found.
    pub(super) fn adopt_aliases(&mut self) -> Result<()> {
        for slot in 0..self.tables.sources.capacity() {
            let source = self.tables.sources.get(slot);
            let alias = source.alias & MAC_MASK;
            if source.alias != 0 && self.tables.nodes.get(&alias)? == Some(slot) {
                let lan = usize::from(source.alias >> c::LRE_LAN_SHIFT != 0);
                self.nodes().adopt_alias(mac(alias), lan, mac(source.owner));
            }
        }
        Ok(())
    }

    /// Ends aliases that a frame contradicted, or that the NodesTable has ended: the numbers can be those of two nodes.
    pub(super) fn end_aliases(&mut self, grace: &GracePeriods) -> Result<()> {
        let aliases: HashMap<u64, u64> = self
            .nodes()
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
            self.entities[0].nodes.end_alias(mac(owner));
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

    /// Reads the records of all sources of an entity into the NodesTable. Returns the sources with numbers, and their last
    /// frames. `sources`: those of all entities.
    pub(super) fn read_frames(
        &mut self,
        at: usize,
        sources: &[(u64, u32)],
    ) -> Result<HashMap<u64, [u64; 2]>> {
        let Entity { index, nodes, .. } = &mut self.entities[at];
        let mut singles = HashSet::new();
        // Wildcards have none.
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
            nodes.set_frames(mac(address), [record(0), record(1)], heard, None);
            singles.insert(mac(address));
        }
        // The kernel evicts them by itself.
        nodes.retain_singles(|mac| singles.contains(&mac));
        let mut read = HashMap::new();
        for &(key, slot) in sources.iter().filter(|(key, _)| is_of(*index, *key)) {
            let source = self.tables.sources.get(slot);
            if source.owner != c::LRE_SOURCE | key {
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
            nodes.set_frames(mac(key), [record(a), record(b)], heard, Some(slot));
            read.insert(key, source.lans.map(|record| record.last_ns));
        }
        Ok(read)
    }

    pub(super) fn note_supervision(&mut self, parameters: &Parameters) -> Result<()> {
        let forget_ns = self.forget_ns();
        let (mut frames, mut read) = (Vec::new(), 0);
        for _ in 0..c::LRE_WAITING {
            let octets = self.tables.supervision.lookup_and_delete(&[]);
            let octets = octets.context(|| "read supervision frames".to_owned())?;
            let Some(waiting) = octets.and_then(|o| frer_lre_supervision::from_octets(&o)) else {
                break;
            };
            read += 1;
            let lan = usize::from(waiting.lan != 0);
            let octets = waiting.octets.get(..waiting.length as usize).unwrap_or(&waiting.octets);
            let frame = Frame::parse(octets).ok();
            let view = frame.as_ref().map(|frame| supervision::View::new_checked(frame.payload()));
            let (Some(frame), Some(Ok(view))) = (&frame, view) else {
                self.tables.count(word::INVALID_SUPERVISION + lan);
                continue;
            };
            let content = supervision::Repr::parse(&view);
            let is_proxy = self.tables.proxies.get(&address(content.node))?.is_some();
            if content.node == parameters.mac || is_proxy || !content.node.is_unicast() {
                self.tables.count(word::FOREIGN_CLAIMS + lan);
                continue;
            }
            frames.push((frame.source(), lan, content, waiting.at_ns));
        }
        if read == c::LRE_WAITING {
            // Frames were lost: those that contradict a claim can be among them.
            self.nodes().forget_claims();
            frames.retain(|(source, _, content, _)| {
                *source == content.node || content.redbox.is_some()
            });
        }
        for (source, lan, content, at_ns) in frames {
            self.nodes().supervised(source, lan, &content, at_ns, forget_ns);
        }
        Ok(())
    }

    /// Adds new aliases to the tables: both sources then have the numbers of the node.
    pub(super) fn add_aliases(&mut self, grace: &GracePeriods) -> Result<()> {
        let tables = &self.tables;
        for (alias, lan, node) in self.entities[0].nodes.aliases() {
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
    fn remove_others(
        &mut self,
        at: usize,
        sources: &[(u64, u32)],
        read: &HashMap<u64, [u64; 2]>,
        grace: &GracePeriods,
    ) -> Result<()> {
        let tables = &self.tables;
        let Entity { index, nodes, .. } = &self.entities[at];
        let is_gone = |key: u64| !nodes.contains(mac(key));
        let is_idle = |key: u64, slot: u32| {
            let source = tables.sources.get(slot);
            let is_owner = source.owner == c::LRE_SOURCE | key;
            let last_ns = source.lans.map(|record| record.last_ns);
            // An alias has no record of its own.
            !is_owner || read.get(&key) == Some(&last_ns)
        };
        let of_entity = sources.iter().copied().filter(|(key, _)| is_of(*index, *key));
        let (gone, kept): (Vec<_>, Vec<_>) =
            of_entity.partition(|(key, slot)| is_gone(*key) && is_idle(*key, *slot));
        let used: HashSet<u32> = kept.into_iter().map(|(_, slot)| slot).collect();
        let mut retired: HashSet<u32> = self.retired.iter().map(|(_, slot)| *slot).collect();
        for (key, slot) in gone {
            tables.nodes.remove(&key)?;
            if !used.contains(&slot) && retired.insert(slot) {
                self.retired.push(tables.retire(slot, grace));
            }
        }
        for address in tables.singles.keys().into_iter().filter(|address| is_gone(*address)) {
            tables.singles.remove(&address)?;
        }
        Ok(())
    }

    /// Sends a supervision frame on both LANs, numbered like the frames of the host.
    pub(super) fn send(&mut self, now_ns: u64, octets: &[u8], lans: [Option<u32>; 2]) {
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

    /// Returns the frames that are due.
    pub(super) fn due(
        &mut self,
        parameters: &Parameters,
        stations: &[MacAddress],
        silence_ms: Option<u32>,
        now_ns: u64,
    ) -> Result<DueFrames> {
        let [a, b] = [c::LRE_LAN_A, c::LRE_LAN_B].map(|role| self.tables.counters(0, role));
        let received = lan_counters(&a?).received + lan_counters(&b?).received;
        let mut host_port = self.host_port();
        let mut due =
            self.supervisor.due(parameters, stations, silence_ms, &mut host_port, received, now_ns);
        if self.is_redbox() {
            self.set_host_port(&host_port);
        }
        if let Some(former) = due.former {
            due.announce(announcements(former, &self.nodes().read()));
        }
        Ok(due)
    }

    pub(super) fn is_redbox(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.is_segment)
    }

    /// Returns the state of the host port, which programs change at the same time.
    pub(super) fn host_port(&self) -> HostPort {
        let tables = &self.tables;
        HostPort {
            blocked_until_ns: tables.load(word::BLOCKED_UNTIL_NS),
            blocked_by: Some(tables.load(word::BLOCKED_BY)).filter(|by| *by != 0).map(mac),
            hello_ns: tables.load(word::HELLO_NS),
            is_on_lan: tables.load(word::IS_ON_LAN) != 0,
            other_ns: tables.load(word::OTHER_NS),
        }
    }

    /// Sets the state of the host port. A hello that a program notes meanwhile comes again.
    pub(super) fn set_host_port(&self, host_port: &HostPort) {
        let tables = &self.tables;
        tables.store(word::BLOCKED_UNTIL_NS, host_port.blocked_until_ns);
        tables.store(word::BLOCKED_BY, host_port.blocked_by.map_or(0, address));
        tables.store(word::HELLO_NS, host_port.hello_ns);
        tables.store(word::IS_ON_LAN, u64::from(host_port.is_on_lan));
        tables.store(word::OTHER_NS, host_port.other_ns);
    }

    /// Sends a frame to the stations of a RedBox.
    pub(super) fn send_to_host(&self, now_ns: u64, octets: &[u8], ifindex: Option<u32>) {
        self.tables.store(word::HELLO_NS, now_ns);
        // An interface that is down has no stations.
        let _ = ifindex.map(|ifindex| send_to(&self.socket, ifindex, octets));
    }

    /// Returns tables and counters of an entity.
    pub(super) fn read(&self, at: usize) -> Result<Option<Reading>> {
        let Some(Entity { index, parameters: Some(parameters), nodes, .. }) = self.entities.get(at)
        else {
            return Ok(None);
        };
        let tables = &self.tables;
        let [a, b, host] = ROLES.map(|role| tables.counters(*index, role));
        let (a, b, host) = (a?, b?, host?);
        let lan = |counters: frer_lre_counters, lan: usize| {
            let invalid = tables.load_of(*index, word::INVALID_SUPERVISION + lan);
            let read = lan_counters(&counters);
            LanCounters {
                supervision: read.supervision.saturating_sub(invalid),
                invalid_supervision: invalid,
                foreign_claims: tables.load_of(*index, word::FOREIGN_CLAIMS + lan),
                ..read
            }
        };
        let proxies = tables.stations(*index).into_iter().map(|key| {
            let last_ns = tables.proxies.get(&key)?;
            Ok(last_ns.map(|last_ns| ProxyReading { mac: mac(key), last_ns }))
        });
        let mut proxies: Vec<_> = proxies.filter_map(Result::transpose).collect::<Result<_>>()?;
        proxies.sort_unstable_by_key(|proxy| proxy.mac);
        Ok(Some(Reading {
            mac: parameters.mac,
            nodes: nodes.read(),
            proxies,
            lans: [lan(a, 0), lan(b, 1)],
            // The programs note none: the verifier of Linux 6.1 is at its limit.
            other_protocol: [None; 2],
            host: host_counters(&host),
            next: tables.load(word::DRAWN) as u16,
            supervised: self.supervisor.sent,
            evicted: nodes.evicted(),
            unknown_proxies: host.unknown_proxies,
            max_nodes: parameters.max_nodes,
            host_port: self.host_port(),
        }))
    }
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

/// Counters of the programs of a LAN; supervision frames that the loader has not read are no invalid ones yet.
fn lan_counters(counters: &frer_lre_counters) -> LanCounters {
    LanCounters {
        received: counters.passed
            + counters.own
            + counters.accepted
            + counters.duplicates
            + counters.untagged
            + counters.blocked
            + counters.supervision,
        passed: counters.passed,
        own: counters.own,
        own_of_other_lan: counters.own_of_other_lan,
        accepted: counters.accepted,
        duplicates: counters.duplicates,
        untagged: counters.untagged,
        other_protocol: counters.other_protocol,
        blocked: counters.blocked,
        supervision: counters.supervision.saturating_sub(counters.unread_supervision),
        unread_supervision: counters.unread_supervision,
        wrong_lan: counters.wrong_lan,
        without_entry: counters.without_entry,
        malformed: counters.malformed,
        ..LanCounters::default()
    }
}

/// Counters of the program of the host port.
fn host_counters(counters: &frer_lre_counters) -> HostCounters {
    HostCounters {
        received: counters.numbered
            + counters.silent
            + counters.link_local
            + counters.local
            + counters.blocked
            + counters.too_long
            + counters.tagged,
        numbered: counters.numbered,
        silent: counters.silent,
        link_local: counters.link_local,
        local: counters.local,
        blocked: counters.blocked,
        too_long: counters.too_long,
        malformed: counters.malformed,
        tagged: counters.tagged,
    }
}
