//! SoC jitter: deviation of the interval between SoC from the cycle length (EPSG DS 301, 4.7; 0x1C0E, 0x1C13).

use super::ControlledNode;
use crate::code;
use crate::dll::Counter;
use crate::nmt;
use crate::od::profile;

impl ControlledNode {
    /// Handles a SoC. It is checked if the previous one was received as well and the cycle length is known.
    pub(super) fn soc_jitter(&mut self, now_ns: u64) {
        let cycle_ns = self.od.number(profile::CYCLE_LENGTH_US) * 1000;
        let last_ns = if self.state.is_cyclic() { self.soc_ns.replace(now_ns) } else { None };
        let Some(last_ns) = last_ns.filter(|_| cycle_ns != 0) else { return };
        let jitter_ns = now_ns.saturating_sub(last_ns).abs_diff(cycle_ns);
        let counter = Counter::record(profile::SOC_JITTER);
        if jitter_ns <= self.od.number(profile::SOC_JITTER_RANGE_NS) {
            counter.good(&mut self.od);
        } else if counter.error(&mut self.od) {
            self.communication_error(code::JITTER);
            self.nmt(now_ns, nmt::Event::ErrorCondition);
        }
    }
}
