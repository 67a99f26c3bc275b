//! Error counters with a threshold (EPSG DS 301, 4.7.4).

use crate::od::{Dictionary, id};

/// What an error adds to the threshold counter.
const ERROR: u64 = 8;

/// A counter as it stands in the dictionary: sub-index 1 counts all errors, 2 goes up by 8 with
/// each and down by 1 with every good cycle, 3 is its threshold, of which 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Its index.
    pub index: u16,
}

impl Counter {
    /// Counts an error; whether the threshold is reached, which puts the counter back.
    pub fn error(self, od: &mut Dictionary) -> bool {
        let [cumulative, count, threshold] = [1, 2, 3].map(|sub| id(self.index, sub));
        let set = |od: &mut Dictionary, id, value: u64| {
            // Counters stay at their greatest value.
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
        let count = id(self.index, 2);
        let now = od.number(count);
        if now > 0 {
            let less = od.set_number(count, now - 1);
            debug_assert!(less.is_ok(), "a counter takes every number below its own");
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

    const COUNTER: Counter = Counter { index: 0x1c0b };

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
