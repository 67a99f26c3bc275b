//! The session sender (RFC 8762 4.2).

use std::collections::VecDeque;
use std::iter::{Peekable, Take};

use onbeat_wire::stamp::{
    AuthenticatedView, ErrorEstimate, Reflected, ReflectedView, Test, Timestamp,
};
use onbeat_wire::{EmitError, TruncationError};

use super::Key;
use super::profile::Profile;

/// Maximum difference of two readings of one clock by two methods, in nanoseconds.
const READING_NS: i64 = 1_000;

/// The configuration of a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The intended transmission times of probes.
    pub profile: Profile,
    /// Maximum number of probes; `None`: all of the profile.
    pub count: Option<u64>,
    /// The start of the profile, in nanoseconds of the sender's clock.
    pub start_ns: i64,
    /// The timeout of a reply, in nanoseconds.
    pub timeout_ns: i64,
    /// The session's number (RFC 8972 3).
    pub id: u16,
    /// The error of the sender's clock, and the format of its time stamps.
    pub error_estimate: ErrorEstimate,
    /// The key that authenticates probes, and that replies must have; `None`: no authentication.
    pub key: Option<Key>,
}

/// A probe with its reply, or without one in time. Times in nanoseconds: those of the sender by its clock, those of
/// the reflector by the reflector's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The probe's number.
    pub sequence: u32,
    /// The intended transmission time.
    pub intended_ns: i64,
    /// The actual transmission time.
    pub sent_ns: i64,
    /// The reply; `None`: none in time.
    pub answer: Option<ProbeReply>,
}

/// The times of an arrived datagram, in nanoseconds of the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalTimes {
    /// The time of arrival.
    pub received_ns: i64,
    /// The time at which the application has it.
    pub handled_ns: i64,
}

/// An application that has a datagram when it arrives.
impl From<i64> for ArrivalTimes {
    fn from(received_ns: i64) -> Self {
        Self { received_ns, handled_ns: received_ns }
    }
}

/// A reply to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeReply {
    /// The reflector's number: the probe's number, or, for a stateful reflector, the number of packets before it.
    pub reflector_sequence: u32,
    /// The time of reception by the reflector, by its clock.
    pub reflector_received_ns: i64,
    /// The time of transmission by the reflector, by its clock.
    pub reflector_sent_ns: i64,
    /// The time of arrival of the reply.
    pub received_ns: i64,
    /// The time at which the sending application has the reply.
    pub handled_ns: i64,
    /// TTL or hop limit on arrival at the reflector.
    pub ttl: u8,
}

impl Sample {
    /// The round-trip time without the time in the reflector, in nanoseconds.
    pub fn round_trip_ns(&self) -> Option<i64> {
        let answer = self.answer?;
        Some(answer.received_ns - self.sent_ns - answer.in_reflector_ns())
    }

    /// The round-trip time from the intended transmission: as on schedule.
    pub fn intended_round_trip_ns(&self) -> Option<i64> {
        self.round_trip_ns().map(|round_trip| round_trip + self.sent_ns - self.intended_ns)
    }

    /// The time from the intended transmission until the application has the reply, including the time in the
    /// reflector, in nanoseconds.
    pub fn application_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.handled_ns - self.intended_ns)
    }

    /// The time from the intended transmission until the reflector has handled the probe, in nanoseconds, by the two
    /// clocks.
    pub fn application_there_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.reflector_sent_ns - self.intended_ns)
    }

    /// The forward delay, in nanoseconds, by the two clocks.
    pub fn there_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.reflector_received_ns - self.sent_ns)
    }

    /// The return delay, in nanoseconds, by the two clocks.
    pub fn back_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.received_ns - answer.reflector_sent_ns)
    }
}

impl ProbeReply {
    /// The time in the reflector, in nanoseconds by the reflector's clock.
    pub fn in_reflector_ns(&self) -> i64 {
        self.reflector_sent_ns - self.reflector_received_ns
    }
}

/// The reason why a datagram is not a reply to a probe of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayDatagram {
    /// Shorter than a STAMP packet, or, with a key, than an authenticated one.
    Truncated(TruncationError),
    /// The sender has another key or none, or the packet was changed on the path.
    Hmac,
    /// It verifies, but quotes a time other than the probe's: it was authenticated with this key for another
    /// session, or is a returned test packet.
    Quote(Timestamp),
    /// Of another session.
    Session(u16),
    /// Of a probe that was not sent, was already answered, or expired.
    Sequence(u32),
    /// The reflector's time stamps are invalid.
    Timestamp,
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Probes sent.
    pub sent: u64,
    /// Replies in time.
    pub answered: u64,
    /// Probes without a reply in time.
    pub lost: u64,
    /// Further replies to an answered probe, and late replies.
    pub duplicate_or_late: u64,
    /// Datagrams that are not replies of this session.
    pub stray: u64,
    /// Datagrams with a wrong HMAC, with a key.
    pub unverified: u64,
    /// Replies that arrived after that to a later probe.
    pub reordered: u64,
}

