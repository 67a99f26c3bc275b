//! Order in which frames leave.
//!
//! Frames that arrived by several ports, or that a wire reordered, may leave in another order. Two
//! frames whose copies all arrived by the same port, those of one before those of the other, may not.

use std::collections::HashMap;

use super::element::{Arrival, Departure, Element};
use super::{NodeStream, Rule, Verdict};

/// Number of earlier frames that a late one is compared with.
const LOOK_BACK: usize = 300;

pub(super) fn check(place: NodeStream<'_>, element: &Element, verdict: &mut Verdict) {
    let mut came: HashMap<u64, &[Arrival]> = HashMap::new();
    for (sequence, copies, _) in element.frames() {
        came.insert(sequence, copies);
    }
    let mut by_port: HashMap<usize, Vec<&Departure>> = HashMap::new();
    for out in &element.outs {
        by_port.entry(out.port).or_default().push(out);
    }
    for (port, mut outs) in by_port {
        // In capture order, independent of time stamps.
        outs.sort_by_key(|out| out.sighting.index);
        let mut highest = 0;
        for (turn, late) in outs.iter().enumerate() {
            if late.sequence >= highest {
                highest = late.sequence;
                continue;
            }
            let before = outs[turn.saturating_sub(LOOK_BACK)..turn].iter();
            let overtaker = before.filter(|early| early.sequence > late.sequence).find(|early| {
                let copies = |out: &Departure| came.get(&out.sequence).copied().unwrap_or_default();
                one_way(copies(late), copies(early))
            });
            if let Some(early) = overtaker {
                let text = format!(
                    "frame {} arrived before frame {} by the same port, and left after it",
                    late.sequence, early.sequence
                );
                let frames = vec![late.sighting.index, early.sighting.index];
                verdict.violate(place, Rule::Order, Some(port), late.at, (text, frames));
            }
        }
    }
}

/// Whether all copies of one frame arrived by the port of all copies of the other, before them.
fn one_way(first: &[Arrival], second: &[Arrival]) -> bool {
    let Some(port) = first.first().map(|copy| copy.port) else { return false };
    let one_port = first.iter().chain(second).all(|copy| copy.port == port && copy.sure);
    let end = first.iter().map(|copy| copy.index).max();
    let begin = second.iter().map(|copy| copy.index).min();
    one_port && end < begin
}
