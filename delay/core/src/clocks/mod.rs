//! Clock comparison: skew, steps and offset of two clocks, estimated from delays.
//!
//! A delay between two clocks is the true delay plus the clock difference. No packet is faster than the fastest
//! one, so that the lower envelope of the delays over time shows the clocks: a rate difference tilts it, a clock
//! step shifts it. The envelope is the lower convex hull (Moon, Skelly, Towsley 1999; Zhang, Liu, Xia 2002).
//!
//! A path whose fastest packet becomes slower resembles a step. If it returns, it is reported as a queue; otherwise
//! as a step: no measurement in one direction can distinguish them. Delays of the other direction can: a clock changes
//! both directions, in opposite senses.

mod envelope;
mod hull;
mod offset;
mod two_way;

pub use envelope::{Clocks, Envelope, Segment, StandingQueue, Step, StepCause};
pub use hull::{Hull, Line, Point};
pub use offset::{Offset, offset};
pub use two_way::{Offsets, Span, TwoWay};
