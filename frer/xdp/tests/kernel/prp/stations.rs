//! Stations behind the host port, and own frames that return.

use onbeat_wire::MacAddress;
use onbeat_wire::prp::hello::Hello;
use onbeat_wire::prp::supervision;

use super::{A, B, Both, HOST, MAX_NODES, MS, mac, parameters, tagged, untagged};
use crate::harness::can_run;

/// A frame of a station behind the host port.
fn from_station(station: MacAddress) -> Vec<u8> {
    [&mac(9).0[..], &station.0, &[0x88, 0xb5]].concat()
}

#[test]
fn a_station_that_moved_to_a_lan_is_heard_there() {
    if !can_run() {
        return;
    }
    let station = mac(20);
    // Without a trailer; with a number that was not drawn; with one that was, long ago.
    let without: fn(u16) -> Vec<u8> = |_| untagged(mac(20));
    let other: fn(u16) -> Vec<u8> =
        |number| tagged(mac(20), number.wrapping_add(1000), super::Lan::A);
    let drawn: fn(u16) -> Vec<u8> = |number| tagged(mac(20), number, super::Lan::A);
    for (name, frame, later) in
        [("without", without, 0), ("other", other, 0), ("drawn", drawn, 400 * MS)]
    {
        for port in [A, B] {
            let mut both = Both::new(&parameters(MAX_NODES));
            for _ in 0..10 {
                assert_eq!(both.frame(HOST, &from_station(station), name).len(), 2);
            }
            both.compare(name);
            assert_eq!(both.kernel.read().proxies.len(), 1);
            both.at(both.now_ns() + later);
            assert_eq!(both.frame(port, &frame(9), name).len(), 1, "{name}");
            both.compare(name);
            assert_eq!(both.kernel.read().proxies.len(), 0, "{name}");
            // It returns.
            assert_eq!(both.frame(HOST, &from_station(station), name).len(), 2);
            both.compare(name);
            assert_eq!(both.kernel.read().proxies.len(), 1);
        }
    }
}

#[test]
fn own_frames_that_return_are_dropped() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(MAX_NODES));
    for round in 0..200 {
        let what = format!("round {round}");
        both.at(both.now_ns() + 7 * MS);
        for station in [77, 20, 21] {
            let sent = both.frame(HOST, &from_station(mac(station)), &what);
            for copy in &sent {
                for port in [A, B] {
                    assert!(both.frame(port, copy, &what).is_empty(), "{what}");
                }
            }
            // On the LAN of the other copy, too.
            let counters = both.kernel.read().lans;
            assert_eq!(counters[0].own, counters[1].own);
            assert_eq!(counters[0].own_of_other_lan * 2, counters[0].own);
        }
        both.compare(&what);
    }
    let nodes = both.kernel.read();
    assert_eq!((nodes.nodes.len(), nodes.proxies.len()), (0, 2));
}

/// Up to the time after which the number and the station are forgotten.
#[test]
fn late_own_frames_are_judged_alike() {
    if !can_run() {
        return;
    }
    for later in (0..1000).step_by(50) {
        let mut both = Both::new(&parameters(MAX_NODES));
        let what = format!("{later} ms later");
        let sent = both.frame(HOST, &from_station(mac(20)), &what);
        both.at(both.now_ns() + later * MS);
        both.frame(HOST, &from_station(mac(21)), &what);
        both.frame(A, &sent[0], &what);
        both.compare(&what);
    }
}

#[test]
fn more_stations_than_entries_pass() {
    if !can_run() {
        return;
    }
    let mut both = Both::new(&parameters(4));
    for round in 0..3 {
        for station in 100..110 {
            let what = format!("round {round}, station {station}");
            assert_eq!(both.frame(HOST, &from_station(mac(station)), &what).len(), 2);
        }
        both.compare(&format!("round {round}"));
    }
    let reading = both.kernel.read();
    assert_eq!((reading.proxies.len(), reading.unknown_proxies), (4, 18));
}

