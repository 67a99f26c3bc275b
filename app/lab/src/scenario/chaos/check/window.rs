//! Possible states of a recovery function, derived from frames observed as accepted.
//!
//! The order in which the function processed two frames that arrived by different ports at about the
//! same time is unknown. So there is not one RecovSeqNum at a time, but candidates for it: a decision
//! is correct if it is correct for one of them.

use std::collections::HashMap;

use super::super::spec::{Function, Recovery, Span};
use super::NodeStream;
use super::element::{Arrival, Departure, Element, slack_ns};

const MS: u64 = 1_000_000;

/// A frame that a recovery function accepted.
#[derive(Debug, Clone, Copy)]
struct AcceptedCopy {
    number: u16,
    sequence: u64,
    /// Times of its arrival and exit.
    span: Span,
    recover: Recovery,
    /// The function certainly in effect then.
    sure: bool,
    /// Maximum number of resets of the function up to here.
    resets: u32,
    /// Minimum number of resets.
    sure_resets: u32,
}

/// The history of the function.
#[derive(Default)]
pub(super) struct Window {
    /// Accepted frames, in order of exit.
    accepted: Vec<AcceptedCopy>,
    /// Candidates for RecovSeqNum after each accepted frame.
    newest: Vec<Vec<u16>>,
    /// Frames possibly accepted without an observed exit, in order of arrival.
    unseen: Vec<(u16, Span)>,
    by_number: HashMap<u16, Vec<usize>>,
    by_sequence: HashMap<u64, Vec<usize>>,
    resets: Vec<Span>,
    bound_ns: u64,
    slack_ns: u64,
}

/// Signed distance of 16-bit numbers.
pub(super) fn distance(a: u16, b: u16) -> i32 {
    i32::from(a.wrapping_sub(b) as i16)
}

fn inside(number: u16, newest: u16, history: u16) -> bool {
    distance(number, newest).abs() < i32::from(history)
}

impl Window {
    pub(super) fn new(place: NodeStream<'_>, element: &Element) -> Self {
        let resets = place.resets(|a: &Function, b: &Function| a.recover == b.recover);
        let mut window = Self {
            resets,
            bound_ns: element.bound_ns,
            slack_ns: slack_ns(place),
            ..Self::default()
        };
        for (sequence, came, left) in element.frames() {
            window.add(place, sequence, came, left);
        }
        window.accepted.sort_by_key(|accepted| accepted.span.to);
        window.unseen.sort_by_key(|(_, span)| span.from);
        window.fold();
        window
    }

    /// Adds a frame that left, or that may have been accepted nevertheless.
    fn add(&mut self, place: NodeStream<'_>, sequence: u64, came: &[Arrival], left: &[Departure]) {
        let came: Vec<&Arrival> = came.iter().filter(|copy| copy.number.is_some()).collect();
        let Some((first, number)) = came.iter().find_map(|copy| Some((*copy, copy.number?))) else {
            return;
        };
        let recovers = |span: Span| {
            let functions =
                place.possible_eras(span).iter().filter_map(|era| era.function.as_ref());
            functions.filter_map(|function| function.recover)
        };
        let times = exits(left);
        let away = |copy: &&&Arrival| {
            let span = Span { from: copy.at, to: copy.gone };
            let function = copy.era.and_then(|era| place.eras()[era].function.as_ref());
            function.is_none_or(|f| f.egress.iter().all(|e| place.is_away(e.port, span)))
        };
        let mut away: Vec<&&Arrival> = came.iter().filter(away).collect();
        if times.is_empty() && !away.is_empty() {
            let to = came.iter().map(|copy| copy.until).max().unwrap_or(first.until);
            self.unseen.push((number, Span { from: first.at, to }));
            away.remove(0);
        }
        // Match recovery may accept each copy if another frame arrived in between.
        let repeats =
            |copy: &&Arrival| recovers(copy.span()).any(|recover| recover.history.is_none());
        let again = away.iter().filter(|copy| repeats(copy));
        self.unseen.extend(again.map(|copy| (number, copy.span())));
        let exits = times.len();
        for (turn, to) in times.into_iter().enumerate() {
            // The accepted copy is none that arrived too early, nor one that an earlier exit requires,
            // nor a later one: a node that had no CPU time sends several at the same time.
            let spare = came.len().saturating_sub(exits - turn);
            let recent = came.iter().take(spare + 1).find(|copy| copy.at + self.bound_ns >= to);
            let turned = came.get(turn).copied().unwrap_or(first);
            let copy = recent.copied().filter(|copy| copy.at > turned.at).unwrap_or(turned);
            let span = Span { from: copy.at.min(to), to };
            let Some(recover) = recovers(span).next_back() else { continue };
            let sure = recovers(span).all(|other| other == recover);
            self.accepted.push(AcceptedCopy {
                number,
                sequence,
                span,
                recover,
                sure,
                resets: 0,
                sure_resets: 0,
            });
        }
    }

