//! The back end `xdp`.
//!
//! ```text
//!   near: "p0" --------- far: "f0", with a program that passes everything
//!   XdpPort              a plain packet socket
//! ```

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::conformance::{Peer, conformance, frame};
use crate::common::xdp::{self, next_frame, options};
use crate::common::{BOUND, Cable, raw_socket, removal_is_reported_by_wait};
use onbeat_link::{
    Capability, Cause, Clock, Confirmation, Feature, Filter, Outcome, Port, PortOptions, Slot,
    XdpPort,
};
use onbeat_netdev::{Ethtool, Handle, XdpMode};
use onbeat_testing::{Feature as Needs, require_all, require_that};
use onbeat_testing::{ForeignProgram, RawSocket};
use onbeat_wire::{EtherType, MacAddress};

/// A cable whose far end takes frames that a program sends.
struct Bench {
    cable: Cable,
    _far: ForeignProgram,
}

impl Bench {
    /// `None` where it cannot be built here.
    fn new() -> Option<Self> {
        require_all(&[Needs::Root, Needs::Veth]).then(|| {
            let cable = Cable::new();
            let far = ForeignProgram::pass(cable.far.namespace(), "f0");
            Self { cable, _far: far }
        })
    }

    /// For simultaneous events.
    fn with_two_cpus() -> Option<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if require_that(cpus > 1, "two CPUs") { Self::new() } else { None }
    }

    fn open(&self, options: PortOptions) -> (XdpPort, RawSocket) {
        let port = XdpPort::open(self.cable.near.namespace(), "p0", options).unwrap();
        (port, raw_socket(&self.cable.far, "f0"))
    }
}

/// Octets by which a response may exceed its request on any driver.
const ROOM_IN_FRONT: usize = 180;

/// A request whose payload begins with `kind`, and a filter for such.
fn request(to: MacAddress, kind: u8) -> (Vec<u8>, Filter) {
    let request =
        frame(to, MacAddress([2, 0, 0, 0, 0, 9]), &[&[kind; 1][..], &[0x5a; 99]].concat());
    let mut mask = [0; 15];
    mask[12..].fill(0xff);
    (request.clone(), Filter::new(&request[..15], &mask).unwrap())
}

fn filled(port: &mut XdpPort, frame: &[u8]) -> Slot {
    let slot = port.allocate(frame.len()).unwrap();
    port.update(slot, frame).unwrap();
    slot
}

/// The next confirmation, within the bound.
fn news(port: &mut XdpPort) -> Confirmation {
    let bound = port.now().after(BOUND.as_nanos() as u64);
    loop {
        if let Some(news) = port.confirmation().unwrap() {
            return news;
        }
        assert!(port.now() < bound, "no confirmation came");
        port.wait(port.now().after(10_000_000)).unwrap();
    }
}

#[test]
fn it_conforms() {
    let Some(bench) = Bench::new() else { return };
    for options in [
        options(),
        PortOptions { clock: Clock::Tai, receive_buffers: 4, ..options() },
        PortOptions { spin: true, copy: true, ..options() },
        PortOptions { confirm: false, ..options() },
        PortOptions { mode: Some(XdpMode::Generic), ..options() },
    ] {
        let (mut port, mut peer) = bench.open(options);
        conformance(&mut port, &mut peer);
    }
}

#[test]
fn native_features_are_reported() {
    let Some(bench) = Bench::new() else { return };
    let (port, _peer) = bench.open(options());
    let has = port.capabilities();
    assert_eq!(has.get(Feature::Response), &Capability::Native);
    for feature in [Feature::SendAt, Feature::ZeroCopyReceive, Feature::Confirmation] {
        let found = has.get(feature);
        assert!(matches!(found, Capability::Emulated { .. }), "{feature}: {found}");
    }
    assert!(format!("{port:?}").starts_with("XdpPort { interface: \"p0\""), "{port:?}");
}

#[test]
fn features_shared_with_xsk_work() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, mut peer) = bench.open(PortOptions { receive_buffers: 4, ..options() });
    xdp::full_ring_drops_counts_and_recovers(&mut port, &mut peer);
    drop(port);
    let (mut port, mut peer) = bench.open(options());
    xdp::the_stack_receives_other_frames(&bench.cable.near, &mut port, &mut peer);
    xdp::stamps_are_of_the_packet_sockets_clock(&mut port, &mut peer);
    xdp::link_down_is_reported_and_survived(&bench.cable, &mut port);
}

