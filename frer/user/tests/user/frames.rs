//! Frames of all kinds through one node, compared octet by octet and counter by counter with
//! [`onbeat_frer::plane`].
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 a packet socket
//!                     a2 ---- b2 another
//! ```

use std::time::Instant;

use crate::common::{ALL, BOUND, PORTS, TAG, VID, World, egress};
use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
    TagMatch, VlanAction, VlanMatch,
};
use onbeat_frer_user::PollMode;
use onbeat_testing::{Feature, RawSocket, require_all};
use onbeat_wire::MacAddress;

const REWRITTEN: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x77]);

fn member(identification: Identification) -> Member {
    Member { port: PortId(0), identification, individual: None }
}

fn recovery() -> Recovery {
    Recovery {
        algorithm: Algorithm::Vector { history_length: 8 },
        reset_timeout_ms: 0,
        take_no_sequence: true,
        ..Recovery::vector(2)
    }
}

fn edited(port: u8, tag: SequenceTag, vlan: VlanAction, priority: Option<u8>) -> Egress {
    let rewrite = Rewrite { destination: Some(REWRITTEN), vlan, priority };
    Egress { rewrite, ..egress(port, tag) }
}

/// Generation and recovery; equal, different and single replicas.
fn streams() -> Vec<Stream> {
    let to = |last| MacAddress([0x02, 0, 0, 0, 0, last]);
    let vlan = |tagged| VlanMatch { tagged, vlan: 0 };
    let stream = |name: &str, identification, generate, recover, egress| Stream {
        name: name.into(),
        members: vec![member(identification)],
        generate,
        recover,
        egress,
    };
    let null = |last, tagged| Identification::Null { destination: to(last), vlan: vlan(tagged) };
    let up = Rewrite { destination: None, vlan: VlanAction::Set(99), priority: Some(3) };
    let active =
        Identification::ActiveDestination { destination: to(3), vlan: vlan(TagMatch::All), up };
    let r_tag = SequenceTag::RTag;
    let (keep, remove) = (SequenceTag::Keep, SequenceTag::Remove);
    vec![
        stream(
            "alike",
            null(1, TagMatch::All),
            true,
            None,
            vec![egress(1, r_tag), egress(2, r_tag)],
        ),
        stream(
            "unlike",
            null(2, TagMatch::All),
            true,
            None,
            vec![
                edited(1, r_tag, VlanAction::Set(VID), Some(7)),
                edited(2, remove, VlanAction::Remove, None),
            ],
        ),
        stream("up", active, false, Some(recovery()), vec![egress(2, remove)]),
        stream("as it came", null(4, TagMatch::All), false, None, vec![egress(1, keep)]),
        stream("tagged", null(5, TagMatch::Tagged), false, Some(recovery()), vec![egress(2, keep)]),
    ]
}

/// Returns whether packet sockets receive a frame: if it ends two octets after its VLAN tag, or earlier, the
/// kernel cannot remove the tag for them, and drops it.
fn reaches_sockets(frame: &[u8]) -> bool {
    !matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]) || frame.len() >= 20
}

/// Returns each destination with each kind of tags, at lengths from truncated tags to the maximum.
fn frames() -> Vec<Vec<u8>> {
    let tags: [&[u8]; 4] =
        [&[], &TAG, &[0x88, 0xa8, 0x60, 0x05], &[0x88, 0xa8, 0x60, 0x05, 0x81, 0x00, 0x00, 0x07]];
    let sequence: [&[u8]; 3] =
        [&[], &[0xf1, 0xc1, 0, 0, 0x12, 0x34], &[0x89, 0x2f, 0x10, 0x40, 0x56, 0x78]];
    let mut frames = Vec::new();
    for last in 1..=6 {
        for (tags, sequence) in tags.iter().flat_map(|tags| sequence.map(|s| (*tags, s))) {
            let head = [&[0x02, 0, 0, 0, 0, last][..], &[2, 0, 0, 0, 0, 1], tags, sequence];
            let head = [&head.concat()[..], &[0x88, 0xb5]].concat();
            for longer in [0, 1, 46, 200, 1400] {
                let mut frame = head.clone();
                frame.extend((0..longer).map(|octet| octet as u8));
                frames.push(frame);
            }
            // Within the sequence tag.
            (1..=sequence.len()).for_each(|cut| frames.push(head[..head.len() - cut].to_vec()));
            frames.retain(|frame: &Vec<u8>| reaches_sockets(frame));
        }
    }
    frames
}

#[test]
fn frames_agree_with_the_plane() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    for by in ALL {
        let mut world = World::bare(PollMode::Sleep, by);
        let mut model = Plane::new(PORTS.into());
        for stream in streams() {
            world.a.set(&stream);
            model.set(&stream).unwrap();
        }
        let sockets =
            [RawSocket::open(&world.b.handle, "b1"), RawSocket::open(&world.b.handle, "b2")];
        let (mut sent, mut others) = (0, 0);
        for octets in frames() {
            world.talker.send(&octets);
            let Disposition::Sent(replicas) = model.frame(PortId(0), 1, &octets) else {
                others += 1;
                continue;
            };
            for replica in replicas {
                let mut expected = vec![0; replica.max_len()];
                let len = replica.write(&mut expected).unwrap();
                if !reaches_sockets(&expected[..len]) {
                    continue;
                }
                let socket = &sockets[usize::from(replica.port.0) - 1];
                // No other frame arrived before: frames that match no stream are not sent.
                let received = socket.receive(BOUND);
                assert_eq!(received.as_deref(), Some(&expected[..len]), "{by:?}: {octets:02x?}");
                sent += 1;
            }
        }
        assert!(sent > 300 && others > 100, "{sent} {others}");
        // The last ones leave by no port: wait for their counters.
        let deadline = Instant::now() + BOUND;
        for stream in streams() {
            let expected = model.read(&stream.name, 1);
            while Some(world.a.read(&stream.name)) != expected {
                let found = world.a.read(&stream.name);
                assert!(Instant::now() < deadline, "{by:?}: {found:?} is not {expected:?}");
                std::thread::yield_now();
            }
        }
    }
}
