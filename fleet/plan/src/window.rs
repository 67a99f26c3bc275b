//! History length and reset timeout of recovery from the delays of paths.

use onbeat_frer::spec::MAX_HISTORY;

use crate::delay::DelayRange;

/// Shortest history that is written: longer ones up to it cost nothing.
pub const MIN_HISTORY: u16 = 64;

/// Time by which a reset timeout exceeds the delay difference: timers and queues of the receiving node, in milliseconds.
pub const TIMEOUT_MARGIN_MS: u64 = 40;

/// Parameters of sequence recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// Numbers in the history.
    pub history_length: u16,
    /// Reset timeout, in milliseconds.
    pub reset_timeout_ms: u32,
}

/// A delay difference during which more frames are sent than a history holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowError {
    /// The required history.
    pub required: u64,
}

impl Window {
    /// Computes the parameters for all paths at which copies arrive, of the old and the new plan: the history is longer than
    /// the frames sent during the delay difference, and the timeout exceeds it and ten intervals.
    ///
    /// # Errors
    /// The history would be longer than 32,768.
    pub fn new<'a>(
        interval_ns: u64,
        ranges: impl IntoIterator<Item = &'a DelayRange>,
    ) -> Result<Self, WindowError> {
        let (shortest, latest) = ranges
            .into_iter()
            .map(|range| (range.shortest_ns, range.latest_copy_ns))
            .reduce(|(low, high), (short, late)| (low.min(short), high.max(late)))
            .unwrap_or_default();
        let difference = latest.saturating_sub(shortest);
        let required = difference / interval_ns + 2;
        let length = required.next_power_of_two().max(u64::from(MIN_HISTORY));
        let history_length = u16::try_from(length).ok().filter(|length| *length <= MAX_HISTORY);
        let history_length = history_length.ok_or(WindowError { required })?;
        let timeout = (difference + 10 * interval_ns).div_ceil(1_000_000) + TIMEOUT_MARGIN_MS;
        let reset_timeout_ms = u32::try_from(timeout).unwrap_or(u32::MAX);
        Ok(Self { history_length, reset_timeout_ms })
    }
}
