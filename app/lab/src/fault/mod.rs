//! Injected faults: links that are cut ([`crate::World::cut`]), and wires that lose, delay, duplicate
//! and reorder frames.

mod impair;
mod line;
mod wire;

pub use impair::{FrameFate, Impairment, ImpairmentModel, MAX_HELD};
pub(crate) use wire::prefer_this_thread;
pub use wire::{Direction, Wire, WireCounters};
