//! Computes delays and intervals from recorded events. Pure.

use std::collections::VecDeque;

/// Kind of a recorded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Soc,
    Preq,
    Pres,
}

/// A frame on the wire, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireEvent {
    pub(super) at_ns: u64,
    pub(super) kind: FrameKind,
}

impl WireEvent {
    /// Decodes an event of the program (bpf/powerlink.bpf.c); `None`: an empty entry.
    pub(super) fn of(written: u64) -> Option<Self> {
        const SHIFT: u32 = 62;
        let kind = match written >> SHIFT {
            1 => FrameKind::Soc,
            2 => FrameKind::Preq,
            3 => FrameKind::Pres,
            _ => return None,
        };
        Some(WireEvent { at_ns: written & ((1 << SHIFT) - 1), kind })
    }
}

/// Values computed from a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TraceFigures {
    /// Response times from poll to response.
    pub(super) delays_ns: Vec<u64>,
    /// Polls without a response.
    pub(super) unanswered: u64,
    /// Polls whose response came after the next poll.
    pub(super) late: u64,
    /// Responses without a poll, such as a second response to one.
    pub(super) unasked: u64,
    /// Absolute deviation of each cycle from its length.
    pub(super) jitter_ns: Vec<u64>,
    /// Number of SoC.
    pub(super) cycles: u64,
    /// Instants of the cycle without a SoC.
    pub(super) missed: u64,
}

impl TraceFigures {
    /// Evaluates the events of both ends, in any order. The n-th response belongs to the n-th poll:
    /// nodes respond to each poll once, and a wire without losses keeps the order.
    pub(super) fn of(mut events: Vec<WireEvent>, period_ns: u64) -> Self {
        events.sort_by_key(|event| event.at_ns);
        let mut taken = TraceFigures::default();
        let (mut asked, mut soc) = (VecDeque::new(), None);
        // A response to a poll before the start of the trace.
        let mut begun = false;
        for WireEvent { at_ns, kind } in events {
            match kind {
                FrameKind::Soc => {
                    taken.cycles += 1;
                    if let Some(before) = soc.replace(at_ns) {
                        taken.interval(at_ns - before, period_ns);
                    }
                }
                FrameKind::Preq => {
                    begun = true;
                    asked.push_back(at_ns);
                }
                FrameKind::Pres => match asked.pop_front() {
                    Some(poll) => {
                        taken.delays_ns.push(at_ns - poll);
                        taken.late += u64::from(!asked.is_empty());
                    }
                    None => taken.unasked += u64::from(begun),
                },
            }
        }
        // The response to the last poll may follow the end of the trace.
        taken.unanswered = (asked.len() as u64).saturating_sub(1);
        taken
    }

    /// Adds the interval between two SoC. Intervals over a missed SoC are left out.
    fn interval(&mut self, interval_ns: u64, period_ns: u64) {
        let periods = ((interval_ns + period_ns / 2) / period_ns).max(1);
        self.missed += periods - 1;
        if periods == 1 {
            self.jitter_ns.push(interval_ns.abs_diff(period_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FrameKind::{Preq, Pres, Soc};

    fn trace(events: &[(u64, FrameKind)]) -> TraceFigures {
        let events = events.iter().map(|&(at_ns, kind)| WireEvent { at_ns, kind }).collect();
        TraceFigures::of(events, 100)
    }

    #[test]
    fn events_are_decoded() {
        assert_eq!(WireEvent::of(1 << 62 | 5), Some(WireEvent { at_ns: 5, kind: Soc }));
        assert_eq!(WireEvent::of(u64::MAX).map(|event| event.kind), Some(Pres));
        assert_eq!(WireEvent::of(0), None);
        assert_eq!(WireEvent::of(77), None);
    }

    #[test]
    fn a_late_response_is_matched_to_its_poll() {
        let taken = trace(&[(5, Pres), (10, Preq), (30, Pres), (110, Preq)]);
        assert_eq!((taken.delays_ns, taken.late, taken.unasked), (vec![20], 0, 0));
        // A node that stopped for two cycles.
        let taken = trace(&[(10, Preq), (110, Preq), (210, Preq), (225, Pres), (226, Pres)]);
        assert_eq!((taken.delays_ns, taken.late, taken.unanswered), (vec![215, 116], 2, 0));
        let taken = trace(&[(10, Preq), (30, Pres), (35, Pres), (110, Preq), (210, Preq)]);
        assert_eq!((taken.delays_ns, taken.unasked, taken.unanswered), (vec![20], 1, 1));
    }

    #[test]
    fn missed_cycles_are_counted_and_left_out() {
        let taken = trace(&[(0, Soc), (103, Soc), (198, Soc), (505, Soc), (600, Soc)]);
        assert_eq!((taken.jitter_ns, taken.missed, taken.cycles), (vec![3, 5, 5], 2, 5));
    }

    #[test]
    fn events_may_be_in_any_order() {
        let taken = trace(&[(30, Pres), (100, Soc), (0, Soc), (10, Preq)]);
        assert_eq!((taken.delays_ns, taken.jitter_ns), (vec![20], vec![0]));
        assert_eq!(trace(&[]), TraceFigures::default());
    }
}
