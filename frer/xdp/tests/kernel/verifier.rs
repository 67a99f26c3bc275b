//! Verification cost of the programs: a kernel refuses more than a million instructions, and a new compiler
//! must stay well below that.

use std::os::fd::AsFd;

use onbeat_bpf::ProgramInfo;
use onbeat_frer_xdp::{Options, UnattachedLanPrograms};

use crate::harness::{Node, can_run};
use crate::{prp, wildcard};

/// Maximum on each kernel of the suite `frer-verifier` of tests/vm. Linux 6.1 verifies twice as many as 6.18.
const MOST: u32 = 200_000;

/// Maximum of the programs of a link redundancy entity or of wildcards, which include those of streams.
const MOST_REDUNDANCY: u32 = 300_000;

const WILDCARDS: &str = "wildcards";

fn verified_instructions(program: &impl AsFd) -> u32 {
    ProgramInfo::of(program.as_fd()).unwrap().verified_instructions
}

/// Programs of ports of a node, of a link redundancy entity and of the network stacks of its interfaces.
#[test]
fn programs_stay_below_the_verification_limit() {
    if !can_run() {
        return;
    }
    let options =
        Options { directory: None, max_streams: 16, test_clock: true, count_output: false };
    let mut node = Node::open(4, &options);
    node.plane.load_all_features().unwrap();
    let parameters = prp::parameters(16);
    node.plane.set_lre(&node.names, Some(&parameters)).unwrap();
    let (ingress, egress) = node.plane.programs(&node.names[3]).unwrap();
    let control = node.plane.control_program();
    let mut programs = vec![
        ("ingress", verified_instructions(&ingress)),
        ("egress", verified_instructions(&egress)),
        ("control", verified_instructions(&control)),
    ];
    let roles = ["LAN A", "LAN B", "host"];
    for (name, role) in node.names.iter().zip(roles) {
        let (ingress, _) = node.plane.programs(name).unwrap();
        programs.push((role, verified_instructions(&ingress)));
    }
    let lan_b = node.plane.lan_b_program(&node.names[1]).unwrap();
    programs.push(("copies for LAN B", verified_instructions(&lan_b)));
    node.plane.set_lre(&node.names, None).unwrap();
    node.plane.set_wildcards(&node.names, &[wildcard::all(16)]).unwrap();
    let (ingress, _) = node.plane.programs(&node.names[0]).unwrap();
    programs.push((WILDCARDS, verified_instructions(&ingress)));
    let of_stacks = UnattachedLanPrograms::load(1, [1, 1]).unwrap();
    for name in ["prp_shield", "prp_share", "prp_copies"] {
        programs.push((name, verified_instructions(&of_stacks.program(name))));
    }
    eprintln!("instructions verified: {programs:?}");
    for (name, instructions) in programs {
        let most = if [&roles[..], &[WILDCARDS]].concat().contains(&name) {
            MOST_REDUNDANCY
        } else {
            MOST
        };
        assert!((1..most).contains(&instructions), "{name}: {instructions}");
    }
}
