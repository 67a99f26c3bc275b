//! One stream on several CPUs concurrently: each number is drawn once and passes once.

use std::sync::Barrier;
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_frer::spec::{Recovery, SequenceTag, Stream};
use onbeat_testing::require_that;

use crate::harness::{Node, XDP_DROP, XDP_REDIRECT, can_run, frame, member, stream, talker};

/// Consecutive equal frames: more than a time slice of the scheduler on a busy machine, so that CPUs run
/// concurrently.
const STORM: u32 = 1_000_000;
const STORMS: u16 = 5;

const VID: u16 = 10;
const NUMBERS: usize = 65_536;

/// Returns the CPUs available to this test; at least two, otherwise the test is skipped.
pub(crate) fn cpus() -> Option<Vec<usize>> {
    if !can_run() {
        return None;
    }
    let set = sched_getaffinity(Pid::from_raw(0)).expect("affinity of this thread");
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap()).collect();
    require_that(cpus.len() >= 2, "two CPUs").then_some(cpus)
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("an allowed CPU");
    sched_setaffinity(Pid::from_raw(0), &set).expect("an allowed CPU");
}

/// Runs `work(index, cpu)` on a thread of each CPU; returns the results in the order of CPUs.
pub(crate) fn on_each<T: Send>(cpus: &[usize], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(cpus.len());
    thread::scope(|scope| {
        let run = |index: usize, cpu: usize| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                pin(cpu);
                start.wait();
                work(index)
            })
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(|(i, cpu)| run(i, *cpu)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread of the test")).collect()
    })
}

#[test]
fn each_number_is_drawn_once_on_several_cpus() {
    let Some(cpus) = cpus() else { return };
    const LAPS: usize = 4;
    let mut node = Node::new(cpus.len(), 4);
    let members = (0..cpus.len() as u8).map(|port| member(port, VID, None)).collect();
    node.apply(&[talker("talker", members)]);
    let (share, rest) = (NUMBERS / cpus.len(), NUMBERS % cpus.len());
    let lap_done = Barrier::new(cpus.len());
    // The numbers per CPU and lap; the first CPU draws the remainder of the division.
    let drawn = on_each(&cpus, |index| {
        let ingress = node.ingress(index);
        let draw = || {
            let run = ingress.run(&[], &frame(VID, None));
            assert_eq!(run.verdict, XDP_REDIRECT);
            u16::from_be_bytes([run.frame[20], run.frame[21]])
        };
        let lap = || {
            let numbers = (0..share + if index == 0 { rest } else { 0 }).map(|_| draw()).collect();
            lap_done.wait();
            numbers
        };
        (0..LAPS).map(|_| lap()).collect::<Vec<Vec<u16>>>()
    });
    for lap in 0..LAPS {
        let mut times = vec![0; NUMBERS];
        for number in drawn.iter().flat_map(|laps| &laps[lap]) {
            times[usize::from(*number)] += 1;
        }
        let wrong = times.iter().filter(|times| **times != 1).count();
        assert_eq!(wrong, 0, "numbers drawn twice or not at all in lap {lap}");
    }
    assert_eq!(node.read("talker").generation.unwrap().next, 0);
    assert_eq!(node.read("talker").output, (LAPS * NUMBERS) as u64);
}

#[test]
fn each_number_passes_once_on_several_cpus() {
    let Some(cpus) = cpus() else { return };
    const LAPS: usize = 3;
    // Two windows fit into the history: one CPU may be a whole window ahead of another.
    const WINDOW: usize = 256;
    let recovery = Recovery::vector(1024);
    let mut node = Node::new(cpus.len(), 8);
    let members = (0..cpus.len() as u8).map(|port| member(port, VID, None)).collect();
    node.apply(&[stream("listener", members, Some(recovery))]);
    let window_done = Barrier::new(cpus.len());
    let passed = on_each(&cpus, |index| {
        let ingress = node.ingress(index);
        let mut passed = vec![0u8; LAPS * NUMBERS];
        for first in (0..passed.len()).step_by(WINDOW) {
            for (number, passed) in (first..).zip(&mut passed[first..first + WINDOW]) {
                match ingress.verdict(&frame(VID, Some((number % NUMBERS) as u16))) {
                    XDP_REDIRECT => *passed = 1,
                    XDP_DROP => {}
                    other => panic!("verdict {other}"),
                }
            }
            window_done.wait();
        }
        passed
    });
    let wrong: Vec<usize> = (0..LAPS * NUMBERS)
        .filter(|number| passed.iter().map(|by| by[*number]).sum::<u8>() != 1)
        .collect();
    assert!(wrong.is_empty(), "{} numbers passed twice or never: {wrong:?}", wrong.len());
    let by_cpu: Vec<usize> =
        passed.iter().map(|by| by.iter().filter(|passed| **passed == 1).count()).collect();
    eprintln!("passed by CPU: {by_cpu:?}");

    let counters = node.read("listener").recovery.unwrap().counters;
    let sent = (cpus.len() * LAPS * NUMBERS) as u64;
    assert_eq!(counters.passed, (LAPS * NUMBERS) as u64);
    assert_eq!(counters.discarded, sent - counters.passed);
    // All except those in the history before the first packet.
    assert_eq!((counters.rogue, counters.lost), (0, counters.lost_before_first));
    let input: u64 = node.read("listener").members.iter().map(|member| member.input).sum();
    assert_eq!(input, sent);
}

