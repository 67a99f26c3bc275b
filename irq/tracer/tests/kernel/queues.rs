//! Time by receive queue, of a device with several.

use std::collections::BTreeSet;
use std::net::IpAddr;

use onbeat_irq::Tracer;
use onbeat_irq_core::names::Names as _;
use onbeat_irq_core::view::{GroupKey, Groups, Table};
use onbeat_netdev::{Handle, Namespace, VethEnd};

use crate::harness::{BOUND, RECEIVER, SENDER, World, possible, total};

const QUEUES: u32 = 4;

/// Each flow has a queue, by the hash of its addresses and ports.
const FLOWS: usize = 32;
const PACKETS: u32 = 50;

/// A device with several receive queues, which receives by NAPI in softirq.
pub(crate) fn world_with_queues() -> World {
    let host = || Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let world = World { sender: host(), receiver: host() };
    let far = VethEnd::new("r0").queues(QUEUES, QUEUES).namespace(world.receiver.namespace());
    world.sender.create_veth(&VethEnd::new("s0").queues(QUEUES, QUEUES), &far).unwrap();
    for (handle, name, address) in
        [(&world.sender, "s0", SENDER), (&world.receiver, "r0", RECEIVER)]
    {
        handle.set_ipv6(name, false).unwrap();
        handle.add_address(name, IpAddr::V4(address), 24).unwrap();
        handle.set_up(name).unwrap();
    }
    world.sender.wait_carrier("s0", BOUND).unwrap();
    world.receiver.wait_carrier("r0", BOUND).unwrap();
    World::give_napi_to(&world.receiver, "r0", &world.sender, "s0");
    world
}

#[test]
fn queues_add_up_to_their_device() {
    if !possible() {
        return;
    }
    let world = world_with_queues();
    let flows: Vec<_> = (0..FLOWS).map(|_| world.flow()).collect();
    flows[0].pass(1, 64);
    let mut tracer = Tracer::start().unwrap();
    for flow in &flows {
        flow.pass(PACKETS, 64);
    }
    tracer.stop();

    let mut names = tracer.names().unwrap();
    let table = Table::of(&total(&tracer), 1, &mut names);
    let name = names.device(world.device());
    let queues: Vec<_> = table.queues.iter().filter(|row| row.device == name).collect();
    let named: BTreeSet<&str> = queues.iter().map(|row| row.name.as_str()).collect();
    let possible: Vec<String> = (0..QUEUES).map(|number| format!("{name}/{number}")).collect();
    assert!(
        named.len() > 1 && named.iter().all(|name| possible.iter().any(|p| p == name)),
        "{named:?}"
    );

    let devices = Groups::of(GroupKey::Device, &table).rows;
    let all = devices.iter().find(|row| row.name.as_ref() == Some(&name)).unwrap();
    let packets: u64 = queues.iter().map(|row| row.packets).sum();
    assert_eq!(packets, all.packets, "{queues:?}");
    assert!(packets >= u64::from(PACKETS) * FLOWS as u64);
    // Packets that GRO releases after the last poll have no queue.
    let ns: u64 = queues.iter().map(|row| row.ns).sum();
    assert!(ns <= all.caused_ns && ns * 100 >= all.caused_ns * 98, "{ns} of {all:?}");
}
