//! Sharing out the time of a poll among the packets it brought.
//!
//! Packets come out of a poll in batches: the driver makes several, GRO merges some, the protocols
//! take a list of them through each layer before the next. So there is time that belongs to one
//! packet (from one delivery to the next) and time that the packets of a poll have in common. The
//! former goes to whom the packet is for; the latter is shared by number of packets when the poll is
//! over. A packet that GRO merged of several counts as those there: each of them took the driver's time.
//!
//! What comes after a poll (freeing what other CPUs gave back, signalling them, going to sleep) is shared like
//! it. And GRO may keep packets of a poll that took all it might: the next poll of the device brings them up. Their
//! part of the first one's time is held back until then.

use super::{Accounts, Cause, Class, Device};

/// Causes of one poll at most; with more, what they have in common is shared out in parts.
pub const MAX_CAUSES: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Entry {
    cause: Cause,
    own_ns: u64,
    packets: u32,
    /// Packets that went into merged ones, beyond those counted.
    merged: u32,
}

impl Entry {
    fn new(cause: Cause, packets: u32) -> Self {
        Self { cause, own_ns: 0, packets, merged: 0 }
    }

    fn weight(&self) -> u64 {
        u64::from(self.packets) + u64::from(self.merged)
    }
}

/// What a poll brought up to the protocols.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    /// Packets as the protocols see them, and beyond those what went into merged ones.
    packets: u32,
    merged: u32,
    /// Those of which it is not known yet whom they are for.
    outstanding: u32,
    /// The next delivery but so many, less one, is that of a merged packet: of so many more packets. 0: none.
    merged_in: u32,
    merged_of: u32,
}

/// The part of the last poll of a device that belongs to packets which GRO has kept.
#[derive(Debug, Clone, Copy)]
struct Held {
    device: Device,
    packets: u32,
    ns: u64,
}

/// What a driver says of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Packets that it took, as the driver counts them.
    pub work: u32,
    /// Whether an XDP program looks at them first.
    pub xdp: bool,
    /// Whether it took as many as it might: the device is polled again, and GRO keeps what it has not merged to
    /// the end.
    pub full: bool,
}

/// The poll under way, or the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Poll {
    entries: Vec<Entry>,
    shared_ns: u64,
    /// The poll is over; what comes after it is shared among its entries, too.
    over: bool,
    /// The last point was a delivery.
    delivered: bool,
    /// Buffers that this poll gave back.
    freed: u32,
    arrivals: Arrivals,
    held: Option<Held>,
    /// Polls are not looked at.
    skipped: bool,
}

impl Poll {
    /// Time not charged yet, in nanoseconds.
    #[cfg(test)]
    pub(super) fn pending_ns(&self) -> u64 {
        let own = self.entries.iter().map(|entry| entry.own_ns).sum::<u64>();
        self.shared_ns + own + self.held_ns()
    }

    /// Time held back for packets that GRO has kept, in nanoseconds.
    pub(super) fn held_ns(&self) -> u64 {
        self.held.map_or(0, |held| held.ns)
    }

    /// A packet comes up from the driver, merged of so many: what is under way is more than the next packet's
    /// own. When does not matter, since all of it until the next delivery is shared.
    pub(super) fn arrive(&mut self, packets: u32) {
        self.delivered = false;
        let arrivals = &mut self.arrivals;
        arrivals.packets += 1;
        arrivals.outstanding += 1;
        if packets > 1 {
            arrivals.merged += packets - 1;
            arrivals.merged_in = arrivals.outstanding;
            arrivals.merged_of = packets - 1;
        }
    }

    /// It is known whom a packet is for, `ns` after the last point.
    pub(super) fn deliver(&mut self, cause: Cause, packets: u32, ns: u64, to: &mut Accounts) {
        let at = self.entry(cause, to);
        if self.delivered {
            self.entries[at].own_ns += ns;
        } else {
            self.shared_ns += ns;
        }
        self.add(at, packets);
        self.delivered = true;
    }

    /// It is known whom a packet is for, but not when that was.
    pub(super) fn count(&mut self, cause: Cause, packets: u32, to: &mut Accounts) {
        let at = self.entry(cause, to);
        self.add(at, packets);
        self.delivered = false;
    }

