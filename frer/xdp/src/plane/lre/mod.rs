//! The link redundancy entity of a PRP node: bpf/lre.h. Those of wildcards have the same tables: wildcards.rs.
//!
//! ```text
//!   programs:  number, trailer, first copy?, records of sources  ──►  tables
//!                 │ supervision frames
//!                 ▼
//!   loader:    NodesTable (onbeat_frer::prp::Nodes) ──► aliases, entries to remove ──► tables
//! ```
//!
//! Tables and programs outlive the daemon: frames are forwarded without it. Supervision frames are not sent meanwhile.

mod state;
mod tables;
mod wildcards;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::time::{ClockId, clock_gettime};
use onbeat_frer::dataplane::Mode;
use onbeat_frer::prp::{DueFrames, LIFE_CHECK_MS, OWN_SILENCE_NS, Parameters, Reading};
use onbeat_wire::MacAddress;

use self::state::State;
use self::tables::{LreTables, mac, word};
use super::groups::egress_port;
use super::{Plane, Port};
use crate::abi::constants as c;
use crate::error::{Error, Result};
use crate::lans::{Lan, LanPrograms, LanSpec};
use crate::programs::{Redundancy, RedundancyRole};

const NS_PER_MS: u64 = 1_000_000;

/// Ports of the entity, by slot: LAN A, LAN B, host.
type EntitySlots = [u8; 3];

/// The roles of these ports.
const ROLES: [u32; 3] = [c::LRE_LAN_A, c::LRE_LAN_B, c::LRE_HOST];

// The programs have the same time.
const _: () = assert!(c::LRE_OWN_SILENCE == OWN_SILENCE_NS);

/// The entity of a PRP node, or those of wildcards.
#[derive(Debug, Default)]
pub(super) struct RedundancyEntities {
    /// Of a PRP node.
    slots: Option<EntitySlots>,
    /// Of wildcards.
    wildcards: Vec<EntitySlots>,
    state: Option<Mutex<State>>,
}

impl RedundancyEntities {
    /// Returns what a port has in this mode.
    pub(super) fn role(&self, slot: u8, mode: Mode) -> Option<Redundancy> {
        if self.wildcards.iter().flatten().any(|of| *of == slot) {
            return Some(Redundancy::Wildcards);
        }
        let slots = self.slots?;
        let role = ROLES[slots.iter().position(|of| *of == slot)?];
        let passes_frames = mode == Mode::Generic;
        Some(Redundancy::Prp(RedundancyRole { role, host: slots[2], passes_frames }))
    }

