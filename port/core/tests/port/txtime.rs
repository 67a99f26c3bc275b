//! The back end txtime, on interfaces with software etf.
//!
//! ```text
//!   near: "p0" --- etf --------- far: "f0"
//!   PacketPort::open_txtime      a plain packet socket
//! ```

use std::env;

use crate::common::conformance::{ETHER_TYPE, conformance, frame};
use crate::common::{BOUND, Cable, raw_socket};
use onbeat_link::{
    Backend, Capability, Cause, Clock, Error, Feature, Outcome, PacketPort, Port, PortOptions,
    StampSource, Time, TxtimeOptions,
};
use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle, QueueMap, Taprio};
use onbeat_testing::{Feature as Needs, require_all};
use onbeat_wire::MacAddress;

const MILLISECOND: u64 = 1_000_000;
const PEER: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x99]);
const FIRST: QdiscHandle = QdiscHandle { major: 0x100, minor: 0 };

/// In an emulated machine the kernel may be late.
const ETF: Etf =
    Etf { delta_ns: 10_000_000, deadline: false, offload: false, skip_socket_check: false };

fn root(discipline: Discipline) -> Qdisc {
    Qdisc { handle: FIRST, parent: QdiscHandle::ROOT, discipline }
}

/// etf behind a transmit queue of the root.
fn behind(queue: u16, etf: Etf) -> Qdisc {
    let parent = QdiscHandle { minor: queue + 1, ..FIRST };
    Qdisc { handle: QdiscHandle::NONE, parent, discipline: Discipline::Etf(etf) }
}

/// Priority 3 of class 1 on transmit queue 1, the others of class 0 on queue 0.
fn two_classes() -> QueueMap {
    let mut class_of = [0; 16];
    class_of[3] = 1;
    QueueMap { class_of, queues: vec![(0, 1), (1, 1)] }
}

/// A cable with etf at the root of its near end; `None` where the kernel has none.
fn cable(etf: Etf) -> Option<Cable> {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return None;
    }
    let cable = Cable::new();
    install(&cable, &[root(Discipline::Etf(etf))]).then_some(cable)
}

fn install(cable: &Cable, qdiscs: &[Qdisc]) -> bool {
    for qdisc in qdiscs {
        match cable.near.replace_qdisc("p0", qdisc) {
            // tests/vm has kernels with all of them; another need not.
            Err(error @ onbeat_netdev::Error::Unsupported { .. })
                if env::var_os("ONBEAT_VM").is_none() =>
            {
                eprintln!("SKIP: {error}; tests/vm has it");
                return false;
            }
            result => result.unwrap(),
        }
    }
    true
}

fn open(cable: &Cable, txtime: TxtimeOptions) -> Result<PacketPort, Error> {
    let options = PortOptions { ether_types: vec![ETHER_TYPE], txtime, ..PortOptions::default() };
    PacketPort::open_txtime(cable.near.namespace(), "p0", options)
}

/// Near enough that a cycle of the conformance body is updated in time, and so far that a process
/// that is late in an emulated machine is in time.
fn ahead() -> TxtimeOptions {
    TxtimeOptions { ahead_ns: 20 * MILLISECOND, ..TxtimeOptions::default() }
}

fn check_conformance(cable: &Cable) {
    let mut port = open(cable, ahead()).unwrap();
    assert_eq!(port.capabilities().backend(), Backend::Txtime);
    assert_eq!(port.clock(), Clock::Tai);
    port.capabilities().require_native(Feature::SendAt).unwrap();
    conformance(&mut port, &mut raw_socket(&cable.far, "f0"));
}

#[test]
fn it_conforms_with_etf() {
    if let Some(cable) = cable(ETF) {
        check_conformance(&cable);
    }
}

#[test]
fn it_conforms_with_etf_behind_mqprio() {
    conforms_behind(Discipline::Mqprio(two_classes()));
}

