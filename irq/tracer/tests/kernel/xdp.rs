//! Packets that an XDP program takes.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Instant;

use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Accounts, Cause, Class, Device, Verdict};
use onbeat_link::{Port, PortOptions, XskPort};
use onbeat_netdev::XdpMode;
use onbeat_testing::{AttachMethod, ForeignProgram, Instruction};
use onbeat_wire::EtherType;

use crate::harness::{BOUND, Flow, RECEIVER, World, caused, possible, this_process, total};

const PACKETS: u64 = 1000;

/// The port whose packets the program of [`takes_port`] drops.
const TAKEN_PORT: u16 = 4791;

/// A program that drops IPv4 packets without options for [`TAKEN_PORT`], and passes all others.
fn takes_port() -> Vec<Instruction> {
    vec![
        (0x61, 0x12, 0, 0),                             // r2 = data
        (0x61, 0x13, 4, 0),                             // r3 = data_end
        (0xb7, 0x00, 0, ForeignProgram::PASS),          // r0 = XDP_PASS
        (0xbf, 0x24, 0, 0),                             // r4 = r2
        (0x07, 0x04, 0, 38),                            // r4 += Ethernet, IPv4, two ports
        (0x2d, 0x34, 3, 0),                             // if r4 > r3: exit
        (0x69, 0x22, 36, 0),                            // r2 = destination port
        (0x55, 0x02, 1, i32::from(TAKEN_PORT.to_be())), // if r2 != the port: exit
        (0xb7, 0x00, 0, ForeignProgram::DROP),          // r0 = XDP_DROP
        (0x95, 0, 0, 0),
    ]
}

/// A program that redirects every packet to an interface.
fn redirects(to: u32) -> Vec<Instruction> {
    const REDIRECT: i32 = 23;
    vec![
        (0xb7, 0x01, 0, to as i32), // r1 = the interface
        (0xb7, 0x02, 0, 0),         // r2 = no flags
        (0x85, 0, 0, REDIRECT),     // r0 = bpf_redirect(r1, r2)
        (0x95, 0, 0, 0),
    ]
}

/// Waits until the ledger has `packets` of a verdict, and no packet of the device without an owner besides. Returns
/// the accounts.
fn wait_for_verdict(tracer: &Tracer, device: Device, verdict: Verdict, packets: u64) -> Accounts {
    let deadline = Instant::now() + BOUND;
    let wanted = Class::XdpVerdict { device, verdict };
    loop {
        let accounts = total(tracer);
        let taken = class(&accounts, |class| *class == wanted);
        if taken >= packets {
            assert_eq!(taken, packets, "{:?}", accounts.caused);
            let others = |class: &Class| match class {
                Class::Unattributed(of) | Class::Xdp(of) => *of == device,
                Class::Dropped { device: of, .. } => *of == device,
                Class::XdpVerdict { device: of, verdict: other } => {
                    *of == device && *other != verdict
                }
                _ => false,
            };
            assert_eq!(class(&accounts, others), 0, "{verdict:?}: {:?}", accounts.caused);
            return accounts;
        }
        assert!(Instant::now() < deadline, "{taken} of {packets}: {:?}", accounts.caused);
    }
}

fn class(accounts: &Accounts, wanted: impl Fn(&Class) -> bool) -> u64 {
    let of = accounts.caused.iter().filter(|(cause, _)| match cause {
        Cause::Unowned(class) => wanted(class),
        _ => false,
    });
    of.map(|(_, amount)| amount.packets).sum()
}

/// Attaches a program to the receiver's device.
fn attach(world: &World, hold: AttachMethod, code: &[Instruction]) -> ForeignProgram {
    ForeignProgram::attach_code(&world.receiver, "r0", hold, XdpMode::Native, code)
}

const ABORTED: i32 = 0;
const TX: i32 = 3;

