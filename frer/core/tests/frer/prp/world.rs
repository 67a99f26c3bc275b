//! Simulated hosts, RedBoxes and singly attached stations on two LANs, and an oracle by the identity of frames.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use onbeat_frer::prp::{DueFrames, Lre, Outcome};
use onbeat_wire::random::Random;
use onbeat_wire::{Frame, MacAddress};

use super::{
    BROADCAST, HOST, LANS, MS, Parameters, S, check_balance, frame, in_vlan, interface, mac,
    parameters,
};

/// The duplicate discard of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Discard {
    Entity,
    Off,
    /// As in Linux before 2026: of each LAN, the numbers from the start of a window to the newest one.
    DropWindow,
}

#[derive(Debug, Clone, Copy, Default)]
struct DropWindow {
    start: [u16; 2],
    expected: [u16; 2],
}

impl DropWindow {
    fn accept(&mut self, lan: usize, number: u16) -> bool {
        let other = 1 - lan;
        let width = self.expected[other].wrapping_sub(self.start[other]);
        let is_first = number.wrapping_sub(self.start[other]) >= width;
        self.expected[lan] = number.wrapping_add(1);
        if is_first {
            self.start[other] = self.expected[other];
        } else {
            self.start[other] = number.wrapping_add(1);
            self.start[lan] = self.expected[lan];
        }
        is_first
    }
}

/// Properties of a world.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) discard: Discard,
    pub(super) frames: u64,
    /// Mean time between frames.
    pub(super) interval_ns: u64,
    pub(super) forget_ms: u32,
    /// Least and additional random delay of each LAN.
    pub(super) delay_ns: [(u64, u64); 2],
    /// Lost copies of each LAN.
    pub(super) loss: [f64; 2],
    pub(super) duplication: f64,
    pub(super) is_connected: bool,
    pub(super) has_crossed: bool,
    pub(super) restarts: bool,
    pub(super) cuts: bool,
}

impl Plan {
    pub(super) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let forget_ms = *random.pick(&[40, 400]);
        let most_ns = u64::from(forget_ms) * MS;
        // Sometimes more than the forget time: then twice, but not never.
        let mut delay = || (random.below(most_ns / 3), random.below(most_ns / 3) + 1);
        let delay_ns = [delay(), delay()];
        Self {
            seed,
            discard: Discard::Entity,
            frames: 9000,
            interval_ns: *random.pick(&[30_000, 300_000, 2_000_000]),
            forget_ms,
            delay_ns,
            loss: [(); 2].map(|()| random.pick(&[0.0, 0.2, 0.8]) * random.uniform()),
            duplication: *random.pick(&[0.0, 0.1]),
            is_connected: random.one_in(3),
            has_crossed: random.one_in(3),
            restarts: random.one_in(2),
            cuts: random.one_in(2),
        }
    }
}

#[derive(Debug)]
struct Node {
    lre: Lre,
    number: u16,
    /// Stations behind the host port; the host itself is the first.
    stations: Vec<MacAddress>,
    starts_ns: Vec<u64>,
    silence_ns: u64,
    windows: BTreeMap<MacAddress, DropWindow>,
    /// The LAN at each port.
    lans: [usize; 2],
    down_until_ns: [u64; 2],
}

impl Node {
    fn is_starting(&self, now_ns: u64) -> bool {
        let silence_ns = self.silence_ns;
        self.number > 1
            && self.starts_ns.iter().any(|at_ns| (*at_ns..at_ns + silence_ns).contains(&now_ns))
    }

