//! The streams of a node as one machine: a frame in at a port, its replicas out.
//!
//! ```text
//! frame ── identify ── recover (individual, sequence) ── generate ── replicate ── Replicas
//!             │                    │                                                 │
//!          Unmatched            Dropped                                    Replica::write
//! ```
//!
//! Frames that match no stream are processed by the link redundancy entity ([`crate::prp`]), if there is one, or by
//! wildcards ([`crate::wildcard`]).
//!
//! Pure, as all of this crate: the owner of the sockets passes in frames and time, and sends the output. The
//! time to add or remove a stream does not depend on the number of streams. State of a stream's functions is
//! kept across changes that do not change its meaning.

mod replica;
mod stream;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;
use onbeat_wire::{Frame, SequenceTag};

use self::replica::Splits;
pub use self::replica::{Replica, Replicas};
use self::stream::State;
use crate::identify::{Conflict, Fields, MemberRef, Table};
use crate::paths::PathsReading;
use crate::prefetch;
use crate::prp::{Copies, Lre, Outcome, Parameters};
use crate::reading::StreamReading;
use crate::spec::{PortId, Stream};
use crate::validate::RecoveryError;
use crate::wildcard::{Wildcard, WildcardReading, Wildcards};

/// The longest frame that ends within its headers: two addresses, two VLAN tags, a sequence tag and half of
/// the EtherType after it.
const LONGEST_TRUNCATED: usize = 12 + 2 * 4 + SequenceTag::LEN + 1;

/// Octets that complete any sequence tag, including the EtherType after it.
const COMPLETION: usize = SequenceTag::LEN + 2;

/// Number of frames whose table entries are prefetched before the first of them is looked up.
const AHEAD: usize = 8;

/// The result of processing a frame.
#[derive(Debug)]
pub enum Disposition<'a> {
    /// The frame matches no stream.
    Unmatched,
    /// The frame matches a stream and is discarded, or the link redundancy entity or a wildcard discards it.
    Dropped,
    /// The frame is sent by these ports.
    Sent(Replicas<'a>),
    /// The frame matches no stream, and the link redundancy entity or a wildcard sends these copies.
    Copied(Copies<'a>),
}

/// The member stream of a frame, as found by [`Plane::identify`] or [`Plane::identify_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameIdentity(Option<MemberRef>);

/// The reason for refusing a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamRefusal {
    /// A member matches the frames of another stream's member.
    Conflict(Conflict),
    /// Invalid parameters of a recovery function.
    Recovery(RecoveryError),
}

