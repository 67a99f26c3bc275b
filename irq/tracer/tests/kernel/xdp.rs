//! Packets that an XDP program takes.

use std::net::UdpSocket;
use std::time::Instant;

use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Accounts, Cause, Class, Device};
use onbeat_netdev::XdpMode;
use onbeat_testing::{AttachMethod, ForeignProgram, Instruction};

use crate::harness::{BOUND, Flow, World, caused, possible, this_process, total};

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

/// Waits until the ledger has `packets` of class xdp. Returns the accounts; other packets without an owner are
/// `(unattributed, dropped)`.
fn wait_for_xdp_packets(tracer: &Tracer, device: Device, packets: u64) -> (Accounts, u64, u64) {
    let deadline = Instant::now() + BOUND;
    loop {
        let accounts = total(tracer);
        let xdp = class(&accounts, |class| *class == Class::Xdp(device));
        if xdp >= packets {
            assert_eq!(xdp, packets);
            let unattributed = class(&accounts, |class| *class == Class::Unattributed(device));
            let dropped =
                |class: &Class| matches!(class, Class::Dropped { device: of, .. } if *of == device);
            let dropped = class(&accounts, dropped);
            return (accounts, unattributed, dropped);
        }
        assert!(Instant::now() < deadline, "{xdp} of {packets}: {:?}", accounts.caused);
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
        let (_, unattributed, dropped) = wait_for_xdp_packets(&tracer, world.device(), PACKETS);
        assert_eq!((unattributed, dropped), (0, 0), "{hold:?}");
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
    let (accounts, unattributed, dropped) =
        wait_for_xdp_packets(&tracer, world.device(), FilteredWorld::TAKEN * POLLS);
    assert_eq!((unattributed, dropped), (0, 0));
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, POLLS);
    tracer.stop();
}
