//! Ports: programs on interfaces, and egress groups.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use onbeat_bpf::Link;
use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues, RunningProgram};
use onbeat_frer::spec::MAX_PORTS;

use super::specialize::has_exclusive_generators;
use super::{Plane, Port};
use crate::error::{Context, Error, Result};
use crate::features::Features;
use crate::link;
use crate::programs::Instance;

impl Plane {
    /// Attaches the programs to the interface of a port, or replaces own programs there.
    ///
    /// # Errors
    /// A program of another owner is attached and `replace` is false; the driver does not support the
    /// requested mode.
    pub fn attach(&mut self, spec: &PortSpec, replace: bool) -> Result<()> {
        let slot = self.port_slot(&spec.name)?;
        let features = self.features_at(slot);
        let programs = self.load(slot, features, spec)?;
        let link = self.attach_link(spec, slot, &programs, replace)?;
        self.register(spec, slot, programs, features, Some(link))
    }

    /// Loads the programs of a port without an interface, for test runs.
    ///
    /// # Errors
    /// Those of [`Plane::attach`].
    pub fn attach_for_test(&mut self, spec: &PortSpec) -> Result<()> {
        let slot = self.port_slot(&spec.name)?;
        let features = self.features_at(slot);
        let programs = self.load(slot, features, spec)?;
        self.register(spec, slot, programs, features, None)
    }

    fn register(
        &mut self,
        spec: &PortSpec,
        slot: u8,
        programs: Instance,
        features: Features,
        link: Option<Link>,
    ) -> Result<()> {
        // Before the first frame leaves by the interface.
        if let Ok(output) = &self.output {
            output.add_interface(slot, spec.ifindex);
        }
        let info = link.as_ref().map(Link::info).transpose();
        let program = info.context(|| "read a link".to_string())?.map(|info| info.program);
        let PortSpec { ifindex, mode, queues, .. } = *spec;
        let port = Port {
            slot,
            ifindex,
            mode,
            queues,
            program,
            up: true,
            programs,
            features,
            redundancy: self.lre.role(slot, mode),
            has_exclusive_generators: has_exclusive_generators(queues, features),
            link,
        };
        self.tables.egress_ports.set(&slot.into(), &self.egress_entry(&port))?;
        self.reserved.remove(&spec.name);
        self.ports.insert(spec.name.clone(), port);
        self.rewrite_groups(slot)?;
        self.write_lans()?;
        self.release_former_output(slot, ifindex)
    }

    /// Stops counting frames of a former interface of a port, after the last one has left.
    fn release_former_output(&self, slot: u8, ifindex: u32) -> Result<()> {
        let Ok(output) = &self.output else { return Ok(()) };
        if output.has_others(slot, ifindex) {
            self.grace.wait(self.grace.now())?;
            output.release_others(slot, ifindex);
        }
        Ok(())
    }