impl core::fmt::Display for StreamRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::Recovery(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamRefusal {}

/// The streams of a node with the state of their functions.
#[derive(Debug)]
pub struct Plane {
    tables: Vec<Table>,
    /// Frames that match no stream, by port.
    unmatched: Vec<u64>,
    streams: Vec<Option<State>>,
    free: Vec<usize>,
    names: HashMap<String, usize>,
    splits: Splits,
    /// Processes frames of its ports that match no stream.
    lre: Option<Box<Lre>>,
    /// Process frames of their ports that match no stream.
    wildcards: Wildcards,
}

impl Plane {
    /// Creates a node of `ports` ports without streams.
    pub fn new(ports: usize) -> Self {
        Self::with_room(ports, 0)
    }

    /// Creates a node like [`Plane::new`] with capacity for `streams` streams: up to that number, adding one
    /// moves no other.
    pub fn with_room(ports: usize, streams: usize) -> Self {
        Self {
            tables: (0..ports).map(|_| Table::default()).collect(),
            unmatched: alloc::vec![0; ports],
            streams: Vec::with_capacity(streams),
            free: Vec::new(),
            names: HashMap::with_capacity(streams),
            splits: Splits::default(),
            lre: None,
            wildcards: Wildcards::default(),
        }
    }

    /// Sets the link redundancy entity, which continues with other parameters; `None` removes it.
    pub fn set_lre(&mut self, parameters: Option<&Parameters>, now_ns: u64) {
        match (parameters, &mut self.lre) {
            (None, lre) => *lre = None,
            (Some(parameters), Some(lre)) => lre.set_parameters(parameters.clone()),
            (Some(parameters), lre) => {
                *lre = Some(Box::new(Lre::new(parameters.clone(), now_ns)));
            }
        }
    }

    /// Returns the link redundancy entity.
    pub fn lre(&mut self) -> Option<&mut Lre> {
        self.lre.as_deref_mut()
    }

    /// Sets the wildcards: see [`Wildcards::set`].
    pub fn set_wildcards(&mut self, wildcards: &[Wildcard], now_ns: u64) {
        self.wildcards.set(wildcards, now_ns);
    }

    /// Returns the state of the wildcards, by precedence.
    pub fn read_wildcards(&self, now_ns: u64) -> Vec<WildcardReading> {
        self.wildcards.read(now_ns)
    }

    /// Removes expired entries of the tables of wildcards; returns whether there are wildcards.
    pub fn expire_wildcards(&mut self, now_ns: u64) -> bool {
        self.wildcards.expire(now_ns);
        !self.wildcards.is_empty()
    }

    /// Adds a stream, or changes the one of the same name. A generator, a recovery function and the counters
    /// of a member continue if the change leaves their parameters as they were. A recovery function also continues with
    /// another timeout or history; with another algorithm it restarts and keeps its counters.
    ///
    /// # Errors
    /// The stream is refused; nothing has changed.
    ///
    /// # Panics
    /// A member names a port that the node does not have.
    pub fn set(&mut self, stream: &Stream) -> Result<(), StreamRefusal> {
        self.change(&[], core::slice::from_ref(stream))
    }

    /// Removes the streams named in `gone` and sets `streams`, all or none, like [`Plane::set`]: a stream may
    /// take the frames that another one releases. Each name is in `streams` at most once; a name in both
    /// changes the stream. Unknown names in `gone` are ignored.
    ///
    /// # Errors
    /// A stream is refused; nothing has changed.
    ///
    /// # Panics
    /// As [`Plane::set`].
    pub fn change(&mut self, gone: &[&str], streams: &[Stream]) -> Result<(), StreamRefusal> {
        let Self { names, streams: states, splits, .. } = self;
        let state = |stream: &Stream| {
            let place = names.get(&stream.name).copied();
            let before = place.and_then(|place| states[place].as_ref());
            Ok((place, State::new(stream, before, splits).map_err(StreamRefusal::Recovery)?))
        };
        let states = streams.iter().map(state).collect::<Result<Vec<_>, _>>()?;
        let places: Vec<_> =
            states.iter().map(|(place, _)| place.unwrap_or_else(|| self.place())).collect();
        let mut before: Vec<_> =
            places.iter().map(|place| (*place, self.streams[*place].take())).collect();
        // The streams to change have released their frames by now.
        let gone: Vec<_> = gone
            .iter()
            .filter_map(|name| self.names.get(*name).copied())
            .filter_map(|place| Some((place, self.streams[place].take()?)))
            .collect();
        let gone_places: Vec<_> = gone.iter().map(|(place, _)| *place).collect();
        before.extend(gone.into_iter().map(|(place, state)| (place, Some(state))));
        for (_, before) in &before {
            before.iter().for_each(|before| self.unregister(before.spec()));
        }
        for (n, (place, (_, state))) in places.iter().zip(states).enumerate() {
            if let Err(conflict) = self.register(state.spec(), *place) {
                self.restore(&places[..n], before);
                return Err(StreamRefusal::Conflict(conflict));
            }
            self.streams[*place] = Some(state);
        }
        let names = before.iter().skip(places.len()).filter_map(|(_, state)| state.as_ref());
        names.for_each(|state| _ = self.names.remove(&state.spec().name));
        self.free.extend(gone_places);
        for (stream, place) in streams.iter().zip(places) {
            self.names.entry_ref(&stream.name).or_insert(place);
        }
        Ok(())
    }

    /// Restores the former streams after some of the new ones were registered.
    fn restore(&mut self, listed: &[usize], before: Vec<(usize, Option<State>)>) {
        for place in listed {
            if let Some(state) = self.streams[*place].take() {
                self.unregister(state.spec());
            }
        }
        for (place, before) in before {
            match before {
                Some(before) => {
                    let listed = self.register(before.spec(), place);
                    debug_assert!(listed.is_ok(), "it was registered before");
                    self.streams[place] = Some(before);
                }
                None => self.free.push(place),
            }
        }
    }

    /// Removes a stream; returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(place) = self.names.remove(name) else { return false };
        if let Some(state) = self.streams[place].take() {
            self.unregister(state.spec());
        }
        self.free.push(place);
        true
    }

    /// Returns the number of streams.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Decides on a frame received at `port`. The stream counts the returned replicas as sent.
    ///
    /// # Panics
    /// The node does not have the port.
    pub fn frame<'a>(&'a mut self, port: PortId, now_ns: u64, octets: &'a [u8]) -> Disposition<'a> {
        let identity = self.identify(port, octets);
        self.decide(port, identity, now_ns, octets)
    }

    /// Returns the member stream of a frame received at `port`.
    ///
    /// # Panics
    /// The node does not have the port.
    pub fn identify(&self, port: PortId, octets: &[u8]) -> FrameIdentity {
        let mut identity = [FrameIdentity::default()];
        self.identify_all(port, core::iter::once(octets), &mut identity);
        identity[0]
    }

    /// Identifies frames received at `port`, into the same number of `identities`. With more streams than the
    /// processor's caches hold, it prefetches for several frames at a time: first the table entries, then the
    /// stream state that [`Plane::decide`] needs.
    ///
    /// # Panics
    /// The node does not have the port.
    pub fn identify_all<'a>(
        &self,
        port: PortId,
        frames: impl IntoIterator<Item = &'a [u8]>,
        identities: &mut [FrameIdentity],
    ) {
        let table = &self.tables[usize::from(port.0)];
        let mut frames = frames.into_iter().zip(identities);
        loop {
            let mut ahead = [const { None }; AHEAD];
            for (place, (octets, identity)) in ahead.iter_mut().zip(&mut frames) {
                let fields = Frame::parse(octets).ok().map(|frame| table.fields(&frame));
                fields.iter().for_each(|fields| table.prefetch(fields));
                *place = Some((octets, fields, identity));
            }
            let full = ahead[AHEAD - 1].is_some();
            for (octets, fields, identity) in ahead.into_iter().flatten() {
                let at = match fields {
                    Some(fields) => table.lookup(&fields),
                    None => self.identify_truncated(port, octets),
                };
                at.iter().for_each(|at| prefetch::lines(&self.streams[at.stream], State::LINES));
                *identity = FrameIdentity(at);
            }
            if !full {
                return;
            }
        }
    }

    /// Decides like [`Plane::frame`] on an identified frame; streams must not have changed since.
    ///
    /// # Panics
    /// Streams have changed, and the frame's stream was removed.
    pub fn decide<'a>(
        &'a mut self,
        port: PortId,
        identity: FrameIdentity,
        now_ns: u64,
        octets: &'a [u8],
    ) -> Disposition<'a> {
        let FrameIdentity(Some(at)) = identity else {
            return self.decide_unmatched(port, now_ns, octets);
        };
        let frame = Frame::parse(octets);
        let state = self.streams[at.stream].as_mut().expect("a registered member exists");
        match frame {
            Ok(frame) => state
                .frame(at.member, now_ns, frame)
                .map_or(Disposition::Dropped, Disposition::Sent),
            Err(_) => {
                state.cannot_decode(at.member);
                Disposition::Dropped
            }
        }
    }

    /// Decides on a frame that matches no stream.
    fn decide_unmatched<'a>(
        &'a mut self,
        port: PortId,
        now_ns: u64,
        octets: &'a [u8],
    ) -> Disposition<'a> {
        let outcome = match &mut self.lre {
            Some(lre) => Some(lre.frame(port, now_ns, octets)),
            None if self.wildcards.is_empty() => None,
            // A frame that ends within its headers is in no wildcard.
            None => {
                let frame = Frame::parse(octets).ok();
                frame.and_then(|frame| self.wildcards.frame(port, now_ns, &frame))
            }
        };
        match outcome {
            Some(Outcome::Send(copies)) => Disposition::Copied(copies),
            Some(Outcome::Discard) => Disposition::Dropped,
            Some(Outcome::Pass) | None => {
                self.unmatched[usize::from(port.0)] += 1;
                Disposition::Unmatched
            }
        }
    }

    /// Returns the number of frames received at `port` that match no stream.
    pub fn unmatched(&self, port: PortId) -> u64 {
        self.unmatched[usize::from(port.0)]
    }

    /// Returns the counters of a stream; `None`: no such stream.
    pub fn read(&mut self, name: &str, now_ns: u64) -> Option<StreamReading> {
        Some(self.stream(name)?.read(now_ns))
    }

    /// Returns the skew between the paths of a stream; `None`: no such stream, or it has no sequence recovery.
    pub fn read_paths(&mut self, name: &str) -> Option<PathsReading> {
        self.stream(name)?.read_paths()
    }

    /// Resets the generator and recovery functions of a stream (frerSeqGenReset, frerSeqRcvyReset); returns
    /// whether the stream exists.
    pub fn reset(&mut self, name: &str, now_ns: u64) -> bool {
        self.stream(name).map(|state| state.reset(now_ns)).is_some()
    }

    /// Sets the number of the next packet of a stream (GenSeqNum); returns whether the stream numbers packets.
    pub fn set_number(&mut self, name: &str, number: u16) -> bool {
        self.stream(name).is_some_and(|state| state.set_number(number))
    }

    /// Resets recovery functions whose timeout has passed without a packet.
    pub fn expire(&mut self, now_ns: u64) {
        self.expire_some(now_ns, 0, usize::MAX);
    }

    /// Expires like [`Plane::expire`], at most `at_most` streams per call, starting at `from`. Returns the
    /// start of the next call; `None`: all done. For callers that forward frames between the calls.
    pub fn expire_some(&mut self, now_ns: u64, from: usize, at_most: usize) -> Option<usize> {
        let end = from.saturating_add(at_most).min(self.streams.len());
        for state in self.streams[from.min(end)..end].iter_mut().flatten() {
            state.expire(now_ns);
        }
        (end < self.streams.len()).then_some(end)
    }

    fn stream(&mut self, name: &str) -> Option<&mut State> {
        self.streams[*self.names.get(name)?].as_mut()
    }

    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() - 1
        })
    }

    fn lookup(&self, port: PortId, fields: &Fields<'_>) -> Option<MemberRef> {
        self.tables[usize::from(port.0)].lookup(fields)
    }

    /// A frame that ends within its R-TAG is identified by the octets before the tag: identification is below
    /// sequence decoding.
    fn identify_truncated(&self, port: PortId, octets: &[u8]) -> Option<MemberRef> {
        let mut longer = [0; LONGEST_TRUNCATED + COMPLETION];
        let len = octets.len() + COMPLETION;
        longer.get_mut(..len)?[..octets.len()].copy_from_slice(octets);
        let frame = Frame::parse(&longer[..len]).ok()?;
        let r_tag = matches!(frame.sequence_tag(), Some(SequenceTag::RTag(_)));
        if !r_tag || frame.msdu_offset() + 2 > octets.len() {
            return None;
        }
        // Missing octets cannot match a mask.
        let msdu = &octets[frame.msdu_offset()..];
        self.lookup(port, &Fields { ip: None, msdu, ..Fields::from(&frame) })
    }

    /// Registers the members of a stream in the tables, all or none.
    fn register(&mut self, stream: &Stream, place: usize) -> Result<(), Conflict> {
        for (member, parameters) in stream.members.iter().enumerate() {
            let table = &mut self.tables[usize::from(parameters.port.0)];
            let at = MemberRef { stream: place, member };
            if let Err(earlier) = table.insert(&parameters.identification, at) {
                self.unregister_members(&stream.members[..member]);
                let first = if earlier.stream == place {
                    stream.name.clone()
                } else {
                    self.streams[earlier.stream]
                        .as_ref()
                        .map_or_else(String::new, |state| state.spec().name.clone())
                };
                let second = stream.name.clone();
                return Err(Conflict { port: parameters.port, first, second });
            }
        }
        Ok(())
    }

    fn unregister(&mut self, stream: &Stream) {
        self.unregister_members(&stream.members);
    }

    fn unregister_members(&mut self, members: &[crate::spec::Member]) {
        for member in members {
            self.tables[usize::from(member.port.0)].remove(&member.identification);
        }
    }
}
