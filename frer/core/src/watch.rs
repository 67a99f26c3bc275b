//! Derives events from the counters of a stream: a path that no longer contributes while the others mask it,
//! a flood of rogue packets, resets.
//!
//! The caller passes readings to a [`StreamMonitor`] at any interval; it emits the events since the previous reading.
//! Its rules:
//!
//! * **Path loss.** A member of a stream with sequence recovery is lost when the stream has passed
//!   [`EventRules::path_packets`] packets since the member's last, and [`EventRules::path_ns`] have passed since this
//!   was first observed. The rule counts packets of the stream: a silent talker loses no path, and a stream
//!   of one packet per second has the same margin as a fast one. The member is back after the same number of
//!   packets of its own, unless it is lost again in between. A loss is reported within the longer of
//!   `path_ns` and the time of `path_packets` packets, plus three readings.
//! * **Rogue flood.** It starts with [`EventRules::rogue_packets`] rogue packets of a function without a pause of
//!   [`EventRules::rogue_quiet_ns`], and ends with such a pause.
//! * **All packets rogue.** Since the last packet that was not, a function has discarded
//!   [`EventRules::rogue_packets`] rogue packets, and no other packet came between two readings: the talker restarted or
//!   skipped numbers, and no packet passes before the reset timeout. It ends with the next packet that is not rogue.
//! * **Stuck transmitter.** A member's individual recovery has eliminated [`EventRules::stuck_packets`] packets since
//!   it last passed one: their sender repeats numbers. It ends with the next packet that passes.
//! * **Resets.** Requested resets are reported immediately. Timeouts, which are frequent in a stream slower
//!   than its reset timeout, are reported together, at most once per [`EventRules::repeat_ns`].
//!
//! A member contributes the packets that its individual recovery passes, so a sender stuck on one number is
//! lost too. Without individual recovery it contributes the packets with a decodable tag.

use alloc::vec::Vec;
use core::fmt;

use crate::reading::{MemberReading, RecoveryReading, StreamReading};
use crate::spec::{Algorithm, Stream};

/// Thresholds of events; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRules {
    /// Packets that a stream passes without one of a member's before that member is lost.
    pub path_packets: u64,
    /// Maximum delay of a replica after the first. Set it above the delay difference of the paths.
    pub path_ns: u64,
    /// Number of rogue packets that are a flood.
    pub rogue_packets: u64,
    /// The pause that ends a flood.
    pub rogue_quiet_ns: u64,
    /// Number of packets that repeat numbers of a member, without a new one, of a stuck transmitter.
    pub stuck_packets: u64,
    /// Minimum interval between reports of timeouts.
    pub repeat_ns: u64,
}