/// Without an atomic addition some numbers are drawn twice and counted once.
#[test]
fn a_storm_draws_one_number_per_frame() {
    let Some(cpus) = cpus() else { return };
    let mut node = Node::new(cpus.len(), 4);
    let members = (0..cpus.len() as u8).map(|port| member(port, VID, None)).collect();
    let mut stream = talker("talker", members);
    // Frames leave unmodified, so that each of a series can be numbered.
    stream.egress[0].tag = SequenceTag::Remove;
    node.apply(&[stream]);
    for round in 1..=STORMS {
        on_each(&cpus, |index| node.ingress(index).verdict_on(&frame(VID, None), STORM));
        let sent = u64::from(round) * cpus.len() as u64 * u64::from(STORM);
        let reading = node.read("talker");
        assert_eq!(reading.generation.unwrap().next, sent as u16, "storm {round}");
        assert_eq!(reading.output, sent, "storm {round}");
    }
}

/// Without the lock a number sometimes passes twice, and many discarded packets are not counted.
#[test]
fn a_number_of_a_storm_passes_once_and_all_frames_count() {
    let Some(cpus) = cpus() else { return };
    let recovery = Recovery::vector(64);
    let mut node = Node::new(cpus.len(), 8);
    let members = (0..cpus.len() as u8).map(|port| member(port, VID, None)).collect();
    node.apply(&[stream("listener", members, Some(recovery))]);
    for number in 0..STORMS {
        on_each(&cpus, |index| node.ingress(index).verdict_on(&frame(VID, Some(number)), STORM));
        let passed = u64::from(number) + 1;
        let sent = passed * cpus.len() as u64 * u64::from(STORM);
        let reading = node.read("listener");
        let counters = reading.recovery.unwrap().counters;
        assert_eq!((counters.passed, counters.discarded), (passed, sent - passed), "{number}");
        assert_eq!(reading.output, passed);
    }
}

/// As with RSS, which assigns the frames of a stream to one CPU.
#[test]
fn streams_of_one_cpu_each_keep_their_order() {
    let Some(cpus) = cpus() else { return };
    const PACKETS: usize = 20_000;
    let mut node = Node::new(cpus.len(), 16);
    let vid = |index: usize| VID + index as u16;
    let name = |index: usize| format!("listener-{index}");
    let streams: Vec<Stream> = (0..cpus.len())
        .map(|index| {
            let members = vec![member(index as u8, vid(index), None)];
            stream(&name(index), members, Some(Recovery::vector(64)))
        })
        .collect();
    node.apply(&streams);
    on_each(&cpus, |index| {
        let ingress = node.ingress(index);
        for number in 0..PACKETS {
            assert_eq!(ingress.verdict(&frame(vid(index), Some(number as u16))), XDP_REDIRECT);
        }
    });
    for index in 0..cpus.len() {
        let counters = node.read(&name(index)).recovery.unwrap().counters;
        assert_eq!((counters.passed, counters.out_of_order), (PACKETS as u64, 0), "CPU {index}");
    }
}

/// As with RPS or a NIC that distributes the frames of a stream: a later number may be the first to be processed.
#[test]
fn a_stream_that_two_cpus_process_out_of_order_is_counted() {
    let Some(cpus) = cpus() else { return };
    const PAIRS: u16 = 1_000;
    let cpus = &cpus[..2];
    let mut node = Node::new(cpus.len(), 8);
    let members = (0..cpus.len() as u8).map(|port| member(port, VID, None)).collect();
    node.apply(&[stream("listener", members, Some(Recovery::vector(64)))]);
    let (odd_done, even_done) = (Barrier::new(2), Barrier::new(2));
    on_each(cpus, |index| {
        let ingress = node.ingress(index);
        for pair in 0..PAIRS {
            if index == 0 {
                odd_done.wait();
            }
            let number = 2 * pair + index as u16;
            assert_eq!(ingress.verdict(&frame(VID, Some(number))), XDP_REDIRECT, "{number}");
            if index == 1 {
                odd_done.wait();
            }
            even_done.wait();
        }
    });
    let counters = node.read("listener").recovery.unwrap().counters;
    assert_eq!(counters.passed, u64::from(2 * PAIRS));
    // All but the first packet.
    assert_eq!(counters.out_of_order, u64::from(2 * PAIRS) - 1);
}
