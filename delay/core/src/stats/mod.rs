//! What many delays come to: distributions that merge, percentiles with the interval they are in,
//! variation from packet to packet.

mod distribution;
pub mod interval;
pub(crate) mod special;
mod variation;

pub use distribution::{Distribution, MAX_DELAY_NS, Percentile, RELATIVE_ERROR};
pub use variation::Variation;
