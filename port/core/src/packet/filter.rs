//! The filter for frames that the kernel delivers to the ring: a classic BPF program.
//!
//! A NIC's multicast filter is a hash, and passes more than requested; another socket may have made the interface
//! promiscuous. The program is exact.

use libc::{BPF_ABS, BPF_H, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};
use onbeat_wire::{EtherType, MacAddress};

const LOAD_WORD: u16 = (BPF_LD | BPF_W | BPF_ABS) as u16;
const LOAD_HALF: u16 = (BPF_LD | BPF_H | BPF_ABS) as u16;
const EQUAL: u16 = (BPF_JMP | BPF_JEQ | BPF_K) as u16;
const JUMP: u16 = (BPF_JMP | BPF_JA) as u16;
const RETURN: u16 = (BPF_RET | BPF_K) as u16;
/// The whole frame.
const WHOLE: u32 = u32::MAX;

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Returns the program that passes frames of `ether_types` (all if empty) to one of `addresses`. The kernel rejects
/// a frame that is too short for an octet that the program reads.
pub(super) fn program<'a>(
    ether_types: &[EtherType],
    addresses: impl Iterator<Item = &'a MacAddress>,
) -> Vec<sock_filter> {
    let mut program = Vec::new();
    if !ether_types.is_empty() {
        program.push(op(LOAD_HALF, 0, 0, 12));
        for (i, ether_type) in ether_types.iter().enumerate() {
            // Skips the remaining pairs and the return. A conditional jump reaches 255 instructions, this one any
            // number.
            let rest = 2 * (ether_types.len() - 1 - i) as u32 + 1;
            program.push(op(EQUAL, 0, 1, ether_type.0.into()));
            program.push(op(JUMP, 0, 0, rest));
        }
        program.push(op(RETURN, 0, 0, 0));
    }
    for address in addresses {
        let [a, b, c, d, e, f] = address.0;
        program.extend([
            op(LOAD_WORD, 0, 0, 2),
            op(EQUAL, 0, 3, u32::from_be_bytes([c, d, e, f])),
            op(LOAD_HALF, 0, 0, 0),
            op(EQUAL, 0, 1, u16::from_be_bytes([a, b]).into()),
            op(RETURN, 0, 0, WHOLE),
        ]);
    }
    program.push(op(RETURN, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Executes the instructions that the program uses, as the kernel does.
    fn run(program: &[sock_filter], frame: &[u8]) -> u32 {
        let (mut pc, mut accumulator) = (0, 0_u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[pc];
            let load = |len: usize| frame.get(k as usize..k as usize + len);
            pc += 1;
            match code {
                RETURN => return k,
                JUMP => pc += k as usize,
                EQUAL => pc += usize::from(if accumulator == k { jt } else { jf }),
                LOAD_WORD | LOAD_HALF => match load(if code == LOAD_WORD { 4 } else { 2 }) {
                    Some(octets) => {
                        accumulator = octets.iter().fold(0, |n, o| n << 8 | u32::from(*o));
                    }
                    None => return 0,
                },
                _ => panic!("code {code:#x} at {}", pc - 1),
            }
        }
    }

    /// From few values, so that addresses and types partly coincide.
    fn octet() -> impl Strategy<Value = u8> {
        prop_oneof![Just(0), Just(1), Just(0x88), any::<u8>()]
    }

    proptest! {
        #[test]
        fn the_program_passes_the_requested_frames_only(
            types in proptest::collection::vec([octet(), octet()], 0..200),
            addresses in proptest::collection::vec(proptest::array::uniform6(octet()), 0..80),
            mut frame in proptest::collection::vec(octet(), 0..80),
            pick in any::<(prop::sample::Index, prop::sample::Index, bool, bool)>(),
        ) {
            let types: Vec<_> =
                types.into_iter().map(|t| EtherType(u16::from_be_bytes(t))).collect();
            let addresses: Vec<_> = addresses.into_iter().map(MacAddress).collect();
            let (address, ether_type, with_address, with_type) = pick;
            if frame.len() >= 14 && with_address && !addresses.is_empty() {
                frame[..6].copy_from_slice(&address.get(&addresses).0);
            }
            if frame.len() >= 14 && with_type && !types.is_empty() {
                frame[12..14].copy_from_slice(&ether_type.get(&types).0.to_be_bytes());
            }
            let type_passes = types.is_empty()
                || frame.get(12..14).is_some_and(|found| {
                    types.iter().any(|t| t.0.to_be_bytes() == found)
                });
            let address_passes = frame
                .get(..6)
                .is_some_and(|found| addresses.iter().any(|a| a.0 == found));
            let passed = run(&program(&types, addresses.iter()), &frame);
            prop_assert_eq!(passed, if type_passes && address_passes { WHOLE } else { 0 });
        }
    }
}
