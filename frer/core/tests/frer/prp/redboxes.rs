//! Two RedBoxes of the same LANs on one segment of stations.
//!
//! ```text
//!              ┌── RedBox 1 ── LAN A, LAN B ──┐
//!   station ───┤                              ├── node 9
//!              └── RedBox 2 ── LAN A, LAN B ──┘
//! ```

use std::collections::VecDeque;

use onbeat_frer::prp::{BlockCause, DueFrames, Lre, Outcome};

use onbeat_wire::prp::hello::Hello;

use super::{BROADCAST, HOST, LANS, MS, Parameters, check_balance, frame, lre, mac, parameters};

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
    /// A RedBox without its LANs.
    without_lans: Option<usize>,
    /// A RedBox that hears the other one on no LAN.
    deaf_to_other: Option<usize>,
    /// The RedBoxes do not hear each other on the segment.
    is_segment_cut: bool,
    entry_forget_ms: u32,
    wire: VecDeque<OnWire>,
    /// Broadcasts that the station and node 9 received.
    at_station: usize,
    at_node: usize,
    /// Stations that a RedBox announced to node 9 after a takeover.
    announced: usize,
}

impl World {
    fn new(has_hellos: bool) -> Self {
        Self {
            redboxes: [None, None],
            node: lre(9),
            has_hellos,
            without_process: None,
            without_lans: None,
            deaf_to_other: None,
            is_segment_cut: false,
            entry_forget_ms: 400,
            wire: VecDeque::new(),
            at_station: 0,
            at_node: 0,
            announced: 0,
        }
    }

    fn start(&mut self, redbox: usize, now_ns: u64) {
        let entry_forget_ms = self.entry_forget_ms;
        let own = Parameters { is_segment: true, entry_forget_ms, ..parameters(redbox as u16 + 1) };
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

    /// Whether a frame that `from` sends on a LAN reaches `to`.
    fn reaches(&self, from: Option<usize>, to: usize) -> bool {
        let is_cut = |end: Option<usize>| end.is_some() && end == self.without_lans;
        let is_deaf = self.deaf_to_other == Some(to) && from == Some(1 - to);
        from != Some(to) && !is_cut(from) && !is_cut(Some(to)) && !is_deaf
    }

    /// Runs, and requires that all broadcasts arrive once, except these in a row.
    fn expect(&mut self, now_ns: &mut u64, ms: u64, lost: usize) {
        let seen = self.run(now_ns, ms);
        assert!(seen.both + lost >= seen.sent, "{seen:?}");
        assert_eq!((seen.repeated, seen.most < 10), (0, true), "{seen:?}");
    }

    /// Lets both send hellos now.
    fn supervise_at_once(&mut self, now_ns: u64) {
        for redbox in self.redboxes.iter_mut().flatten() {
            redbox.1 = now_ns;
        }
        self.supervise(now_ns);
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
                self.at_station += usize::from(!is_of_station && is_of_test(&octets));
                for to in 0..2 {
                    if from.is_none() || !self.is_segment_cut {
                        self.frame_of(to, from, now_ns, HOST, &octets);
                    }
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
                self.at_node += usize::from(is_of_test(&octets));
                self.announced += usize::from(!is_of_test(&octets));
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
                let DueFrames { frames, to_host, next_ms, .. } = lre.supervise(now_ns);
                next_ns = now_ns + u64::from(next_ms) * MS;
                for octets in &frames {
                    let copies = lre.send(now_ns, octets).expect("the silence has ended");
                    self.sent(at, Outcome::Send(copies));
                }
                for octets in to_host {
                    if self.has_hellos || !is_hello(&octets) {
                        self.sent(at, Outcome::Send(lre.send_to_host(now_ns, &octets)));
                    }
                }
            }
            self.redboxes[at] = Some((lre, next_ns));
        }
        self.settle(now_ns);
    }

