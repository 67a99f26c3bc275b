//! Statistics of delays: distributions, percentiles and means with confidence intervals, variation from packet to
//! packet.

mod batches;
mod buckets;
mod distribution;
pub(crate) mod distributions;
mod histogram;
pub mod interval;
mod variation;

pub use distribution::{
    Distribution, MAX_DELAY_NS, Mean, Percentile, Percentiles, RELATIVE_ERROR, StampError,
};
pub use histogram::Histogram;
pub use variation::Variation;
