//! Faults that no frame and no link event shows: a transmitter that repeats numbers, a peer that cannot receive frames of
//! native programs, a port in generic mode that could run natively by now.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use onbeat_frer::watch::EventKind;
use onbeat_lab::World;
use onbeat_netdev::Ethtool;
use onbeat_node::config::Backend;
use onbeat_node::control::{Event, EventDetail, PortMode};
use onbeat_testing::{Feature, require_all};

use crate::common::{
    BOUND, Capture, FrameText, GROUP, Injector, PORTS, VLAN, address, build, can_run, one_node,
    port, program, replicate_alike, run, show, stream, wait_for,
};

const FRAMES: u64 = 2000;

fn events() -> Vec<Event> {
    let output = run(&["show", "a", "--events", "--json"]).out;
    output.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// Waits for an event.
#[track_caller]
fn wait_event(what: &str, is_it: impl Fn(&Event) -> bool) -> Event {
    let find = || events().into_iter().find(|event| is_it(event));
    wait_for(what, || find().is_some());
    find().expect("it was there")
}

#[test]
fn a_transmitter_that_repeats_a_number_is_reported_with_its_path() {
    if !can_run() {
        return;
    }
    let member = |port: &str, vlan: u16| {
        format!(
            "{{ port = \"{port}\", identify = {{ type = \"null\", destination = \"{GROUP}\", vlan = {vlan} \
             }}, individual = {{ history-length = 2 }} }}"
        )
    };
    let config = format!(
        "{PORTS}[[stream]]\nname = \"axis\"\nmember = [{}, {}]\nrecover = {{ history-length = 64 }}\n\
         egress = [{{ port = \"host\", tag = \"none\" }}]\n",
        member("path1", 11),
        member("path2", 12)
    );
    for backend in [Backend::Xdp, Backend::Packet] {
        let mut world = build(&one_node(&config));
        world.set_backend(Some(backend));
        world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
        let senders = ["path1", "path2"].map(|path| Injector::open(&world, path, "eth0"));
        let send = |path: usize, number| {
            let vlan = [11, 12][path];
            senders[path].send(&FrameText::new(GROUP, &[vlan], Some(number)).octets());
        };
        for number in 0..10 {
            (0..2).for_each(|path| send(path, number));
        }
        // The other path continues.
        let (mut number, mut repeated) = (10, 0);
        let is_stuck = |event: &Event| {
            matches!(event.detail, EventDetail::Watch(EventKind::StuckTransmitter { .. }))
        };
        wait_for("a stuck transmitter", || {
            (0..20).for_each(|_| send(1, 9));
            repeated += 20;
            send(0, number);
            number += 1;
            repeated >= FRAMES && events().iter().any(is_stuck)
        });
        let stuck = wait_event("a stuck transmitter", is_stuck);
        let at = (stuck.stream.as_deref(), stuck.port.as_deref(), stuck.member);
        assert_eq!(at, (Some("axis"), Some("path2"), Some(1)), "{backend}");
        let EventDetail::Watch(EventKind::StuckTransmitter { recov_seq_num, packets }) =
            stuck.detail
        else {
            unreachable!()
        };
        assert!(recov_seq_num == 9 && packets >= 100, "{backend}: {recov_seq_num}, {packets}");
        let text = run(&["show", "a", "--events"]).out;
        assert!(
            text.contains("stuck transmitter: 9 is the last new number, repeated ones: "),
            "{text}"
        );
        let mut counters = None;
        let all = onbeat_realtime::interrupt::wait_until(BOUND, || {
            let status = show("a");
            let individual = stream(&status, "axis").members[1].individual.as_ref();
            counters = individual.map(|individual| individual.counters);
            counters.is_some_and(|counters| counters.discarded == repeated)
        });
        assert!(all.expect("no signal"), "{backend}: {repeated} repeated: {counters:?}");
        send(1, 10);
        let ended = wait_event("its end", |event| {
            matches!(event.detail, EventDetail::Watch(EventKind::StuckTransmitterEnded { .. }))
        });
        let EventDetail::Watch(EventKind::StuckTransmitterEnded { packets }) = ended.detail else {
            unreachable!()
        };
        // Those beside the last new packet in one reading do not count.
        assert!((100..=repeated).contains(&packets), "{backend}: {packets} of {repeated}");
    }
}

/// Sets generic receive offload at the other end of path1, without which it does not poll.
fn set_gro(world: &World, on: bool) {
    let ethtool = Ethtool::in_namespace(world.namespace("path1").unwrap()).unwrap();
    ethtool.set_features("eth0", &[("gro", on)]).unwrap();
}

/// Sends frames, and waits until this number has arrived behind path1.
#[track_caller]
fn send(world: &World, captures: &mut [Capture; 2], arrive: [u64; 2]) {
    let talker = Injector::open(world, "host", "eth0");
    let frame = FrameText::new(GROUP, &[VLAN], None).octets();
    let group = address(GROUP).0;
    captures.iter_mut().for_each(|capture| capture.frames.clear());
    for _ in 0..FRAMES / 100 {
        (0..100).for_each(|_| talker.send(&frame));
        captures.iter_mut().for_each(|capture| _ = capture.take());
    }
    let mut arrived = [0; 2];
    let all = onbeat_realtime::interrupt::wait_until(BOUND, || {
        arrived = captures.each_mut().map(|capture| {
            let frames = capture.take().iter();
            frames.filter(|frame| frame.starts_with(&group)).count() as u64
        });
        arrived == arrive
    });
    assert!(all.expect("no signal"), "{arrived:?} instead of {arrive:?}");
}

#[test]
fn a_peer_that_stops_to_poll_is_reported_with_its_remedy_and_its_frames_are_lost() {
    if !can_run() || !require_all(&[Feature::XdpFeatures]) {
        return;
    }
    let mut world = build(&one_node(&(PORTS.to_owned() + &replicate_alike())));
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    let mut captures = ["path1", "path2"].map(|path| Capture::open(&world, path, "eth0"));
    assert!(show("a").ports.iter().all(|port| port.mode == PortMode::Native));
    send(&world, &mut captures, [FRAMES; 2]);

    set_gro(&world, false);
    let is_lost = |event: &Event| matches!(event.detail, EventDetail::FramesLost { why: Some(_) });
    let lost = wait_event("lost frames", is_lost);
    assert_eq!(lost.port.as_deref(), Some("host"));
    let EventDetail::FramesLost { why: Some(why) } = lost.detail else { unreachable!() };
    assert!(why.contains("port \"path1\", and its veth path1 transmits"), "{why}");
    assert!(why.contains("ethtool -K") && why.contains("gro on"), "{why}");
    assert_eq!(port(&show("a"), "host").frames_lost.as_deref(), Some(why.as_str()));
    send(&world, &mut captures, [0, FRAMES]);
    wait_for("the frames are counted as lost", || {
        let status = show("a");
        let [first, second] = ["path1", "path2"].map(|name| port(&status, name).clone());
        assert_eq!(second.lost.total(), 0, "{second:?}");
        (first.output_packets, first.lost.not_sent) == (FRAMES, FRAMES)
            && second.output_packets == 2 * FRAMES
    });

    set_gro(&world, true);
    wait_event("no lost frames", |event| {
        event.number > lost.number && event.detail == EventDetail::FramesLost { why: None }
    });
    send(&world, &mut captures, [FRAMES; 2]);
}

#[test]
fn a_port_in_generic_mode_is_attached_natively_once_that_is_possible() {
    if !can_run() || !require_all(&[Feature::XdpFeatures]) {
        return;
    }
    let mut world = build(&one_node(&(PORTS.to_owned() + &replicate_alike())));
    set_gro(&world, false);
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    let status = show("a");
    let host = port(&status, "host");
    assert_eq!(host.mode, PortMode::Generic);
    assert!(host.not_native.as_ref().is_some_and(|why| why.contains("gro on")), "{host:?}");
    let mut captures = ["path1", "path2"].map(|path| Capture::open(&world, path, "eth0"));
    send(&world, &mut captures, [FRAMES; 2]);

    set_gro(&world, true);
    let native = wait_event("native mode", |event| {
        event.detail == EventDetail::PortMode { mode: PortMode::Native, why: None }
    });
    assert_eq!(native.port.as_deref(), Some("host"));
    let status = show("a");
    assert!(status.ports.iter().all(|port| port.mode == PortMode::Native), "{:?}", status.ports);
    assert!(status.ports.iter().all(|port| port.not_native.is_none()), "{:?}", status.ports);
    send(&world, &mut captures, [FRAMES; 2]);
    // The daemon's restart keeps the mode, and the streams.
    world.daemon("a").unwrap().kill().unwrap();
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(port(&show("a"), "host").mode, PortMode::Native);
    send(&world, &mut captures, [FRAMES; 2]);
}
