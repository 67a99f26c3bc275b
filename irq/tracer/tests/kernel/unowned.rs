//! Packets without a local process.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::Instant;

use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::charge::{Cause, Class, Device};
use onbeat_netdev::{Bridge, Handle, Namespace, VethEnd};

use crate::harness::{BOUND, World, possible, total};
use crate::reader::without_forks;

const PACKETS: u64 = 100;

#[test]
fn packets_without_a_socket_are_dropped() {
    if !possible() {
        return;
    }
    // A forked process has its socket.
    let _guard = without_forks();
    let world = World::new(true);
    let flow = world.flow();
    flow.pass(1, 100);
    let closed = flow.writer.try_clone().unwrap();
    drop(flow);
    let mut tracer = Tracer::start().unwrap();
    for _ in 0..PACKETS {
        // Refused because of the previous packet.
        while closed.send(&[0; 100]).is_err() {}
    }
    world.wait_idle();
    tracer.stop();
    let device = world.device();
    let dropped = |cause: &Cause| matches!(cause, Cause::Unowned(Class::Dropped { device: d, .. }) if *d == device);
    let accounts = total(&tracer);
    let packets = accounts.caused.iter().filter(|(cause, _)| dropped(cause));
    assert_eq!(packets.map(|(_, amount)| amount.packets).sum::<u64>(), PACKETS);
}

/// ```text
///   left: "l0" --------- "m0" middle "m1" --------- "r0" :right
/// ```
struct Chain {
    left: Handle,
    middle: Handle,
    right: Handle,
}

impl Chain {
    fn new() -> Self {
        let host = || Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        let chain = Self { left: host(), middle: host(), right: host() };
        let cable = |near: &Handle, name: &str, far: &Handle, far_name: &str| {
            let end = VethEnd::new(far_name).namespace(far.namespace());
            near.create_veth(&VethEnd::new(name), &end).unwrap();
            for (handle, name) in [(near, name), (far, far_name)] {
                handle.set_ipv6(name, false).unwrap();
                handle.set_up(name).unwrap();
            }
            near.wait_carrier(name, BOUND).unwrap();
        };
        cable(&chain.left, "l0", &chain.middle, "m0");
        cable(&chain.right, "r0", &chain.middle, "m1");
        chain
    }

    fn address(handle: &Handle, name: &str, address: &str, prefix: u8) {
        handle.add_address(name, address.parse::<IpAddr>().unwrap(), prefix).unwrap();
    }

    fn index(&self, name: &str) -> u32 {
        self.middle.index(name).unwrap()
    }

    fn from(&self) -> Device {
        let netns = self.middle.namespace().inode() as u32;
        Device { netns, index: self.index("m0") }
    }

    /// Sends from left to right until a packet arrives, and then counts.
    fn count(&self, to: &str, cause: Cause) {
        let reader = self.right.namespace().run(|| UdpSocket::bind((to, 0))).unwrap().unwrap();
        let writer = self.left.namespace().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        writer.connect(reader.local_addr().unwrap()).unwrap();
        reader.set_read_timeout(Some(BOUND)).unwrap();
        let mut room = [0; 100];
        writer.send(&[0; 100]).unwrap();
        reader.recv(&mut room).unwrap();

        let mut tracer = Tracer::start().unwrap();
        for _ in 0..PACKETS {
            writer.send(&[0; 100]).unwrap();
            reader.recv(&mut room).unwrap();
        }
        tracer.stop();
        let accounts = total(&tracer);
        let amount = accounts.caused.get(&cause).copied().unwrap_or_default();
        assert_eq!(amount.packets, PACKETS, "{:?}", accounts.caused);
        assert!(amount.ns > 0);

        // A periodic reader attaches the required programs by itself.
        let mut meter = Meter::new(Tracer::start().unwrap());
        let deadline = Instant::now() + BOUND;
        while !meter.read().unwrap().total().caused.contains_key(&cause) {
            assert!(Instant::now() < deadline, "{cause:?} is not observed");
            for _ in 0..PACKETS {
                writer.send(&[0; 100]).unwrap();
                reader.recv(&mut room).unwrap();
            }
        }
    }
}

#[test]
fn routed_packets_are_forwarded() {
    if !possible() {
        return;
    }
    let chain = Chain::new();
    // Both hosts treat the other as a neighbor, and the middle answers for it.
    Chain::address(&chain.left, "l0", "10.9.0.1", 16);
    Chain::address(&chain.middle, "m0", "10.9.0.2", 24);
    Chain::address(&chain.middle, "m1", "10.9.1.2", 24);
    Chain::address(&chain.right, "r0", "10.9.1.1", 16);
    chain.middle.set_forwarding(true).unwrap();
    let set = || {
        fs::write("/proc/sys/net/ipv4/conf/m0/proxy_arp", "1")?;
        fs::write("/proc/sys/net/ipv4/conf/m1/proxy_arp", "1")?;
        // A proxy delays its answers, by up to 0.8 s.
        fs::write("/proc/sys/net/ipv4/neigh/m0/proxy_delay", "0")?;
        fs::write("/proc/sys/net/ipv4/neigh/m1/proxy_delay", "0")
    };
    chain.middle.namespace().run(set).unwrap().unwrap();
    let class = Class::Forwarded { from: chain.from(), to: chain.index("m1") };
    chain.count("10.9.1.1", Cause::Unowned(class));
}

#[test]
fn bridged_packets_are_bridged() {
    if !possible() {
        return;
    }
    let chain = Chain::new();
    chain.middle.create_bridge(&Bridge::new("b0")).unwrap();
    for port in ["m0", "m1"] {
        chain.middle.set_master(port, Some("b0")).unwrap();
    }
    chain.middle.set_up("b0").unwrap();
    Chain::address(&chain.left, "l0", "10.9.0.1", 24);
    Chain::address(&chain.right, "r0", "10.9.0.2", 24);
    let class = Class::Bridged { from: chain.from(), to: chain.index("m1") };
    chain.count("10.9.0.2", Cause::Unowned(class));
}