    /// For a port in generic mode: removes the port from the egress groups if its interface is down, or
    /// restores it if up. In generic mode the kernel sends a frame to no port of a group if one of them is
    /// down; in native mode it skips that port.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<()> {
        match self.ports.get_mut(name) {
            Some(port) if port.up != up => {
                port.up = up;
                let slot = port.slot;
                self.rewrite_groups(slot)?;
                if self.skips_ports_that_are_down() { Ok(()) } else { self.write_paths() }
            }
            _ => Ok(()),
        }
    }

    /// Records the receive queues of a port, and replaces its programs if they depend on them.
    ///
    /// # Errors
    /// The kernel refuses; nothing has changed.
    pub fn set_queues(&mut self, name: &str, queues: ReceiveQueues) -> Result<()> {
        let set = |plane: &mut Self, queues| {
            let port = plane.ports.get_mut(name)?;
            Some(std::mem::replace(&mut port.queues, queues))
        };
        let Some(before) = set(self, queues).filter(|before| *before != queues) else {
            return Ok(());
        };
        self.replace_for_queues().inspect_err(|_| {
            set(self, before);
        })
    }

    /// Returns whether the program of a port draws numbers without atomic additions.
    #[doc(hidden)]
    #[must_use]
    pub fn has_exclusive_generators(&self, name: &str) -> bool {
        self.ports.get(name).is_some_and(|port| port.has_exclusive_generators)
    }

    /// Rewrites the groups that contain a port.
    pub(super) fn rewrite_groups(&self, slot: u8) -> Result<()> {
        for (set, group) in self.groups.with_port(slot) {
            self.write_group(set, group)?;
        }
        Ok(())
    }

    /// Reserves a port whose interface is missing: streams can have it, and frames to it are lost until it is attached.
    /// Changes nothing if the port is attached or reserved.
    ///
    /// # Errors
    /// There are too many ports; the pin directory cannot be read.
    pub fn reserve(&mut self, name: &str) -> Result<()> {
        if self.known_slot(name).is_none() {
            let slot = self.port_slot(name)?;
            // An earlier process attached it to an interface that has another name now.
            if let Some(directory) = &self.directory {
                directory.detach_link(slot, name)?;
            }
            self.reserved.insert(name.to_owned(), slot);
        }
        Ok(())
    }

    /// Returns the slot of an attached or reserved port.
    pub(super) fn known_slot(&self, name: &str) -> Option<u8> {
        let attached = self.ports.get(name).map(|port| port.slot);
        attached.or_else(|| self.reserved.get(name).copied())
    }

    /// Returns the slot of a port: its current one, the one from before a restart of the daemon, or a free
    /// one.
    fn port_slot(&self, name: &str) -> Result<u8> {
        if let Some(slot) = self.known_slot(name) {
            return Ok(slot);
        }
        let attached = self.ports.values().map(|port| port.slot);
        let mut used: BTreeSet<u8> = attached.chain(self.reserved.values().copied()).collect();
        for (slot, pinned) in self.pinned_links()? {
            if pinned == name {
                return Ok(slot);
            }
            used.insert(slot);
        }
        (0..MAX_PORTS as u8)
            .find(|slot| !used.contains(slot))
            .ok_or_else(|| Error::TooManyPorts { port: name.to_string() })
    }

    /// Returns slots and names of ports whose links are pinned.
    pub(super) fn pinned_links(&self) -> Result<Vec<(u8, String)>> {
        self.directory.as_ref().map_or_else(|| Ok(Vec::new()), |directory| directory.links())
    }

    fn attach_link(
        &mut self,
        spec: &PortSpec,
        slot: u8,
        programs: &Instance,
        replace: bool,
    ) -> Result<Link> {
        let directory = self.directory.clone();
        let ingress = programs.ingress();
        // If nothing is pinned, the port itself holds the link.
        if directory.is_none() {
            self.ports.remove(&spec.name);
        }
        let mut ours = None;
        let pinned = directory.as_ref().map(|directory| directory.open_link(slot, &spec.name));
        if let Some(link) = pinned.transpose()?.flatten() {
            let info = link.info().context(|| "read a link".to_string())?;
            let runs = |running: &&RunningProgram| running.program == info.program;
            match spec.running.iter().find(runs) {
                Some(running) if info.ifindex == spec.ifindex => {
                    if running.mode == Some(spec.mode) {
                        link.update(ingress.as_fd())
                            .context(|| format!("replace the program on {}", spec.interface))?;
                        return Ok(link);
                    }
                    // A link keeps its mode: to change it, the port is briefly without programs.
                    link.detach().context(|| format!("detach from {}", spec.interface))?;
                    ours = Some(info.program);
                }
                // The interface was removed, and another one has its name.
                _ => {}
            }
        }
        if let Some(directory) = &directory {
            directory.remove_link(slot, &spec.name)?;
        }
        for &RunningProgram { program: id, .. } in
            spec.running.iter().filter(|r| ours != Some(r.program))
        {
            if !replace {
                return Err(Error::ForeignProgram {
                    port: spec.name.clone(),
                    interface: spec.interface.clone(),
                    program: link::program_name(id),
                    id,
                });
            }
            let detached = match Link::holding(id) {
                Some(link) => link.detach(),
                None => link::detach_unlinked(spec.ifindex, Mode::Native)
                    .or_else(|_| link::detach_unlinked(spec.ifindex, Mode::Generic)),
            };
            detached.context(|| format!("detach XDP program {id} from {}", spec.interface))?;
        }
        let mut link =
            Link::xdp(ingress.as_fd(), spec.ifindex, link::flag(spec.mode)).map_err(|source| {
                Error::Attach {
                    port: spec.name.clone(),
                    interface: spec.interface.clone(),
                    mode: spec.mode.name(),
                    source: source.into(),
                    remedy: match spec.mode {
                        Mode::Native => "set mode = \"generic\", or lower the MTU below a page",
                        Mode::Generic => "see onbeat doctor",
                    },
                }
            })?;
        if let Some(directory) = &directory {
            let path = directory.link(slot, &spec.name);
            link.pin(&path).context(|| format!("pin the link of port {:?}", spec.name))?;
        }
        Ok(link)
    }

    /// Detaches the programs of a port that is no longer configured, attached or reserved by this or an earlier process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&mut self, name: &str) -> Result<()> {
        let pinned = self.pinned_links()?.into_iter().find(|(_, pinned)| pinned == name);
        let attached = self.ports.remove(name).map(|port| port.slot);
        let reserved = self.reserved.remove(name);
        let Some(slot) = attached.or(reserved).or(pinned.map(|(slot, _)| slot)) else {
            return Ok(());
        };
        if let Some(directory) = &self.directory {
            directory.detach_link(slot, name)?;
        }
        if let Ok(output) = &self.output {
            output.release_port(slot);
            // A program would otherwise restore a counter that it is adding to.
            self.grace.wait(self.grace.now())?;
            output.reset_port(slot)?;
        }
        self.splits.exclude_port(slot);
        self.groups.exclude_port(slot);
        Ok(())
    }

    /// Returns whether a port's program runs on its interface: no other process detached or replaced it.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.running_program(name).is_some()
    }

    /// Returns the kernel's id of a port's program while it is attached.
    #[must_use]
    pub fn running_program(&self, name: &str) -> Option<u32> {
        let port = self.ports.get(name)?;
        let info = port.link.as_ref()?.info().ok()?;
        let runs = info.ifindex == port.ifindex && Some(info.program) == port.program;
        runs.then_some(info.program)
    }

    /// Returns whether the port is attached.
    pub(crate) fn is_attached(&self, name: &str) -> bool {
        self.ports.contains_key(name)
    }

    /// Returns the sockets by receive queue of a port whose frames are steered.
    pub(crate) fn sockets(&self, name: &str) -> Result<libbpf_rs::MapHandle> {
        self.ports[name].programs.sockets()
    }
}
