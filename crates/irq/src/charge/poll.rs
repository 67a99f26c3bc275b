//! Sharing out the time of a poll among the packets it brought.
//!
//! Packets come out of a poll in batches: the driver makes several, GRO merges some, the protocols
//! take a list of them through each layer before the next. So there is time that belongs to one
//! packet (from one delivery to the next) and time that the packets of a poll have in common. The
//! former goes to whom the packet is for; the latter is shared by number of packets when the poll is
//! over. Nothing is carried from one poll to the next but the loop between them: freeing what other
//! CPUs gave back, signalling them, going to sleep. That comes after a poll, and is shared like it.

use super::{Accounts, Cause, Class, Device};

/// Causes of one poll at most; with more, what they have in common is shared out in parts.
pub const MAX_CAUSES: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Entry {
    cause: Cause,
    own_ns: u64,
    packets: u32,
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
    /// Polls are not looked at.
    skipped: bool,
}

impl Poll {
    /// Time not charged yet, in nanoseconds.
    #[cfg(test)]
    pub(super) fn pending_ns(&self) -> u64 {
        self.shared_ns + self.entries.iter().map(|entry| entry.own_ns).sum::<u64>()
    }

    /// A packet comes up from the driver: what is under way is more than the next packet's own. When
    /// does not matter, since all of it until the next delivery is shared.
    pub(super) fn arrive(&mut self) {
        self.delivered = false;
    }

    /// It is known whom a packet is for, `ns` after the last point.
    pub(super) fn deliver(&mut self, cause: Cause, packets: u32, ns: u64, to: &mut Accounts) {
        let at = self.entry(cause, to);
        if self.delivered {
            self.entries[at].own_ns += ns;
        } else {
            self.shared_ns += ns;
        }
        self.entries[at].packets += packets;
        self.delivered = true;
    }

    /// It is known whom a packet is for, but not when that was.
    pub(super) fn count(&mut self, cause: Cause, packets: u32, to: &mut Accounts) {
        let at = self.entry(cause, to);
        self.entries[at].packets += packets;
        self.delivered = false;
    }

    /// A buffer is given back: in a poll that brings nothing, of a packet that was sent.
    pub(super) fn free(&mut self) {
        self.freed += 1;
    }

    /// The poll ends, `ns` after the last point.
    pub(super) fn end(&mut self, device: Device, work: u32, xdp: bool, ns: u64, to: &mut Accounts) {
        if self.over {
            self.share(to);
        }
        self.shared_ns += ns;
        self.delivered = false;
        // What did not come up from a device, such as packets that XDP gave to a socket.
        self.entries.iter_mut().for_each(|entry| entry.cause = entry.cause.from(device));
        if self.entries.is_empty() {
            let class = match (work, xdp) {
                _ if self.skipped => Class::Unsampled(device),
                (0, _) if self.freed > 0 => Class::TxCompletion(device),
                (0, _) => Class::EmptyPoll(device),
                (_, true) => Class::Xdp(device),
                (_, false) => Class::Unattributed(device),
            };
            let packets = if work > 0 { work } else { self.freed };
            self.entries.push(Entry { cause: Cause::Unowned(class), own_ns: 0, packets });
        }
        self.freed = 0;
        self.over = true;
    }

    /// The run of the bottom half ends, `ns` after the last point.
    pub(super) fn finish(&mut self, ns: u64, to: &mut Accounts) {
        self.shared_ns += ns;
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
        self.entries.push(Entry { cause, own_ns: 0, packets: 0 });
        self.entries.len() - 1
    }

    /// Charges what there is. The entries stay for what comes after the poll.
    pub(super) fn settle(&mut self, to: &mut Accounts) {
        let kept = self.entries.iter().map(|entry| Entry { own_ns: 0, packets: 0, ..*entry });
        let (kept, over) = (kept.collect(), self.over);
        self.share(to);
        (self.entries, self.over) = (kept, over);
    }

