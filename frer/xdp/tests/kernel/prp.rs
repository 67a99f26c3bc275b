//! The link redundancy entity in the kernel, compared with vectors/prp.toml and with `onbeat_frer::prp::Lre`: after each
//! frame the verdict and the octets sent are equal, in between all tables and counters.

mod aliases;
mod concurrent;
mod restart;
mod short;
mod stacks;
mod stations;
mod table;

use std::path::Path;

use onbeat_frer::prp::{DueFrames, Lan, LanPort, Lre, Outcome, Parameters, Reading};
use onbeat_frer::spec::PortId;
use onbeat_frer_xdp::Options;
use onbeat_testing::prp::{File, supervision_of};
use onbeat_wire::prp::hello::Hello;
use onbeat_wire::prp::{Tail, supervision};
use onbeat_wire::random::Random;
use onbeat_wire::{Frame, MacAddress};

use crate::harness::{Node, Program, Run, XDP_DROP, XDP_PASS, XDP_REDIRECT, can_run, pins};

const A: PortId = PortId(0);
const B: PortId = PortId(1);
const HOST: PortId = PortId(2);

const LANS: [Lan; 2] = [Lan::A, Lan::B];

const MS: u64 = 1_000_000;
const START: u64 = 1000 * MS;
/// After the silence of an entity.
const READY: u64 = START + 500 * MS;

/// The longest frame of a test run. There is no room for a trailer behind it, but before it.
const LONGEST: usize = 3520;

const MAX_NODES: u16 = 64;

fn mac(station: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, station])
}

pub(crate) fn parameters(max_nodes: u16) -> Parameters {
    Parameters {
        a: LanPort { port: A, mac: MacAddress([2, 0, 0, 0, 0xa, 77]) },
        b: LanPort { port: B, mac: MacAddress([2, 0, 0, 0, 0xb, 77]) },
        host: HOST,
        mac: mac(77),
        is_segment: false,
        entry_forget_ms: 400,
        node_forget_ms: 60_000,
        max_nodes,
    }
}

/// A frame to the host with a trailer.
fn tagged(source: MacAddress, number: u16, lan: Lan) -> Vec<u8> {
    let mut octets = untagged(source);
    octets.resize(60, 0);
    with_trailer(&octets, number, lan)
}

/// A frame to the host, padding not included.
fn untagged(source: MacAddress) -> Vec<u8> {
    [&mac(77).0[..], &source.0, &[0x88, 0xb5]].concat()
}

fn with_trailer(octets: &[u8], number: u16, lan: Lan) -> Vec<u8> {
    let tail = Tail::of(&Frame::parse(octets).unwrap(), number, lan).unwrap();
    [octets, &tail].concat()
}

/// The entity in the kernel.
struct Entity {
    node: Node,
    /// Of the ports A, B and HOST.
    programs: [Program; 3],
    now_ns: u64,
}

impl Entity {
    /// Starts an entity at `START`. `directory`: where it continues after a restart.
    fn open(parameters: &Parameters, directory: Option<&Path>) -> Self {
        let mut entity = Self::adopt(directory, START);
        entity.set(Some(parameters));
        entity
    }

    /// Starts an entity, and waits until its silence is over.
    fn ready(parameters: &Parameters) -> Self {
        let mut entity = Self::open(parameters, None);
        entity.at(START + parameters.reboot_silence_ns());
        entity
    }

    /// Opens a plane, with the entity of an earlier process if there was one.
    fn adopt(directory: Option<&Path>, now_ns: u64) -> Self {
        let options = Options {
            directory: directory.and_then(pins),
            max_streams: 1,
            test_clock: true,
            count_output: false,
        };
        let node = Node::open(3, &options);
        node.plane.set_test_clock(now_ns).unwrap();
        let programs = [0, 1, 2].map(|port| node.ingress(port));
        Self { node, programs, now_ns }
    }

    fn set(&mut self, parameters: Option<&Parameters>) {
        self.node.plane.set_lre(&self.node.names, parameters).unwrap();
        self.programs = [0, 1, 2].map(|port| self.node.ingress(port));
    }

    fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.node.plane.set_test_clock(now_ns).unwrap();
    }

    /// Returns whether the host receives a frame from a LAN.
    fn delivers(&self, lan: Lan, octets: &[u8]) -> bool {
        delivers(&self.programs[usize::from(lan == Lan::B)], octets)
    }

    /// As `delivers`, of a frame with a trailer.
    fn accepts(&self, lan: Lan, source: MacAddress, number: u16) -> bool {
        self.delivers(lan, &tagged(source, number, lan))
    }

    /// Returns the number of a frame that the host sends.
    fn draws(&self) -> u16 {
        let Run { verdict, frame, .. } = self.programs[2].run(&[], &untagged(mac(77)));
        assert_eq!(verdict, XDP_REDIRECT);
        number_of(&frame)
    }

    /// Returns tables and counters, after maintenance of the tables.
    fn read(&self) -> Reading {
        self.node.plane.read_lre().unwrap().expect("an entity")
    }
}

fn delivers(program: &Program, octets: &[u8]) -> bool {
    match program.verdict(octets) {
        XDP_REDIRECT => true,
        XDP_DROP => false,
        other => panic!("verdict {other}"),
    }
}

/// The number in the trailer of a frame.
fn number_of(frame: &[u8]) -> u16 {
    let at = frame.len() - 6;
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

/// The entity in the kernel and in user space.
struct Both {
    kernel: Entity,
    lan_b: Program,
    judge: Lre,
}

impl Both {
    fn new(parameters: &Parameters) -> Self {
        let kernel = Entity::ready(parameters);
        let lan_b = Program::of(&kernel.node.plane.lan_b_program(&kernel.node.names[1]).unwrap());
        Self { kernel, lan_b, judge: Lre::new(parameters.clone(), START) }
    }

    fn at(&mut self, now_ns: u64) {
        self.kernel.at(now_ns);
    }

    fn now_ns(&self) -> u64 {
        self.kernel.now_ns
    }

    /// Processes a frame by both; returns what was sent: by the host port, or by LAN A and LAN B.
    fn frame(&mut self, port: PortId, octets: &[u8], what: &str) -> Vec<Vec<u8>> {
        let Run { verdict, frame, .. } = self.kernel.programs[usize::from(port.0)].run(&[], octets);
        let is_group = octets[0] & 1 == 1;
        let blocked = |judge: &Lre| judge.read().lans.iter().map(|lan| lan.blocked).sum::<u64>();
        let before = blocked(&self.judge);
        match self.judge.frame(port, self.kernel.now_ns, octets) {
            Outcome::Pass => {
                assert!((verdict, &frame[..]) == (XDP_PASS, octets), "{what}: {verdict}")
            }
            Outcome::Discard if verdict == XDP_PASS => {
                // The interface's own stack receives it, and the host does not.
                let has_trailer = Frame::parse(octets).is_ok_and(|frame| frame.prp().is_ok());
                let is_blocked = blocked(&self.judge) > before;
                assert!(is_group && is_blocked && !has_trailer, "{what}: passed");
            }
            Outcome::Discard => {
                assert_eq!(verdict, XDP_DROP, "{what}: {:02x?}", &octets[..30.min(octets.len())])
            }
            Outcome::Send(copies) => {
                let sent: Vec<_> = copies.map(|copy| [copy.octets, copy.tail()].concat()).collect();
                // For the interface's own stack, which shares it with the host.
                let is_shared = port != HOST && is_group && sent[0].len() == octets.len();
                let expected = if is_shared { XDP_PASS } else { XDP_REDIRECT };
                assert_eq!(verdict, expected, "{what}");
                assert!(frame == sent[0], "{what}: other octets");
                if let Some(copy) = sent.get(1).filter(|copy| copy.len() <= LONGEST) {
                    let run = self.lan_b.run(&[], &frame);
                    assert!(
                        (run.verdict, &run.frame) == (XDP_PASS, copy),
                        "{what}: copy for LAN B"
                    );
                }
                return sent;
            }
        }
        Vec::new()
    }

    /// Sends what is due.
    fn supervise(&mut self) {
        let now_ns = self.now_ns();
        self.kernel.node.plane.supervise().unwrap();
        let DueFrames { frames, to_host, .. } = self.judge.supervise(now_ns);
        for octets in frames {
            self.judge.send(now_ns, &octets).expect("the silence has ended");
        }
        for octets in to_host {
            self.judge.send_to_host(now_ns, &octets);
        }
    }

    /// Compares tables and counters.
    fn compare(&mut self, what: &str) {
        self.judge.expire(self.kernel.now_ns);
        // Programs note no sender of another protocol.
        let other_protocol = [None; 2];
        let (found, expected) =
            (self.kernel.read(), Reading { other_protocol, ..self.judge.read() });
        assert_eq!(found.lans, expected.lans, "{what}");
        assert_eq!(found.host, expected.host, "{what}");
        for (found, expected) in found.nodes.iter().zip(&expected.nodes) {
            assert_eq!(found, expected, "{what}");
        }
        assert_eq!(found.proxies, expected.proxies, "{what}");
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn vectors_of_tails_are_sent() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    let mut drawn = 0;
    // The numbers of the vectors are those of a sender that runs for a while.
    let mut cases = File::read().tail;
    // Programs receive frames of one page.
    cases.retain(|case| case.frame_len <= LONGEST);
    cases.sort_by_key(|case| case.sequence);
    for case in cases {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.frame();
        let unheard = [&mac(9).0[..], &mac(77).0, &[0x88, 0xb5]].concat();
        let Some(tail) = case.tail() else {
            assert!(both.frame(HOST, &octets, &name).is_empty(), "{name}");
            continue;
        };
        while drawn % 65536 != u32::from(case.sequence) {
            both.judge.frame(HOST, both.now_ns(), &unheard);
            both.kernel.programs[2].verdict(&unheard);
            drawn += 1;
        }
        let sent = both.frame(HOST, &octets, &name);
        drawn += 1;
        let lan = usize::from(case.lan() == Lan::B);
        assert!(sent[lan] == [&octets[..], &tail].concat(), "{name}: other octets");
    }
    both.compare("tails");
}

#[test]
fn vectors_of_received_frames() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    for case in File::read().received {
        let name = format!("case {} ({})", case.number, case.name);
        // The numbers of former cases are forgotten.
        both.at(both.now_ns() + 1000 * MS);
        both.frame(A, &case.frame(), &name);
        both.frame(B, &case.frame(), &name);
        both.compare(&name);
    }
}

#[test]
fn vectors_of_supervision_frames() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    for case in File::read().supervision {
        let name = format!("case {} ({})", case.number, case.name);
        let header = [&supervision::DESTINATION.0[..], &mac(5).0, &[0x88, 0xfb]].concat();
        both.frame(A, &[&header[..], &case.octets()].concat(), &name);
        both.compare(&name);
    }
}