/// A pending probe.
#[derive(Debug, Clone, Copy)]
struct PendingProbe {
    sample: Sample,
    /// The transmission time in the probe.
    stamp: Timestamp,
}

/// Sends probes by a profile and receives replies. Samples are reported in order of transmission.
#[derive(Debug)]
pub struct Sender {
    times: Peekable<Take<Profile>>,
    start_ns: i64,
    timeout_ns: i64,
    id: u16,
    error_estimate: ErrorEstimate,
    key: Option<Key>,
    next: u32,
    /// Probes without a final sample, oldest first; the last has number `next - 1`.
    waiting: VecDeque<PendingProbe>,
    newest_answered: Option<u32>,
    /// The reflector's largest number in all replies, and true if one differed from its probe's.
    newest_reflected: Option<u32>,
    with_state: bool,
    reflector: Option<ErrorEstimate>,
    counts: Counts,
}

impl Sender {
    /// Creates a sender that has sent nothing yet.
    pub fn new(session: Session) -> Self {
        let limit = session.count.and_then(|count| usize::try_from(count).ok());
        let limit = limit.unwrap_or(usize::MAX);
        Sender {
            times: session.profile.take(limit).peekable(),
            start_ns: session.start_ns,
            timeout_ns: session.timeout_ns,
            id: session.id,
            error_estimate: session.error_estimate,
            key: session.key,
            next: 0,
            waiting: VecDeque::new(),
            newest_answered: None,
            newest_reflected: None,
            with_state: false,
            reflector: None,
            counts: Counts::default(),
        }
    }

    /// The counters so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The error estimate of the reflector's clock in its last reply.
    pub fn reflector(&self) -> Option<ErrorEstimate> {
        self.reflector
    }

    /// Probes lost on the forward path; the other lost probes were lost on the return path. `None` if the
    /// reflector's numbers do not show it: a stateless reflector copies those of probes.
    pub fn lost_there(&self) -> Option<u64> {
        let reached = u64::from(self.newest_reflected?) + 1;
        match (self.counts.lost, self.with_state) {
            (0, _) => Some(0),
            (_, true) => Some(self.counts.sent.saturating_sub(reached)),
            (_, false) => None,
        }
    }

    /// Stops sending. Replies are accepted as before.
    pub fn stop(&mut self) {
        self.times = Profile::default().take(0).peekable();
    }

    /// The time of the next call of [`send`](Self::send); `None`: all probes were sent.
    pub fn next_send_ns(&mut self) -> Option<i64> {
        self.times.peek().map(|time| self.start_ns + time)
    }

