//! The recovery functions of 802.1CB 7.4.3 literally, without optimization: a history that shifts one
//! position at a time, a timer that ticks once per millisecond.

use std::collections::VecDeque;

use onbeat_frer::counters::Counters;
use onbeat_frer::spec::{Algorithm, Recovery, Role};

/// One bit of SequenceHistory.
#[derive(Clone, Copy)]
struct HistoryBit {
    seen: bool,
    /// Represents a number from before the first accepted packet.
    before_first: bool,
}

pub(crate) struct Oracle {
    config: Recovery,
    individual: bool,
    recov_seq_num: i32,
    history: VecDeque<HistoryBit>,
    take_any: bool,
    remaining_ticks: u32,
    pub(crate) counters: Counters,
}

impl Oracle {
    pub(crate) fn new(config: Recovery, role: Role) -> Self {
        let mut oracle = Self {
            config,
            individual: role == Role::Individual,
            recov_seq_num: 0,
            history: VecDeque::new(),
            take_any: false,
            remaining_ticks: 0,
            counters: Counters::default(),
        };
        oracle.reset();
        oracle
    }

    pub(crate) fn reset(&mut self) {
        self.recov_seq_num = 65536 - 1;
        let length = match self.config.algorithm {
            Algorithm::Vector { history_length } => history_length.into(),
            Algorithm::Match => 0,
        };
        self.history = VecDeque::from(vec![HistoryBit { seen: false, before_first: true }; length]);
        self.take_any = true;
        self.remaining_ticks = 0;
        self.counters.resets += 1;
    }

    /// Changes the history length of vector recovery: numbers older than the former history count as seen, numbers
    /// that are older than the new one leave it.
    pub(crate) fn set_history_length(&mut self, history_length: u16) {
        self.config.algorithm = Algorithm::Vector { history_length };
        let length = usize::from(history_length);
        if self.take_any {
            let unseen = HistoryBit { seen: false, before_first: true };
            self.history = VecDeque::from(vec![unseen; length]);
        }
        while self.history.len() > length {
            let fallen = self.history.pop_back().unwrap();
            self.counters.lost += u64::from(!fallen.seen);
            self.counters.lost_before_first += u64::from(!fallen.seen && fallen.before_first);
        }
        self.history.resize(length, HistoryBit { seen: true, before_first: false });
    }

    pub(crate) fn advance_ms(&mut self, ms: u32) {
        for _ in 0..ms.min(self.remaining_ticks) {
            self.remaining_ticks -= 1;
            if self.remaining_ticks == 0 {
                self.reset();
                return;
            }
        }
    }

    /// Processes a packet; returns true if accepted.
    pub(crate) fn packet(&mut self, number: Option<u16>) -> bool {
        let accepted = match (number, self.config.algorithm) {
            (None, _) => self.tagless(),
            (Some(number), Algorithm::Vector { .. }) => self.vector(number.into()),
            (Some(number), Algorithm::Match) => self.matching(number.into()),
        };
        if accepted || self.individual {
            self.remaining_ticks = self.config.reset_timeout_ms;
        }
        accepted
    }

    fn tagless(&mut self) -> bool {
        self.counters.tagless += 1;
        if self.config.take_no_sequence {
            self.counters.passed += 1;
        }
        self.config.take_no_sequence
    }

    fn vector(&mut self, number: i32) -> bool {
        if self.take_any {
            self.take_any = false;
            self.history[0] = HistoryBit { seen: true, before_first: false };
            self.recov_seq_num = number;
            self.counters.passed += 1;
            return true;
        }
        let length = self.history.len() as i32;
        let mut delta = self.delta(number);
        if delta >= length || delta <= -length {
            self.counters.rogue += 1;
            self.counters.discarded += 1;
            return false;
        }
        if delta <= 0 {
            let place = &mut self.history[-delta as usize];
            if place.seen {
                self.counters.discarded += 1;
                return false;
            }
            place.seen = true;
            self.counters.out_of_order += 1;
            self.counters.passed += 1;
            return true;
        }
        if delta != 1 {
            self.counters.out_of_order += 1;
        }
        while delta > 0 {
            delta -= 1;
            self.history.push_front(HistoryBit { seen: delta == 0, before_first: false });
            let fallen = self.history.pop_back().unwrap();
            if !fallen.seen {
                self.counters.lost += 1;
                self.counters.lost_before_first += u64::from(fallen.before_first);
            }
        }
        self.recov_seq_num = number;
        self.counters.passed += 1;
        true
    }

    fn matching(&mut self, number: i32) -> bool {
        if self.take_any {
            self.take_any = false;
        } else {
            let delta = self.delta(number);
            if delta == 0 {
                self.counters.discarded += 1;
                return false;
            }
            if delta != 1 {
                self.counters.out_of_order += 1;
            }
        }
        self.recov_seq_num = number;
        self.counters.passed += 1;
        true
    }

    fn delta(&self, number: i32) -> i32 {
        match number - self.recov_seq_num {
            delta if delta > 32767 => delta - 65536,
            delta if delta < -32768 => delta + 65536,
            delta => delta,
        }
    }
}
