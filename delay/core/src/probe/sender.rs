//! The session sender (RFC 8762 4.2).

use std::collections::VecDeque;
use std::iter::{Peekable, Take};

use onbeat_wire::stamp::{
    AuthenticatedView, ErrorEstimate, Reflected, ReflectedView, Test, Timestamp,
};
use onbeat_wire::{EmitError, Truncated};

use super::Key;
use super::profile::Profile;

/// What two readings of one clock by two ways may differ by, in nanoseconds.
const READING_NS: i64 = 1_000;

/// What a sender is told.
#[derive(Debug, Clone)]
pub struct Session {
    /// When probes are meant to go.
    pub profile: Profile,
    /// Probes at most; `None`: as many as the profile has.
    pub count: Option<u64>,
    /// When the profile begins, in nanoseconds of the sender's clock.
    pub start_ns: i64,
    /// How long an answer is waited for, in nanoseconds.
    pub timeout_ns: i64,
    /// The session's number (RFC 8972 3).
    pub id: u16,
    /// How good the sender's clock is, and the form of its time stamps.
    pub error_estimate: ErrorEstimate,
    /// What probes are authenticated with, and answers have to be; `None`: neither is.
    pub key: Option<Key>,
}

/// A probe that came back, or did not in time. Times in nanoseconds: those of the sender by its
/// clock, those of the reflector by that one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The probe's number.
    pub sequence: u32,
    /// When it was meant to go.
    pub intended_ns: i64,
    /// When it went.
    pub sent_ns: i64,
    /// How it came back; `None`: it did not in time.
    pub answer: Option<ProbeReply>,
}

/// How a probe came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeReply {
    /// The reflector's number of it: the probe's, or, of a reflector with state, how many it had before.
    pub reflector_sequence: u32,
    /// When the reflector had it, by its clock.
    pub reflector_received_ns: i64,
    /// When the reflector sent it back, by its clock.
    pub reflector_sent_ns: i64,
    /// When it was back.
    pub received_ns: i64,
    /// TTL or hop limit with which it reached the reflector.
    pub ttl: u8,
}

impl Sample {
    /// The round trip without the time in the reflector, in nanoseconds.
    pub fn round_trip_ns(&self) -> Option<i64> {
        let answer = self.answer?;
        Some(answer.received_ns - self.sent_ns - answer.in_reflector_ns())
    }

    /// The same from when the probe was meant to go: what one who kept the schedule would see.
    pub fn intended_round_trip_ns(&self) -> Option<i64> {
        self.round_trip_ns().map(|round_trip| round_trip + self.sent_ns - self.intended_ns)
    }

    /// The delay there, in nanoseconds, as the two clocks have it.
    pub fn there_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.reflector_received_ns - self.sent_ns)
    }

    /// The delay back, in nanoseconds, as the two clocks have it.
    pub fn back_ns(&self) -> Option<i64> {
        self.answer.map(|answer| answer.received_ns - answer.reflector_sent_ns)
    }
}

impl ProbeReply {
    /// How long it was in the reflector, in nanoseconds by the reflector's clock.
    pub fn in_reflector_ns(&self) -> i64 {
        self.reflector_sent_ns - self.reflector_received_ns
    }
}

/// Why a datagram is no answer to a probe of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayDatagram {
    /// Shorter than a STAMP packet, or, with a key, than an authenticated one.
    Truncated(Truncated),
    /// Whoever made it has another key, or none, or it was changed on its way.
    Hmac,
    /// It verifies, and quotes another time than the one that the probe carried: it was made with this
    /// key for another session, or is a test packet that somebody sent back.
    Quote(Timestamp),
    /// Of another session.
    Session(u16),
    /// Of a probe that was not sent, that has been answered, or that was given up.
    Sequence(u32),
    /// The reflector's time stamps are none.
    Timestamp,
}

/// What a sender saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Probes sent.
    pub sent: u64,
    /// Answers in time.
    pub answered: u64,
    /// Probes without one.
    pub lost: u64,
    /// Further answers to a probe that had one, and answers that came too late.
    pub duplicate_or_late: u64,
    /// Datagrams that were no answer of this session.
    pub stray: u64,
    /// Datagrams whose HMAC is wrong, where there is a key.
    pub unverified: u64,
    /// Answers that came after that to a later probe.
    pub reordered: u64,
}

/// A probe under way.
#[derive(Debug, Clone, Copy)]
struct PendingProbe {
    sample: Sample,
    /// When it went, as it says itself.
    stamp: Timestamp,
}

