//! At least a million packets through the programs in the kernel and through `onbeat_frer`: after each packet
//! the verdict and all counters of its stream are equal, after each world those of all its streams.
//!
//! A world is a set of random streams that share a clock. The sequence recovery functions of all worlds
//! together have every possible history length.

use onbeat_frer::counters::Counters;
use onbeat_frer::generate::SequenceGenerator;
use onbeat_frer::reading::{RecoveryReading, StreamReading};
use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::{Algorithm, MAX_HISTORY, Recovery, Role, Stream};
use onbeat_wire::random::Random;

use crate::harness::{
    Node, Program, XDP_DROP, XDP_REDIRECT, can_run, frame, member, stream, talker,
};

const SEED: u64 = 0x802_1cb;
const PORTS: usize = 3;
const STREAMS: usize = 8;
const PACKETS_PER_STREAM: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;

/// Returns the number of packets; `ONBEAT_DIFFERENTIAL_PACKETS` increases it.
fn packet_count() -> u64 {
    let asked = std::env::var("ONBEAT_DIFFERENTIAL_PACKETS").ok();
    asked.map_or(0, |text| text.parse().expect("a number of packets")).max(1_000_000)
}

/// One stream in both implementations.
struct Pair {
    name: String,
    vid: u16,
    stream: Stream,
    generate: Option<SequenceGenerator>,
    individual: Vec<Option<RecoveryFunction>>,
    sequence: Option<RecoveryFunction>,
    input: Vec<u64>,
    enc_errored: Vec<u64>,
    output: u64,
    /// The longest history of its functions.
    length: i64,
    highest: u16,
    last: u16,
}

/// Up to here, each history length occurs.
const EACH_LENGTH: u16 = 1024;

/// Returns history lengths in an order that mixes short and long, each once in 1,023.
fn nth_length(n: u64) -> u16 {
    2 + (n * 389 % u64::from(EACH_LENGTH - 1)) as u16
}

/// Returns a long history, for one stream of a world.
fn long_length(random: &mut Random) -> u16 {
    *random.pick(&[1025, 2047, 2048, 5000, 32_767, MAX_HISTORY])
}

fn recovery(random: &mut Random, history_length: Option<u16>) -> Recovery {
    let algorithm = match history_length {
        Some(history_length) => Algorithm::Vector { history_length },
        None if random.one_in(4) => Algorithm::Match,
        None => {
            let length = [2, 3, 8, 63, 64, 65, 127, 128, 129, 1023, 1024];
            Algorithm::Vector { history_length: *random.pick(&length) }
        }
    };
    let reset_timeout_ms = if random.one_in(3) { 0 } else { random.between(1, 50) as u32 };
    let take_no_sequence = random.one_in(2);
    Recovery { algorithm, reset_timeout_ms, take_no_sequence, ..Recovery::vector(2) }
}

fn length(recovery: &Recovery) -> i64 {
    match recovery.algorithm {
        Algorithm::Vector { history_length } => history_length.into(),
        Algorithm::Match => 2,
    }
}

impl Pair {
    fn random(random: &mut Random, index: usize, vectors: &mut u64) -> Self {
        let (name, vid) = (format!("stream{index}"), 10 + index as u16);
        let members = random.between(1, PORTS as i64) as u8;
        let stream = if random.one_in(10) {
            talker(&name, (0..members).map(|port| member(port, vid, None)).collect())
        } else {
            let sequence = if random.one_in(8) {
                None
            } else {
                *vectors += 1;
                let nth = nth_length(*vectors);
                let is_long = index == 0 && random.one_in(2);
                let length = if is_long { long_length(random) } else { nth };
                Some(recovery(random, Some(length)))
            };
            let mut individual =
                || (sequence.is_none() || random.one_in(3)).then(|| recovery(random, None));
            let members = (0..members).map(|port| member(port, vid, individual())).collect();
            stream(&name, members, sequence)
        };
        let function =
            |config: &Recovery, role| RecoveryFunction::new(config, role).expect("valid");
        let individual: Vec<Option<Recovery>> =
            stream.members.iter().map(|m| m.individual).collect();
        let lengths = individual.iter().flatten().chain(&stream.recover).map(length);
        let highest = if random.one_in(3) { 65_500 } else { random.number() as u16 };
        Self {
            name,
            vid,
            length: lengths.max().unwrap_or(2),
            generate: stream.generate.then(SequenceGenerator::new),
            sequence: stream.recover.map(|config| function(&config, Role::Sequence)),
            input: vec![0; individual.len()],
            enc_errored: vec![0; individual.len()],
            individual: individual
                .iter()
                .map(|config| config.as_ref().map(|config| function(config, Role::Individual)))
                .collect(),
            output: 0,
            highest,
            last: highest,
            stream,
        }
    }

