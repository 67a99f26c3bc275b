//! A node's streams as one machine: a frame in at a port, its replicas out.
//!
//! ```text
//! frame ── identify ── recover (individual, sequence) ── generate ── replicate ── Replicas
//!             │                    │                                                 │
//!          Unmatched            Dropped                                    Replica::write
//! ```
//!
//! Pure as all of this crate: whoever has sockets brings frames and time, and sends what comes
//! out. Streams come and go one by one, in a time that does not depend on how many there are; what
//! a stream's functions know outlives its changes as far as these leave it its meaning.

mod replica;
mod stream;

use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;
use onbeat_wire::{Frame, SequenceTag};

use self::replica::Splits;
pub use self::replica::{Replica, Replicas};
use self::stream::State;
use crate::identify::{Conflict, Fields, MemberRef, Table};
use crate::prefetch;
use crate::reading::StreamReading;
use crate::spec::{PortId, Stream};
use crate::validate::RecoveryError;

/// The longest frame that ends within its headers: two addresses, two VLAN tags, a sequence tag and
/// half of the EtherType behind it.
const LONGEST_TRUNCATED: usize = 12 + 2 * 4 + SequenceTag::LEN + 1;

/// What completes every sequence tag, the EtherType behind it included.
const COMPLETION: usize = SequenceTag::LEN + 2;

/// Frames whose places in a table are asked for before the first of them is looked up: by then it is
/// there.
const AHEAD: usize = 8;

/// What becomes of a frame.
#[derive(Debug)]
pub enum Fate<'a> {
    /// It is of no stream: FRER has no business with it.
    Unmatched,
    /// It is of a stream, and ends here.
    Dropped,
    /// It leaves by these ports.
    Sent(Replicas<'a>),
}

/// Whose a frame is, as [`Plane::identify`] or [`Plane::identify_all`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity(Option<MemberRef>);

/// Why a stream cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Frames of one of its members are another stream's.
    Conflict(Conflict),
    /// A recovery function's parameters.
    Recovery(RecoveryError),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::Recovery(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}

/// The streams of a node, and what their functions know.
#[derive(Debug)]
pub struct Plane {
    tables: Vec<Table>,
    /// By port: frames of no stream.
    unmatched: Vec<u64>,
    streams: Vec<Option<State>>,
    free: Vec<usize>,
    names: HashMap<String, usize>,
    splits: Splits,
}

impl Plane {
    /// A node of so many ports, without streams.
    pub fn new(ports: usize) -> Self {
        Self::with_room(ports, 0)
    }

    /// As [`Plane::new`], with room for so many streams: until there are more, none of them is moved
    /// when one is added.
    pub fn with_room(ports: usize, streams: usize) -> Self {
        Self {
            tables: (0..ports).map(|_| Table::default()).collect(),
            unmatched: alloc::vec![0; ports],
            streams: Vec::with_capacity(streams),
            free: Vec::new(),
            names: HashMap::with_capacity(streams),
            splits: Splits::default(),
        }
    }

    /// Adds a stream, or changes the one of the same name. A generator, a recovery function and a
    /// member's counters go on where the change leaves them as they were: a function with new
    /// parameters begins anew and keeps its counters.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// # Panics
    /// Where a member names a port that the node does not have.
    pub fn set(&mut self, stream: &Stream) -> Result<(), Refusal> {
        self.change(&[], core::slice::from_ref(stream))
    }

    /// Takes the streams named in `gone` away and sets `streams`, all or none, as [`Plane::set`]
    /// does: what one gives up, another may take. Each name stands in `streams` once; one that
    /// stands in both changes. Names in `gone` of which there is no stream mean nothing.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// # Panics
    /// As [`Plane::set`].
    pub fn change(&mut self, gone: &[&str], streams: &[Stream]) -> Result<(), Refusal> {
        let Self { names, streams: states, splits, .. } = self;
        let state = |stream: &Stream| {
            let place = names.get(&stream.name).copied();
            let before = place.and_then(|place| states[place].as_ref());
            Ok((place, State::new(stream, before, splits).map_err(Refusal::Recovery)?))
        };
        let states = streams.iter().map(state).collect::<Result<Vec<_>, _>>()?;
        let places: Vec<_> =
            states.iter().map(|(place, _)| place.unwrap_or_else(|| self.place())).collect();
        let mut before: Vec<_> =
            places.iter().map(|place| (*place, self.streams[*place].take())).collect();
        // Those that change have left their places by now.
        let gone: Vec<_> = gone
            .iter()
            .filter_map(|name| self.names.get(*name).copied())
            .filter_map(|place| Some((place, self.streams[place].take()?)))
            .collect();
        let gone_places: Vec<_> = gone.iter().map(|(place, _)| *place).collect();
        before.extend(gone.into_iter().map(|(place, state)| (place, Some(state))));
        for (_, before) in &before {
            before.iter().for_each(|before| self.unlist(before.spec()));
        }
        for (n, (place, (_, state))) in places.iter().zip(states).enumerate() {
            if let Err(conflict) = self.list(state.spec(), *place) {
                self.put_back(&places[..n], before);
                return Err(Refusal::Conflict(conflict));
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

    /// Has in its place again what was there before, where some are listed by now.
    fn put_back(&mut self, listed: &[usize], before: Vec<(usize, Option<State>)>) {
        for place in listed {
            if let Some(state) = self.streams[*place].take() {
                self.unlist(state.spec());
            }
        }
        for (place, before) in before {
            match before {
                Some(before) => {
                    let listed = self.list(before.spec(), place);
                    debug_assert!(listed.is_ok(), "it was there before");
                    self.streams[place] = Some(before);
                }
                None => self.free.push(place),
            }
        }
    }

    /// Takes a stream away; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(place) = self.names.remove(name) else { return false };
        if let Some(state) = self.streams[place].take() {
            self.unlist(state.spec());
        }
        self.free.push(place);
        true
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Decides on a frame that came in at `port`. What it tells to send, the stream counts as sent.
    ///
    /// # Panics
    /// Where the node does not have the port.
    pub fn frame<'a>(&'a mut self, port: PortId, now_ns: u64, octets: &'a [u8]) -> Fate<'a> {
        let identity = self.identify(port, octets);
        self.decide(port, identity, now_ns, octets)
    }

    /// Whose a frame is that came in at `port`.
    ///
    /// # Panics
    /// Where the node does not have the port.
    pub fn identify(&self, port: PortId, octets: &[u8]) -> Identity {
        let mut identity = [Identity::default()];
        self.identify_all(port, core::iter::once(octets), &mut identity);
        identity[0]
    }

    /// Whose frames are that came in at `port`, into as many `identities`. Where there are more
    /// streams than the processor's caches hold, it is told ahead what to fetch: of some frames at a
    /// time first where they are looked up, then of their streams what [`Plane::decide`] needs.
    ///
    /// # Panics
    /// Where the node does not have the port.
    pub fn identify_all<'a>(
        &self,
        port: PortId,
        frames: impl IntoIterator<Item = &'a [u8]>,
        identities: &mut [Identity],
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
                *identity = Identity(at);
            }
            if !full {
                return;
            }
        }
    }

