//! One capture that holds both sides of a hop: assigns packets to sides.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use onbeat_wire::{Frame, MacAddress};

use super::intake::{Intake, PacketFilter, Plan, meet};
use super::{Side, Tally};
use crate::capture::{CaptureError, Direction, LinkType, Packet, Reader};
use crate::diagnosis::{CaptureEvidence, Evidence, TimeOrder};
use crate::key::Recognition;
use crate::matching::{Event, Matcher, Observation};

/// An interface of a pcapng file, by number or by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceId {
    /// Its index in the file, starting at 0.
    Number(u32),
    /// Its name in the file. Interfaces of the same name, as in several sections, are one.
    Name(String),
}

impl InterfaceId {
    fn is_of(&self, packet: &Packet<'_>) -> bool {
        match self {
            InterfaceId::Number(number) => packet.interface == *number,
            InterfaceId::Name(name) => packet.interface_name == Some(name),
        }
    }
}

/// The error of a text that is not an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid interface; use a number (0) or a name (eth0)")]
pub struct ParseInterfaceIdError;

impl FromStr for InterfaceId {
    type Err = ParseInterfaceIdError;

    /// Parses a number, else a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text.parse(), text) {
            (Ok(number), _) => Ok(InterfaceId::Number(number)),
            (_, "") => Err(ParseInterfaceIdError),
            (_, name) => Ok(InterfaceId::Name(name.to_owned())),
        }
    }
}

impl fmt::Display for InterfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterfaceId::Number(number) => number.fmt(f),
            InterfaceId::Name(name) => name.fmt(f),
        }
    }
}

/// The criterion that distinguishes the two sides of the hop in one capture that mirrors both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideCriterion {
    /// The hop's own MAC addresses: arrivals are sent to one of them, departures come from one. For routers and
    /// hosts; a bridge keeps addresses unchanged.
    Addresses(Vec<MacAddress>),
    /// The outer VLAN that the mirror port adds.
    Vlans {
        /// The VLAN of packets to the hop.
        arrivals: u16,
        /// The VLAN of packets from the hop.
        departures: u16,
    },
    /// The interface of a pcapng file.
    Interfaces {
        /// The interface of packets to the hop.
        arrivals: InterfaceId,
        /// The interface of packets from the hop.
        departures: InterfaceId,
    },
    /// The direction in the pcapng file of a capture on the hop itself.
    Direction,
}

impl SideCriterion {
    /// Returns the side on which a packet was captured; `None`: neither.
    pub fn side(&self, packet: &Packet<'_>) -> Option<Side> {
        let either = |arrivals: bool, departures: bool| match (arrivals, departures) {
            (true, false) => Some(Side::Arrivals),
            (false, true) => Some(Side::Departures),
            _ => None,
        };
        match self {
            SideCriterion::Addresses(addresses) => {
                let frame = ethernet(packet)?;
                let own = |address| addresses.contains(&address);
                either(own(frame.destination()), own(frame.source()))
            }
            SideCriterion::Vlans { arrivals, departures } => {
                let vid = ethernet(packet)?.vlan()?.vid;
                either(vid == *arrivals, vid == *departures)
            }
            SideCriterion::Interfaces { arrivals, departures } => {
                either(arrivals.is_of(packet), departures.is_of(packet))
            }
            SideCriterion::Direction => packet.direction.map(|direction| match direction {
                Direction::Inbound => Side::Arrivals,
                Direction::Outbound => Side::Departures,
            }),
        }
    }
}

fn ethernet<'a>(packet: &Packet<'a>) -> Option<Frame<'a>> {
    if packet.link != LinkType::ETHERNET {
        return None;
    }
    Frame::parse(packet.octets).ok()
}

/// Feeds packets of both sides to a matcher as they arrive, from a file or from an interface.
#[derive(Debug)]
pub struct Sorter {
    recognition: Recognition,
    sides: SideCriterion,
    arrivals: Intake,
    departures: Intake,
    order: TimeOrder,
    /// Packets on neither side.
    other: u64,
    /// True once packets of both sides were processed.
    met: bool,
}

impl Sorter {
    /// Creates a sorter without packets.
    pub fn new(sides: SideCriterion, recognition: Recognition) -> Self {
        let (arrivals, departures) = (Intake::new(Side::Arrivals), Intake::new(Side::Departures));
        let order = TimeOrder::default();
        Sorter { recognition, sides, arrivals, departures, order, other: 0, met: false }
    }

