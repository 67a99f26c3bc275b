//! Tables that outlive the daemon, and changes of the parameters.

use onbeat_frer::prp::Parameters;
use onbeat_frer_xdp::{Error, PinDirectory, Plane};

use super::{
    Entity, LANS, MS, READY, delivers, mac, number_of, parameters, supervision_of, tagged,
    untagged, with_trailer,
};
use crate::harness::{XDP_DROP, XDP_PASS, can_run};
use crate::restart::with_private_bpffs;

const CAPACITY: u16 = 8;

#[test]
fn a_restart_keeps_numbers_and_nodes() {
    with_private_bpffs(|directory| {
        let parameters = parameters(CAPACITY);
        let mut entity = Entity::open(&parameters, Some(directory));
        entity.at(READY);
        for number in 0..100 {
            assert_eq!(entity.draws(), number);
            for station in 0..3 {
                assert!(entity.accepts(LANS[0], mac(station), number));
            }
        }
        let before = entity.read();
        let mut number = 100;
        for _ in 0..3 {
            // The programs stay where they are without the daemon, also until it has set the entity again.
            let Entity { node, programs, now_ns } = entity;
            drop(node);
            let numbered = programs[2].run(&[], &untagged(mac(77))).frame;
            assert_eq!(number_of(&numbered), number);
            assert!(!delivers(&programs[1], &tagged(mac(0), number - 1, LANS[1])));
            assert!(delivers(&programs[1], &tagged(mac(0), number, LANS[1])));

            entity = Entity::adopt(Some(directory), now_ns);
            assert_eq!(entity.draws(), number + 1);
            assert!(!entity.accepts(LANS[0], mac(0), number));
            assert!(entity.accepts(LANS[0], mac(0), number + 1));
            assert!(entity.accepts(LANS[0], mac(1), number + 1));

            entity.set(Some(&parameters));
            assert_eq!(entity.draws(), number + 2);
            assert!(!entity.accepts(LANS[1], mac(0), number + 1));
            assert!(!entity.accepts(LANS[1], mac(1), number + 1));
            assert!(entity.accepts(LANS[0], mac(0), number + 2));
            number += 3;
        }
        let after = entity.read();
        assert_eq!(after.next, number);
        assert_eq!(after.nodes.len(), 3);
        for (before, after) in before.nodes.iter().zip(&after.nodes) {
            assert_eq!((before.mac, before.kind), (after.mac, after.kind));
            assert!(before.lans[0].tagged <= after.lans[0].tagged);
        }
        assert_eq!(after.host.numbered, u64::from(number));

        // The entries of three sources are in use, and each other one is free once.
        for station in 100..100 + CAPACITY as u8 {
            let is_known = u16::from(station - 100) < CAPACITY - 3;
            assert!(entity.accepts(LANS[0], mac(station), 7));
            assert_eq!(entity.accepts(LANS[1], mac(station), 7), !is_known, "{station}");
        }
        let check = |nodes| Plane::check(PinDirectory::open(directory).unwrap().unwrap(), 1, nodes);
        check(CAPACITY.into()).unwrap();
        let error = check(u32::from(CAPACITY) + 1).unwrap_err();
        assert!(matches!(error, Error::NodesTable { wanted: 9, capacity: 8 }), "{error}");
    });
}

/// The queue of supervision frames has room for 256.
#[test]
fn counters_of_supervision_frames_survive_a_restart() {
    with_private_bpffs(|directory| {
        let parameters = parameters(CAPACITY);
        let mut entity = Entity::open(&parameters, Some(directory));
        entity.at(READY);
        let valid = supervision_of(mac(5), mac(5), None);
        let foreign = supervision_of(mac(5), parameters.mac, None);
        let without_end = [&valid[..valid.len() - 2], &[0x55; 40]].concat();
        let send = |entity: &Entity, lan, octets: &[u8], number| {
            let mut octets = octets.to_vec();
            octets.resize(octets.len().max(60), 0);
            assert!(!entity.delivers(lan, &with_trailer(&octets, number, lan)));
        };
        const WAITING: u16 = 256;
        let mut number = 0;
        for (lan, more) in LANS.into_iter().zip([0, 44]) {
            for octets in [&without_end, &without_end, &foreign] {
                send(&entity, lan, octets, number);
                number += 1;
            }
            for _ in 3..WAITING + more {
                send(&entity, lan, &valid, number);
                number += 1;
            }
            entity.read();
        }
        let before = entity.read().lans;
        for (lan, unread) in before.iter().zip([0, 44]) {
            let counts = (lan.supervision, lan.invalid_supervision, lan.unread_supervision);
            assert_eq!((counts, lan.foreign_claims), ((254, 2, unread), 1), "{lan:?}");
            assert_eq!(lan.received, 256 + unread, "{lan:?}");
        }
        let now_ns = entity.now_ns;
        drop(entity);
        entity = Entity::adopt(Some(directory), now_ns);
        entity.set(Some(&parameters));
        assert_eq!(entity.read().lans, before);
    });
}

