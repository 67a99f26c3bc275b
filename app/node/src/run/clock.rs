//! The clock of recovery and latent error detection.

use nix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, which the BPF programs read as well.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
