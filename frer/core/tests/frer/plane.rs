//! The plane: streams are added, changed and removed while frames flow.
//!
//! frer/xdp/tests compares its frames with those of the programs in the kernel, octet by octet.

use onbeat_frer::plane::{Disposition, FrameIdentity, Plane, StreamRefusal};
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
    TagMatch, VlanAction, VlanMatch,
};
use onbeat_testing::memory::taken;
use onbeat_wire::MacAddress;
use proptest::prelude::*;

const VECTOR: Recovery = Recovery::vector(64);

fn mac(last: u16) -> MacAddress {
    let [a, b] = last.to_be_bytes();
    MacAddress([2, 0, 0, 1, a, b])
}

fn null(destination: MacAddress, vid: u16) -> Identification {
    Identification::Null { destination, vlan: VlanMatch { tagged: TagMatch::Tagged, vlan: vid } }
}

fn egress(port: u8, tag: SequenceTag) -> Egress {
    Egress { port: PortId(port), tag, rewrite: Rewrite::default() }
}

/// A stream that numbers frames received at port 0 and sends them by ports 1 and 2.
fn talker(name: &str, destination: u16) -> Stream {
    let identification = null(mac(destination), 10);
    Stream {
        name: name.to_owned(),
        members: vec![Member { port: PortId(0), identification, individual: None }],
        generate: true,
        recover: None,
        egress: vec![egress(1, SequenceTag::RTag), egress(2, SequenceTag::RTag)],
    }
}

/// A stream that receives its replicas from ports 1 and 2 and sends one of each by port 0.
fn listener(name: &str, destination: u16) -> Stream {
    let member = |port| Member {
        port: PortId(port),
        identification: null(mac(destination), 10),
        individual: None,
    };
    Stream {
        name: name.to_owned(),
        members: vec![member(1), member(2)],
        generate: false,
        recover: Some(VECTOR),
        egress: vec![egress(0, SequenceTag::Remove)],
    }
}

fn frame(destination: u16, number: Option<u16>) -> Vec<u8> {
    let tag = number.map(|number| {
        let [a, b] = number.to_be_bytes();
        [0xf1, 0xc1, 0, 0, a, b]
    });
    let rest = [0x88, 0xb5, 1, 2, 3, 4];
    let head = [&mac(destination).0[..], &[2, 0, 0, 0, 0, 1, 0x81, 0, 0xa0, 10]].concat();
    [&head[..], tag.as_ref().map_or(&[], |tag| &tag[..]), &rest].concat()
}

fn sent(fate: Disposition<'_>) -> Option<Vec<(u8, Vec<u8>)>> {
    let Disposition::Sent(replicas) = fate else { return None };
    let replicas = replicas.map(|replica| {
        let mut out = vec![0; replica.max_len()];
        let len = replica.write(&mut out).expect("room for every edit");
        out.truncate(len);
        (replica.port.0, out)
    });
    Some(replicas.collect())
}

#[test]
fn frames_of_a_talker_reach_the_listener_once() {
    let mut talking = Plane::new(3);
    let mut listening = Plane::new(3);
    talking.set(&talker("t", 1)).unwrap();
    listening.set(&listener("l", 1)).unwrap();
    for number in 0..3 {
        let replicas = sent(talking.frame(PortId(0), 0, &frame(1, None))).unwrap();
        assert_eq!(replicas, [(1, frame(1, Some(number))), (2, frame(1, Some(number)))]);
        let once = sent(listening.frame(PortId(1), 0, &replicas[0].1)).unwrap();
        assert_eq!(once, [(0, frame(1, None))]);
        assert!(matches!(listening.frame(PortId(2), 0, &replicas[1].1), Disposition::Dropped));
    }
    let read = listening.read("l", 0).unwrap();
    assert_eq!(read.members.iter().map(|member| member.input).collect::<Vec<_>>(), [3, 3]);
    assert_eq!((read.output, read.recovery.unwrap().counters.discarded), (3, 3));
    assert_eq!(talking.read("t", 0).unwrap().generation.unwrap().next, 3);
}

#[test]
fn frames_of_no_stream_are_counted() {
    let mut plane = Plane::new(3);
    plane.set(&talker("t", 1)).unwrap();
    assert!(matches!(plane.frame(PortId(0), 0, &frame(2, None)), Disposition::Unmatched));
    assert!(matches!(plane.frame(PortId(1), 0, &frame(1, None)), Disposition::Unmatched));
    assert!(matches!(plane.frame(PortId(1), 0, &[]), Disposition::Unmatched));
    assert_eq!([0, 1, 2].map(|port| plane.unmatched(PortId(port))), [1, 2, 0]);
}