    /// Counts packets. They are delivered in the order in which they came up.
    fn add(&mut self, at: usize, packets: u32) {
        let (entry, arrivals) = (&mut self.entries[at], &mut self.arrivals);
        entry.packets += packets;
        if packets == 0 {
            return;
        }
        if arrivals.outstanding == 0 {
            // One of those that a merged packet was cut into again, which are counted already.
            entry.merged = entry.merged.saturating_sub(packets);
            return;
        }
        arrivals.outstanding -= 1;
        if arrivals.merged_in > 0 {
            arrivals.merged_in -= 1;
            if arrivals.merged_in == 0 {
                entry.merged += arrivals.merged_of;
            }
        }
    }

    /// A buffer is given back: in a poll that brings nothing, of a packet that was sent.
    pub(super) fn free(&mut self) {
        self.freed += 1;
    }

    /// The poll ends, `ns` after the last point.
    pub(super) fn end(&mut self, device: Device, polled: Polled, ns: u64, to: &mut Accounts) {
        let Polled { work, xdp, .. } = polled;
        if self.over {
            self.share(to);
        }
        self.shared_ns += ns;
        self.delivered = false;
        // What did not come up from a device, such as packets that XDP gave to a socket.
        self.entries.iter_mut().for_each(|entry| entry.cause = entry.cause.from(device));
        let all_kept = self.hold(device, polled);
        if self.entries.is_empty() && !all_kept {
            let class = match (work, xdp) {
                _ if self.skipped => Class::Unsampled(device),
                (0, _) if self.freed > 0 => Class::TxCompletion(device),
                (0, _) => Class::EmptyPoll(device),
                (_, true) => Class::Xdp(device),
                (_, false) => Class::Unattributed(device),
            };
            let packets = if work > 0 { work } else { self.freed };
            self.entries.push(Entry::new(Cause::Unowned(class), packets));
        }
        self.freed = 0;
        self.over = true;
    }

    /// Takes what was held back for packets of a device, and holds back the part of those that GRO has kept
    /// now; whether that is all there is.
    fn hold(&mut self, device: Device, Polled { work, xdp, full }: Polled) -> bool {
        let Arrivals { packets, merged, .. } = std::mem::take(&mut self.arrivals);
        let mut taken = work;
        if let Some(held) = self.held.take_if(|held| held.device == device) {
            taken += held.packets;
            self.shared_ns += held.ns;
        }
        // More than there were: the sender or the device made them large, and they took the driver's time once.
        let arrived = if packets + merged <= taken {
            packets + merged
        } else {
            self.entries.iter_mut().for_each(|entry| entry.merged = 0);
            packets
        };
        if !full || xdp || self.skipped || self.held.is_some() || arrived >= taken {
            return false;
        }
        let kept = taken - arrived;
        let ns = self.shared_ns * u64::from(kept) / u64::from(taken);
        self.shared_ns -= ns;
        self.held = Some(Held { device, packets: kept, ns });
        arrived == 0
    }

    /// The run of the bottom half ends, `ns` after the last point.
    pub(super) fn finish(&mut self, ns: u64, to: &mut Accounts) {
        self.shared_ns += ns;
        match self.held.take() {
            // GRO let go of them after the poll.
            Some(held) if self.arrivals.packets > 0 => self.shared_ns += held.ns,
            // What it keeps beyond a run comes up in nobody's sight.
            Some(Held { device, ns, .. }) => {
                to.charge(Cause::Unowned(Class::Unattributed(device)), ns, 0);
            }
            None => {}
        }
        if self.entries.is_empty() {
            let nowhere = Device::default();
            let class = match self.skipped {
                true => Class::Unsampled(nowhere),
                false => Class::EmptyPoll(nowhere),
            };
            to.charge(Cause::Unowned(class), self.shared_ns, 0);
        } else {
            self.share(to);
        }
        self.reset();
    }

    /// Whether the polls from here on are not looked at.
    pub(super) fn skip(&mut self, skipped: bool) {
        self.skipped = skipped;
    }

