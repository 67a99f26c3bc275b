//! Tests of the division of a poll's time.

use super::*;
use crate::charge::{Amount, Attribution, Process, Verdict};

const ETH0: Device = Device { netns: 1, index: 2 };

fn process(pid: u32) -> Cause {
    Cause::Process {
        process: Process { pid, start_ticks: 0 },
        device: ETH0,
        by: Attribution::Reader,
    }
}

fn polled(work: u32, xdp: bool) -> PollReport {
    PollReport { work, xdp, full: false, queue: None }
}

fn amount(accounts: &Accounts, cause: Cause) -> (u64, u64) {
    let Amount { ns, packets } = accounts.caused.get(&cause).copied().unwrap_or_default();
    (ns, packets)
}

#[test]
fn common_time_is_divided_by_number_of_packets() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.arrive(1);
    poll.arrive(1);
    poll.deliver(process(1), 1, 150, &mut accounts);
    poll.deliver(process(2), 1, 7, &mut accounts);
    poll.deliver(process(1), 1, 5, &mut accounts);
    assert_eq!((accounts.owned_ns(), poll.pending_ns()), (0, 162));
    poll.end(ETH0, polled(3, false), 3, &mut accounts);
    poll.finish(0, &mut accounts);
    // 153 in common: 102 and 51.
    assert_eq!(amount(&accounts, process(1)), (107, 2));
    assert_eq!(amount(&accounts, process(2)), (58, 1));
    assert_eq!(poll.pending_ns(), 0);
}

#[test]
fn a_queue_has_the_time_of_its_polls() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    let queue = |napi| ReceiveQueue { device: ETH0, napi };
    let end = |napi| PollReport { queue: Some(napi), ..polled(1, false) };
    poll.deliver(process(1), 1, 10, &mut accounts);
    poll.tap(process(3), 2, &mut accounts);
    poll.end(ETH0, end(7), 5, &mut accounts);
    // Time after a poll belongs to it, until the next one delivers or ends.
    poll.end(ETH0, end(8), 3, &mut accounts);
    poll.finish(4, &mut accounts);
    assert_eq!(accounts.queues[&queue(7)], Amount { ns: 17, packets: 1 });
    assert_eq!(accounts.queues[&queue(8)], Amount { ns: 7, packets: 1 });
    // More causes than a poll distinguishes: all of its time is the queue's.
    let mut accounts = Accounts::default();
    for pid in 0..40 {
        poll.deliver(process(pid), 1, 10, &mut accounts);
    }
    poll.end(ETH0, end(7), 5, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!(accounts.queues, [(queue(7), Amount { ns: 405, packets: 40 })].into());
}

#[test]
fn packets_without_a_device_belong_to_the_polled_one() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    let Cause::Process { process: who, .. } = process(1) else { unreachable!() };
    let nowhere =
        Cause::Process { process: who, device: Device::default(), by: Attribution::Reader };
    poll.deliver(nowhere, 1, 10, &mut accounts);
    poll.end(ETH0, polled(1, true), 5, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (15, 1));
}

#[test]
fn time_after_a_poll_is_divided_among_its_packets() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.deliver(process(1), 1, 10, &mut accounts);
    poll.end(ETH0, polled(1, false), 5, &mut accounts);
    poll.finish(4, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (19, 1));
}

#[test]
fn time_after_a_poll_is_divided_among_settled_packets() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.deliver(process(1), 1, 10, &mut accounts);
    poll.end(ETH0, polled(1, false), 5, &mut accounts);
    poll.settle(&mut accounts);
    assert_eq!((amount(&accounts, process(1)), poll.pending_ns()), ((15, 1), 0));
    poll.finish(4, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (19, 1));
}

