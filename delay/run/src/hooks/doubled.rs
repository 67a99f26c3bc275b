//! The delay that the hooks add to packets: a second copy of their programs is switched on and off on the same traffic.

use onbeat_delay::inflation::{AddedDelay, Inflation};
use onbeat_hooks::{Hop, Packet, Tracer};
use onbeat_report::format::count;
use onbeat_report::{Cell, Counters, Outcome};

use crate::error::Result;

/// The copy runs for a tenth of the time, and its delays are compared with those of the same time before.
const WINDOW_NS: u64 = 100_000_000;
const EVERY_NS: u64 = 1_000_000_000;
/// Time from the start to the first window.
const FIRST_NS: u64 = 500_000_000;

/// A window in which the copy is attached.
#[derive(Debug, Clone, Copy)]
struct Window {
    attached_ns: u64,
    on_ns: u64,
    /// `u64::MAX` until then.
    off_ns: u64,
    detached_ns: u64,
}

/// The second copy of the programs.
pub(super) struct DoubledHooks {
    copy: Tracer,
    next_ns: u64,
    windows: Vec<Window>,
    inflation: Inflation,
    /// The number of the window that the current pair of periods ends with.
    pair: usize,
    /// Packets that left while the copy was attached.
    excluded: u64,
    confidence: f64,
}

impl DoubledHooks {
    pub(super) fn load(hop: &Hop, confidence: f64) -> Result<Self> {
        let mut copy = Tracer::start(hop)?;
        copy.pause()?;
        let inflation = Inflation::default();
        Ok(Self {
            copy,
            next_ns: 0,
            windows: Vec::new(),
            inflation,
            pair: 0,
            excluded: 0,
            confidence,
        })
    }

    /// Starts or stops the copy when it is time. `clock` reads the time of packets.
    pub(super) fn watch(&mut self, clock: impl Fn() -> u64) -> Result<()> {
        let now_ns = clock();
        if self.next_ns == 0 {
            self.next_ns = now_ns + FIRST_NS;
        }
        match self.windows.last_mut().filter(|window| window.detached_ns == u64::MAX) {
            Some(window) => {
                // The reports of the copy have a reader as those of the other one.
                self.copy.take()?;
                if now_ns >= window.on_ns + WINDOW_NS {
                    window.off_ns = now_ns;
                    self.copy.pause()?;
                    self.copy.take()?;
                    window.detached_ns = clock();
                }
            }
            None if now_ns >= self.next_ns => {
                self.next_ns = now_ns + EVERY_NS;
                self.copy.resume()?;
                let (on_ns, off_ns, detached_ns) = (clock(), u64::MAX, u64::MAX);
                self.windows.push(Window { attached_ns: now_ns, on_ns, off_ns, detached_ns });
            }
            None => {}
        }
        Ok(())
    }

    /// Records a packet that left. Returns true if its delay is longer than without the copy.
    pub(super) fn is_doubled(&mut self, packet: &Packet) -> bool {
        let (begin_ns, delay_ns) = (packet.begin_ns, u64::from(packet.total_ns));
        let after = self.windows.partition_point(|window| window.attached_ns <= begin_ns);
        if self.windows.get(after).is_some_and(|next| next.attached_ns - begin_ns <= WINDOW_NS) {
            // The first packet before a window ends the pair of the previous one.
            if std::mem::replace(&mut self.pair, after) < after {
                self.inflation.end_pair();
            }
            self.inflation.record_single(delay_ns);
        }
        let window = self.windows[..after].last().filter(|window| begin_ns < window.detached_ns);
        if window.is_some_and(|window| (window.on_ns..window.off_ns).contains(&begin_ns)) {
            self.inflation.record_doubled(delay_ns);
        }
        self.excluded += u64::from(window.is_some());
        window.is_some()
    }

    /// The number of packets that left and are not among the delays.
    pub(super) fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Ends the last pair of periods.
    pub(super) fn finish(&mut self) {
        self.inflation.end_pair();
    }

    pub(super) fn inflation(&self) -> &Inflation {
        &self.inflation
    }

    pub(super) fn fill(&self, outcome: &mut Outcome) {
        if self.inflation.doubled() == 0 {
            return;
        }
        let mut table = Counters::new([
            ("", ""),
            ("added", "ns"),
            ("lower bound", "ns"),
            ("upper bound", "ns"),
        ]);
        let percentile = |share| self.inflation.at(share, self.confidence);
        for (name, added) in [
            ("mean", self.inflation.of_mean(self.confidence)),
            ("p50", percentile(0.5)),
            ("p90", percentile(0.9)),
            ("p99", percentile(0.99)),
        ] {
            let Some(AddedDelay { value_ns, lower_ns, upper_ns }) = added else { continue };
            table.row([Cell::from(name), value_ns.into(), lower_ns.into(), upper_ns.into()]);
        }
        let doubled = count(self.excluded, "packet");
        if table.rows.is_empty() {
            outcome.note(format!(
                "the delay that the hooks add is unknown: only {doubled} left while a second copy of the programs ran; \
                 measure for longer"
            ));
            return;
        }
        outcome.figure("delay added by the hooks", table);
        outcome.note(format!(
            "corrected: without the delay that the hooks add, by a second copy of the programs that ran for a tenth of \
             the time; its {doubled} are not among the delays"
        ));
    }
}
