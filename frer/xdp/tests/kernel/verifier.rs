//! What the programs cost to verify: a kernel refuses more than a million instructions, and a new
//! compiler must not bring us near.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys as sys;

use crate::harness::{Node, can_run};

const MOST: u32 = 250_000;

fn verified_instructions(program: &impl AsFd) -> u32 {
    let mut info = sys::bpf_prog_info::default();
    let mut length = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: the descriptor is open, `info` is as long as `length` says, and any octets are a
    // valid value of it.
    let error = unsafe {
        sys::bpf_obj_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            (&raw mut info).cast(),
            &mut length,
        )
    };
    assert_eq!(error, 0);
    info.verified_insns
}

#[test]
fn programs_are_cheap_to_verify() {
    if !can_run() {
        return;
    }
    let node = Node::new(1, 16);
    let (ingress, egress) = node.plane.programs(&node.names[0]).unwrap();
    let control = node.plane.control_program();
    for (name, instructions) in [
        ("ingress", verified_instructions(&ingress)),
        ("egress", verified_instructions(&egress)),
        ("control", verified_instructions(&control)),
    ] {
        eprintln!("{name}: {instructions} instructions verified");
        assert!((1..MOST).contains(&instructions), "{name}: {instructions}");
    }
}
