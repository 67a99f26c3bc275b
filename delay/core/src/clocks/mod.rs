//! Two clocks made one: skew, steps and offset from the delays themselves.
//!
//! A delay between two clocks is the true delay plus what the clocks differ by. No packet is
//! faster than the fastest, so that what clocks do shows in the lower edge of the delays over
//! time: a clock that is fast by a constant tilts it, a clock that is set shifts it. The edge is
//! the lower convex hull (Moon, Skelly, Towsley 1999; Zhang, Liu, Xia 2002).
//!
//! A path whose fastest packet becomes slower looks like a step, and is reported as one: no
//! measurement in one direction can tell them apart.

mod envelope;
mod hull;
mod offset;
mod two_way;

pub use envelope::{Clocks, Envelope, Segment};
pub use hull::{Hull, Line, Point};
pub use offset::{Offset, offset};
pub use two_way::{Offsets, Span, TwoWay};