#[test]
fn polls_without_packets_have_classes() {
    for (work, xdp, class) in [
        (0, false, Class::EmptyPoll(ETH0)),
        (0, true, Class::EmptyPoll(ETH0)),
        (3, true, Class::Xdp(ETH0)),
        (3, false, Class::Unattributed(ETH0)),
    ] {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        // Deliveries of the previous poll do not count for this one.
        poll.deliver(process(1), 1, 1, &mut accounts);
        poll.end(ETH0, polled(1, xdp), 1, &mut accounts);
        poll.end(ETH0, polled(work, xdp), 10, &mut accounts);
        poll.finish(2, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (2, 1));
        assert_eq!(amount(&accounts, Cause::Unowned(class)), (12, work.into()), "{class:?}");
    }
}

#[test]
fn packets_taken_by_a_program_are_counted_beside_passed_ones() {
    let verdict = |device| Cause::Unowned(Class::XdpVerdict { device, verdict: Verdict::Drop });
    let (dropped_at, xdp) = (verdict(ETH0), Cause::Unowned(Class::Xdp(ETH0)));
    // Of the driver's packets, with one that arrived: the observed drops, and the rest.
    for (work, full, dropped, rest) in [
        (4, false, 0_u32, 3_u32),
        (4, false, 2, 1),
        (4, false, 3, 0),
        // Packets of a full poll that GRO keeps cannot be distinguished from those that the program took.
        (4, true, 0, 0),
        (4, true, 2, 0),
        // The stack received more than the driver took.
        (1, false, 1, 0),
    ] {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        // Before its device is known.
        for _ in 0..dropped {
            poll.announce(1);
            poll.count(verdict(Device::default()), 1, &mut accounts);
        }
        poll.arrive(1);
        poll.count(process(1), 1, &mut accounts);
        poll.end(ETH0, PollReport { work, xdp: true, full, queue: None }, 120, &mut accounts);
        poll.finish(0, &mut accounts);
        let (dropped, rest) = (u64::from(dropped), u64::from(rest));
        let each = 120 / (dropped + rest + 1);
        assert_eq!(amount(&accounts, process(1)), (each, 1), "{work}, {dropped}");
        assert_eq!(amount(&accounts, dropped_at), (each * dropped, dropped), "{work}, {dropped}");
        assert_eq!(amount(&accounts, xdp), (each * rest, rest), "{work}, {dropped}");
    }
    // A program that passes no packet; and one that redirects packets to a socket, which gets them at once.
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.end(ETH0, polled(5, true), 10, &mut accounts);
    poll.announce(6);
    poll.deliver(process(1), 6, 4, &mut accounts);
    poll.end(ETH0, polled(8, true), 20, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!((amount(&accounts, xdp), amount(&accounts, process(1))), ((16, 7), (18, 6)));
}

#[test]
fn polls_that_only_free_buffers_are_transmit_completions() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.free();
    poll.free();
    poll.end(ETH0, polled(0, false), 10, &mut accounts);
    // A poll with packets frees buffers as well, and the next one frees none.
    poll.free();
    poll.deliver(process(1), 1, 1, &mut accounts);
    poll.end(ETH0, polled(1, false), 4, &mut accounts);
    poll.end(ETH0, polled(0, false), 3, &mut accounts);
    poll.finish(0, &mut accounts);
    let unowned = |class| amount(&accounts, Cause::Unowned(class));
    assert_eq!(unowned(Class::TxCompletion(ETH0)), (10, 2));
    assert_eq!(amount(&accounts, process(1)), (5, 1));
    assert_eq!(unowned(Class::EmptyPoll(ETH0)), (3, 0));
}

