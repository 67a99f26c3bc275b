//! Which departure belongs to which arrival, in one pass and bounded memory.
//!
//! Packets of the same key within the *window*, the longest time that a packet may take, form a
//! group. What a group allows to be said is the verdict:
//!
//! | in the window | verdict |
//! |---|---|
//! | one arrival, one departure | [`Certain`](Verdict::Certain) |
//! | each departure before the next arrival, and no departure too many | [`Ordered`](Verdict::Ordered) |
//! | a departure that several arrivals may be meant by | [`Ambiguous`](Verdict::Ambiguous) |
//! | a departure more than there are arrivals | a duplicate; what was matched by order is ambiguous |
//!
//! A group that a packet from before the first arrival may belong to is matched off by one where there was
//! such a packet. A departure without an arrival, of contents that arrive soon after, shows that packets
//! were under way at the start: then such groups are ambiguous. So does a departure too many at the end of
//! a group: then its matches, which came out already, are counted as ambiguous.
//!
//! A verdict is final when the window has passed, so that matches come out in order of arrival,
//! one window late. An entry lives that long anyway: without it a duplicate could not be told.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use crate::strays::{StrayRun, Strays};

/// How long, and how many, packets are kept waiting for their departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The longest delay that is looked for, in nanoseconds. A packet that has not left by then is
    /// lost.
    pub longest_ns: i64,
    /// How far ahead of its arrival a departure may be stamped, in nanoseconds: 0 where one clock
    /// stamps both.
    pub lead_ns: i64,
    /// How far a clock may go back between one packet and the next before that is taken for a step
    /// of the clock, in nanoseconds: capturing by several queues mixes up the order a little.
    pub disorder_ns: i64,
    /// Arrivals kept at most, whatever their time, and departures. One that has to go early is
    /// counted as [`crowded_out`](Counts::crowded_out).
    pub packets: usize,
}

impl Window {
    /// The window for captures whose time stamps go back by as much as this, in nanoseconds.
    #[must_use]
    pub fn with_disorder(self, disorder_ns: i64) -> Self {
        Window {
            disorder_ns: self.disorder_ns.max(disorder_ns),
            lead_ns: self.lead_ns.max(disorder_ns),
            ..self
        }
    }
}

impl Default for Window {
    /// A second, one clock, a millisecond of disorder, a million packets.
    fn default() -> Self {
        Window { longest_ns: 1_000_000_000, lead_ns: 0, disorder_ns: 1_000_000, packets: 1 << 20 }
    }
}

/// A packet as it passed a point: when, and what the caller knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observation<T> {
    /// When, in nanoseconds.
    pub time_ns: i64,
    /// The caller's.
    pub tag: T,
}

/// How sure it is that a departure is that of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// No other packet in the window could be meant.
    Certain,
    /// Packets of the same contents were in the window, and each left before the next came. Only a
    /// loss and a duplicate of the same contents within one window could make this wrong.
    Ordered,
    /// Packets of the same contents were under way together. Over the group, delays are right in
    /// the mean; that of one packet may be another's.
    Ambiguous,
}

/// What came of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<T> {
    /// It arrived and left. In order of arrival.
    Matched {
        /// When it arrived.
        arrival: Observation<T>,
        /// When it left.
        departure: Observation<T>,
        /// How sure that is.
        verdict: Verdict,
    },
    /// It arrived and did not leave within the window.
    Lost(Observation<T>),
    /// It left, and no arrival in the window was its.
    Unmatched(Observation<T>),
    /// It left again.
    Duplicate(Observation<T>),
}

/// What a matcher saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that arrived.
    pub arrivals: u64,
    /// Packets that left.
    pub departures: u64,
    /// Matches of each verdict.
    pub certain: u64,
    /// See [`Verdict::Ordered`].
    pub ordered: u64,
    /// See [`Verdict::Ambiguous`]. Also matches that came out as others, before a departure too many
    /// showed that their group may be matched off by one.
    pub ambiguous: u64,
    /// Arrivals that did not leave within the window.
    pub lost: u64,
    /// Departures without an arrival.
    pub unmatched: u64,
    /// Departures beyond the first of a packet.
    pub duplicates: u64,
    /// Packets that left after one that had arrived after them (RFC 4737).
    pub reordered: u64,
    /// Arrivals for which the window had not passed when the capture ended or the clock was set
    /// back: neither lost nor matched.
    pub under_way: u64,
    /// Packets that had to go before the window had passed, because of [`Window::packets`];
    /// counted as lost, matched or unmatched as well.
    pub crowded_out: u64,
    /// Times that the clock was set back.
    pub steps_back: u64,
    /// Packets on both sides that the window does not match: the longest run of them.
    pub strays: Option<StrayRun>,
}