    /// Forgets what is under way.
    pub(super) fn reset(&mut self) {
        *self = Self { skipped: self.skipped, ..Self::default() };
    }

    /// The entry of a cause in the poll that is under way, or begins.
    fn entry(&mut self, cause: Cause, to: &mut Accounts) -> usize {
        if self.over {
            self.share(to);
        }
        if let Some(at) = self.entries.iter().rposition(|entry| entry.cause == cause) {
            return at;
        }
        if self.entries.len() == MAX_CAUSES {
            self.share(to);
        }
        self.entries.push(Entry::new(cause, 0));
        self.entries.len() - 1
    }

    /// Charges what there is. The entries stay for what comes after the poll.
    pub(super) fn settle(&mut self, to: &mut Accounts) {
        let kept = self.entries.iter().map(|entry| Entry::new(entry.cause, 0));
        let (kept, over) = (kept.collect(), self.over);
        self.share(to);
        (self.entries, self.over) = (kept, over);
    }

    /// Charges the entries with their own time, their parts of the common one, and their packets, and
    /// has none any more.
    fn share(&mut self, to: &mut Accounts) {
        let weights: u64 = self.entries.iter().map(Entry::weight).sum();
        let mut left_ns = self.shared_ns;
        let mut entries = self.entries.drain(..).peekable();
        while let Some(entry) = entries.next() {
            // What division leaves over is the last one's: nothing gets lost.
            let part_ns = match (entries.peek(), weights) {
                (None, _) => left_ns,
                (Some(_), 0) => 0,
                (Some(_), _) => self.shared_ns * entry.weight() / weights,
            };
            left_ns -= part_ns;
            to.charge(entry.cause, entry.own_ns + part_ns, entry.packets.into());
        }
        self.shared_ns = 0;
        self.over = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{Amount, Process};

    const ETH0: Device = Device { netns: 1, index: 2 };

    fn process(pid: u32) -> Cause {
        Cause::Process { process: Process { pid, start_ticks: 0 }, device: ETH0 }
    }

    fn polled(work: u32, xdp: bool) -> Polled {
        Polled { work, xdp, full: false }
    }

    fn amount(accounts: &Accounts, cause: Cause) -> (u64, u64) {
        let Amount { ns, packets } = accounts.caused.get(&cause).copied().unwrap_or_default();
        (ns, packets)
    }

    #[test]
    fn what_packets_have_in_common_is_shared_by_their_number() {
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
    fn packets_that_no_device_sent_up_came_by_the_one_polled() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        let Cause::Process { process: who, .. } = process(1) else { unreachable!() };
        let nowhere = Cause::Process { process: who, device: Device::default() };
        poll.deliver(nowhere, 1, 10, &mut accounts);
        poll.end(ETH0, polled(1, true), 5, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (15, 1));
    }

    #[test]
    fn what_comes_after_a_poll_is_its_packets() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.deliver(process(1), 1, 10, &mut accounts);
        poll.end(ETH0, polled(1, false), 5, &mut accounts);
        poll.finish(4, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (19, 1));
    }