    /// The time of the next call of [`expire`](Self::expire) if no reply arrives; `None`: no probe is pending.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        self.waiting.front().map(|oldest| oldest.sample.sent_ns + self.timeout_ns)
    }

    /// Writes the next probe to the start of `buffer`, as sent at `now_ns`; returns its length. The octets after it
    /// are the caller's padding. `None` before the probe's time, and when there is none left.
    pub fn send(&mut self, now_ns: i64, buffer: &mut [u8]) -> Option<Result<usize, EmitError>> {
        let intended_ns = self.next_send_ns().filter(|time| *time <= now_ns)?;
        let test = Test {
            sequence: self.next,
            timestamp: Timestamp::new(self.error_estimate.format, now_ns),
            error_estimate: self.error_estimate,
            session: self.id,
        };
        let written = match &self.key {
            Some(key) => test.emit_authenticated(buffer, |covered| key.hmac(covered)),
            None => test.emit(buffer),
        };
        if written.is_ok() {
            self.times.next();
            let sample = Sample { sequence: self.next, intended_ns, sent_ns: now_ns, answer: None };
            self.waiting.push_back(PendingProbe { sample, stamp: test.timestamp });
            self.next = self.next.wrapping_add(1);
            self.counts.sent += 1;
        }
        Some(written)
    }

    /// Replaces the transmission time of a probe by that of the kernel; returns false if that is impossible:
    /// earlier than the submission, later than the reply, or the probe is not pending.
    pub fn departed(&mut self, sequence: u32, departed_ns: i64) -> bool {
        let oldest = self.waiting.front().map_or(0, |oldest| oldest.sample.sequence);
        let place = sequence.wrapping_sub(oldest) as usize;
        let Some(PendingProbe { sample, .. }) = self.waiting.get_mut(place) else { return false };
        let after = sample.answer.map_or(i64::MAX, |answer| answer.received_ns);
        // Clocks that are read in sequence may disagree slightly.
        let possible = (sample.sent_ns.saturating_sub(READING_NS)..=after).contains(&departed_ns);
        if possible {
            sample.sent_ns = departed_ns;
        }
        possible
    }

    /// Processes an arrived datagram.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        times: impl Into<ArrivalTimes>,
    ) -> Result<(), StrayDatagram> {
        let taken = self.take(datagram, times.into());
        match taken {
            Ok(()) => self.counts.answered += 1,
            Err(StrayDatagram::Hmac) => self.counts.unverified += 1,
            Err(StrayDatagram::Sequence(number)) if self.was_sent(number) => {
                self.counts.duplicate_or_late += 1;
            }
            Err(_) => self.counts.stray += 1,
        }
        taken
    }

    /// Decodes a datagram; with a key, an authenticated one.
    fn admit(&self, datagram: &[u8]) -> Result<Reflected, StrayDatagram> {
        let Some(key) = &self.key else {
            let packet = ReflectedView::new_checked(datagram).map_err(StrayDatagram::Truncated)?;
            return Ok(Reflected::parse(&packet));
        };
        let packet = AuthenticatedView::new_checked(datagram).map_err(StrayDatagram::Truncated)?;
        key.verifies(&packet).then(|| packet.reflected()).ok_or(StrayDatagram::Hmac)
    }

    fn take(&mut self, datagram: &[u8], times: ArrivalTimes) -> Result<(), StrayDatagram> {
        let ArrivalTimes { received_ns, handled_ns } = times;
        let packet = self.admit(datagram)?;
        let Reflected { test, sequence: reflected, error_estimate, .. } = packet;
        // A reflector without support of RFC 8972 has zeros there.
        if test.session != self.id && test.session != 0 {
            return Err(StrayDatagram::Session(test.session));
        }
        let number = test.sequence;
        let stray = StrayDatagram::Sequence(number);
        let oldest = self.waiting.front().ok_or(stray)?.sample.sequence;
        let place = number.wrapping_sub(oldest) as usize;
        let PendingProbe { sample, stamp } = self.waiting.get_mut(place).ok_or(stray)?;
        if sample.answer.is_some() || received_ns - sample.sent_ns > self.timeout_ns {
            return Err(stray);
        }
        // One key authenticates packets of both directions, and of all sessions.
        if self.key.is_some() && test.timestamp != *stamp {
            return Err(StrayDatagram::Quote(test.timestamp));
        }
        let time = |stamp: Timestamp| {
            stamp.time_ns(error_estimate.format, received_ns).ok_or(StrayDatagram::Timestamp)
        };
        sample.answer = Some(ProbeReply {
            reflector_sequence: reflected,
            reflector_received_ns: time(packet.received)?,
            reflector_sent_ns: time(packet.timestamp)?,
            received_ns,
            handled_ns,
            ttl: packet.test_ttl,
        });
        let before = |number: u32, newest: u32| (number.wrapping_sub(newest) as i32) < 0;
        self.with_state |= reflected != number;
        if self.newest_reflected.is_none_or(|newest| before(newest, reflected)) {
            self.newest_reflected = Some(reflected);
        }
        self.reflector = Some(error_estimate);
        if self.newest_answered.is_some_and(|newest| before(number, newest)) {
            self.counts.reordered += 1;
        } else {
            self.newest_answered = Some(number);
        }
        Ok(())
    }

    /// Returns true if a probe of this number was sent within the last half of the number range.
    fn was_sent(&self, number: u32) -> bool {
        let ago = self.next.wrapping_sub(number);
        ago != 0 && u64::from(ago) <= self.counts.sent.min(1 << 31)
    }

    /// Returns the oldest probe's sample, once it has a reply or has expired at `now_ns`. Call until it returns
    /// `None`.
    pub fn expire(&mut self, now_ns: i64) -> Option<Sample> {
        let oldest = &self.waiting.front()?.sample;
        let late = now_ns - oldest.sent_ns > self.timeout_ns;
        if oldest.answer.is_none() && !late {
            return None;
        }
        self.counts.lost += u64::from(oldest.answer.is_none());
        self.waiting.pop_front().map(|oldest| oldest.sample)
    }

    /// Returns true if all probes were sent and all samples returned.
    pub fn is_done(&mut self) -> bool {
        self.times.peek().is_none() && self.waiting.is_empty()
    }
}