    /// Computes the candidates for RecovSeqNum after each accepted frame, and the resets.
    fn fold(&mut self) {
        let (mut resets, mut sure) = (0, 0);
        for place in 0..self.accepted.len() {
            let now = self.accepted[place];
            let before = place.checked_sub(1).map(|before| self.accepted[before]);
            if let Some(before) = before {
                resets += u32::from(self.may_reset(&before, &now));
                sure += u32::from(self.must_reset(before.span.to, now.span.from, &before.recover));
            }
            let since_reset = before.is_none_or(|before| self.may_reset(&before, &now));
            let earlier = place.checked_sub(1).map_or(&[][..], |before| &self.newest[before]);
            let mut newest: Vec<u16> = match now.recover.history {
                Some(history) => earlier
                    .iter()
                    .filter(|known| inside(now.number, **known, history))
                    .map(|known| if distance(now.number, *known) > 0 { now.number } else { *known })
                    .collect(),
                None => vec![now.number],
            };
            if since_reset {
                newest.push(now.number);
            } else if newest.is_empty() {
                // The frame should not have been accepted, or left later than the next one: frames
                // after it are no violation because of it.
                newest.extend(earlier);
                newest.push(now.number);
            }
            newest.sort_unstable();
            newest.dedup();
            self.newest.push(newest);
            self.by_number.entry(now.number).or_default().push(place);
            self.by_sequence.entry(now.sequence).or_default().push(place);
            let accepted = &mut self.accepted[place];
            (accepted.resets, accepted.sure_resets) = (resets, sure);
        }
    }

    /// Whether the function may have been reset between two accepted frames.
    fn may_reset(&self, before: &AcceptedCopy, after: &AcceptedCopy) -> bool {
        let between = Span { from: before.span.from, to: after.span.to };
        let timeout_ns = u64::from(before.recover.timeout_ms.min(after.recover.timeout_ms)) * MS;
        let waited = between.to.saturating_sub(between.from) + self.slack_ns;
        timeout_ns != 0 && waited >= timeout_ns
            || self.resets.iter().any(|reset| reset.meets(between))
    }

    /// Whether its timeout certainly expired, if no frame was accepted in between.
    fn must_reset(&self, from: u64, to: u64, recover: &Recovery) -> bool {
        let timeout_ns = u64::from(recover.timeout_ms) * MS;
        timeout_ns != 0
            && to.saturating_sub(from) >= timeout_ns + self.slack_ns
            && !self.unseen_within(Span { from, to })
    }

    fn unseen_within(&self, span: Span) -> bool {
        let end = self.unseen.partition_point(|(_, seen)| seen.from <= span.to);
        self.unseen[..end].iter().rev().any(|(_, seen)| seen.meets(span))
    }

    /// The candidates for RecovSeqNum within a span, without the frame of number `except`. None: the
    /// function accepts any number.
    fn candidates(&self, span: Span, except: Option<usize>) -> Vec<u16> {
        let begin = self.accepted.partition_point(|accepted| accepted.span.to <= span.from);
        let base = self.accepted[..begin].len().checked_sub(1);
        let mut found = base.map_or_else(Vec::new, |base| self.newest[base].clone());
        // The exit order of frames that arrived shortly before or after the last one is no evidence.
        let since = base.map_or(0, |base| self.accepted[base].span.from);
        let overlaps = |accepted: &&AcceptedCopy| accepted.span.to >= since;
        let recent = self.accepted[..begin].iter().rev().take_while(overlaps);
        let is_match = |accepted: &&AcceptedCopy| accepted.recover.history.is_none();
        found.extend(recent.filter(is_match).map(|accepted| accepted.number));
        for (place, accepted) in self.accepted.iter().enumerate().skip(begin) {
            if accepted.span.to > span.to + self.bound_ns {
                break;
            }
            if accepted.span.from <= span.to && Some(place) != except {
                found.push(accepted.number);
            }
        }
        let end = self.unseen.partition_point(|(_, seen)| seen.from <= span.to);
        let unseen = self.unseen[..end].iter().rev().take_while(|(_, seen)| seen.to >= since);
        found.extend(unseen.map(|(number, _)| *number));
        found
    }

    /// Whether the function may discard a copy with number `number`, of a frame that it has not
    /// accepted.
    pub(super) fn may_discard(&self, copy: &Arrival, number: u16, recover: &Recovery) -> bool {
        if self.is_fresh(copy, recover) {
            return false;
        }
        let candidates = self.candidates(copy.span(), None);
        match recover.history {
            Some(history) => {
                candidates.iter().any(|newest| !inside(number, *newest, history))
                    || self.collides(copy, number, history)
            }
            None => candidates.contains(&number),
        }
    }

