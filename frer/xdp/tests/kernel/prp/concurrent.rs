//! One source, one host and one table on two CPUs concurrently.

use std::sync::Barrier;

use super::{Entity, LANS, MS, READY, mac, number_of, parameters, tagged, untagged};
use crate::cpus::{cpus, on_each};
use crate::harness::{XDP_DROP, XDP_REDIRECT};

const NUMBERS: usize = 65_536;
/// One CPU may be this number of frames ahead of the other.
const WINDOW: usize = 8192;
const LAPS: usize = 4;

/// Runs `work(CPU, index)` for all numbers of all laps, window by window. Two windows and a half are a period: a number
/// returns within the forget time.
fn windows(
    entity: &Entity,
    work: impl Fn(usize, usize) -> usize + Sync,
) -> Option<Vec<Vec<usize>>> {
    let cpus = cpus()?;
    let done = Barrier::new(2);
    Some(on_each(&cpus[..2], |cpu| {
        let mut results = Vec::with_capacity(LAPS * NUMBERS);
        for first in (0..LAPS * NUMBERS).step_by(WINDOW) {
            results.extend((first..first + WINDOW).map(|index| work(cpu, index)));
            if done.wait().is_leader() {
                let now_ns = READY + first as u64 * 10 * MS / WINDOW as u64;
                entity.node.plane.set_test_clock(now_ns).unwrap();
            }
            done.wait();
        }
        results
    }))
}

#[test]
fn copies_on_two_cpus_pass_once() {
    if cpus().is_none() {
        return;
    }
    let entity = Entity::ready(&parameters(64));
    let frames = LANS.map(|lan| tagged(mac(5), 0, lan));
    let accepted = windows(&entity, |cpu, index| {
        let mut frame = frames[cpu].clone();
        let at = frame.len() - 6;
        frame[at..at + 2].copy_from_slice(&((index % NUMBERS) as u16).to_be_bytes());
        match entity.programs[cpu].verdict(&frame) {
            XDP_REDIRECT => 1,
            XDP_DROP => 0,
            other => panic!("verdict {other}"),
        }
    });
    let accepted = accepted.unwrap();
    let wrong: Vec<usize> = (0..LAPS * NUMBERS)
        .filter(|index| accepted[0][*index] + accepted[1][*index] != 1)
        .collect();
    assert!(wrong.is_empty(), "{} numbers passed twice or never: {wrong:?}", wrong.len());
    let lans = entity.read().lans;
    let sum =
        |count: fn(&onbeat_frer::prp::LanCounters) -> u64| lans.iter().map(count).sum::<u64>();
    assert_eq!(sum(|lan| lan.accepted), (LAPS * NUMBERS) as u64);
    assert_eq!(sum(|lan| lan.duplicates), (LAPS * NUMBERS) as u64);
    let of_cpus = accepted.iter().map(|of_cpu| of_cpu.iter().sum::<usize>()).collect::<Vec<_>>();
    eprintln!("accepted by CPU: {of_cpus:?}");
}

#[test]
fn numbers_are_drawn_once_on_two_cpus() {
    if cpus().is_none() {
        return;
    }
    let entity = Entity::ready(&parameters(64));
    let octets = untagged(mac(77));
    let drawn = windows(&entity, |_, _| {
        let run = entity.programs[2].run(&[], &octets);
        assert_eq!(run.verdict, XDP_REDIRECT);
        number_of(&run.frame).into()
    });
    let mut times = vec![0; NUMBERS];
    for number in drawn.unwrap().concat() {
        times[number] += 1;
    }
    assert!(times.iter().all(|times| *times == 2 * LAPS), "numbers were drawn twice or never");
    let reading = entity.read();
    assert_eq!((reading.next, reading.host.numbered), (0, (2 * LAPS * NUMBERS) as u64));
}

#[test]
fn a_source_that_both_cpus_add_has_one_entry() {
    let Some(cpus) = cpus() else { return };
    const SOURCES: u16 = 1000;
    let entity = Entity::ready(&parameters(1024));
    let source = |n: u16| {
        let [high, low] = n.to_be_bytes();
        onbeat_wire::MacAddress([2, 0, 0, 1, high, low])
    };
    for round in 0..2 {
        let both = Barrier::new(2);
        let accepted = on_each(&cpus[..2], |cpu| {
            let first = |n: u16| {
                // Both at the same time, or nearly so.
                both.wait();
                entity.accepts(LANS[cpu], source(n), 7 + round)
            };
            (0..SOURCES).map(first).collect::<Vec<_>>()
        });
        for (n, (a, b)) in accepted[0].iter().zip(&accepted[1]).enumerate() {
            assert!(a != b, "round {round}, source {n}");
        }
    }
    let reading = entity.read();
    assert_eq!(reading.lans.map(|lan| lan.without_entry), [0, 0]);
    assert_eq!(reading.nodes.len(), usize::from(SOURCES));
    assert!(reading.nodes.iter().all(|node| node.lans.map(|lan| lan.tagged) == [2, 2]));
}
