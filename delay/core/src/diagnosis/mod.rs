//! Diagnosis of packets of two captures that do not match, by inspection of both.
//!
//! ```text
//! first reading ── Evidence (a sample of each side, the order of time stamps, truncation)
//!                     │
//!                  diagnose ── Diagnosis ── Plan ── second reading, if a plan remedies it
//!                     │
//!                  conclude ── the causes reported with the result
//! ```
//!
//! The samples are matched again under other assumptions: the hop translates addresses, answers, or the captures
//! are truncated. The common packets under the least of these assumptions determine the directions and the
//! difference of the time stamps.

mod cause;
mod directions;
mod order;
mod pairs;
mod sample;
mod stamps;

pub use cause::{Cause, CauseEffect};
pub use order::{ClockStep, OrderSummary, TimeOrder};
pub use sample::Sample;
pub use stamps::StampQuality;

use crate::change::median;
use crate::key::Recognition;
use crate::pairing::{Plan, Side, Tally};
use crate::stats::StampError;
use crate::strays::StrayRun;
use directions::Directions;
use pairs::{CommonPackets, DISTINCTIVE, HopChange, shortest_cut};

/// A longer delay is interpreted as a step of a clock, in nanoseconds.
const LONGEST_DELAY_NS: i64 = 1_000_000_000;

/// The evidence of one side.
#[derive(Debug, Clone)]
pub struct SideEvidence<'a> {
    /// The counts of packets.
    pub tally: Tally,
    /// A sample of the packets.
    pub sample: &'a Sample,
    /// The order of its packets' time stamps.
    pub order: OrderSummary,
    /// The unit of time stamps in the capture's file, in nanoseconds.
    pub unit_ns: u32,
}

impl SideEvidence<'_> {
    /// The resolution of time stamps, in nanoseconds: the unit of the file, or that of the clock if it is coarser.
    pub fn resolution_ns(&self) -> u64 {
        self.sample.quality().resolution_ns().max(self.unit_ns.into())
    }
}

/// The evidence of a capture that holds both sides.
#[derive(Debug, Clone)]
pub struct CaptureEvidence {
    /// The order of its time stamps.
    pub order: OrderSummary,
    /// Packets on neither side.
    pub other: u64,
}

/// The evidence of both sides.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    /// Of arrivals.
    pub arrivals: SideEvidence<'a>,
    /// Of departures.
    pub departures: SideEvidence<'a>,
    /// The identification of packets.
    pub recognition: Recognition,
    /// The capture that holds both sides, as that of a mirror port.
    pub capture: Option<CaptureEvidence>,
}

/// Options of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchingOptions {
    /// The longest delay, in nanoseconds.
    pub longest_ns: i64,
    /// True if each capture has its own clock.
    pub two_clocks: bool,
    /// Minimum number of matches of a measurement.
    pub min_matched: u64,
}

/// A summary of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchSummary {
    /// Packets matched with their own delay.
    pub matched: u64,
    /// Packets matched whose delay may belong to another packet.
    pub ambiguous: u64,
    /// Packets of the smaller side.
    pub smaller: u64,
    /// Delays that were negative.
    pub negative: u64,
    /// The most negative of them, in nanoseconds.
    pub most_negative_ns: i64,
    /// Matched packets with the same time stamp on both sides.
    pub equal_times: u64,
    /// A run of packets that are on both sides and that the window does not match.
    pub strays: Option<StrayRun>,
}

impl MatchSummary {
    /// Returns true if the matches suffice for a measurement.
    pub fn is_enough(&self, matching: &MatchingOptions) -> bool {
        self.matched >= matching.min_matched && 2 * self.matched >= self.smaller
    }

    /// Returns true if they would suffice without identical packets.
    fn would_be_enough(&self, matching: &MatchingOptions) -> bool {
        MatchSummary { matched: self.matched + self.ambiguous, ..*self }.is_enough(matching)
    }

    /// Returns true if half of the matches or more have the same time stamp on both sides: both were captured at
    /// one point, or the hop is faster than the resolution of the time stamps.
    fn has_equal_times(&self) -> bool {
        self.equal_times > 0 && 2 * self.equal_times >= self.matched + self.ambiguous
    }
}

/// The result of a diagnosis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    causes: Vec<Cause>,
    /// The plan for a reading in which all possible packets match.
    pub plan: Plan,
    /// The overlap of both captures, and the length of the shorter one, in nanoseconds.
    overlap_ns: Option<(i64, i64)>,
    /// Octets compared, if that is less than a packet.
    octets: Option<usize>,
}

