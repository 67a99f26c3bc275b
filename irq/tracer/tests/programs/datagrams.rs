//! UDP: unread, beside ICMP, beside TCP.

use std::cell::Cell;
use std::process::Command;
use std::thread;
use std::time::Duration;

use onbeat_irq_core::charge::{Amount, Attribution, Class};

use crate::harness::{RECEIVER, World, this_process};
use crate::judge::{Judge, Phase, Service, run, wait_for_success};

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
    let work = |world: &World| {
        // No more at once than the ring of a veth has room for.
        for _ in 0..PACKETS / 100 {
            flow.send(100, 64);
            world.wait_idle();
        }
    };
    judge.measure(work, |phase| {
        phase.assert_known();
        let owner = phase.by(Attribution::Owner);
        assert_eq!(owner.packets, u64::from(PACKETS), "{phase:?}");
        let ours = phase.of(|process| process == this_process());
        assert!(ours.ns as f64 >= 0.95 * phase.all().ns as f64, "{phase:?}");
    });
}

/// The kernel answers echo requests: their time is its own.
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
    let work = |world: &World| {
        thread::scope(|scope| {
            scope.spawn(|| run(&world.sender, &ping));
            flow.pass(PACKETS, 64);
        });
    };
    judge.measure(work, |both| {
        both.assert_known();
        let reader = both.by(Attribution::Reader);
        let icmp = both.of_class(|class| matches!(class, Class::Icmp(_)));
        assert_eq!(reader.packets, u64::from(PACKETS), "{both:?}");
        assert!(icmp.packets >= u64::from(REQUESTS), "{both:?}");
        // Which of both costs more depends on the CPUs whose threads they wake.
        assert!(icmp.ns * 10 >= both.all().ns, "{both:?}");
    });
}

/// The stream is read on the other CPU. Its packets are merged ones of many segments.
#[test]
fn a_stream_beside_datagrams_is_not_theirs() {
    const PACKETS: u32 = 20_000;
    /// A wake-up of the reader takes longer than many datagrams: one per burst.
    const AT_ONCE: u32 = 32;
    let Some(mut judge) = Judge::new(&[("iperf3", "iperf3")]) else { return };
    let flow = judge.world.flow();
    flow.pass(10, 64);
    let to = RECEIVER.to_string();
    let mut command = Command::new("taskset");
    command.args(["-c", "1", "iperf3", "-s"]);
    let server = Service::start(&judge.world.receiver, &mut command);
    // A connection alone would be its first client, and the next one could be reset.
    wait_for_success(&judge.world.sender, &["iperf3", "-c", &to, "-n", "1K"]);
    // The stream may fill the ring of the veth: a datagram without room is lost.
    flow.reader.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let read = Cell::new(0);
    let work = |world: &World| {
        read.set(0);
        thread::scope(|scope| {
            let stream = ["iperf3", "-c", &to, "-t", "1", "-b", "200M"];
            scope.spawn(move || run(&world.sender, &stream));
            for _ in 0..PACKETS / AT_ONCE {
                flow.send(AT_ONCE, 64);
                let received = (0..AT_ONCE).take_while(|_| flow.reader.recv(&mut [0; 64]).is_ok());
                read.set(read.get() + received.count() as u64);
            }
        });
    };
    judge.measure(work, |both| {
        both.assert_known();
        let datagrams = both.of(|process| process == this_process());
        let stream = both.of(|process| process.pid == server.id());
        // One that is late is not read.
        assert!(datagrams.packets >= read.get(), "{both:?}");
        // On a busy machine the stream is slow at first.
        assert!(stream.packets > 10, "{both:?}");
        assert_costs_more(stream, datagrams, both);
    });
}

/// A packet of `more` took at least twice the time of one of `less`.
fn assert_costs_more(more: Amount, less: Amount, both: &Phase) {
    let [more, less] = [more, less].map(|amount| amount.ns_per_packet().unwrap());
    println!("ns per packet: {more:.0} and {less:.0}");
    assert!(more > 2.0 * less, "ns per packet: {more:.0} and {less:.0}: {both:?}");
}