#[test]
fn a_removed_interface_is_reported_by_wait() {
    if !Cable::goes_away() {
        return;
    }
    let Some(bench) = Bench::new() else { return };
    let (mut port, _) = bench.open(options());
    removal_is_reported_by_wait(&bench.cable, &mut port);
}

#[test]
fn it_answers_while_this_process_does_nothing() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) = bench.open(options());
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let answer = frame(mac, mac, &[7; 200]);
    let slot = filled(&mut port, &answer);
    let _response = port.respond(filter, slot).unwrap();
    // Nothing is asked of the port until all answers are there.
    for _ in 0..100 {
        peer.send(&meant);
        assert_eq!(peer.receive(BOUND).as_ref(), Some(&answer));
    }
    let mut before = 0;
    for _ in 0..100 {
        let received = next_frame_only(&mut port);
        assert!(received.answered && port.octets(&received) == meant);
        assert!(received.stamp.ns >= before, "in order");
        before = received.stamp.ns;
        port.release(received);
        let Confirmation { slot: of, cause, outcome } = news(&mut port);
        assert_eq!((of, cause), (slot, Cause::Response));
        assert!(matches!(outcome, Outcome::Sent(sent) if sent.ns >= before), "{outcome:?}");
    }
    let counted = port.diagnostics().unwrap();
    assert_eq!((counted.responses, counted.receive_drops, counted.unconfirmed), (100, 0, 0));
}

/// Waits until a thread of this process sleeps.
fn until_asleep(thread: i32) {
    let file = format!("/proc/self/task/{thread}/stat");
    let start = Instant::now();
    loop {
        let stat = std::fs::read_to_string(&file).unwrap();
        if stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")) {
            return;
        }
        assert!(start.elapsed() < BOUND, "thread {thread} does not sleep: {stat}");
        std::thread::yield_now();
    }
}

#[test]
fn answered_requests_leave_the_process_asleep_on_demand() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) =
        bench.open(PortOptions { wake_when_answered: false, confirm: false, ..options() });
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let (other, _) = request(mac, 2);
    let answer = frame(mac, mac, &[7; 100]);
    let slot = filled(&mut port, &answer);
    let _response = port.respond(filter, slot).unwrap();
    for _ in 0..20 {
        let thread = nix::unistd::gettid().as_raw();
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                until_asleep(thread);
                peer.send(&meant);
                assert_eq!(peer.receive(BOUND).as_ref(), Some(&answer));
                until_asleep(thread);
                peer.send(&other);
            });
            assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap());
            std::iter::from_fn(|| port.receive().unwrap()).collect::<Vec<_>>()
        });
        let kinds: Vec<_> = received.iter().map(|frame| frame.answered).collect();
        assert_eq!(kinds, [true, false], "both after one wakeup, in their order");
        received.into_iter().for_each(|frame| port.release(frame));
    }
}

/// The driver of a veth drops what a program sends to a peer without NAPI. Polls are left to this process then, and
/// answered in the driver again as soon as the peer has a program, or generic receive offload.
#[test]
fn on_a_veth_polls_are_answered_in_the_driver_only_while_the_peer_runs_napi() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let handle = Handle::in_namespace(cable.near.namespace()).unwrap();
    let reported = onbeat_netdev::xdp::features(&handle, "p0").unwrap().is_some();
    if !require_that(reported, "features of XDP drivers (Linux 6.3)") {
        return;
    }
    let mut port = XdpPort::open(cable.near.namespace(), "p0", options()).unwrap();
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let answer = frame(mac, mac, &[7; 200]);
    let slot = filled(&mut port, &answer);
    let _response = port.respond(filter, slot).unwrap();
    let poll = |port: &mut XdpPort| {
        peer.send(&meant);
        let received = next_frame(port);
        assert!(port.octets(&received) == meant);
        let answered = received.answered;
        port.release(received);
        answered
    };
    let poll_until = |port: &mut XdpPort, answered: bool| {
        let bound = port.now().after(BOUND.as_nanos() as u64);
        while poll(port) != answered {
            assert!(port.now() < bound, "answered in the driver: {}", !answered);
            port.wait(port.now().after(100_000_000)).unwrap();
        }
    };
    assert!(!poll(&mut port), "the peer has no NAPI yet");

    let program = ForeignProgram::pass(cable.far.namespace(), "f0");
    poll_until(&mut port, true);
    assert_eq!(peer.receive(BOUND).as_ref(), Some(&answer));
    drop(program);
    poll_until(&mut port, false);

    let ethtool = Ethtool::in_namespace(cable.far.namespace()).unwrap();
    ethtool.set_features("f0", &[("rx-gro", true)]).unwrap();
    poll_until(&mut port, true);
    assert_eq!(peer.receive(BOUND).as_ref(), Some(&answer));
    assert_eq!(port.diagnostics().unwrap().receive_drops, 0);
}