#[test]
fn it_conforms_with_etf_behind_taprio() {
    // Every gate is open at all times; taprio wants an entry.
    let entries = vec![(0b11, 500_000), (0b11, 500_000)];
    let taprio = Taprio { queues: two_classes(), base_time_ns: 0, entries };
    // That of 6.1, in software, leaves frames in the queue until others come.
    if let Some(why) = Needs::Kernel(6, 2).missing() {
        return eprintln!("SKIP: software taprio: {why}");
    }
    conforms_behind(Discipline::Taprio(taprio));
}

fn conforms_behind(discipline: Discipline) {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::with_queues(2);
    let mut qdiscs = vec![root(discipline.clone()), behind(1, ETF)];
    if matches!(discipline, Discipline::Taprio(_)) {
        // To put one behind it makes the kernel turn the interface's queues off and on, which ends
        // the timer of software taprio: its schedule begins, or goes on, when it is told again.
        qdiscs.push(root(discipline.clone()));
    }
    if !install(&cable, &qdiscs) {
        return;
    }
    let found = cable.near.qdiscs("p0").unwrap();
    assert!(found.iter().any(|qdisc| qdisc.discipline == discipline), "{found:?}");
    check_conformance(&cable);
    let other = TxtimeOptions { priority: Some(0), ..ahead() };
    let refusal = open(&cable, other).unwrap_err().to_string();
    assert!(refusal.contains("tc qdisc replace dev p0 parent 100:1 etf"), "{refusal}");
}

#[test]
fn without_etf_the_remedy_is_named() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let refusal = open(&cable, ahead()).unwrap_err().to_string();
    let expected = "tc qdisc replace dev p0 root etf clockid CLOCK_TAI delta 1000000";
    assert!(refusal.contains(expected), "{refusal}");
}

#[test]
fn inexact_launches_are_reported() {
    let Some(cable) = cable(ETF) else { return };
    let port = open(&cable, ahead()).unwrap();
    let found = port.capabilities().get(Feature::SendEvery);
    assert!(matches!(found, Capability::Emulated { how } if how.contains("20000000 ns ahead")));
    drop(port);

    // A discipline that is there takes no other parameters.
    cable.near.delete_root_qdisc("p0").unwrap();
    assert!(install(&cable, &[root(Discipline::Etf(Etf { delta_ns: 0, ..ETF }))]));
    let refusal = open(&cable, ahead()).unwrap_err().to_string();
    assert!(refusal.contains("delta of 0 ns"), "{refusal}");

    cable.near.delete_root_qdisc("p0").unwrap();
    assert!(install(&cable, &[root(Discipline::Etf(Etf { deadline: true, ..ETF }))]));
    let refusal = open(&cable, ahead()).unwrap_err().to_string();
    assert!(refusal.contains("deadline mode"), "{refusal}");
    let port = open(&cable, TxtimeOptions { deadline: true, ..ahead() }).unwrap();
    assert!(port.capabilities().require_native(Feature::SendAt).is_err());
}

#[test]
fn frames_leave_in_order_and_not_before_their_time() {
    const FRAMES: u64 = 100;
    let Some(cable) = cable(ETF) else { return };
    let far_ahead = TxtimeOptions { ahead_ns: 10_000 * MILLISECOND, ..ahead() };
    let mut port = open(&cable, far_ahead).unwrap();
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let slot = port.allocate(60).unwrap();
    let numbered = |i: u64| frame(PEER, mac, &i.to_be_bytes());
    // Time to hand all over before the first is due.
    let start = port.now().after(500 * MILLISECOND);
    let instant = |i: u64| start.after(i * MILLISECOND / 10);
    // In another order than that of time: 37 and 100 have no common factor.
    for i in (0..FRAMES).map(|i| i * 37 % FRAMES) {
        port.update(slot, &numbered(i)).unwrap();
        port.send_at(slot, instant(i)).unwrap();
    }
    assert_eq!(port.diagnostics().unwrap().sent, FRAMES);
    assert_eq!(port.next_deadline(), None, "all are submitted");
    for i in 0..FRAMES {
        assert_eq!(peer.receive(BOUND), Some(numbered(i)), "frame {i}");
    }
    for i in 0..FRAMES {
        let news = next_news(&mut port);
        let Outcome::Sent(stamp) = news.1 else { panic!("frame {i}: {news:?}") };
        assert_eq!(news.0, Cause::At(instant(i)));
        // The NIC's clock is another.
        if stamp.source == StampSource::Software {
            let left = Time(stamp.ns + tai_offset());
            assert!(left >= instant(i), "frame {i} left {} ns early", instant(i).since(left));
        }
    }
}