impl Counts {
    /// Matches of any verdict.
    pub fn matched(&self) -> u64 {
        self.measured() + self.ambiguous
    }

    /// Matches whose delay is the packet's own.
    pub fn measured(&self) -> u64 {
        self.certain + self.ordered
    }
}

/// Matches departures with arrivals, both fed in order of time.
#[derive(Debug)]
pub struct Matcher<T> {
    window: Window,
    counts: Counts,
    /// The latest time seen.
    now: i64,
    /// In order of arrival; the first has the number `first`.
    entries: VecDeque<Entry<T>>,
    first: u64,
    /// The oldest entry of each key.
    index: HashTable<u64>,
    /// Keys with more than one entry, or that had.
    groups: Vec<Group>,
    free: Vec<u32>,
    /// Departures that an arrival stamped later may still be meant by.
    pending_departures: VecDeque<(u64, Observation<T>)>,
    /// The latest arrival that has left, one past it; what leaves and arrived before is reordered.
    latest_departed: u64,
    strays: Strays,
    /// The first arrival since the clock was set back.
    start_ns: Option<i64>,
    /// Whether packets of contents that repeat were under way at the first arrival.
    preceded: bool,
}

#[derive(Debug)]
struct Entry<T> {
    key: u64,
    arrival: Observation<T>,
    departure: Observation<T>,
    /// Of `groups`; `ALONE` where no other entry has the key.
    group: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Left(Verdict),
}

const ALONE: u32 = u32::MAX;

/// Entries of one key. Departures are given to the oldest that waits, so that those that have left
/// come before those that wait.
#[derive(Debug, Default)]
struct Group {
    members: VecDeque<u64>,
    left: usize,
    /// Members before this number waited together when one of them left.
    overlapping: u64,
    /// Members before this number were there when a departure too many came.
    exceeded: u64,
    /// Whether a departure may be that of a packet from before the first arrival.
    from_start: bool,
    /// Of such a group, certain and ordered matches that came out.
    finalized: [u64; 2],
}

impl<T: Copy + Default> Matcher<T> {
    /// A matcher of nothing yet.
    pub fn new(window: Window) -> Self {
        Matcher {
            window: Window { packets: window.packets.max(1), ..window },
            counts: Counts::default(),
            now: i64::MIN,
            entries: VecDeque::new(),
            first: 0,
            index: HashTable::new(),
            groups: Vec::new(),
            free: Vec::new(),
            pending_departures: VecDeque::new(),
            latest_departed: 0,
            strays: Strays::default(),
            start_ns: None,
            preceded: false,
        }
    }

    /// What was seen so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Entries for which there is memory: what the matcher takes, and never more than
    /// [`Window::packets`] allows and the window needs.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// A packet arrived. Of an arrival and a departure of the same time, the arrival comes first.
    pub fn arrive(&mut self, key: u64, arrival: Observation<T>, events: &mut impl FnMut(Event<T>)) {
        self.counts.arrivals += 1;
        self.advance(arrival.time_ns, events);
        if self.entries.len() >= self.window.packets {
            self.counts.crowded_out += 1;
            self.finalize(events);
        }
        self.start_ns.get_or_insert(arrival.time_ns);
        let is_early = self.is_early(arrival.time_ns);
        let number = self.first + self.entries.len() as u64;
        let (entries, first) = (&self.entries, self.first);
        let key_of = |number: &u64| entries[(*number - first) as usize].key;
        let place = self.index.entry(key, |number| key_of(number) == key, key_of);
        let oldest = match place {
            Place::Occupied(place) => Some(*place.get()),
            Place::Vacant(place) => {
                place.insert(number);
                self.preceded |= is_early && self.strays.has_departure(key);
                None
            }
        };
        let group = oldest.map_or(ALONE, |oldest| self.join(oldest, number));
        self.entries.push_back(Entry {
            key,
            arrival,
            departure: Observation::default(),
            group,
            state: State::Waiting,
        });
    }