    /// Whether a port is that of LAN B, where programs change copies.
    pub(super) fn is_lan_b(&self, slot: u8) -> bool {
        self.slots.is_some_and(|[_, b, _]| b == slot)
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the slots of the ports as in `frer_lre::ports`.
fn ports_word(slots: EntitySlots) -> u64 {
    let [a, b, host] = slots.map(|slot| slot + 1);
    u64::from_le_bytes([a, b, host, 0, 0, 0, 0, 0])
}

/// Returns the slots of the ports of an entity; `None`: there is none.
fn ports_of(word: u64) -> Option<EntitySlots> {
    let [a, b, host, ..] = word.to_le_bytes();
    (a > 0 && b > 0 && host > 0).then(|| [a, b, host].map(|slot| slot - 1))
}

impl Plane {
    /// Continues with the entities of an earlier process, whose programs are on the interfaces.
    pub(super) fn adopt_lre(&mut self) -> Result<()> {
        if !self.maps.has("lre") {
            return Ok(());
        }
        let tables = LreTables::open(&self.maps)?;
        let entities = wildcards::of_earlier_process(&tables);
        if entities.is_empty() {
            self.lre.slots = ports_of(tables.load(word::PORTS));
        }
        let slots = |entity: &u32| ports_of(tables.load_of(*entity, word::PORTS));
        self.lre.wildcards = entities.iter().filter_map(slots).collect();
        let entities = if entities.is_empty() { vec![0] } else { entities };
        self.lre.state = Some(Mutex::new(State::new(tables, &entities, &self.grace)?));
        Ok(())
    }

    /// Sets the link redundancy entity; `None`: the node has none.
    ///
    /// # Errors
    /// A port is not attached; the NodesTable is to grow; the kernel refuses.
    pub fn set_lre(&mut self, names: &[String], parameters: Option<&Parameters>) -> Result<()> {
        let Some(parameters) = parameters else {
            return if self.lre.slots.is_some() { self.remove_entities() } else { Ok(()) };
        };
        let slots = self.entity_slots(names, parameters)?;
        self.fit_nodes(parameters.max_nodes.into())?;
        if !self.lre.wildcards.is_empty() {
            self.remove_entities()?;
        }
        self.lre.slots = Some(slots);
        // Until the entity has its ports, the programs pass all frames.
        self.replace_roles()?;
        if self.lre.state.is_none() {
            let tables = LreTables::open(&self.maps)?;
            self.lre.state = Some(Mutex::new(State::new(tables, &[0], &self.grace)?));
        }
        // Programs pass frames to those at the tc ingress once the entity has its ports.
        self.attach_to_stacks()?;
        let (now_ns, tick_ns) = (self.lre_now_ns()?, self.tick_ns);
        if let Some(mut state) = self.lre.state() {
            state.set(parameters, slots, now_ns, tick_ns);
        }
        self.write_lans()
    }

    /// Returns the slots of the ports of an entity.
    fn entity_slots(&self, names: &[String], parameters: &Parameters) -> Result<EntitySlots> {
        let mut slots = EntitySlots::default();
        let of_entity = [parameters.a.port, parameters.b.port, parameters.host];
        for (slot, port) in slots.iter_mut().zip(of_entity) {
            let name = &names[usize::from(port.0)];
            let known = self.known_slot(name);
            *slot = known.ok_or_else(|| Error::NotAttached { port: name.clone() })?;
        }
        Ok(slots)
    }

    /// Checks whether the NodesTable has room for this number of nodes, of all wildcards together.
    ///
    /// # Errors
    /// It was created for less.
    pub fn check_max_nodes(&self, max_nodes: u32) -> Result<()> {
        self.maps.require_nodes(max_nodes)
    }

    /// Makes room for this number of nodes in tables that do not exist yet.
    fn fit_nodes(&mut self, max_nodes: u32) -> Result<()> {
        self.check_max_nodes(max_nodes)?;
        self.maps.set_nodes(max_nodes);
        Ok(())
    }

    /// Removes the entity of a PRP node, or those of wildcards.
    fn remove_entities(&mut self) -> Result<()> {
        self.lre.slots = None;
        self.lre.wildcards.clear();
        if let Some(mut state) = self.lre.state() {
            state.lan_programs = None;
            for entity in 0..state.tables.entity.capacity() {
                if state.tables.load_of(entity, word::PORTS) != 0 {
                    state.tables.reset(entity)?;
                }
            }
            // The second one refers to a program.
            [0, 1].iter().try_for_each(|lan| state.tables.lans.remove(lan))?;
            state.tables.clear()?;
            self.clear_scopes()?;
        }
        if let Some(directory) = &self.directory {
            LanPrograms::remove(directory)?;
        }
        self.lre.state = None;
        self.replace_roles()
    }

    /// Writes the interfaces of the LANs where programs send frames.
    pub(super) fn write_lans(&mut self) -> Result<()> {
        self.write_paths()?;
        let (Some(slots), Some(state)) = (self.lre.slots, self.lre.state()) else {
            return Ok(());
        };
        let port = |slot: u8| self.ports.values().find(|port| port.slot == slot);
        let [a, b, _] = slots.map(port);
        if let Some(b) = b.filter(|b| b.redundancy.is_some()) {
            self.tables.egress_ports.set(&b.slot.into(), &self.egress_entry(b))?;
            self.rewrite_groups(b.slot)?;
        }
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
        // Until the entity is set, those of the former process run on: not all ports are attached yet.
        let is_set = state.parameters().is_some();
        drop(state);
        if is_set { self.attach_to_stacks() } else { Ok(()) }
    }

    /// Attaches the programs between the network stacks of interfaces and the entity; also those that another process
    /// detached.
    fn attach_to_stacks(&self) -> Result<()> {
        let (Some(slots), Some(mut state)) = (self.lre.slots, self.lre.state()) else {
            return Ok(());
        };
        let port = |slot: u8| self.ports.values().find(|port| port.slot == slot);
        let [a, b, host] = slots.map(port);
        let (Some(host), false) = (host, self.test_clock) else { return Ok(()) };
        let is_generic = |port: &Port| port.mode == Mode::Generic;
        let lan = |port: &Port| Lan { ifindex: port.ifindex, is_generic: is_generic(port) };
        let lans = [a, b].map(|port| port.map(lan));
        let spec = LanSpec { host: host.ifindex, lans, sends_copies: is_generic(host) };
        state.attach_to_stacks(spec, self.directory.as_deref())
    }

    /// Returns tables and counters of the link redundancy entity.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_lre(&self) -> Result<Option<Reading>> {
        let (Some(mut state), Some(_)) = (self.lre.state(), self.lre.slots) else {
            return Ok(None);
        };
        state.maintain(self.lre_now_ns()?, &self.grace)?;
        state.read(0)
    }

    /// Sends the supervision frames that are due; returns the time until the next call, in milliseconds.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn supervise(&self) -> Result<Option<u32>> {
        let (Some(mut state), Some(slots)) = (self.lre.state(), self.lre.slots) else {
            // Readings maintain the tables of wildcards.
            return Ok((!self.lre.wildcards.is_empty()).then_some(LIFE_CHECK_MS));
        };
        let Some(parameters) = state.parameters().cloned() else { return Ok(None) };
        let now_ns = self.lre_now_ns()?;
        let silence_ms = state.tables.silence_ms(self.clock_ns(ClockId::CLOCK_MONOTONIC_COARSE)?);
        let mut stations: Vec<MacAddress> =
            state.tables.proxies.keys().into_iter().map(mac).collect();
        stations.sort_unstable();
        let DueFrames { frames, to_host, next_ms, .. } =
            state.due(&parameters, &stations, silence_ms, now_ns)?;
        let port = |slot: u8| self.ports.values().find(|port| port.slot == slot);
        let [a, b, host] = slots.map(|slot| port(slot).map(|port| port.ifindex));
        frames.iter().for_each(|octets| state.send(now_ns, octets, [a, b]));
        to_host.iter().for_each(|octets| state.send_to_host(now_ns, octets, host));
        drop(state);
        if !frames.is_empty() {
            self.attach_to_stacks()?;
        }
        Ok(Some(next_ms))
    }