/// Two sources of one node have its numbers without the daemon and in the next process.
#[test]
fn a_restart_keeps_aliases() {
    with_private_bpffs(|directory| {
        let parameters = parameters(CAPACITY);
        let sources = [mac(10), mac(11)];
        let mut entity = Entity::open(&parameters, Some(directory));
        entity.at(READY);
        for round in 0..3 {
            entity.at(entity.now_ns + 2000 * MS);
            for (lan, source) in LANS.into_iter().zip(sources) {
                let mut octets = supervision_of(source, sources[0], None);
                octets.resize(60, 0);
                assert!(!entity.delivers(lan, &with_trailer(&octets, round, lan)));
            }
            entity.read();
        }
        let mut number = 100;
        for _ in 0..3 {
            for _ in 0..10 {
                number += 1;
                assert!(entity.accepts(LANS[0], sources[0], number));
                assert!(!entity.accepts(LANS[1], sources[1], number));
            }
            let nodes = entity.read().nodes;
            assert_eq!(nodes.iter().map(|node| node.mac).collect::<Vec<_>>(), [sources[0]]);
            let now_ns = entity.now_ns;
            drop(entity);
            entity = Entity::adopt(Some(directory), now_ns);
            number += 1;
            assert!(entity.accepts(LANS[1], sources[1], number));
            assert!(!entity.accepts(LANS[0], sources[0], number));
            entity.set(Some(&parameters));
        }
        // A contradiction is noted without the daemon, too.
        drop(entity);
        entity = Entity::adopt(Some(directory), READY + 6000 * MS);
        assert!(entity.accepts(LANS[0], sources[1], 500));
        assert!(entity.accepts(LANS[0], sources[0], 501));
        assert!(entity.accepts(LANS[1], sources[1], 501));
        entity.set(Some(&parameters));
        entity.read();
        for number in 502..510 {
            for source in sources {
                assert!(entity.accepts(LANS[0], source, number), "{source} {number}");
                assert!(!entity.accepts(LANS[1], source, number), "{source} {number}");
            }
        }
    });
}

#[test]
fn a_removed_entity_passes_frames_and_starts_with_a_silence() {
    with_private_bpffs(|directory| {
        let parameters = parameters(CAPACITY);
        let mut entity = Entity::open(&parameters, Some(directory));
        let host = untagged(mac(77));
        assert_eq!(entity.programs[2].verdict(&host), XDP_DROP);
        entity.at(READY);
        assert_eq!(entity.draws(), 0);
        assert!(entity.accepts(LANS[0], mac(5), 7));
        for restart in [false, true] {
            let former = entity.programs;
            let Entity { mut node, now_ns, .. } = Entity { programs: former, ..entity };
            node.plane.set_lre(&node.names, None).unwrap();
            assert!(node.plane.read_lre().unwrap().is_none());
            assert_eq!(node.plane.supervise().unwrap(), None);
            let programs = [0, 1, 2].map(|port| node.ingress(port));
            for program in &programs {
                assert_eq!(program.verdict(&tagged(mac(5), 7, LANS[0])), XDP_PASS);
                assert_eq!(program.verdict(&host), XDP_PASS);
            }
            entity = Entity { node, programs, now_ns };
            if restart {
                let now_ns = entity.now_ns;
                drop(entity);
                entity = Entity::adopt(Some(directory), now_ns);
                assert_eq!(entity.programs[2].verdict(&host), XDP_PASS);
            }
            entity.set(Some(&parameters));
            assert_eq!(entity.programs[2].verdict(&host), XDP_DROP);
            entity.at(entity.now_ns + parameters.reboot_silence_ns());
            entity.draws();
            assert!(entity.accepts(LANS[0], mac(5), 8));
            assert!(!entity.accepts(LANS[1], mac(5), 8));
        }
        assert_eq!(entity.read().nodes.len(), 1);
    });
}

#[test]
fn another_forget_time_forgets_numbers() {
    if !can_run() {
        return;
    }
    let parameters = parameters(CAPACITY);
    let mut entity = Entity::ready(&parameters);
    for number in 0..100 {
        assert!(entity.accepts(LANS[0], mac(5), number));
    }
    // The same parameters change nothing.
    entity.set(Some(&parameters));
    assert!(!entity.accepts(LANS[0], mac(5), 99));
    for (index, entry_forget_ms) in [200, 2000, 10, 400].into_iter().enumerate() {
        entity.set(Some(&Parameters { entry_forget_ms, ..parameters.clone() }));
        for number in 0..100 {
            assert!(entity.accepts(LANS[0], mac(5), number), "{entry_forget_ms} {number}");
            assert!(!entity.accepts(LANS[1], mac(5), number), "{entry_forget_ms} {number}");
        }
        // No silence: the entity has been there before.
        assert_eq!(usize::from(entity.draws()), index);
        // Forgotten after this time, and not before half of it.
        assert!(!entity.accepts(LANS[1], mac(5), 99));
        entity.at(entity.now_ns + u64::from(entry_forget_ms) * MS);
        assert!(entity.accepts(LANS[1], mac(5), 99), "{entry_forget_ms}");
    }
}

#[test]
fn a_table_does_not_grow() {
    if !can_run() {
        return;
    }
    let mut entity = Entity::ready(&parameters(CAPACITY));
    let names = entity.node.names.clone();
    let mut set = |max_nodes| entity.node.plane.set_lre(&names, Some(&parameters(max_nodes)));
    let error = set(CAPACITY + 1).expect_err("a larger table");
    assert!(matches!(error, Error::NodesTable { wanted: 9, capacity: 8 }), "{error}");
    set(CAPACITY - 1).unwrap();
    assert!(entity.accepts(LANS[0], mac(5), 1));
}