/// The host port is connected to a LAN.
#[test]
fn a_blocked_host_port_forwards_nothing() {
    if !can_run() {
        return;
    }
    let parameters = super::Parameters { is_segment: true, ..parameters(MAX_NODES) };
    let mut both = Both::new(&parameters);
    let own =
        [&supervision::DESTINATION.0[..], &parameters.mac.0, &[0x88, 0xfb, 0, 0, 0, 0]].concat();
    assert_eq!(both.frame(HOST, &from_station(mac(20)), "before").len(), 2);
    assert_eq!(both.frame(HOST, &own, "own supervision").len(), 0);
    assert_eq!(both.frame(HOST, &from_station(mac(20)), "from the host port").len(), 0);
    assert_eq!(both.frame(A, &untagged(mac(21)), "from a LAN").len(), 0);
    both.compare("blocked");
}

/// Another RedBox serves the stations.
#[test]
fn of_two_redboxes_one_has_precedence() {
    if !can_run() {
        return;
    }
    let parameters = super::Parameters { is_segment: true, ..parameters(MAX_NODES) };
    let own = parameters.mac;
    let smaller = MacAddress([0, 0, 0, 0, 0, 0xff]);
    let greater = MacAddress([2, 0x80, 0, 0, 0, 0]);
    let cases = [
        // Sender, whether it hears a LAN and serves; whether this process runs; precedence.
        (smaller, true, true, true, true),
        (smaller, true, false, true, false),
        (smaller, false, true, true, false),
        (greater, true, true, true, false),
        (greater, true, true, false, true),
        (greater, false, false, false, true),
    ];
    for (sender, is_on_lan, serves, has_process, is_preceded) in cases {
        let what = format!("{sender} {is_on_lan} {serves} {has_process}");
        let mut both = Both::new(&parameters);
        both.at(both.now_ns() + 10_000 * MS);
        let hello = Hello { sender, number: 1, is_on_lan, serves }.emit();
        let forwards = |both: &mut Both| {
            let host = both.frame(HOST, &from_station(mac(30)), &what).len();
            assert_eq!(both.frame(A, &untagged(mac(21)), &what).len(), host / 2, "{what}");
            both.compare(&what);
            host == 2
        };
        if has_process {
            both.supervise();
        }
        assert!(forwards(&mut both), "{what}");
        both.frame(HOST, &hello, &what);
        assert_eq!(!forwards(&mut both), is_preceded, "{what}");
        both.at(both.now_ns() + 4999 * MS);
        assert_eq!(!forwards(&mut both), is_preceded, "{what}");
        both.at(both.now_ns() + MS);
        // A standby without its process stays one.
        assert_eq!(forwards(&mut both), !is_preceded, "{what}");
        both.supervise();
        both.at(both.now_ns() + 1000 * MS);
        both.supervise();
        assert!(forwards(&mut both), "{what}");
        // It loses its precedence: until receivers have forgotten its numbers.
        both.supervise();
        both.frame(
            HOST,
            &Hello { sender: smaller, number: 2, is_on_lan: true, serves: true }.emit(),
            &what,
        );
        both.frame(
            HOST,
            &Hello { sender: smaller, number: 3, is_on_lan: false, serves: true }.emit(),
            &what,
        );
        both.at(both.now_ns() + 999 * MS);
        assert!(!forwards(&mut both), "{what}");
        both.at(both.now_ns() + MS);
        assert!(forwards(&mut both), "{what}");
        assert_ne!(sender, own);
    }
}

/// Stations that hear each other.
#[test]
fn frames_within_a_segment_stay_there() {
    if !can_run() {
        return;
    }
    let parameters = super::Parameters { is_segment: true, ..parameters(MAX_NODES) };
    let mut both = Both::new(&parameters);
    let between = |to: u8, from: u8| [&mac(to).0[..], &mac(from).0, &[0x88, 0xb5]].concat();
    assert_eq!(both.frame(HOST, &between(21, 20), "unknown").len(), 2);
    assert_eq!(both.frame(HOST, &between(20, 21), "known").len(), 0);
    assert_eq!(both.frame(HOST, &between(21, 20), "known").len(), 0);
    // To a station that moved to a LAN.
    assert_eq!(both.frame(A, &untagged(mac(21)), "moved").len(), 1);
    assert_eq!(both.frame(HOST, &between(21, 20), "moved").len(), 2);
    both.compare("segment");
}
