//! Mistakes of other implementations, and what must hold instead.

use std::collections::BTreeSet;

use onbeat_frer::prp::{Lan, Lre, NodeKind, Outcome, Parameters};
use onbeat_wire::{Frame, MacAddress};

use super::world::{Discard, Plan, World};
use super::{
    A, B, BROADCAST, HOST, LANS, MS, READY, S, check_balance, delivers, frame, in_vlan, lre, mac,
    parameters, receive, send, supervise, supervision_of, tagged,
};

/// Two LANs with delays of 20 ms and 50 ms.
fn plan() -> Plan {
    Plan {
        seed: 1,
        discard: Discard::Entity,
        frames: 2000,
        interval_ns: MS,
        forget_ms: 400,
        delay_ns: [(20 * MS, 1), (50 * MS, 1)],
        loss: [0.0; 2],
        duplication: 0.0,
        is_connected: false,
        has_crossed: false,
        restarts: false,
        cuts: false,
    }
}

fn assert_good(plan: &Plan) {
    let verdict = World::run(plan);
    assert_eq!((verdict.lost, verdict.twice, verdict.returned), (0, 0, 0), "{plan:?}");
    assert!(verdict.checked > plan.frames / 2, "{verdict:?}");
}

#[test]
fn losses_on_the_faster_lan_lose_no_frame() {
    for loss in [[0.2, 0.0], [0.8, 0.0], [0.8, 0.2]] {
        assert_good(&Plan { loss, ..plan() });
    }
}

#[test]
fn late_sole_copies_are_delivered() {
    let delay_ns = [(MS, 150 * MS); 2];
    for loss in [[0.0, 1.0], [0.5, 0.5]] {
        assert_good(&Plan { loss, delay_ns, ..plan() });
    }
}

#[test]
fn the_first_frame_after_a_restart_is_delivered() {
    for before in [1, 100, 32_767, 32_768, 40_000, 65_535] {
        let (mut sender, mut receiver) = (lre(1), lre(2));
        let octets = frame(mac(2), mac(1), 0);
        for _ in 0..before {
            let [a, _] = send(&mut sender, READY, &octets);
            assert!(delivers(&mut receiver, A, READY, &a));
        }
        let mut sender = Lre::new(parameters(1), READY);
        assert!(matches!(sender.frame(HOST, READY + 499 * MS, &octets), Outcome::Discard));
        assert_eq!(sender.read().host.silent, 1);
        for number in 0..100 {
            let [a, b] = send(&mut sender, READY + 500 * MS, &octets);
            assert!(delivers(&mut receiver, B, READY + 500 * MS, &b), "{before} {number}");
            assert!(!delivers(&mut receiver, A, READY + 500 * MS, &a), "{before} {number}");
        }
    }
}

#[test]
fn the_silence_after_a_start_exceeds_the_forget_time_of_receivers() {
    for (entry_forget_ms, silence_ms) in [(4, 500), (40, 500), (400, 500), (1000, 1100)] {
        let mut lre = Lre::new(Parameters { entry_forget_ms, ..parameters(1) }, S);
        let octets = frame(mac(2), mac(1), 0);
        let last_ns = S + silence_ms * MS;
        assert!(matches!(lre.frame(HOST, last_ns - 1, &octets), Outcome::Discard));
        assert!(lre.send(last_ns - 1, &octets).is_none());
        send(&mut lre, last_ns, &octets);
    }
}

#[test]
fn slow_frames_on_lans_of_different_delay_are_delivered_once() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    let mut late = Vec::new();
    for sent in 0..6000 {
        let now_ns = READY + sent * 10 * MS;
        let [a, b] = send(&mut sender, now_ns, &frame(mac(2), mac(1), sent));
        assert!(delivers(&mut receiver, A, now_ns, &a), "{sent}");
        late.push(b);
        if let Some(at) = sent.checked_sub(3) {
            assert!(!delivers(&mut receiver, B, now_ns, &late[at as usize]), "{at}");
        }
    }
}