#[test]
fn skipped_polls_have_time_and_no_causes() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.deliver(process(1), 1, 10, &mut accounts);
    poll.end(ETH0, polled(1, false), 5, &mut accounts);
    poll.skip(true);
    // The loop after a poll belongs to that poll; the next poll has packets without an event.
    poll.end(ETH0, polled(3, false), 40, &mut accounts);
    poll.finish(2, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (15, 1));
    assert_eq!(amount(&accounts, Cause::Unowned(Class::Unsampled(ETH0))), (42, 3));
    // It applies to later runs until it is changed.
    poll.finish(7, &mut accounts);
    let nowhere = Class::Unsampled(Device::default());
    assert_eq!(amount(&accounts, Cause::Unowned(nowhere)), (7, 0));
    poll.skip(false);
    poll.deliver(process(1), 1, 1, &mut accounts);
    poll.end(ETH0, polled(1, false), 1, &mut accounts);
    poll.finish(1, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (18, 2));
}

#[test]
fn a_run_without_a_poll_is_the_poll_loop() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.finish(9, &mut accounts);
    let nowhere = Cause::Unowned(Class::EmptyPoll(Device::default()));
    assert_eq!(amount(&accounts, nowhere), (9, 0));
}

#[test]
fn more_causes_than_entries_are_divided_in_parts() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    let causes = MAX_CAUSES as u32 * 2 + 3;
    for pid in 0..causes {
        poll.deliver(process(pid), 1, 100, &mut accounts);
    }
    poll.end(ETH0, polled(causes, false), 30, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!(accounts.owned_ns(), u64::from(causes) * 100 + 30);
    for pid in 0..causes {
        assert_eq!(amount(&accounts, process(pid)).1, 1, "packets of {pid}");
    }
}

#[test]
fn packets_without_a_time_share_the_elapsed_time() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.count(process(1), 1, &mut accounts);
    poll.count(process(1), 1, &mut accounts);
    // From here on there are two causes, and the clock is read.
    poll.deliver(process(2), 1, 90, &mut accounts);
    poll.deliver(process(2), 1, 8, &mut accounts);
    poll.end(ETH0, polled(4, false), 10, &mut accounts);
    poll.count(process(3), 1, &mut accounts);
    poll.end(ETH0, polled(1, false), 7, &mut accounts);
    poll.finish(1, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (50, 2));
    assert_eq!(amount(&accounts, process(2)), (58, 2));
    assert_eq!(amount(&accounts, process(3)), (8, 1));
}

#[test]
fn a_packet_counted_before_receives_time_only() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.deliver(process(1), 1, 10, &mut accounts);
    poll.deliver(process(1), 0, 20, &mut accounts);
    poll.deliver(process(2), 0, 40, &mut accounts);
    poll.end(ETH0, polled(1, false), 5, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (35, 1));
    assert_eq!(amount(&accounts, process(2)), (40, 0));
}

fn full(work: u32) -> PollReport {
    PollReport { work, xdp: false, full: true, queue: None }
}

#[test]
fn a_merged_packet_counts_as_the_packets_merged_into_it() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    // In the order of arrival: the second one is merged from eight.
    for packets in [1, 8, 1] {
        poll.arrive(packets);
    }
    for pid in [1, 2, 1] {
        poll.count(process(pid), 1, &mut accounts);
    }
    poll.end(ETH0, polled(10, false), 100, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (20, 2));
    assert_eq!(amount(&accounts, process(2)), (80, 1));
}

#[test]
fn a_packet_merged_by_the_device_counts_once() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.arrive(1);
    poll.arrive(45);
    poll.count(process(1), 1, &mut accounts);
    poll.count(process(2), 1, &mut accounts);
    poll.end(ETH0, polled(2, false), 100, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!((amount(&accounts, process(1)), amount(&accounts, process(2))), ((50, 1), (50, 1)));
}

#[test]
fn a_split_packet_counts_as_its_segments() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.arrive(1);
    poll.count(process(1), 1, &mut accounts);
    poll.arrive(3);
    for _ in 0..3 {
        poll.count(process(2), 1, &mut accounts);
    }
    poll.end(ETH0, polled(4, false), 100, &mut accounts);
    poll.finish(0, &mut accounts);
    assert_eq!((amount(&accounts, process(1)), amount(&accounts, process(2))), ((25, 1), (75, 3)));
}