    /// Matches only packets that the filter of their side keeps.
    #[must_use]
    pub fn filtered(mut self, filters: [Option<PacketFilter>; 2]) -> Self {
        let [arrivals, departures] = filters;
        self.arrivals.filter(arrivals);
        self.departures.filter(departures);
        self
    }

    /// Reads the capture by the plan of an earlier reading.
    #[must_use]
    pub fn planned(mut self, plan: Plan) -> Self {
        self.arrivals.plan(plan.arrivals);
        self.departures.plan(plan.departures);
        self
    }

    /// The evidence for a [diagnosis](crate::diagnosis), with the unit of time stamps in nanoseconds.
    pub fn evidence(&self, unit_ns: u32) -> Evidence<'_> {
        Evidence {
            arrivals: self.arrivals.evidence(unit_ns),
            departures: self.departures.evidence(unit_ns),
            recognition: self.recognition,
            capture: Some(CaptureEvidence { order: self.order.summary(), other: self.other }),
        }
    }

    /// Processes a packet, in order of time, with the caller's tag. A packet that is on neither side or has no key
    /// is counted and dropped.
    ///
    /// # Errors
    /// The link type cannot be matched.
    #[inline]
    pub fn take<T: Copy + Default>(
        &mut self,
        packet: &Packet<'_>,
        tag: T,
        matcher: &mut Matcher<T>,
        events: &mut impl FnMut(Event<T>),
    ) -> Result<(), CaptureError> {
        self.order.observe(packet.number, packet.time_ns);
        let Some(side) = self.sides.side(packet) else {
            self.other += 1;
            return Ok(());
        };
        let intake = match side {
            Side::Arrivals => &mut self.arrivals,
            Side::Departures => &mut self.departures,
        };
        let Some(key) = intake.key(&self.recognition, packet)? else { return Ok(()) };
        if !self.met {
            self.met = meet(&mut self.arrivals.sample, &mut self.departures.sample);
        }
        let passage = Observation { time_ns: packet.time_ns, tag };
        match side {
            Side::Arrivals => matcher.arrive(key, passage, events),
            Side::Departures => matcher.depart(key, passage, events),
        }
        Ok(())
    }

    /// The tally so far.
    pub fn tally(&self) -> Tally {
        let both = self.arrivals.tally.with(&self.departures.tally);
        Tally { packets: both.packets + self.other, other: self.other, ..both }
    }
}

/// One capture that holds both sides of a hop, stamped by one clock.
pub struct MirroredCapture<R, F> {
    sorter: Sorter,
    reader: Reader<R>,
    tag: F,
}

impl<R: Read, F> MirroredCapture<R, F> {
    /// Reads the capture from its start.
    pub fn new(reader: Reader<R>, sides: SideCriterion, recognition: Recognition, tag: F) -> Self {
        MirroredCapture { sorter: Sorter::new(sides, recognition), reader, tag }
    }

    /// Matches only packets that the filter of their side keeps.
    #[must_use]
    pub fn filtered(self, filters: [Option<PacketFilter>; 2]) -> Self {
        MirroredCapture { sorter: self.sorter.filtered(filters), ..self }
    }

    /// Reads the capture by the plan of an earlier reading.
    #[must_use]
    pub fn planned(self, plan: Plan) -> Self {
        MirroredCapture { sorter: self.sorter.planned(plan), ..self }
    }

    /// The evidence for a [diagnosis](crate::diagnosis).
    pub fn evidence(&self) -> Evidence<'_> {
        self.sorter.evidence(self.reader.unit_ns())
    }

    /// Feeds at most `packets` packets; returns `false` when the capture has ended.
    pub fn feed<T: Copy + Default>(
        &mut self,
        packets: u64,
        matcher: &mut Matcher<T>,
        events: &mut impl FnMut(Event<T>),
    ) -> Result<bool, CaptureError>
    where
        F: Fn(&Packet<'_>) -> T,
    {
        for _ in 0..packets {
            let Some(packet) = self.reader.next_packet()? else { return Ok(false) };
            self.sorter.take(&packet, (self.tag)(&packet), matcher, events)?;
        }
        Ok(true)
    }

    /// The tally so far.
    pub fn tally(&self) -> Tally {
        self.sorter.tally()
    }

    /// The reader of the capture, for its position and for [`Reader::cut_off`].
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }
}
