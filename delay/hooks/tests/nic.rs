//! Time stamps of NICs that support them: two interfaces joined by a cable, given by `ONBEAT_LINK_PAIR=eth0,eth1`,
//! and `ONBEAT_LINK_STAMPS=1`.
//!
//! ```text
//!   raw socket: eth0 ------- eth1: hooks, without a receiver
//! ```

use std::env;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use onbeat_hooks::{Detail, Device, Fate, Filter, Hop, Stage, Tracer, TrackedClock};
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Ethtool, Handle, Namespace};
use onbeat_testing::{Feature, RawSocket, require_all};

const BOUND: Duration = Duration::from_secs(20);

/// IEEE 1588 over Ethernet: NICs that cannot stamp all frames stamp these.
const PTP: [u8; 2] = [0x88, 0xf7];
/// `HWTSTAMP_FILTER_PTP_V2_EVENT` of linux/net_tstamp.h.
const PTP_EVENTS: i32 = 12;

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

#[test]
fn a_packet_starts_at_the_stamp_of_the_nic() {
    let pair =
        env::var("ONBEAT_LINK_PAIR").ok().filter(|_| env::var_os("ONBEAT_LINK_STAMPS").is_some());
    let Some(pair) = pair else {
        return eprintln!(
            "SKIP: needs NICs that stamp frames: ONBEAT_LINK_PAIR, and ONBEAT_LINK_STAMPS=1"
        );
    };
    if !require_all(&[Feature::Root, Feature::Btf, Feature::Kernel(6, 3)]) {
        return;
    }
    let (near, far) = pair.split_once(',').expect("two names");
    let handle = Handle::open().unwrap();
    for name in [near, far] {
        handle.set_ipv6(name, false).unwrap();
        handle.set_up(name).unwrap();
    }
    for name in [near, far] {
        handle.wait_carrier(name, BOUND).unwrap();
    }
    let ethtool = Ethtool::in_namespace(&Namespace::current().unwrap()).unwrap();
    let stamps = |rx_filter| HardwareStamps { tx: false, rx_filter };
    ethtool
        .set_hardware_stamps(far, stamps(HardwareStamps::ALL))
        .or_else(|_| ethtool.set_hardware_stamps(far, stamps(PTP_EVENTS)))
        .unwrap();
    let mut clock = TrackedClock::open(ethtool.timestamping(far).unwrap().phc.unwrap()).unwrap();
    let hop = Hop {
        arrivals: Device::find(far).unwrap(),
        departures: None,
        filter: Filter::parse(["ether proto 0x88f7"]).unwrap(),
        detail: Detail::Stages,
        device_stamps: true,
    };
    let mut tracer = Tracer::start(&hop).unwrap();
    let socket = RawSocket::open(&handle, near);
    let mac = |name| handle.link(name).unwrap().mac.unwrap().0;
    let mut stamped = 0;
    for number in 0..20_u8 {
        // A Sync message of version 2.
        let mut frame = [&mac(far)[..], &mac(near), &PTP, &[0, 2, 0, 44]].concat();
        frame.resize(14 + 44, 0);
        frame[14 + 31] = number;
        let sent_ns = now_ns();
        socket.send(&frame);
        let mut packets = Vec::new();
        while packets.is_empty() {
            assert!(now_ns() < sent_ns + BOUND.as_nanos() as u64, "no packet is reported");
            packets = tracer.take().unwrap();
            std::thread::yield_now();
        }
        clock.read().unwrap();
        let mut packet = packets[0];
        assert!(matches!(packet.fate, Fate::Dropped(_)), "{packet:?}");
        // A NIC with a single register stamps no packet until that is read.
        let Some(stamp) = packet.device_ns else { continue };
        stamped += 1;
        let (at_ns, error_ns) = clock.monotonic_ns(stamp).expect("a time between two readings");
        assert!(at_ns + error_ns >= sent_ns, "{at_ns} {error_ns} {sent_ns}");
        let seen_ns = packet.begin_ns;
        assert!(packet.begin_in_device(at_ns, error_ns), "{at_ns} {error_ns} {packet:?}");
        assert_eq!(packet.begin_ns, at_ns.min(seen_ns));
        let sum: u32 = packet.stages_ns.iter().flatten().sum();
        assert!(packet.stages_ns[Stage::Device as usize].is_some() && sum <= packet.total_ns);
        eprintln!(
            "in the NIC {:?} ns, within {error_ns} ns",
            packet.stages_ns[Stage::Device as usize]
        );
    }
    assert!(stamped > 0, "the NIC stamped no packet");
    eprintln!("{stamped} packets stamped");
    ethtool.set_hardware_stamps(far, stamps(HardwareStamps::NONE)).unwrap();
}
