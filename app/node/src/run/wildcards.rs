//! Wildcards of a running node: their parameters by the interfaces, events, counters.

use std::rc::Rc;

use onbeat_frer::counters::PortCounters;
use onbeat_frer::prp::Lan;
use onbeat_frer::spec::PortId;
use onbeat_frer::wildcard::{Wildcard, WildcardReading};

use super::assembly::Node;
use super::clock::monotonic_ns;
use super::error::Result;
use super::events::EventSubject;
use super::port_counters::{Share, Shares};
use super::prp::{lan_of, shares};
use super::setup::names;
use crate::config::{PortConfig, WildcardConfig};
use crate::control::{EventDetail, WildcardStatus};

impl Node {
    /// Sets the wildcards by the present addresses of the interfaces. An interface that is missing keeps its former
    /// address.
    pub(super) fn set_wildcards(
        &mut self,
        ports: &[PortConfig],
        configs: &[WildcardConfig],
    ) -> Result<()> {
        let wildcard = |config: &WildcardConfig| {
            let before = self.wildcards.iter().find(|before| before.name == config.name);
            let link = self.parameters(ports, &config.link, before.map(|before| &before.link));
            Wildcard { name: config.name.clone(), scope: config.scope, link }
        };
        let wildcards: Vec<_> = configs.iter().map(wildcard).collect();
        // An earlier process may have left some.
        let are_other_ports = names(ports) != names(&self.setup.ports);
        if wildcards.is_empty() || are_other_ports || wildcards != self.wildcards {
            // After a failure the former ones are set again.
            self.wildcards.clear();
            configs.iter().try_for_each(|of| self.refuse_generic_veth(ports, &of.link))?;
            self.plane.set_wildcards(&names(ports), &wildcards)?;
            let observers = &mut self.upkeep.prp.observers;
            observers.retain(|name, _| wildcards.iter().any(|wildcard| wildcard.name == *name));
            self.wildcards = wildcards;
        }
        Ok(())
    }

    /// Follows addresses of interfaces.
    pub(super) fn update_wildcards(&mut self) {
        let (ports, wildcards) = (self.setup.ports.clone(), self.setup.wildcards.clone());
        self.set_wildcards(&ports, &wildcards).unwrap_or_else(|error| tracing::error!("{error}"));
    }

    /// Wildcards and their state.
    fn read_wildcards(&self) -> Result<Vec<(&WildcardConfig, WildcardReading)>> {
        let mut readings = self.plane.read_wildcards()?;
        let mut of_config = |config: &WildcardConfig| {
            let at = readings.iter().position(|reading| reading.name == config.name)?;
            Some(readings.swap_remove(at))
        };
        let configs = self.setup.wildcards.iter();
        Ok(configs.filter_map(|config| Some((config, of_config(config)?))).collect())
    }

    /// Records the events of all wildcards.
    pub(super) fn observe_wildcards(&mut self) {
        let readings = match self.plane.read_wildcards() {
            Ok(readings) => readings,
            Err(error) => return tracing::error!("{error}"),
        };
        for WildcardReading { name, link, .. } in readings {
            let Some(config) = self.setup.wildcards.iter().find(|config| config.name == name)
            else {
                continue;
            };
            let observer = self.upkeep.prp.observers.entry(name).or_default();
            for event in observer.observe(monotonic_ns(), &link) {
                let port = lan_of(&event).map(|lan| match lan {
                    Lan::A => config.link.a,
                    Lan::B => config.link.b,
                });
                let port = port.map(|port| self.setup.port(port).name.as_str());
                let stream = Some(config.name.as_str());
                let subject = EventSubject { stream, port, ..EventSubject::default() };
                self.events.record(&subject, EventDetail::of_wildcard(event));
            }
        }
    }

    /// Adds the frames of wildcards to the sums by port.
    pub(super) fn add_wildcards(&self, sums: &mut [PortCounters]) -> Result<()> {
        for (config, reading) in self.read_wildcards()? {
            shares(&config.link, &reading.link)
                .for_each(|(port, share)| sums[usize::from(port.0)] += share);
        }
        Ok(())
    }

    /// Contributions of all wildcards to the counters of their ports.
    pub(super) fn wildcard_shares(&self) -> Result<Shares> {
        let of_wildcard = |(config, reading): (&WildcardConfig, WildcardReading)| {
            let mut of_wildcard = Share::default();
            for (port, share) in shares(&config.link, &reading.link) {
                *of_wildcard.ports.entry(self.setup.port(port).name.clone()).or_default() += share;
            }
            (Rc::from(config.name.as_str()), of_wildcard)
        };
        Ok(self.read_wildcards()?.into_iter().map(of_wildcard).collect())
    }

    /// The state of all wildcards, by precedence.
    pub(super) fn wildcard_status(&self) -> Result<Vec<WildcardStatus>> {
        let port = |port: PortId| self.setup.port(port).name.clone();
        let now_ns = monotonic_ns();
        let status = |(config, reading): (&WildcardConfig, WildcardReading)| {
            let link = &config.link;
            let paths = [port(link.a), port(link.b)];
            WildcardStatus::new(now_ns, config.scope, paths, port(link.host), &reading)
        };
        Ok(self.read_wildcards()?.into_iter().map(status).collect())
    }
}