#[test]
fn batch_identification_equals_single_identification() {
    const STREAMS: u16 = 100;
    let mut plane = Plane::new(3);
    (0..STREAMS).for_each(|n| plane.set(&listener(&format!("s{n}"), n)).unwrap());
    let frames: Vec<_> = (0..2 * STREAMS).map(|n| frame(n * 7 % (2 * STREAMS), Some(n))).collect();
    // Some end within their R-TAG, or before the stream can be identified; some are empty.
    let octets = |n: usize| &frames[n][..frames[n].len().min([usize::MAX, 19, 13, 0][n % 4])];
    let alone: Vec<_> = (0..frames.len()).map(|n| plane.identify(PortId(1), octets(n))).collect();
    let known = alone.iter().filter(|identity| **identity != FrameIdentity::default()).count();
    assert!((20..180).contains(&known), "{known}");
    for count in 0..20 {
        for first in [0, 1, 50, frames.len() - count] {
            let mut together = vec![alone[0]; count];
            plane.identify_all(PortId(1), (first..first + count).map(octets), &mut together);
            assert_eq!(together, alone[first..first + count], "{count} from {first} on");
        }
    }
}

#[test]
fn a_refused_stream_changes_nothing() {
    let mut plane = Plane::new(3);
    plane.set(&talker("first", 1)).unwrap();
    plane.set(&talker("second", 2)).unwrap();
    assert!(matches!(plane.frame(PortId(0), 0, &frame(2, None)), Disposition::Sent(_)));
    let before = plane.read("second", 0);

    let Err(StreamRefusal::Conflict(conflict)) = plane.set(&talker("third", 1)) else { panic!() };
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("first", "third"));
    assert_eq!((plane.len(), plane.read("third", 0)), (2, None));
    // Changed to another stream's identification, with a valid member before it.
    let mut changed = talker("second", 3);
    changed.members.push(talker("", 1).members.remove(0));
    assert!(matches!(plane.set(&changed), Err(StreamRefusal::Conflict(_))));
    assert_eq!(plane.read("second", 0), before);
    assert!(matches!(plane.frame(PortId(0), 0, &frame(3, None)), Disposition::Unmatched));
    assert!(matches!(plane.frame(PortId(0), 0, &frame(2, None)), Disposition::Sent(_)));

    let mut twice = talker("fourth", 4);
    twice.members.push(twice.members[0].clone());
    let Err(StreamRefusal::Conflict(conflict)) = plane.set(&twice) else { panic!() };
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("fourth", "fourth"));

    let mut bad = listener("fifth", 5);
    bad.recover = Some(Recovery { algorithm: Algorithm::Vector { history_length: 1 }, ..VECTOR });
    assert!(matches!(plane.set(&bad), Err(StreamRefusal::Recovery(_))));
    assert_eq!(plane.len(), 2);
}

#[test]
fn streams_changed_together_may_swap_identifications() {
    let mut plane = Plane::new(3);
    plane.change(&[], &[talker("first", 1), talker("second", 2)]).unwrap();
    for _ in 0..3 {
        plane.frame(PortId(0), 0, &frame(1, None));
    }
    assert!(plane.set(&talker("first", 2)).is_err());
    plane.change(&[], &[talker("first", 2), talker("second", 1), talker("third", 3)]).unwrap();
    // The generator belongs to the stream, wherever its frames arrive.
    let replicas = sent(plane.frame(PortId(0), 0, &frame(2, None))).unwrap();
    assert_eq!(replicas[0].1, frame(2, Some(3)));

    let refused = [talker("first", 1), talker("second", 2), talker("fourth", 3)];
    let Err(StreamRefusal::Conflict(conflict)) = plane.change(&[], &refused) else { panic!() };
    assert_eq!((conflict.first.as_str(), conflict.second.as_str()), ("third", "fourth"));
    assert_eq!(plane.len(), 3);
    let replicas = sent(plane.frame(PortId(0), 0, &frame(2, None))).unwrap();
    assert_eq!(replicas[0].1, frame(2, Some(4)));
    let read = plane.read("second", 0).unwrap();
    assert_eq!(read.members[0].input, 0);
}

#[test]
fn a_change_removes_and_adds_all_streams_or_none() {
    let mut plane = Plane::new(3);
    plane.change(&[], &[talker("first", 1), talker("second", 2), talker("third", 3)]).unwrap();
    plane.frame(PortId(0), 0, &frame(3, None));
    let counted = |plane: &mut Plane, name: &str| plane.read(name, 0).map(|read| read.output);

    // One of these matches the frames of "third": no change happens.
    let refused = [talker("new", 1), talker("other", 3)];
    assert!(plane.change(&["first", "second"], &refused).is_err());
    assert_eq!((plane.len(), counted(&mut plane, "new")), (3, None));
    for destination in 1..=3 {
        assert!(sent(plane.frame(PortId(0), 0, &frame(destination, None))).is_some());
    }

    // Removed streams release their frames to added ones; a name in both lists changes; unknown names are
    // ignored.
    let new = [talker("new", 1), talker("third", 2)];
    plane.change(&["first", "second", "third", "unknown"], &new).unwrap();
    assert_eq!(plane.len(), 2);
    assert!(sent(plane.frame(PortId(0), 0, &frame(1, None))).is_some());
    assert!(matches!(plane.frame(PortId(0), 0, &frame(3, None)), Disposition::Unmatched));
    assert_eq!((counted(&mut plane, "new"), counted(&mut plane, "third")), (Some(1), Some(2)));
    plane.change(&["new", "third"], &[]).unwrap();
    assert!(plane.is_empty());
}

