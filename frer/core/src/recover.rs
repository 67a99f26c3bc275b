//! The base recovery function (802.1CB 7.4.3), used for sequence recovery (7.4.2) and for
//! individual recovery (7.5).
//!
//! The timeout needs no timer: each call first performs what a timer at [`RecoveryFunction::next_deadline`] would
//! have performed. [`RecoveryFunction::expire`] applies the timeout of an idle stream; call it before reading
//! counters too.

use crate::counters::Counters;
use crate::history::History;
use crate::spec::{Algorithm, Recovery, Role};
use crate::validate::RecoveryError;

/// RecovSeqSpace - 1: the value of RecovSeqNum after a reset.
const LAST_NUMBER: u16 = u16::MAX;

const NS_PER_MS: u64 = 1_000_000;

/// The decision on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The packet is passed on.
    Accept,
    /// The packet is discarded.
    Discard(Reason),
}

/// The reason for discarding a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its number was accepted before.
    Duplicate,
    /// Its number lies outside the history.
    Rogue,
    /// It has no number, and the function does not accept such packets.
    Tagless,
}

impl Verdict {
    /// Returns whether the packet is passed on.
    pub fn is_accept(self) -> bool {
        self == Self::Accept
    }
}

/// A base recovery function.
///
/// The state that each packet needs is in one cache line: all up to the first 64 numbers of the history.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct RecoveryFunction {
    /// Time of the last restart of the timer; `None`: not running since the last reset.
    restarted_ns: Option<u64>,
    /// frerSeqRcvyResetMSec; 0: no timeout.
    reset_timeout_ns: u64,
    passed: u64,
    discarded: u64,
    /// RecovSeqNum: the highest accepted number with vector recovery, the last with match recovery.
    recov_seq_num: u16,
    /// TakeAny: the next number is accepted, whatever it is.
    take_any: bool,
    role: Role,
    take_no_sequence: bool,
    /// SequenceHistory; absent with match recovery.
    history: Option<History>,
    /// All counters except `passed` and `discarded`.
    rarer: Counters,
    /// The longest time between accepted packets, without those that ended by a reset.
    longest_gap_ns: u64,
}

impl RecoveryFunction {
    /// Creates a function at BEGIN, which counts as its first reset (7.4.3.3).
    ///
    /// # Errors
    /// A parameter is out of range, or latent error detection is set on an individual function.
    pub fn new(config: &Recovery, role: Role) -> Result<Self, RecoveryError> {
        config.validate(role)?;
        let history = match config.algorithm {
            Algorithm::Vector { history_length } => Some(History::new(history_length)),
            Algorithm::Match => None,
        };
        let mut recover = Self {
            restarted_ns: None,
            reset_timeout_ns: u64::from(config.reset_timeout_ms) * NS_PER_MS,
            passed: 0,
            discarded: 0,
            recov_seq_num: LAST_NUMBER,
            take_any: true,
            role,
            take_no_sequence: config.take_no_sequence,
            history,
            rarer: Counters::default(),
            longest_gap_ns: 0,
        };
        recover.start_over();
        Ok(recover)
    }

    /// Replaces the parameters. The state remains, with numbers older than the former history as seen; with another
    /// algorithm the function restarts and keeps its counters.
    ///
    /// # Errors
    /// Those of [`RecoveryFunction::new`].
    pub fn set_parameters(&mut self, config: &Recovery, role: Role) -> Result<(), RecoveryError> {
        let new = Self::new(config, role)?;
        match (&self.history, &new.history) {
            (None, None) => {}
            (Some(before), Some(wanted)) => self.resize(before.length(), wanted.length()),
            _ => {
                let counters = self.counters();
                *self = new;
                self.carry_over(counters);
                return Ok(());
            }
        }
        self.reset_timeout_ns = new.reset_timeout_ns;
        self.take_no_sequence = new.take_no_sequence;
        Ok(())
    }

    /// Changes the length of the history.
    fn resize(&mut self, before: u16, length: u16) {
        let Some(history) = self.history.as_mut().filter(|_| before != length) else { return };
        if self.take_any {
            *history = History::new(length);
            return;
        }
        let (resized, evicted) = history.resized(self.recov_seq_num, length);
        *history = resized;
        self.rarer.lost += u64::from(evicted.lost);
        self.rarer.lost_before_first += u64::from(evicted.before_first);
    }

    /// Decides on a packet with sequence number `number` that arrived at `now_ns`; `None`: it carries no
    /// number.
    pub fn packet(&mut self, now_ns: u64, number: Option<u16>) -> Verdict {
        self.expire(now_ns);
        let verdict = match number {
            None => self.no_number(),
            Some(number) if self.take_any => self.first(number),
            Some(number) => self.next(number),
        };
        match verdict {
            Verdict::Accept => self.passed += 1,
            Verdict::Discard(Reason::Duplicate | Reason::Rogue) => self.discarded += 1,
            Verdict::Discard(Reason::Tagless) => {}
        }
        if verdict.is_accept() || self.role == Role::Individual {
            if let Some(before) = self.restarted_ns {
                self.longest_gap_ns = self.longest_gap_ns.max(now_ns.saturating_sub(before));
            }
            // Packets that arrived by several ports may be processed out of order.
            self.restarted_ns = self.restarted_ns.max(Some(now_ns));
        }
        verdict
    }

