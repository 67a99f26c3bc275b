//! Removal and restoration of interfaces, and loss of carrier, on links with a wire.

use onbeat_netdev::{Handle, Namespace};

use super::build::{WIRE_ENDS, wire_end};
use super::{BOUND, World};
use crate::fault::{Direction, Impairment, Wire};
use crate::{Error, Result};

impl World {
    /// The inner interface of a wire at an end of its link (0 or 1), with its namespace: frames sent by
    /// the station enter there, and frames to it leave there.
    ///
    /// # Errors
    /// [`Error::Unknown`]: the link has no wire.
    pub fn wire_end(&self, link: &str, end: usize) -> Result<(&Namespace, &'static str)> {
        let namespace = match self.unplugged.get(link) {
            Some(middle) => middle.namespace(),
            None => self.wire(link)?.namespace(),
        };
        Ok((namespace, WIRE_ENDS[end]))
    }

    /// Removes the carrier at an end of a link, whose interface stays up.
    ///
    /// # Errors
    /// [`Error::Unknown`]: the link has no wire; an error of the kernel.
    pub fn drop_carrier(&self, link: &str, end: usize) -> Result<()> {
        self.hold(link, end, true);
        let (namespace, name) = self.wire_end(link, end)?;
        Ok(Handle::in_namespace(namespace)?.set_down(name)?)
    }

    /// Restores the carrier, and waits until it is detected.
    ///
    /// # Errors
    /// Those of [`World::drop_carrier`].
    pub fn raise_carrier(&self, link: &str, end: usize) -> Result<()> {
        let (namespace, name) = self.wire_end(link, end)?;
        Handle::in_namespace(namespace)?.set_up(name)?;
        let station = &self.link(link)?.ends[end];
        self.handle(&station.station)?.wait_carrier(&station.interface, BOUND)?;
        self.hold(link, end, false);
        Ok(())
    }

    /// Stops transmission of the wire to an end of its link, if there is a wire.
    fn hold(&self, link: &str, end: usize, held: bool) {
        let direction = [Direction::Backward, Direction::Forward][end];
        if let Some(wire) = self.wires.get(link) {
            wire.hold(direction, held);
        }
    }

    /// Removes the interface at an end of a link. The wire stops.
    ///
    /// # Errors
    /// [`Error::Unknown`]: the link has no wire; an error of the kernel.
    pub fn unplug(&mut self, link: &str, end: usize) -> Result<()> {
        let middle = Handle::in_namespace(self.wire(link)?.namespace())?;
        self.wires.remove(link);
        self.unplugged.insert(link.into(), middle);
        let end = &self.link(link)?.ends[end];
        Ok(self.handle(&end.station)?.delete(&end.interface)?)
    }

    /// Creates the removed interface again. The wire relays no frames yet ([`World::connect`]).
    ///
    /// # Errors
    /// [`Error::Unknown`]: no interface was removed; an error of the kernel.
    pub fn plug(&mut self, link: &str, end: usize) -> Result<()> {
        let place = self.topology.links.iter().position(|known| known.name == link);
        let number = place.unwrap_or_default();
        let known = self.link(link)?;
        let middle = self.middle(link)?;
        wire_end(&self.topology, &self.stations, (known, number), end, middle)?;
        middle.wait_carrier(WIRE_ENDS[end], BOUND)?;
        let station = &known.ends[end];
        self.handle(&station.station)?.wait_carrier(&station.interface, BOUND)?;
        Ok(())
    }

    /// Starts to relay frames again, after [`World::plug`].
    ///
    /// # Errors
    /// [`Error::Unknown`]: no interface was removed; no socket can be opened.
    pub fn connect(&mut self, link: &str, impairment: Impairment) -> Result<()> {
        let tapped = self.link(link)?.tapped;
        let wire = Wire::start(self.middle(link)?, WIRE_ENDS, impairment, tapped)?;
        self.unplugged.remove(link);
        self.wires.insert(link.into(), wire);
        Ok(())
    }

    fn middle(&self, link: &str) -> Result<&Handle> {
        self.unplugged.get(link).ok_or_else(|| Error::Unknown {
            what: "link that was unplugged",
            name: link.into(),
            known: self.unplugged.keys().cloned().collect(),
        })
    }
}
