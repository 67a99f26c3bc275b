//! Matches departures with arrivals, in one pass and bounded memory.
//!
//! Packets of the same key within the *window*, the longest permitted delay, form a group. The group determines the
//! verdict:
//!
//! | in the window | verdict |
//! |---|---|
//! | one arrival, one departure | [`Certain`](Verdict::Certain) |
//! | each departure before the next arrival, and no extra departure | [`Ordered`](Verdict::Ordered) |
//! | a departure that may belong to several arrivals | [`Ambiguous`](Verdict::Ambiguous) |
//! | more departures than arrivals | a duplicate; matches by order are ambiguous |
//!
//! If a packet from before the first arrival may belong to a group, the group may be matched off by one. A
//! departure without an arrival, whose contents arrive soon after, shows that packets were in transit at the start:
//! then such groups are ambiguous. So does an extra departure at the end of a group: then its matches, already
//! reported, are counted as ambiguous.
//!
//! A verdict is final when the window has passed: matches are reported in order of arrival, one window late. An
//! entry is kept that long in any case, to detect duplicates.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use crate::strays::{StrayRun, Strays};

/// The time and number of packets for which arrivals are kept until their departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The longest delay, in nanoseconds. A packet that has not departed by then is lost.
    pub longest_ns: i64,
    /// The time by which a departure may be stamped before its arrival, in nanoseconds: 0 if one clock stamps both.
    pub lead_ns: i64,
    /// The time by which a clock may go back between two packets before that counts as a clock step, in
    /// nanoseconds: capturing by several queues causes slight disorder.
    pub disorder_ns: i64,
    /// Maximum number of kept arrivals, whatever their time, and of departures. An entry evicted early is counted
    /// as [`crowded_out`](Counts::crowded_out).
    pub packets: usize,
}

impl Window {
    /// The window for captures whose time stamps go back by up to this time, in nanoseconds.
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

/// A packet observed at a point: its time, and the caller's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observation<T> {
    /// The time, in nanoseconds.
    pub time_ns: i64,
    /// The caller's tag.
    pub tag: T,
}

/// The certainty that a departure belongs to an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// No other packet in the window matches.
    Certain,
    /// Packets of the same contents were in the window, but each departed before the next arrived. Only a loss and
    /// a duplicate of the same contents within one window could make this wrong.
    Ordered,
    /// Packets of the same contents were in transit together. Over the group, delays are correct in the mean; the
    /// delay of one packet may belong to another.
    Ambiguous,
}

/// The result for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<T> {
    /// It arrived and departed. In order of arrival.
    Matched {
        /// The arrival.
        arrival: Observation<T>,
        /// The departure.
        departure: Observation<T>,
        /// The certainty of the match.
        verdict: Verdict,
    },
    /// It arrived and did not depart within the window.
    Lost(Observation<T>),
    /// It departed, and no arrival in the window matches.
    Unmatched(Observation<T>),
    /// It departed again.
    Duplicate(Observation<T>),
}

/// Counters of a matcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that arrived.
    pub arrivals: u64,
    /// Packets that departed.
    pub departures: u64,
    /// Matches of each verdict.
    pub certain: u64,
    /// See [`Verdict::Ordered`].
    pub ordered: u64,
    /// See [`Verdict::Ambiguous`]. Includes matches reported with other verdicts, before an extra departure showed
    /// that their group may be matched off by one.
    pub ambiguous: u64,
    /// Arrivals that did not depart within the window.
    pub lost: u64,
    /// Departures without an arrival.
    pub unmatched: u64,
    /// Departures beyond the first of a packet.
    pub duplicates: u64,
    /// Packets that departed after one that had arrived after them (RFC 4737).
    pub reordered: u64,
    /// Arrivals for which the window had not passed when the capture ended or the clock was set back: neither lost
    /// nor matched.
    pub under_way: u64,
    /// Packets evicted before the window had passed, because of [`Window::packets`]; also counted as lost, matched
    /// or unmatched.
    pub crowded_out: u64,
    /// The number of times that the clock was set back.
    pub steps_back: u64,
    /// The longest run of packets that are on both sides and that the window does not match.
    pub strays: Option<StrayRun>,
}