impl Evidence<'_> {
    /// Determines the causes of unmatched packets, and a plan for another reading.
    pub fn diagnose(&self, matching: &MatchingOptions) -> Diagnosis {
        let samples = [self.arrivals.sample, self.departures.sample];
        let mut found = Diagnosis {
            overlap_ns: self.overlap_ns(0),
            octets: Some(self.recognition.octets).filter(|octets| *octets != usize::MAX),
            ..Diagnosis::default()
        };
        self.order(matching, &mut found);
        if let Some(side) = self.side_of(|side| side.sample.is_constant()) {
            found.causes.push(Cause::ConstantTimes { side });
        }
        let octets = self.cut(&mut found);
        if !self.empty(&mut found) {
            match CommonPackets::find(samples, &self.recognition, octets) {
                Some(common) => self.common(&common, matching, &mut found),
                None if found.is_cut() && octets.is_none_or(|octets| octets < DISTINCTIVE) => {
                    found.cut_is_too_short();
                }
                None if self.has_samples() => self.nothing_in_common(matching, &mut found),
                None => {}
            }
        }
        found
    }

    /// The error of each delay due to resolution and batches of both captures' time stamps.
    pub fn stamp_error(&self) -> StampError {
        let resolutions = [&self.arrivals, &self.departures].map(SideEvidence::resolution_ns);
        let [arrivals, departures] =
            [&self.arrivals, &self.departures].map(|side| side.sample.quality().late_ns());
        let StampError { too_long_ns, too_short_ns } =
            StampError::of_resolutions(resolutions[0], resolutions[1]);
        StampError { too_long_ns: too_long_ns + departures, too_short_ns: too_short_ns + arrivals }
    }

    fn sides(&self) -> [(Side, &SideEvidence<'_>); 2] {
        [(Side::Arrivals, &self.arrivals), (Side::Departures, &self.departures)]
    }

    fn has_samples(&self) -> bool {
        self.sides().iter().all(|(_, side)| side.sample.count() > 0)
    }

    /// The side for which a condition holds; `None`: both, or the one capture of both.
    fn side_of(&self, holds: impl Fn(&SideEvidence<'_>) -> bool) -> Option<Option<Side>> {
        match self.sides().map(|(side, evidence)| holds(evidence).then_some(side)) {
            [None, None] => None,
            [Some(_), Some(_)] => Some(None),
            [one, other] => Some(one.or(other)),
        }
    }

    /// Sides without a packet.
    fn empty(&self, found: &mut Diagnosis) -> bool {
        let other = self.capture.as_ref().map_or(0, |capture| capture.other);
        let of = self.arrivals.tally.packets + self.departures.tally.packets + other;
        let is_empty = |side: &SideEvidence<'_>| match self.capture {
            Some(_) => of == 0,
            None => side.tally.packets == 0,
        };
        if let Some(side) = self.side_of(is_empty) {
            found.causes.push(Cause::Empty { side });
            return true;
        }
        let Some(side) = self.side_of(|side| side.tally.selected() == 0) else { return false };
        let of = match side {
            Some(Side::Arrivals) if self.capture.is_none() => self.arrivals.tally.packets,
            Some(Side::Departures) if self.capture.is_none() => self.departures.tally.packets,
            _ => of,
        };
        found.causes.push(Cause::NothingSelected { side, of });
        true
    }

    /// Checks for truncated packets; returns the number of octets that can be compared.
    fn cut(&self, found: &mut Diagnosis) -> Option<usize> {
        let is_cut = |side: &SideEvidence<'_>| {
            side.tally.cut > 0 && 2 * side.tally.cut >= side.tally.selected()
        };
        let side = self.side_of(is_cut)?;
        let samples = [self.arrivals.sample, self.departures.sample];
        let octets = shortest_cut(samples, &self.recognition);
        let (cut, of) = self.sides().iter().fold((0, 0), |(cut, of), (_, side)| {
            let counted =
                if is_cut(side) { (side.tally.cut, side.tally.selected()) } else { (0, 0) };
            (cut + counted.0, of + counted.1)
        });
        found.causes.push(Cause::Cut { side, cut, of, octets });
        octets
    }

    /// Checks for clocks that were set back, and for disorder.
    fn order(&self, matching: &MatchingOptions, found: &mut Diagnosis) {
        let [first, second] = [&self.arrivals.order, &self.departures.order];
        // A step of the one clock of both appears on each side with packets.
        let steps = first.steps.len().max(second.steps.len());
        let are_shared = steps > 0 && first.has_steps_of(second);
        let set_back = |side, orders: &[&OrderSummary], alone| {
            let size_ns = orders.iter().map(|order| order.furthest_step_ns()).max().unwrap_or(0);
            Cause::ClockSetBack { side, steps, size_ns, alone }
        };
        let mut orders = vec![first, second];
        if let Some(capture) = &self.capture {
            // Interfaces written block by block cause steps that no side has.
            orders.push(&capture.order);
            if are_shared && capture.order.has_steps_of(first) {
                found.causes.push(set_back(None, &orders, false));
            } else {
                self.disorder(&orders, true, found);
                return;
            }
        } else if are_shared {
            found.causes.push(set_back(None, &orders, false));
            let packets = |order: &OrderSummary| order.steps.iter().map(|s| s.packet).collect();
            found.plan.arrivals.steps = packets(first);
            found.plan.departures.steps = packets(second);
        } else if steps > 0 {
            let side = self.side_of(|side| !side.order.steps.is_empty()).flatten();
            let alone = set_back(side, &orders, !matching.two_clocks);
            if !self.has_samples() {
                found.causes.push(alone);
                return;
            }
            if !side.is_some_and(|side| self.moves_delays(side)) {
                self.disorder(&orders, true, found);
                return;
            }
            found.causes.push(alone);
            found.plan.disorder_ns = orders.iter().map(|o| o.furthest_back_ns()).max().unwrap_or(0);
            return;
        }
        self.disorder(&orders, false, found);
    }

    /// Checks for packets out of order. A step on one side only is a block of packets that was written late, or the
    /// other side has no packets before it: a window of that length matches all.
    fn disorder(&self, orders: &[&OrderSummary], with_steps: bool, found: &mut Diagnosis) {
        let extent_ns = |order: &OrderSummary| match with_steps {
            true => order.furthest_back_ns(),
            false => order.disorder_ns,
        };
        let furthest_ns = orders.iter().map(|order| extent_ns(order)).max().unwrap_or(0);
        found.plan.disorder_ns = furthest_ns;
        if furthest_ns == 0 {
            return;
        }
        let side = match self.capture {
            Some(_) => None,
            None => self.side_of(|side| extent_ns(&side.order) > 0).flatten(),
        };
        found.causes.push(Cause::Disorder { side, extent_ns: furthest_ns });
    }

    /// Returns true if delays change by half a step of the clock or more, if one capture has a step.
    fn moves_delays(&self, side: Side) -> bool {
        let samples = [self.arrivals.sample, self.departures.sample];
        let Some(common) = CommonPackets::find(samples, &self.recognition, None) else {
            return false;
        };
        let (order, of): (_, fn(&pairs::CommonPacket<'_>) -> usize) = match side {
            Side::Arrivals => (&self.arrivals.order, |common| common.arrival.backward),
            Side::Departures => (&self.departures.order, |common| common.departure.backward),
        };
        let differences = |after: bool| {
            let packets = common.packets.iter().filter(|common| (of(common) > 0) == after);
            median(packets.map(|common| common.difference_ns() as f64).collect())
        };
        let (Some(before), Some(after)) = (differences(false), differences(true)) else {
            return false;
        };
        (after - before).abs() >= order.furthest_back_ns() as f64 / 2.0
    }

    /// Evaluates the packets of both samples.
    fn common(
        &self,
        common: &CommonPackets<'_>,
        matching: &MatchingOptions,
        found: &mut Diagnosis,
    ) {
        let packets = common.packets.len();
        match common.change {
            HopChange::None => {}
            HopChange::Forwards => found.causes.push(Cause::NoReplies { packets }),
            HopChange::Replies => found.causes.push(Cause::Replies { packets }),
            HopChange::Translates => {
                found.causes.push(Cause::Translated { packets, untranslated: common.as_matched })
            }
        }
        if packets == 0 || found.has(|cause| matches!(cause, Cause::ConstantTimes { .. })) {
            return;
        }
        if self.equal_times(common, matching, found) {
            return;
        }
        let directions = Directions::of(common, matching);
        let mut difference_ns = directions.median_ns;
        if directions.are_swapped() {
            found.causes.push(Cause::Swapped { packets });
            difference_ns = -difference_ns;
        } else if directions.are_both() {
            let (forward, backward) = (directions.forward, directions.backward);
            found.causes.push(Cause::BothDirections { forward, backward });
            found.plan.arrivals.excluded = directions.excluded.0;
            found.plan.departures.excluded = directions.excluded.1;
        }
        // As the user named the captures, exchanged or not.
        let by_ns = directions.median_ns as i64;
        let apart = difference_ns < 0.0 || difference_ns > matching.longest_ns as f64;
        if !matching.two_clocks && apart {
            found.causes.push(Cause::ClocksApart { by_ns });
        }
        self.little_overlap(common, by_ns, found);
    }

    /// Checks if most packets have the same time stamp on both sides, to the resolution of the coarser capture.
    fn equal_times(
        &self,
        common: &CommonPackets<'_>,
        matching: &MatchingOptions,
        found: &mut Diagnosis,
    ) -> bool {
        // One capture of both sides has one resolution, and no packet in both roles.
        if self.capture.is_some() {
            return false;
        }
        let [first_ns, second_ns] =
            self.sides().map(|(_, side)| side.sample.quality().least_resolution_ns());
        let coarser_ns = first_ns.max(second_ns);
        let of = common.packets.len();
        let is_equal =
            |one: &&pairs::CommonPacket<'_>| one.difference_ns().saturating_abs() < coarser_ns;
        let is_same = |one: &&pairs::CommonPacket<'_>| one.arrival.is_same_frame(one.departure);
        let equal = || common.packets.iter().filter(is_equal);
        let (packets, same) = (equal().count(), equal().filter(is_same).count());
        if 2 * same >= of {
            found.causes.push(Cause::OneCapture { packets: same, of });
            return true;
        }
        // Equal time stamps of one resolution are counted among the matches.
        let is_one = first_ns != second_ns && !matching.two_clocks && 2 * packets >= of;
        if is_one {
            found.causes.push(Cause::EqualTimes { packets: packets as u64, of: of as u64 });
        }
        is_one
    }

    /// Checks for captures that overlap for less than half of the time, and share less than half of their packets.
    /// Departures are `by_ns` later than arrivals.
    fn little_overlap(&self, common: &CommonPackets<'_>, by_ns: i64, found: &mut Diagnosis) {
        found.overlap_ns = self.overlap_ns(by_ns);
        let Some((overlap_ns, shorter_ns)) = found.overlap_ns else { return };
        if overlap_ns < shorter_ns / 2 && 2 * common.keys < common.smaller {
            found.causes.push(Cause::NoOverlap { gap_ns: overlap_ns.max(0).saturating_neg() });
        }
    }

    /// Returns the overlap of both captures, if departures are `by_ns` later (negative: the gap between them), and
    /// the length of the shorter capture.
    fn overlap_ns(&self, by_ns: i64) -> Option<(i64, i64)> {
        let (first, (from_ns, to_ns)) =
            (self.arrivals.sample.times_ns()?, self.departures.sample.times_ns()?);
        let second = (from_ns.saturating_sub(by_ns), to_ns.saturating_sub(by_ns));
        let overlap_ns = first.1.min(second.1).saturating_sub(first.0.max(second.0));
        let length = |(from, to): (i64, i64)| to.saturating_sub(from);
        Some((overlap_ns, length(first).min(length(second))))
    }

    fn nothing_in_common(&self, matching: &MatchingOptions, found: &mut Diagnosis) {
        let counts = [self.arrivals.sample.count(), self.departures.sample.count()];
        found.causes.push(match found.overlap_ns {
            Some((overlap_ns, _)) if overlap_ns < 0 && !matching.two_clocks => {
                Cause::NoOverlap { gap_ns: overlap_ns.saturating_neg() }
            }
            _ => Cause::DifferentTraffic {
                arrivals: counts[0],
                departures: counts[1],
                octets: Some(self.recognition.octets).filter(|octets| *octets < DISTINCTIVE),
            },
        });
    }
}