impl Default for EventRules {
    fn default() -> Self {
        const S: u64 = 1_000_000_000;
        Self {
            path_packets: 5,
            path_ns: S / 2,
            rogue_packets: 10,
            rogue_quiet_ns: 5 * S,
            stuck_packets: 100,
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

/// The cause of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Cause {
    /// No packet within the reset timeout.
    TimeOut,
    /// Management (frerSeqGenReset, frerSeqRcvyReset).
    Request,
}

/// An event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number of the member concerned; `None`: the stream.
    pub member: Option<usize>,
    /// The event.
    pub kind: EventKind,
}

/// The kind of an event.
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
        /// Resets since the previous event of this function.
        count: u64,
    },
    /// A member no longer contributes, while others do.
    PathLoss {
        /// Packets that the stream has passed without it.
        packets: u64,
    },
    /// A lost member contributes again.
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
    /// All packets of a recovery function are rogue: its talker restarted, or skipped numbers.
    AllRogue {
        /// The function.
        function: Function,
        /// Rogue packets so far.
        packets: u64,
        /// The reset timeout that ends it, in milliseconds; 0: none does.
        reset_timeout_ms: u32,
    },
    /// A recovery function passes packets again.
    AllRogueEnded {
        /// The function.
        function: Function,
        /// Total of rogue packets.
        packets: u64,
    },
    /// The sender of a member repeats numbers, and sends no new one.
    StuckTransmitter {
        /// RecovSeqNum of the individual recovery: the number of the last new packet.
        recov_seq_num: u16,
        /// Packets that were eliminated since.
        packets: u64,
    },
    /// The sender of the member sends new numbers again.
    StuckTransmitterEnded {
        /// Packets that were eliminated meanwhile.
        packets: u64,
    },
    /// The flood of rogue packets has ended.
    RogueFloodEnded {
        /// The function.
        function: Function,
        /// Total of rogue packets.
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
            Self::TimeOut => "by its timeout",
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
            Self::PathLoss { packets: 1 } => f.write_str("path lost: 1 packet passed without it"),
            Self::PathLoss { packets } => {
                write!(f, "path lost: {packets} packets passed without it")
            }
            Self::PathBack { packets: 1 } => f.write_str("path restored after 1 packet without it"),
            Self::PathBack { packets } => {
                write!(f, "path restored after {packets} packets without it")
            }
            Self::RogueFlood { function, packets } => {
                write!(f, "{function} discards rogue packets: {packets} so far")
            }
            Self::AllRogue { function, packets, reset_timeout_ms } => {
                write!(
                    f,
                    "{function} discards all packets as rogue, {packets} so far: the talker restarted or skipped \
                     numbers; "
                )?;
                match reset_timeout_ms {
                    0 => f.write_str("no timeout ends it: reset the stream (onbeat reset)"),
                    ms => write!(
                        f,
                        "the reset timeout of {ms} ms ends it; reset the stream (onbeat reset), or \
                         shorten the timeout"
                    ),
                }
            }
            Self::AllRogueEnded { function, packets } => {
                write!(f, "{function} passes packets again, after {packets} rogue ones")
            }
            Self::StuckTransmitter { recov_seq_num, packets } => {
                write!(
                    f,
                    "stuck transmitter: {recov_seq_num} is the last new number, repeated ones: \
                     {packets}; restart the sender of this path"
                )
            }
            Self::StuckTransmitterEnded { packets } => {
                write!(f, "the transmitter sends new numbers again, repeated ones: {packets}")
            }
            Self::RogueFloodEnded { function, packets } => {
                write!(f, "{function}: no more rogue packets, after {packets}")
            }
        }
    }
}

/// A lasting condition, between an event that starts it and one that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Between [`EventKind::PathLoss`] and [`EventKind::PathBack`].
    PathLost,
    /// Between [`EventKind::RogueFlood`] and [`EventKind::RogueFloodEnded`].
    RogueFlood,
    /// Between [`EventKind::AllRogue`] and [`EventKind::AllRogueEnded`].
    AllRogue,
    /// Between [`EventKind::StuckTransmitter`] and [`EventKind::StuckTransmitterEnded`].
    StuckTransmitter,
}

/// Monitors one stream.
#[derive(Debug, Clone)]
pub struct StreamMonitor {
    generation: Option<ResetState>,
    sequence: Option<Recovery>,
    members: Vec<MemberState>,
}

impl StreamMonitor {
    /// Creates a monitor that ignores everything counted before `reading`.
    pub fn new(reading: &StreamReading) -> Self {
        let passed = passed(reading);
        Self {
            generation: reading.generation.map(|generation| ResetState::new(generation.resets)),
            sequence: reading.recovery.as_ref().map(Recovery::new),
            members: reading
                .members
                .iter()
                .map(|member| MemberState::new(member, passed))
                .collect(),
        }
    }

