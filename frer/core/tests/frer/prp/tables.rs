//! NodesTable and ProxyNodeTable: floods, ageing, stations that move, supervision, changed parameters.

use onbeat_frer::prp::{DueFrames, Lan, NodeKind, Outcome, Parameters};
use onbeat_wire::random::Random;

use super::{
    A, B, BROADCAST, HOST, MS, READY, S, check_balance, delivers, frame, lre, mac, parameters,
    send, supervise, supervision_of, tagged,
};

/// A flood of 5,000 sources, with trailers (`true`) or without, beside 100 nodes that send every 20 ms and one that
/// sends every second; all send supervision frames.
fn flood(has_trailer: bool) {
    let mut lre = lre(1);
    let mut random = Random::new(7);
    let mut twice = 0;
    let supervise = |lre: &mut _, now_ns| {
        for node in 10..111 {
            assert!(!delivers(lre, A, now_ns, &supervision_of(mac(node), mac(node), None)));
        }
    };
    for step in 0..20_000_u32 {
        let now_ns = READY + u64::from(step) * MS / 5;
        if step % 10_000 == 0 {
            supervise(&mut lre, now_ns);
        }
        let legitimate = if step % 5000 == 0 { 110 } else { 10 + (step % 100) as u16 };
        let number = (step / 100) as u16;
        let copy = |lan| tagged(&frame(mac(1), mac(legitimate), 0), number, lan);
        assert!(delivers(&mut lre, A, now_ns, &copy(Lan::A)), "{step}");
        assert!(!delivers(&mut lre, B, now_ns, &copy(Lan::B)), "{step}");
        let unknown = frame(mac(1), mac(10_000 + random.below(5000) as u16), 0);
        if has_trailer {
            assert!(delivers(&mut lre, A, now_ns, &tagged(&unknown, step as u16, Lan::A)));
            let second = tagged(&unknown, step as u16, Lan::B);
            twice += u32::from(delivers(&mut lre, B, now_ns, &second));
        } else {
            assert!(delivers(&mut lre, A, now_ns, &unknown));
        }
    }
    let reading = lre.read();
    check_balance(&reading);
    assert_eq!(reading.nodes.len(), 512);
    let kept = reading.nodes.iter().filter(|node| (10..111).any(|n| node.mac == mac(n)));
    assert_eq!(kept.count(), 101);
    assert!(reading.evicted > 100);
    let without_entry: u64 = reading.lans.iter().map(|lan| lan.without_entry).sum();
    assert_eq!(twice > 0, has_trailer);
    assert_eq!(without_entry, 2 * u64::from(twice));
}

#[test]
fn nodes_in_use_stay_in_a_flood_of_redundant_sources() {
    flood(true);
}

#[test]
fn nodes_in_use_stay_in_a_flood_of_single_sources() {
    flood(false);
}

#[test]
fn single_stations_evict_no_redundant_node() {
    let mut lre = lre(1);
    for node in 1000..1512 {
        assert!(delivers(&mut lre, A, READY, &tagged(&frame(mac(1), mac(node), 0), 0, Lan::A)));
    }
    for single in 0..5000 {
        let now_ns = READY + 10 * S + u64::from(single) * MS;
        assert!(delivers(&mut lre, A, now_ns, &frame(mac(1), mac(10_000 + single), 0)));
    }
    let reading = lre.read();
    assert_eq!((reading.evicted, reading.nodes.len()), (0, 512));
    assert_eq!(reading.lans[0].without_entry, 0);
    // Among redundant ones, the one that was heard the longest ago.
    let now_ns = READY + 20 * S;
    assert!(delivers(&mut lre, A, now_ns, &tagged(&frame(mac(1), mac(1000), 0), 1, Lan::A)));
    assert!(delivers(&mut lre, A, now_ns, &tagged(&frame(mac(1), mac(9), 0), 1, Lan::A)));
    assert!(!delivers(&mut lre, B, now_ns, &tagged(&frame(mac(1), mac(1000), 0), 1, Lan::B)));
    assert_eq!(lre.read().evicted, 1);
}

#[test]
fn supervision_of_a_redbox_with_a_full_table_is_counted() {
    let mut lre = lre(1);
    for node in 0..600 {
        let octets = supervision_of(mac(5000), mac(1000 + node), Some(mac(5000)));
        assert!(!delivers(&mut lre, A, READY, &tagged(&octets, node, Lan::A)));
    }
    let reading = lre.read();
    assert_eq!((reading.nodes.len(), reading.evicted, reading.lans[0].supervision), (512, 0, 600));
}

