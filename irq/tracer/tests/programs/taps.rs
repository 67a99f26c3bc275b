//! Packet sockets that receive the packets of a reader, too.
//!
//! ```text
//!   "s0" --------- "r0"  reader, packet sockets        its NAPI thread runs longer, by their time
//!   "s0" --------- "r0"  reader                        another world
//! ```

use std::process::Command;
use std::time::Instant;

use onbeat_bpf::Link;
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Device, Process};

use crate::harness::{BOUND, Flow, World, caused, process, this_process};
use crate::judge::{Judge, Service};
use crate::reader::Reader;

const TCPDUMP: (&str, &str) = ("tcpdump", "tcpdump");

const PACKETS: u32 = 20_000;

/// Two worlds, and a flow in each.
struct Beds {
    judge: Judge,
    other: World,
    flows: [Flow; 2],
}

/// Accounts, and the run times of both NAPI threads.
struct PassedPackets {
    accounts: Accounts,
    ran_ns: [f64; 2],
    devices: [Device; 2],
}

impl Beds {
    fn new() -> Option<Self> {
        let judge = Judge::new(&[TCPDUMP])?;
        let other = World::new(true);
        other.thread_sender();
        let flows = [judge.world.flow(), other.flow()];
        flows.iter().for_each(|flow| flow.pass(10, 64));
        Some(Self { judge, other, flows })
    }

    /// With a filter that runs as long as the rest of a packet: its time is then not lost among differences between worlds,
    /// such as of cache misses, which the first to read a packet has.
    fn tcpdump(&self, at: usize) -> Service {
        const TERMS: usize = 280;
        let world = [&self.judge.world, &self.other][at];
        let mut command = Command::new("tcpdump");
        // As another user, it would give /dev/null to that user.
        command.args(["-Z", "root", "-n", "-i", "r0", "-w", "/dev/null", "-O"]);
        command.arg("ip[1] = 1 or ".repeat(TERMS) + "udp");
        Service::start(&world.receiver, &mut command)
    }

    /// Alternates a few packets of each flow.
    fn pass(&mut self, packets: u32) -> PassedPackets {
        const AT_ONCE: u32 = 32;
        let Self { judge, other, flows } = self;
        let devices = [judge.world.device(), other.device()];
        let mut ran_ns = [0.0; 2];
        let accounts = judge.accounts(|world| {
            let run_times = || [world.thread_ns() as f64, other.thread_ns() as f64];
            let before = run_times();
            for _ in 0..packets / AT_ONCE {
                flows.iter().for_each(|flow| flow.pass(AT_ONCE, 64));
            }
            let after = run_times();
            ran_ns = [after[0] - before[0], after[1] - before[1]];
        });
        PassedPackets { accounts, ran_ns, devices }
    }

    fn programs_at_ingress(&self) -> usize {
        let Device { index, .. } = self.judge.world.device();
        let namespace = self.judge.world.receiver.namespace();
        namespace.run(|| Link::at_tcx_ingress(index)).unwrap().unwrap().len()
    }

    /// Passes packets until the ledger knows these owners of packet sockets.
    fn wait_for(&mut self, owners: &[Process]) {
        let deadline = Instant::now() + BOUND;
        loop {
            let found = self.pass(64);
            if owners.iter().all(|owner| found.of(*owner).packets > 0) {
                return;
            }
            assert!(Instant::now() < deadline, "{owners:?}: {:?}", found.accounts.caused);
        }
    }
}

impl PassedPackets {
    /// The time that a process caused on both devices.
    fn of(&self, process: Process) -> Amount {
        let mut sum = Amount::default();
        for device in self.devices {
            sum.add(caused(&self.accounts, process, device));
        }
        sum
    }