    /// Whether a departure of this time may be of a packet from before the first arrival.
    #[inline]
    fn is_early(&self, time_ns: i64) -> bool {
        let start_ns = self.start_ns.unwrap_or(time_ns);
        time_ns < start_ns.saturating_add(self.window.longest_ns)
    }

    /// Puts an arrival into the group of the oldest entry of its key.
    fn join(&mut self, oldest: u64, number: u64) -> u32 {
        let departure_ns = self.entries[(oldest - self.first) as usize].departure.time_ns;
        let is_early = self.is_early(departure_ns);
        let oldest_entry = &mut self.entries[(oldest - self.first) as usize];
        if oldest_entry.group == ALONE {
            oldest_entry.group = self.free.pop().unwrap_or_else(|| {
                self.groups.push(Group::default());
                self.groups.len() as u32 - 1
            });
            let group = &mut self.groups[oldest_entry.group as usize];
            group.members.push_back(oldest);
            group.left = usize::from(oldest_entry.state != State::Waiting);
            group.from_start = group.left > 0 && is_early;
        }
        self.groups[oldest_entry.group as usize].members.push_back(number);
        oldest_entry.group
    }

    /// A packet left.
    pub fn depart(&mut self, key: u64, departure: Observation<T>, events: &mut impl FnMut(Event<T>)) {
        self.counts.departures += 1;
        self.advance(departure.time_ns, events);
        if self.window.lead_ns == 0 {
            self.leave(key, departure, events);
            return;
        }
        if self.pending_departures.len() >= self.window.packets {
            self.counts.crowded_out += 1;
            if let Some((key, departure)) = self.pending_departures.pop_front() {
                self.leave(key, departure, events);
            }
        }
        self.pending_departures.push_back((key, departure));
    }

    /// It is this time, and every packet from before was fed: what cannot leave any more comes out. For who
    /// captures live, where nothing may come for long. A time that is past changes nothing.
    pub fn pass(&mut self, time_ns: i64, events: &mut impl FnMut(Event<T>)) {
        if time_ns > self.now {
            self.advance(time_ns, events);
        }
    }

    /// The input has ended: all that is under way comes out.
    pub fn finish(&mut self, events: &mut impl FnMut(Event<T>)) {
        while let Some((key, departure)) = self.pending_departures.pop_front() {
            self.leave(key, departure, events);
        }
        // No departure comes any more that a later arrival could be meant by.
        self.finalize_until(self.now, events);
        while !self.entries.is_empty() {
            if self.entries[0].state == State::Waiting {
                self.counts.under_way += 1;
                if let Some(entry) = self.drop_first() {
                    self.strays.arrival(entry.key, entry.arrival.time_ns);
                }
            } else {
                self.finalize(events);
            }
        }
        self.counts.strays = self.strays.longest();
    }

    /// Time goes on: departures that no later arrival can be meant by are looked at, and entries
    /// that no later departure can mean are settled.
    #[inline]
    fn advance(&mut self, time_ns: i64, events: &mut impl FnMut(Event<T>)) {
        if time_ns < self.now {
            if self.now.saturating_sub(time_ns) > self.window.disorder_ns {
                self.counts.steps_back += 1;
                self.finish(events);
                self.strays.restart();
                (self.start_ns, self.preceded) = (None, false);
                self.now = time_ns;
            }
            return;
        }
        self.now = time_ns;
        let held_since = time_ns.saturating_sub(self.window.lead_ns);
        while let Some(&(key, departure)) = self.pending_departures.front() {
            if departure.time_ns >= held_since {
                break;
            }
            self.pending_departures.pop_front();
            self.finalize_until(departure.time_ns, events);
            self.leave(key, departure, events);
        }
        self.finalize_until(held_since, events);
    }

    /// Settles entries for which the window has passed at `time_ns`.
    #[inline]
    fn finalize_until(&mut self, time_ns: i64, events: &mut impl FnMut(Event<T>)) {
        let oldest = time_ns.saturating_sub(self.window.longest_ns);
        while self.entries.front().is_some_and(|entry| entry.arrival.time_ns < oldest) {
            self.finalize(events);
        }
    }

