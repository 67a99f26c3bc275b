//! Numbers assigned by a generator (802.1CB 7.4.1).
//!
//! Frames reach a generator by one port, in a known order: it must number them consecutively. A frame
//! without an observed exit may have a number, and certainly has one if it certainly reached the
//! generator.

use std::collections::HashMap;

use super::super::spec::{Function, Span};
use super::element::{Arrival, Element};
use super::{NodeStream, Rule, Verdict};

pub(super) fn check(place: NodeStream<'_>, element: &Element, verdict: &mut Verdict) {
    let generates = |function: &Function| function.generate;
    let functions = || place.eras().iter().filter_map(|era| era.function.as_ref());
    if !functions().any(generates) {
        return;
    }
    let mut given: HashMap<u64, Vec<(u16, usize)>> = HashMap::new();
    for out in &element.outs {
        if let Some(number) = out.sighting.number {
            given.entry(out.sequence).or_default().push((number, out.sighting.index));
        }
    }
    let resets = place.resets(|before, after| before.generate == after.generate);
    let mut copies: Vec<&Arrival> =
        element.ins.iter().filter(|copy| copy.number.is_none()).collect();
    copies.sort_by_key(|copy| copy.at);
    let mut next = NextNumber::default();
    let mut last_at = 0;
    for copy in copies {
        let numbers = given.get(&copy.sequence).map_or(&[][..], Vec::as_slice);
        if resets.iter().any(|reset| reset.meets(Span { from: last_at, to: copy.until })) {
            next.may_reset();
        }
        last_at = copy.at;
        let Some(&(number, _)) = numbers.first() else {
            next.unseen(copy.sure);
            continue;
        };
        let frames = || numbers.iter().map(|(_, index)| *index).chain([copy.index]).collect();
        if numbers.iter().any(|(other, _)| *other != number) {
            let text = format!("the replicas of frame {} have several numbers", copy.sequence);
            verdict.violate(place, Rule::Numbers, None, copy.at, (text, frames()));
        }
        verdict.tally.numbered += 1;
        verdict.tally.wrapped += u64::from(number == 0 && next.begun && next.follows(0));
        if let Err(expected) = next.seen(number) {
            let text = format!("frame {} has number {number}; {expected}", copy.sequence);
            verdict.violate(place, Rule::Numbers, None, copy.at, (text, frames()));
        }
    }
    let counted = place.case.counted[place.node].as_ref();
    let counted = counted.and_then(|counted| counted.streams[place.stream].as_ref());
    let Some(number) = counted.and_then(|counted| counted.next_number) else { return };
    if resets.iter().any(|reset| reset.to >= last_at) {
        next.may_reset();
    }
    verdict.tally.counters += 1;
    verdict.tally.exact += 1;
    if let Err(expected) = next.seen(number) {
        let text = format!("GenSeqNum is {number} at the end; {expected}");
        verdict.violate(place, Rule::Counters, None, 0, (text, Vec::new()));
    }
}

/// The range of the next number: `number + least` to `number + most`, or, if the generator may have
/// been reset, 0 plus at most the number of frames since.
#[derive(Debug, Default)]
struct NextNumber {
    number: u16,
    least: u16,
    most: u16,
    since_reset: Option<u16>,
    begun: bool,
}

impl NextNumber {
    /// Whether a number may come next, apart from a reset.
    fn follows(&self, number: u16) -> bool {
        (self.least..=self.most).contains(&number.wrapping_sub(self.number))
    }

    fn may_reset(&mut self) {
        self.since_reset = Some(0);
    }

    fn unseen(&mut self, surely: bool) {
        self.most = self.most.saturating_add(1);
        self.least += u16::from(surely);
        self.since_reset = self.since_reset.map(|most| most.saturating_add(1));
    }

    fn seen(&mut self, number: u16) -> Result<(), String> {
        let in_line = self.follows(number);
        let since_reset = self.since_reset.is_some_and(|most| number <= most);
        let expected = format!(
            "the next is {} to {}",
            self.number.wrapping_add(self.least),
            self.number.wrapping_add(self.most)
        );
        // In any case, the next number follows it.
        *self = Self { number: number.wrapping_add(1), begun: true, ..Self::default() };
        if in_line || since_reset { Ok(()) } else { Err(expected) }
    }
}
