//! Tells from what a stream's functions count what somebody should know of: a path that no longer
//! contributes while the others hide it, a flood of rogue packets, resets.
//!
//! A [`Watch`] is fed with readings as often as its owner likes, and tells what has begun or ended
//! since the one before. Its rules:
//!
//! * **Path loss.** A member of a stream with sequence recovery is lost once the stream has passed
//!   [`Rules::path_packets`] packets since the member's last, and [`Rules::path_ns`] have gone by
//!   since it was first seen to do so. What is counted is the stream's own packets: a talker that
//!   is silent, over all paths alike, loses no path, and a stream of one packet a second has as
//!   many chances as a fast one. The member is back with as many packets of its own, unless it is
//!   lost again between them. A loss is told within the longer of `path_ns` and the time that
//!   `path_packets` take, and three looks more.
//! * **Rogue flood.** It begins with [`Rules::rogue_packets`] rogue packets of a function that come
//!   without a pause of [`Rules::rogue_quiet_ns`], and ends with such a pause.
//! * **Resets.** Those that were asked for are told at once; time-outs, which a stream slower than
//!   its reset time-out has all the time, then at most once in [`Rules::repeat_ns`], together.
//!
//! A member contributes what its individual recovery passes, where it has one, so that a sender
//! stuck on one number is lost too; else what comes in with a tag that can be decoded.

use alloc::vec::Vec;
use core::fmt;

use crate::reading::{MemberReading, RecoveryReading, StreamReading};
use crate::spec::Stream;

/// From when on something is told; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Packets that a stream passes without one of a member's before that member is lost.
    pub path_packets: u64,
    /// How long a replica may come after the first. More than the delay difference of the paths.
    pub path_ns: u64,
    /// Rogue packets that are a flood.
    pub rogue_packets: u64,
    /// The pause that ends a flood.
    pub rogue_quiet_ns: u64,
    /// How long further time-outs are kept back.
    pub repeat_ns: u64,
}

impl Default for Rules {
    fn default() -> Self {
        const S: u64 = 1_000_000_000;
        Self {
            path_packets: 5,
            path_ns: S / 2,
            rogue_packets: 10,
            rogue_quiet_ns: 5 * S,
            repeat_ns: 10 * S,
        }
    }
}

/// A function of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Function {
    /// Sequence generation (7.4.1).
    Generation,
    /// Sequence recovery (7.4.2).
    Sequence,
    /// Individual recovery (7.5).
    Individual,
}

/// Why functions were reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Cause {
    /// No packet within the reset time-out.
    TimeOut,
    /// Management (frerSeqGenReset, frerSeqRcvyReset).
    Request,
}

/// What happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number of the member that it is about.
    pub member: Option<usize>,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "event", rename_all = "snake_case"))]
pub enum EventKind {
    /// A function was reset.
    Reset {
        /// The function.
        function: Function,
        /// The cause.
        cause: Cause,
        /// Resets since the event before of this function.
        count: u64,
    },
    /// A member no longer contributes, while others do.
    PathLoss {
        /// Packets that the stream has passed without it.
        packets: u64,
    },
    /// It contributes again.
    PathBack {
        /// Packets that the stream had passed without it.
        packets: u64,
    },
    /// A recovery function discards rogue packets.
    RogueFlood {
        /// The function.
        function: Function,
        /// Rogue packets so far.
        packets: u64,
    },
    /// No more of them come.
    RogueFloodEnded {
        /// The function.
        function: Function,
        /// Rogue packets in all.
        packets: u64,
    },
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generation => "sequence generation",
            Self::Sequence => "sequence recovery",
            Self::Individual => "individual recovery",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeOut => "by its time-out",
            Self::Request => "on request",
        })
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset { function, cause, count } => {
                write!(f, "{function} was reset {cause}")?;
                if *count > 1 { write!(f, ", {count} times") } else { Ok(()) }
            }
            Self::PathLoss { packets } => {
                write!(f, "path lost: {packets} packets passed without it")
            }
            Self::PathBack { packets } => {
                write!(f, "path back, after {packets} packets without it")
            }
            Self::RogueFlood { function, packets } => {
                write!(f, "{function} discards rogue packets: {packets} so far")
            }
            Self::RogueFloodEnded { function, packets } => {
                write!(f, "{function}: no more rogue packets, after {packets}")
            }
        }
    }
}

