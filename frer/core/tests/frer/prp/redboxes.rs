//! Two RedBoxes of the same LANs on one segment of stations.
//!
//! ```text
//!              ┌── RedBox 1 ── LAN A, LAN B ──┐
//!   station ───┤                              ├── node 9
//!              └── RedBox 2 ── LAN A, LAN B ──┘
//! ```

use std::collections::VecDeque;

use onbeat_frer::prp::{Due, Lre, Outcome};
use onbeat_wire::MacAddress;

use super::{
    A, B, BROADCAST, HOST, LANS, MS, Parameters, check_balance, frame, lre, mac, parameters,
};

/// Frames of one broadcast, of which more are a storm.
const STORM: usize = 50;

/// A frame on the segment (`None`) or a LAN, and the RedBox that sent it; index 2 is node 9.
struct OnWire {
    lan: Option<usize>,
    from: Option<usize>,
    octets: Vec<u8>,
}

struct World {
    /// The RedBoxes, and when each is to be called again.
    redboxes: [Option<(Lre, u64)>; 2],
    node: Lre,
    has_hellos: bool,
    /// A RedBox whose process has ended: its programs forward, and send nothing of their own.
    without_process: Option<usize>,
    /// Whether the LANs of both RedBoxes are the same.
    are_connected: bool,
    wire: VecDeque<OnWire>,
    /// Broadcasts that the station and node 9 received.
    at_station: usize,
    at_node: usize,
}

impl World {
    fn new(has_hellos: bool) -> Self {
        Self {
            redboxes: [None, None],
            node: lre(9),
            has_hellos,
            without_process: None,
            are_connected: true,
            wire: VecDeque::new(),
            at_station: 0,
            at_node: 0,
        }
    }

    fn start(&mut self, redbox: usize, now_ns: u64) {
        let own = Parameters { is_segment: true, ..parameters(redbox as u16 + 1) };
        self.redboxes[redbox] = Some((Lre::new(own, now_ns), now_ns));
    }

    fn sent(&mut self, from: usize, outcome: Outcome<'_>) {
        let Outcome::Send(copies) = outcome else { return };
        for copy in copies {
            let lan = LANS.iter().position(|lan| *lan == copy.port);
            let octets = [copy.octets, copy.tail()].concat();
            self.wire.push_back(OnWire { lan, from: Some(from), octets });
        }
    }

    /// Whether a frame of one RedBox's LAN reaches the other one and node 9.
    fn reaches(&self, from: Option<usize>, to: usize) -> bool {
        from != Some(to) && (self.are_connected || (from == Some(1)) == (to == 1))
    }

    /// Delivers all frames; returns their number.
    fn settle(&mut self, now_ns: u64) -> usize {
        let mut frames = 0;
        while let Some(OnWire { lan, from, octets }) = self.wire.pop_front() {
            frames += 1;
            if frames > STORM {
                self.wire.clear();
                break;
            }
            let Some(lan) = lan else {
                let is_of_station = from.is_none();
                self.at_station += usize::from(!is_of_station && !is_hello(&octets));
                for to in 0..2 {
                    self.frame_of(to, from, now_ns, HOST, &octets);
                }
                continue;
            };
            for to in 0..2 {
                if self.reaches(from, to) {
                    self.frame_of(to, from, now_ns, LANS[lan], &octets);
                }
            }
            if self.reaches(from, 2)
                && matches!(self.node.frame(LANS[lan], now_ns, &octets), Outcome::Send(_))
            {
                self.at_node += 1;
            }
        }
        frames
    }

    fn frame_of(
        &mut self,
        to: usize,
        from: Option<usize>,
        now_ns: u64,
        port: onbeat_frer::spec::PortId,
        octets: &[u8],
    ) {
        if from == Some(to) {
            return;
        }
        let Some((mut lre, at_ns)) = self.redboxes[to].take() else { return };
        self.sent(to, lre.frame(port, now_ns, octets));
        self.redboxes[to] = Some((lre, at_ns));
    }

