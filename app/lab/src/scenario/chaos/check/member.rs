//! Individual recovery (802.1CB 7.5) by the match algorithm, replayed.
//!
//! It processes the copies of one port, whose order is known: its decision follows from the copies
//! before. If one of these may not have reached it, or if its timeout may or may not have expired,
//! both decisions are valid.

use super::super::spec::{Function, Span};
use super::NodeStream;
use super::element::{Acceptance, Arrival, slack_ns};

/// The function of a member.
pub(super) struct Member {
    resets: Vec<Span>,
    /// Candidates for the last number.
    last: Vec<u16>,
    /// Arrival of the last copy that certainly reached it, and the time by which the last of all copies
    /// was processed.
    since: u64,
    until: u64,
    slack_ns: u64,
}

impl Member {
    /// The function in its initial state.
    pub(super) fn new(place: NodeStream<'_>) -> Self {
        let resets = place.resets(|a: &Function, b: &Function| a.individual_ms == b.individual_ms);
        Self { resets, last: Vec::new(), since: 0, until: 0, slack_ns: slack_ns(place) }
    }

    /// Processes the next copy of its port.
    pub(super) fn copy(&mut self, place: NodeStream<'_>, copy: &Arrival) -> Acceptance {
        let function = copy.era.and_then(|era| place.eras()[era].function.as_ref());
        let passes = match function.map(|function| function.individual_ms) {
            None => Acceptance::Maybe,
            Some(None) => Acceptance::Surely,
            Some(Some(timeout_ms)) => self.decide(copy, u64::from(timeout_ms) * 1_000_000),
        };
        if copy.sure {
            self.since = copy.at;
            // Accepted or not, its number is now the last one; a copy without a number does not change
            // it.
            if copy.number.is_some() {
                self.last.clear();
            }
        }
        self.last.extend(copy.number);
        self.until = copy.until;
        passes
    }

    fn decide(&self, copy: &Arrival, timeout_ns: u64) -> Acceptance {
        let Some(number) = copy.number else { return Acceptance::Not };
        let over = copy.at.saturating_sub(self.until) >= timeout_ns + self.slack_ns;
        if over || !self.last.contains(&number) {
            return Acceptance::Surely;
        }
        let gap = Span { from: self.since, to: copy.until };
        let may_be_over = gap.to.saturating_sub(gap.from) + self.slack_ns >= timeout_ns
            || self.resets.iter().any(|reset| reset.meets(gap));
        if may_be_over || self.last.iter().any(|last| *last != number) {
            return Acceptance::Maybe;
        }
        Acceptance::Not
    }
}