#[test]
fn nodes_and_stations_age() {
    let mut lre = lre(1);
    assert!(delivers(&mut lre, A, READY, &frame(BROADCAST, mac(2), 0)));
    send(&mut lre, READY, &frame(BROADCAST, mac(101), 0));
    let supervision = supervision_of(mac(3), mac(3), None);
    assert!(!delivers(&mut lre, B, READY + S, &tagged(&supervision, 0, Lan::B)));
    for (at_ns, nodes, stations) in [
        (0, 2, 1),
        (READY + 60 * S - 1, 2, 1),
        (READY + 60 * S, 1, 0),
        (READY + 61 * S - 1, 1, 0),
        (READY + 61 * S, 0, 0),
    ] {
        lre.expire(at_ns);
        let reading = lre.read();
        assert_eq!((reading.nodes.len(), reading.proxies.len()), (nodes, stations), "{at_ns}");
    }
}

#[test]
fn a_station_that_moves_to_a_lan_and_back_is_heard() {
    let mut lre = lre(1);
    let octets = frame(BROADCAST, mac(101), 0);
    let [a, _] = send(&mut lre, READY, &octets);
    assert!(!delivers(&mut lre, B, READY, &a), "its own frame");
    // Without a trailer at once; with one from the forget time on at the latest.
    assert!(delivers(&mut lre, A, READY + MS, &octets));
    assert!(lre.read().proxies.is_empty());
    send(&mut lre, READY + 10 * MS, &octets);
    assert_eq!(lre.read().proxies.len(), 1);
    let now_ns = READY + 410 * MS;
    for number in 0..10 {
        assert!(delivers(&mut lre, A, now_ns, &tagged(&octets, number, Lan::A)), "{number}");
        assert!(!delivers(&mut lre, B, now_ns, &tagged(&octets, number, Lan::B)), "{number}");
    }
    assert!(lre.read().proxies.is_empty());
}

/// All 65,536 numbers are recent ones of this entity: they cannot distinguish the frames of a station that moved.
#[test]
fn a_station_that_moves_from_a_busy_redbox_is_heard() {
    let mut lre = lre(1);
    let octets = frame(BROADCAST, mac(101), 0);
    send(&mut lre, READY, &octets);
    let others = frame(mac(2), mac(1), 0);
    for sent in 0..140_000 {
        lre.frame(HOST, READY + sent * 5000, &others);
    }
    let now_ns = READY + 700 * MS;
    assert!(delivers(&mut lre, A, now_ns, &tagged(&octets, 7, Lan::A)));
    assert!(!delivers(&mut lre, B, now_ns, &tagged(&octets, 7, Lan::B)));
}

#[test]
fn frames_between_stations_of_a_segment_stay_there() {
    let mut lre = onbeat_frer::prp::Lre::new(Parameters { is_segment: true, ..parameters(1) }, 0);
    send(&mut lre, READY, &frame(mac(102), mac(101), 0));
    assert!(matches!(lre.frame(HOST, READY, &frame(mac(101), mac(102), 0)), Outcome::Discard));
    assert_eq!(lre.read().host.local, 1);
    check_balance(&lre.read());
}

/// The cable of the host port leads to a LAN.
#[test]
fn a_redbox_that_hears_itself_forwards_nothing_until_it_does_not() {
    let redbox = Parameters { is_segment: true, ..parameters(1) };
    let mut lre = onbeat_frer::prp::Lre::new(redbox, 0);
    let of_station = frame(BROADCAST, mac(101), 0);
    let of_lan = tagged(&frame(BROADCAST, mac(2), 0), 0, Lan::A);
    assert_eq!(send(&mut lre, READY, &of_station).len(), 2);
    let [own, _] = supervise(&mut lre, READY).remove(0);
    assert!(matches!(lre.frame(HOST, READY, &own), Outcome::Discard));
    let end_ns = READY + 5000 * MS;
    for now_ns in [READY, READY + 2500 * MS, end_ns - 1] {
        // Its process runs.
        let hello = lre.supervise(now_ns).to_host.remove(0);
        lre.send_to_host(now_ns, &hello);
        assert!(matches!(lre.frame(HOST, now_ns, &of_station), Outcome::Discard));
        assert!(!delivers(&mut lre, A, now_ns, &of_lan));
    }
    let again = tagged(&frame(BROADCAST, mac(2), 0), 1, Lan::A);
    assert!(delivers(&mut lre, A, end_ns, &again));
    assert_eq!(send(&mut lre, end_ns + 400 * MS, &of_station).len(), 2);
    let reading = lre.read();
    assert_eq!((reading.host.blocked, reading.host.link_local, reading.lans[0].blocked), (3, 1, 3));
    check_balance(&reading);
}

