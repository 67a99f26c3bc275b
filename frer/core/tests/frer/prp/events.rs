//! Events from readings once per second, with supervision every 2 s.

use onbeat_frer::prp::{BlockCause, HostPort, Lan, Lre, NodeKind, Observer, Parameters, PrpEvent};

use super::{
    BROADCAST, LANS, READY, S, check_balance, delivers, frame, lre, mac, parameters, send,
    supervise, supervision_of, tagged,
};

/// Two nodes that send only supervision frames, and the events at the second one.
struct Pair {
    sender: Lre,
    receiver: Lre,
    observer: Observer,
    now_ns: u64,
    second: u64,
}

/// The port at which the copies of each LAN arrive.
type ArrivalPorts = [&'static [usize]; 2];

const HEALTHY: ArrivalPorts = [&[0], &[1]];

impl Pair {
    fn new() -> Self {
        Self {
            sender: lre(1),
            receiver: lre(2),
            observer: Observer::default(),
            now_ns: READY,
            second: 0,
        }
    }

    /// The events of some seconds.
    fn run(&mut self, seconds: u64, wiring: ArrivalPorts) -> Vec<PrpEvent> {
        let mut events = Vec::new();
        for _ in 0..seconds {
            if self.second % 2 == 0 {
                for copies in supervise(&mut self.sender, self.now_ns) {
                    for (ports, copy) in wiring.iter().zip(&copies) {
                        for port in *ports {
                            assert!(!delivers(&mut self.receiver, LANS[*port], self.now_ns, copy));
                        }
                    }
                }
            }
            (self.second, self.now_ns) = (self.second + 1, self.now_ns + S);
            self.receiver.expire(self.now_ns);
            let reading = self.receiver.read();
            check_balance(&reading);
            events.extend(self.observer.observe(self.now_ns, &reading));
        }
        events
    }
}

#[test]
fn a_healthy_node_appears_once() {
    let mut pair = Pair::new();
    let appeared = PrpEvent::NodeAppeared(mac(1), NodeKind::Danp);
    assert_eq!(pair.run(300, HEALTHY), [appeared]);
}

#[test]
fn a_lost_lan_its_return_and_the_end_of_a_node_are_each_reported_once() {
    let mut pair = Pair::new();
    pair.run(10, HEALTHY);
    assert_eq!(pair.run(100, [&[0], &[]]), [PrpEvent::LanLost(mac(1), Lan::B)]);
    assert_eq!(pair.run(100, HEALTHY), [PrpEvent::LanRestored(mac(1), Lan::B)]);
    assert_eq!(pair.run(100, [&[], &[1]]), [PrpEvent::LanLost(mac(1), Lan::A)]);
    assert_eq!(pair.run(100, HEALTHY), [PrpEvent::LanRestored(mac(1), Lan::A)]);
    assert_eq!(pair.run(57, [&[], &[]]), []);
    assert_eq!(pair.run(100, [&[], &[]]), [PrpEvent::NodeGone(mac(1))]);
    assert_eq!(pair.run(10, HEALTHY), [PrpEvent::NodeAppeared(mac(1), NodeKind::Danp)]);
}

#[test]
fn a_node_that_is_heard_on_one_lan_from_the_start_on_lacks_the_other() {
    let events = Pair::new().run(100, [&[0], &[]]);
    let appeared = PrpEvent::NodeAppeared(mac(1), NodeKind::Danp);
    assert_eq!(events, [appeared, PrpEvent::LanLost(mac(1), Lan::B)]);
}

#[test]
fn crossed_cables_and_their_end_are_reported_once_for_each_lan() {
    let mut pair = Pair::new();
    pair.run(10, HEALTHY);
    let wrong = [Lan::A, Lan::B].map(|lan| PrpEvent::WrongLan(mac(1), lan));
    assert_eq!(pair.run(100, [&[1], &[0]]), wrong);
    // A pulled cable and a silent node are no proof.
    assert_eq!(pair.run(20, [&[], &[]]), []);
    let ended = [Lan::A, Lan::B].map(|lan| PrpEvent::WrongLanEnded(mac(1), lan));
    assert_eq!(pair.run(100, HEALTHY), ended);
    assert_eq!(pair.run(100, [&[1], &[0]]), wrong);
    assert_eq!(pair.run(20, HEALTHY), ended);
}

/// LAN B loses the long ones, as a switch with a small MTU does, and brings supervision frames.
#[test]
fn a_lan_that_brings_fewer_frames_is_reported_once() {
    let (mut sender, mut lre) = (lre(2), lre(1));
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    for second in 0..200 {
        let now_ns = READY + second * S;
        let is_small = (50..150).contains(&second);
        for [a, b] in supervise(&mut sender, now_ns) {
            lre.frame(LANS[0], now_ns, &a);
            lre.frame(LANS[1], now_ns, &b);
        }
        for _ in 0..10 {
            let [a, b] = send(&mut sender, now_ns, &frame(BROADCAST, mac(2), 0));
            assert!(delivers(&mut lre, LANS[0], now_ns, &a));
            assert!(is_small || !delivers(&mut lre, LANS[1], now_ns, &b));
        }
        events.extend(observer.observe(now_ns, &lre.read()));
        events.retain(|event| !matches!(event, PrpEvent::NodeAppeared(..)));
    }
    let [PrpEvent::LanLoses(node, Lan::B, lost, of)] = events[..] else { panic!("{events:?}") };
    assert!(node == mac(2) && lost > of / 8 && of > 100, "{lost} of {of}");
}

/// As by br_netfilter, and by a peer with another format.
#[test]
fn removed_trailers_and_other_protocols_are_reported_once() {
    let (mut sender, mut lre) = (lre(2), lre(1));
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    for second in 0..20 {
        let now_ns = READY + second * S;
        for [a, _] in supervise(&mut sender, now_ns) {
            lre.frame(LANS[0], now_ns, &a);
        }
        let without = frame(BROADCAST, mac(2), 0);
        assert!(delivers(&mut lre, LANS[0], now_ns, &without));
        let r_tag =
            [&BROADCAST.0[..], &mac(3).0, &[0xf1, 0xc1, 0, 0, 0, 7, 8, 0], &[0; 46]].concat();
        assert!(delivers(&mut lre, LANS[0], now_ns, &r_tag));
        events.extend(observer.observe(now_ns, &lre.read()));
        events.retain(|event| !matches!(event, PrpEvent::NodeAppeared(..) | PrpEvent::LanLost(..)));
    }
    let other = PrpEvent::OtherProtocol(Lan::A, Some(mac(3)));
    let expected = [PrpEvent::TrailersRemoved(mac(2), Lan::A), other];
    assert_eq!(events, expected);
}

#[test]
fn own_frames_that_return_are_reported_once() {
    for is_other in [true, false] {
        let (mut lre, mut observer, mut events) = (lre(1), Observer::default(), Vec::new());
        for second in 0..100 {
            let now_ns = READY + second * S;
            if second % 2 == 0 {
                for [a, b] in supervise(&mut lre, now_ns) {
                    let copy = if is_other { b } else { a };
                    assert!(!delivers(&mut lre, LANS[0], now_ns, &copy));
                }
            }
            events.extend(observer.observe(now_ns, &lre.read()));
        }
        assert_eq!(events, [PrpEvent::OwnFramesReturn(Lan::A, is_other)]);
    }
}

/// The serving RedBox forwards broadcasts of the standby's host to both LANs. Connected LANs are still detected.
#[test]
fn a_standby_reports_no_loop_by_frames_that_the_serving_redbox_forwards() {
    let standby = Lre::new(Parameters { is_segment: true, ..parameters(2) }, 0);
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    let mut reading = standby.read();
    let blocked_by = |by: Option<u16>, now_ns| HostPort {
        blocked_until_ns: by.map_or(0, |_| now_ns + S / 2),
        blocked_by: by.map(mac),
        hello_ns: u64::MAX,
        ..HostPort::default()
    };
    for second in 0..100 {
        let now_ns = READY + second * S;
        // It serves in between. Frames of the last second before are counted in its first one.
        let serves = (30..40).contains(&second);
        reading.host_port = blocked_by((!serves).then_some(1), now_ns);
        if !serves || second == 30 {
            reading.lans.iter_mut().for_each(|lan| lan.own += 1);
        }
        if (60..70).contains(&second) {
            reading.lans[1].own += 1;
            reading.lans[1].own_of_other_lan += 1;
        }
        events.extend(observer.observe(now_ns, &reading));
    }
    let standby = PrpEvent::HostPortBlocked(BlockCause::ByRedBox(mac(1)));
    let returns = PrpEvent::OwnFramesReturn(Lan::B, true);
    assert_eq!(events, [standby, PrpEvent::HostPortForwards, standby, returns]);
}

/// Of an adopted entity, counters of an earlier process are no news.
#[test]
fn invalid_frames_and_floods_of_supervision_are_reported_once() {
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    let mut reading = lre(1).read();
    (reading.lans[0].malformed, reading.lans[1].unread_supervision) = (7, 7);
    for second in 0..100 {
        if (10..20).contains(&second) {
            reading.lans[0].invalid_supervision += 1;
        }
        if (40..50).contains(&second) {
            reading.lans[0].malformed += 1;
        }
        if (70..80).contains(&second) {
            reading.lans[1].unread_supervision += 100;
        }
        events.extend(observer.observe(READY + second * S, &reading));
    }
    let invalid = PrpEvent::InvalidFrames(Lan::A);
    assert_eq!(events, [invalid, invalid, PrpEvent::SupervisionFlood(Lan::B)]);
}

/// Forged supervision frames come from new sources all the time.
#[test]
fn a_flood_of_sources_hides_no_lost_lan() {
    let mut pair = Pair::new();
    assert_eq!(pair.run(60, HEALTHY).len(), 1);
    let (mut forged, mut events) = (0_u32, Vec::new());
    for second in 0..700 {
        for _ in 0..300 {
            forged += 1;
            let source = mac(1000 + (forged % 60_000) as u16);
            let octets = tagged(&supervision_of(source, source, None), 7, Lan::A);
            pair.receiver.frame(LANS[0], pair.now_ns, &octets);
        }
        let now = pair.run(1, if second < 10 { HEALTHY } else { [&[0], &[]] });
        events.extend(now.into_iter().map(|event| (second, event)));
    }
    let times = |is: &dyn Fn(&PrpEvent) -> bool| -> Vec<u64> {
        events.iter().filter(|(_, event)| is(event)).map(|(second, _)| *second).collect()
    };
    let lost = times(&|event| *event == PrpEvent::LanLost(mac(1), Lan::B));
    assert!(matches!(lost[..], [13..20]), "{lost:?}");
    // At once, and at the end of the interval.
    let further = times(&|event| matches!(event, PrpEvent::FurtherNodes(_)));
    assert!(matches!(further[..], [0..2, 500..700, 500..700]), "{further:?}");
    let all = events.len();
    assert!(all < 2 * 256 + 10, "{all} events");
}

#[test]
fn a_full_table_is_reported_once() {
    let mut lre = Lre::new(Parameters { max_nodes: 4, ..parameters(1) }, 0);
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    for second in 0..100_u16 {
        let now_ns = READY + u64::from(second) * S;
        // Single stations need no entry.
        for node in 0..if second < 50 { 4 } else { 6 } {
            let octets = frame(BROADCAST, mac(10 + node), 0);
            let number = second;
            assert!(delivers(&mut lre, LANS[0], now_ns, &tagged(&octets, number, Lan::A)));
            let is_twice = delivers(&mut lre, LANS[1], now_ns, &tagged(&octets, number, Lan::B));
            assert!(!is_twice || second >= 50);
            assert!(delivers(&mut lre, LANS[0], now_ns, &frame(BROADCAST, mac(100 + node), 0)));
        }
        events.extend(observer.observe(now_ns, &lre.read()));
        events.retain(|event| !matches!(event, PrpEvent::NodeAppeared(..) | PrpEvent::NodeGone(_)));
    }
    assert_eq!(events, [PrpEvent::TableFull]);
}

#[test]
fn a_full_table_of_stations_is_reported_once() {
    let mut lre = Lre::new(Parameters { max_nodes: 4, ..parameters(1) }, 0);
    let (mut observer, mut events) = (Observer::default(), Vec::new());
    for second in 0..100_u64 {
        let now_ns = READY + second * S;
        for station in 0..if (50..60).contains(&second) { 5 } else { 4 } {
            send(&mut lre, now_ns, &frame(BROADCAST, mac(10 + station), second));
        }
        events.extend(observer.observe(now_ns, &lre.read()));
    }
    assert_eq!(events, [PrpEvent::ProxiesFull]);
}

/// Another RedBox serves the stations of this one until it ends; then a cable connects the host port to a LAN.
#[test]
fn a_blocked_host_port_and_its_end_are_each_reported_once() {
    let mut observer = Observer::default();
    let mut reading = Lre::new(Parameters { is_segment: true, ..parameters(2) }, 0).read();
    let mut events_of = |blocked_by: Option<u16>, seconds: std::ops::Range<u64>| {
        let until_ns = blocked_by.map_or(0, |_| seconds.end * S + S / 2);
        reading.host_port = HostPort {
            blocked_until_ns: until_ns,
            blocked_by: blocked_by.map(mac),
            hello_ns: u64::MAX,
            ..HostPort::default()
        };
        seconds.flat_map(|second| observer.observe(second * S, &reading)).collect::<Vec<_>>()
    };
    let blocked = PrpEvent::HostPortBlocked;
    assert_eq!(events_of(None, 0..10), []);
    assert_eq!(events_of(Some(1), 10..20), [blocked(BlockCause::ByRedBox(mac(1)))]);
    assert_eq!(events_of(Some(3), 20..30), [blocked(BlockCause::ByRedBox(mac(3)))]);
    assert_eq!(events_of(None, 30..40), [PrpEvent::HostPortForwards]);
    assert_eq!(events_of(Some(2), 40..50), [blocked(BlockCause::ByLan)]);
    assert_eq!(events_of(None, 50..60), [PrpEvent::HostPortForwards]);
}
