//! The programs in the kernel, run by BPF_PROG_TEST_RUN, compared with the vectors and with `onbeat_frer` and
//! `onbeat_wire`. Requires root.
//!
//! A test run executes the program on one frame and returns verdict and frame; redirected frames are not
//! sent. The kernel refuses frames of fewer than 14 octets.

mod cpus;
mod differential;
mod frames;
mod generators;
mod harness;
mod identify_vectors;
mod output;
mod prp;
mod recover_vectors;
mod restart;
mod scale;
mod steering;
mod verifier;
mod wildcard;

#[allow(dead_code, reason = "not every runner reads every field")]
#[path = "../../../core/tests/frer/common/identify.rs"]
mod identify_cases;
#[path = "../common/mixed_streams.rs"]
mod mixed_streams;
#[allow(dead_code, reason = "not every runner reads every field")]
#[path = "../../../core/tests/frer/common/recover.rs"]
mod recover_cases;

/// Returns the number of random frames of a test; `ONBEAT_DIFFERENTIAL_PACKETS` increases it.
fn frame_count(least: u64) -> u64 {
    let asked = std::env::var("ONBEAT_DIFFERENTIAL_PACKETS").ok();
    asked.map_or(0, |text| text.parse().expect("a number of packets")).max(least)
}
