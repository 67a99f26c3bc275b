//! Attribution of packets to the processes that read them.

use onbeat_irq::Tracer;
use onbeat_irq_core::charge::{Attribution, Cause};

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
fn each_process_is_charged_its_own_packets() {
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

/// A TCP connection: data, and merged packets.
#[test]
fn a_connection_is_charged_to_its_reader() {
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

/// The last reader before a packet arrives is its owner.
#[test]
fn a_shared_socket_is_charged_to_its_last_reader() {
    let Some((world, flow, mut tracer, mut child)) = traced_reader() else { return };
    // A change of readers takes effect once the first packet of the new reader has been read.
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
    // The child is the first, and is charged our first packets; we its first one after us.
    assert_eq!((of_child, of_us), (100 + 1 + 99 + 1, 99 + 1 + 99));
}

#[test]
fn an_exited_process_keeps_its_account() {
    let Some((world, flow, mut tracer, mut child)) = traced_reader() else { return };
    child.begin(10);
    flow.send(10, 100);
    child.finish();
    let dead = child.process;
    drop(child);
    // The socket still exists, and no other process has read from it.
    flow.send(5, 100);
    world.wait_idle();
    assert_eq!(caused(&total(&tracer), dead, world.device()).packets, 15);
    flow.read(5);
    flow.pass(20, 100);
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(caused(&accounts, dead, world.device()).packets, 15);
    assert_eq!(caused(&accounts, this_process(), world.device()).packets, 20);
}

/// A packet without room in its socket's buffer has cost the same, and is charged to the owner.
#[test]
fn packets_dropped_for_lack_of_room_are_charged_to_the_owner() {
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
    world.wait_idle();
    tracer.stop();
    assert_eq!(caused(&total(&tracer), this_process(), world.device()).packets, 101);
}

/// Packets wake a child that does not read them: they are charged to the process that opened the socket, and to the
/// reader once there is one.
#[test]
fn a_process_that_only_wakes_up_is_not_charged() {
    let Some((world, flow, mut tracer, mut child)) = traced_reader() else { return };
    child.wait();
    flow.send(10, 100);
    child.finish();
    world.wait_idle();
    let (process, device) = (this_process(), world.device());
    let owner = Cause::Process { process, device, by: Attribution::Owner };
    let accounts = total(&tracer);
    assert_eq!(accounts.caused[&owner].packets, 10);
    assert_eq!(caused(&accounts, child.process, device).packets, 0);
    child.begin(10);
    child.finish();
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(caused(&accounts, child.process, device).packets, 10);
    assert!(!accounts.caused.contains_key(&owner));
}

/// A socket that no process ever reads belongs to the process that opened it, before or after the ledger's start.
#[test]
fn an_unread_socket_is_charged_to_its_owner() {
    let Some(world) = World::if_possible(true) else { return };
    world.flow().pass(1, 64);
    let before = world.flow();
    let mut tracer = Tracer::start().unwrap();
    let after = world.flow();
    before.send(100, 64);
    after.send(50, 64);
    world.wait_idle();
    tracer.stop();
    let owner =
        Cause::Process { process: this_process(), device: world.device(), by: Attribution::Owner };
    assert_eq!(total(&tracer).caused[&owner].packets, 150);
}

/// The process that opened a socket exits, and another one still has it open: a walk over open files finds it.
#[test]
fn an_owner_that_exits_is_replaced() {
    let Some(world) = World::if_possible(true) else { return };
    world.flow().pass(1, 64);
    let (flow, mut tracer) = (world.flow(), Tracer::start().unwrap());
    let mut child = Reader::of(&flow.reader);
    for _ in 0..2 {
        child.begin(5);
        flow.send(5, 64);
        child.finish();
    }
    drop(child);
    let owner =
        Cause::Process { process: this_process(), device: world.device(), by: Attribution::Owner };
    // The exit may be noted after a walk: then the next one finds it.
    let found = (0..3).any(|_| {
        tracer.find_owners().unwrap();
        flow.send(5, 64);
        world.wait_idle();
        total(&tracer).caused.get(&owner).is_some_and(|amount| amount.packets == 5)
    });
    tracer.stop();
    assert!(found);
}

/// The accounts outlive the device.
#[test]
fn a_removed_device_keeps_its_account() {
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let device = world.device();
    let mut tracer = Tracer::start().unwrap();
    flow.pass(100, 100);
    world.sender.delete("s0").unwrap();
    tracer.stop();
    assert_eq!(caused(&total(&tracer), this_process(), device).packets, 100);
}
