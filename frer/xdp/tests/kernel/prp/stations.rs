//! Stations behind the host port, and own frames that return.

use onbeat_testing::prp::supervision_of;
use onbeat_wire::MacAddress;
use onbeat_wire::prp::{Lan, supervision};

use super::{A, B, Both, HOST, MAX_NODES, MS, mac, parameters, tagged, untagged, with_trailer};
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
fn the_redbox_with_the_greater_address_is_the_standby() {
    if !can_run() {
        return;
    }
    let parameters = super::Parameters { is_segment: true, ..parameters(MAX_NODES) };
    // The one with the greater address serves if this one has no process.
    let cases = [(mac(20), true, true), (mac(99), true, false), (mac(99), false, true)];
    for (other, has_process, is_standby) in cases {
        let mut both = Both::new(&parameters);
        let supervise = |both: &mut Both| {
            if has_process {
                both.supervise();
            }
        };
        let hello = supervision_of(other, other, Some(other));
        let forwards = |both: &mut Both, what| {
            both.frame(HOST, &hello, what);
            let host = both.frame(HOST, &from_station(mac(30)), what).len();
            assert_eq!(both.frame(A, &untagged(mac(21)), what).len(), host / 2, "{what}");
            both.compare(what);
            host == 2
        };
        // After a start, until it is clear whether it is on the LANs.
        assert!(!forwards(&mut both, "started"));
        both.at(both.now_ns() + 3000 * MS);
        assert!(forwards(&mut both, "not on the LANs"));
        supervise(&mut both);
        both.frame(A, &with_trailer(&hello, 0, Lan::A), "supervision");
        assert_eq!(!forwards(&mut both, "on the LANs"), is_standby);
        both.at(both.now_ns() + 4999 * MS);
        supervise(&mut both);
        assert_eq!(!forwards(&mut both, "its last hello"), is_standby);
        both.at(both.now_ns() + 5000 * MS);
        assert!(forwards(&mut both, "no longer on the LANs"));
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
