//! Wildcards in the kernel, compared with vectors/wildcard.toml and with `onbeat_frer::wildcard`: after each frame the
//! verdict and the octets sent are equal, in between all tables and counters.

mod restart;

use std::path::Path;

use onbeat_frer::plane::{self, Disposition};
use onbeat_frer::prp::{LanPort, Parameters};
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanMatch,
};
use onbeat_frer::wildcard::{Scope, Wildcard, WildcardReading};
use onbeat_frer_xdp::Options;
use onbeat_testing::prp::supervision_of;
use onbeat_testing::wildcard::{self, File};
use onbeat_wire::random::Random;
use onbeat_wire::{Frame, MacAddress};

use crate::harness::{Node, Program, Run, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, pins};

const HOST: PortId = PortId(0);
const A: PortId = PortId(1);
const B: PortId = PortId(2);
const PORTS: usize = 4;

const MS: u64 = 1_000_000;
const START: u64 = 1000 * MS;
/// After the silence of a node.
const READY: u64 = START + 500 * MS;

const VLAN: u16 = 5;
const MAX_NODES: u16 = 64;

/// Destination of a named stream.
const NAMED: MacAddress = MacAddress([1, 0, 0x5e, 9, 9, 9]);

fn mac(station: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, station])
}

fn wildcard(name: &str, scope: Scope, [host, a, b]: [PortId; 3]) -> Wildcard {
    let path = |port: PortId| LanPort { port, mac: MacAddress([2, 0, 0, 0, 0xa0 + port.0, 1]) };
    let link = Parameters {
        a: path(a),
        b: path(b),
        host,
        mac: mac(1),
        is_segment: false,
        entry_forget_ms: 400,
        node_forget_ms: 60_000,
        max_nodes: MAX_NODES,
    };
    Wildcard { name: name.to_owned(), scope, link }
}

pub(crate) fn all(max_nodes: u16) -> Wildcard {
    let mut all = wildcard("all", Scope::All, [HOST, A, B]);
    all.link.max_nodes = max_nodes;
    all
}

fn axes() -> Wildcard {
    // The paths in the other order.
    wildcard("axes", Scope::Vlan(VLAN), [HOST, B, A])
}

/// Returns a frame to `mac(1)`; with an R-TAG, if it has a number.
fn frame(source: MacAddress, vlans: &[u16], number: Option<u16>) -> Vec<u8> {
    let mut octets = [mac(1).0, source.0].concat();
    for vlan in vlans {
        octets.extend([0x81, 0]);
        octets.extend(vlan.to_be_bytes());
    }
    if let Some(number) = number {
        octets.extend([0xf1, 0xc1, 0, 0]);
        octets.extend(number.to_be_bytes());
    }
    octets.extend([0x88, 0xb5, b'd', b'a', b't', b'a']);
    octets
}

/// A node in the kernel.
struct KernelNode {
    node: Node,
    programs: [Program; PORTS],
    now_ns: u64,
}

impl KernelNode {
    fn open(directory: Option<&Path>, now_ns: u64) -> Self {
        let options = Options {
            directory: directory.and_then(pins),
            max_streams: 4,
            test_clock: true,
            count_output: false,
        };
        let node = Node::open(PORTS, &options);
        node.plane.set_test_clock(now_ns).unwrap();
        let programs = std::array::from_fn(|port| node.ingress(port));
        Self { node, programs, now_ns }
    }

    fn ready(wildcards: &[Wildcard]) -> Self {
        let mut node = Self::open(None, START);
        node.set(wildcards);
        node.at(READY);
        node
    }

    fn set(&mut self, wildcards: &[Wildcard]) {
        self.node.plane.set_wildcards(&self.node.names, wildcards).unwrap();
        self.take_programs();
    }

    fn take_programs(&mut self) {
        self.programs = std::array::from_fn(|port| self.node.ingress(port));
    }

    fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.node.plane.set_test_clock(now_ns).unwrap();
    }

    fn run(&self, port: PortId, octets: &[u8]) -> Run {
        self.programs[usize::from(port.0)].run(&[], octets)
    }

    /// Returns what a port makes of a frame: the octets sent; none: it is discarded; `None`: it is left to the stack.
    fn sends(&self, port: PortId, octets: &[u8]) -> Option<Option<Vec<u8>>> {
        let Run { verdict, frame, .. } = self.run(port, octets);
        match verdict {
            XDP_REDIRECT => Some(Some(frame)),
            XDP_DROP => Some(None),
            XDP_PASS => {
                assert_eq!(frame, octets, "changed");
                None
            }
            other => panic!("verdict {other}"),
        }
    }

    /// Returns the number of a frame that the host sends.
    fn draws(&self, vlans: &[u16]) -> u16 {
        let sent = self.sends(HOST, &frame(mac(1), vlans, None)).flatten().expect("a frame");
        Frame::parse(&sent).unwrap().sequence_tag().expect("an R-TAG").sequence()
    }

    /// Returns whether the host receives a frame from a path.
    fn accepts(&self, port: PortId, source: u8, vlans: &[u16], number: u16) -> bool {
        let sent = self.sends(port, &frame(mac(source), vlans, Some(number)));
        let sent = sent.expect("a frame of a wildcard");
        sent.inspect(|octets| assert_eq!(*octets, frame(mac(source), vlans, None))).is_some()
    }

    /// Returns tables and counters, after maintenance of the tables.
    fn read(&self) -> Vec<WildcardReading> {
        self.node.plane.read_wildcards().unwrap()
    }
}

#[test]
fn frames_are_sent_as_in_the_vectors() {
    if !can_run() {
        return;
    }
    let ports = [("host", HOST), ("a", A), ("b", B)];
    let mut steps = 0;
    for case in File::read().case {
        let of = |scope: &wildcard::Scope| match scope {
            wildcard::Scope::Vlan(vlan) => wildcard("vlan", Scope::Vlan(*vlan), [HOST, A, B]),
            wildcard::Scope::All(_) => all(MAX_NODES),
        };
        let wildcards: Vec<_> = case.wildcards.iter().map(of).collect();
        let mut node = KernelNode::ready(&wildcards);
        for (n, step) in case.step.iter().enumerate() {
            let port = ports.iter().find(|(name, _)| *name == step.port).expect("a port").1;
            node.at(READY + step.at_ms * MS);
            let sent = node.sends(port, &step.frame());
            // One redirect sends to both paths.
            let expected = step.sent().map(|sent| {
                assert!(sent.iter().all(|(_, octets)| *octets == sent[0].1));
                sent.into_iter().next().map(|(_, octets)| octets)
            });
            assert_eq!(sent, expected, "case {} ({}), step {n}", case.number, case.name);
            steps += 1;
        }
    }
    assert!(steps >= 75, "{steps}");
}

/// A named stream of the host, in both directions.
fn named() -> [Stream; 2] {
    let vlan = VlanMatch { tagged: TagMatch::All, vlan: 0 };
    let member = |port| Member {
        port,
        identification: Identification::Null { destination: NAMED, vlan },
        individual: None,
    };
    let egress = |port, tag| Egress { port, tag, rewrite: Rewrite::default() };
    let talker = Stream {
        name: "talker".into(),
        members: vec![member(HOST)],
        generate: true,
        recover: None,
        egress: vec![egress(A, SequenceTag::RTag), egress(B, SequenceTag::RTag)],
    };
    let listener = Stream {
        name: "listener".into(),
        members: vec![member(A), member(B)],
        generate: false,
        recover: Some(Recovery::vector(64)),
        egress: vec![egress(HOST, SequenceTag::Remove)],
    };
    [talker, listener]
}

/// A node in the kernel, and one in user space.
struct Both {
    kernel: KernelNode,
    judge: plane::Plane,
}

impl Both {
    fn new(wildcards: &[Wildcard]) -> Self {
        let mut kernel = KernelNode::ready(wildcards);
        kernel.node.apply(&named());
        kernel.take_programs();
        let mut judge = plane::Plane::new(PORTS);
        judge.set_wildcards(wildcards, START);
        named().iter().for_each(|stream| judge.set(stream).unwrap());
        Self { kernel, judge }
    }

