//! One capture that holds both sides of a hop: which packet is on which.

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
    /// Its place in the file, from 0 on.
    Number(u32),
    /// What the file calls it. Interfaces of one name, as those of several sections are, are one.
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

/// An interface has a number or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an interface has a number (0) or a name (eth0)")]
pub struct ParseInterfaceIdError;

impl FromStr for InterfaceId {
    type Err = ParseInterfaceIdError;

    /// Reads a number, or a name that is none.
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

/// How the two sides of the hop are told apart in one capture that mirrors both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideCriterion {
    /// By the hop's own MAC addresses: it receives what is sent to one of them, and sends what
    /// comes from one. For routers and hosts; a bridge leaves addresses as they are.
    Addresses(Vec<MacAddress>),
    /// By the outer VLAN that the mirror puts packets in.
    Vlans {
        /// Of packets on their way to the hop.
        arrivals: u16,
        /// Of packets that the hop sent.
        departures: u16,
    },
    /// By interface of a pcapng file.
    Interfaces {
        /// Where packets to the hop were captured.
        arrivals: InterfaceId,
        /// Where packets of the hop were captured.
        departures: InterfaceId,
    },
    /// By what a pcapng file says of each packet, captured on the hop itself.
    Direction,
}

impl SideCriterion {
    /// The side a packet was captured on; `None`: neither.
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

/// Puts packets of both sides into a matcher as they come, from a file or from the wire.
#[derive(Debug)]
pub struct Sorter {
    recognition: Recognition,
    sides: SideCriterion,
    arrivals: Intake,
    departures: Intake,
    order: TimeOrder,
    /// Packets on neither side.
    other: u64,
    /// Whether packets of both sides came.
    met: bool,
}

impl Sorter {
    /// Without a packet yet.
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

    /// Reads the capture as an earlier reading showed.
    #[must_use]
    pub fn planned(mut self, plan: Plan) -> Self {
        self.arrivals.plan(plan.arrivals);
        self.departures.plan(plan.departures);
        self
    }

    /// What was read, for a [diagnosis](crate::diagnosis).
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            arrivals: self.arrivals.evidence(),
            departures: self.departures.evidence(),
            recognition: self.recognition,
            capture: Some(CaptureEvidence { order: self.order.summary(), other: self.other }),
        }
    }

    /// A packet, in order of time, and what the caller wants to know it by. One that is on neither side or
    /// cannot be recognised is counted, and goes no further.
    ///
    /// # Errors
    /// Where it is of a link type that nothing can be matched in.
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

    /// What came so far.
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
    /// The capture from its start.
    pub fn new(reader: Reader<R>, sides: SideCriterion, recognition: Recognition, tag: F) -> Self {
        MirroredCapture { sorter: Sorter::new(sides, recognition), reader, tag }
    }

    /// Matches only packets that the filter of their side keeps.
    #[must_use]
    pub fn filtered(self, filters: [Option<PacketFilter>; 2]) -> Self {
        MirroredCapture { sorter: self.sorter.filtered(filters), ..self }
    }

    /// Reads the capture as an earlier reading showed.
    #[must_use]
    pub fn planned(self, plan: Plan) -> Self {
        MirroredCapture { sorter: self.sorter.planned(plan), ..self }
    }

    /// What was read, for a [diagnosis](crate::diagnosis).
    pub fn evidence(&self) -> Evidence<'_> {
        self.sorter.evidence()
    }

    /// Feeds at most `packets` packets; `false` when the capture has ended.
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

    /// What was read so far.
    pub fn tally(&self) -> Tally {
        self.sorter.tally()
    }

    /// The capture itself, for its position and whether it was cut off.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }
}