    /// As [`Plane::frame`], of a frame that was identified; streams must not have changed since.
    ///
    /// # Panics
    /// Where they have, and it was of one that is gone.
    pub fn decide<'a>(
        &'a mut self,
        port: PortId,
        identity: Identity,
        now_ns: u64,
        octets: &'a [u8],
    ) -> Fate<'a> {
        let Identity(Some(at)) = identity else {
            self.unmatched[usize::from(port.0)] += 1;
            return Fate::Unmatched;
        };
        let frame = Frame::parse(octets);
        let state = self.streams[at.stream].as_mut().expect("a member that is listed is there");
        match frame {
            Ok(frame) => state.frame(at.member, now_ns, frame).map_or(Fate::Dropped, Fate::Sent),
            Err(_) => {
                state.cannot_decode(at.member);
                Fate::Dropped
            }
        }
    }

    /// Frames of no stream that came in at `port`.
    pub fn unmatched(&self, port: PortId) -> u64 {
        self.unmatched[usize::from(port.0)]
    }

    /// A stream's counters; `None` where there is no such stream.
    pub fn read(&mut self, name: &str, now_ns: u64) -> Option<StreamReading> {
        Some(self.stream(name)?.read(now_ns))
    }

    /// Resets a stream's generator and recovery functions (frerSeqGenReset, frerSeqRcvyReset);
    /// whether there is such a stream.
    pub fn reset(&mut self, name: &str, now_ns: u64) -> bool {
        self.stream(name).map(|state| state.reset(now_ns)).is_some()
    }

    /// Resets recovery functions whose time ran out without a packet.
    pub fn expire(&mut self, now_ns: u64) {
        self.expire_some(now_ns, 0, usize::MAX);
    }

    /// As [`Plane::expire`], of so many streams at most: the first ones from 0 on, then those from
    /// where it says on, until it says `None`. For who has frames to move meanwhile.
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

    /// A frame that ends within its R-TAG is of the stream that what stands in front of the tag
    /// says: identification stands below sequence decoding.
    fn identify_truncated(&self, port: PortId, octets: &[u8]) -> Option<MemberRef> {
        let mut longer = [0; LONGEST_TRUNCATED + COMPLETION];
        let len = octets.len() + COMPLETION;
        longer.get_mut(..len)?[..octets.len()].copy_from_slice(octets);
        let frame = Frame::parse(&longer[..len]).ok()?;
        let r_tag = matches!(frame.sequence_tag(), Some(SequenceTag::RTag(_)));
        if !r_tag || frame.msdu_offset() + 2 > octets.len() {
            return None;
        }
        // Octets that the frame does not have are none that a mask could match.
        let msdu = &octets[frame.msdu_offset()..];
        self.lookup(port, &Fields { ip: None, msdu, ..Fields::from(&frame) })
    }

    /// Enters a stream's members into the tables, all or none.
    fn list(&mut self, stream: &Stream, place: usize) -> Result<(), Conflict> {
        for (member, parameters) in stream.members.iter().enumerate() {
            let table = &mut self.tables[usize::from(parameters.port.0)];
            let at = MemberRef { stream: place, member };
            if let Err(earlier) = table.insert(&parameters.identification, at) {
                self.unlist_members(&stream.members[..member]);
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

    fn unlist(&mut self, stream: &Stream) {
        self.unlist_members(&stream.members);
    }

    fn unlist_members(&mut self, members: &[crate::spec::Member]) {
        for member in members {
            self.tables[usize::from(member.port.0)].remove(&member.identification);
        }
    }
}