    fn set(&mut self, wildcards: &[Wildcard]) {
        self.kernel.set(wildcards);
        self.judge.set_wildcards(wildcards, self.kernel.now_ns);
    }

    fn frame(&mut self, port: PortId, octets: &[u8], what: &str) -> Option<Vec<u8>> {
        let found = self.kernel.sends(port, octets);
        let expected = match self.judge.frame(port, self.kernel.now_ns, octets) {
            Disposition::Unmatched => None,
            Disposition::Dropped => Some(None),
            Disposition::Sent(replicas) => Some(replicas.into_iter().next().map(|replica| {
                let parts = replica.parts();
                [&parts.head[..], parts.rest].concat()
            })),
            Disposition::Copied(mut copies) => {
                Some(copies.next().map(|copy| copy.parts().concat()))
            }
        };
        assert_eq!(found, expected, "{what}: port {}: {octets:02x?}", port.0);
        expected.flatten()
    }

    fn compare(&mut self, what: &str) {
        self.judge.expire_wildcards(self.kernel.now_ns);
        let found = self.kernel.read();
        let expected = self.judge.read_wildcards(self.kernel.now_ns);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.link.lans, expected.link.lans, "{what}: {}", found.name);
            assert_eq!(found.link.host, expected.link.host, "{what}: {}", found.name);
        }
        assert_eq!(found, expected, "{what}");
    }
}

/// A frame of a station, perhaps with a number.
fn random_frame(random: &mut Random, source: MacAddress, number: Option<u16>) -> Vec<u8> {
    let destination = match random.below(20) {
        0 => MacAddress([0xff; 6]),
        1 => NAMED,
        2 => MacAddress([1, 0x80, 0xc2, 0, 0, random.below(32) as u8]),
        3 => MacAddress([2, 0, 0, 0, 0xa1 + random.below(2) as u8, 1]),
        4..9 => mac(random.below(24) as u8),
        _ => mac(1),
    };
    let mut octets = [destination.0, source.0].concat();
    let tags: [&[u16]; 8] = [&[], &[], &[VLAN], &[VLAN], &[6], &[0], &[6, VLAN], &[VLAN, 6]];
    let tags = *random.pick(&tags);
    for vlan in tags {
        octets.extend(*random.pick(&[[0x81, 0], [0x81, 0], [0x88, 0xa8]]));
        octets.extend((vlan | 0x2000).to_be_bytes());
    }
    if let Some(number) = number {
        octets.extend([0xf1, 0xc1, 0, 0]);
        octets.extend(number.to_be_bytes());
    } else if random.one_in(20) {
        octets.extend([0x89, 0x2f, 0, 0, 0, 1]);
    }
    octets.extend(*random.pick(&[
        [0x08, 0x00],
        [0x88, 0xb5],
        [0x88, 0xf7],
        [0x88, 0xcc],
        [0x88, 0xfb],
    ]));
    let length = if random.one_in(3) { 0 } else { random.below(100) };
    octets.extend((0..length).map(|_| random.number() as u8));
    octets
}

