//! Frames truncated at every octet, tags in the wrong order, and floods of random numbers: they are
//! counted or passed to the network stack, and valid frames pass afterwards as before.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use crate::common::{
    Capture, FrameText, Injector, PORTS, VLAN, assert_gone, can_run, eliminate, input, one_node,
    port, replicate, start, stream, wait_for,
};
use onbeat_lab::World;
use onbeat_node::control::{NodeStatus, RecoveryStatus};

const THERE: &str = "01:00:5e:00:00:01";
const BACK: &str = "01:00:5e:00:00:02";

/// Shortest frame that a socket sends: addresses and EtherType.
const SHORTEST: usize = 14;

struct Rig {
    world: World,
    host: Injector,
    paths: [Injector; 2],
}

impl Rig {
    fn start(config: &str) -> Rig {
        let world = start(&one_node(config));
        let open = |host| Injector::open(&world, host, "eth0");
        let (host, paths) = (open("host"), [open("path1"), open("path2")]);
        Rig { host, paths, world }
    }

    fn status(&self) -> NodeStatus {
        self.world.status("a").expect("the node is up")
    }

    fn recovery(&self) -> RecoveryStatus {
        stream(&self.status(), "back").recovery.clone().expect("it recovers")
    }

    /// Waits until `count` frames were received at a port: with or without a stream.
    #[track_caller]
    fn wait_input(&self, port_name: &str, count: u64) {
        wait_for(&format!("{count} frames came in at {port_name}"), || {
            let status = self.status();
            let port = port(&status, port_name);
            port.input_packets + port.unmatched == count
        });
    }

    /// Checks that valid frames pass in both directions.
    #[track_caller]
    fn require_sound(&self) {
        const FRAMES: u16 = 50;
        let mut host = Capture::open(&self.world, "host", "eth0");
        let next = self.recovery().recov_seq_num.wrapping_add(1);
        let numbers = || (0..FRAMES).map(|n| next.wrapping_add(n));
        for number in numbers() {
            for (path, vlan) in self.paths.iter().zip([11, 12]) {
                path.send(&FrameText::new(BACK, &[vlan], Some(number)).octets());
            }
        }
        let expected = FrameText::new(BACK, &[VLAN], None).octets();
        let found = host.wait(usize::from(FRAMES), "of back, at the host");
        assert!(found.iter().all(|frame| *frame == expected), "{found:02x?}");

        let mut far = ["path1", "path2"].map(|path| Capture::open(&self.world, path, "eth0"));
        let status = self.status();
        let generation = stream(&status, "there").generation.clone().expect("it generates");
        let sent = FrameText::new(THERE, &[VLAN], None);
        self.host.send(&sent.octets());
        for (path, vlan) in far.iter_mut().zip([11, 12]) {
            let r_tag = Some(generation.gen_seq_num);
            let expected = FrameText { vlans: vec![vlan], r_tag, ..sent.clone() }.octets();
            assert_eq!(path.wait(1, "of there, on a path"), [expected]);
        }
    }

    /// Stops the node, which must still run, and checks that nothing is left.
    fn end(mut self) {
        self.world.daemon("a").unwrap().interrupt().unwrap();
        assert_gone("a");
    }
}

fn config() -> String {
    format!(
        r#"{PORTS}{}{}
[[stream]]
name = "camera"
generate = true
member = [{{ port = "host", identify = {{ type = "ip", destination = "01:00:5e:01:02:03", vlan = {VLAN}, ip-destination = "239.1.2.3", protocol = "udp", destination-port = 5000 }} }}]
egress = [{{ port = "path1", tag = "r-tag" }}, {{ port = "path2", tag = "r-tag" }}]
"#,
        replicate("there", THERE, VLAN),
        eliminate("back", BACK, VLAN),
    )
}

