//! Programs for the features in use. A change that requires more replaces the programs first, then changes the tables;
//! a change that leaves some unused replaces them last. Each frame is processed by one program: none is lost.

use std::os::fd::AsFd;

use super::{AppliedStream, Plane, Port};
use crate::error::{Context, Result};
use crate::features::Features;
use crate::programs::{Instance, ProgramPurpose};

impl Plane {
    /// Loads the programs of a port.
    pub(super) fn load(
        &mut self,
        slot: u8,
        features: Features,
        serial_queues: bool,
    ) -> Result<Instance> {
        Instance::load(&mut self.maps, slot, features, serial_queues, self.test_clock)
    }

    /// Returns what the entries in the tables require.
    pub(super) fn features(&self) -> Features {
        if !self.swept {
            // Those of an earlier process are not assigned to streams yet.
            return Features::ALL;
        }
        let kinds = self.shapes.kinds().map(Features::of_kind);
        let streams = self.streams.iter().flatten().map(|stream| self.features_of(stream));
        kinds.chain(streams).collect()
    }

    /// Returns what the functions of a stream require.
    pub(super) fn features_of(&self, stream: &AppliedStream) -> Features {
        let of_member = |member: &super::AppliedMember| {
            let does = &member.does;
            let split = self.tables.splits.get(does.split);
            Features::of_functions(does.state, does.individual, &split)
        };
        stream.members.iter().map(of_member).collect()
    }

    /// Replaces the programs of ports that lack a feature.
    pub(super) fn widen(&mut self, needed: Features) -> Result<()> {
        self.replace(|loaded| if loaded.cover(needed) { loaded } else { loaded | needed })
    }

    /// Replaces the programs of ports that have features which no stream uses.
    pub(super) fn narrow(&mut self) -> Result<()> {
        match self.features() {
            // No stream is any faster.
            Features::NONE => Ok(()),
            used => self.replace(|_| used),
        }
    }

    /// Replaces the programs of each port whose features become other ones.
    fn replace(&mut self, features: impl Fn(Features) -> Features) -> Result<()> {
        if self.maps.purpose() == ProgramPurpose::Steer {
            return Ok(());
        }
        for (name, port) in &mut self.ports {
            let new = features(port.features);
            if new == port.features {
                continue;
            }
            let Port { slot, serial_queues, .. } = *port;
            let programs =
                Instance::load(&mut self.maps, slot, new, serial_queues, self.test_clock)?;
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
            (port.programs, port.features) = (programs, new);
        }
        Ok(())
    }
}