/// A random frame of a station.
fn random_frame(random: &mut Random, source: MacAddress) -> Vec<u8> {
    let destination = match random.below(20) {
        0 => MacAddress([0xff; 6]),
        1 => MacAddress([1, 0, 0x5e, 0, 0, random.below(4) as u8]),
        2 => MacAddress([1, 0x80, 0xc2, 0, 0, random.below(32) as u8]),
        3 => MacAddress([2, 0, 0, 0, 0xa + random.below(2) as u8, 77]),
        4..9 => mac(random.below(24) as u8),
        _ => mac(77),
    };
    let mut octets = [&destination.0[..], &source.0].concat();
    for _ in 0..[0, 0, 0, 1, 1, 2][random.below(6) as usize] {
        octets.extend(*random.pick(&[[0x81, 0, 0x20, 5], [0x88, 0xa8, 0, 9]]));
    }
    octets.extend(*random.pick(&[
        [0x08, 0x00],
        [0x08, 0x06],
        [0x88, 0xb5],
        [0x88, 0xf7],
        [0x88, 0xcc],
        [0x88, 0xfb],
        [0xf1, 0xc1],
        [0x89, 0x2f],
    ]));
    let length = match random.below(4) {
        0 => random.below(60),
        1 => random.below(1500),
        2 => 1490 + random.below(20),
        _ => 46,
    };
    octets.extend((0..length).map(|_| random.number() as u8));
    octets
}

/// A hello of this node or another one, at times an invalid one, or another supervision frame.
fn random_hello(random: &mut Random) -> Vec<u8> {
    // Each octet decides the order of addresses.
    let mut sender = mac(77);
    let at = random.below(6) as usize;
    sender.0[at] = sender.0[at].wrapping_add(*random.pick(&[0, 2, 254]));
    let [is_on_lan, serves] = [(); 2].map(|()| random.one_in(2));
    let hello = Hello { sender, number: random.number() as u16, is_on_lan, serves };
    let mut octets = hello.emit().to_vec();
    match random.below(8) {
        0 => octets.truncate(octets.len() - 1),
        1 => {
            let at = random.below(octets.len() as u64) as usize;
            octets[at] ^= 1 << random.below(8);
        }
        2 => octets = supervision_of(sender, sender, Some(sender)),
        _ => octets.resize(60, 0),
    }
    octets
}

