//! Sources, sinks and wires on real interfaces.

use std::time::Duration;

use crate::common::{build, can, machine};
use onbeat_lab::fault::{Direction, Impairment};
use onbeat_lab::traffic::{
    Delivery, ExpectedStream, FrameSpec, Rate, Sink, SinkReport, Source, SourceConfig,
};
use onbeat_lab::{Topology, World};
use onbeat_realtime::interrupt::wait_until;
use onbeat_wire::{EtherType, MacAddress, VlanTag};

/// Maximum wait for an event that is expected at once.
const BOUND: Duration = Duration::from_secs(30);

const STREAM: u32 = 7;

fn frame(vlans: &[VlanTag], size: usize) -> FrameSpec {
    FrameSpec {
        destination: MacAddress([0x01, 0x00, 0x5e, 0, 0, 1]),
        source: MacAddress([0x02, 0, 0, 0, 0, 1]),
        vlans: vlans.to_vec(),
        size,
    }
}

/// talker:eth0 --- cable --- listener:eth0
fn cable(impairment: Option<Impairment>) -> World {
    machine::exclusive();
    let mut network = Topology::default();
    network.host("talker", 0, 0).host("listener", 1, 0);
    network.link("cable", "talker:eth0", "listener:eth0");
    network.links[0].impairment = impairment;
    build(&network)
}

/// Sends `frames`, waits until `expected` have arrived (or the bound is over), and compares.
fn send(
    world: &World,
    spec: &FrameSpec,
    rate: Rate,
    frames: u64,
    expected: u64,
) -> (Delivery, SinkReport) {
    let listener = world.namespace("listener").unwrap();
    let expect = ExpectedStream { stream: STREAM, vlans: spec.vlans.clone() };
    let sink = Sink::start(listener, "eth0", &[expect]).unwrap();
    let config = SourceConfig {
        stream: STREAM,
        frame: spec.clone(),
        rate,
        limit: Some(frames),
        spin: Duration::ZERO,
    };
    let source = Source::start(world.namespace("talker").unwrap(), "eth0", config).unwrap();
    assert!(wait_until(BOUND, || source.is_finished()).unwrap(), "the source does not end");
    let sent = source.stop().unwrap();
    wait_until(BOUND, || sink.delivered(STREAM) >= expected).unwrap();
    let mut report = sink.stop().unwrap();
    assert_eq!(report.socket_drops, 0);
    let record = report.take(STREAM).unwrap();
    (Delivery::new(sent, record), report)
}

#[test]
fn a_cable_loses_no_frame_at_10000_frames_per_second() {
    if !can(&[]) {
        return;
    }
    let world = cable(None);
    let (found, report) =
        send(&world, &frame(&[VlanTag::new(10)], 1000), Rate::PerSecond(10_000), 10_000, 10_000);
    assert_eq!((found.sent(), found.delivered(), found.lost()), (10_000, 10_000, 0));
    assert_eq!((found.record.duplicated(), found.record.out_of_order()), (0, 0));
    assert_eq!((found.record.wrong_vlan, found.record.sequence_tagged), (0, 0));
    assert_eq!((report.corrupted, report.foreign, report.unstamped), (0, 0, 0));
    // The schedule takes its full time: frame 9,999 is due after 0.9999 s.
    assert!(found.source.end_ns - found.source.start_ns >= 999_900_000);
    assert!((0..10_000).all(|frame| found.delay_ns(frame).is_some()));
}

#[test]
fn tags_and_sizes_arrive_as_sent() {
    if !can(&[]) {
        return;
    }
    let world = cable(None);
    let outer = VlanTag { tpid: EtherType::S_VLAN, pcp: 6, dei: true, vid: 200 };
    let inner = VlanTag { pcp: 3, ..VlanTag::new(7) };
    for vlans in [&[][..], &[inner], &[outer, inner]] {
        for size in [60, 1514] {
            let spec = frame(vlans, size);
            let (found, report) = send(&world, &spec, Rate::Max, 200, 200);
            assert_eq!((found.delivered(), found.lost()), (200, 0), "{spec:?}");
            assert_eq!((found.record.wrong_vlan, report.corrupted), (0, 0), "{spec:?}");
        }
    }
}

#[test]
fn the_counters_of_a_wire_match_its_frames() {
    if !can(&[]) {
        return;
    }
    const FRAMES: u64 = 4000;
    let impairment = Impairment {
        loss: 0.1,
        duplicate: 0.2,
        reorder: 0.05,
        delay_us: 100,
        seed: 42,
        ..Impairment::default()
    };
    let world = cable(Some(impairment));
    let wire = world.wire("cable").unwrap();
    let spec = frame(&[VlanTag::new(10)], 200);
    let (found, report) = {
        let listener = world.namespace("listener").unwrap();
        let sink = Sink::start(
            listener,
            "eth0",
            &[ExpectedStream { stream: STREAM, vlans: spec.vlans.clone() }],
        )
        .unwrap();
        let config = SourceConfig {
            stream: STREAM,
            frame: spec,
            rate: Rate::PerSecond(10_000),
            limit: Some(FRAMES),
            spin: Duration::ZERO,
        };
        let source = Source::start(world.namespace("talker").unwrap(), "eth0", config).unwrap();
        let counters = || wire.counters(Direction::Forward);
        let through = wait_until(BOUND, || {
            let now = counters();
            now.received == FRAMES
                && now.forwarded == FRAMES - now.lost + now.duplicated
                && sink.delivered(STREAM) == FRAMES - now.lost
        });
        assert!(through.unwrap(), "{:?}", counters());
        let sent = source.stop().unwrap();
        let mut report = sink.stop().unwrap();
        (Delivery::new(sent, report.take(STREAM).unwrap()), report)
    };
    let counters = wire.counters(Direction::Forward);
    assert_eq!((counters.cut, counters.overrun), (0, 0));
    assert_eq!(found.lost(), counters.lost);
    assert_eq!(found.record.duplicated(), counters.duplicated);
    assert!(counters.lost > 0 && counters.duplicated > 0 && counters.reordered > 0);
    let late = found.record.out_of_order();
    assert!(late > 0 && late <= counters.reordered, "{late} of {}", counters.reordered);
    assert_eq!((report.corrupted, found.record.wrong_vlan), (0, 0));
    let delays = (0..FRAMES).filter_map(|frame| found.delay_ns(frame));
    assert!(delays.min().unwrap() >= 100_000);
    assert_eq!(wire.counters(Direction::Backward).received, 0);
}

#[test]
fn a_wire_can_be_changed_while_it_runs() {
    if !can(&[]) {
        return;
    }
    let world = cable(Some(Impairment::default()));
    let wire = world.wire("cable").unwrap();
    let spec = frame(&[], 100);
    assert_eq!(send(&world, &spec, Rate::PerSecond(5000), 500, 500).0.lost(), 0);
    wire.set_direction(Direction::Forward, Impairment { loss: 1.0, ..Impairment::default() });
    let (found, _) = send(&world, &spec, Rate::PerSecond(5000), 500, 0);
    let swallowed = || wire.counters(Direction::Forward).lost == 500;
    assert!(wait_until(BOUND, swallowed).unwrap(), "{:?}", wire.counters(Direction::Forward));
    assert_eq!(found.delivered(), 0);
}
