//! Runs vectors/recover.toml in the kernel.

use onbeat_frer::counters::Counters;
use onbeat_frer::spec::{Role, Stream};

use crate::harness::{
    Node, Program, XDP_DROP, XDP_REDIRECT, can_run, frame, member, stream, talker,
};
use crate::recover_cases::{Decision, Function, Functions, Generator, RecoverCase, vectors};

const FIRST_VID: u16 = 10;

/// One stream per function, identified by its VLAN.
struct Recoveries<'a> {
    node: &'a Node,
    ingress: Program,
    roles: Vec<Role>,
}

fn name(function: usize) -> String {
    format!("function{function}")
}

fn stream_of((index, function): (usize, &Function)) -> Stream {
    let (config, vid) = (function.config(), FIRST_VID + index as u16);
    match function.role() {
        Role::Sequence => stream(&name(index), vec![member(0, vid, None)], Some(config)),
        Role::Individual => stream(&name(index), vec![member(0, vid, Some(config))], None),
    }
}

impl<'a> Recoveries<'a> {
    fn at_begin(node: &'a mut Node, case: &RecoverCase) -> Self {
        node.apply(&[]);
        let streams: Vec<Stream> = case.functions.iter().enumerate().map(stream_of).collect();
        node.apply(&streams);
        for (index, function) in case.functions.iter().enumerate() {
            let member = (function.role() == Role::Individual).then_some(0);
            node.plane.add_to_counters(&name(index), member, &function.preset.into());
        }
        let roles = case.functions.iter().map(Function::role).collect();
        Self { ingress: node.ingress(0), node, roles }
    }
}

impl Functions for Recoveries<'_> {
    fn packet(&mut self, function: usize, now_ns: u64, number: Option<u16>) -> Decision {
        self.node.plane.set_test_clock(now_ns).unwrap();
        match self.ingress.verdict(&frame(FIRST_VID + function as u16, number)) {
            XDP_REDIRECT => Decision::Accepted(true),
            XDP_DROP => Decision::Accepted(false),
            other => panic!("verdict {other}"),
        }
    }

    fn expire(&mut self, now_ns: u64) {
        self.node.plane.set_test_clock(now_ns).unwrap();
        self.node.plane.expire().unwrap();
    }

    fn reset(&mut self, function: usize, now_ns: u64) {
        self.node.plane.set_test_clock(now_ns).unwrap();
        assert!(self.node.plane.reset(&name(function)).unwrap());
    }

    fn counters(&self, function: usize) -> Counters {
        let reading = self.node.read(&name(function));
        match self.roles[function] {
            Role::Sequence => reading.recovery,
            Role::Individual => reading.members[0].individual,
        }
        .expect("the function of the stream")
        .counters
    }
}

/// One stream with a member at each of several ports.
struct Talker<'a> {
    node: &'a Node,
    ports: Vec<Program>,
}

const PORTS: usize = 3;

impl Generator for Talker<'_> {
    fn next(&mut self, port: usize) -> u16 {
        let run = self.ports[port].run(&[], &frame(FIRST_VID, None));
        assert_eq!(run.verdict, XDP_REDIRECT);
        let number = u16::from_be_bytes([run.frame[20], run.frame[21]]);
        assert_eq!(run.frame, frame(FIRST_VID, Some(number)));
        number
    }

    fn reset(&mut self) {
        assert!(self.node.plane.reset("talker").unwrap());
    }

    fn seq_gen_resets(&self) -> u64 {
        self.node.read("talker").generation.expect("a generator").resets
    }
}

#[test]
fn recover() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(1, 16);
    for case in vectors().recover {
        case.run(&mut Recoveries::at_begin(&mut node, &case));
    }
}

#[test]
fn generate() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(PORTS, 16);
    for case in vectors().generate {
        node.apply(&[]);
        let members = (0..PORTS as u8).map(|port| member(port, FIRST_VID, None)).collect();
        node.apply(&[talker("talker", members)]);
        let ports = (0..PORTS).map(|port| node.ingress(port)).collect();
        case.run(&mut Talker { node: &node, ports });
    }
}
