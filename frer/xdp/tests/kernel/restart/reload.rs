//! Many random reloads with restarts in between: state agrees with user space, frames match the same stream
//! as after a fresh start, and no slots leak.

use onbeat_frer::identify::{Fields, Table};
use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::{
    Algorithm, Identification, Member, PortId, Recovery, SequenceTag, Stream, TagMatch, VlanMatch,
};
use onbeat_frer_xdp::Options;
use onbeat_wire::Frame;
use onbeat_wire::random::Random;

use super::{VECTOR, with_private_bpffs};
use crate::frames::random;
use crate::harness::{
    DESTINATION, Node, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, egress, frame, member, pins,
    stream, talker,
};

const SEED: u64 = 0x5_1cb;
const PORTS: usize = 6;
const ROOM: u32 = 24;
const STREAMS: u64 = 12;

fn recovery(random: &mut Random) -> Recovery {
    let algorithm = match random.below(3) {
        0 => Algorithm::Match,
        _ => Algorithm::Vector { history_length: *random.pick(&[2, 64, 1024]) },
    };
    Recovery { algorithm, take_no_sequence: random.one_in(2), ..VECTOR }
}

/// Returns one of several forms of the stream with this index, distinguished from all others by its VLANs.
fn form(random: &mut Random, index: u64) -> Stream {
    let name = format!("stream{index}");
    let vid = |place: u64| (10 * (index + 1) + place) as u16;
    let members = (0..random.between(1, 3) as u8).map(|port| {
        let individual = random.one_in(3).then(|| recovery(random));
        member(port, vid(random.below(2)), individual)
    });
    let members: Vec<Member> = members.collect();
    let mut stream = if random.one_in(2) {
        talker(&name, members.into_iter().map(|m| Member { individual: None, ..m }).collect())
    } else {
        let recover = random.one_in(2).then(|| recovery(random));
        stream(&name, members, recover)
    };
    let tag = stream.egress[0].tag;
    let mut ports: Vec<u8> = (0..PORTS as u8).collect();
    stream.egress = (0..random.between(1, PORTS as i64))
        .map(|_| egress(ports.swap_remove(random.below(ports.len() as u64) as usize), tag))
        .collect();
    if random.one_in(3) {
        stream.egress[0].tag =
            if stream.generate { SequenceTag::Remove } else { SequenceTag::RTag };
    }
    stream
}

fn vid_of(member: &Member) -> u16 {
    match &member.identification {
        Identification::Null { vlan, .. } => vlan.vlan,
        _ => unreachable!("no other kind"),
    }
}

fn send_some(
    node: &Node,
    random: &mut Random,
    plane: &mut Plane,
    streams: &[Stream],
    context: &str,
) {
    let ports: Vec<_> = (0..PORTS).map(|port| node.ingress(port)).collect();
    for stream in streams {
        for _ in 0..random.below(12) {
            let index = random.below(stream.members.len() as u64) as usize;
            let member = &stream.members[index];
            let number = (!random.one_in(3)).then(|| random.below(8) as u16);
            let octets = frame(vid_of(member), number);
            let verdict = ports[usize::from(member.port.0)].verdict(&octets);
            let expected = match plane.frame(member.port, 1, &octets) {
                Disposition::Sent(_) => XDP_REDIRECT,
                Disposition::Dropped => XDP_DROP,
                Disposition::Unmatched => XDP_PASS,
                Disposition::Copied(_) => unreachable!("the node has no link redundancy entity"),
            };
            assert_eq!(verdict, expected, "{context}: {stream:?}");
        }
        let reading = node.read(&stream.name);
        assert_eq!(plane.read(&stream.name, 1), Some(reading), "{context}: {stream:?}");
    }
}

#[test]
fn state_follows_streams_over_reloads_and_restarts() {
    with_private_bpffs(|directory| {
        let options = || Options {
            directory: pins(directory),
            max_streams: ROOM,
            test_clock: true,
            count_output: true,
        };
        let mut random = Random::new(SEED);
        let mut node = Node::open(PORTS, &options());
        let mut plane = Plane::new(PORTS);
        let mut streams: Vec<Stream> = Vec::new();
        for round in 0..150 {
            let context = format!("seed {SEED:#x}, round {round}");
            if random.one_in(10) {
                drop(node);
                node = Node::open(PORTS, &options());
                // The new process must read the state of the old one before it may change anything.
                node.apply(&streams);
            }
            streams.retain(|_| !random.one_in(5));
            for stream in &mut streams {
                if random.one_in(4) {
                    let index = stream.name.trim_start_matches("stream").parse().unwrap();
                    *stream = form(&mut random, index);
                }
            }
            for index in 0..STREAMS {
                let name = format!("stream{index}");
                if random.one_in(3) && streams.iter().all(|stream| stream.name != name) {
                    let place = random.below(streams.len() as u64 + 1) as usize;
                    streams.insert(place, form(&mut random, index));
                }
            }
            node.apply(&streams);
            for name in (0..STREAMS).map(|index| format!("stream{index}")) {
                if streams.iter().all(|stream| stream.name != name) {
                    plane.remove(&name);
                }
            }
            streams.iter().for_each(|stream| plane.set(stream).expect("streams without conflict"));
            send_some(&node, &mut random, &mut plane, &streams, &context);
        }
        // No slots leaked: the maximum number of streams still fits.
        node.apply(&[]);
        let full: Vec<Stream> = (0..ROOM)
            .map(|index| {
                let vid = 1000 + 2 * index as u16;
                let members = vec![member(0, vid, Some(VECTOR)), member(1, vid, Some(VECTOR))];
                stream(&format!("full{index}"), members, Some(VECTOR))
            })
            .collect();
        node.apply(&full);
        let last = 1000 + 2 * (ROOM as u16 - 1);
        assert_eq!(node.ingress(1).verdict(&frame(last, Some(1))), XDP_REDIRECT);
    });
}

