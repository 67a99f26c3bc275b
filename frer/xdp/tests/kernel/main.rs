//! The programs in the kernel, run by BPF_PROG_TEST_RUN, compared with the vectors and with `onbeat_frer` and
//! `onbeat_wire`. Requires root.
//!
//! A test run executes the program on one frame and returns verdict and frame; redirected frames are not
//! sent. The kernel refuses frames of fewer than 14 octets.

mod cpus;
mod differential;
mod frames;
mod harness;
mod identify_vectors;
mod output;
mod prp;
mod recover_vectors;
mod restart;
mod scale;
mod steering;
mod verifier;

#[allow(dead_code, reason = "not every runner reads every field")]
#[path = "../../../core/tests/frer/common/identify.rs"]
mod identify_cases;
#[path = "../common/mixed_streams.rs"]
mod mixed_streams;
#[allow(dead_code, reason = "not every runner reads every field")]
#[path = "../../../core/tests/frer/common/recover.rs"]
mod recover_cases;