    /// Sets the reset timeouts that events report.
    #[must_use]
    pub fn with_timeouts(mut self, stream: &Stream) -> Self {
        if let (Some(function), Some(config)) = (&mut self.sequence, &stream.recover) {
            function.reset_timeout_ms = config.reset_timeout_ms;
        }
        for (member, config) in self.members.iter_mut().zip(&stream.members) {
            if let (Some(function), Some(config)) = (&mut member.individual, &config.individual) {
                // With vector recovery, rogue packets restart the timer of individual recovery.
                let is_match = config.algorithm == Algorithm::Match;
                function.reset_timeout_ms = if is_match { config.reset_timeout_ms } else { 0 };
            }
        }
        self
    }

    /// Sets the members whose paths are being removed: they cannot be lost.
    pub fn set_draining(&mut self, members: &[usize]) {
        for &member in members {
            if let Some(member) = self.members.get_mut(member) {
                member.is_draining = true;
            }
        }
    }

    /// Returns whether a stream can have events other than requested resets, so that it must be monitored.
    pub fn is_needed(stream: &Stream) -> bool {
        stream.recover.is_some() || stream.members.iter().any(|member| member.individual.is_some())
    }

    /// Emits the events since the previous reading. Resets since then have this `cause`. A reading of other
    /// functions than before restarts the monitor.
    pub fn update(
        &mut self,
        rules: &EventRules,
        now_ns: u64,
        reading: &StreamReading,
        cause: Cause,
        mut emit: impl FnMut(Event),
    ) {
        if !self.is_of(reading) {
            *self = Self::new(reading);
            return;
        }
        let update_context = Update { rules, now_ns, cause };
        let mut emit_stream = |kind| emit(Event { member: None, kind });
        if let (Some(resets), Some(generation)) = (&mut self.generation, reading.generation) {
            resets.update(
                &update_context,
                Function::Generation,
                generation.resets,
                &mut emit_stream,
            );
        }
        if let (Some(recovery), Some(reading)) = (&mut self.sequence, &reading.recovery) {
            recovery.update(&update_context, Function::Sequence, reading, &mut emit_stream);
        }
        let others = self.members.len() > 1 && self.sequence.is_some();
        let passed = passed(reading);
        for (number, (member, reading)) in self.members.iter_mut().zip(&reading.members).enumerate()
        {
            let mut emit = |kind| emit(Event { member: Some(number), kind });
            if let (Some(recovery), Some(reading)) = (&mut member.individual, &reading.individual) {
                recovery.update(&update_context, Function::Individual, reading, &mut emit);
                member.stuck.update(rules, reading).into_iter().for_each(&mut emit);
            }
            if others && !member.is_draining {
                let change = member.path.update(&update_context, contributed(reading), passed);
                change.into_iter().for_each(emit);
            }
        }
    }

    /// Returns whether the member of this number is lost.
    pub fn is_lost(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|member| member.path.lost.is_some())
    }

    /// Returns whether the stream, or one of its members, is in this condition.
    pub fn is_in(&self, condition: Condition) -> bool {
        let individual = self.members.iter().filter_map(|member| member.individual.as_ref());
        let mut functions = self.sequence.iter().chain(individual);
        match condition {
            Condition::PathLost => self.members.iter().any(|member| member.path.lost.is_some()),
            Condition::StuckTransmitter => self.members.iter().any(|member| member.stuck.is_stuck),
            Condition::RogueFlood => functions.any(|function| function.rogue.flood),
            Condition::AllRogue => functions.any(|function| function.all_rogue.is_active),
        }
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

/// Parameters of one update.
struct Update<'a> {
    rules: &'a EventRules,
    now_ns: u64,
    cause: Cause,
}

#[derive(Debug, Clone)]
struct MemberState {
    individual: Option<Recovery>,
    stuck: StuckState,
    path: PathState,
    is_draining: bool,
}

impl MemberState {
    fn new(reading: &MemberReading, passed: u64) -> Self {
        Self {
            individual: reading.individual.as_ref().map(Recovery::new),
            stuck: reading.individual.as_ref().map_or_else(StuckState::default, StuckState::new),
            path: PathState::new(contributed(reading), passed),
            is_draining: false,
        }
    }
}

