//! Error counters with a threshold (EPSG DS 301, 4.7.4).

use onbeat_wire::powerlink::NodeId;

use crate::od::{Dictionary, ObjectId, id, profile};

/// What an error adds to the threshold counter.
const ERROR: u64 = 8;

/// A counter in the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Counts all errors.
    pub cumulative: ObjectId,
    /// Increases by 8 with each error and decreases by 1 with each good cycle.
    pub count: ObjectId,
    /// The threshold of `count`; 0: none.
    pub threshold: ObjectId,
}

impl Counter {
    /// The counter that is the record of an index.
    pub const fn record(index: u16) -> Self {
        Counter { cumulative: id(index, 1), count: id(index, 2), threshold: id(index, 3) }
    }

    /// The managing node's losses of PRes of a node: 0x1C07, 0x1C08 and 0x1C09.
    pub const fn loss_of_pres(node: NodeId) -> Self {
        Counter::of_node(profile::LOSS_OF_PRES, node)
    }

    /// The managing node's late PRes of a node: 0x1C04, 0x1C05 and 0x1C06.
    pub const fn late_pres(node: NodeId) -> Self {
        Counter::of_node(profile::LATE_PRES, node)
    }

    /// The managing node's losses of StatusResponse of a node: 0x1C15, 0x1C16 and 0x1C17.
    pub const fn loss_of_status(node: NodeId) -> Self {
        Counter::of_node(profile::LOSS_OF_STATUS, node)
    }

    const fn of_node([cumulative, count, threshold]: [u16; 3], NodeId(node): NodeId) -> Self {
        Counter {
            cumulative: id(cumulative, node),
            count: id(count, node),
            threshold: id(threshold, node),
        }
    }

    /// Counts an error; returns true if the threshold is reached, which resets the counter.
    pub fn error(self, od: &mut Dictionary) -> bool {
        let Counter { cumulative, count, threshold } = self;
        let set = |od: &mut Dictionary, id, value: u64| {
            // Counters saturate.
            od.set_number(id, value.min(u32::MAX.into())).is_ok()
        };
        set(od, cumulative, od.number(cumulative) + 1);
        let (now, limit) = (od.number(count) + ERROR, od.number(threshold));
        let reached = limit != 0 && now >= limit;
        set(od, count, if reached { 0 } else { now });
        reached
    }

    /// Counts a good cycle.
    pub fn good(self, od: &mut Dictionary) {
        let now = od.number(self.count);
        if now > 0 {
            let less = od.set_number(self.count, now - 1);
            debug_assert!(less.is_ok(), "a smaller number is valid for the counter");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::od::{Access, Object};

    fn dictionary(threshold: u64) -> Dictionary {
        let mut od = Dictionary::new();
        for (sub, value) in [(1, 0), (2, 0), (3, threshold)] {
            od.add(id(0x1c0b, sub), Object::unsigned(4, Access::ReadWrite, value)).unwrap();
        }
        od
    }

    const COUNTER: Counter = Counter::record(0x1c0b);

    #[test]
    fn reaches_its_threshold_unless_cycles_are_good_in_between() {
        let mut od = dictionary(15);
        assert!(!COUNTER.error(&mut od));
        assert!(COUNTER.error(&mut od), "8 + 8 >= 15");
        assert_eq!((od.number(id(0x1c0b, 1)), od.number(id(0x1c0b, 2))), (2, 0));
        for _ in 0..100 {
            assert!(!COUNTER.error(&mut od));
            (0..8).for_each(|_| COUNTER.good(&mut od));
        }
        assert_eq!((od.number(id(0x1c0b, 1)), od.number(id(0x1c0b, 2))), (102, 0));
    }

    #[test]
    fn without_a_threshold_it_only_counts() {
        let mut od = dictionary(0);
        assert!((0..1000).all(|_| !COUNTER.error(&mut od)));
        assert_eq!(od.number(id(0x1c0b, 1)), 1000);
        od.set_number(id(0x1c0b, 1), u32::MAX.into()).unwrap();
        COUNTER.error(&mut od);
        assert_eq!(od.number(id(0x1c0b, 1)), u32::MAX.into());
    }
}