/// Sends probes by a profile and takes answers. Samples come out in order of sending.
#[derive(Debug)]
pub struct Sender {
    times: Peekable<Take<Profile>>,
    start_ns: i64,
    timeout_ns: i64,
    id: u16,
    error_estimate: ErrorEstimate,
    key: Option<Key>,
    next: u32,
    /// Probes without a final sample, the oldest first; the last is number `next - 1`.
    waiting: VecDeque<PendingProbe>,
    newest_answered: Option<u32>,
    /// Of all answers, the reflector's largest number, and whether one was not its probe's.
    newest_reflected: Option<u32>,
    with_state: bool,
    reflector: Option<ErrorEstimate>,
    counts: Counts,
}

impl Sender {
    /// A sender that has sent nothing yet.
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

    /// What was seen so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How good the reflector last said that its clock is.
    pub fn reflector(&self) -> Option<ErrorEstimate> {
        self.reflector
    }

    /// Probes that were lost on their way there, the other ones lost having been on their way back.
    /// `None` where the reflector's numbers do not tell: one without state copies those of probes.
    pub fn lost_there(&self) -> Option<u64> {
        let reached = u64::from(self.newest_reflected?) + 1;
        match (self.counts.lost, self.with_state) {
            (0, _) => Some(0),
            (_, true) => Some(self.counts.sent.saturating_sub(reached)),
            (_, false) => None,
        }
    }

    /// Sends nothing any more. Answers are taken as before.
    pub fn stop(&mut self) {
        self.times = Profile::default().take(0).peekable();
    }

    /// When to call [`send`](Self::send) next; `None`: all probes were sent.
    pub fn next_send_ns(&mut self) -> Option<i64> {
        self.times.peek().map(|time| self.start_ns + time)
    }

    /// When to call [`expire`](Self::expire) next, if no answer comes; `None`: none is waited for.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        self.waiting.front().map(|oldest| oldest.sample.sent_ns + self.timeout_ns)
    }

    /// Writes the next probe to the start of `buffer`, as sent at `now_ns`; returns its length.
    /// What the buffer holds behind it is the caller's to send or not. `None` before the probe's
    /// time, and when there is none left.
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

    /// Says when a probe really left, as the kernel saw it, instead of when it was handed over; whether
    /// that can be: it is not before that, nor after its answer, and the probe is waited for.
    pub fn departed(&mut self, sequence: u32, departed_ns: i64) -> bool {
        let oldest = self.waiting.front().map_or(0, |oldest| oldest.sample.sequence);
        let place = sequence.wrapping_sub(oldest) as usize;
        let Some(PendingProbe { sample, .. }) = self.waiting.get_mut(place) else { return false };
        let after = sample.answer.map_or(i64::MAX, |answer| answer.received_ns);
        // Clocks that are read one after the other may disagree by a little.
        let possible = (sample.sent_ns.saturating_sub(READING_NS)..=after).contains(&departed_ns);
        if possible {
            sample.sent_ns = departed_ns;
        }
        possible
    }

    /// Takes a datagram that came at `received_ns`.
    pub fn receive(&mut self, datagram: &[u8], received_ns: i64) -> Result<(), StrayDatagram> {
        let taken = self.take(datagram, received_ns);
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

    /// The packet that a datagram is; with a key, one that was made with it.
    fn admit(&self, datagram: &[u8]) -> Result<Reflected, StrayDatagram> {
        let Some(key) = &self.key else {
            let packet = ReflectedView::new_checked(datagram).map_err(StrayDatagram::Truncated)?;
            return Ok(Reflected::parse(&packet));
        };
        let packet = AuthenticatedView::new_checked(datagram).map_err(StrayDatagram::Truncated)?;
        key.verifies(&packet).then(|| packet.reflected()).ok_or(StrayDatagram::Hmac)
    }

    fn take(&mut self, datagram: &[u8], received_ns: i64) -> Result<(), StrayDatagram> {
        let packet = self.admit(datagram)?;
        let Reflected { test, sequence: reflected, error_estimate, .. } = packet;
        // A reflector that knows nothing of RFC 8972 has zeros there.
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
        // One key makes packets of both directions, and of all sessions.
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

    /// Whether a probe of this number was sent within the last half of all numbers.
    fn was_sent(&self, number: u32) -> bool {
        let ago = self.next.wrapping_sub(number);
        ago != 0 && u64::from(ago) <= self.counts.sent.min(1 << 31)
    }

    /// The oldest probe's sample, once it has an answer or has waited for one long enough at
    /// `now_ns`. Call until there is none.
    pub fn expire(&mut self, now_ns: i64) -> Option<Sample> {
        let oldest = &self.waiting.front()?.sample;
        let late = now_ns - oldest.sent_ns > self.timeout_ns;
        if oldest.answer.is_none() && !late {
            return None;
        }
        self.counts.lost += u64::from(oldest.answer.is_none());
        self.waiting.pop_front().map(|oldest| oldest.sample)
    }

    /// Whether all probes were sent and all samples taken.
    pub fn is_done(&mut self) -> bool {
        self.times.peek().is_none() && self.waiting.is_empty()
    }
}