/// State of a recovery function.
#[derive(Debug, Clone)]
struct Recovery {
    resets: ResetState,
    rogue: RogueState,
    all_rogue: AllRogueState,
    reset_timeout_ms: u32,
}

impl Recovery {
    fn new(reading: &RecoveryReading) -> Self {
        let counters = &reading.counters;
        Self {
            resets: ResetState::new(counters.resets),
            rogue: RogueState::new(counters.rogue),
            all_rogue: AllRogueState::new(reading),
            reset_timeout_ms: 0,
        }
    }

    fn update(
        &mut self,
        update_context: &Update<'_>,
        function: Function,
        reading: &RecoveryReading,
        emit: &mut impl FnMut(EventKind),
    ) {
        self.resets.update(update_context, function, reading.counters.resets, emit);
        self.rogue.update(update_context, function, reading.counters.rogue, emit);
        let all_rogue = self.all_rogue.update(update_context.rules, reading);
        all_rogue.into_iter().for_each(|change| {
            emit(match change {
                AllRogueChange::Started(packets) => {
                    let reset_timeout_ms = self.reset_timeout_ms;
                    EventKind::AllRogue { function, packets, reset_timeout_ms }
                }
                AllRogueChange::Ended(packets) => EventKind::AllRogueEnded { function, packets },
            });
        });
    }
}

/// Returns the growth of a counter; 0 if it is less than before, as it was restarted.
fn growth(before: &mut u64, now: u64) -> u64 {
    now.saturating_sub(core::mem::replace(before, now))
}

#[derive(Debug, Clone)]
struct ResetState {
    counted: u64,
    /// Timeouts not yet reported.
    unreported: u64,
    /// Time of the last report of timeouts.
    reported_ns: Option<u64>,
}

impl ResetState {
    fn new(counted: u64) -> Self {
        Self { counted, unreported: 0, reported_ns: None }
    }

    fn update(
        &mut self,
        update_context: &Update<'_>,
        function: Function,
        counted: u64,
        emit: &mut impl FnMut(EventKind),
    ) {
        let Update { rules, now_ns, cause } = *update_context;
        let mut count = growth(&mut self.counted, counted);
        if cause == Cause::TimeOut {
            self.unreported += count;
            let lately = |reported| now_ns.saturating_sub(reported) < rules.repeat_ns;
            if self.unreported == 0 || self.reported_ns.is_some_and(lately) {
                return;
            }
            self.reported_ns = Some(now_ns);
            count = core::mem::take(&mut self.unreported);
        }
        if count > 0 {
            emit(EventKind::Reset { function, cause, count });
        }
    }
}

#[derive(Debug, Clone)]
struct RogueState {
    counted: u64,
    /// Rogue packets since the last pause.
    run: u64,
    /// Time of the last of them.
    last_ns: u64,
    flood: bool,
}

impl RogueState {
    fn new(counted: u64) -> Self {
        Self { counted, run: 0, last_ns: 0, flood: false }
    }

    fn update(
        &mut self,
        update_context: &Update<'_>,
        function: Function,
        counted: u64,
        emit: &mut impl FnMut(EventKind),
    ) {
        let Update { rules, now_ns, .. } = *update_context;
        let new = growth(&mut self.counted, counted);
        if new > 0 {
            self.run += new;
            self.last_ns = now_ns;
            if !self.flood && self.run >= rules.rogue_packets {
                self.flood = true;
                emit(EventKind::RogueFlood { function, packets: self.run });
            }
        } else if now_ns.saturating_sub(self.last_ns) >= rules.rogue_quiet_ns {
            let packets = core::mem::take(&mut self.run);
            if core::mem::take(&mut self.flood) {
                emit(EventKind::RogueFloodEnded { function, packets });
            }
        }
    }
}

