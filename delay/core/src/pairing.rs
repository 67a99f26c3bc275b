//! Feeds captures to a matcher: two files, one on each side of the hop, or one that mirrors both.

mod intake;
mod mirror;
mod shift;

use std::io::Read;

use crate::capture::{CaptureError, Packet, Reader};
use crate::diagnosis::{Evidence, SideEvidence};
use crate::key::{NoKeyReason, Recognition};
use crate::matching::{Event, Matcher, Observation};
use intake::{Intake, meet};
pub use intake::{PacketFilter, Plan, SidePlan};
pub use mirror::{InterfaceId, MirroredCapture, SideCriterion, Sorter};
pub use shift::median_difference_ns;

/// A side of the hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Packets that enter the hop.
    Arrivals,
    /// Packets that leave the hop.
    Departures,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Arrivals => "arrivals",
            Side::Departures => "departures",
        })
    }
}

/// Counts of a capture's packets, including unusable ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Of these, with fewer captured octets than are to be compared.
    pub cut: u64,
    /// The fewest captured octets of such a packet: the maximum of [`Recognition::octets`].
    pub shortest_cut: Option<usize>,
    /// Of these, those that end within their headers.
    pub malformed: u64,
    /// Of these, those on neither side of a mirrored capture.
    pub other: u64,
    /// Of these, those that a filter rejected.
    pub filtered: u64,
    /// Of these, those in the other direction, which were ignored.
    pub other_direction: u64,
}

impl Tally {
    /// Counts a packet without a key.
    fn count(&mut self, unrecognized: NoKeyReason) {
        match unrecognized {
            NoKeyReason::Cut { captured } => {
                self.cut += 1;
                self.shortest_cut = Some(self.shortest_cut.map_or(captured, |s| s.min(captured)));
            }
            NoKeyReason::Malformed | NoKeyReason::Link(_) => self.malformed += 1,
        }
    }

    /// Packets that are matched: all except ignored ones.
    pub fn selected(&self) -> u64 {
        self.packets - self.filtered - self.other_direction - self.other
    }

    /// Sums the tallies of both sides of a mirrored capture.
    fn with(&self, second: &Self) -> Self {
        Tally {
            packets: self.packets + second.packets,
            cut: self.cut + second.cut,
            shortest_cut: self.shortest_cut.into_iter().chain(second.shortest_cut).min(),
            malformed: self.malformed + second.malformed,
            other: self.other + second.other,
            filtered: self.filtered + second.filtered,
            other_direction: self.other_direction + second.other_direction,
        }
    }
}

/// An error in reading a capture.
#[derive(Debug, thiserror::Error)]
#[error("capture of {side}: {error}")]
pub struct PairingError {
    /// The side of the capture.
    pub side: Side,
    /// The error.
    #[source]
    pub error: CaptureError,
}

struct QueuedPacket<T> {
    key: u64,
    passage: Observation<T>,
    /// Backward steps of the clock before it.
    steps: usize,
}

impl<T> QueuedPacket<T> {
    fn place(&self) -> (usize, i64) {
        (self.steps, self.passage.time_ns)
    }
}

/// A capture, and its next packet with a key.
struct Stream<R, T> {
    reader: Reader<R>,
    shift_ns: i64,
    head: Option<QueuedPacket<T>>,
    intake: Intake,
}

impl<R: Read, T> Stream<R, T> {
    fn new(side: Side, reader: Reader<R>, shift_ns: i64) -> Self {
        Stream { reader, shift_ns, head: None, intake: Intake::new(side) }
    }

    fn evidence(&self) -> SideEvidence<'_> {
        self.intake.evidence(self.reader.unit_ns())
    }

    #[inline]
    fn fill(
        &mut self,
        recognition: &Recognition,
        tag: &impl Fn(&Packet<'_>) -> T,
    ) -> Result<(), CaptureError> {
        while self.head.is_none() {
            // Without `?`, which moves the packet.
            let packet = match self.reader.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => return Err(error),
            };
            if let Some(key) = self.intake.key(recognition, &packet)? {
                let time_ns = packet.time_ns.saturating_add(self.shift_ns);
                let passage = Observation { time_ns, tag: tag(&packet) };
                let steps = self.intake.steps_before(packet.number);
                self.head = Some(QueuedPacket { key, passage, steps });
            }
        }
        Ok(())
    }
}

