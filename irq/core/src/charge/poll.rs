//! Divides the time of a poll among its packets.
//!
//! Packets leave a poll in batches: the driver produces several, GRO merges some, the protocols pass a list of
//! them through each layer before the next. So some time belongs to one packet (from one delivery to the next),
//! and some is common to the packets of a poll. A packet's own time is charged to its cause. Common time is
//! divided by number of packets when the poll is over. A packet that GRO merged counts as the packets it was
//! merged from: each of them took the driver's time. The weight of those beyond the first is [`MergeCost`]'s.
//!
//! Time after a poll (freeing buffers that other CPUs returned, signaling them, going idle) is divided like
//! common time. GRO may keep packets of a poll that used its whole budget: the next poll of the device delivers
//! them. Their part of the first poll's time is held until then.

use std::collections::BTreeMap;

use super::merge::{MergeCost, PACKET};
use super::{Accounts, Amount, Cause, Class, Device, ReceiveQueue};

#[cfg(test)]
mod tests;

/// Maximum number of causes of one poll; with more, the common time is divided in parts.
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

    fn weight(&self, of_merged: u64) -> u64 {
        u64::from(self.packets) * PACKET + u64::from(self.merged) * of_merged
    }
}

/// The packets that a poll passed to the protocols.
#[derive(Debug, Clone, Copy, Default)]
struct Arrivals {
    /// Packets as the protocols see them, and the additional packets merged into these.
    packets: u32,
    merged: u32,
    /// Packets without a known cause so far.
    outstanding: u32,
    /// Counts down deliveries to that of a merged packet (1: the next one), of `merged_of` packets. 0: none.
    merged_in: u32,
    merged_of: u32,
    /// Whether packets were delivered without an arrival.
    unannounced: bool,
}

/// The part of a device's last poll that belongs to packets in GRO.
#[derive(Debug, Clone, Copy)]
struct GroRemainder {
    device: Device,
    packets: u32,
    ns: u64,
}

/// The driver's report on a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollReport {
    /// Packets taken, as the driver counts them.
    pub work: u32,
    /// Whether an XDP program processes the packets first.
    pub xdp: bool,
    /// Whether the poll used its whole budget: the device is polled again, and GRO keeps what it has not merged
    /// to the end.
    pub full: bool,
    /// The id of the NAPI instance, if the device has several receive queues.
    pub queue: Option<u32>,
}

/// The current poll, or the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Poll {
    entries: Vec<Entry>,
    shared_ns: u64,
    /// Whether the poll is over; time after it is divided among its entries, too.
    over: bool,
    /// Whether the last event was a delivery.
    delivered: bool,
    /// Whether the first delivery of the poll had a time: the common time is without that of single packets.
    timed: Option<bool>,
    merge_costs: BTreeMap<Device, MergeCost>,
    /// Weight of merged packets of the last device that has or may hold any; `None`: that of other packets.
    merged_weight: Option<u64>,
    /// Buffers that this poll freed.
    freed: u32,
    arrivals: Arrivals,
    held: Option<GroRemainder>,
    /// The receive queue of the last poll, if its device has several.
    queue: Option<ReceiveQueue>,
    /// The time and the packets of the current poll that were charged to causes, and not to its queue yet.
    unqueued: Amount,
    /// Whether polls are skipped.
    skipped: bool,
}

impl Poll {
    /// Time not charged yet, in nanoseconds.
    #[cfg(test)]
    pub(super) fn pending_ns(&self) -> u64 {
        let own = self.entries.iter().map(|entry| entry.own_ns).sum::<u64>();
        self.shared_ns + own + self.held_ns()
    }

    /// Time held for packets in GRO, in nanoseconds.
    pub(super) fn held_ns(&self) -> u64 {
        self.held.map_or(0, |held| held.ns)
    }

    /// Records a packet from the driver, merged from `packets`: the current time is not only the next packet's
    /// own. The time of arrival is not used, since all time until the next delivery is common.
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

    /// Packets that the XDP program of a device took do not arrive.
    pub(super) fn announce(&mut self, packets: u32) {
        self.arrivals.packets += packets;
        self.arrivals.outstanding += packets;
    }

