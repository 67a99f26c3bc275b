//! Implementation of the data plane interface.

use std::collections::BTreeSet;

use onbeat_frer::dataplane::{AttachedPort, Attachment, Changes, DataPlane, Memory, PortSpec};
use onbeat_frer::paths::PathsReading;
use onbeat_frer::prp::{Parameters, Reading};
use onbeat_frer::reading::{PortLosses, PortReading, StreamReading};
use onbeat_frer::spec::Stream;
use onbeat_frer::wildcard::{Wildcard, WildcardReading};

use super::Plane;
use crate::error::Error;

impl<E: From<Error>> DataPlane<E> for Plane {
    fn is_in_kernel(&self) -> bool {
        true
    }

    fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<(), E> {
        Ok(Plane::attach(self, port, replace)?)
    }

    fn reserve(&mut self, port: &str) -> Result<(), E> {
        Ok(Plane::reserve(self, port)?)
    }

    fn detach(&mut self, port: &str) -> Result<(), E> {
        Ok(Plane::detach(self, port)?)
    }

    fn ports(&self) -> Vec<AttachedPort> {
        let attached = self.ports.iter().map(|(name, port)| AttachedPort {
            name: name.clone(),
            ifindex: port.ifindex,
            attachment: Attachment::Xdp(port.mode),
        });
        attached.collect()
    }

    fn known_ports(&self) -> Result<Vec<String>, E> {
        let attached = self.pinned_links()?.into_iter().map(|(_, name)| name);
        // A reserved port can have a link to its former interface.
        let others = self.reserved.keys().cloned();
        Ok(attached.chain(others).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn runs(&self, port: &str) -> bool {
        Plane::runs(self, port)
    }

    fn pins_last(&self) -> Option<bool> {
        self.directory.as_ref()?.is_lasting()
    }

    fn set_up(&mut self, port: &str, up: bool) -> Result<(), E> {
        Ok(Plane::set_up(self, port, up)?)
    }

    fn follow_queues(&mut self, port: &PortSpec) -> Result<(), E> {
        Plane::set_queues(self, &port.name, port.queues)?;
        // New queues of a veth run no program until it gets another one.
        Ok(Plane::attach(self, port, false)?)
    }

    fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes, E> {
        Ok(Plane::apply(self, names, streams)?)
    }

    fn set_lre(&mut self, names: &[String], lre: Option<&Parameters>) -> Result<(), E> {
        Ok(Plane::set_lre(self, names, lre)?)
    }

    fn check_max_nodes(&self, max_nodes: u32) -> Result<(), E> {
        Ok(Plane::check_max_nodes(self, max_nodes)?)
    }

    fn set_wildcards(&mut self, names: &[String], wildcards: &[Wildcard]) -> Result<(), E> {
        Ok(Plane::set_wildcards(self, names, wildcards)?)
    }

    fn read_wildcards(&self) -> Result<Vec<WildcardReading>, E> {
        Ok(Plane::read_wildcards(self)?)
    }

    fn read_lre(&self) -> Result<Option<Reading>, E> {
        Ok(Plane::read_lre(self)?)
    }

    fn supervise(&self) -> Result<Option<u32>, E> {
        Ok(Plane::supervise(self)?)
    }

    fn change(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<Changes, E> {
        Ok(Plane::change(self, names, gone, streams)?)
    }

    fn listen(&self) -> Result<(), E> {
        Ok(Plane::listen(self)?)
    }

    fn leave(&self) -> Result<(), E> {
        Ok(Plane::leave(self)?)
    }

    fn read_stream(&self, name: &str) -> Result<Option<StreamReading>, E> {
        Ok(Plane::read_stream(self, name)?)
    }

    fn read_all(
        &self,
        _: &mut dyn Iterator<Item = &Stream>,
        take: &mut dyn FnMut(&Stream, &StreamReading),
    ) -> Result<(), E> {
        Plane::read_all(self, take);
        Ok(())
    }

    fn read_paths(&self, name: &str) -> Result<Option<PathsReading>, E> {
        Ok(Plane::read_paths(self, name))
    }

    fn memory(&self) -> Result<Option<Memory>, E> {
        Ok(Some(Plane::memory(self)?))
    }

    fn read_port(&self, port: &str) -> Result<PortReading, E> {
        let counters = Plane::read_port(self, port)?;
        let output = self.read_output(port)?;
        let losses = PortLosses {
            no_headroom: counters.no_room,
            no_metadata: counters.no_meta,
            not_sent: output.map_or(0, |output| output.refused),
            ..PortLosses::default()
        };
        let sent = output.map(|output| output.sent);
        Ok(PortReading { unmatched: counters.unmatched, sent, losses })
    }

    fn output_gap(&self) -> Option<&str> {
        Plane::output_gap(self)
    }

    fn reset(&self, stream: &str) -> Result<bool, E> {
        Ok(Plane::reset(self, stream)?)
    }

    fn set_number(&self, stream: &str, number: u16) -> Result<bool, E> {
        Ok(Plane::set_number(self, stream, number)?)
    }

    fn expire(&self) -> Result<(), E> {
        Ok(Plane::expire(self)?)
    }
}