/// Packets of the sender's stack: a veth passes those to its program as socket buffers, whose end the kernel
/// reports as that of any other.
#[test]
fn dropped_packets_are_of_class_xdp_however_the_program_is_attached() {
    if !possible() {
        return;
    }
    for hold in [AttachMethod::Link, AttachMethod::Interface] {
        let world = World::with_napi();
        let flow = world.flow();
        flow.pass(1, 100);
        let _program = attach(&world, hold, &ForeignProgram::returns(ForeignProgram::DROP));
        let mut tracer = Tracer::start().unwrap();
        flow.send(PACKETS as u32, 100);
        wait_for_verdict(&tracer, world.device(), Verdict::Drop, PACKETS);
        tracer.stop();
    }
}

/// Packets of the sender's stack, and a program in the driver or in the stack.
#[test]
fn each_verdict_has_its_packets() {
    if !possible() {
        return;
    }
    let native = [Verdict::Drop, Verdict::Tx, Verdict::Redirect, Verdict::Aborted];
    // A generic program sends packets back unobserved.
    let generic = [Verdict::Drop, Verdict::Redirect, Verdict::Aborted];
    let all = native.map(|verdict| (XdpMode::Native, verdict)).into_iter();
    for (mode, verdict) in all.chain(generic.map(|verdict| (XdpMode::Generic, verdict))) {
        let world = World::with_napi();
        let flow = world.flow();
        flow.pass(1, 100);
        let device = world.device();
        let code = match verdict {
            Verdict::Drop => ForeignProgram::returns(ForeignProgram::DROP).to_vec(),
            Verdict::Tx => ForeignProgram::returns(TX).to_vec(),
            Verdict::Redirect => redirects(device.index),
            Verdict::Aborted => ForeignProgram::returns(ABORTED).to_vec(),
        };
        let _far = ForeignProgram::pass(world.sender.namespace(), "s0");
        let link = AttachMethod::Link;
        let _near = ForeignProgram::attach_code(&world.receiver, "r0", link, mode, &code);
        let mut tracer = Tracer::start().unwrap();
        flow.send(PACKETS as u32, 100);
        let accounts = wait_for_verdict(&tracer, device, verdict, PACKETS);
        assert_eq!(caused(&accounts, this_process(), device).packets, 0, "{mode:?} {verdict:?}");
        tracer.stop();
    }
}

/// Echo requests are answered by the kernel, whatever program passes them; a reply that a full queue drops is no packet of
/// the program.
#[test]
fn packets_that_a_program_passes_have_their_own_class() {
    const REQUESTS: u64 = 50;
    if !possible() {
        return;
    }
    for (mode, drops) in
        [(XdpMode::Native, false), (XdpMode::Generic, false), (XdpMode::Native, true)]
    {
        let world = World::with_napi();
        world.flow().pass(1, 100);
        let device = world.device();
        let pass = ForeignProgram::returns(ForeignProgram::PASS);
        let link = AttachMethod::Link;
        let _program = ForeignProgram::attach_code(&world.receiver, "r0", link, mode, &pass);
        if drops {
            let mut tc = Command::new("tc");
            tc.args(["qdisc", "replace", "dev", "r0", "root", "pfifo", "limit", "0"]);
            let status = world.receiver.namespace().run(|| tc.status()).unwrap().unwrap();
            assert!(status.success());
        }
        let mut tracer = Tracer::start().unwrap();
        let mut ping = Command::new("ping");
        ping.args(["-q", "-c", &REQUESTS.to_string(), "-i", "0.01", "-W", "1"]);
        ping.arg(RECEIVER.to_string()).stdout(Stdio::null());
        let status = world.sender.namespace().run(|| ping.status()).unwrap().unwrap();
        assert_eq!(status.success(), !drops);
        let accounts = total(&tracer);
        let of = |wanted: Class| class(&accounts, |class| *class == wanted);
        assert_eq!(of(Class::Icmp(device)), REQUESTS, "{mode:?}: {:?}", accounts.caused);
        assert_eq!(of(Class::Unattributed(device)), 0, "{mode:?}");
        let taken = |class: &Class| match class {
            Class::XdpVerdict { device: of, .. } | Class::Xdp(of) => *of == device,
            _ => false,
        };
        assert_eq!(class(&accounts, taken), 0, "{mode:?}: {:?}", accounts.caused);
        tracer.stop();
    }
}