    /// Charges a packet to its cause, `ns` after the last event.
    pub(super) fn deliver(&mut self, cause: Cause, packets: u32, ns: u64, to: &mut Accounts) {
        let at = self.entry(cause, to);
        if self.delivered {
            self.entries[at].own_ns += ns;
        } else {
            self.shared_ns += ns;
        }
        self.add(at, packets);
        self.delivered = true;
        self.timed.get_or_insert(true);
    }

    /// Charges a packet to its cause, without a time.
    pub(super) fn count(&mut self, cause: Cause, packets: u32, to: &mut Accounts) {
        let at = self.entry(cause, to);
        self.add(at, packets);
        self.delivered = false;
        self.timed.get_or_insert(false);
    }

    /// Counts packets. They are delivered in the order of arrival.
    fn add(&mut self, at: usize, packets: u32) {
        let (entry, arrivals) = (&mut self.entries[at], &mut self.arrivals);
        entry.packets += packets;
        if packets == 0 {
            return;
        }
        if arrivals.outstanding == 0 {
            // One segment of a merged packet that was split again, already counted.
            arrivals.unannounced = true;
            entry.merged = entry.merged.saturating_sub(packets);
            return;
        }
        let ended = packets.min(arrivals.outstanding);
        arrivals.outstanding -= ended;
        match arrivals.merged_in {
            0 => {}
            left if left > ended => arrivals.merged_in -= ended,
            _ => {
                arrivals.merged_in = 0;
                entry.merged += arrivals.merged_of;
            }
        }
    }

    /// Charges a packet socket with a packet that others receive too.
    pub(super) fn tap(&mut self, cause: Cause, ns: u64, to: &mut Accounts) {
        to.charge(cause, ns, 1);
        self.unqueued.ns += ns;
    }

    /// Records a freed buffer: in a poll without packets, that of a transmitted packet.
    pub(super) fn free(&mut self) {
        self.freed += 1;
    }

    /// Adds `ns` since the last event to the common time.
    pub(super) fn pass(&mut self, ns: u64, to: &mut Accounts) {
        if self.over {
            self.share(to);
        }
        self.shared_ns += ns;
        self.delivered = false;
    }