#[test]
fn second_copies_are_discarded_from_the_first_frame_on() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    for first in [A, B, A, B] {
        let [a, b] = send(&mut sender, READY, &frame(BROADCAST, mac(1), 0));
        assert_eq!((Frame::parse(&a).unwrap().source(), a[6..12] == b[6..12]), (mac(1), true));
        let (one, other) = if first == A { (a, b) } else { (b, a) };
        assert!(delivers(&mut receiver, first, READY, &one));
        assert!(!delivers(&mut receiver, if first == A { B } else { A }, READY, &other));
    }
}

#[test]
fn two_stations_and_their_redbox_are_three_nodes() {
    let (mut redbox, mut receiver) = (lre(1), lre(2));
    for station in [101, 102] {
        send(&mut redbox, READY, &frame(BROADCAST, mac(station), 0));
    }
    for _ in 0..3 {
        for [a, b] in supervise(&mut redbox, READY) {
            assert!(
                !delivers(&mut receiver, A, READY, &a) && !delivers(&mut receiver, B, READY, &b)
            );
        }
    }
    let nodes: Vec<_> = receiver.read().nodes.iter().map(|node| (node.mac, node.kind)).collect();
    let (station, redbox) = (NodeKind::Vdanp, NodeKind::RedBox);
    assert_eq!(nodes, [(mac(1), redbox), (mac(101), station), (mac(102), station)]);
}

#[test]
fn the_shortest_and_the_longest_frames_are_delivered() {
    for len in [14, 15, 42, 59, 60, 63, 64, 1514, 4103] {
        for is_tagged in [false, true] {
            let mut octets = [frame(mac(2), mac(1), 0), vec![0x55; 4100]].concat();
            octets.truncate(len);
            if is_tagged {
                // PCP 7, DEI 0.
                octets = in_vlan(&octets, 5);
            }
            let (mut sender, mut receiver) = (lre(1), lre(2));
            let [a, b] = send(&mut sender, READY, &octets);
            let least = if is_tagged { 70 } else { 66 };
            assert_eq!(a.len(), (octets.len() + 6).max(least));
            let delivered = receive(&mut receiver, A, READY, &a).unwrap();
            assert_eq!((&delivered[..octets.len()], delivered.len()), (&octets[..], a.len() - 6));
            assert!(delivered[octets.len()..].iter().all(|octet| *octet == 0));
            assert!(!delivers(&mut receiver, B, READY, &b));
            // Of a station without redundancy.
            assert_eq!(receive(&mut receiver, A, READY, &octets).unwrap(), octets);
        }
    }
    let mut sender = lre(1);
    for len in [4104, 9014] {
        let octets = [frame(mac(2), mac(1), 0), vec![0; 9000]].concat();
        assert!(matches!(sender.frame(HOST, READY, &octets[..len]), Outcome::Discard));
    }
    assert_eq!((sender.read().host.too_long, sender.read().next), (2, 0));
}

#[test]
fn every_prefix_of_a_frame_is_counted() {
    let frames = [
        in_vlan(&frame(mac(2), mac(1), 0), 5),
        tagged(&frame(mac(2), mac(1), 0), 1, Lan::A),
        supervision_of(mac(1), mac(1), Some(mac(1))),
    ];
    let mut lre = lre(2);
    let mut count = 0;
    for octets in frames {
        for len in 0..octets.len() {
            for port in [A, B, HOST] {
                let _ = lre.frame(port, READY, &octets[..len]);
            }
            count += 1;
        }
    }
    let reading = lre.read();
    check_balance(&reading);
    for lan in reading.lans {
        assert_eq!(lan.received + lan.malformed, count);
    }
    assert_eq!(reading.host.received + reading.host.malformed, count);
}

