//! Steering redirects the frames that match a stream of a plane, and no others.

use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_frer::plane::Disposition;
use onbeat_frer::spec::{Identification, Member, PortId, Stream};
use onbeat_frer_xdp::Steering;
use onbeat_testing::vectors::octets;
use onbeat_testing::{Feature, require};
use onbeat_wire::random::Random;

use crate::frames::random;
use crate::harness::{Program, XDP_DROP, XDP_PASS, stream, user_space};
use crate::identify_cases::{MemberCase, identification, vectors};

const SEED: u64 = 0x57ee_01cb;
const PORTS: usize = 3;
const WORLDS: u64 = 60;
const FRAMES: u64 = 500;

/// Steering without sockets: it drops frames that it would redirect.
struct Bench {
    steering: Steering,
    names: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let mut steering = Steering::open(64).expect("tables");
        let names: Vec<String> = (0..PORTS).map(|port| format!("port{port}")).collect();
        for name in &names {
            let spec = PortSpec {
                name: name.clone(),
                interface: "lo".into(),
                ifindex: 1,
                mode: Mode::Native,
                queues: ReceiveQueues::Concurrent,
                running: vec![],
            };
            steering.attach_for_test(&spec).expect("a program");
        }
        Self { steering, names }
    }

    fn apply(&mut self, streams: &[Stream]) {
        self.steering.apply(&[], &[]).expect("no streams");
        self.steering.apply(&self.names, streams).expect("streams within the capacity");
    }

    fn program(&self, port: usize) -> Program {
        Program::of(&self.steering.program(&self.names[port]).expect("an attached port"))
    }
}

#[test]
fn frames_of_streams_are_redirected() {
    if !require(Feature::Root) {
        return;
    }
    let mut bench = Bench::new();
    let mut random = Random::new(SEED);
    let (mut taken, mut passed) = (0u64, 0u64);
    for world in 0..WORLDS {
        let streams = random::streams(&mut random, PORTS as u8);
        bench.apply(&streams);
        let mut plane = user_space(&streams, PORTS);
        let programs: Vec<Program> = (0..PORTS).map(|port| bench.program(port)).collect();
        for number in 0..FRAMES {
            let mut octets = random::frame(&mut random);
            if random.one_in(4) {
                octets.truncate(14 + random.below(octets.len() as u64 - 13) as usize);
            }
            let port = random.below(PORTS as u64) as usize;
            let expected = match plane.frame(PortId(port as u8), 1, &octets) {
                Disposition::Unmatched => XDP_PASS,
                Disposition::Dropped | Disposition::Sent(_) => XDP_DROP,
                Disposition::Copied(_) => unreachable!("the node has no link redundancy entity"),
            };
            let run = programs[port].run(&[], &octets);
            let context = format!("seed {SEED:#x}, world {world}, frame {number}: {octets:02x?}");
            // A redirected frame has its arrival time before it.
            let meta = if expected == XDP_DROP { 8 } else { 0 };
            assert_eq!((run.verdict, run.meta.len()), (expected, meta), "{context}");
            assert_eq!(run.frame, octets, "{context}");
            *if expected == XDP_DROP { &mut taken } else { &mut passed } += 1;
        }
    }
    let counted = bench.names.iter().map(|name| bench.steering.read_port(name).expect("readable"));
    let counted =
        counted.fold((0, 0), |sum, port| (sum.0 + port.unmatched, sum.1 + port.no_socket));
    assert_eq!(counted, (passed, taken), "without sockets");
    assert!(taken > 1_000 && passed > 1_000, "{taken} of streams, {passed} of none");
}

#[test]
fn identification_agrees_with_the_vectors() {
    if !require(Feature::Root) {
        return;
    }
    let vectors = vectors();
    let mut bench = Bench::new();
    for case in &vectors.identify {
        let member = |(index, case): (usize, &MemberCase)| {
            let identification: Identification = identification(case);
            let member = Member { port: PortId(1), identification, individual: None };
            stream(&format!("stream{index}"), vec![member], None)
        };
        bench.apply(&case.members.iter().enumerate().map(member).collect::<Vec<_>>());
        let (program, elsewhere) = (bench.program(1), bench.program(2));
        for (name, expected) in &case.expect {
            let octets = octets(&vectors.frames[name]);
            let verdict = if *expected < 0 { XDP_PASS } else { XDP_DROP };
            let context = format!("identify {} ({}): frame {name}", case.number, case.name);
            assert_eq!(program.verdict(&octets), verdict, "{context}");
            assert_eq!(elsewhere.verdict(&octets), XDP_PASS, "{context}, elsewhere");
        }
    }
}