#[test]
fn claims_of_own_addresses_are_counted_and_not_learnt() {
    let mut lre = lre(1);
    send(&mut lre, READY, &frame(BROADCAST, mac(101), 0));
    for claimed in [mac(1), mac(101), BROADCAST] {
        let octets = tagged(&supervision_of(mac(9), claimed, Some(mac(9))), 0, Lan::A);
        assert!(!delivers(&mut lre, A, READY, &octets));
    }
    let reading = lre.read();
    assert_eq!(reading.lans[0].foreign_claims, 3);
    assert_eq!(reading.nodes.iter().map(|node| node.mac).collect::<Vec<_>>(), [mac(9)]);
}

#[test]
fn every_station_is_supervised_within_the_interval() {
    for stations in [0_u16, 1, 2, 39, 40, 41, 100, 511] {
        let mut redbox = lre(1);
        let mut receiver = lre(2);
        for station in 0..stations {
            send(&mut redbox, READY, &frame(BROADCAST, mac(1000 + station), 0));
        }
        let mut elapsed_ms = 0;
        // A quarter more for the rounding of intervals.
        while elapsed_ms < 2500 {
            let DueFrames { frames, next_ms, .. } = redbox.supervise(READY);
            for octets in frames {
                let copies = redbox.send(READY, &octets).unwrap();
                for (port, octets) in super::LANS.into_iter().zip(super::both(copies)) {
                    assert!(!delivers(&mut receiver, port, READY, &octets));
                }
            }
            elapsed_ms += next_ms;
        }
        assert_eq!(receiver.read().nodes.len(), usize::from(stations) + 1, "{stations}");
    }
}

#[test]
fn a_full_table_of_stations_still_sends_their_frames() {
    let parameters = Parameters { max_nodes: 4, ..parameters(1) };
    let mut lre = onbeat_frer::prp::Lre::new(parameters, 0);
    for station in 0..10 {
        send(&mut lre, READY, &frame(BROADCAST, mac(1000 + station), 0));
    }
    assert_eq!((lre.read().proxies.len(), lre.read().unknown_proxies), (4, 6));
    assert_eq!(supervise(&mut lre, READY).len(), 1);
}

#[test]
fn changed_parameters_keep_nodes_and_lose_no_frame() {
    let mut lre = lre(1);
    let copy = |node, number| tagged(&frame(BROADCAST, mac(node), 0), number, Lan::A);
    for node in 100..200 {
        assert!(delivers(&mut lre, A, READY, &copy(node, 5)));
    }
    let shorter = Parameters { entry_forget_ms: 40, ..parameters(1) };
    for changed in [shorter, parameters(1)] {
        lre.set_parameters(changed);
        let reading = lre.read();
        assert_eq!(reading.nodes.len(), 100);
        assert!(reading.nodes.iter().all(|node| node.kind == NodeKind::Danp));
        // Forgotten: twice rather than never.
        assert!(delivers(&mut lre, A, READY, &copy(100, 5)));
        assert!(!delivers(&mut lre, A, READY, &copy(100, 5)));
    }
    // A smaller table shrinks with the next node; entries in use stay.
    lre.set_parameters(Parameters { max_nodes: 10, ..parameters(1) });
    assert!(delivers(&mut lre, A, READY + S, &copy(300, 0)));
    assert_eq!(lre.read().nodes.len(), 10);
    // The node has a new address, that of a station so far.
    send(&mut lre, READY + S, &frame(BROADCAST, mac(101), 0));
    lre.set_parameters(Parameters { mac: mac(101), ..parameters(1) });
    assert!(lre.read().proxies.is_empty());
    lre.set_parameters(Parameters { max_nodes: 0, ..parameters(1) });
    assert!(delivers(&mut lre, A, READY + S, &copy(400, 0)));
}
