//! Attribution of packets to the processes that read them.

use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Accounts, Cause};

use crate::harness::{Flow, World, caused, possible, this_process, total};
use crate::reader::Reader;

/// A flow, the ledger, and a child process that can read the flow's packets; `None` where this kernel lacks
/// a feature.
fn traced_reader() -> Option<(World, Flow, Tracer, Reader)> {
    let world = World::if_possible(true)?;
    let flow = world.flow();
    let tracer = Tracer::start().unwrap();
    let reader = Reader::of(&flow.reader);
    Some((world, flow, tracer, reader))
}

#[test]
fn each_process_pays_for_its_own() {
    let Some(world) = World::if_possible(true) else { return };
    let flows = [world.flow(), world.flow()];
    let mut readers = flows.each_ref().map(|flow| Reader::of(&flow.reader));
    let mut tracer = Tracer::start().unwrap();
    for _ in 0..50 {
        for ((flow, reader), packets) in flows.iter().zip(&mut readers).zip([20, 10]) {
            reader.begin(packets);
            flow.send(packets, 100);
        }
        readers.iter_mut().for_each(Reader::finish);
    }
    tracer.stop();
    let accounts = total(&tracer);
    for (reader, packets) in readers.iter().zip([1000, 500]) {
        assert_eq!(caused(&accounts, reader.process, world.device()).packets, packets);
    }
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, 0);
}

/// A TCP connection: data, and what is merged on the way.
#[test]
fn a_connection_is_its_readers() {
    let Some(world) = World::if_possible(true) else { return };
    let mut stream = world.stream();
    let mut reader = Reader::of(&stream.reader);
    let mut tracer = Tracer::start().unwrap();
    const OCTETS: u32 = 1 << 20;
    reader.begin(OCTETS);
    stream.send(OCTETS as usize);
    reader.finish();
    tracer.stop();
    let packets = caused(&total(&tracer), reader.process, world.device()).packets;
    // GRO merges up to 64 KiB; a packet that waited for the reader is delivered in the reader's time.
    assert!((8..=OCTETS as u64 / 1000).contains(&packets), "{packets}");
}

/// What matters is who read last when a packet comes.
#[test]
fn a_shared_socket_is_its_last_readers() {
    let Some((world, flow, mut tracer, mut child)) = traced_reader() else { return };
    // A change of readers is known once the first packet of the new one has been read.
    for _ in 0..2 {
        for packets in [1, 99] {
            child.begin(packets);
            flow.send(packets, 100);
            child.finish();
        }
        flow.pass(1, 100);
        flow.pass(99, 100);
    }
    tracer.stop();
    let accounts = total(&tracer);
    let [of_child, of_us] =
        [child.process, this_process()].map(|who| caused(&accounts, who, world.device()).packets);
    // The child is the first, and pays for our first packets; we for its first one after us.
    assert_eq!((of_child, of_us), (100 + 1 + 99 + 1, 99 + 1 + 99));
}

#[test]
fn a_process_that_has_died_keeps_its_account() {
    let Some((world, flow, mut tracer, mut child)) = traced_reader() else { return };
    child.begin(10);
    flow.send(10, 100);
    child.finish();
    let dead = child.process;
    drop(child);
    // The socket lives on, and no other process has read from it.
    flow.send(5, 100);
    world.rest();
    assert_eq!(caused(&total(&tracer), dead, world.device()).packets, 15);
    flow.read(5);
    flow.pass(20, 100);
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(caused(&accounts, dead, world.device()).packets, 15);
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, 20);
}

/// What finds no room in its socket's buffer has cost the same, and is its owner's.
#[test]
fn packets_dropped_for_want_of_room_are_the_owners() {
    use nix::sys::socket::{setsockopt, sockopt::RcvBuf};
    use onbeat_testing::{Feature, require};
    if !possible() || !require(Feature::Kernel(6, 11)) {
        return;
    }
    let world = World::new(true);
    let flow = world.flow();
    setsockopt(&flow.reader, RcvBuf, &4096).unwrap();
    let mut tracer = Tracer::start().unwrap();
    flow.pass(1, 1000);
    flow.send(100, 1000);
    world.rest();
    tracer.stop();
    assert_eq!(caused(&total(&tracer), this_process(), world.device()).packets, 101);
}

/// Ten packets that wake a child which does not read them, and the accounts: of an estimated owner, which is
/// the child; `None` where it is another process.
fn inferred() -> Option<(World, Flow, Tracer, Reader, Accounts)> {
    let (world, flow, tracer, mut child) = traced_reader()?;
    child.wait();
    flow.send(10, 100);
    child.finish();
    world.rest();
    let (accounts, here) = (total(&tracer), world.device());
    let of_device =
        |cause: &Cause| matches!(cause, Cause::Inferred { device, .. } if *device == here);
    let estimated: Vec<_> = accounts.caused.iter().filter(|(cause, _)| of_device(cause)).collect();
    assert_eq!(estimated.len(), 1, "{:?}", accounts.caused);
    let (cause, amount) = estimated[0];
    assert_eq!(amount.packets, 10);
    let of_child = Cause::Inferred { process: child.process, device: here };
    (*cause == of_child).then_some((world, flow, tracer, child, accounts))
}

/// It waits for packets and never reads any: that it owns the socket is inferred from its wake-up.
#[test]
fn a_process_that_only_wakes_up_is_an_estimate() {
    if !possible() {
        return;
    }
    // A timer's interrupt between packet and wake-up may wake another process: such an attempt proves
    // nothing.
    let found = (0..5).find_map(|_| inferred());
    let (world, flow, mut tracer, child, accounts) =
        found.expect("its own wake-up once in 5 attempts");
    let (process, device) = (child.process, world.device());
    assert_eq!(caused(&accounts, process, device).packets, 0);
    assert_eq!(accounts.compensation_ns(process), -(accounts.suffered_ns(process) as i64));
    // The first to read is the owner, of what came before, too; no wake-up changes that.
    flow.read(10);
    flow.pass(10, 100);
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(caused(&accounts, this_process(), device).packets, 20);
    assert!(!accounts.caused.contains_key(&Cause::Inferred { process, device }));
}

/// The accounts are there after the device is not.
#[test]
fn a_device_that_vanishes_keeps_its_account() {
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let device = world.device();
    let mut tracer = Tracer::start().unwrap();
    flow.pass(100, 100);
    world.sender.delete("s0").unwrap();
    tracer.stop();
    assert_eq!(caused(&total(&tracer), this_process(), device).packets, 100);
}