    #[test]
    fn what_comes_after_a_poll_is_its_packets_though_they_are_settled() {
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
            // What was delivered in the poll before does not count for this one.
            poll.deliver(process(1), 1, 1, &mut accounts);
            poll.end(ETH0, polled(1, xdp), 1, &mut accounts);
            poll.end(ETH0, polled(work, xdp), 10, &mut accounts);
            poll.finish(2, &mut accounts);
            assert_eq!(amount(&accounts, process(1)), (2, 1));
            assert_eq!(amount(&accounts, Cause::Unowned(class)), (12, work.into()), "{class:?}");
        }
    }

    #[test]
    fn polls_that_only_give_back_buffers_complete_transmissions() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.free();
        poll.free();
        poll.end(ETH0, polled(0, false), 10, &mut accounts);
        // One that brings packets gives back buffers on the way, and the next one none.
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
    fn polls_that_are_skipped_have_time_and_no_causes() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.deliver(process(1), 1, 10, &mut accounts);
        poll.end(ETH0, polled(1, false), 5, &mut accounts);
        poll.skip(true);
        // The loop after a poll is still that poll's; then there is one whose packets nobody told.
        poll.end(ETH0, polled(3, false), 40, &mut accounts);
        poll.finish(2, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (15, 1));
        assert_eq!(amount(&accounts, Cause::Unowned(Class::Unsampled(ETH0))), (42, 3));
        // It holds for runs to come, until it is said otherwise.
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
    fn a_run_without_a_poll_is_the_loop() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.finish(9, &mut accounts);
        let nowhere = Cause::Unowned(Class::EmptyPoll(Device::default()));
        assert_eq!(amount(&accounts, nowhere), (9, 0));
    }

    #[test]
    fn more_causes_than_fit_are_shared_out_in_parts() {
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
    fn packets_without_a_time_share_what_there_is() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.count(process(1), 1, &mut accounts);
        poll.count(process(1), 1, &mut accounts);
        // From here on there are two, and the clock is looked at.
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
    fn a_packet_counted_before_gets_its_time_only() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.deliver(process(1), 1, 10, &mut accounts);
        poll.deliver(process(1), 0, 20, &mut accounts);
        poll.deliver(process(2), 0, 40, &mut accounts);
        poll.end(ETH0, polled(1, false), 5, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (35, 1));
        assert_eq!(amount(&accounts, process(2)), (40, 0));
    }

    fn full(work: u32) -> Polled {
        Polled { work, xdp: false, full: true }
    }

    #[test]
    fn a_merged_packet_counts_as_those_it_was_merged_of() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        // In the order in which they came up: the second one is of eight.
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
    fn what_the_driver_got_as_one_counts_once() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.arrive(1);
        poll.arrive(45);
        poll.count(process(1), 1, &mut accounts);
        poll.count(process(2), 1, &mut accounts);
        poll.end(ETH0, polled(2, false), 100, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(
            (amount(&accounts, process(1)), amount(&accounts, process(2))),
            ((50, 1), (50, 1))
        );
    }

    #[test]
    fn a_merged_packet_that_is_cut_again_counts_as_what_it_was_cut_into() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.arrive(1);
        poll.count(process(1), 1, &mut accounts);
        poll.arrive(3);
        for _ in 0..3 {
            poll.count(process(2), 1, &mut accounts);
        }
        poll.end(ETH0, polled(4, false), 100, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(
            (amount(&accounts, process(1)), amount(&accounts, process(2))),
            ((25, 1), (75, 3))
        );
    }

    #[test]
    fn the_time_of_packets_that_gro_keeps_goes_to_who_gets_them() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        // 40 of 64 come up, 24 are kept,
        for _ in 0..40 {
            poll.arrive(1);
            poll.count(process(1), 1, &mut accounts);
        }
        poll.end(ETH0, full(64), 640, &mut accounts);
        assert_eq!((poll.held_ns(), poll.pending_ns()), (240, 640));
        // and come up with 22 more, as one.
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
    fn a_poll_all_of_whose_packets_are_kept_is_theirs() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.end(ETH0, full(64), 640, &mut accounts);
        // Another device's poll comes between.
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
    fn what_gro_lets_go_of_after_a_poll_is_charged_where_no_other_one_follows() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.arrive(1);
        poll.count(process(1), 1, &mut accounts);
        poll.end(ETH0, full(4), 100, &mut accounts);
        poll.arrive(3);
        poll.count(process(2), 1, &mut accounts);
        poll.finish(9, &mut accounts);
        assert_eq!(
            (amount(&accounts, process(1)), amount(&accounts, process(2))),
            ((25, 1), (84, 1))
        );
    }

    #[test]
    fn what_gro_keeps_beyond_a_run_is_not_lost() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.end(ETH0, full(64), 640, &mut accounts);
        poll.finish(9, &mut accounts);
        let unowned = |class| amount(&accounts, Cause::Unowned(class));
        assert_eq!(unowned(Class::Unattributed(ETH0)), (640, 0));
        assert_eq!(unowned(Class::EmptyPoll(Device::default())), (9, 0));
        assert_eq!(poll.pending_ns(), 0);
    }
}
