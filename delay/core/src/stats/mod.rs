//! Statistics of delays: mergeable distributions, percentiles with confidence intervals, variation from packet to
//! packet.

mod distribution;
pub(crate) mod distributions;
pub mod interval;
mod variation;

pub use distribution::{Distribution, MAX_DELAY_NS, Percentile, RELATIVE_ERROR};
pub use variation::Variation;