/// Rogue packets since the last packet that was not.
#[derive(Debug, Clone)]
struct AllRogueState {
    others: u64,
    rogue: u64,
    run: u64,
    is_active: bool,
}

enum AllRogueChange {
    Started(u64),
    Ended(u64),
}

impl AllRogueState {
    fn new(reading: &RecoveryReading) -> Self {
        let others = reading.counters.passed + repeated(reading);
        Self { others, rogue: reading.counters.rogue, run: 0, is_active: false }
    }

    fn update(&mut self, rules: &EventRules, reading: &RecoveryReading) -> Option<AllRogueChange> {
        let more = growth(&mut self.rogue, reading.counters.rogue);
        let others = reading.counters.passed + repeated(reading);
        if core::mem::replace(&mut self.others, others) != others {
            let packets = core::mem::take(&mut self.run);
            let ended = core::mem::take(&mut self.is_active);
            return ended.then_some(AllRogueChange::Ended(packets));
        }
        self.run += more;
        // A function that has passed no packet has no number to compare with.
        if self.is_active || reading.counters.passed == 0 || self.run < rules.rogue_packets {
            return None;
        }
        self.is_active = true;
        Some(AllRogueChange::Started(self.run))
    }
}

/// Packets that an individual recovery function eliminated since it last passed one.
#[derive(Debug, Clone, Default)]
struct StuckState {
    passed: u64,
    repeated: u64,
    run: u64,
    is_stuck: bool,
}

impl StuckState {
    fn new(reading: &RecoveryReading) -> Self {
        let (passed, repeated) = (reading.counters.passed, repeated(reading));
        Self { passed, repeated, run: 0, is_stuck: false }
    }

    fn update(&mut self, rules: &EventRules, reading: &RecoveryReading) -> Option<EventKind> {
        let more = growth(&mut self.repeated, repeated(reading));
        if core::mem::replace(&mut self.passed, reading.counters.passed) != self.passed {
            let packets = core::mem::take(&mut self.run);
            let ended = core::mem::take(&mut self.is_stuck);
            return ended.then_some(EventKind::StuckTransmitterEnded { packets });
        }
        self.run += more;
        if self.is_stuck || self.run < rules.stuck_packets {
            return None;
        }
        self.is_stuck = true;
        let (recov_seq_num, packets) = (reading.recov_seq_num, self.run);
        Some(EventKind::StuckTransmitter { recov_seq_num, packets })
    }
}

/// Returns the packets that a function eliminated as copies of others.
fn repeated(reading: &RecoveryReading) -> u64 {
    reading.counters.discarded.saturating_sub(reading.counters.rogue)
}

/// Contribution of a member to its stream.
#[derive(Debug, Clone)]
struct PathState {
    contributed: u64,
    /// Packets that the stream had passed when the member last contributed.
    passed: u64,
    /// Time at which the stream was first observed to continue without it.
    alone_ns: Option<u64>,
    lost: Option<LostPath>,
}

#[derive(Debug, Clone)]
struct LostPath {
    /// Packets that the stream had passed when the member last contributed.
    passed: u64,
    /// Packets that the member had contributed when it was last found lost.
    contributed: u64,
}

impl PathState {
    fn new(contributed: u64, passed: u64) -> Self {
        Self { contributed, passed, alone_ns: None, lost: None }
    }

    fn update(
        &mut self,
        update_context: &Update<'_>,
        contributed: u64,
        passed: u64,
    ) -> Option<EventKind> {
        let Update { rules, now_ns, .. } = *update_context;
        if contributed != self.contributed || passed < self.passed {
            (self.contributed, self.passed, self.alone_ns) = (contributed, passed, None);
            let lost = self.lost.as_ref()?;
            // A restarted counter is less than before: that, too, is at least one packet.
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
        self.lost = Some(LostPath { passed: self.passed, contributed });
        Some(EventKind::PathLoss { packets: alone })
    }
}