    /// Returns the verdict of the model.
    fn packet(&mut self, member: usize, now_ns: u64, number: Option<u16>) -> bool {
        self.input[member] += 1;
        let passes = |function: &mut Option<RecoveryFunction>| {
            function.as_mut().is_none_or(|function| function.packet(now_ns, number).is_accept())
        };
        let accepted = passes(&mut self.individual[member]) && passes(&mut self.sequence);
        if accepted {
            if let (Some(generate), None) = (&mut self.generate, number) {
                generate.next();
            }
            self.output += 1;
        }
        accepted
    }

    fn functions(&mut self) -> impl Iterator<Item = &mut RecoveryFunction> {
        self.individual.iter_mut().flatten().chain(&mut self.sequence)
    }

    fn compare(&self, reading: &StreamReading, context: &dyn Fn() -> String) {
        let counters =
            |function: &Option<RecoveryFunction>| function.as_ref().map(|f| f.counters());
        let read = |reading: &Option<RecoveryReading>| reading.map(|r| r.counters);
        let same = |a: Option<Counters>, b: Option<Counters>, what: &str| {
            assert_eq!(a, b, "{what}, kernel left, user space right; {}", context());
        };
        same(read(&reading.recovery), counters(&self.sequence), "sequence recovery");
        for (index, member) in reading.members.iter().enumerate() {
            same(
                read(&member.individual),
                counters(&self.individual[index]),
                "individual recovery",
            );
            let expected = (self.input[index], self.enc_errored[index]);
            assert_eq!((member.input, member.enc_errored), expected, "{}", context());
        }
        assert_eq!(reading.output, self.output, "{}", context());
        let generation = reading.generation.map(|g| (g.next, g.resets));
        let expected =
            self.generate.as_ref().map(|generate| (generate.clone().next(), generate.resets()));
        assert_eq!(generation, expected, "{}", context());
    }
}

struct World<'a> {
    node: &'a mut Node,
    ingress: &'a [Program],
    pairs: Vec<Pair>,
    now_ns: u64,
    packets: u64,
    number: u64,
}

