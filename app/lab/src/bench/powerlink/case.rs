//! The result of one row at one period under one load, over all rounds.

use onbeat_powerlink_node::Counts;

use super::row::RowRecord;
use super::trace::TraceFigures;
use crate::bench::cyclic::{self, CycleCase, Load, Values};

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// From PReq on the wire to PRes on the wire.
    Response,
    /// Deviation of the interval between two SoC on the wire from the cycle.
    Jitter,
}

impl Quantity {
    pub(super) const ALL: [Quantity; 2] = [Quantity::Response, Quantity::Jitter];
}

impl cyclic::Quantity for Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Response => "PReq to PRes",
            Quantity::Jitter => "SoC jitter",
        }
    }
}

/// The result of one row at one period under one load.
#[derive(Debug, Default)]
pub(super) struct PowerlinkCase {
    pub(super) backend: &'static str,
    pub(super) period_us: u32,
    pub(super) load: Load,
    /// Values by quantity.
    pub(super) values: [Values; 2],
    /// Planned cycles, and those seen on the wire.
    pub(super) wanted: u64,
    pub(super) cycles: u64,
    pub(super) missed: u64,
    pub(super) unanswered: u64,
    /// Responses that arrived after the next poll.
    pub(super) late: u64,
    pub(super) unasked: u64,
    /// Events that did not fit in the record, and foreign frames.
    pub(super) lost: u64,
    pub(super) foreign: u64,
    /// Counters of the managing and the controlled node, including the cycles before the measured ones.
    pub(super) launched: u64,
    pub(super) answered: u64,
    pub(super) responses: u64,
}

impl PowerlinkCase {
    pub(super) fn new(backend: &'static str, period_us: u32, load: Load) -> Self {
        PowerlinkCase { backend, period_us, load, ..Self::default() }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, wanted: u64, round: &RowRecord) {
        let RowRecord { taken, lost, foreign, counts: [mn, cn] } = round;
        self.wanted += wanted;
        self.lost += lost;
        self.foreign += foreign;
        self.launched += mn.launched;
        let Counts { answered, responses, .. } = cn;
        self.answered += answered;
        self.responses += responses;
        let TraceFigures { delays_ns, unanswered, late, unasked, jitter_ns, cycles, missed } =
            taken;
        self.cycles += cycles;
        self.missed += missed;
        self.unanswered += unanswered;
        self.late += late;
        self.unasked += unasked;
        let [response, jitter] = &mut self.values;
        response.lose(self.backend, *unanswered);
        response.add(self.backend, delays_ns.clone());
        jitter.add(self.backend, jitter_ns.clone());
    }
}

impl CycleCase for PowerlinkCase {
    type Quantity = Quantity;

    fn backend(&self) -> &'static str {
        self.backend
    }

    fn condition(&self) -> (u64, Load) {
        (u64::from(self.period_us) * 1000, self.load)
    }

    fn values(&self, quantity: Quantity) -> &Values {
        &self.values[quantity as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up() {
        let mut case = PowerlinkCase::new("packet", 1000, Load::Idle);
        let taken = TraceFigures {
            delays_ns: vec![30, 10, 20],
            unanswered: 1,
            late: 1,
            jitter_ns: vec![7, 5],
            cycles: 4,
            missed: 1,
            unasked: 0,
        };
        let counts = [Counts::default(), Counts { answered: 2, responses: 1, ..Counts::default() }];
        let round = RowRecord { taken, lost: 0, foreign: 3, counts };
        case.add(3, &round);
        case.add(3, &round);
        assert_eq!((case.wanted, case.cycles, case.missed, case.foreign), (6, 8, 2, 6));
        assert_eq!((case.answered, case.responses, case.unanswered), (4, 2, 2));
        assert_eq!(case.values[0].rounds, [[20.0, 30.0]; 2]);
        let figure = case.values[0].pooled.figure();
        assert_eq!((figure.series[0].count, figure.series[0].lost), (6, 2));
        assert_eq!(case.values[1].pooled.figure().series[0].max, Some(7));
    }
}