    /// Sends what is due.
    fn supervise(&mut self, now_ns: u64) {
        for at in 0..2 {
            let Some((mut lre, at_ns)) = self.redboxes[at].take() else { continue };
            let mut next_ns = at_ns;
            if now_ns >= at_ns && self.without_process != Some(at) {
                let silence_ms = lre.silence_ms(now_ns);
                let Due { frames, hello, next_ms } = lre.supervise(silence_ms);
                next_ns = now_ns + u64::from(next_ms) * MS;
                for octets in &frames {
                    let copies = lre.send(now_ns, octets).expect("the silence has ended");
                    self.sent(at, Outcome::Send(copies));
                }
                if let Some(octets) = hello.filter(|_| self.has_hellos) {
                    self.sent(at, Outcome::Send(lre.hello(now_ns, &octets)));
                }
            }
            self.redboxes[at] = Some((lre, next_ns));
        }
        self.settle(now_ns);
    }

    /// Runs for a time, with a broadcast of the station and of node 9 every 100 ms. Returns the broadcasts that arrived
    /// once, those that arrived twice, and the most frames of one.
    fn run(&mut self, now_ns: &mut u64, ms: u64) -> Seen {
        let mut seen = Seen::default();
        for step in 0..ms / 10 {
            *now_ns += 10 * MS;
            self.supervise(*now_ns);
            if step % 10 != 9 {
                continue;
            }
            (self.at_station, self.at_node) = (0, 0);
            let octets = frame(BROADCAST, mac(101), step);
            self.wire.push_back(OnWire { lan: None, from: None, octets });
            let of_station = self.settle(*now_ns);
            let to_node = self.at_node;
            self.at_station = 0;
            let octets = frame(BROADCAST, mac(9), step);
            let outcome = self.node.frame(HOST, *now_ns, &octets);
            let Outcome::Send(copies) = outcome else { continue };
            for (lan, copy) in copies.enumerate() {
                let octets = [copy.octets, copy.tail()].concat();
                self.wire.push_back(OnWire { lan: Some(lan), from: Some(2), octets });
            }
            let of_node = self.settle(*now_ns);
            let arrived = [to_node, self.at_station];
            seen.sent += 1;
            seen.both += usize::from(arrived == [1, 1]);
            seen.repeated += usize::from(arrived.iter().any(|arrived| *arrived > 1));
            seen.most = seen.most.max(of_station).max(of_node);
        }
        seen
    }

    fn read(&self, redbox: usize) -> onbeat_frer::prp::Reading {
        self.redboxes[redbox].as_ref().expect("it runs").0.read()
    }
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    sent: usize,
    /// Broadcasts that arrived once in both directions.
    both: usize,
    repeated: usize,
    /// Frames of one broadcast.
    most: usize,
}

fn is_hello(octets: &[u8]) -> bool {
    octets[..6] == onbeat_wire::prp::supervision::DESTINATION.0
}

#[test]
fn the_one_with_the_smaller_address_serves_and_the_other_takes_over() {
    for first in [0, 1] {
        let mut world = World::new(true);
        let mut now_ns = 1000 * MS;
        world.start(first, now_ns);
        // The silence after the start.
        let alone = world.run(&mut now_ns, 10_000);
        assert!(alone.both >= alone.sent - 6, "{alone:?}");
        world.start(1 - first, now_ns);
        let joined = world.run(&mut now_ns, 10_000);
        // The second one with the smaller address takes over, and listens for 3 s before.
        assert!(joined.both >= joined.sent - 31, "{first}: {joined:?}");
        let steady = world.run(&mut now_ns, 60_000);
        assert_eq!(steady.both, steady.sent, "{first}: {steady:?}");
        let blocked = |world: &World, redbox: usize, now_ns| {
            let reading = world.read(redbox);
            check_balance(&reading);
            reading.host_port.blocked(reading.mac, now_ns)
        };
        assert_eq!(blocked(&world, 0, now_ns), None);
        let by = onbeat_frer::prp::Blocked::ByRedBox(mac(1));
        assert_eq!(blocked(&world, 1, now_ns), Some(by));
        world.redboxes[0] = None;
        let taken_over = world.run(&mut now_ns, 10_000);
        assert!(taken_over.both >= taken_over.sent - 51, "{taken_over:?}");
        let alone_again = world.run(&mut now_ns, 10_000);
        assert_eq!(alone_again.both, alone_again.sent);
        let most = [alone, joined, steady, taken_over, alone_again];
        for seen in most {
            assert_eq!((seen.repeated, seen.most < 10), (0, true), "{first}: {seen:?}");
        }
    }
}