#[test]
fn random_frames() {
    if !can_run() {
        return;
    }
    const WORLDS: u64 = 20;
    for seed in 0..WORLDS {
        let mut random = Random::new(0x6243_9003 + seed);
        let entry_forget_ms = *random.pick(&[40, 400, 2000]);
        let is_segment = random.one_in(2);
        let parameters = Parameters { entry_forget_ms, is_segment, ..parameters(MAX_NODES) };
        let mut both = Both::new(&parameters);
        let mut numbers = [(); 24].map(|()| random.number() as u16);
        let mut returned: Vec<Vec<u8>> = Vec::new();
        for n in 0..crate::frame_count(200_000) / WORLDS {
            let what = format!("seed {seed}, frame {n}");
            if random.one_in(3) {
                let step = random.below(u64::from(entry_forget_ms) * MS / 50);
                both.at(both.now_ns() + step);
            }
            if random.one_in(2000) {
                let forget = u64::from(entry_forget_ms) * MS;
                both.at(both.now_ns() + forget * random.below(5) / 2);
            }
            let source = random.below(24) as u8;
            if random.one_in(4) {
                // 16 to 23: stations behind the host port.
                let source = if source < 16 { 77 } else { source };
                if is_segment && seed % 4 < 2 && random.one_in(500) {
                    let octets = random_hello(&mut random);
                    both.frame(HOST, &octets, &what);
                    both.compare(&what);
                    if random.one_in(3) {
                        both.supervise();
                    }
                    continue;
                }
                let mut octets = random_frame(&mut random, mac(source));
                if random.one_in(20) {
                    let length = LONGEST - random.below(10) as usize;
                    octets.extend((octets.len()..length).map(|at| at as u8));
                }
                let sent = both.frame(HOST, &octets, &what);
                returned.extend(sent.into_iter().filter(|octets| octets.len() <= LONGEST));
                continue;
            }
            let lan = random.below(2) as usize;
            let port = [A, B][lan];
            if random.one_in(200) {
                let redbox = random.one_in(2).then(|| mac(random.below(4) as u8));
                let node = mac(if random.one_in(8) { 77 } else { random.below(24) as u8 });
                let octets = supervision_of(mac(source), node, redbox);
                both.frame(port, &octets, &what);
                both.compare(&what);
                continue;
            }
            if random.one_in(20) && !returned.is_empty() {
                // A loop, or the other LAN's copy.
                let at = random.below(returned.len() as u64) as usize;
                let octets = returned.swap_remove(at);
                both.frame(port, &octets, &what);
                returned.truncate(100);
                continue;
            }
            let sender = mac(if random.one_in(500) { 77 } else { source });
            let octets = random_frame(&mut random, sender);
            if source < 4 {
                both.frame(port, &octets, &what);
                continue;
            }
            // Late copies, repetitions, jumps; stations 4 to 7 are on one LAN only.
            let number = &mut numbers[usize::from(source)];
            *number = match random.below(400) {
                0 => random.number() as u16,
                1 => number.wrapping_add(32_760).wrapping_add(random.below(16) as u16),
                _ => number.wrapping_add(1),
            };
            let back = if random.one_in(2) { random.below(64) as u16 } else { 0 };
            let marked = [Lan::A, Lan::B][if random.one_in(50) { 1 - lan } else { lan }];
            let Some(tail) = Frame::parse(&octets)
                .ok()
                .and_then(|frame| Tail::of(&frame, number.wrapping_sub(back), marked))
            else {
                continue;
            };
            let mut octets = [&octets[..], &tail].concat();
            if random.one_in(50) {
                let length = 14 + random.below(octets.len() as u64 - 14) as usize;
                octets.truncate(length);
            }
            if random.one_in(50) {
                let at = octets.len() - 1 - random.below(6) as usize;
                octets[at] ^= 1 << random.below(8);
            }
            both.frame(port, &octets, &what);
            if random.one_in(2) && source >= 8 {
                both.frame([B, A][lan], &octets, &what);
            }
            if random.one_in(500) {
                both.compare(&what);
            }
        }
        both.compare(&format!("seed {seed}"));
    }
}
