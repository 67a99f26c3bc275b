//! Networks on the simulated bus.

mod basic_ethernet;
mod boot;
mod checker;
mod management;
mod multiplexed;
mod soak;
mod status;
mod store;