impl World<'_> {
    fn context(&self, pair: usize) -> String {
        let stream = &self.pairs[pair].stream;
        let packet = self.packets;
        format!("seed {SEED:#x}, world {}, packet {packet}, {stream:?}", self.number)
    }

    fn packet(&mut self, pair: usize, member: usize, number: Option<u16>) {
        self.packets += 1;
        let verdict = self.ingress[member].verdict(&frame(self.pairs[pair].vid, number));
        let accepted = self.pairs[pair].packet(member, self.now_ns, number);
        let expected = if accepted { XDP_REDIRECT } else { XDP_DROP };
        assert_eq!(verdict, expected, "{number:?}; {}", self.context(pair));
        self.compare(pair);
    }

    /// Runs a frame that ends within its R-TAG.
    fn truncated(&mut self, pair: usize, member: usize) {
        self.packets += 1;
        let octets = frame(self.pairs[pair].vid, Some(1));
        assert_eq!(self.ingress[member].verdict(&octets[..21]), XDP_DROP, "{}", self.context(pair));
        self.pairs[pair].input[member] += 1;
        self.pairs[pair].enc_errored[member] += 1;
        self.compare(pair);
    }

    fn compare(&self, pair: usize) {
        let reading = self.node.read(&self.pairs[pair].name);
        self.pairs[pair].compare(&reading, &|| self.context(pair));
    }

    fn expire(&mut self) {
        self.node.plane.expire().unwrap();
        for function in self.pairs.iter_mut().flat_map(Pair::functions) {
            function.expire(self.now_ns);
        }
    }

    fn reset(&mut self, pair: usize) {
        let now_ns = self.now_ns;
        let pair = &mut self.pairs[pair];
        assert!(self.node.plane.reset(&pair.name).unwrap());
        pair.functions().for_each(|function| function.reset(now_ns));
        if let Some(generate) = &mut pair.generate {
            generate.reset();
        }
    }

    /// Continues the vector functions of a stream with other histories.
    fn change_histories(&mut self, random: &mut Random, pair: usize) {
        let index = pair;
        let pair = &mut self.pairs[index];
        let mut change = |config: &mut Recovery, function: &mut RecoveryFunction, role| {
            if let Algorithm::Vector { history_length } = &mut config.algorithm {
                let longest = if index == 0 { MAX_HISTORY } else { EACH_LENGTH };
                let most = *random.pick(&[64, longest.into()]);
                *history_length = random.between(2, most) as u16;
                function.set_parameters(config, role).expect("valid");
            }
        };
        for (member, function) in pair.stream.members.iter_mut().zip(&mut pair.individual) {
            if let (Some(config), Some(function)) = (&mut member.individual, function) {
                change(config, function, Role::Individual);
            }
        }
        if let (Some(config), Some(function)) = (&mut pair.stream.recover, &mut pair.sequence) {
            change(config, function, Role::Sequence);
        }
        let individual = pair.stream.members.iter().filter_map(|member| member.individual.as_ref());
        pair.length = individual.chain(&pair.stream.recover).map(length).max().unwrap_or(2);
        let streams = std::slice::from_ref(&pair.stream);
        self.node.plane.change(&self.node.names, &[], streams).expect("supported streams");
    }

    /// Sends a number at a distance from the highest one sent.
    fn near(&mut self, pair: usize, member: usize, distance: i64) {
        let p = &mut self.pairs[pair];
        let number = (i64::from(p.highest) + distance).rem_euclid(65_536) as u16;
        if (1..p.length).contains(&distance) {
            p.highest = number;
        }
        p.last = number;
        self.packet(pair, member, Some(number));
    }

    fn step(&mut self, random: &mut Random) {
        let pair = random.below(self.pairs.len() as u64) as usize;
        let members = self.pairs[pair].input.len();
        let member = random.below(members as u64) as usize;
        let length = self.pairs[pair].length;
        match random.below(64) {
            0..18 => self.near(pair, member, random.between(-4, 4)),
            18..26 => {
                let most = length + 76;
                self.near(pair, member, random.between(-most, most));
            }
            // A packet over all paths.
            26..36 => {
                self.near(pair, member, 1);
                let number = self.pairs[pair].last;
                for other in (0..members).filter(|other| *other != member) {
                    self.packet(pair, other, Some(number));
                }
            }
            36..42 => {
                let most = if random.one_in(20) { 1_200 } else { 60 };
                for _ in 0..random.between(1, most) {
                    self.near(pair, member, 1);
                }
            }
            // The edges of the history, in both directions.
            42..48 => {
                let edge = length + random.between(-2, 2);
                self.near(pair, member, if random.one_in(2) { edge } else { -edge });
            }
            48 => self.near(pair, member, -32_768),
            49 => self.near(pair, member, random.between(0, 65_535)),
            // A sender stuck on one number.
            50..53 => {
                let number = self.pairs[pair].last;
                for _ in 0..random.between(1, 4) {
                    self.packet(pair, member, Some(number));
                }
            }
            53..56 => self.packet(pair, member, None),
            56 => self.truncated(pair, member),
            57..62 => {
                let most = if random.one_in(2) { 2 } else { 60 };
                self.now_ns += random.between(0, most) as u64 * NS_PER_MS;
                self.node.plane.set_test_clock(self.now_ns).unwrap();
            }
            62 => {
                self.expire();
                self.compare(pair);
            }
            _ => {
                if random.one_in(4) {
                    self.reset(pair);
                    self.compare(pair);
                } else if random.one_in(32) {
                    self.change_histories(random, pair);
                    self.compare(pair);
                }
            }
        }
    }
}

#[test]
fn kernel_and_user_space_agree_on_verdicts_and_counters() {
    if !can_run() {
        return;
    }
    let wanted = packet_count();
    // Capacity for three members per stream, where tables are sized for two, and for long histories.
    let mut node = Node::new(PORTS, 64 * STREAMS as u32);
    let mut random = Random::new(SEED);
    let (mut packets, mut worlds, mut vectors, mut now_ns) = (0, 0, 0, 1);
    while packets < wanted || vectors < u64::from(EACH_LENGTH) {
        let pairs: Vec<Pair> =
            (0..STREAMS).map(|index| Pair::random(&mut random, index, &mut vectors)).collect();
        let streams: Vec<Stream> = pairs.iter().map(|pair| pair.stream.clone()).collect();
        node.apply(&[]);
        node.apply(&streams);
        // A change can replace the programs.
        let ingress: Vec<Program> = (0..PORTS).map(|port| node.ingress(port)).collect();
        let mut world =
            World { node: &mut node, ingress: &ingress, pairs, now_ns, packets: 0, number: worlds };
        while world.packets < PACKETS_PER_STREAM * STREAMS as u64 {
            world.step(&mut random);
        }
        world.expire();
        (0..STREAMS).for_each(|pair| world.compare(pair));
        packets += world.packets;
        now_ns = world.now_ns;
        worlds += 1;
    }
    eprintln!(
        "seed {SEED:#x}: {packets} packets, {worlds} worlds of {STREAMS} streams, {vectors} \
         vector recovery functions: verdict and counters equal after every packet"
    );
}