/// Two captures of one hop, merged by time.
pub struct CapturePair<A, D, T, F> {
    recognition: Recognition,
    arrivals: Stream<A, T>,
    departures: Stream<D, T>,
    tag: F,
    /// True once packets of both were read.
    met: bool,
}

impl<A: Read, D: Read, T: Copy + Default, F: Fn(&Packet<'_>) -> T> CapturePair<A, D, T, F> {
    /// Reads both captures from their start. `shift_ns` is added to the time stamps of departures, for captures of
    /// two clocks; `tag` returns the caller's tag of a packet.
    pub fn new(
        arrivals: Reader<A>,
        departures: Reader<D>,
        shift_ns: i64,
        recognition: Recognition,
        tag: F,
    ) -> Self {
        let arrivals = Stream::new(Side::Arrivals, arrivals, 0);
        let departures = Stream::new(Side::Departures, departures, shift_ns);
        CapturePair { recognition, arrivals, departures, tag, met: false }
    }

    /// Matches only packets that the filter of their side keeps.
    #[must_use]
    pub fn filtered(mut self, filters: [Option<PacketFilter>; 2]) -> Self {
        let [arrivals, departures] = filters;
        self.arrivals.intake.filter(arrivals);
        self.departures.intake.filter(departures);
        self
    }

    /// Reads the captures by the plan of an earlier reading.
    #[must_use]
    pub fn planned(mut self, plan: Plan) -> Self {
        self.arrivals.intake.plan(plan.arrivals);
        self.departures.intake.plan(plan.departures);
        self
    }

    /// The evidence for a [diagnosis](crate::diagnosis).
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            arrivals: self.arrivals.evidence(),
            departures: self.departures.evidence(),
            recognition: self.recognition,
            capture: None,
        }
    }

    /// Feeds at most `packets` packets; returns `false` when both captures have ended. [`Matcher::finish`] then
    /// reports the pending entries.
    pub fn feed(
        &mut self,
        packets: u64,
        matcher: &mut Matcher<T>,
        events: &mut impl FnMut(Event<T>),
    ) -> Result<bool, PairingError> {
        let of = |side| move |error| PairingError { side, error };
        for _ in 0..packets {
            self.arrivals.fill(&self.recognition, &self.tag).map_err(of(Side::Arrivals))?;
            self.departures.fill(&self.recognition, &self.tag).map_err(of(Side::Departures))?;
            if !self.met {
                let (arrivals, departures) =
                    (&mut self.arrivals.intake, &mut self.departures.intake);
                self.met = meet(&mut arrivals.sample, &mut departures.sample);
            }
            let arrival_first = match (&self.arrivals.head, &self.departures.head) {
                (Some(a), Some(d)) => a.place() <= d.place(),
                (arrival, _) => arrival.is_some(),
            };
            let stream_head =
                if arrival_first { self.arrivals.head.take() } else { self.departures.head.take() };
            match stream_head {
                Some(QueuedPacket { key, passage, .. }) if arrival_first => {
                    matcher.arrive(key, passage, events);
                }
                Some(QueuedPacket { key, passage, .. }) => matcher.depart(key, passage, events),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The tally of a capture so far.
    pub fn tally(&self, side: Side) -> &Tally {
        match side {
            Side::Arrivals => &self.arrivals.intake.tally,
            Side::Departures => &self.departures.intake.tally,
        }
    }

    /// The number of skipped packets of this side without a time stamp.
    pub fn without_time(&self, side: Side) -> u64 {
        match side {
            Side::Arrivals => self.arrivals.reader.without_time(),
            Side::Departures => self.departures.reader.without_time(),
        }
    }

    /// The number of packets that the capture of this side dropped, by its file.
    pub fn dropped(&self, side: Side) -> u64 {
        match side {
            Side::Arrivals => self.arrivals.reader.dropped(),
            Side::Departures => self.departures.reader.dropped(),
        }
    }

    /// Octets read so far of both captures.
    pub fn position(&self) -> u64 {
        self.arrivals.reader.position() + self.departures.reader.position()
    }

    /// Returns true if the capture of this side ended within a record.
    pub fn cut_off(&self, side: Side) -> bool {
        match side {
            Side::Arrivals => self.arrivals.reader.cut_off(),
            Side::Departures => self.departures.reader.cut_off(),
        }
    }
}
