//! UDP: unread, beside ICMP, beside TCP.

use std::cell::Cell;
use std::process::Command;
use std::thread;
use std::time::Duration;

use onbeat_irq_core::charge::{Attribution, Class};

use crate::harness::{RECEIVER, this_process};
use crate::judge::{Judge, Service, run, wait_for_server};

const CYCLICTEST: (&str, &str) = ("cyclictest", "rt-tests");

/// Programs that wake often run on the same CPUs, in another namespace.
#[test]
fn a_socket_that_is_never_read_belongs_to_its_owner() {
    const PACKETS: u32 = 20_000;
    let Some(mut judge) = Judge::new(&[CYCLICTEST]) else { return };
    let flow = judge.world.flow();
    let mut command = Command::new("cyclictest");
    command.args(["-q", "-p", "80", "-i", "200", "-t", "-a", "-D", "60"]);
    let _task = Service::start(&judge.world.sender, &mut command);
    let phase = judge.measure(|world| {
        // No more at once than the ring of a veth has room for.
        for _ in 0..PACKETS / 100 {
            flow.send(100, 64);
            world.wait_idle();
        }
    });
    phase.assert_known();
    let owner = phase.by(Attribution::Owner);
    assert_eq!(owner.packets, u64::from(PACKETS), "{phase:?}");
    let ours = phase.of(|process| process == this_process());
    assert!(ours.ns as f64 >= 0.95 * phase.all().ns as f64, "{phase:?}");
}

/// The truth is the cost of the datagrams alone, by the run time of the NAPI thread.
#[test]
fn echo_requests_between_datagrams_are_not_the_readers() {
    const PACKETS: u32 = 4_000;
    const REQUESTS: u32 = 2_000;
    let Some(mut judge) = Judge::new(&[("ping", "iputils-ping")]) else { return };
    let flow = judge.world.flow();
    let to = RECEIVER.to_string();
    let count = REQUESTS.to_string();
    let ping = ["ping", "-q", "-f", "-i", "0.0001", "-c", &count, &to];
    flow.pass(10, 64);
    let (reads, asks) = (|| flow.pass(PACKETS, 64), &ping);
    let alone = judge.measure(|_| reads());
    let echoes = judge.measure(|world| drop(run(&world.sender, asks)));
    let both = judge.measure(|world| {
        thread::scope(|scope| {
            scope.spawn(|| run(&world.sender, asks));
            reads();
        });
    });
    let is_icmp = |class| matches!(class, Class::Icmp(_));
    assert!(echoes.of_class(is_icmp).packets >= u64::from(REQUESTS), "{echoes:?}");
    both.assert_known();
    assert_eq!(both.by(Attribution::Reader).packets, u64::from(PACKETS), "{both:?}");
    assert!(both.of_class(is_icmp).packets >= u64::from(REQUESTS), "{both:?}");
    // The same datagrams, by the thread's run time for these alone.
    let share = both.by(Attribution::Reader).ns as f64 / alone.ran_ns as f64;
    println!("charged to the reader, of the run time of its packets alone: {share:.2}");
    assert!((0.5..1.6).contains(&share), "{share:.2}: {both:?}");
}

/// The stream is read on the other CPU.
#[test]
fn datagrams_cost_the_same_beside_a_stream() {
    const PACKETS: u32 = 20_000;
    let Some(mut judge) = Judge::new(&[("iperf3", "iperf3")]) else { return };
    let flow = judge.world.flow();
    flow.pass(10, 64);
    let to = RECEIVER.to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", "1", "iperf3", "-s"]);
    let server = Service::start(&judge.world.receiver, &mut command);
    wait_for_server(&judge.world.sender, (RECEIVER, 5201).into());
    let alone = judge.measure(|_| flow.pass(PACKETS, 64));
    let read = Cell::new(0);
    let both = judge.measure(|world| {
        read.set(0);
        thread::scope(|scope| {
            let stream = ["iperf3", "-c", &to, "-t", "1", "-b", "200M"];
            scope.spawn(move || run(&world.sender, &stream));
            // The stream may fill the ring of the veth: a datagram without room is lost.
            flow.reader.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            for _ in 0..PACKETS {
                flow.send(1, 64);
                if flow.reader.recv(&mut [0; 64]).is_ok() {
                    read.set(read.get() + 1);
                }
            }
        });
    });
    both.assert_known();
    let ours = |phase: &crate::judge::Phase| phase.of(|process| process == this_process());
    let stream = both.of(|process| process.pid == server.id());
    // One that is late is not read.
    assert!(ours(&both).packets >= read.get(), "{both:?}");
    assert!(stream.packets > 100, "{both:?}");
    let per_packet = [&alone, &both].map(|phase| ours(phase).ns_per_packet().unwrap());
    println!("ns per datagram: alone {:.0}, beside a stream {:.0}", per_packet[0], per_packet[1]);
    assert!(per_packet[1] < 2.0 * per_packet[0] + 500.0, "{per_packet:?}: {both:?}");
}