    /// Whether a copy is outside of the history: certainly, possibly.
    pub(super) fn is_rogue(&self, copy: &Arrival, number: u16, history: u16) -> (bool, bool) {
        let candidates = self.candidates(copy.span(), None);
        let out = |newest: &u16| !inside(number, *newest, history);
        let surely = !candidates.is_empty() && candidates.iter().all(out);
        // The frame itself may have been the first one after a reset.
        (surely && !candidates.contains(&number), candidates.iter().any(out))
    }

    /// Whether the function certainly accepts any number: it was reset, or its timeout has expired.
    fn is_fresh(&self, copy: &Arrival, recover: &Recovery) -> bool {
        let timeout_ns = u64::from(recover.timeout_ms) * MS + self.slack_ns;
        let limit = match recover.timeout_ms {
            0 => 0,
            _ => copy.at.saturating_sub(timeout_ns),
        };
        let since = self.accepted.partition_point(|accepted| accepted.span.to <= limit);
        let late = self.accepted[since..].iter();
        let mut late = late.take_while(|a| a.span.to <= copy.until + self.bound_ns);
        !late.any(|accepted| accepted.span.from <= copy.until)
            && !self.unseen_within(Span { from: limit, to: copy.until })
    }

    /// Whether another frame of the same number may still be in the history, because its talker's
    /// generator was reset.
    fn collides(&self, copy: &Arrival, number: u16, history: u16) -> bool {
        let now = self.accepted.partition_point(|accepted| accepted.span.to <= copy.at);
        let fresh = now.checked_sub(1).map_or(0, |last| self.accepted[last].sure_resets);
        let same = self.by_number.get(&number).into_iter().flatten();
        same.rev().any(|place| {
            let other = &self.accepted[*place];
            other.sequence != copy.sequence
                && other.span.from <= copy.until
                && now.saturating_sub(*place) <= 2 * usize::from(history)
                && other.sure_resets >= fresh
        })
    }

    /// Whether a frame may leave a second time: after a reset, or after another frame with match
    /// recovery.
    pub(super) fn may_repeat(&self, sequence: u64, first: u64, again: u64) -> bool {
        let turns = self.by_sequence.get(&sequence).map_or(&[][..], Vec::as_slice);
        // By other ports it left earlier, in any order.
        let by = |at: u64| turns.partition_point(|turn| self.accepted[*turn].span.to <= at);
        let again = by(again);
        let first = by(first).min(again.saturating_sub(1));
        if first == 0 {
            return true;
        }
        let (first, again) = (turns[first - 1], turns[again - 1]);
        let (one, other) = (&self.accepted[first], &self.accepted[again]);
        if one.resets != other.resets || !(one.sure && other.sure) {
            return true;
        }
        if other.recover.history.is_some() {
            return false;
        }
        let span = Span { from: one.span.to.min(other.span.from), to: other.span.to };
        self.candidates(span, Some(again)).iter().any(|last| *last != other.number)
    }

    /// Accepted frames that were outside of the history in any order: sequence and time.
    pub(super) fn wrongly_accepted(&self) -> impl Iterator<Item = (u64, u64, String)> + '_ {
        self.accepted.iter().enumerate().filter_map(|(place, accepted)| {
            let history = accepted.recover.history?;
            let before = &self.accepted[place.checked_sub(1)?];
            if !accepted.sure || self.may_reset(before, accepted) {
                return None;
            }
            let candidates = self.candidates(accepted.span, Some(place));
            let fits = |newest: &u16| inside(accepted.number, *newest, history);
            if candidates.is_empty() || candidates.iter().any(fits) {
                return None;
            }
            let text = format!(
                "accepted number {} is outside of the history of {history} for RecovSeqNum {candidates:?}",
                accepted.number
            );
            Some((accepted.sequence, accepted.span.to, text))
        })
    }

    /// The minimum and maximum number of frames accepted since a time within a span.
    pub(super) fn count(&self, since: Span) -> (u64, u64) {
        let within = |span: &Span| span.from >= since.to;
        let maybe = |span: &Span| span.to >= since.from;
        let seen = || self.accepted.iter().map(|accepted| &accepted.span);
        let unseen = self.unseen.iter().filter(|(_, span)| maybe(span)).count();
        let least = seen().filter(|span| within(span)).count();
        let most = seen().filter(|span| maybe(span)).count() + unseen;
        (least as u64, most as u64)
    }
}

/// The exit time of each copy: that by its first egress port.
fn exits(left: &[Departure]) -> Vec<u64> {
    let mut by_port: HashMap<usize, usize> = HashMap::new();
    let mut times: Vec<u64> = Vec::new();
    // By time, so that the first exit of each copy comes first.
    for out in left {
        let turn = by_port.entry(out.port).or_default();
        if *turn == times.len() {
            times.push(out.at);
        }
        *turn += 1;
    }
    times
}