#[test]
fn time_of_packets_in_gro_is_charged_to_their_receivers() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    // 40 of 64 arrive, 24 are kept,
    for _ in 0..40 {
        poll.arrive(1);
        poll.count(process(1), 1, &mut accounts);
    }
    poll.end(ETH0, full(64), 640, &mut accounts);
    assert_eq!((poll.held_ns(), poll.pending_ns()), (240, 640));
    // and arrive with 22 more, as one.
    poll.arrive(46);
    poll.count(process(2), 1, &mut accounts);
    poll.end(ETH0, polled(22, false), 220, &mut accounts);
    poll.finish(5, &mut accounts);
    assert_eq!(
        (amount(&accounts, process(1)), amount(&accounts, process(2))),
        ((400, 40), (465, 1))
    );
    assert_eq!(poll.pending_ns(), 0);
}

#[test]
fn a_poll_with_all_packets_in_gro_is_charged_to_them() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.end(ETH0, full(64), 640, &mut accounts);
    // Another device's poll is in between.
    let eth1 = Device { index: 3, ..ETH0 };
    poll.end(eth1, polled(0, false), 7, &mut accounts);
    poll.arrive(70);
    poll.deliver(process(1), 1, 50, &mut accounts);
    poll.end(ETH0, polled(6, false), 10, &mut accounts);
    poll.finish(1, &mut accounts);
    assert_eq!(amount(&accounts, process(1)), (701, 1));
    assert_eq!(amount(&accounts, Cause::Unowned(Class::EmptyPoll(eth1))), (7, 0));
    assert_eq!(accounts.caused.len(), 2, "{:?}", accounts.caused);
}

#[test]
fn packets_that_gro_releases_after_the_last_poll_are_charged() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.arrive(1);
    poll.count(process(1), 1, &mut accounts);
    poll.end(ETH0, full(4), 100, &mut accounts);
    poll.arrive(3);
    poll.count(process(2), 1, &mut accounts);
    poll.finish(9, &mut accounts);
    assert_eq!((amount(&accounts, process(1)), amount(&accounts, process(2))), ((25, 1), (84, 1)));
}

#[test]
fn time_of_packets_in_gro_beyond_a_run_is_not_lost() {
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    poll.end(ETH0, full(64), 640, &mut accounts);
    poll.finish(9, &mut accounts);
    let unowned = |class| amount(&accounts, Cause::Unowned(class));
    assert_eq!(unowned(Class::Unattributed(ETH0)), (640, 0));
    assert_eq!(unowned(Class::EmptyPoll(Device::default())), (9, 0));
    assert_eq!(poll.pending_ns(), 0);
}

#[test]
fn merged_packets_cost_what_their_polls_took() {
    // A merged packet costs 400 ns, another one 800 ns, and 300 ns of its own.
    let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
    let mut taken = |plain: u32, merged: u32| {
        let driver = u64::from(plain) * 800 + u64::from(merged) * 400;
        for _ in 0..plain {
            poll.arrive(1);
        }
        if merged > 0 {
            poll.arrive(merged);
        }
        let mut ns = driver;
        for _ in 0..plain {
            poll.deliver(process(1), 1, std::mem::replace(&mut ns, 300), &mut accounts);
        }
        if merged > 0 {
            poll.deliver(process(2), 1, std::mem::replace(&mut ns, 300), &mut accounts);
        }
        poll.end(ETH0, polled(plain + merged, false), 0, &mut accounts);
    };
    for _ in 0..100 {
        taken(40, 24);
        taken(18, 46);
    }
    poll.finish(0, &mut accounts);
    let (plain, merged) = (amount(&accounts, process(1)).0, amount(&accounts, process(2)).0);
    let truth = 58.0 * 1100.0 / (58.0 * 1100.0 + 70.0 * 400.0);
    let share = plain as f64 / (plain + merged) as f64;
    assert!((share - truth).abs() < 0.02, "{share}, {truth}");
}