fn next_news(port: &mut PacketPort) -> (Cause, Outcome) {
    assert!(port.wait(port.now().after(BOUND.as_nanos() as u64)).unwrap(), "no confirmation");
    let news = port.confirmation().unwrap().expect("a confirmation, as nothing is received");
    (news.cause, news.outcome)
}

/// From CLOCK_REALTIME, by which drivers stamp, to CLOCK_TAI: whole seconds.
fn tai_offset() -> u64 {
    let seconds = |clock| {
        // SAFETY: timespec is plain data, for which zeros are a value.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: the timespec lives through the call.
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
        time.tv_sec as u64
    };
    // The second may turn between the readings.
    loop {
        let before = seconds(libc::CLOCK_REALTIME);
        let tai = seconds(libc::CLOCK_TAI);
        if seconds(libc::CLOCK_REALTIME) == before {
            return (tai - before) * 1_000 * MILLISECOND;
        }
    }
}

#[test]
fn a_late_launch_is_reported() {
    let Some(cable) = cable(ETF) else { return };
    let mut port = open(&cable, ahead()).unwrap();
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let (late, marker) = (port.allocate(60).unwrap(), port.allocate(60).unwrap());
    port.update(late, &frame(PEER, mac, b"late")).unwrap();
    // By more than etf allows the kernel to be late.
    let passed = Time(port.now().0 - 2 * ETF.delta_ns as u64);
    port.send_at(late, passed).unwrap();
    assert_eq!(next_news(&mut port), (Cause::At(passed), Outcome::Dropped));
    assert_eq!(port.diagnostics().unwrap().send_failures, 1);

    // Confirmations are still those of their frames.
    let shown = frame(PEER, mac, b"in time");
    port.update(marker, &shown).unwrap();
    let time = port.now().after(5 * MILLISECOND);
    port.send_at(marker, time).unwrap();
    let news = next_news(&mut port);
    assert!(matches!(news, (Cause::At(at), Outcome::Sent(_)) if at == time), "{news:?}");
    assert_eq!(peer.receive(BOUND), Some(shown), "and nothing before it");
    assert!(port.confirmation().unwrap().is_none(), "a refusal is reported once");
}

#[test]
fn a_submitted_launch_is_sent_without_this_process() {
    let Some(cable) = cable(ETF) else { return };
    let far_ahead = TxtimeOptions { ahead_ns: 200 * MILLISECOND, ..ahead() };
    let mut port = open(&cable, far_ahead).unwrap();
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let (cyclic, last) = (port.allocate(60).unwrap(), port.allocate(60).unwrap());
    let [old, new, marker] = [&b"old"[..], b"new", b"last"].map(|text| frame(PEER, mac, text));
    port.update(cyclic, &old).unwrap();
    port.update(last, &marker).unwrap();
    let first = port.now().after(100 * MILLISECOND);
    port.send_every(cyclic, first, 5 * MILLISECOND).unwrap();
    let submitted = port.diagnostics().unwrap().sent;
    assert!(submitted >= 20, "{submitted}");
    port.update(cyclic, &new).unwrap();
    assert!(port.cancel(cyclic).unwrap(), "later cycles were planned");
    for _ in 0..submitted {
        assert_eq!(peer.receive(BOUND).as_ref(), Some(&old));
    }
    port.send(last).unwrap();
    assert_eq!(peer.receive(BOUND), Some(marker));
}
