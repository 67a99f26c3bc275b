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

#[cfg(test)]
mod tests;

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
    /// Packets that an XDP program dropped, which do not arrive; and whether others did not.
    by_xdp: u32,
    unannounced: bool,
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
        if matches!(entry.cause, Cause::Unowned(Class::Xdp(_))) {
            arrivals.by_xdp += packets;
            return;
        }
        if arrivals.outstanding == 0 {
            // One of those that a merged packet was cut into again, which are counted already; or XDP
            // gave it to a socket.
            arrivals.unannounced = true;
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

    /// Takes what was held back for packets of a device, and holds back the part of those that GRO has kept
    /// now; whether that is all there is, and how many packets an XDP program took beyond those that it was
    /// seen to drop: what neither came up nor was kept.
    fn hold(&mut self, device: Device, Polled { work, xdp, full }: Polled) -> (bool, u32) {
        let Arrivals { packets, merged, by_xdp, unannounced, .. } =
            std::mem::take(&mut self.arrivals);
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
        // Of a full poll GRO may keep some: these cannot be distinguished.
        if xdp && !full && !self.skipped && !unannounced {
            return (false, taken.saturating_sub(arrived + by_xdp));
        }
        if !full || xdp || self.skipped || self.held.is_some() || arrived >= taken {
            return (false, 0);
        }
        let kept = taken - arrived;
        let ns = self.shared_ns * u64::from(kept) / u64::from(taken);
        self.shared_ns -= ns;
        self.held = Some(Held { device, packets: kept, ns });
        (arrived == 0, 0)
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
