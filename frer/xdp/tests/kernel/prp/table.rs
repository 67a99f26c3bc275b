//! A full NodesTable: frames pass, twice rather than never.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use onbeat_testing::prp::supervision_of;
use onbeat_wire::MacAddress;
use onbeat_wire::random::Random;

use super::{Entity, LANS, MS, parameters, tagged, untagged};
use crate::harness::can_run;

const BOUND: Duration = Duration::from_secs(10);

/// Of this table, an eighth is kept free for new sources by maintenance.
const CAPACITY: u16 = 16;
const FORGET: u64 = 400 * MS;

fn source(n: u32) -> MacAddress {
    let [_, a, b, c] = n.to_be_bytes();
    MacAddress([2, 0, 1, a, b, c])
}

/// Both copies of a frame; returns how many the host receives.
fn copies(entity: &Entity, source: MacAddress, number: u16) -> usize {
    LANS.into_iter().filter(|lan| entity.accepts(*lan, source, number)).count()
}

/// Maintains the table until a source has an entry: programs may still use those of removed ones.
fn wait_entry(entity: &Entity, source: MacAddress) {
    let end = Instant::now() + BOUND;
    for number in 50_000.. {
        entity.read();
        match copies(entity, source, number) {
            1 => return,
            2 => assert!(Instant::now() < end, "{source} has no entry"),
            _ => panic!("a frame is lost"),
        }
        thread::yield_now();
    }
}

#[test]
fn more_sources_than_entries_pass() {
    if !can_run() {
        return;
    }
    let entity = Entity::ready(&parameters(CAPACITY));
    for number in 0..50 {
        for n in 0..u32::from(2 * CAPACITY) {
            let times = copies(&entity, source(n), number);
            let expected = if n < CAPACITY.into() { 1 } else { 2 };
            assert_eq!(times, expected, "source {n}, number {number}");
        }
        if number % 10 == 0 {
            // They are in use: maintenance removes none.
            let reading = entity.read();
            assert_eq!((reading.evicted, reading.nodes.len()), (0, CAPACITY.into()));
        }
    }
    let without_entry = entity.read().lans.map(|lan| lan.without_entry);
    assert_eq!(without_entry, [50 * u64::from(CAPACITY); 2]);
}

#[test]
fn sources_in_use_stay_among_5000_others() {
    if !can_run() {
        return;
    }
    for with_trailer in [true, false] {
        let mut entity = Entity::ready(&parameters(CAPACITY));
        let used = |n: u32| source(0x1_0000 + n);
        let mut random = Random::new(0x6243_9003);
        for round in 0..1000_u16 {
            entity.at(entity.now_ns + 5 * MS);
            for n in 0..4 {
                assert_eq!(copies(&entity, used(n), round), 1, "{round}");
            }
            for _ in 0..50 {
                let flooding = source(random.below(5000) as u32);
                if with_trailer {
                    assert_ne!(copies(&entity, flooding, random.number() as u16), 0, "{round}");
                } else {
                    assert!(entity.delivers(LANS[0], &untagged(flooding)), "{round}");
                }
            }
            if round % 20 == 0 {
                entity.read();
            }
        }
        let reading = entity.read();
        for n in 0..4 {
            let node = reading.nodes.iter().find(|node| node.mac == used(n)).expect("an entry");
            assert_eq!(node.lans.map(|lan| lan.tagged), [1000, 1000], "{with_trailer}");
        }
        eprintln!(
            "trailers {with_trailer}: {} nodes, {} evicted",
            reading.nodes.len(),
            reading.evicted
        );
    }
}

/// Nodes without numbers are in other tables: single stations, and nodes that only supervision frames name.
#[test]
fn no_more_nodes_are_listed_than_entries() {
    if !can_run() {
        return;
    }
    let entity = Entity::ready(&parameters(CAPACITY));
    let used = |n: u32| source(0x1_0000 + n);
    for round in 0..10_u32 {
        for n in 0..4 {
            assert_eq!(copies(&entity, used(n), round as u16), 1, "{round}");
        }
        for n in 0..3 * u32::from(CAPACITY) {
            assert!(entity.delivers(LANS[0], &untagged(source(round * 1000 + n))), "{round}");
            let forged = supervision_of(used(0), source(0x2_0000 + round * 1000 + n), None);
            assert!(!entity.delivers(LANS[0], &forged), "{round}");
        }
        let nodes = entity.read().nodes;
        assert!(nodes.len() <= CAPACITY.into(), "{round}: {} nodes", nodes.len());
        let is_listed = |n| nodes.iter().any(|node| node.mac == used(n));
        assert!((0..4).all(is_listed), "{round}");
    }
}

/// The next owner of an entry sends the numbers of the former one.
#[test]
fn entries_out_of_use_are_reused_without_their_numbers() {
    if !can_run() {
        return;
    }
    let mut entity = Entity::ready(&parameters(CAPACITY));
    for generation in 0..20 {
        let sources = (0..u32::from(CAPACITY) - 4).map(|n| source(generation * 1000 + n));
        // An eighth of the entries becomes free at a time.
        for (index, source) in (0..).zip(sources) {
            wait_entry(&entity, source);
            for number in 0..100 {
                assert_eq!(copies(&entity, source, number), 1, "{generation} {number}");
            }
            if generation > 0 {
                // The former owner, with numbers of the next one, and others.
                let former = self::source((generation - 1) * 1000);
                for number in 7 * index..7 * (index + 1) {
                    assert_ne!(copies(&entity, former, number), 0, "{generation}");
                }
            }
        }
        entity.at(entity.now_ns + FORGET);
    }
}

/// Whatever sources, numbers and times are: each frame passes, in 20,000 of them.
#[test]
fn no_frame_of_any_source_is_lost() {
    if !can_run() {
        return;
    }
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut entity = Entity::ready(&parameters(CAPACITY));
        let mut last: HashMap<u32, u16> = HashMap::new();
        let mut twice = 0;
        for frame in 0..20_000 {
            if random.one_in(10) {
                entity.at(entity.now_ns + random.below(FORGET / 4));
            }
            let n = if random.one_in(2) { random.below(8) } else { random.below(100) } as u32;
            let number = last.entry(n).or_insert(random.number() as u16);
            *number = number.wrapping_add(1 + random.below(3) as u16);
            let number = *number;
            let mut lans = LANS;
            if random.one_in(2) {
                lans.reverse();
            }
            let first = entity.delivers(lans[0], &tagged(source(n), number, lans[0]));
            if random.one_in(50) {
                entity.read();
            }
            let second = entity.delivers(lans[1], &tagged(source(n), number, lans[1]));
            assert!(first || second, "seed {seed}, frame {frame}: source {n}, number {number}");
            twice += u32::from(first && second);
        }
        eprintln!("seed {seed}: {twice} frames passed twice; {} evicted", entity.read().evicted);
    }
}
