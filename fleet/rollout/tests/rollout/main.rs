//! Roll-outs: all interleavings of small fleets, and fleets in virtual time.
mod explore;
mod machines;
mod network;
mod plane;
mod simulation;
mod stages;