/// The causes reported with a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conclusion {
    /// Causes, of which at least one prevents a measurement if there is none.
    pub causes: Vec<Cause>,
    /// The number of causes that make delays meaningless, whatever the number of matches.
    pub voiding: usize,
}

impl Diagnosis {
    fn is_cut(&self) -> bool {
        self.has(|cause| matches!(cause, Cause::Cut { .. }))
    }

    fn has(&self, is_one: impl Fn(&Cause) -> bool) -> bool {
        self.causes.iter().any(is_one)
    }

    /// Returns true if too few octets were captured to determine the common packets.
    fn cut_is_too_short(&mut self) {
        for cause in &mut self.causes {
            if let Cause::Cut { octets, .. } = cause {
                *octets = None;
            }
        }
    }

    /// Returns the causes to report with a result: with a valid measurement, only remedied ones. `planned`: the
    /// captures were read by the [`plan`](Self::plan).
    pub fn conclude(
        &self,
        matched: &MatchSummary,
        matching: &MatchingOptions,
        planned: bool,
    ) -> Conclusion {
        let fails = !matched.is_enough(matching) || matched.negative > 0;
        let unplanned = !planned && self.plan != Plan::default();
        let is_remedied = |cause: &Cause| cause.effect() == CauseEffect::Remedied;
        // Packets of the other direction count as lost, or match with negative delays.
        let voids = |cause: &&Cause| {
            cause.effect() == CauseEffect::Voids
                || (unplanned && matches!(cause, Cause::BothDirections { .. }))
        };
        // A sample may miss the few packets that did match.
        let is_refuted = |cause: &Cause| {
            let is_of_none =
                matches!(cause, Cause::DifferentTraffic { .. } | Cause::NoOverlap { gap_ns: 1.. });
            is_of_none && matched.matched > 0
        };
        let stands =
            |cause: &&Cause| (fails && !is_refuted(cause)) || voids(cause) || is_remedied(cause);
        let mut causes: Vec<Cause> = self.causes.iter().filter(stands).cloned().collect();
        causes.extend(self.of_matches(&causes, matched, matching).filter(|_| !unplanned));
        let voiding = causes.iter().filter(voids).count();
        if fails && !unplanned && causes.iter().all(is_remedied) {
            causes.push(self.unexplained(matched, matching));
        }
        Conclusion { causes, voiding }
    }