#[test]
fn random_frames() {
    if !can_run() {
        return;
    }
    const WORLDS: u64 = 16;
    let mut sent = [0_u64; 2];
    for seed in 0..WORLDS {
        let mut random = Random::new(0x8021_cb07 + seed);
        let entry_forget_ms = *random.pick(&[40, 400, 2000]);
        let is_segment = random.one_in(2);
        let with = |mut wildcard: Wildcard| {
            (wildcard.link.entry_forget_ms, wildcard.link.is_segment) =
                (entry_forget_ms, is_segment);
            wildcard
        };
        let sets = [
            vec![with(axes()), with(all(MAX_NODES))],
            vec![with(all(MAX_NODES))],
            vec![with(axes())],
        ];
        let mut both = Both::new(&sets[0]);
        both.kernel.at(START + sets[0][0].link.reboot_silence_ns());
        let mut numbers = [(); 24].map(|()| random.number() as u16);
        let mut returned: Vec<Vec<u8>> = Vec::new();
        for n in 0..crate::frame_count(60_000) / WORLDS {
            let what = format!("seed {seed}, frame {n}");
            if random.one_in(3) {
                let step = random.below(u64::from(entry_forget_ms) * MS / 50);
                both.kernel.at(both.kernel.now_ns + step);
            }
            if random.one_in(1000) {
                let forget = u64::from(entry_forget_ms) * MS;
                both.kernel.at(both.kernel.now_ns + forget * random.below(5) / 2);
            }
            if random.one_in(500) {
                both.compare(&what);
                // Its tables continue, or restart.
                let set: &Vec<_> = random.pick(&sets);
                both.set(set);
            }
            let source = random.below(24) as u8;
            if random.one_in(3) {
                // 16 to 23: stations behind the host port.
                let source = mac(if source < 16 { 1 } else { source });
                let number = random.one_in(30).then_some(7);
                let octets = random_frame(&mut random, source, number);
                returned.extend(both.frame(HOST, &octets, &what));
                continue;
            }
            let at = random.below(2) as usize;
            let port = [A, B][at];
            let octets = match random.below(100) {
                0 => supervision_of(mac(source), mac(source), None),
                1..5 if !returned.is_empty() => {
                    let at = random.below(returned.len() as u64) as usize;
                    returned.truncate(100);
                    returned.swap_remove(at.min(returned.len() - 1))
                }
                5..10 => random_frame(&mut random, mac(source), None),
                _ => {
                    let number = &mut numbers[usize::from(source)];
                    *number = match random.below(400) {
                        0 => random.number() as u16,
                        1 => number.wrapping_add(32_760 + random.below(16) as u16),
                        _ => number.wrapping_add(1),
                    };
                    let back = if random.one_in(2) { random.below(64) as u16 } else { 0 };
                    let number = Some(number.wrapping_sub(back));
                    let mut octets = random_frame(&mut random, mac(source), number);
                    if random.one_in(50) {
                        octets.truncate(14 + random.below(octets.len() as u64 - 14) as usize);
                    }
                    octets
                }
            };
            sent[0] += u64::from(both.frame(port, &octets, &what).is_some());
            if random.one_in(2) {
                sent[1] += u64::from(both.frame([B, A][at], &octets, &what).is_some());
            }
        }
        both.compare(&format!("seed {seed}"));
    }
    let [first, second] = sent;
    assert!(first > 10_000 && second < first / 2, "{sent:?}");
}

/// Each wildcard has its own paths and stations, and both draw from one counter.
#[test]
fn wildcards_of_several_ports_share_numbers_only() {
    if !can_run() {
        return;
    }
    let other = wildcard("other", Scope::All, [PortId(3), A, B]);
    let mut node = KernelNode::ready(&[axes(), all(MAX_NODES)]);
    assert_eq!(
        [node.draws(&[VLAN]), node.draws(&[]), node.draws(&[6]), node.draws(&[VLAN])],
        [0, 1, 2, 3]
    );
    // Frames of one address in both are those of different tables.
    for number in 0..3 {
        assert!(node.accepts(A, 9, &[VLAN], number));
        assert!(node.accepts(B, 9, &[6], number));
        assert!(!node.accepts(B, 9, &[VLAN], number));
        assert!(!node.accepts(A, 9, &[6], number));
    }
    let of = |name: &str, node: &KernelNode| {
        let readings = node.read();
        readings.into_iter().find(|reading| reading.name == name).expect("a wildcard").link
    };
    assert_eq!((of("axes", &node).host.numbered, of("all", &node).host.numbered), (2, 2));
    // Its paths are in the other order.
    assert_eq!(of("axes", &node).lans.map(|lan| (lan.accepted, lan.duplicates)), [(0, 3), (3, 0)]);
    assert_eq!(of("all", &node).lans.map(|lan| (lan.accepted, lan.duplicates)), [(0, 3), (3, 0)]);
    // Another host port takes the place of one: its tables and counters restart.
    node.set(&[axes(), other.clone()]);
    assert_eq!(node.sends(HOST, &frame(mac(1), &[], None)), None);
    assert_eq!(
        node.sends(PortId(3), &frame(mac(1), &[], None)).flatten().map(|octets| octets[17]),
        Some(4)
    );
    assert_eq!((of("other", &node).host.numbered, of("other", &node).nodes.len()), (1, 0));
    assert!(node.accepts(A, 9, &[6], 2));
    assert!(!node.accepts(A, 9, &[VLAN], 2));
    node.set(&[]);
    for port in [HOST, A, B, PortId(3)] {
        assert_eq!(node.sends(port, &frame(mac(9), &[VLAN], Some(1))), None);
    }
    assert!(node.read().is_empty());
    // And a PRP node after wildcards.
    let lre = crate::prp::parameters(MAX_NODES);
    node.node.plane.set_lre(&node.node.names, Some(&lre)).unwrap();
    assert_eq!(node.node.plane.read_lre().unwrap().unwrap().nodes.len(), 0);
}