/// A frame of "camera".
fn camera() -> Vec<u8> {
    let mut frame = FrameText::new("01:00:5e:01:02:03", &[VLAN], None).octets();
    frame.truncate(16);
    frame.extend([0x08, 0x00]);
    // IPv4 of 20 + 8 + 4 octets, UDP, from 192.0.2.1 to 239.1.2.3.
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 239, 1, 2, 3]);
    let header = &frame[18..38];
    let sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[28..30].copy_from_slice(&check.to_be_bytes());
    frame.extend([0x13, 0x88, 0x13, 0x88, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// Sends a frame truncated after each of its octets; returns the number that the socket accepted.
fn send_cut_off(injector: &Injector, frame: &[u8]) -> u64 {
    for length in 1..SHORTEST {
        injector.try_send(&frame[..length]).expect_err("shorter than any frame");
    }
    (SHORTEST..=frame.len()).for_each(|length| injector.send(&frame[..length]));
    (frame.len() - SHORTEST + 1) as u64
}

#[test]
fn frames_truncated_at_every_octet_are_counted() {
    if !can_run() {
        return;
    }
    let rig = Rig::start(&config());

    // Addresses and VLAN tag are 16 octets, the R-TAG 6, and an EtherType is the last parsed field.
    let sent = send_cut_off(&rig.paths[0], &FrameText::new(BACK, &[11], Some(7)).octets());
    rig.wait_input("path1", sent);
    let status = rig.status();
    let back = stream(&status, "back");
    assert_eq!(port(&status, "path1").unmatched, 4, "14 to 17 octets: truncated in the VLAN tag");
    assert_eq!(back.seq_enc_errored, 6, "18 to 23 octets: truncated in the R-TAG");
    let recovery = rig.recovery();
    assert_eq!((recovery.counters.passed, recovery.counters.discarded), (1, sent - 4 - 6 - 1));
    assert_eq!((recovery.counters.tagless, recovery.counters.rogue), (0, 0));

    let mut far = Capture::open(&rig.world, "path1", "eth0");
    let whole = FrameText::new(THERE, &[VLAN], None);
    let sent_there = send_cut_off(&rig.host, &whole.octets());
    rig.wait_input("host", sent_there);
    // From 18 octets on the EtherType is present. Octets after it arrive behind the R-TAG.
    let matched = sent_there - 4;
    let status = rig.status();
    assert_eq!(port(&status, "host").unmatched, 4);
    assert_eq!(input(stream(&status, "there")), matched);
    let replicas = far.wait(matched as usize, "on path 1").to_vec();
    for (number, replica) in replicas.iter().enumerate() {
        let r_tag = Some(number as u16);
        let mut expected = FrameText { vlans: vec![11], r_tag, ..whole.clone() }.octets();
        expected.truncate(24 + number);
        assert_eq!(*replica, expected, "replica {number}");
    }
    rig.require_sound();

    // An IP packet matches only if it is complete.
    let before = port(&rig.status(), "host").clone();
    let sent = send_cut_off(&rig.host, &camera());
    rig.wait_input("host", before.input_packets + before.unmatched + sent);
    let status = rig.status();
    assert_eq!(input(stream(&status, "camera")), 1);
    assert_eq!(port(&status, "host").unmatched, before.unmatched + sent - 1);
    rig.require_sound();
    rig.end();
}

#[test]
fn tags_in_the_wrong_order_do_not_match() {
    if !can_run() {
        return;
    }
    let rig = Rig::start(&config());
    let mut stack = Capture::open(&rig.world, "a", "path1");
    let mut host = Capture::open(&rig.world, "host", "eth0");

    // An R-TAG followed by a VLAN tag: the frame is untagged, and matches no stream.
    let plain = FrameText::new(BACK, &[11], None).octets();
    let r_tag = [0xf1, 0xc1, 0, 0, 0, 9];
    let mut behind = plain[..12].to_vec();
    behind.extend(r_tag);
    behind.extend(&plain[12..]);
    rig.paths[0].send(&behind);
    assert_eq!(stack.wait(1, "at the stack of a"), [behind]);

    // A third VLAN tag ends the parsing: there is no number.
    rig.paths[0].send(&FrameText::new(BACK, &[11, 5, 6], Some(9)).octets());
    rig.wait_input("path1", 2);
    assert_eq!((rig.recovery().counters.tagless, rig.recovery().counters.passed), (1, 0));

    // Of two R-TAGs the outer one is used and removed.
    let mut double = FrameText::new(BACK, &[11], Some(200)).octets();
    double.splice(22..22, [0xf1, 0xc1, 0, 0, 1, 44]);
    rig.paths[0].send(&double);
    let inner = FrameText::new(BACK, &[VLAN], Some(300)).octets();
    assert_eq!(host.wait(1, "at the host"), [inner]);
    assert_eq!((rig.recovery().counters.passed, rig.recovery().recov_seq_num), (1, 200));

    // Two VLAN tags before the R-TAG are in order: the outer one identifies the stream.
    rig.paths[0].send(&FrameText::new(BACK, &[11, 5], Some(201)).octets());
    let expected = FrameText::new(BACK, &[VLAN, 5], None).octets();
    assert_eq!(host.wait(2, "at the host")[1], expected);

    assert_eq!(stack.take().len(), 1, "nothing else was for the stack");
    rig.require_sound();
    rig.end();
}

#[test]
fn floods_of_random_numbers_are_counted_as_rogue() {
    if !can_run() {
        return;
    }
    let rig = Rig::start(&config());
    const ROUNDS: u64 = 200;
    const BATCH: u64 = 50;
    // A linear congruential generator: every run sends the same.
    let mut state = 1_u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u16
    };
    for round in 1..=ROUNDS {
        for _ in 0..BATCH {
            for (path, vlan) in rig.paths.iter().zip([11, 12]) {
                path.send(&FrameText::new(BACK, &[vlan], Some(random())).octets());
            }
        }
        // Each batch fits the ring of an interface.
        rig.wait_input("path1", round * BATCH);
        rig.wait_input("path2", round * BATCH);
    }
    let recovery = rig.recovery();
    assert_eq!(recovery.counters.passed + recovery.counters.discarded, 2 * ROUNDS * BATCH);
    // All but a few are outside of the history of 256.
    assert!(
        recovery.counters.rogue > ROUNDS * BATCH
            && recovery.counters.rogue <= recovery.counters.discarded
    );
    assert_eq!(recovery.counters.resets, 1);
    rig.require_sound();

    // Numbers of other streams, and unknown tags, in between.
    let mut stack = Capture::open(&rig.world, "a", "path1");
    let before = port(&rig.status(), "path1").unmatched;
    const OTHERS: usize = 100;
    for number in 0..OTHERS {
        let other = FrameText::new("01:00:5e:00:00:77", &[11], Some(number as u16)).octets();
        rig.paths[0].send(&other);
    }
    stack.wait(OTHERS, "at the stack of a");
    assert_eq!(port(&rig.status(), "path1").unmatched, before + OTHERS as u64);
    rig.require_sound();
    rig.end();
}
