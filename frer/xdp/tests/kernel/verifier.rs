//! Verification cost of the programs: a kernel refuses more than a million instructions, and a new compiler
//! must stay well below that.

use std::os::fd::AsFd;

use onbeat_bpf::ProgramInfo;

use crate::harness::{Node, can_run};

/// Maximum on each kernel of the suite `frer-verifier` of tests/vm. Linux 6.1 verifies twice as many as 6.18.
const MOST: u32 = 200_000;

fn verified_instructions(program: &impl AsFd) -> u32 {
    ProgramInfo::of(program.as_fd()).unwrap().verified_instructions
}

#[test]
fn programs_stay_below_the_verification_limit() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(1, 16);
    node.plane.load_all_features().unwrap();
    let (ingress, egress) = node.plane.programs(&node.names[0]).unwrap();
    let control = node.plane.control_program();
    let programs = [
        ("ingress", verified_instructions(&ingress)),
        ("egress", verified_instructions(&egress)),
        ("control", verified_instructions(&control)),
    ];
    eprintln!("instructions verified: {programs:?}");
    for (name, instructions) in programs {
        assert!((1..MOST).contains(&instructions), "{name}: {instructions}");
    }
}