/// As [`next_frame`], but leaves confirmations where they are.
fn next_frame_only(port: &mut XdpPort) -> onbeat_link::ReceivedFrame {
    let bound = port.now().after(BOUND.as_nanos() as u64);
    loop {
        if let Some(received) = port.receive().unwrap() {
            return received;
        }
        assert!(port.now() < bound, "no frame came");
    }
}

#[test]
fn answers_are_of_any_length() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) = bench.open(options());
    let mac = port.mac_address();
    let slot = port.allocate(1514).unwrap();
    let shortest = frame(mac, mac, &[]);
    port.update(slot, &shortest).unwrap();
    let mut mask = [0; 14];
    mask[..6].fill(0xff);
    let filter = Filter::new(&frame(mac, mac, &[])[..14], &mask).unwrap();
    let _response = port.respond(filter, slot).unwrap();
    for len in [0, 1, 46, 300, 1500] {
        let sent = frame(mac, mac, &vec![0x11; len]);
        for answer_len in [0, 1, 46, 180, 301, 1500] {
            let answer = frame(mac, mac, &vec![answer_len as u8; answer_len]);
            port.update(slot, &answer).unwrap();
            peer.send(&sent);
            let Confirmation { outcome, .. } = news(&mut port);
            let received = next_frame(&mut port);
            let answered = matches!(outcome, Outcome::Sent(_));
            assert_eq!(received.answered, answered);
            assert!(port.octets(&received) == sent && received.len == sent.len());
            port.release(received);
            // A veth has room in front of a frame, and not always behind it.
            assert!(answered || answer_len > len + ROOM_IN_FRONT, "{len} by {answer_len}");
            if answered {
                assert_eq!(peer.receive(BOUND), Some(answer), "{len} by {answer_len}");
            }
        }
    }
}

#[test]
fn a_tagged_frame_is_answered_and_received_without_its_tag() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) = bench.open(options());
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let answer = frame(mac, mac, b"answer");
    let slot = filled(&mut port, &answer);
    let _response = port.respond(filter, slot).unwrap();
    peer.send(&[&meant[..12], &[0x88, 0xa8, 0x60, 0x07], &meant[12..]].concat());
    assert_eq!(peer.receive(BOUND), Some(answer));
    let received = next_frame(&mut port);
    assert!(port.octets(&received) == meant && received.len == meant.len());
    let tag = received.tag.unwrap();
    assert_eq!((tag.tpid, tag.tci), (EtherType::S_VLAN, 0x6007));
    port.release(received);
}

#[test]
fn the_oldest_of_many_responses_answers() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) = bench.open(PortOptions { responses: 128, slots: 128, ..options() });
    let mac = port.mac_address();
    let mut responses = Vec::new();
    for kind in 0..128_u8 {
        // Each kind twice; the second never has its turn.
        let slot = filled(&mut port, &frame(mac, mac, &[kind; 60]));
        responses.push(port.respond(request(mac, kind / 2).1, slot).unwrap());
    }
    let ask = |port: &mut XdpPort, kind: u8| {
        peer.send(&request(mac, kind).0);
        let answer = peer.receive(BOUND).expect("an answer")[14];
        let received = next_frame(port);
        port.release(received);
        answer
    };
    for kind in 0..64 {
        assert_eq!(ask(&mut port, kind), 2 * kind);
    }
    port.stop_responding(responses.remove(126)).unwrap();
    assert_eq!(ask(&mut port, 63), 127);
}

#[test]
fn missed_records_are_counted() {
    let Some(bench) = Bench::new() else { return };
    let (mut port, peer) = bench.open(PortOptions { receive_buffers: 4, ..options() });
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let slot = filled(&mut port, &frame(mac, mac, &[7; 60]));
    let _response = port.respond(filter, slot).unwrap();
    for _ in 0..100 {
        peer.send(&meant);
        assert!(peer.receive(BOUND).is_some(), "the answer does not need a listener");
    }
    let mut held = Vec::new();
    held.extend(std::iter::from_fn(|| port.receive().unwrap()));
    assert_eq!(held.len(), 4, "as many as there are buffers");
    let counted = port.diagnostics().unwrap();
    assert_eq!((counted.responses, counted.received, counted.receive_drops), (100, 4, 96));
    held.into_iter().for_each(|received| port.release(received));
    peer.send(&meant);
    let received = next_frame(&mut port);
    assert!(received.answered);
    port.release(received);
}

