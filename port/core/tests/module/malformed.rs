//! Messages that make no sense.

use std::time::{Duration, Instant};

use onbeat_wire::random::Random;

use super::*;
use crate::genl::{ACK, DUMP, Family, attribute};

const FUZZED: Duration = Duration::from_secs(5);
const ATTACH: u8 = 1;
const LAST_COMMAND: u8 = 13;
const LAST_ATTRIBUTE: u16 = 19;

/// A value of a size that some attribute has, small numbers more often than others.
fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(6) {
        0 => return (random.below(5) as u32).to_ne_bytes().to_vec(),
        1 => return random.below(5).to_ne_bytes().to_vec(),
        2 => return (100_000 + random.below(1 << 40)).to_ne_bytes().to_vec(),
        3 => 60,
        4 => random.below(40),
        _ => random.below(2_000),
    };
    (0..len).map(|_| random.below(256) as u8).collect()
}

#[test]
fn any_message_is_taken_or_refused() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let index = cable.near.index("p0").unwrap();
    let family = Family::open(cable.near.namespace());
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let (mut taken, mut refused) = (0_u64, 0_u64);
    let end = Instant::now() + FUZZED;
    while Instant::now() < end {
        let mut attributes = attribute(2, &index.to_ne_bytes());
        for _ in 0..random.below(6) {
            let kind = 1 + random.below(u64::from(LAST_ATTRIBUTE) + 2) as u16;
            attributes.extend(attribute(kind, &value(&mut random)));
        }
        if random.one_in(4) {
            let place = random.below(attributes.len() as u64) as usize;
            attributes[place] ^= 1 << random.below(8);
        }
        if random.one_in(8) {
            attributes.truncate(random.below(attributes.len() as u64) as usize);
        }
        // Now and then something sensible, so that there is something to meet.
        let command = match random.below(20) {
            0 => ATTACH,
            _ => random.below(u64::from(LAST_COMMAND) + 3) as u8,
        };
        let flags = if random.one_in(10) { DUMP } else { ACK };
        match family.ask(flags, command, &attributes).errno {
            0 => taken += 1,
            _ => refused += 1,
        }
    }
    eprintln!("{taken} messages were taken, {refused} refused");
    assert!(taken > 0 && refused > taken);
    drop(family);
    open(&cable, options(TransmitMethod::Direct));
}

#[test]
fn unknown_attributes_are_refused() {
    let Some(_module) = module() else { return };
    let cable = Cable::new();
    let interface = attribute(2, &cable.near.index("p0").unwrap().to_ne_bytes());
    let family = Family::open(cable.near.namespace());
    assert_eq!(family.ask(ACK, ATTACH, &interface).errno, 0);
    let number = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
    for (command, rest, errno) in [
        // A slot that there is not; that there cannot be.
        (7, number(9, 3), libc::ENOENT),
        (7, number(9, 65_536), libc::ERANGE),
        // A frame is no part of sending; it is one of setting.
        (7, [number(9, 3), attribute(11, &[0; 60])].concat(), libc::EINVAL),
        (4, number(9, 3), libc::EINVAL),
        (4, [number(9, 3), attribute(11, &[0; 13])].concat(), libc::ERANGE),
        (4, [number(9, 3), attribute(11, &[0; 1515])].concat(), libc::EMSGSIZE),
        (4, [number(9, 3), attribute(11, &[0; 1514])].concat(), 0),
        // A mask of another length, or that means everything.
        (
            10,
            [number(9, 3), attribute(14, &[0; 8]), attribute(15, &[1; 4]), attribute(16, &[1; 3])]
                .concat(),
            libc::EINVAL,
        ),
        (
            10,
            [number(9, 3), attribute(14, &[0; 8]), attribute(15, &[1; 4]), attribute(16, &[0; 4])]
                .concat(),
            libc::EINVAL,
        ),
        (
            10,
            [number(9, 3), attribute(14, &[0; 8]), attribute(15, &[1; 4]), attribute(16, &[1; 4])]
                .concat(),
            0,
        ),
        (
            10,
            [number(9, 3), attribute(14, &[0; 8]), attribute(15, &[1; 4]), attribute(16, &[1; 4])]
                .concat(),
            libc::EEXIST,
        ),
        (5, number(9, 3), libc::EBUSY),
        (11, attribute(14, &[1; 8]), libc::ENOENT),
        (11, attribute(14, &[0; 8]), 0),
        (5, number(9, 3), 0),
        // Half an address.
        (12, attribute(17, &[1; 9]), libc::EINVAL),
        // Confirmations are the kernel's to send, and other commands nobody's.
        (13, Vec::new(), libc::EOPNOTSUPP),
        (14, Vec::new(), libc::EOPNOTSUPP),
        (ATTACH, Vec::new(), libc::EBUSY),
    ] {
        let reply = family.ask(ACK, command, &[&interface[..], &rest].concat());
        assert_eq!(reply.errno, errno, "command {command}, {rest:?}");
    }
    for (kind, value, errno) in [(3, 3, libc::ERANGE), (4, 0, libc::EINVAL), (5, 4, libc::EINVAL)] {
        let attributes = [interface.clone(), number(kind, value)].concat();
        assert_eq!(family.ask(ACK, ATTACH, &attributes).errno, errno, "attribute {kind}");
    }
}
