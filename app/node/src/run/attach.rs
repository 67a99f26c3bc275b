//! Attachment of ports, in native mode if possible.

use onbeat_frer::dataplane::{Mode, ReceiveQueues};
use onbeat_frer_user::Error as ForwardError;
use onbeat_frer_xdp::Error as PlaneError;
use onbeat_netdev::{Link, XdpMode};

use super::assembly::Node;
use super::error::{Error, Result};
use super::events::EventSubject;
use super::mode::{self, Ability};
use super::port;
use super::setup::Layout;
use crate::config::{Backend, Mode as WantedMode, PortConfig};
use crate::control::{EventDetail, LinkState, PortMode};

/// Egress ports that a check covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EgressPorts {
    All,
    /// Others are reported as such, and may be able to transmit once they have a carrier.
    WithCarrier,
}

/// The mode that a port with mode "auto" keeps if it has a program already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptMode {
    Running,
    None,
}

impl Node {
    /// Re-attaches ports in generic mode whose frames would be lost in native mode. Drivers report whether they can
    /// transmit frames only once all ports run their programs. Only before streams are added, which refer to
    /// attached ports.
    pub(super) fn leave_native_mode(&mut self, layout: &Layout) -> Result<()> {
        // A port that leaves native mode may no longer transmit frames of others: those follow.
        for _ in 0..layout.ports.len() {
            let mut changed = false;
            for index in 0..layout.ports.len() {
                let needs_native = layout.needs_native(index);
                if self.frame_loss(layout, index, needs_native, EgressPorts::All)?.is_some() {
                    self.plane.detach(&layout.ports[index].name)?;
                    self.attach(layout, index, false, false)?;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// Records events of ports that lose frames, which [`Node::leave_native_mode`] cannot change once streams exist.
    pub(super) fn report_frame_loss(&mut self, layout: &Layout, egress: EgressPorts) -> Result<()> {
        for index in 0..layout.ports.len() {
            let why = self.frame_loss(layout, index, false, egress)?;
            let port = &layout.ports[index].name;
            if self.frames_lost.get(port) == why.as_ref() {
                continue;
            }
            let subject = EventSubject { port: Some(port), ..EventSubject::default() };
            self.events.record(&subject, EventDetail::FramesLost { why: why.clone() });
            match why {
                Some(why) => self.frames_lost.insert(port.clone(), why),
                None => self.frames_lost.remove(port),
            };
        }
        Ok(())
    }

    /// Why a port in native mode loses frames: an egress port cannot transmit them.
    fn frame_loss(
        &self,
        layout: &Layout,
        index: usize,
        needs_native: bool,
        ports: EgressPorts,
    ) -> Result<Option<String>> {
        let port = &layout.ports[index];
        if !self.plane.is_in_kernel() {
            return Ok(None);
        }
        let native = |ability: &Ability| ability.running == Some(XdpMode::Native);
        let Some(ability) = self.ability(port)?.filter(native) else { return Ok(None) };
        let mut egress = self.egress(layout, index)?;
        if ports == EgressPorts::WithCarrier {
            // Read after the abilities: a veth whose peer is down loses its carrier first.
            egress.retain(|(to, _)| self.devices.presence(to) == LinkState::Up);
        }
        Ok(mode::choose(port, &ability, &egress, false, needs_native).1)
    }

    /// Attaches ports with mode "auto" natively that could only run in generic mode before. Frames that arrive
    /// meanwhile, within some milliseconds, are not forwarded.
    pub(super) fn attach_natively(&mut self, layout: &Layout) -> Result<()> {
        for index in 0..layout.ports.len() {
            if self.can_run_natively(layout, index)? {
                self.attach_program(layout, index, false, (false, KeptMode::None))?;
            }
        }
        Ok(())
    }

    /// Whether a port in generic mode could run natively by now.
    fn can_run_natively(&self, layout: &Layout, index: usize) -> Result<bool> {
        let port = &layout.ports[index];
        let is_candidate =
            port.mode == WantedMode::Auto && self.not_native.contains_key(&port.name);
        if !is_candidate || self.devices.presence(port) == LinkState::Missing {
            return Ok(false);
        }
        let Some(ability) = self.ability(port)? else { return Ok(false) };
        let link = self.devices.handle.link(&port.attached_interface());
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let link = link.map_err(of_port)?;
        // An attempt interrupts forwarding.
        let is_refused = self.refused.get(&port.name) == Some(&(link.index, link.mtu));
        if ability.running != Some(XdpMode::Generic) || is_refused {
            return Ok(false);
        }
        let egress = self.egress(layout, index)?;
        let (chosen, _) = mode::choose(port, &ability, &egress, false, layout.needs_native(index));
        Ok(chosen == Mode::Native)
    }

    /// The egress ports of frames received by port number `index`, with their abilities. A port without an
    /// interface is checked when the interface is back.
    fn egress<'a>(
        &self,
        layout: &'a Layout,
        index: usize,
    ) -> Result<Vec<(&'a PortConfig, Ability)>> {
        let mut egress = Vec::new();
        for to in layout.egress(index) {
            let Some(mut ability) = self.ability(to)? else { continue };
            // Its driver does not set it up: as if it did not exist.
            let link = self.devices.handle.link(&to.attached_interface());
            if !self.plane.runs(&to.name) && !link.is_ok_and(|link| link.up) {
                continue;
            }
            let peer = self.upkeep.peers.peer(&to.name);
            ability.start_polling = peer.and_then(|peer| peer.set_offloads("gro on"));
            egress.push((to, ability));
        }
        Ok(egress)
    }

    /// The abilities of a port's interface; `None` if it does not exist.
    fn ability(&self, port: &PortConfig) -> Result<Option<Ability>> {
        match self.devices.ability(&port.attached_interface()) {
            Ok(ability) => Ok(Some(ability)),
            Err(Error::Device(error)) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Attaches port number `index` of `layout`; `expect_transmit` ([`mode::choose`]): its egress
    /// ports are attached later.
    pub(super) fn attach(
        &mut self,
        layout: &Layout,
        index: usize,
        replace: bool,
        expect_transmit: bool,
    ) -> Result<()> {
        if self.plane.is_in_kernel() {
            let how = (expect_transmit, KeptMode::Running);
            return self.attach_program(layout, index, replace, how);
        }
        let port = &layout.ports[index];
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let link = self.devices.handle.link(&port.attached_interface()).map_err(of_port)?;
        self.not_native.remove(&port.name);
        if port.backend == Backend::Packet {
            return self.plane.attach_packet(&port::spec(
                port,
                &link,
                Mode::Native,
                ReceiveQueues::Concurrent,
            ));
        }
        let (node, ability) = (layout.node.as_str(), self.devices.ability(&link.name)?);
        let (wanted, why) = mode::choose(port, &ability, &[], false, false);
        let refused = self.attach_or_generic(node, (port, &link), &ability, wanted, replace)?;
        if let Some(why) = refused.or(why) {
            tracing::warn!("port {:?}: XDP in generic mode: {why}", port.name);
            self.not_native.insert(port.name.clone(), why);
        }
        Ok(())
    }

    /// Attaches a port in a mode; with mode "auto", in generic mode if the driver refuses. Returns the cause then.
    fn attach_or_generic(
        &mut self,
        node: &str,
        (port, link): (&PortConfig, &Link),
        ability: &Ability,
        wanted: Mode,
        replace: bool,
    ) -> Result<Option<String>> {
        // If it changes meanwhile, that is followed later.
        let count = self.devices.ethtool.receive_queues(link);
        self.upkeep.queues.insert(port.name.clone(), (link.index, count));
        let mut attach = |mode| {
            let queues = self.devices.receive_queues(link, mode);
            self.plane.attach(&port::spec(port, link, mode, queues), replace)
        };
        let source = match attach(wanted) {
            // Before Linux 6.3 the abilities of a driver are known only after an attempt.
            Err(
                Error::Plane(PlaneError::Attach { source, .. })
                | Error::Forward(ForwardError::Steering(PlaneError::Attach { source, .. })),
            ) if wanted == Mode::Native && port.mode == WantedMode::Auto => source,
            other => return other.map(|()| None),
        };
        attach(Mode::Generic)?;
        Ok(Some(mode::refused(node, port, ability, link.mtu, source)))
    }

    fn attach_program(
        &mut self,
        layout: &Layout,
        index: usize,
        replace: bool,
        (expect_transmit, keep): (bool, KeptMode),
    ) -> Result<()> {
        let (node, port) = (layout.node.as_str(), &layout.ports[index]);
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let link = self.devices.handle.link(&port.attached_interface()).map_err(of_port)?;
        let ability = self.devices.ability(&link.name)?;
        let egress = self.egress(layout, index)?;
        let needs_native = layout.needs_native(index);
        let (chosen, why) = mode::choose(port, &ability, &egress, expect_transmit, needs_native);
        let mut why = why;
        // With mode "auto" a program keeps its mode: another mode would interrupt forwarding at a restart of the
        // daemon.
        let is_kept = keep == KeptMode::Running && self.plane.known_ports()?.contains(&port.name);
        let kept = is_kept.then_some(ability.running);
        let wanted = match (port.mode, kept.flatten()) {
            (WantedMode::Auto, Some(XdpMode::Native)) => Mode::Native,
            (WantedMode::Auto, Some(XdpMode::Generic)) => Mode::Generic,
            _ => chosen,
        };
        let refused = self.attach_or_generic(node, (port, &link), &ability, wanted, replace)?;
        if refused.is_some() {
            self.refused.insert(port.name.clone(), (link.index, link.mtu));
        }
        why = refused.or(why);
        let link = self.devices.handle.link(&link.name).map_err(of_port)?;
        let generic = link.xdp_program().is_some_and(|program| program.mode == XdpMode::Generic);
        if generic && chosen == Mode::Native {
            why.get_or_insert_with(mode::from_before);
        }
        // Only programs of this machine send at the other end of a pair that the node created.
        if generic && ability.driver == "veth" && port.create.is_none() {
            self.devices.poll(&link, &mut self.journal)?;
        }
        let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
        let before = self.not_native.remove(&port.name);
        match why {
            Some(why) if generic => {
                self.not_native.insert(port.name.clone(), why.clone());
                if before.as_ref() != Some(&why) {
                    let mode = PortMode::Generic;
                    self.events.record(&subject, EventDetail::PortMode { mode, why: Some(why) });
                }
            }
            Some(why) => tracing::warn!(
                "port {:?}: XDP stays in native mode, in which an earlier start attached it, \
                 although {why}",
                port.name
            ),
            None if before.is_some() => {
                let mode = if generic { PortMode::Generic } else { PortMode::Native };
                self.events.record(&subject, EventDetail::PortMode { mode, why: None });
            }
            None => {}
        }
        Ok(())
    }
}