impl Counts {
    /// Matches of any verdict.
    pub fn matched(&self) -> u64 {
        self.measured() + self.ambiguous
    }

    /// The number of matches whose delay is the packet's own.
    pub fn measured(&self) -> u64 {
        self.certain + self.ordered
    }
}

/// Matches departures with arrivals, both fed in order of time.
#[derive(Debug)]
pub struct Matcher<T> {
    window: Window,
    counts: Counts,
    /// The latest time so far.
    now: i64,
    /// In order of arrival; the first has the number `first`.
    entries: VecDeque<Entry<T>>,
    first: u64,
    /// The oldest entry of each key.
    index: HashTable<u64>,
    /// Keys with more than one entry, at present or before.
    groups: Vec<Group>,
    free: Vec<u32>,
    /// Departures that may belong to an arrival stamped later.
    pending_departures: VecDeque<(u64, Observation<T>)>,
    /// One past the latest arrival that has departed; an earlier arrival that departs later is reordered.
    latest_departed: u64,
    strays: Strays,
    /// The first arrival since the clock was set back.
    start_ns: Option<i64>,
    /// True if packets of repeated contents were in transit at the first arrival.
    preceded: bool,
}

#[derive(Debug)]
struct Entry<T> {
    key: u64,
    arrival: Observation<T>,
    departure: Observation<T>,
    /// Index in `groups`; `ALONE` if no other entry has the key.
    group: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Left(Verdict),
}

const ALONE: u32 = u32::MAX;

/// Entries of one key. A departure is assigned to the oldest pending entry, so that departed entries precede
/// pending ones.
#[derive(Debug, Default)]
struct Group {
    members: VecDeque<u64>,
    left: usize,
    /// Members before this number were pending together when one of them departed.
    overlapping: u64,
    /// Members before this number were present at an extra departure.
    exceeded: u64,
    /// True if a departure may belong to a packet from before the first arrival.
    from_start: bool,
    /// Reported certain and ordered matches of such a group.
    finalized: [u64; 2],
}

impl<T: Copy + Default> Matcher<T> {
    /// Creates an empty matcher.
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

    /// The counters so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The number of entries for which memory is allocated: at most [`Window::packets`], and no more than the
    /// window requires.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Processes an arrival. Of an arrival and a departure of the same time, process the arrival first.
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

    /// Returns true if a departure of this time may belong to a packet from before the first arrival.
    #[inline]
    fn is_early(&self, time_ns: i64) -> bool {
        let start_ns = self.start_ns.unwrap_or(time_ns);
        time_ns < start_ns.saturating_add(self.window.longest_ns)
    }

    /// Adds an arrival to the group of the oldest entry of its key.
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

    /// Processes a departure.
    pub fn depart(
        &mut self,
        key: u64,
        departure: Observation<T>,
        events: &mut impl FnMut(Event<T>),
    ) {
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

    /// Advances to this time, for which all earlier packets were processed: entries that cannot depart any more are
    /// reported. For live captures, where packets may pause for long. A past time has no effect.
    pub fn pass(&mut self, time_ns: i64, events: &mut impl FnMut(Event<T>)) {
        if time_ns > self.now {
            self.advance(time_ns, events);
        }
    }

    /// Finishes the input: all pending entries are reported.
    pub fn finish(&mut self, events: &mut impl FnMut(Event<T>)) {
        while let Some((key, departure)) = self.pending_departures.pop_front() {
            self.leave(key, departure, events);
        }
        // No departure of a later arrival follows.
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

    /// Advances time: processes departures that no later arrival can match, and finalizes entries that no later
    /// departure can match.
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

    /// Finalizes entries for which the window has passed at `time_ns`.
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

    /// Removes the oldest entry and reports its result.
    fn finalize(&mut self, events: &mut impl FnMut(Event<T>)) {
        self.decide_first();
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

    /// Returns the verdict of the oldest entry, by the state of its group.
    fn decide_first(&mut self) {
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

    /// Removes the oldest entry.
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
