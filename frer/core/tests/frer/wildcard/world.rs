//! Random worlds of nodes with wildcards and a named stream on two paths, and an oracle by the identity of frames.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use onbeat_frer::plane::Plane;
use onbeat_frer::wildcard::{Scope, Wildcard};
use onbeat_wire::random::Random;
use onbeat_wire::{Frame, MacAddress};

use super::{
    A, B, BROADCAST, HOST, MS, NAMED, PORTS, READY, check_balance, frame, in_vlan, link, mac,
    named, process,
};

const VLAN: u8 = 5;

#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    frames: u64,
    /// Mean time between frames.
    interval_ns: u64,
    forget_ms: u32,
    /// Least and additional random delay of each path.
    delay_ns: [(u64, u64); 2],
    /// Lost copies of each path.
    loss: [f64; 2],
    duplication: f64,
    is_connected: bool,
}

impl Plan {
    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let forget_ms = *random.pick(&[40, 400]);
        let most_ns = u64::from(forget_ms) * MS;
        // Sometimes more than half the forget time: then perhaps twice, but not never.
        let mut delay = || (random.below(most_ns / 3), random.below(most_ns / 3) + 1);
        let delay_ns = [delay(), delay()];
        Self {
            seed,
            frames: 9000,
            interval_ns: *random.pick(&[30_000, 300_000, 2_000_000]),
            forget_ms,
            delay_ns,
            loss: [(); 2].map(|()| random.pick(&[0.0, 0.2, 0.8]) * random.uniform()),
            duplication: *random.pick(&[0.0, 0.1]),
            is_connected: random.one_in(3),
        }
    }
}

#[derive(Debug)]
struct Node {
    plane: Plane,
    /// Of its wildcards.
    scopes: Vec<Scope>,
    /// Stations behind the host port; the host itself is the first.
    stations: Vec<MacAddress>,
}

impl Node {
    fn takes(&self, octets: &[u8]) -> bool {
        let frame = Frame::parse(octets).unwrap();
        frame.destination() == NAMED || self.scopes.iter().any(|scope| scope.contains(&frame))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    arrivals: u32,
    first_ns: u64,
    last_ns: u64,
    delivered: u32,
}

#[derive(Debug)]
struct SentFrame {
    octets: Vec<u8>,
    /// `None`: a station without R-TAGs, on a path.
    from: Option<usize>,
    fates: Vec<Fate>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    checked: u64,
    lost: u64,
    twice: u64,
    returned: u64,
    /// Frames of a path's own stack that a node took.
    taken: u64,
    /// Named frames among those checked.
    named: u64,
}

/// An arrival: time, serial number, node, path, octets.
type Arrival = Reverse<(u64, u64, usize, usize, Vec<u8>)>;

struct World {
    plan: Plan,
    random: Random,
    nodes: Vec<Node>,
    arrivals: BinaryHeap<Arrival>,
    serial: u64,
    sent: Vec<SentFrame>,
    on_paths: u64,
}

impl World {
    fn run(plan: &Plan) -> Verdict {
        let mut random = Random::new(plan.seed ^ 0x5eed);
        // Near the point where the periods of the discard wrap around, or anywhere.
        let period_ns = u64::from(plan.forget_ms) * MS / 2;
        let start_ns =
            if random.one_in(2) { (period_ns << 20) - 2000 * MS } else { random.below(1000 * MS) };
        let count = 2 + random.below(3) as u16;
        let nodes = (1..=count).map(|number| node(&mut random, plan, number, start_ns)).collect();
        let mut world = Self {
            plan: plan.clone(),
            random,
            nodes,
            arrivals: BinaryHeap::new(),
            serial: 0,
            sent: Vec::new(),
            on_paths: 0,
        };
        let mut now_ns = start_ns + READY;
        while (world.sent.len() as u64) < plan.frames {
            now_ns += world.random.below(2 * plan.interval_ns);
            world.process(now_ns);
            world.send(now_ns);
        }
        world.process(u64::MAX);
        // A storm would multiply them.
        assert!(world.on_paths <= 2 * world.sent.len() as u64);
        for node in &world.nodes {
            let readings = node.plane.read_wildcards(now_ns);
            readings.iter().for_each(|reading| check_balance(&reading.link));
        }
        world.judge()
    }

    fn send(&mut self, now_ns: u64) {
        let from = self.random.below(self.nodes.len() as u64 + 1) as usize;
        let from = (from < self.nodes.len()).then_some(from);
        let source = match from {
            Some(at) => *self.random.pick(&self.nodes[at].stations),
            None => mac(2000),
        };
        let destination = match self.random.below(10) {
            0..5 => mac(1 + self.random.below(self.nodes.len() as u64) as u16),
            5..7 => BROADCAST,
            // A stream has one talker.
            7..9 if from == Some(0) => NAMED,
            _ => MacAddress([1, 0, 0x5e, 0, 0, 1]),
        };
        let mut octets = frame(destination, source, self.sent.len() as u64);
        octets.resize(octets.len() + self.random.below(80) as usize, 0x55);
        if self.random.one_in(3) {
            octets = in_vlan(&octets, *self.random.pick(&[VLAN, VLAN + 1]));
        }
        let fates = vec![Fate::default(); self.nodes.len()];
        self.sent.push(SentFrame { octets: octets.clone(), from, fates });
        let Some(at) = from else {
            let path = self.random.below(2) as usize;
            return self.flood(now_ns, None, path, &octets);
        };
        let takes = self.nodes[at].takes(&octets);
        let sent = process(&mut self.nodes[at].plane, HOST, now_ns, &octets);
        assert_eq!(sent.as_ref().map_or(0, Vec::len), if takes { 2 } else { 0 });
        for (port, copy) in sent.into_iter().flatten() {
            let path = usize::from(port == B);
            self.flood(now_ns, Some((at, path)), path, &copy);
        }
    }