/// The stream that a frame matches depends on the configuration only, not on former ones.
#[test]
fn frames_match_the_same_stream_as_after_a_fresh_start() {
    if !can_run() {
        return;
    }
    let mut random = Random::new(SEED);
    let mut node = Node::new(17, 128);
    let mut streams: Vec<Stream> = Vec::new();
    let mut serial = 0;
    let mut matched = 0;
    for round in 0..40 {
        let mut next: Vec<Stream> = streams.iter().filter(|_| random.one_in(2)).cloned().collect();
        if random.one_in(3) {
            next.reverse();
        }
        for mut stream in random::streams(&mut random, 17) {
            serial += 1;
            stream.name = format!("stream{serial}");
            let place = random.below(next.len() as u64 + 1) as usize;
            next.insert(place, stream);
            if (0..17).any(|port| Table::new(&next, PortId(port)).is_err()) {
                next.remove(place);
            }
        }
        // The old and the new configuration may have too many kinds together.
        while let Err(error) = node.plane.apply(&node.names, &next) {
            assert!(error.to_string().contains("kinds of identification"), "{error}");
            next.truncate(next.len() / 2);
        }
        streams = next;
        let tables: Vec<Table> =
            (0..3).map(|port| Table::new(&streams, PortId(port)).unwrap()).collect();
        for _ in 0..200 {
            let octets = random::frame(&mut random);
            let Ok(parsed) = Frame::parse(&octets) else { continue };
            let port = random.below(3) as usize;
            let found = tables[port].lookup(&Fields::from(&parsed));
            let input = |node: &Node| {
                found.map(|at| node.read(&streams[at.stream].name).members[at.member].input)
            };
            matched += usize::from(found.is_some());
            let before = input(&node);
            let verdict = node.ingress(port).verdict(&octets);
            let context = format!("seed {SEED:#x}, round {round}, frame {octets:02x?}");
            assert_eq!(verdict == XDP_PASS, found.is_none(), "{context}");
            assert_eq!(input(&node), before.map(|input| input + 1), "{context}: {found:?}");
        }
    }
    assert!(matched > 1_000, "{matched}");
}

/// Frames without a VLAN match "all" with any VLAN id: the lowest has precedence, also if it is added after
/// the other or removed before it.
#[test]
fn the_lowest_vlan_owns_a_shared_key() {
    if !can_run() {
        return;
    }
    let all = |name: &str, vlan: u16| {
        let vlan = VlanMatch { tagged: TagMatch::All, vlan };
        let identification = Identification::Null { destination: DESTINATION, vlan };
        talker(name, vec![Member { port: PortId(0), identification, individual: None }])
    };
    let (high, low) = (all("a-high", 20), all("z-low", 10));
    let untagged = [&DESTINATION.0[..], &[2, 0, 0, 0, 0, 0x0a, 0x88, 0xb5, 1, 2]].concat();
    let mut node = Node::new(1, 4);
    let taken = |node: &Node, name: &str| {
        let before = node.read(name).members[0].input;
        assert_eq!(node.ingress(0).verdict(&untagged), XDP_REDIRECT);
        node.read(name).members[0].input - before
    };
    node.apply(&[high.clone(), low.clone()]);
    assert_eq!(taken(&node, "z-low"), 1);
    node.apply(std::slice::from_ref(&high));
    assert_eq!(taken(&node, "a-high"), 1);
    node.apply(&[low.clone(), high.clone()]);
    assert_eq!(taken(&node, "z-low"), 1);
    node.apply(&[high.clone(), low.clone()]);
    assert_eq!(taken(&node, "z-low"), 1);
    node.apply(std::slice::from_ref(&low));
    assert_eq!(taken(&node, "z-low"), 1);
    node.apply(&[]);
    assert_eq!(node.ingress(0).verdict(&untagged), XDP_PASS);
}
