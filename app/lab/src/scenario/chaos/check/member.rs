//! Individual recovery (802.1CB 7.5) by the match algorithm, played back.
//!
//! It sees what comes by one port, whose order is known: what it does with a copy follows from the
//! copies before. Where one of them may not have come to it, or where its time-out may or may not
//! have ended, it may do either.

use super::super::spec::{Function, Span};
use super::NodeStream;
use super::element::{Acceptance, Arrival, slack_ns};

/// A member's function.
pub(super) struct Member {
    resets: Vec<Span>,
    /// Numbers one of which was the last.
    last: Vec<u16>,
    /// When the last copy came that surely came to it, and when the last of all had been worked on.
    since: u64,
    until: u64,
    slack_ns: u64,
}

impl Member {
    /// At its beginning.
    pub(super) fn new(place: NodeStream<'_>) -> Self {
        let resets = place.resets(|a: &Function, b: &Function| a.individual_ms == b.individual_ms);
        Self { resets, last: Vec::new(), since: 0, until: 0, slack_ns: slack_ns(place) }
    }

    /// The next copy that came by its port.
    pub(super) fn copy(&mut self, place: NodeStream<'_>, copy: &Arrival) -> Acceptance {
        let function = copy.era.and_then(|era| place.eras()[era].function.as_ref());
        let passes = match function.map(|function| function.individual_ms) {
            None => Acceptance::Maybe,
            Some(None) => Acceptance::Surely,
            Some(Some(timeout_ms)) => self.decide(copy, u64::from(timeout_ms) * 1_000_000),
        };
        if copy.sure {
            self.since = copy.at;
            // Accepted or not, it is the last one now; one without a number leaves the last as it is.
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