    /// The switch of a path floods a frame, also into the other path if they are connected.
    fn flood(&mut self, now_ns: u64, from: Option<(usize, usize)>, path: usize, octets: &[u8]) {
        self.on_paths += 1;
        for at in 0..self.nodes.len() {
            for there in 0..2 {
                if from == Some((at, there)) || there != path && !self.plan.is_connected {
                    continue;
                }
                for _ in 0..1 + u64::from(self.random.chance(self.plan.duplication)) {
                    if self.random.chance(self.plan.loss[path]) {
                        continue;
                    }
                    let (least, more) = self.plan.delay_ns[path];
                    let at_ns = now_ns + least + self.random.below(more);
                    self.serial += 1;
                    self.arrivals.push(Reverse((at_ns, self.serial, at, there, octets.to_vec())));
                }
            }
        }
    }

    fn process(&mut self, until_ns: u64) {
        while self.arrivals.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= until_ns) {
            let Some(Reverse((now_ns, _, at, path, octets))) = self.arrivals.pop() else { return };
            let parsed = Frame::parse(&octets).unwrap();
            let start = parsed.payload_offset();
            let id = u64::from_be_bytes(octets[start..start + 8].try_into().unwrap()) as usize;
            let fate = &mut self.sent[id].fates[at];
            if fate.arrivals == 0 {
                fate.first_ns = now_ns;
            }
            (fate.arrivals, fate.last_ns) = (fate.arrivals + 1, now_ns);
            let delivered = process(&mut self.nodes[at].plane, [A, B][path], now_ns, &octets);
            for (port, octets) in delivered.into_iter().flatten() {
                assert_eq!(port, HOST, "never from path to path");
                assert_eq!(octets, self.sent[id].octets);
                self.sent[id].fates[at].delivered += 1;
            }
        }
    }

    /// Compares deliveries with arrivals.
    fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let forget_ns = u64::from(self.plan.forget_ms) * MS;
        let late_ns = self.plan.delay_ns.iter().map(|(least, more)| least + more).max().unwrap();
        for sent in &self.sent {
            let is_named = sent.octets[..6] == NAMED.0;
            for (at, (node, fate)) in self.nodes.iter().zip(&sent.fates).enumerate() {
                let Fate { arrivals, first_ns, last_ns, delivered } = *fate;
                if arrivals == 0 {
                    continue;
                }
                if sent.from.is_none() || !node.takes(&sent.octets) {
                    verdict.taken += u64::from(delivered);
                    continue;
                }
                verdict.checked += 1;
                verdict.named += u64::from(is_named);
                if sent.from == Some(at) {
                    // Frames of a stream return to their talker by the stream, in FRER too.
                    let is_promised = !is_named
                        && (sent.octets[6..12] == node.stations[0].0 || late_ns < forget_ns / 2);
                    verdict.returned += u64::from(is_promised && delivered > 0);
                    continue;
                }
                verdict.lost += u64::from(delivered == 0);
                let is_promised = is_named || last_ns - first_ns < forget_ns / 2;
                verdict.twice += u64::from(is_promised && delivered > 1);
            }
        }
        verdict
    }
}

/// A node with a wildcard for all frames, for a VLAN, or both.
fn node(random: &mut Random, plan: &Plan, number: u16, start_ns: u64) -> Node {
    let vlan = Scope::Vlan(VLAN.into());
    let scopes = random.pick(&[vec![Scope::All], vec![vlan], vec![vlan, Scope::All]]).clone();
    let is_segment = number > 1;
    let wildcard = |scope: &Scope| Wildcard {
        name: format!("{scope:?}"),
        scope: *scope,
        link: onbeat_frer::prp::Parameters {
            entry_forget_ms: plan.forget_ms,
            is_segment,
            ..link(number, HOST, [A, B])
        },
    };
    let wildcards: Vec<_> = scopes.iter().map(wildcard).collect();
    let mut plane = Plane::new(PORTS);
    plane.set_wildcards(&wildcards, start_ns);
    named().iter().for_each(|stream| plane.set(stream).unwrap());
    let stations = if number == 1 || random.one_in(2) { 1 } else { 3 };
    let stations = (0..stations).map(|station| mac(number + 100 * station)).collect();
    Node { plane, scopes, stations }
}

#[test]
fn random_worlds_lose_no_frame_and_deliver_none_twice() {
    let mut sums = Verdict::default();
    for seed in 0..32 {
        let plan = Plan::random(seed);
        let verdict = World::run(&plan);
        let Verdict { lost, twice, returned, taken, .. } = verdict;
        assert_eq!((lost, twice, returned, taken), (0, 0, 0, 0), "{plan:?}: {verdict:?}");
        sums.checked += verdict.checked;
        sums.named += verdict.named;
    }
    assert!(sums.checked > 200_000 && sums.named > 5000, "{sums:?}");
}

#[test]
fn connected_paths_make_no_storm() {
    for seed in 100..104 {
        let plan = Plan { is_connected: true, duplication: 0.3, ..Plan::random(seed) };
        let Verdict { lost, twice, returned, taken, .. } = World::run(&plan);
        assert_eq!((lost, twice, returned, taken), (0, 0, 0, 0), "{plan:?}");
    }
}