#[test]
fn the_host_stations_and_the_entity_draw_distinct_numbers() {
    let mut lre = lre(1);
    let mut numbers = BTreeSet::new();
    for round in 0..1000 {
        let mut sent = vec![
            send(&mut lre, READY, &frame(mac(2), mac(1), round)),
            send(&mut lre, READY, &frame(BROADCAST, mac(100 + round as u16 % 3), round)),
        ];
        sent.extend(supervise(&mut lre, READY));
        for [a, b] in sent {
            let trailer = |octets: &[u8]| Frame::parse(octets).unwrap().prp().unwrap();
            let (a, b) = (trailer(&a), trailer(&b));
            assert_eq!((a.sequence, a.lan, b.lan), (b.sequence, Lan::A, Lan::B));
            assert!(numbers.insert(a.sequence));
        }
    }
    assert_eq!(usize::from(lre.read().next), numbers.len());
}

#[test]
fn frames_pass_after_ten_minutes_without_peers() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    let mut now_ns = READY;
    for round in 0..2 {
        let [a, b] = send(&mut sender, now_ns, &frame(mac(2), mac(1), round));
        assert!(delivers(&mut receiver, A, now_ns, &a));
        assert!(!delivers(&mut receiver, B, now_ns, &b));
        for _ in 0..600 {
            now_ns += S;
            sender.expire(now_ns);
            receiver.expire(now_ns);
        }
        assert!(receiver.read().nodes.is_empty());
    }
}

#[test]
fn supervision_frames_in_a_vlan_and_with_unknown_tlvs_are_learnt() {
    let plain = supervision_of(mac(1), mac(101), Some(mac(1)));
    let mut unknown = plain.clone();
    // Before the end.
    let end = unknown.len() - 2;
    unknown.splice(end..end, [99, 3, 1, 2, 3]);
    for octets in [plain.clone(), unknown.clone(), in_vlan(&plain, 5), in_vlan(&unknown, 5)] {
        let mut receiver = lre(2);
        assert!(!delivers(&mut receiver, A, READY, &tagged(&octets, 0, Lan::A)));
        let reading = receiver.read();
        assert_eq!((reading.lans[0].supervision, reading.nodes.len()), (1, 2));
        assert_eq!(reading.nodes[1].kind, NodeKind::Vdanp);
    }
    let without_end = [&plain[..plain.len() - 2], &[0x55; 40]].concat();
    let mut receiver = lre(2);
    assert!(!delivers(&mut receiver, A, READY, &tagged(&without_end, 0, Lan::A)));
    let reading = receiver.read();
    assert_eq!((reading.lans[0].invalid_supervision, reading.nodes[0].supervision), (1, None));
}

#[test]
fn a_trailer_is_last_after_a_switch_has_removed_the_vlan_tag() {
    for len in 14..70 {
        let mut octets = [frame(mac(2), mac(1), 0), vec![0x55; 60]].concat();
        octets.truncate(len);
        let (mut sender, mut receiver) = (lre(1), lre(2));
        let [a, b] = send(&mut sender, READY, &in_vlan(&octets, 5));
        let remove_tag = |octets: &[u8]| [&octets[..12], &octets[16..]].concat();
        let (a, b) = (remove_tag(&a), remove_tag(&b));
        assert!(a.len() >= 60, "the switch pads nothing");
        let delivered = receive(&mut receiver, A, READY, &a).unwrap();
        assert_eq!(delivered[..len], octets[..], "{len}");
        assert!(!delivers(&mut receiver, B, READY, &b), "{len}");
    }
}

#[test]
fn both_ports_on_one_switch_make_no_storm() {
    let (mut one, mut other) = (lre(1), lre(2));
    send(&mut one, READY, &frame(BROADCAST, mac(101), 0));
    for source in [1, 101] {
        for _ in 0..100 {
            let [a, b] = send(&mut one, READY, &frame(BROADCAST, mac(source), 0));
            // The switch floods each copy to all ports but its own.
            assert!(!delivers(&mut one, B, READY, &a) && !delivers(&mut one, A, READY, &b));
            let copies = [(A, &a), (B, &a), (A, &b), (B, &b)];
            let delivered = copies.map(|(port, copy)| delivers(&mut other, port, READY, copy));
            assert_eq!(delivered, [true, false, false, false]);
        }
    }
    for lan in one.read().lans {
        assert_eq!((lan.own, lan.own_of_other_lan), (200, 200));
    }
    assert_eq!(one.read().proxies.len(), 1);
    assert_eq!(other.read().lans.map(|lan| lan.wrong_lan), [200, 200]);
}

