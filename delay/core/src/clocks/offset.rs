//! What two clocks differ by, from delays in both directions.

use super::hull::Line;

/// An offset and what it may be off by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// How far the remote clock is ahead of the local one, in nanoseconds.
    pub offset_ns: f64,
    /// The offset is right to this, in nanoseconds, whatever the path does: the true one-way
    /// delays of the fastest packets can only share the round trip between them.
    pub bound_ns: f64,
}

/// The offset at a time, from the lower edges of the delays there (local to remote) and back.
///
/// The offset assumes that the fastest packets took as long in both directions; the bound does
/// not. Where the lines cross, so that the round trip would be negative, they are no edges of the
/// same time, and there is no offset.
pub fn offset(there: &Line, back: &Line, time_ns: i64) -> Option<Offset> {
    let (there, back) = (there.at(time_ns), back.at(time_ns));
    let bound_ns = (there + back) / 2.0;
    (bound_ns >= 0.0).then_some(Offset { offset_ns: (there - back) / 2.0, bound_ns })
}

impl Offset {
    /// A one-way delay in nanoseconds, measured from local to remote as the clocks have it, made
    /// one of one clock; `None` where what the offset may be off by is more than the delay itself.
    pub fn one_way(&self, measured_ns: f64) -> Option<f64> {
        let delay = measured_ns - self.offset_ns;
        (delay >= self.bound_ns).then_some(delay)
    }
}