    /// Runs for a time, with a broadcast of the station and of node 9 every 100 ms. Returns the broadcasts that arrived
    /// once, those that arrived twice, and the most frames of one.
    fn run(&mut self, now_ns: &mut u64, ms: u64) -> Deliveries {
        let mut seen = Deliveries::default();
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
struct Deliveries {
    sent: usize,
    /// Broadcasts that arrived once in both directions.
    both: usize,
    repeated: usize,
    /// Frames of one broadcast.
    most: usize,
}

/// A broadcast of the test.
fn is_of_test(octets: &[u8]) -> bool {
    octets[12..14] == [0x88, 0xb5]
}

fn is_hello(octets: &[u8]) -> bool {
    octets[..6] == onbeat_wire::prp::supervision::DESTINATION.0
}

/// Why a RedBox does not serve.
fn blocked(world: &World, redbox: usize, now_ns: u64) -> Option<BlockCause> {
    let reading = world.read(redbox);
    check_balance(&reading);
    reading.host_port.blocked(reading.mac, now_ns)
}

fn standby_of(redbox: usize) -> Option<BlockCause> {
    Some(BlockCause::ByRedBox(mac(redbox as u16 + 1)))
}

/// A start has a silence of 500 ms: of ten broadcasts a second, 6 are lost at most.
const START: usize = 6;
/// One that has ended is noticed after 5 s.
const END: usize = 51;
/// Precedence passes on in 1 s.
const YIELD: usize = 12;

/// Two that started at once, 5 s ago: the one with the smaller address serves.
fn started() -> (World, u64) {
    let mut world = World::new(true);
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.start(1, now_ns);
    world.expect(&mut now_ns, 5000, START);
    (world, now_ns)
}

#[test]
fn one_serves_and_the_other_takes_over_and_one_that_returns_interrupts_nothing() {
    for first in [0, 1] {
        let second = 1 - first;
        let mut world = World::new(true);
        let mut now_ns = 1000 * MS;
        world.start(first, now_ns);
        world.expect(&mut now_ns, 10_000, START);
        world.start(second, now_ns);
        world.expect(&mut now_ns, 60_000, 0);
        assert_eq!(blocked(&world, first, now_ns), None);
        assert_eq!(blocked(&world, second, now_ns), standby_of(first));
        world.redboxes[first] = None;
        world.expect(&mut now_ns, 10_000, END);
        assert_eq!(world.announced, 1, "the station, to the LANs");
        world.start(first, now_ns);
        world.expect(&mut now_ns, 60_000, 0);
        assert_eq!(blocked(&world, first, now_ns), standby_of(second));
    }
}

#[test]
fn of_two_that_start_at_once_the_one_with_the_smaller_address_serves() {
    let (mut world, mut now_ns) = started();
    world.expect(&mut now_ns, 60_000, 0);
    assert_eq!(blocked(&world, 1, now_ns), standby_of(0));
}

/// Its cables to both LANs are cut.
#[test]
fn one_that_hears_no_lan_yields() {
    let (mut world, mut now_ns) = started();
    world.without_lans = Some(0);
    // Noticed after 5 s without frames.
    world.expect(&mut now_ns, 10_000, END + YIELD);
    world.expect(&mut now_ns, 20_000, 0);
    assert_eq!(blocked(&world, 0, now_ns), standby_of(1));
    world.without_lans = None;
    world.expect(&mut now_ns, 60_000, 0);
}

/// What one sends reaches the LANs, and it hears them, but not the other one.
#[test]
fn a_path_in_one_direction_makes_no_storm() {
    for deaf in [0, 1] {
        let mut world = World::new(true);
        world.deaf_to_other = Some(deaf);
        let mut now_ns = 1000 * MS;
        world.start(0, now_ns);
        world.start(1, now_ns);
        world.expect(&mut now_ns, 5000, START);
        world.expect(&mut now_ns, 60_000, 0);
    }
}

/// Both served while the segment was in two parts.
#[test]
fn parts_of_a_segment_that_join_have_one_that_serves() {
    let mut world = World::new(true);
    world.has_hellos = false;
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    // Each with stations of its own.
    world.is_segment_cut = true;
    world.start(1, now_ns);
    world.run(&mut now_ns, 5000);
    world.is_segment_cut = false;
    world.has_hellos = true;
    // Until the first hello.
    now_ns += 10 * MS;
    world.supervise_at_once(now_ns);
    world.expect(&mut now_ns, 30_000, 0);
    assert_eq!(blocked(&world, 1, now_ns), standby_of(0));
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
    let (mut world, mut now_ns) = started();
    world.without_process = Some(0);
    world.expect(&mut now_ns, 20_000, YIELD);
    // It returns, and stays the standby.
    world.without_process = None;
    world.expect(&mut now_ns, 60_000, 0);
    assert_eq!(blocked(&world, 0, now_ns), standby_of(1));
}

/// The standby's process has ended, then that of the other one: nothing changes any more.
#[test]
fn a_standby_without_its_process_takes_nothing_over() {
    let own = Parameters { is_segment: true, ..parameters(2) };
    let mut standby = Lre::new(own, 0);
    let now_ns = 10_000 * MS;
    let hello = standby.supervise(now_ns).to_host.remove(0);
    standby.send_to_host(now_ns, &hello);
    let other = Hello { sender: mac(1), number: 0, is_on_lan: true, serves: true }.emit();
    assert!(matches!(standby.frame(HOST, now_ns, &other), Outcome::Discard));
    let is_blocked = |standby: &Lre, ms| standby.read().host_port.is_blocked(now_ns + ms * MS);
    assert!(is_blocked(&standby, 4000) && is_blocked(&standby, 1_000_000));
    // Its process returns, and hears nothing.
    let again_ns = now_ns + 1_000_000 * MS;
    let hello = standby.supervise(again_ns).to_host.remove(0);
    standby.send_to_host(again_ns, &hello);
    assert!(is_blocked(&standby, 1_000_999) && !is_blocked(&standby, 1_001_000));
}

/// The goodbye of one that is removed.
#[test]
fn one_that_ends_lets_the_other_serve_soon() {
    let (mut world, mut now_ns) = started();
    let (mut ending, _) = world.redboxes[0].take().unwrap();
    let farewell = ending.farewell().expect("a RedBox");
    world.sent(0, Outcome::Send(ending.send_to_host(now_ns, &farewell)));
    world.settle(now_ns);
    world.expect(&mut now_ns, 10_000, YIELD);
    assert_eq!(blocked(&world, 1, now_ns), None);
}

/// A link of the segment returns, and a process that was stopped continues.
#[test]
fn one_that_was_away_listens_first() {
    let own = Parameters { is_segment: true, ..parameters(2) };
    let mut lre = Lre::new(own, 0);
    let serves = |lre: &Lre, now_ns| !lre.read().host_port.is_blocked(now_ns);
    let mut now_ns = 10_000 * MS;
    // Alone, it forwards at once.
    lre.listen(now_ns);
    assert!(serves(&lre, now_ns));
    let hello = lre.supervise(now_ns).to_host.remove(0);
    lre.send_to_host(now_ns, &hello);
    let other = Hello { sender: mac(9), number: 0, is_on_lan: true, serves: false }.emit();
    assert!(matches!(lre.frame(HOST, now_ns, &other), Outcome::Discard));
    assert!(serves(&lre, now_ns));
    lre.listen(now_ns);
    assert!(!serves(&lre, now_ns + 499 * MS) && serves(&lre, now_ns + 500 * MS));
    let hello = lre.supervise(now_ns).to_host.remove(0);
    lre.send_to_host(now_ns, &hello);
    now_ns += 12_000 * MS;
    lre.listen_after_stop(now_ns);
    let hello = Hello::parse(&lre.supervise(now_ns).to_host[0]).unwrap();
    assert!(!hello.serves && !serves(&lre, now_ns + 499 * MS));
    assert!(serves(&lre, now_ns + 500 * MS));
}

/// A process that stops for 4.5 s again and again.
#[test]
fn a_process_that_stops_at_times_stops_its_stations_for_a_second_at_most() {
    let (mut world, mut now_ns) = started();
    for _ in 0..10 {
        world.without_process = Some(0);
        world.expect(&mut now_ns, 4500, YIELD);
        world.without_process = None;
        world.expect(&mut now_ns, 3000, YIELD);
    }
}

/// Receivers forget the numbers of one before the other one sends.
#[test]
fn a_long_forget_time_loses_no_more() {
    let mut world = World::new(true);
    world.entry_forget_ms = 10_000;
    let mut now_ns = 1000 * MS;
    world.start(0, now_ns);
    world.start(1, now_ns);
    world.run(&mut now_ns, 15_000);
    let until_ns = world.read(1).host_port.blocked_until_ns;
    assert!(until_ns >= now_ns + 14_000 * MS);
    world.without_process = Some(0);
    world.run(&mut now_ns, 4500);
    assert!(blocked(&world, 0, now_ns).is_some());
    world.run(&mut now_ns, 9500);
    assert!(blocked(&world, 1, now_ns).is_some(), "it is too early");
    world.run(&mut now_ns, 2000);
    assert_eq!(blocked(&world, 1, now_ns), None);
}

#[test]
fn other_supervision_frames_block_nothing() {
    let own = Parameters { is_segment: true, ..parameters(2) };
    let mut lre = Lre::new(own, 0);
    let mut other = Lre::new(Parameters { is_segment: true, ..parameters(1) }, 0);
    let now_ns = 10_000 * MS;
    let DueFrames { frames, to_host, .. } = other.supervise(now_ns);
    let [hello] = &to_host[..] else { panic!() };
    // Of a node on a LAN that is connected to the segment.
    let on_lan = super::both(other.send(now_ns, &frames[0]).unwrap());
    let own_hello = lre.supervise(now_ns).to_host.remove(0);
    lre.send_to_host(now_ns, &own_hello);
    for octets in [&frames[0], &on_lan[0]] {
        assert!(matches!(lre.frame(HOST, now_ns, octets), Outcome::Discard));
        assert!(!lre.read().host_port.is_blocked(now_ns));
    }
    assert!(matches!(lre.frame(HOST, now_ns, hello), Outcome::Discard));
    assert!(lre.read().host_port.is_blocked(now_ns));
    // A LAN is connected: no hello changes that.
    assert!(matches!(lre.frame(HOST, now_ns, &own_hello), Outcome::Discard));
    let by_lan = Some(BlockCause::ByLan);
    assert!(matches!(lre.frame(HOST, now_ns + 3500 * MS, hello), Outcome::Discard));
    let reading = lre.read();
    assert_eq!(reading.host_port.blocked(reading.mac, now_ns + 3500 * MS), by_lan);
    // As a reload with another interface.
    let host = onbeat_frer::spec::PortId(7);
    lre.set_parameters(Parameters { is_segment: true, host, ..parameters(2) });
    assert!(!lre.read().host_port.is_blocked(now_ns));
}