    fn restarted_within(&self, from_ns: u64, to_ns: u64) -> bool {
        self.starts_ns.iter().any(|at_ns| (from_ns..=to_ns).contains(at_ns))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attachment {
    /// A host, or a station behind a RedBox.
    Node(usize),
    San(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    arrivals: u32,
    first_ns: u64,
    last_ns: u64,
    delivered: u32,
    passed: u32,
}

#[derive(Debug)]
struct SentFrame {
    octets: Vec<u8>,
    at_ns: u64,
    from: Attachment,
    /// The network stack of this interface receives it, on this LAN.
    stack: Option<(usize, usize)>,
    is_link_local: bool,
    fates: Vec<Fate>,
}

/// The result of a world.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) checked: u64,
    pub(super) lost: u64,
    pub(super) twice: u64,
    pub(super) returned: u64,
    pub(super) passed: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival { node: usize, port: usize, octets: Rc<[u8]> },
    Supervision(usize),
}

pub(super) struct World {
    plan: Plan,
    random: Random,
    nodes: Vec<Node>,
    sans: Vec<(MacAddress, usize)>,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
    sent: Vec<SentFrame>,
    /// Frames that entities and singly attached stations sent on a LAN.
    on_lans: u64,
    host_frames: u64,
}

impl World {
    pub(super) fn run(plan: &Plan) -> Verdict {
        let mut random = Random::new(plan.seed ^ 0x5eed);
        // Near the point where the periods of the discard wrap around, or anywhere.
        let period_ns = u64::from(plan.forget_ms) * MS / 2;
        let start_ns = if random.one_in(2) { (period_ns << 20) - 2 * S } else { random.below(S) };
        let mut world = Self {
            plan: plan.clone(),
            random,
            nodes: Vec::new(),
            sans: Vec::new(),
            queue: BinaryHeap::new(),
            serial: 0,
            sent: Vec::new(),
            on_lans: 0,
            host_frames: 0,
        };
        world.build(start_ns);
        let mut now_ns = start_ns + S;
        while (world.sent.len() as u64) < plan.frames {
            now_ns += world.random.below(2 * plan.interval_ns);
            world.process(now_ns);
            world.disturb(now_ns);
            world.send(now_ns);
        }
        world.process(u64::MAX);
        // A storm would multiply them.
        assert!(world.on_lans <= 2 * world.host_frames + world.sent.len() as u64);
        for node in &world.nodes {
            if plan.discard == Discard::Entity {
                check_balance(&node.lre.read());
            }
        }
        world.judge()
    }

    fn build(&mut self, now_ns: u64) {
        let entry_forget_ms = self.plan.forget_ms;
        let silence_ns = Parameters { entry_forget_ms, ..parameters(0) }.reboot_silence_ns();
        let hosts = 2 + self.random.below(3) as u16;
        for number in 1..=hosts {
            let lre = self.entity(number, now_ns);
            let stations = if number == 1 || self.random.one_in(2) { 1 } else { 3 };
            let stations = (0..stations).map(|station| mac(number + 100 * station)).collect();
            let lans = if number == 2 && self.plan.has_crossed { [1, 0] } else { [0, 1] };
            self.nodes.push(Node {
                lre,
                number,
                stations,
                starts_ns: vec![now_ns],
                silence_ns,
                windows: BTreeMap::new(),
                lans,
                down_until_ns: [0; 2],
            });
            self.push(now_ns + S, Event::Supervision(usize::from(number) - 1));
        }
        for san in 0..self.random.below(3) as u16 {
            self.sans.push((mac(1000 + san), usize::from(san) % 2));
        }
        // Near the wrap of one sender's numbers.
        let node = &mut self.nodes[0];
        let (unheard, at_ns) = (frame(mac(9), node.stations[0], 0), now_ns + 999 * MS);
        for _ in 0..65_536 - 100 - self.random.below(1000) {
            node.lre.frame(HOST, at_ns, &unheard);
        }
        self.host_frames += 65_536;
    }

    fn entity(&self, number: u16, now_ns: u64) -> Lre {
        let is_segment = number > 1;
        let entry_forget_ms = self.plan.forget_ms;
        Lre::new(Parameters { is_segment, entry_forget_ms, ..parameters(number) }, now_ns)
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.serial += 1;
        self.queue.push(Reverse((at_ns, self.serial, event)));
    }

    fn disturb(&mut self, now_ns: u64) {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        if self.plan.restarts && self.random.one_in(3000) {
            let lre = self.entity(self.nodes[at].number, now_ns);
            let node = &mut self.nodes[at];
            node.lre = lre;
            node.starts_ns.push(now_ns);
        }
        if self.plan.cuts && self.random.one_in(100) {
            let port = self.random.below(2) as usize;
            self.nodes[at].down_until_ns[port] = now_ns + self.random.below(200 * MS);
        }
    }

    /// A frame of a random station to a random destination.
    fn send(&mut self, now_ns: u64) {
        let nodes = 0..self.nodes.len();
        let stations: Vec<_> = nodes
            .flat_map(|at| {
                self.nodes[at].stations.iter().map(move |mac| (*mac, Attachment::Node(at)))
            })
            .chain(self.sans.iter().enumerate().map(|(at, san)| (san.0, Attachment::San(at))))
            .collect();
        let (source, from) = *self.random.pick(&stations);
        let (mut stack, mut is_link_local) = (None, false);
        let destination = match self.random.below(100) {
            0..60 => self.random.pick(&stations).0,
            60..75 => MacAddress([1, 0, 0x5e, 0, 0, 1]),
            75..96 => BROADCAST,
            _ => match from {
                Attachment::San(at) if self.random.one_in(2) => {
                    let lan = self.sans[at].1;
                    let node = self.random.below(self.nodes.len() as u64) as usize;
                    let port = self.nodes[node].lans.iter().position(|at| *at == lan).unwrap();
                    stack = Some((node, port));
                    interface(port, self.nodes[node].number)
                }
                _ => {
                    is_link_local = true;
                    MacAddress([1, 0x80, 0xc2, 0, 0, self.random.below(16) as u8])
                }
            },
        };
        let mut octets = frame(destination, source, self.sent.len() as u64);
        octets.resize(octets.len() + self.random.below(80) as usize, 0x55);
        if self.random.one_in(4) {
            octets = in_vlan(&octets, 5);
        }
        let fates = vec![Fate::default(); self.nodes.len()];
        self.sent.push(SentFrame {
            octets: octets.clone(),
            at_ns: now_ns,
            from,
            stack,
            is_link_local,
            fates,
        });
        match from {
            Attachment::San(at) => self.flood(now_ns, None, self.sans[at].1, octets.into()),
            Attachment::Node(node) => {
                self.host_frames += 1;
                let outcome = self.nodes[node].lre.frame(HOST, now_ns, &octets);
                let Outcome::Send(copies) = outcome else { return };
                let copies: Vec<_> =
                    copies.map(|copy| (copy.port, [copy.octets, copy.tail()].concat())).collect();
                self.send_copies(now_ns, node, copies);
            }
        }
    }

    fn send_copies(
        &mut self,
        now_ns: u64,
        node: usize,
        copies: Vec<(onbeat_frer::spec::PortId, Vec<u8>)>,
    ) {
        for (port, octets) in copies {
            let port = LANS.iter().position(|lan| *lan == port).expect("a LAN");
            if now_ns >= self.nodes[node].down_until_ns[port] {
                let lan = self.nodes[node].lans[port];
                self.flood(now_ns, Some((node, port)), lan, octets.into());
            }
        }
    }

    /// The switch of a LAN floods a frame, also into the other LAN if they are connected.
    fn flood(&mut self, now_ns: u64, from: Option<(usize, usize)>, lan: usize, octets: Rc<[u8]>) {
        self.on_lans += 1;
        for at in 0..self.nodes.len() {
            for port in 0..2 {
                let there = self.nodes[at].lans[port];
                if from == Some((at, port)) || there != lan && !self.plan.is_connected {
                    continue;
                }
                let copies = 1 + u64::from(self.random.chance(self.plan.duplication));
                for _ in 0..copies {
                    if self.random.chance(self.plan.loss[lan]) {
                        continue;
                    }
                    let (least, more) = self.plan.delay_ns[lan];
                    let at_ns = now_ns + least + self.random.below(more);
                    self.push(at_ns, Event::Arrival { node: at, port, octets: octets.clone() });
                }
            }
        }
    }

    fn process(&mut self, until_ns: u64) {
        while self.queue.peek().is_some_and(|Reverse((at_ns, ..))| *at_ns <= until_ns) {
            let Some(Reverse((now_ns, _, event))) = self.queue.pop() else { return };
            match event {
                Event::Arrival { node, port, octets } => self.arrive(now_ns, node, port, &octets),
                Event::Supervision(at) if until_ns < u64::MAX => {
                    let lre = &mut self.nodes[at].lre;
                    let DueFrames { frames, next_ms, .. } = lre.supervise(now_ns);
                    self.host_frames += frames.len() as u64;
                    for frame in frames {
                        let Some(copies) = self.nodes[at].lre.send(now_ns, &frame) else {
                            continue;
                        };
                        let copies = copies
                            .map(|copy| (copy.port, [copy.octets, copy.tail()].concat()))
                            .collect();
                        self.send_copies(now_ns, at, copies);
                    }
                    self.nodes[at].lre.expire(now_ns);
                    self.push(now_ns + u64::from(next_ms) * MS, Event::Supervision(at));
                }
                Event::Supervision(_) => {}
            }
        }
    }

    fn arrive(&mut self, now_ns: u64, at: usize, port: usize, octets: &[u8]) {
        let node = &mut self.nodes[at];
        if now_ns < node.down_until_ns[port] {
            return;
        }
        let parsed = Frame::parse(octets).unwrap();
        let id = (parsed.ethertype().0 == 0x88b5).then(|| {
            let start = parsed.payload_offset();
            u64::from_be_bytes(octets[start..start + 8].try_into().unwrap()) as usize
        });
        if let Some(id) = id {
            let fate = &mut self.sent[id].fates[at];
            if fate.arrivals == 0 {
                fate.first_ns = now_ns;
            }
            (fate.arrivals, fate.last_ns) = (fate.arrivals + 1, now_ns);
        }
        let delivered = match (self.plan.discard, parsed.prp()) {
            (Discard::Entity, _) | (_, Err(_)) => {
                match node.lre.frame(LANS[port], now_ns, octets) {
                    Outcome::Discard => return,
                    Outcome::Pass => {
                        self.sent[id.expect("no supervision frame")].fates[at].passed += 1;
                        return;
                    }
                    Outcome::Send(mut copies) => {
                        let copy = copies.next().expect("a copy");
                        assert!(copies.next().is_none());
                        assert_eq!(
                            (copy.port, copy.tail()),
                            (HOST, &[][..]),
                            "never from LAN to LAN"
                        );
                        copy.octets
                    }
                }
            }
            (_, Ok(_)) if node.stations.contains(&parsed.source()) || id.is_none() => return,
            (Discard::Off, Ok(trailer)) => &octets[..octets.len() - trailer.buffer_len()],
            (Discard::DropWindow, Ok(trailer)) => {
                let window = node.windows.entry(parsed.source()).or_default();
                if !window.accept(port, trailer.sequence) {
                    return;
                }
                &octets[..octets.len() - trailer.buffer_len()]
            }
        };
        let id = id.expect("supervision frames end here");
        let sent = &mut self.sent[id];
        let (content, padding) = delivered.split_at(sent.octets.len());
        assert!(content == sent.octets && padding.iter().all(|octet| *octet == 0), "frame {id}");
        sent.fates[at].delivered += 1;
    }

    /// Compares deliveries with arrivals.
    fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let forget_ns = u64::from(self.plan.forget_ms) * MS;
        let late_ns = self.plan.delay_ns.iter().map(|(least, more)| least + more).max().unwrap();
        for sent in &self.sent {
            for (at, (node, fate)) in self.nodes.iter().zip(&sent.fates).enumerate() {
                let Fate { arrivals, first_ns, last_ns, delivered, passed } = *fate;
                if arrivals == 0 {
                    continue;
                }
                verdict.checked += 1;
                if sent.is_link_local {
                    assert_eq!((passed, delivered), (arrivals, 0));
                    verdict.passed += 1;
                } else if [first_ns, last_ns].iter().any(|at_ns| node.is_starting(*at_ns)) {
                    // A RedBox delivers nothing yet.
                    verdict.checked -= 1;
                } else if passed > 0 {
                    assert_eq!(sent.stack.map(|(at, _)| at), Some(at));
                    // With connected LANs also by the other port, where it is a frame like others.
                    assert_eq!(passed + delivered, arrivals);
                    verdict.passed += 1;
                } else if sent.from == Attachment::Node(at) {
                    // The host's own by the address; those of other stations by recent numbers, until one
                    // returns so late that its station seems to have moved.
                    let is_promised = sent.octets[6..12] == node.stations[0].0
                        || late_ns < forget_ns / 2 && !node.restarted_within(sent.at_ns, last_ns);
                    verdict.returned += u64::from(is_promised && delivered > 0);
                } else if let Attachment::San(_) = sent.from {
                    assert_eq!(delivered, arrivals, "delivered whole");
                } else {
                    verdict.lost += u64::from(delivered == 0);
                    let is_restarted = node.restarted_within(first_ns, last_ns);
                    let is_promised = last_ns - first_ns < forget_ns / 2 && !is_restarted;
                    verdict.twice += u64::from(is_promised && delivered > 1);
                }
            }
        }
        verdict
    }
}
