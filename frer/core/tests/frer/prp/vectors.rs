//! Runs vectors/prp.toml through an entity; its header defines the cases.

use onbeat_frer::prp::{Lan, Outcome};
use onbeat_testing::prp::File;
use onbeat_wire::{Frame, MacAddress};

use super::{A, B, HOST, READY, delivers, frame, lre, mac, receive, supervision_of};

#[test]
fn tails_are_sent() {
    for case in File::read().tail {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.frame();
        let mut lre = lre(77);
        let unheard = frame(mac(9), mac(77), 0);
        for _ in 0..case.sequence {
            lre.frame(HOST, READY, &unheard);
        }
        let port = if case.lan() == Lan::A { A } else { B };
        match (lre.frame(HOST, READY, &octets), case.tail()) {
            (Outcome::Send(mut copies), Some(tail)) => {
                let copy = copies.find(|copy| copy.port == port).expect("a copy");
                assert_eq!((copy.octets, copy.tail()), (&octets[..], &tail[..]), "{name}");
            }
            (Outcome::Discard, None) => assert_eq!(lre.read().host.too_long, 1, "{name}"),
            (outcome, tail) => panic!("{name}: {outcome:?}, {tail:?}"),
        }
    }
}

#[test]
fn received_frames_are_recognized_or_delivered_whole() {
    let mut recognized = 0;
    for case in File::read().received {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.frame();
        let mut lre = lre(77);
        if Frame::parse(&octets).unwrap().destination() == MacAddress([1, 0x15, 0x4e, 0, 1, 0]) {
            continue;
        }
        let delivered = receive(&mut lre, A, READY, &octets).expect(&name);
        assert_eq!(delivered, octets[..case.stripped.unwrap_or(octets.len())], "{name}");
        let counters = lre.read().lans[0];
        match case.expected() {
            Ok(trailer) => {
                assert_eq!(counters.accepted, 1, "{name}");
                assert_eq!(counters.wrong_lan, u64::from(trailer.lan == Lan::B), "{name}");
                assert!(!delivers(&mut lre, B, READY, &octets), "{name}");
                recognized += 1;
            }
            Err(_) => assert_eq!(counters.untagged, 1, "{name}"),
        }
    }
    assert!(recognized > 0);
}

#[test]
fn supervision_frames_are_learnt_or_counted() {
    for case in File::read().supervision {
        let name = format!("case {} ({})", case.number, case.name);
        let header = supervision_of(mac(5), mac(5), None);
        let octets = [&header[..14], &case.octets()].concat();
        let mut lre = lre(77);
        assert!(!delivers(&mut lre, A, READY, &octets), "{name}");
        let reading = lre.read();
        let counters = reading.lans[0];
        match case.expected() {
            Ok(content) => {
                assert_eq!((counters.supervision, counters.invalid_supervision), (1, 0), "{name}");
                let node = reading.nodes.iter().find(|node| node.mac == content.node);
                let redbox = node.map(|node| node.supervision.expect(&name).redbox);
                let claimed = counters.foreign_claims == 1;
                assert_eq!(redbox, (!claimed).then_some(content.redbox), "{name}");
            }
            Err(_) => {
                assert_eq!((counters.supervision, counters.invalid_supervision), (0, 1), "{name}");
                assert!(reading.nodes.iter().all(|node| node.supervision.is_none()), "{name}");
            }
        }
    }
}