/// The watch over one stream.
#[derive(Debug, Clone)]
pub struct Watch {
    generation: Option<Resets>,
    sequence: Option<Recovery>,
    members: Vec<Member>,
}

impl Watch {
    /// What is counted by now is past.
    pub fn new(reading: &StreamReading) -> Self {
        let passed = passed(reading);
        Self {
            generation: reading.generation.map(|generation| Resets::new(generation.resets)),
            sequence: reading.recovery.as_ref().map(Recovery::new),
            members: reading.members.iter().map(|member| Member::new(member, passed)).collect(),
        }
    }

    /// Whether anything can happen to a stream that nobody asks for, so that it must be looked at.
    pub fn is_needed(stream: &Stream) -> bool {
        stream.recover.is_some() || stream.members.iter().any(|member| member.individual.is_some())
    }

    /// Tells what happened since the look before. Resets since then have this `cause`; a reading of
    /// other functions than before begins anew.
    pub fn look(
        &mut self,
        rules: &Rules,
        now_ns: u64,
        reading: &StreamReading,
        cause: Cause,
        mut tell: impl FnMut(Event),
    ) {
        if !self.is_of(reading) {
            *self = Self::new(reading);
            return;
        }
        let moment = Moment { rules, now_ns, cause };
        let mut tell_stream = |kind| tell(Event { member: None, kind });
        if let (Some(resets), Some(generation)) = (&mut self.generation, reading.generation) {
            resets.look(&moment, Function::Generation, generation.resets, &mut tell_stream);
        }
        if let (Some(recovery), Some(reading)) = (&mut self.sequence, &reading.recovery) {
            recovery.look(&moment, Function::Sequence, reading, &mut tell_stream);
        }
        let others = self.members.len() > 1 && self.sequence.is_some();
        let passed = passed(reading);
        for (number, (member, reading)) in self.members.iter_mut().zip(&reading.members).enumerate()
        {
            let mut tell = |kind| tell(Event { member: Some(number), kind });
            if let (Some(recovery), Some(reading)) = (&mut member.individual, &reading.individual) {
                recovery.look(&moment, Function::Individual, reading, &mut tell);
            }
            if others {
                let change = member.path.look(&moment, contributed(reading), passed);
                change.into_iter().for_each(tell);
            }
        }
    }

    /// Whether the member of this number is lost.
    pub fn is_lost(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|member| member.path.lost.is_some())
    }

    fn is_of(&self, reading: &StreamReading) -> bool {
        let individual = self.members.iter().map(|member| member.individual.is_some());
        self.generation.is_some() == reading.generation.is_some()
            && self.sequence.is_some() == reading.recovery.is_some()
            && individual.eq(reading.members.iter().map(|member| member.individual.is_some()))
    }
}

fn passed(reading: &StreamReading) -> u64 {
    reading.recovery.map_or(0, |recovery| recovery.counters.passed)
}

fn contributed(member: &MemberReading) -> u64 {
    match &member.individual {
        Some(individual) => individual.counters.passed,
        None => member.input.saturating_sub(member.enc_errored),
    }
}

/// What a look goes by.
struct Moment<'a> {
    rules: &'a Rules,
    now_ns: u64,
    cause: Cause,
}

#[derive(Debug, Clone)]
struct Member {
    individual: Option<Recovery>,
    path: Path,
}

impl Member {
    fn new(reading: &MemberReading, passed: u64) -> Self {
        Self {
            individual: reading.individual.as_ref().map(Recovery::new),
            path: Path::new(contributed(reading), passed),
        }
    }
}

/// What a recovery function does.
#[derive(Debug, Clone)]
struct Recovery {
    resets: Resets,
    rogue: Rogue,
}

impl Recovery {
    fn new(reading: &RecoveryReading) -> Self {
        let counters = &reading.counters;
        Self { resets: Resets::new(counters.resets), rogue: Rogue::new(counters.rogue) }
    }

    fn look(
        &mut self,
        moment: &Moment<'_>,
        function: Function,
        reading: &RecoveryReading,
        tell: &mut impl FnMut(EventKind),
    ) {
        self.resets.look(moment, function, reading.counters.resets, tell);
        self.rogue.look(moment, function, reading.counters.rogue, tell);
    }
}

