//! Roll-outs: all interleavings of small fleets, stages of real node files, fleets in virtual time.
mod explore;