    fn evidence(&self, of: Process) -> Vec<Attribution> {
        let evidence = |cause: &Cause| match cause {
            Cause::Process { process, by, .. } if *process == of => Some(*by),
            _ => None,
        };
        self.accounts.caused.keys().filter_map(evidence).collect()
    }
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Both flows have the same reader and the same packets in the same phase. tcpdump runs in one world, and then in the other:
/// their threads differ.
#[test]
fn tcpdump_is_charged_and_not_the_reader() {
    const ROUNDS: usize = 16;
    const PASSES: usize = 2;
    let Some(mut beds) = Beds::new() else { return };
    // Of each pass: another process may take the CPU from one.
    let mut passes: [Vec<f64>; 4] = Default::default();
    let mut medians = [0.0; 4];
    let right = (0..ROUNDS).any(|_| {
        for at in [1, 0] {
            let service = beds.tcpdump(at);
            let tcpdump = process(service.id());
            beds.wait_for(&[tcpdump]);
            for _ in 0..PASSES {
                let found = beds.pass(PACKETS);
                let readers =
                    found.devices.map(|device| caused(&found.accounts, this_process(), device));
                let (beside, alone) = (readers[at], readers[1 - at]);
                let taps = found.of(tcpdump);
                let packets = [beside.packets, alone.packets];
                assert_eq!(packets, [u64::from(PACKETS); 2], "{:?}", found.accounts);
                assert!(taps.packets <= u64::from(PACKETS), "{:?}", found.accounts);
                // A tcpdump that gets no CPU has no room for more packets.
                if taps.packets < u64::from(PACKETS) {
                    continue;
                }
                assert_eq!(found.evidence(tcpdump), [Attribution::Owner]);
                let truth = found.ran_ns[at] - found.ran_ns[1 - at];
                let ns = [beside.ns as f64, alone.ns as f64, taps.ns as f64, truth];
                passes.iter_mut().zip(ns).for_each(|(of, ns)| of.push(ns / f64::from(PACKETS)));
            }
        }
        if passes[0].is_empty() {
            return false;
        }
        medians = passes.each_ref().map(|of| median(of));
        let [beside, alone, taps, truth] = medians;
        // tcpdump is the first to read a packet, and has the cache misses that the reader has when alone.
        (0.6..1.25).contains(&(beside / alone)) && (0.8..1.5).contains(&(taps / truth))
    });
    println!("ns per packet: reader beside tcpdump, alone, tcpdump, truth: {medians:.0?}");
    assert!(right, "{medians:.0?}");
    let service = beds.tcpdump(0);
    beds.wait_for(&[process(service.id())]);
    assert_eq!(beds.programs_at_ingress(), 1);
    drop(service);
    let deadline = Instant::now() + BOUND;
    while beds.programs_at_ingress() > 0 {
        assert!(Instant::now() < deadline, "a program stays at the ingress of r0");
        beds.pass(32);
    }
}

/// A socket without a ring, which a process reads, and that of tcpdump.
#[test]
fn several_packet_sockets_share_their_time() {
    let Some(mut beds) = Beds::new() else { return };
    let raw = beds.judge.world.packet_socket();
    let child = Reader::of(&raw);
    drop(raw);
    beds.wait_for(&[child.process]);
    let found = beds.pass(640);
    assert_eq!(found.evidence(child.process), [Attribution::Owner]);
    let service = beds.tcpdump(0);
    let owners = [process(service.id()), child.process];
    beds.wait_for(&owners);
    // A tcpdump that gets no CPU has no room for more packets.
    let all = |found: &PassedPackets| {
        owners.iter().all(|owner| found.of(*owner).packets == u64::from(PACKETS))
    };
    let found = (0..16).map(|_| beds.pass(PACKETS)).find(all).expect("a pass that both receive");
    for owner in owners {
        assert_eq!(found.evidence(owner), [Attribution::Estimate]);
    }
    let [one, two] = owners.map(|owner| found.of(owner).ns as f64);
    assert!((one / two - 1.0).abs() < 0.01, "{one} and {two} ns");
}
