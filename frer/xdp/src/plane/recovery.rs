//! The state of a recovery function in the tables (abi/frer.h), and its counters.

use std::sync::atomic::Ordering;

use onbeat_frer::counters::Counters;

use super::Tables;
use crate::abi::constants as c;
use crate::abi::{frer_recovery, frer_recovery_record};

/// The head at BEGIN (7.4.3.3). Its generation differs from that of an empty word of a ring.
pub(super) const BEGIN: u64 =
    1 << c::HEAD_GENERATION | (c::NUMBER_MASK as u64) << c::HEAD_POSITION | c::HEAD_TAKE_ANY;

const HEAD: usize = std::mem::offset_of!(frer_recovery, head) / 8;
const PASSED: usize = std::mem::offset_of!(frer_recovery, passed) / 8;
const USUAL_PASSED: usize = std::mem::offset_of!(frer_recovery, usual_passed) / 8;

/// Tries to read a state that no packet changes meanwhile.
const READS: usize = 8;

/// The state of one function, read while packets may change it.
#[derive(Debug)]
pub(super) struct RecoveryState {
    function: frer_recovery,
    record: frer_recovery_record,
    /// The position of RecovSeqNum.
    newest: u32,
    window: Tally,
    passed: u64,
    discarded: u64,
}

/// Seen numbers in the window, and those of them from before the first number since the last reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    seen: u64,
    early: u64,
}

impl RecoveryState {
    /// Reads a function; of one with traffic, the last of several tries. `members`: the slots that count frames of
    /// sequence recovery.
    pub(super) fn read(tables: &Tables, slot: u32, members: &[u32]) -> Self {
        let mut state = Self::read_once(tables, slot, members);
        for _ in 0..READS {
            let again = tables.recoveries.entry(slot);
            let word = |word: usize| again[word].load(Ordering::Acquire);
            let (head, own) = (word(HEAD), word(PASSED) + word(USUAL_PASSED));
            if (head, counted(tables, (own, 0), members).0) == (state.function.head, state.passed) {
                break;
            }
            state = Self::read_once(tables, slot, members);
        }
        state
    }

    fn read_once(tables: &Tables, slot: u32, members: &[u32]) -> Self {
        let function = tables.recoveries.get(slot);
        let record = tables.recovery_records.get(slot);
        let word = |epoch| ring_word(tables, &function, epoch);
        let newest = newest(&function, word);
        let window = tally(&function, newest, word);
        let own = (function.passed + function.usual_passed, function.discarded);
        // After the head: packets that it includes are counted, except those of other CPUs at this moment.
        let (passed, discarded) = counted(tables, own, members);
        let tagless = if members.is_empty() { 0 } else { record.tagless - record.tagless_passed };
        Self {
            function,
            record,
            newest,
            window,
            passed,
            discarded: discarded.saturating_sub(tagless),
        }
    }

    /// Returns RecovSeqNum.
    pub(super) fn recov_seq_num(&self) -> u16 {
        self.newest as u16
    }

    /// Returns TakeAny.
    pub(super) fn take_any(&self) -> bool {
        take_any(&self.function)
    }

    /// Returns the counters. All are listed here and in [`add`]: the compiler detects a missing one.
    pub(super) fn counters(&self) -> Counters {
        let Self { function, record, window, .. } = self;
        let distance = distance(function, self.newest);
        let before_first = u64::from(function.config.history_length).saturating_sub(1);
        let matched = record.matched + function.usual_passed;
        let numbers = self.passed.saturating_sub(record.tagless_passed + matched);
        // A longer history subtracts from the sums of the record.
        let left = record.distance.wrapping_add(distance + record.seen + window.seen);
        let early = record.early_distance.wrapping_add(distance.min(before_first));
        let early = early.wrapping_add(record.early_seen + window.early);
        Counters {
            out_of_order: record.out_of_order,
            rogue: record.rogue,
            passed: self.passed,
            discarded: self.discarded,
            lost: positive(left.wrapping_sub(numbers)),
            lost_before_first: positive(early.wrapping_sub(record.early_passed)),
            tagless: record.tagless,
            resets: record.resets,
            // Counted by the daemon.
            latent_error_resets: 0,
            contended: record.contended,
        }
    }
}

/// Returns a difference, or 0 if it is negative.
fn positive(difference: u64) -> u64 {
    if difference > u64::MAX / 2 { 0 } else { difference }
}

/// Adds to the counters of a recovery function.
pub(super) fn add(
    function: &mut frer_recovery,
    record: &mut frer_recovery_record,
    more: &Counters,
) {
    let Counters {
        out_of_order,
        rogue,
        passed,
        discarded,
        lost,
        lost_before_first,
        tagless,
        resets,
        latent_error_resets: _,
        contended,
    } = *more;
    function.passed += passed;
    // Those of sequence recovery include packets without a number.
    let is_individual = u32::from(function.config.flags) & c::RECOVERY_INDIVIDUAL != 0;
    function.discarded += discarded + if is_individual { 0 } else { tagless };
    record.out_of_order += out_of_order;
    record.rogue += rogue;
    record.distance += lost;
    // Packets passed before the sums began are part of no distance.
    if is_match(function) {
        record.matched += passed;
    } else {
        record.distance += passed;
    }
    record.early_distance += lost_before_first;
    record.tagless += tagless;
    record.resets += resets;
    record.contended += contended;
}