/// What a counter has grown by; one that is less than before began anew, and has not.
fn growth(before: &mut u64, now: u64) -> u64 {
    now.saturating_sub(core::mem::replace(before, now))
}

#[derive(Debug, Clone)]
struct Resets {
    counted: u64,
    /// Time-outs kept back.
    untold: u64,
    /// When time-outs were last told.
    told_ns: Option<u64>,
}

impl Resets {
    fn new(counted: u64) -> Self {
        Self { counted, untold: 0, told_ns: None }
    }

    fn look(
        &mut self,
        moment: &Moment<'_>,
        function: Function,
        counted: u64,
        tell: &mut impl FnMut(EventKind),
    ) {
        let Moment { rules, now_ns, cause } = *moment;
        let mut count = growth(&mut self.counted, counted);
        if cause == Cause::TimeOut {
            self.untold += count;
            let lately = |told| now_ns.saturating_sub(told) < rules.repeat_ns;
            if self.untold == 0 || self.told_ns.is_some_and(lately) {
                return;
            }
            self.told_ns = Some(now_ns);
            count = core::mem::take(&mut self.untold);
        }
        if count > 0 {
            tell(EventKind::Reset { function, cause, count });
        }
    }
}

#[derive(Debug, Clone)]
struct Rogue {
    counted: u64,
    /// Those without a pause up to now.
    run: u64,
    /// When the last of them was seen.
    last_ns: u64,
    flood: bool,
}

impl Rogue {
    fn new(counted: u64) -> Self {
        Self { counted, run: 0, last_ns: 0, flood: false }
    }

    fn look(
        &mut self,
        moment: &Moment<'_>,
        function: Function,
        counted: u64,
        tell: &mut impl FnMut(EventKind),
    ) {
        let Moment { rules, now_ns, .. } = *moment;
        let new = growth(&mut self.counted, counted);
        if new > 0 {
            self.run += new;
            self.last_ns = now_ns;
            if !self.flood && self.run >= rules.rogue_packets {
                self.flood = true;
                tell(EventKind::RogueFlood { function, packets: self.run });
            }
        } else if now_ns.saturating_sub(self.last_ns) >= rules.rogue_quiet_ns {
            let packets = core::mem::take(&mut self.run);
            if core::mem::take(&mut self.flood) {
                tell(EventKind::RogueFloodEnded { function, packets });
            }
        }
    }
}

/// Whether a member contributes to its stream.
#[derive(Debug, Clone)]
struct Path {
    contributed: u64,
    /// What the stream had passed when the member was last seen to contribute.
    passed: u64,
    /// When the stream was first seen to go on without it.
    alone_ns: Option<u64>,
    lost: Option<Lost>,
}

#[derive(Debug, Clone)]
struct Lost {
    /// What the stream had passed when the member was last seen to contribute.
    passed: u64,
    /// What the member had contributed when it was last found lost.
    contributed: u64,
}

impl Path {
    fn new(contributed: u64, passed: u64) -> Self {
        Self { contributed, passed, alone_ns: None, lost: None }
    }

    fn look(&mut self, moment: &Moment<'_>, contributed: u64, passed: u64) -> Option<EventKind> {
        let Moment { rules, now_ns, .. } = *moment;
        if contributed != self.contributed || passed < self.passed {
            (self.contributed, self.passed, self.alone_ns) = (contributed, passed, None);
            let lost = self.lost.as_ref()?;
            // A counter that began anew is less than it was: that, too, is a packet at least.
            let back = contributed.checked_sub(lost.contributed);
            if back.is_some_and(|packets| packets < rules.path_packets) {
                return None;
            }
            let packets = passed.saturating_sub(lost.passed);
            self.lost = None;
            return Some(EventKind::PathBack { packets });
        }
        let alone = passed - self.passed;
        if alone == 0 {
            return None;
        }
        let since_ns = *self.alone_ns.get_or_insert(now_ns);
        if alone < rules.path_packets || now_ns.saturating_sub(since_ns) < rules.path_ns {
            return None;
        }
        if let Some(lost) = &mut self.lost {
            lost.contributed = contributed;
            return None;
        }
        self.lost = Some(Lost { passed: self.passed, contributed });
        Some(EventKind::PathLoss { packets: alone })
    }
}
