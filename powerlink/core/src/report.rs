//! Reports of frames that a sender may repeat thousands of times per second.

const INTERVAL_NS: u64 = 1_000_000_000;

/// Admits one report per second.
#[derive(Debug, Default)]
pub(crate) struct ReportInterval {
    last_ns: Option<u64>,
}

impl ReportInterval {
    /// Whether a report is due; the next one is then due a second later.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.last_ns.is_none_or(|last_ns| now_ns >= last_ns + INTERVAL_NS);
        if is_due {
            self.last_ns = Some(now_ns);
        }
        is_due
    }
}
