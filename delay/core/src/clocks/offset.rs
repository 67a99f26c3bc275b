//! The offset of two clocks, from delays in both directions.

use super::hull::Line;

/// An offset with its error bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// The offset of the remote clock ahead of the local one, in nanoseconds.
    pub offset_ns: f64,
    /// The error bound of the offset, in nanoseconds, whatever the path does: the true one-way delays of the
    /// fastest packets add up to their round trip.
    pub bound_ns: f64,
}

/// Returns the offset at a time, from the lower envelopes of the delays to the remote host and back.
///
/// The offset assumes that the fastest packets took equally long in both directions; the bound does not. If the
/// lines cross, so that the round trip would be negative, they are not envelopes of the same time, and there is no
/// offset.
pub fn offset(there: &Line, back: &Line, time_ns: i64) -> Option<Offset> {
    let (there, back) = (there.at(time_ns), back.at(time_ns));
    let bound_ns = (there + back) / 2.0;
    (bound_ns >= 0.0).then_some(Offset { offset_ns: (there - back) / 2.0, bound_ns })
}

impl Offset {
    /// Converts a one-way delay in nanoseconds, measured from local to remote by the two clocks, to one clock;
    /// `None` if the error bound of the offset exceeds the delay.
    pub fn one_way(&self, measured_ns: f64) -> Option<f64> {
        let delay = measured_ns - self.offset_ns;
        (delay >= self.bound_ns).then_some(delay)
    }
}