    /// Returns the cause that the matches indicate, if the present `causes` do not explain them.
    fn of_matches(
        &self,
        causes: &[Cause],
        matched: &MatchSummary,
        matching: &MatchingOptions,
    ) -> Option<Cause> {
        let all = matched.matched + matched.ambiguous;
        let is_of_time = |cause: &Cause| {
            matches!(
                cause,
                Cause::OneCapture { .. }
                    | Cause::EqualTimes { .. }
                    | Cause::ConstantTimes { .. }
                    | Cause::ClockSetBack { alone: true, .. }
                    | Cause::ClocksApart { .. }
                    | Cause::Swapped { .. }
            )
        };
        if causes.iter().any(is_of_time) {
            return None;
        }
        if matched.has_equal_times() {
            return Some(Cause::EqualTimes { packets: matched.equal_times, of: all });
        }
        if !matched.is_enough(matching) && matched.would_be_enough(matching) {
            let (packets, octets) = (matched.ambiguous, self.octets);
            return Some(Cause::Alike { packets, of: all, octets });
        }
        let run = matched.strays?;
        // By `--longest` a slower packet is lost. No packet takes longer than a second, or less than nothing.
        let is_step = run.difference_ns < 0 || run.difference_ns > LONGEST_DELAY_NS;
        let (packets, by_ns) = (run.packets, run.difference_ns);
        let beyond = Some(by_ns.saturating_abs()).filter(|by_ns| *by_ns >= matching.longest_ns);
        let longest_ns = beyond.map(|by_ns| by_ns.saturating_mul(2));
        is_step.then_some(Cause::ClockStep { packets, by_ns, longest_ns })
    }

    /// Returns the cause that the counts alone indicate.
    fn unexplained(&self, matched: &MatchSummary, matching: &MatchingOptions) -> Cause {
        match self.overlap_ns {
            _ if matched.negative > 0 => Cause::ClocksApart { by_ns: matched.most_negative_ns },
            Some((overlap_ns, shorter_ns)) if overlap_ns < shorter_ns / 2 => {
                let overlap_ns = if matched.matched > 0 { overlap_ns.max(0) } else { overlap_ns };
                Cause::NoOverlap { gap_ns: overlap_ns.saturating_neg() }
            }
            _ if 2 * matched.matched < matched.smaller => {
                Cause::FewMatched { matched: matched.matched, of: matched.smaller }
            }
            _ => Cause::TooFew { matched: matched.matched, required: matching.min_matched },
        }
    }
}
