//! The programs between the network stacks of interfaces and the entity, lans.bpf.c.
//!
//! ```text
//!   station --- host [prp_copies]     lan_a [prp_share] --- a      lan_b --- b
//! ```

use std::time::Duration;

use onbeat_frer::prp::Lan;
use onbeat_frer_xdp::UnattachedLanPrograms;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::prp::File;
use onbeat_testing::{Feature, RawSocket, require_all};

use super::{LONGEST, mac, with_trailer};
use crate::harness::{Program, can_run};

const BOUND: Duration = Duration::from_secs(10);

/// Verdicts of tc: the next program decides, or drop.
const UNSPEC: u32 = u32::MAX;
const SHOT: u32 = 2;

const MULTICAST: [u8; 6] = [1, 0, 0x5e, 0, 0, 5];

fn to(destination: [u8; 6], octets: &[u8]) -> Vec<u8> {
    [&destination[..], &octets[6..]].concat()
}

/// Received frames of the vectors: octets, whether there is a trailer.
fn received() -> Vec<(String, Vec<u8>, bool)> {
    let case = |case: onbeat_testing::prp::ReceivedCase| {
        (case.name.clone(), case.frame(), case.expected().is_ok())
    };
    File::read().received.into_iter().map(case).collect()
}

fn is_tagged(octets: &[u8], at: usize) -> bool {
    octets
        .get(at..at + 2)
        .is_some_and(|ethertype| [[0x81, 0], [0x88, 0xa8]].contains(&[ethertype[0], ethertype[1]]))
}

#[test]
fn the_shield_drops_multicast_frames_with_a_trailer() {
    if !can_run() {
        return;
    }
    let programs = UnattachedLanPrograms::load(1, [1, 1]).unwrap();
    let shield = Program::of(&programs.program("prp_shield"));
    let mut dropped = 0;
    for (name, octets, has_trailer) in received() {
        // In a test run the kernel removes no tag: one is as none without it. Nor does it take all lengths.
        if is_tagged(&octets, 12) && is_tagged(&octets, 16)
            || !(15..=LONGEST).contains(&octets.len())
        {
            continue;
        }
        let verdict = |octets: &[u8]| shield.verdict(octets);
        assert_eq!(
            verdict(&to(MULTICAST, &octets)),
            if has_trailer { SHOT } else { UNSPEC },
            "{name}"
        );
        assert_eq!(
            verdict(&to([0xff; 6], &octets)),
            if has_trailer { SHOT } else { UNSPEC },
            "{name}"
        );
        dropped += u32::from(has_trailer);
        // Of one link; unicast.
        for destination in [[1, 0x80, 0xc2, 0, 0, 0], [1, 0x80, 0xc2, 0, 0, 0xf], mac(9).0] {
            assert_eq!(verdict(&to(destination, &octets)), UNSPEC, "{name}");
        }
        assert_eq!(
            verdict(&to([1, 0x80, 0xc2, 0, 0, 0x10], &octets)) == SHOT,
            has_trailer,
            "{name}"
        );
    }
    assert!(dropped > 3);
}

/// The interfaces of the diagram, in the namespace of this thread.
struct Bed {
    handle: Handle,
}

impl Bed {
    fn open() -> Self {
        let handle = Handle::open().expect("a handle");
        let pairs = [["host", "station"], ["lan_a", "a"], ["lan_b", "b"]];
        for [near, far] in pairs {
            handle.create_veth(&VethEnd::new(near), &VethEnd::new(far)).expect("a veth");
            for name in [near, far] {
                handle.set_ipv6(name, false).expect("no IPv6");
                handle.set_up(name).expect("an interface");
            }
        }
        pairs.iter().flatten().for_each(|name| {
            handle.wait_carrier(name, BOUND).expect("carrier");
        });
        Self { handle }
    }

    fn index(&self, name: &str) -> u32 {
        self.handle.index(name).expect("an interface")
    }

