//! The programs in the kernel, called by BPF_PROG_TEST_RUN, against the vectors and against
//! `onbeat_frer` and `onbeat_wire`. Needs root.
//!
//! A test run executes the program on one frame and tells verdict and frame; frames that the
//! program redirects go nowhere. The kernel refuses to run on fewer than 14 octets.

mod cpus;
mod differential;
mod frames;
mod harness;
mod identify_vectors;
mod recover_vectors;
mod restart;
mod scale;
mod steering;
mod verifier;

#[allow(dead_code, reason = "not every runner looks at every field")]
#[path = "../../../core/tests/frer/common/identify.rs"]
mod identify_cases;
#[path = "../common/mixed.rs"]
mod mixed;
#[allow(dead_code, reason = "not every runner looks at every field")]
#[path = "../../../core/tests/frer/common/recover.rs"]
mod recover_cases;