/// Passed and discarded packets of a function, `own`, and of `members` that count for it.
fn counted(tables: &Tables, own: (u64, u64), members: &[u32]) -> (u64, u64) {
    members.iter().fold(own, |(passed, discarded), slot| {
        let judged = tables.counted(*slot).judged();
        (passed + judged.0, discarded + judged.1)
    })
}

fn is_match(function: &frer_recovery) -> bool {
    u32::from(function.config.flags) & c::RECOVERY_MATCH != 0
}

fn take_any(function: &frer_recovery) -> bool {
    function.head & c::HEAD_TAKE_ANY != 0
}

fn is_young(function: &frer_recovery) -> bool {
    function.head & c::HEAD_YOUNG != 0
}

/// The word of the ring for an epoch.
fn ring_word(tables: &Tables, function: &frer_recovery, epoch: u32) -> u64 {
    let word = epoch & u32::from(function.config.ring_mask);
    let (line, word) = (word / c::INLINE_WORDS, (word % c::INLINE_WORDS) as usize);
    if u32::from(function.config.ring_mask) < c::INLINE_WORDS {
        return function.ring[word];
    }
    let line = (function.config.ring + line).min(tables.rings.capacity() - 1);
    tables.rings.entry(line)[word].load(Ordering::Acquire)
}

/// The head of a function at the position of RecovSeqNum.
pub(super) fn newest_head(tables: &Tables, slot: u32) -> u64 {
    let function = tables.recoveries.get(slot);
    let position = newest(&function, |epoch| ring_word(tables, &function, epoch));
    let mask = u64::from(c::POSITION_MASK) << c::HEAD_POSITION;
    function.head & !mask | u64::from(position) << c::HEAD_POSITION
}

/// The position of RecovSeqNum: the highest one that was seen in the epoch of the head. `word` returns the words of the
/// ring by epoch.
fn newest(function: &frer_recovery, word: impl Fn(u32) -> u64) -> u32 {
    let position = (function.head >> c::HEAD_POSITION) as u32 & c::POSITION_MASK;
    // The others commit each number on the head.
    if take_any(function) || is_young(function) {
        return position;
    }
    let epoch = position >> c::SEEN_SHIFT;
    let seen = seen(function, epoch, word(epoch));
    position.max(epoch << c::SEEN_SHIFT | seen.checked_ilog2().unwrap_or(0))
}

/// The seen numbers of an epoch, which this word of the ring has unless its tag differs.
fn seen(function: &frer_recovery, epoch: u32, word: u64) -> u32 {
    let generation = (function.head >> c::HEAD_GENERATION) as u32;
    let is_epoch = (word >> c::SEEN_BITS) as u32 == generation << c::EPOCH_BITS | epoch;
    if is_epoch { word as u32 } else { 0 }
}

/// The position of the first number since the last reset.
fn first(function: &frer_recovery) -> u32 {
    c::FIRST_LAP | (function.head >> c::HEAD_FIRST) as u32 & c::NUMBER_MASK
}

/// Positions from the first number since the last reset to RecovSeqNum, modulo the laps of a position.
fn distance(function: &frer_recovery, newest: u32) -> u64 {
    if take_any(function) || is_match(function) {
        return 0;
    }
    u64::from(newest.wrapping_sub(first(function)) & c::POSITION_MASK)
}

/// Counts the seen numbers of the window in the words of the ring, which `word` returns by epoch.
fn tally(function: &frer_recovery, newest: u32, word: impl Fn(u32) -> u64) -> Tally {
    if take_any(function) || is_match(function) {
        return Tally::default();
    }
    let length = u32::from(function.config.history_length);
    let first = first(function);
    // The first number is not in the ring.
    let has_first = is_young(function) && newest.wrapping_sub(first) & c::POSITION_MASK < length;
    let mut tally = Tally { seen: has_first.into(), early: 0 };
    let mut left = length;
    while left > 0 {
        // The numbers of an epoch, up to the newest one that is left.
        let position = newest.wrapping_sub(length - left) & c::POSITION_MASK;
        let place = position % c::SEEN_BITS;
        let numbers = left.min(place + 1);
        let oldest = place + 1 - numbers;
        let epoch = position >> c::SEEN_SHIFT;
        let mask = u32::MAX >> (c::SEEN_BITS - numbers) << oldest;
        let mut bits = seen(function, epoch, word(epoch)) & mask;
        if has_first {
            let start = position - place;
            let before = first.saturating_sub(start).min(c::SEEN_BITS);
            if before < c::SEEN_BITS && first >= start {
                bits &= !(1 << before);
            }
            let early = u64::from(bits) & ((1 << before) - 1);
            tally.early += u64::from(early.count_ones());
        }
        tally.seen += u64::from(bits.count_ones());
        left -= numbers;
    }
    tally
}