#[test]
fn own_multicast_frames_do_not_return_to_the_host() {
    // Detection of duplicate addresses would find its own solicitation.
    let all = MacAddress([0x33, 0x33, 0xff, 0, 0, 1]);
    let mut lre = lre(1);
    for source in [1, 101] {
        let copies = send(&mut lre, READY, &frame(all, mac(source), 0));
        for (copy, port) in copies.iter().flat_map(|copy| LANS.map(|port| (copy, port))) {
            assert!(!delivers(&mut lre, port, READY + 100 * MS, copy));
        }
    }
}

#[test]
fn a_port_that_flaps_loses_no_frame() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    for sent in 0..20_000 {
        // 100 flaps per second.
        let now_ns = READY + sent * 100_000;
        let is_up = now_ns / (5 * MS) % 2 == 0;
        let [a, b] = send(&mut sender, now_ns, &frame(mac(2), mac(1), sent));
        let first = is_up && delivers(&mut receiver, A, now_ns, &a);
        assert_eq!((first, delivers(&mut receiver, B, now_ns, &b)), (is_up, !is_up), "{sent}");
    }
}

#[test]
fn numbers_that_wrap_within_the_forget_time_are_delivered_once() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    let mut late = std::collections::VecDeque::new();
    for sent in 0..200_000_u64 {
        // Three laps within half of the forget time; 30,000 numbers in flight.
        let now_ns = READY + sent * 1000;
        let [a, b] = send(&mut sender, now_ns, &frame(mac(2), mac(1), sent));
        assert!(delivers(&mut receiver, A, now_ns, &a), "{sent}");
        late.push_back(b);
        if late.len() > 30_000 {
            let copy = late.pop_front().unwrap();
            assert!(!delivers(&mut receiver, B, now_ns, &copy), "{sent}");
        }
    }
}

#[test]
fn a_node_that_was_silent_until_periods_wrapped_is_heard() {
    let parameters = Parameters { node_forget_ms: u32::MAX, entry_forget_ms: 4, ..parameters(2) };
    let mut receiver = Lre::new(parameters, 0);
    let copy = |number| tagged(&frame(mac(2), mac(1), 0), number, Lan::A);
    let mut now_ns = READY;
    for round in 0..3 {
        for number in 0..100 {
            assert!(delivers(&mut receiver, A, now_ns, &copy(number)), "{round} {number}");
            assert!(!delivers(&mut receiver, B, now_ns, &copy(number)), "{round} {number}");
        }
        now_ns += (1 << 20) * 2 * MS;
        receiver.expire(now_ns);
    }
}

#[test]
fn time_that_steps_back_loses_no_frame() {
    let (mut sender, mut receiver) = (lre(1), lre(2));
    for (number, at_ms) in [10_000, 9_900, 9_700, 10_100, 600, 601, 20_000].into_iter().enumerate()
    {
        let now_ns = at_ms * MS;
        let [a, b] = send(&mut sender, now_ns, &frame(mac(2), mac(1), number as u64));
        assert!(delivers(&mut receiver, A, now_ns, &a), "{at_ms}");
        assert!(!delivers(&mut receiver, B, now_ns, &b), "{at_ms}");
        receiver.expire(now_ns);
    }
    // Some microseconds back, across the start of a period: still its own station.
    send(&mut sender, 40 * S, &frame(mac(2), mac(101), 0));
    let [a, _] = send(&mut sender, 40 * S - 1, &frame(mac(2), mac(101), 0));
    assert!(!delivers(&mut sender, B, 40 * S - 1, &a));
    assert!(!delivers(&mut sender, B, 40 * S, &a));
}