    /// Blocks the host port of a RedBox until others have sent hellos.
    pub(in super::super) fn listen(&self) -> Result<()> {
        let Some(state) = self.lre.state() else { return Ok(()) };
        if state.is_redbox() {
            let mut host_port = state.host_port();
            host_port.listen(self.lre_now_ns()?);
            state.set_host_port(&host_port);
        }
        Ok(())
    }

    /// Informs other RedBoxes that this one ends.
    pub(in super::super) fn leave(&self) -> Result<()> {
        let (Some(mut state), Some([.., host])) = (self.lre.state(), self.lre.slots) else {
            return Ok(());
        };
        let host = self.ports.values().find(|port| port.slot == host).map(|port| port.ifindex);
        if let (true, Some(parameters)) = (state.is_redbox(), state.parameters().cloned()) {
            let octets = state.supervisor.farewell(parameters.mac);
            state.send_to_host(self.lre_now_ns()?, &octets, host);
        }
        Ok(())
    }

    /// Returns the time of the programs' clock, without its steps.
    fn lre_now_ns(&self) -> Result<u64> {
        self.clock_ns(ClockId::CLOCK_MONOTONIC)
    }

    fn clock_ns(&self, clock: ClockId) -> Result<u64> {
        if self.test_clock {
            return Ok(self.tables.node.get(&0)?.unwrap_or_default().test_now_ns);
        }
        let now = clock_gettime(clock);
        Ok(now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64))
    }
}
