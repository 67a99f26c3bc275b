//! Ports get their programs, natively where that can be.

use onbeat_frer_xdp::Mode;
use onbeat_netdev::XdpMode;

use super::assembly::Node;
use super::engine::Engine;
use super::error::{Error, Result};
use super::mode::{self, Ability};
use super::port;
use crate::config::{Backend, Config, Mode as WantedMode, PortConfig};

impl Node {
    /// Now that all ports run their programs, drivers show what they take: ports whose frames would
    /// be lost in native mode leave it. Only before there are streams, which know where ports are.
    pub(super) fn settle(&mut self, config: &Config) -> Result<()> {
        // A port that leaves native mode may take no frames of others any more: they follow.
        for _ in 0..config.ports.len() {
            let Some((index, _)) = self.disappointed(config)? else { break };
            self.plane.detach(&config.ports[index].name)?;
            self.attach(config, index, false, false)?;
        }
        Ok(())
    }

    /// Where streams are there already, says what [`Node::settle`] would change.
    pub(super) fn tell_disappointed(&self, config: &Config) -> Result<()> {
        if let Some((index, why)) = self.disappointed(config)? {
            let (node, port) = (&config.node.name, &config.ports[index].name);
            tracing::error!("port {port:?}: frames are lost: {why}; {}", mode::start_again(node));
        }
        Ok(())
    }

    /// A port that runs natively and hoped for what did not come true.
    fn disappointed(&self, config: &Config) -> Result<Option<(usize, String)>> {
        if !self.plane.is_in_kernel() {
            return Ok(None);
        }
        for (index, port) in config.ports.iter().enumerate() {
            let native = |ability: &Ability| ability.running == Some(XdpMode::Native);
            let Some(ability) = self.ability(port)?.filter(native) else { continue };
            let egress = self.egress(config, index)?;
            let (_, why) = mode::choose(&config.node.name, port, &ability, &egress, false);
            if let Some(why) = why {
                return Ok(Some((index, why)));
            }
        }
        Ok(None)
    }

    /// The ports that frames received by port number `index` leave by, and what they can do; one
    /// whose interface is away will be looked at when it is back.
    fn egress<'a>(
        &self,
        config: &'a Config,
        index: usize,
    ) -> Result<Vec<(&'a PortConfig, Ability)>> {
        let mut egress = Vec::new();
        for to in egress_ports(config, index) {
            let to = &config.ports[to];
            egress.extend(self.ability(to)?.map(|ability| (to, ability)));
        }
        Ok(egress)
    }

    /// What a port's interface can do; `None` where it is away.
    fn ability(&self, port: &PortConfig) -> Result<Option<Ability>> {
        match self.devices.ability(&port.attached_interface()) {
            Ok(ability) => Ok(Some(ability)),
            Err(Error::Device(error)) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Attaches port number `index` of `config`; with `hope` ([`mode::choose`]) where ports that its
    /// frames leave by are attached only later.
    pub(super) fn attach(
        &mut self,
        config: &Config,
        index: usize,
        replace: bool,
        hope: bool,
    ) -> Result<()> {
        let Engine::User(plane) = &mut self.plane else {
            return self.attach_program(config, index, replace, hope);
        };
        let port = &config.ports[index];
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let link = self.devices.handle.link(&port.attached_interface()).map_err(of_port)?;
        self.not_native.remove(&port.name);
        if port.backend == Backend::Packet {
            return plane.attach_packet(&port.name, &link);
        }
        let (node, ability) = (&config.node.name, self.devices.ability(&link.name)?);
        let (wanted, mut why) = mode::choose(node, port, &ability, &[], false);
        match plane.attach_xsk(&port::spec(port, &link, wanted), replace) {
            // Before 6.3 a driver's ability shows only when it is asked to do it.
            Err(Error::Plane(onbeat_frer_xdp::Error::Attach { source, .. }))
                if wanted == Mode::Native && port.mode == WantedMode::Auto =>
            {
                why = Some(mode::refused(node, port, &ability, link.mtu, source));
                plane.attach_xsk(&port::spec(port, &link, Mode::Generic), replace)?;
            }
            other => other?,
        }
        if let Some(why) = why {
            tracing::warn!("port {:?}: XDP in generic mode: {why}", port.name);
            self.not_native.insert(port.name.clone(), why);
        }
        Ok(())
    }

    fn attach_program(
        &mut self,
        config: &Config,
        index: usize,
        replace: bool,
        hope: bool,
    ) -> Result<()> {
        let (node, port) = (config.node.name.as_str(), &config.ports[index]);
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let link = self.devices.handle.link(&port.attached_interface()).map_err(of_port)?;
        let ability = self.devices.ability(&link.name)?;
        let egress = self.egress(config, index)?;
        let (chosen, mut why) = mode::choose(node, port, &ability, &egress, hope);
        // Where the mode was left open a program keeps the one that it has: frames go on over a
        // start of the daemon, which another mode would interrupt.
        let Engine::Xdp(plane) = &mut self.plane else { return Ok(()) };
        let kept = plane.pinned_ports().contains(&port.name).then_some(ability.running);
        let wanted = match (port.mode, kept.flatten()) {
            (WantedMode::Auto, Some(XdpMode::Native)) => Mode::Native,
            (WantedMode::Auto, Some(XdpMode::Generic)) => Mode::Generic,
            _ => chosen,
        };
        match plane.attach(&port::spec(port, &link, wanted), replace) {
            // Before 6.3 a driver's ability shows only when it is asked to do it.
            Err(onbeat_frer_xdp::Error::Attach { source, .. })
                if wanted == Mode::Native && port.mode == WantedMode::Auto =>
            {
                why = Some(mode::refused(node, port, &ability, link.mtu, source));
                plane.attach(&port::spec(port, &link, Mode::Generic), replace)?;
            }
            other => other?,
        }
        let link = self.devices.handle.link(&link.name).map_err(of_port)?;
        let generic = link.xdp_program().is_some_and(|program| program.mode == XdpMode::Generic);
        if generic && chosen == Mode::Native {
            why.get_or_insert_with(|| mode::from_before(node));
        }
        self.not_native.remove(&port.name);
        match why {
            Some(why) if generic => {
                tracing::warn!("port {:?}: XDP in generic mode: {why}", port.name);
                self.not_native.insert(port.name.clone(), why);
            }
            Some(why) => tracing::warn!(
                "port {:?}: XDP stays in native mode, in which an earlier start attached it, \
                 although {why}",
                port.name
            ),
            None => {}
        }
        Ok(())
    }
}

/// Ports that frames received by port number `index` leave by.
fn egress_ports(config: &Config, index: usize) -> Vec<usize> {
    let mut ports: Vec<usize> = config
        .streams
        .iter()
        .filter(|s| s.members.iter().any(|member| usize::from(member.port.0) == index))
        .flat_map(|stream| stream.egress.iter().map(|egress| usize::from(egress.port.0)))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