    /// Resets the function if its timeout has passed; returns true if so. One reset per timeout, however
    /// late the call.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        let expired = self.next_deadline().is_some_and(|deadline| now_ns >= deadline);
        if expired {
            self.start_over();
        }
        expired
    }

    /// Returns when to call [`RecoveryFunction::expire`]: the timeout, while the timer is running.
    pub fn next_deadline(&self) -> Option<u64> {
        let restarted = self.restarted_ns.filter(|_| self.reset_timeout_ns != 0)?;
        Some(restarted.saturating_add(self.reset_timeout_ns))
    }

    /// Resets the function on management request (frerSeqRcvyReset, 10.4).
    pub fn reset(&mut self, now_ns: u64) {
        self.expire(now_ns);
        self.start_over();
    }

    /// Returns the longest time between accepted packets, without those that ended by a reset.
    pub fn longest_gap_ns(&self) -> u64 {
        self.longest_gap_ns
    }

    /// Returns RecovSeqNum: the highest accepted number with vector recovery, the last with match recovery.
    pub fn recov_seq_num(&self) -> u16 {
        self.recov_seq_num
    }

    /// Returns the length of the history; `None` with match recovery.
    pub(crate) fn history_length(&self) -> Option<u16> {
        self.history.as_ref().map(History::length)
    }

    /// Returns TakeAny: the next number is accepted, whatever it is.
    pub fn take_any(&self) -> bool {
        self.take_any
    }

    /// Returns the counters of the function.
    pub fn counters(&self) -> Counters {
        Counters { passed: self.passed, discarded: self.discarded, ..self.rarer }
    }

    /// Continues the counters of an earlier instance: adds `earlier`.
    pub fn carry_over(&mut self, earlier: Counters) {
        self.passed += earlier.passed;
        self.discarded += earlier.discarded;
        self.rarer += Counters { passed: 0, discarded: 0, ..earlier };
    }

    /// SequenceRecoveryReset (7.4.3.3). The next packet clears the history.
    fn start_over(&mut self) {
        self.recov_seq_num = LAST_NUMBER;
        self.take_any = true;
        self.restarted_ns = None;
        self.rarer.resets += 1;
    }

    fn no_number(&mut self) -> Verdict {
        self.rarer.tagless += 1;
        if self.take_no_sequence { Verdict::Accept } else { Verdict::Discard(Reason::Tagless) }
    }

    /// Accepts the first number after a reset.
    fn first(&mut self, number: u16) -> Verdict {
        self.take_any = false;
        self.recov_seq_num = number;
        if let Some(history) = &mut self.history {
            history.start(number);
        }
        Verdict::Accept
    }

    /// Decides on a number when TakeAny is false.
    fn next(&mut self, number: u16) -> Verdict {
        let (last, counters) = (&mut self.recov_seq_num, &mut self.rarer);
        match &mut self.history {
            Some(history) => vector(number, last, history, counters),
            None => matching(number, last, counters),
        }
    }
}

/// VectorRecoveryAlgorithm (7.4.3.4).
fn vector(
    number: u16,
    highest: &mut u16,
    history: &mut History,
    counters: &mut Counters,
) -> Verdict {
    let delta = calc_delta(number, *highest);
    let distance = delta.unsigned_abs();
    if distance >= history.length() {
        counters.rogue += 1;
        return Verdict::Discard(Reason::Rogue);
    }
    if delta <= 0 {
        if !history.note_behind(*highest, distance) {
            return Verdict::Discard(Reason::Duplicate);
        }
        counters.out_of_order += 1;
        return Verdict::Accept;
    }
    if delta != 1 {
        counters.out_of_order += 1;
    }
    let fallen = history.advance(*highest, distance);
    // Otherwise unchanged counters would be written too.
    if fallen.lost > 0 {
        counters.lost += u64::from(fallen.lost);
        counters.lost_before_first += u64::from(fallen.before_first);
    }
    *highest = number;
    Verdict::Accept
}

/// MatchRecoveryAlgorithm (7.4.3.5). It keeps no history, so it detects neither rogue nor lost packets.
fn matching(number: u16, last: &mut u16, counters: &mut Counters) -> Verdict {
    match calc_delta(number, *last) {
        0 => return Verdict::Discard(Reason::Duplicate),
        1 => {}
        _ => counters.out_of_order += 1,
    }
    *last = number;
    Verdict::Accept
}

/// Returns the signed distance from `b` to `a` in the space of sequence numbers, `-32768..=32767`.
fn calc_delta(a: u16, b: u16) -> i16 {
    a.wrapping_sub(b) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_packet_state_is_in_one_cache_line() {
        use core::mem::offset_of;
        assert!(offset_of!(RecoveryFunction, history) + History::FIRST_WORD_ENDS <= 64);
    }

    #[test]
    fn delta_is_a_signed_16_bit_difference() {
        assert_eq!(calc_delta(0, 65535), 1);
        assert_eq!(calc_delta(65535, 0), -1);
        assert_eq!(calc_delta(32767, 0), 32767);
        assert_eq!(calc_delta(32768, 0), -32768);
        assert_eq!(calc_delta(0, 32768), -32768);
        assert_eq!(calc_delta(0x100, 0x100), 0);
    }
}
