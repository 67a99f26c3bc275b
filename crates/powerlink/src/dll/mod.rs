//! The data link layer: the cycle, what is lost in it, and what losses lead to (EPSG DS 301, 4).

mod counter;
mod cycle;

pub use counter::Counter;
pub use cycle::{Cycle, CycleEvent, Losses};