    /// Ends the poll, `ns` after the last event.
    pub(super) fn end(&mut self, device: Device, polled: PollReport, ns: u64, to: &mut Accounts) {
        let PollReport { work, xdp, queue, .. } = polled;
        if self.over {
            self.share(to);
        }
        self.queue = queue.map(|napi| ReceiveQueue { device, napi });
        self.shared_ns += ns;
        self.delivered = false;
        self.learn(device, polled);
        // Packets that did not arrive from a device.
        self.entries.iter_mut().for_each(|entry| entry.cause = entry.cause.from(device));
        let (all_kept, left) = self.hold(device, polled);
        if left > 0 && !self.entries.is_empty() {
            let at = self.entry(Cause::Unowned(Class::Xdp(device)), to);
            self.entries[at].packets += left;
        }
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

    /// Adds the common time of the poll to what is known of merged packets of the device, and sets their weight if the
    /// poll has or may hold any.
    fn learn(&mut self, device: Device, polled: PollReport) {
        let Arrivals { packets, merged, unannounced, .. } = self.arrivals;
        let is_timed = self.timed.take() == Some(true);
        if !is_timed && merged == 0 && !polled.full {
            return;
        }
        let merged = polled.work.checked_sub(packets);
        let is_plain = !polled.xdp && !self.skipped && !unannounced;
        if let (Some(merged), true, true) = (merged, is_timed, is_plain) {
            self.merge_costs.entry(device).or_default().add(packets, merged, self.shared_ns);
        }
        self.merged_weight = self.merge_costs.get(&device).map(MergeCost::weight);
    }

    /// Releases the time held for packets of a device, and holds the part of those now in GRO. Returns whether
    /// all packets of the poll are held, and the number of packets that an XDP program took without a report: those that neither arrived nor were kept.
    fn hold(&mut self, device: Device, polled: PollReport) -> (bool, u32) {
        let PollReport { work, xdp, full, .. } = polled;
        let Arrivals { packets, merged, unannounced, .. } = std::mem::take(&mut self.arrivals);
        let mut taken = work;
        if let Some(held) = self.held.take_if(|held| held.device == device) {
            taken += held.packets;
            self.shared_ns += held.ns;
        }
        // More than the driver counted: the sender or the device merged them, and they took the driver's time
        // once.
        let arrived = if packets + merged <= taken {
            packets + merged
        } else {
            self.entries.iter_mut().for_each(|entry| entry.merged = 0);
            packets
        };
        // GRO may keep some packets of a full poll: these cannot be distinguished.
        if xdp && !full && !self.skipped && !unannounced {
            return (false, taken.saturating_sub(arrived));
        }
        // Arrivals are not observed.
        let unobserved = packets == 0 && unannounced;
        if !full || xdp || self.skipped || self.held.is_some() || arrived >= taken || unobserved {
            return (false, 0);
        }
        let (kept, of_merged) = (taken - arrived, self.merged_weight.unwrap_or(PACKET));
        let of_kept = u64::from(kept) * of_merged;
        let of_arrived = u64::from(packets) * PACKET + u64::from(arrived - packets) * of_merged;
        let ns = self.shared_ns * of_kept / (of_kept + of_arrived);
        self.shared_ns -= ns;
        self.held = Some(GroRemainder { device, packets: kept, ns });
        (arrived == 0, 0)
    }

    /// Ends the run, `ns` after the last event.
    pub(super) fn finish(&mut self, ns: u64, to: &mut Accounts) {
        self.shared_ns += ns;
        match self.held.take() {
            // GRO released them after the poll.
            Some(held) if self.arrivals.packets > 0 => self.shared_ns += held.ns,
            // Packets that GRO keeps beyond a run arrive unobserved.
            Some(GroRemainder { device, ns, .. }) => {
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

    /// Sets whether the following polls are skipped.
    pub(super) fn skip(&mut self, skipped: bool) {
        self.skipped = skipped;
    }

    /// Discards the current poll.
    pub(super) fn reset(&mut self) {
        let merge_costs = std::mem::take(&mut self.merge_costs);
        let (skipped, merged_weight) = (self.skipped, self.merged_weight);
        *self = Self { skipped, merge_costs, merged_weight, ..Self::default() };
    }

    /// The entry of a cause in the current poll; starts a poll if there is none.
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

    /// Charges all pending time. The entries stay for the time after the poll.
    pub(super) fn settle(&mut self, to: &mut Accounts) {
        let kept = self.entries.iter().map(|entry| Entry::new(entry.cause, 0));
        let (kept, over) = (kept.collect(), self.over);
        self.share(to);
        (self.entries, self.over) = (kept, over);
    }

    /// Charges the entries with their own time, their parts of the common time and their packets, and removes
    /// them.
    fn share(&mut self, to: &mut Accounts) {
        let of_merged = self.merged_weight.unwrap_or(PACKET);
        let weights: u64 = self.entries.iter().map(|entry| entry.weight(of_merged)).sum();
        let mut left_ns = self.shared_ns;
        let mut entries = self.entries.drain(..).peekable();
        while let Some(entry) = entries.next() {
            // The last entry receives the remainder of the division, so that no time is lost.
            let part_ns = match (entries.peek(), weights) {
                (None, _) => left_ns,
                (Some(_), 0) => 0,
                (Some(_), _) => self.shared_ns * entry.weight(of_merged) / weights,
            };
            left_ns -= part_ns;
            let amount = Amount { ns: entry.own_ns + part_ns, packets: u64::from(entry.packets) };
            to.charge(entry.cause, amount.ns, amount.packets);
            self.unqueued.add(amount);
        }
        drop(entries);
        if self.over {
            // The queue is known when the poll is over.
            to.charge_queue(self.queue, std::mem::take(&mut self.unqueued));
        }
        self.shared_ns = 0;
        self.over = false;
    }
}
