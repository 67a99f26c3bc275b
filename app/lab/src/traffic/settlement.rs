//! End of a measurement: all frames are sent, and have arrived or are lost.

use std::time::Duration;

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::{pause_until, wait_until};

use super::delivery::Delivery;
use super::sink::Sink;
use super::source::{Source, SourceReport};
use crate::{Error, Result};

/// Delivery of a stream, with the properties of its frames.
#[derive(Debug)]
pub(crate) struct SettledStream {
    pub(crate) delivery: Delivery,
    /// Frames that arrived with a difference: octets, VLAN tag, or a remaining sequence tag.
    pub(crate) changed: u64,
}

/// Waits until a source has sent all its frames, with `planned_ns` as the expected time; `tick` is
/// called periodically.
pub(crate) fn sent_all(
    source: Source,
    planned_ns: u64,
    mut tick: impl FnMut(),
) -> Result<SourceReport> {
    /// Interval between two checks.
    const LOOK_NS: u64 = 20_000_000;
    // A source that gets less than a quarter of the required CPU time is no measurement.
    let bound_ns = 4 * planned_ns + 5 * SECOND;
    let begun = now_ns();
    while !source.is_finished() {
        let now = now_ns();
        if now - begun > bound_ns {
            return Err(Error::Invalid(format!(
                "the source did not get enough CPU time to send its frames within {} s",
                bound_ns / SECOND
            )));
        }
        pause_until(now + LOOK_NS, &mut tick)?;
    }
    source.stop()
}

/// Waits until no frame of a stream is in flight, and evaluates.
pub(crate) fn settle(sent: SourceReport, sink: Sink) -> Result<SettledStream> {
    /// Time without arrivals after which no frame is in flight. Frames wait for a CPU no longer than
    /// other threads.
    const QUIET_NS: u64 = SECOND / 2;
    const BOUND: Duration = Duration::from_secs(30);
    let (mut delivered, mut since) = (0, now_ns());
    wait_until(BOUND, || {
        let now = sink.delivered(sent.stream);
        if now != delivered {
            (delivered, since) = (now, now_ns());
        }
        sink.complete_below(sent.stream) >= sent.sent || now_ns() - since > QUIET_NS
    })?;
    let mut report = sink.stop()?;
    let record = report.take(sent.stream)?;
    let changed = report.corrupted + record.wrong_vlan + record.sequence_tagged;
    Ok(SettledStream { delivery: Delivery::new(sent, record), changed })
}