    fn leave(&mut self, key: u64, departure: Observation<T>, events: &mut impl FnMut(Event<T>)) {
        let is_early = self.is_early(departure.time_ns);
        let (entries, first) = (&mut self.entries, self.first);
        let found = self.index.find(key, |number| entries[(*number - first) as usize].key == key);
        let Some(&oldest) = found else {
            self.counts.unmatched += 1;
            self.strays.departure(key, departure.time_ns);
            events(Event::Unmatched(departure));
            return;
        };
        let mut number = oldest;
        let mut verdict = Verdict::Certain;
        let group = entries[(oldest - first) as usize].group;
        let waits = if group == ALONE {
            entries[(oldest - first) as usize].state == State::Waiting
        } else {
            let group = &mut self.groups[group as usize];
            let newest = group.members.back().copied().unwrap_or(oldest);
            if let Some(&waiting) = group.members.get(group.left) {
                if waiting != newest {
                    group.overlapping = newest + 1;
                }
                verdict = match waiting {
                    waiting if waiting < group.overlapping => Verdict::Ambiguous,
                    waiting if waiting != oldest => Verdict::Ordered,
                    _ => Verdict::Certain,
                };
                number = waiting;
                group.left += 1;
                group.from_start |= is_early;
                true
            } else {
                group.exceeded = newest + 1;
                group.from_start = false;
                let [certain, ordered] = std::mem::take(&mut group.finalized);
                self.counts.certain -= certain;
                self.counts.ordered -= ordered;
                self.counts.ambiguous += certain + ordered;
                false
            }
        };
        if !waits {
            self.counts.duplicates += 1;
            events(Event::Duplicate(departure));
            return;
        }
        let entry = &mut entries[(number - first) as usize];
        entry.departure = departure;
        entry.state = State::Left(verdict);
        if number < self.latest_departed {
            self.counts.reordered += 1;
        }
        self.latest_departed = self.latest_departed.max(number + 1);
    }

    /// Takes the oldest entry out and tells what came of it.
    fn finalize(&mut self, events: &mut impl FnMut(Event<T>)) {
        self.judge_first();
        let Some(entry) = self.drop_first() else { return };
        let State::Left(verdict) = entry.state else {
            self.counts.lost += 1;
            self.strays.arrival(entry.key, entry.arrival.time_ns);
            events(Event::Lost(entry.arrival));
            return;
        };
        self.strays.matched();
        match verdict {
            Verdict::Certain => self.counts.certain += 1,
            Verdict::Ordered => self.counts.ordered += 1,
            Verdict::Ambiguous => self.counts.ambiguous += 1,
        }
        events(Event::Matched { arrival: entry.arrival, departure: entry.departure, verdict });
    }

    /// The verdict of the oldest entry, by all that its group showed.
    fn judge_first(&mut self) {
        let Some(entry) = self.entries.front_mut().filter(|entry| entry.group != ALONE) else {
            return;
        };
        let State::Left(verdict) = &mut entry.state else { return };
        let group = &mut self.groups[entry.group as usize];
        let exceeded = self.first < group.exceeded && *verdict == Verdict::Ordered;
        if exceeded || group.from_start && self.preceded {
            *verdict = Verdict::Ambiguous;
        }
        if group.from_start && *verdict != Verdict::Ambiguous {
            group.finalized[usize::from(*verdict == Verdict::Ordered)] += 1;
        }
    }

    /// Takes the oldest entry out.
    fn drop_first(&mut self) -> Option<Entry<T>> {
        let entry = self.entries.pop_front()?;
        let number = self.first;
        self.first += 1;
        let Ok(place) = self.index.find_entry(entry.key, |oldest| *oldest == number) else {
            return Some(entry);
        };
        if entry.group == ALONE {
            place.remove();
            return Some(entry);
        }
        let group = &mut self.groups[entry.group as usize];
        group.members.pop_front();
        group.left -= usize::from(entry.state != State::Waiting);
        match group.members.front() {
            Some(next) => *place.into_mut() = *next,
            None => {
                place.remove();
                *group = Group { members: std::mem::take(&mut group.members), ..Group::default() };
                self.free.push(entry.group);
            }
        }
        Some(entry)
    }
}