#[test]
fn no_frame_allocates() {
    let mut plane = Plane::new(3);
    for destination in 0..1_000 {
        plane.set(&talker(&format!("t{destination}"), destination)).unwrap();
        plane.set(&listener(&format!("l{destination}"), destination)).unwrap();
    }
    let frames: Vec<_> = (0..1_200).map(|to| [frame(to, None), frame(to, Some(7))]).collect();
    let mut out = [0; 64];
    let before = taken();
    for octets in frames.iter().flatten() {
        for port in 0..3 {
            if let Disposition::Sent(replicas) = plane.frame(PortId(port), 5, octets) {
                for replica in replicas {
                    replica.write(&mut out).expect("room");
                }
            }
        }
    }
    assert_eq!(taken(), before);
}

#[derive(Debug, Clone)]
enum Step {
    Set { name: u8, destination: u16, listens: bool, history: u16 },
    Remove(u8),
    Frame { port: u8, destination: u16, number: Option<u16> },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4u8, 0..5u16, any::<bool>(), prop_oneof![Just(2u16), Just(64)]).prop_map(
            |(name, destination, listens, history)| Step::Set {
                name,
                destination,
                listens,
                history
            }
        ),
        (0..4u8).prop_map(Step::Remove),
        (0..3u8, 0..5u16, prop::option::of(0..6u16))
            .prop_map(|(port, destination, number)| Step::Frame { port, destination, number }),
    ]
}

proptest! {
    /// After any changes, frames are processed as in a plane that only ever had the remaining streams, and
    /// counters add up.
    #[test]
    fn processing_depends_on_the_remaining_streams_only(steps in prop::collection::vec(step(), 1..80)) {
        let mut plane = Plane::new(3);
        let mut left: Vec<Stream> = Vec::new();
        for step in steps {
            match step {
                Step::Set { name, destination, listens, history } => {
                    let name = format!("s{name}");
                    let mut stream = match listens {
                        true => listener(&name, destination),
                        false => talker(&name, destination),
                    };
                    if let Some(recovery) = &mut stream.recover {
                        recovery.algorithm = Algorithm::Vector { history_length: history };
                    }
                    let others: Vec<_> =
                        left.iter().filter(|other| other.name != name).cloned().collect();
                    let mut fresh = Plane::new(3);
                    others.iter().for_each(|other| fresh.set(other).unwrap());
                    let possible = fresh.set(&stream).is_ok();
                    prop_assert_eq!(plane.set(&stream).is_ok(), possible);
                    if possible {
                        left = others;
                        left.push(stream);
                    }
                }
                Step::Remove(name) => {
                    let name = format!("s{name}");
                    let there = left.iter().any(|stream| stream.name == name);
                    prop_assert_eq!(plane.remove(&name), there);
                    left.retain(|stream| stream.name != name);
                }
                Step::Frame { port, destination, number } => {
                    let octets = frame(destination, number);
                    let mut fresh = Plane::new(3);
                    left.iter().for_each(|stream| fresh.set(stream).unwrap());
                    let of_none = matches!(fresh.frame(PortId(port), 0, &octets), Disposition::Unmatched);
                    let fate = plane.frame(PortId(port), 0, &octets);
                    prop_assert_eq!(matches!(fate, Disposition::Unmatched), of_none);
                }
            }
            prop_assert_eq!(plane.len(), left.len());
            for stream in &left {
                let read = plane.read(&stream.name, 0).unwrap();
                prop_assert_eq!(read.members.len(), stream.members.len());
                // Including those that the stream sent before it recovered.
                let passed = read.recovery.map_or(0, |recovery| recovery.counters.passed);
                prop_assert!(passed <= read.output);
            }
        }
    }

    /// A change of the replica of a single port keeps the sequence running.
    #[test]
    fn a_change_of_egress_keeps_the_generator(before in 0..20u16, vid in 1..4095u16) {
        let mut plane = Plane::new(3);
        let mut stream = talker("t", 1);
        plane.set(&stream).unwrap();
        for _ in 0..before {
            plane.frame(PortId(0), 0, &frame(1, None));
        }
        stream.egress[0].rewrite.vlan = VlanAction::Set(vid);
        plane.set(&stream).unwrap();
        let replicas = sent(plane.frame(PortId(0), 0, &frame(1, None))).unwrap();
        prop_assert_eq!(&replicas[1].1, &frame(1, Some(before)));
        prop_assert_eq!(replicas[0].1[14..16].to_vec(), (0xa000 | vid).to_be_bytes().to_vec());
    }
}