/// A port on AF_XDP: all its packets belong to its process, which no system call of a read shows. Those of a poll are
/// announced to the socket once.
#[test]
fn packets_for_an_af_xdp_socket_belong_to_its_process() {
    if !possible() {
        return;
    }
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let world = World::new(true);
        let flow = world.flow();
        flow.pass(1, 100);
        let options = PortOptions {
            ether_types: vec![EtherType::IPV4],
            mode: Some(mode),
            ..PortOptions::default()
        };
        let mut port = XskPort::open(world.receiver.namespace(), "r0", options).unwrap();
        let mut tracer = Tracer::start().unwrap();
        let (mut received, deadline) = (0, Instant::now() + BOUND);
        while received < PACKETS {
            world.with_thread_blocked(|| flow.send(20, 100));
            world.wait_idle();
            while let Some(frame) = port.receive().unwrap() {
                received += 1;
                port.release(frame);
            }
            assert!(Instant::now() < deadline, "{received} packets");
        }
        tracer.find_owners().unwrap();
        let deadline = Instant::now() + BOUND;
        loop {
            let accounts = total(&tracer);
            let own = caused(&accounts, this_process(), world.device());
            if own.packets == received {
                assert!(own.ns > 0);
                let others = class(&accounts, |class| {
                    *class == Class::Unattributed(world.device())
                        || *class == Class::Xdp(world.device())
                });
                assert_eq!(others, 0, "{mode:?}: {:?}", accounts.caused);
                break;
            }
            assert!(Instant::now() < deadline, "{mode:?} {received}: {:?}", accounts.caused);
        }
        tracer.stop();
    }
}

/// A world whose receiver has a program that takes the packets of one flow and passes all others.
pub(crate) struct FilteredWorld {
    pub(crate) world: World,
    pub(crate) passed: Flow,
    taken: UdpSocket,
    _program: ForeignProgram,
}

impl FilteredWorld {
    /// Packets that the program takes in a poll.
    const TAKEN: u64 = 20;

    pub(crate) fn new() -> Self {
        let world = World::new(true);
        let passed = world.flow();
        passed.pass(1, 100);
        let bind = || UdpSocket::bind("0.0.0.0:0");
        let taken = world.sender.namespace().run(bind).unwrap().unwrap();
        taken.connect((passed.reader.local_addr().unwrap().ip(), TAKEN_PORT)).unwrap();
        let _program = attach(&world, AttachMethod::Link, &takes_port());
        Self { world, passed, taken, _program }
    }

    /// Sends both kinds in one poll.
    pub(crate) fn pass(&self) {
        self.world.with_thread_blocked(|| {
            for _ in 0..Self::TAKEN {
                self.taken.send(&[0; 100]).unwrap();
            }
            self.passed.send(1, 100);
        });
        self.passed.read(1);
    }
}

/// A program takes some packets and passes others of the same polls: each kind is counted.
#[test]
fn packets_taken_by_the_program_are_not_charged_to_a_process() {
    const POLLS: u64 = 50;
    if !possible() {
        return;
    }
    let filtered = FilteredWorld::new();
    let world = &filtered.world;
    let mut tracer = Tracer::start().unwrap();
    (0..POLLS).for_each(|_| filtered.pass());
    let taken = FilteredWorld::TAKEN * POLLS;
    let accounts = wait_for_verdict(&tracer, world.device(), Verdict::Drop, taken);
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, POLLS);
    tracer.stop();
}
