//! Events from readings once per second, with supervision every 2 s.

use onbeat_frer::prp::{Lan, Lre, NodeKind, Observer, Parameters, PrpEvent};

use super::{
    BROADCAST, LANS, READY, S, check_balance, delivers, frame, lre, mac, parameters, send,
    supervise, tagged,
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
fn crossed_cables_are_reported_once_for_each_lan() {
    let mut pair = Pair::new();
    pair.run(10, HEALTHY);
    let wrong = [Lan::A, Lan::B].map(|lan| PrpEvent::WrongLan(mac(1), lan));
    assert_eq!(pair.run(100, [&[1], &[0]]), wrong);
    assert_eq!(pair.run(20, HEALTHY), []);
    assert_eq!(pair.run(100, [&[1], &[0]]), wrong);
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
    let expected = [PrpEvent::TrailersRemoved(mac(2), Lan::A), PrpEvent::OtherProtocol(Lan::A)];
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
