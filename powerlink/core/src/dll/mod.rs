//! The data link layer: the cycle, losses and their error counters (EPSG DS 301, 4).

mod counter;
mod cycle;
mod multiplex;

pub use counter::Counter;
pub use cycle::{Cycle, CycleEvent, Losses};
pub use multiplex::Multiplex;