#[test]
fn tables_that_are_too_small_are_an_error() {
    if !can_run() {
        return;
    }
    let mut node = KernelNode::ready(&[all(MAX_NODES)]);
    let mut large = axes();
    large.link.max_nodes = MAX_NODES + 1;
    let error =
        node.node.plane.set_wildcards(&node.node.names, &[all(MAX_NODES), large]).unwrap_err();
    assert!(error.to_string().contains("max-nodes = 64, not 129"), "{error}");
    let many: Vec<_> = (1..18)
        .map(|vlan| {
            let mut wildcard = wildcard(&vlan.to_string(), Scope::Vlan(vlan), [HOST, A, B]);
            wildcard.link.max_nodes = 1;
            wildcard
        })
        .collect();
    let error = node.node.plane.set_wildcards(&node.node.names, &many).unwrap_err();
    assert!(error.to_string().contains("at most 16 wildcards, not 17"), "{error}");
    // Nothing has changed, and 16 fit.
    assert_eq!(node.draws(&[]), 0);
    node.set(&many[..16]);
    let numbers: Vec<_> = (1..17).map(|vlan| node.draws(&[vlan])).collect();
    assert!(numbers.into_iter().eq(1..17));
    // All others in one change.
    let renamed: Vec<_> = many[1..]
        .iter()
        .map(|wildcard| Wildcard { name: format!("new {}", wildcard.name), ..wildcard.clone() })
        .collect();
    node.set(&renamed);
    assert_eq!(node.sends(HOST, &frame(mac(1), &[1], None)), None);
    assert_eq!(node.draws(&[17]), 17);
    assert!(node.read().iter().all(|reading| reading.link.host.numbered <= 1));
}

/// A sender floods one wildcard with sources: its frames pass at worst twice, and the other's entries stay.
#[test]
fn a_flood_of_sources_drops_no_frame() {
    if !can_run() {
        return;
    }
    let node = KernelNode::ready(&[axes(), all(MAX_NODES)]);
    assert!(node.accepts(A, 9, &[VLAN], 0));
    for station in 0..1000_u16 {
        let [high, low] = station.to_be_bytes();
        let source = MacAddress([2, 0, 0, 1, high, low]);
        for port in [A, B] {
            // Accepted at least once; what has no entry, twice.
            let sent = node.sends(port, &frame(source, &[], Some(station))).expect("taken");
            assert!(port == B || sent.is_some(), "{station}");
        }
        if station % 100 == 0 {
            node.read();
        }
    }
    assert!(!node.accepts(B, 9, &[VLAN], 0), "the other wildcard's source is remembered");
    let readings = node.read();
    assert!(readings[1].link.lans[0].without_entry > 0, "{:?}", readings[1].link.lans);
    assert!(
        readings[1].link.nodes.len() <= usize::from(MAX_NODES),
        "{}",
        readings[1].link.nodes.len()
    );
}