#[test]
fn both_may_start_at_once() {
    let mut world = World::new(true);
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.start(1, now_ns);
    let started = world.run(&mut now_ns, 5000);
    assert!(started.both >= started.sent - 32, "{started:?}");
    let steady = world.run(&mut now_ns, 60_000);
    assert_eq!(steady.both, steady.sent, "{steady:?}");
    assert!(started.most.max(steady.most) < 10);
}

/// The control.
#[test]
fn without_hellos_broadcasts_circulate() {
    let mut world = World::new(false);
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.run(&mut now_ns, 5000);
    // Its numbers are others: with equal ones each takes the other's frames for its own.
    world.start(1, now_ns);
    assert!(world.run(&mut now_ns, 5000).most > STORM);
}

#[test]
fn programs_without_their_process_yield_before_the_other_takes_over() {
    let mut world = World::new(true);
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.start(1, now_ns);
    world.run(&mut now_ns, 5000);
    world.without_process = Some(0);
    let seen = world.run(&mut now_ns, 20_000);
    assert!(seen.both >= seen.sent - 13, "{seen:?}");
    world.without_process = None;
    let back = world.run(&mut now_ns, 10_000);
    assert!(back.both >= back.sent - 60, "{back:?}");
    let steady = world.run(&mut now_ns, 60_000);
    assert_eq!(steady.both, steady.sent, "{steady:?}");
    for seen in [seen, back, steady] {
        assert_eq!((seen.repeated, seen.most < 10), (0, true), "{seen:?}");
    }
}

/// RedBoxes of different LANs couple two networks.
#[test]
fn redboxes_of_other_lans_both_forward() {
    let mut world = World::new(true);
    world.are_connected = false;
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.start(1, now_ns);
    world.run(&mut now_ns, 5000);
    world.run(&mut now_ns, 20_000);
    for redbox in 0..2 {
        let reading = world.read(redbox);
        assert_eq!(reading.host_port.blocked(reading.mac, now_ns), None);
        assert!(reading.host.numbered > 150, "{:?}", reading.host);
    }
}

/// One that hears nothing of the other one's LANs any more takes over.
#[test]
fn a_redbox_without_lans_is_replaced() {
    let own = Parameters { is_segment: true, ..parameters(2) };
    let mut standby = Lre::new(own, 0);
    let mut other = Lre::new(Parameters { is_segment: true, ..parameters(1) }, 0);
    let now_ns = 10_000 * MS;
    let supervision = super::supervise(&mut other, now_ns).remove(0);
    assert!(matches!(standby.frame(A, now_ns, &supervision[0]), Outcome::Discard));
    let mut hear = |now_ns| {
        let hello = other.supervise(None).hello.expect("a RedBox");
        assert!(matches!(standby.frame(HOST, now_ns, &hello), Outcome::Discard));
        let reading = standby.read();
        reading.host_port.blocked(reading.mac, now_ns).is_some()
    };
    assert!(hear(now_ns));
    assert!(hear(now_ns + 4999 * MS));
    assert!(!hear(now_ns + 9999 * MS));
    assert!(!hear(now_ns + 20_000 * MS));
    let of_lan = super::tagged(
        &frame(BROADCAST, MacAddress([2, 0, 0, 0, 0, 77]), 0),
        0,
        onbeat_wire::prp::Lan::B,
    );
    assert!(super::delivers(&mut standby, B, now_ns + 20_000 * MS, &of_lan));
}