    fn programs(&self) -> UnattachedLanPrograms {
        let [host, a, b] = ["host", "lan_a", "lan_b"].map(|name| self.index(name));
        UnattachedLanPrograms::load(host, [a, b]).unwrap()
    }

    fn socket(&self, name: &str) -> RawSocket {
        RawSocket::open(&self.handle, name)
    }
}

fn with_bed(test: impl FnOnce(&Bed) + Send) {
    if require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(6, 6)]) {
        Namespace::new().expect("a namespace").run(|| test(&Bed::open())).expect("a thread");
    }
}

/// With any number of VLAN tags: the stack has removed the first one before.
fn tagged_frames(destination: [u8; 6]) -> Vec<Vec<u8>> {
    let tags: [&[u8]; 4] =
        [&[], &[0x81, 0, 0x20, 5], &[0x88, 0xa8, 0, 9], &[0x88, 0xa8, 0, 9, 0x81, 0, 0x20, 5]];
    let frame = |tags: &&[u8], length: usize| {
        let mut octets = [&destination[..], &mac(5).0, *tags, &[0x88, 0xb5]].concat();
        octets.resize(length.max(octets.len()), 0x55);
        octets
    };
    tags.iter().flat_map(|tags| [64, 200, 1400].map(|length| frame(tags, length))).collect()
}

#[test]
fn copies_are_sent_on_both_lans() {
    with_bed(|bed| {
        let programs = bed.programs();
        let _copies = programs.attach("prp_copies", bed.index("host")).unwrap();
        let [station, a, b] = ["station", "a", "b"].map(|name| bed.socket(name));
        let frames = [mac(9).0, MULTICAST].map(tagged_frames).concat();
        for (number, octets) in (0..).zip(&frames) {
            station.send(&with_trailer(octets, number, Lan::A));
            assert_eq!(a.receive(BOUND), Some(with_trailer(octets, number, Lan::A)), "{number}");
            assert_eq!(b.receive(BOUND), Some(with_trailer(octets, number, Lan::B)), "{number}");
        }
        assert_eq!(a.receive(Duration::ZERO), None);
        assert_eq!(b.receive(Duration::ZERO), None);
    });
}

/// The interface's own stack and the host share multicast frames without a trailer.
#[test]
fn frames_without_a_trailer_are_shared() {
    with_bed(|bed| {
        let programs = bed.programs();
        let _share = programs.attach("prp_share", bed.index("lan_a")).unwrap();
        let [a, station] = ["a", "station"].map(|name| bed.socket(name));
        let marker = to(MULTICAST, &tagged_frames(MULTICAST)[1]);
        // Whether a frame is shared: it arrives before the next one, which is.
        let is_shared = |octets: &[u8], name: &str| {
            a.send(octets);
            a.send(&marker);
            let first = station.receive(BOUND).expect("a frame");
            if first == marker {
                return false;
            }
            assert_eq!(first, octets, "{name}");
            assert_eq!(station.receive(BOUND).as_ref(), Some(&marker), "{name}");
            true
        };
        let (mut shared, mut other) = (0, 0);
        for (name, octets, has_trailer) in received() {
            // A veth takes neither.
            if !(15..=1514).contains(&octets.len()) {
                continue;
            }
            assert_eq!(is_shared(&to(MULTICAST, &octets), &name), !has_trailer, "{name}");
            assert!(!is_shared(&to(mac(9).0, &octets), &name), "{name}");
            assert!(!is_shared(&to([1, 0x80, 0xc2, 0, 0, 0], &octets), &name), "{name}");
            shared += u32::from(!has_trailer);
            other += u32::from(has_trailer);
        }
        for (number, octets) in (0..).zip(tagged_frames(MULTICAST)) {
            assert!(is_shared(&[&octets[..], &[1]].concat(), "without"), "{number}");
            for lan in [Lan::A, Lan::B] {
                assert!(!is_shared(&with_trailer(&octets, number, lan), "with"), "{number}");
            }
        }
        assert!(shared > 3 && other > 3);
    });
}