    /// Charges the entries with their own time, their parts of the common one, and their packets, and
    /// has none any more.
    fn share(&mut self, to: &mut Accounts) {
        let weights: u64 = self.entries.iter().map(|entry| u64::from(entry.packets)).sum();
        let mut left_ns = self.shared_ns;
        let mut entries = self.entries.drain(..).peekable();
        while let Some(entry) = entries.next() {
            // What division leaves over is the last one's: nothing gets lost.
            let part_ns = match (entries.peek(), weights) {
                (None, _) => left_ns,
                (Some(_), 0) => 0,
                (Some(_), _) => self.shared_ns * u64::from(entry.packets) / weights,
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

    fn amount(accounts: &Accounts, cause: Cause) -> (u64, u64) {
        let Amount { ns, packets } = accounts.caused.get(&cause).copied().unwrap_or_default();
        (ns, packets)
    }

    #[test]
    fn what_packets_have_in_common_is_shared_by_their_number() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.arrive();
        poll.arrive();
        poll.deliver(process(1), 1, 150, &mut accounts);
        poll.deliver(process(2), 1, 7, &mut accounts);
        poll.deliver(process(1), 1, 5, &mut accounts);
        assert_eq!((accounts.owned_ns(), poll.pending_ns()), (0, 162));
        poll.end(ETH0, 3, false, 3, &mut accounts);
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
        poll.end(ETH0, 1, true, 5, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (15, 1));
    }

    #[test]
    fn what_comes_after_a_poll_is_its_packets() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.deliver(process(1), 1, 10, &mut accounts);
        poll.end(ETH0, 1, false, 5, &mut accounts);
        poll.finish(4, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (19, 1));
    }

    #[test]
    fn what_comes_after_a_poll_is_its_packets_though_they_are_settled() {
        let (mut poll, mut accounts) = (Poll::default(), Accounts::default());
        poll.deliver(process(1), 1, 10, &mut accounts);
        poll.end(ETH0, 1, false, 5, &mut accounts);
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
            poll.end(ETH0, 1, xdp, 1, &mut accounts);
            poll.end(ETH0, work, xdp, 10, &mut accounts);
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
        poll.end(ETH0, 0, false, 10, &mut accounts);
        // One that brings packets gives back buffers on the way, and the next one none.
        poll.free();
        poll.deliver(process(1), 1, 1, &mut accounts);
        poll.end(ETH0, 1, false, 4, &mut accounts);
        poll.end(ETH0, 0, false, 3, &mut accounts);
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
        poll.end(ETH0, 1, false, 5, &mut accounts);
        poll.skip(true);
        // The loop after a poll is still that poll's; then there is one whose packets nobody told.
        poll.end(ETH0, 3, false, 40, &mut accounts);
        poll.finish(2, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (15, 1));
        assert_eq!(amount(&accounts, Cause::Unowned(Class::Unsampled(ETH0))), (42, 3));
        // It holds for runs to come, until it is said otherwise.
        poll.finish(7, &mut accounts);
        let nowhere = Class::Unsampled(Device::default());
        assert_eq!(amount(&accounts, Cause::Unowned(nowhere)), (7, 0));
        poll.skip(false);
        poll.deliver(process(1), 1, 1, &mut accounts);
        poll.end(ETH0, 1, false, 1, &mut accounts);
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
        poll.end(ETH0, causes, false, 30, &mut accounts);
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
        poll.end(ETH0, 4, false, 10, &mut accounts);
        poll.count(process(3), 1, &mut accounts);
        poll.end(ETH0, 1, false, 7, &mut accounts);
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
        poll.end(ETH0, 1, false, 5, &mut accounts);
        poll.finish(0, &mut accounts);
        assert_eq!(amount(&accounts, process(1)), (35, 1));
        assert_eq!(amount(&accounts, process(2)), (40, 0));
    }
}