/// A frame that contains its version and length throughout.
fn versioned(mac: MacAddress, version: u32) -> Vec<u8> {
    let words = 12 + (version as usize % 300);
    frame(mac, mac, &version.to_be_bytes().repeat(words))
}

fn check_versioned(frame: &[u8]) -> u32 {
    let payload = &frame[14..];
    let version = u32::from_be_bytes(payload[..4].try_into().unwrap());
    assert_eq!(payload.len(), 4 * (12 + version as usize % 300), "a whole frame of {version}");
    let torn = payload.chunks(4).find(|word| *word != version.to_be_bytes());
    assert_eq!(torn, None, "a mixture with version {version}");
    version
}

/// Keeps the calling thread on one CPU.
fn stay_on(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

/// Sends requests until enough versions were received; returns the number of requests.
fn request_versions(peer: &mut RawSocket, meant: &[u8]) -> u64 {
    let deadline = Instant::now() + 6 * BOUND;
    let (mut before, mut seen, mut sent) = (0, 0, 0);
    while seen < 500 || sent < 5_000 {
        assert!(Instant::now() < deadline, "{seen} versions seen in {sent} answers");
        peer.send(meant);
        sent += 1;
        // One that is not answered, since too many updates came meanwhile, is told as that.
        if let Some(answer) = peer.receive(BOUND / 100) {
            let version = check_versioned(&answer);
            assert!(version >= before, "an older frame after a newer one");
            seen += u32::from(version > before);
            before = version;
        }
    }
    sent
}

#[test]
fn an_update_is_atomic() {
    let Some(bench) = Bench::with_two_cpus() else { return };
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let (mut port, mut peer) =
            bench.open(PortOptions { mode: Some(mode), confirm: false, ..options() });
        let mac = port.mac_address();
        // As long as the longest answer, since there may be no room behind.
        let (meant, filter) = request(mac, 1);
        let meant = [&meant[..], &[0; 1300]].concat();
        let slot = port.allocate(1514).unwrap();
        port.update(slot, &versioned(mac, 0)).unwrap();
        let _response = port.respond(filter, slot).unwrap();
        let done = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                stay_on(1);
                for version in 1.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    port.update(slot, &versioned(mac, version)).unwrap();
                    while let Some(received) = port.receive().unwrap() {
                        port.release(received);
                    }
                    while port.confirmation().unwrap().is_some() {}
                }
            });
            // The program runs on the CPU of the sender.
            stay_on(0);
            let sent =
                std::panic::catch_unwind(AssertUnwindSafe(|| request_versions(&mut peer, &meant)));
            done.store(true, Ordering::Relaxed);
            sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let answered = port.diagnostics().unwrap().responses;
        assert!(answered <= sent && answered * 100 > sent * 99, "{answered} of {sent}");
    }
}

#[test]
fn changing_responses_does_not_affect_others() {
    let Some(bench) = Bench::with_two_cpus() else { return };
    let (mut port, peer) = bench.open(PortOptions { confirm: false, responses: 128, ..options() });
    let mac = port.mac_address();
    let (meant, filter) = request(mac, 1);
    let (steady, other) = (frame(mac, mac, &[1; 60]), frame(mac, mac, &[2; 60]));
    let slot = filled(&mut port, &steady);
    let _steady = port.respond(filter, slot).unwrap();
    // So that a change of the table takes its time.
    for kind in 100..220 {
        let _never_asked = port.respond(request(mac, kind).1, slot).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            stay_on(1);
            let mut changes = 0;
            while !done.load(Ordering::Relaxed) {
                // A slot that changes hands, for requests that never come.
                let passing = filled(&mut port, &other);
                let response = port.respond(request(mac, 2).1, passing).unwrap();
                port.stop_responding(response).unwrap();
                port.free(passing).unwrap();
                changes += 1;
                while let Some(received) = port.receive().unwrap() {
                    assert!(received.answered);
                    port.release(received);
                }
            }
            changes
        });
        stay_on(0);
        let answers = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..20_000 {
                peer.send(&meant);
                assert_eq!(peer.receive(BOUND).as_ref(), Some(&steady));
            }
        }));
        done.store(true, Ordering::Relaxed);
        assert!(changes.join().unwrap() > 0);
        answers.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
