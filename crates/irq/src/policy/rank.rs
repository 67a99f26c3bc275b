//! Who runs before whom.

use std::cmp::Ordering;
use std::fmt;

/// The scheduling of a thread, ordered by what the kernel runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rank {
    /// SCHED_IDLE.
    Idle,
    /// SCHED_OTHER and SCHED_BATCH.
    Normal {
        /// From -20, which gets most, to 19.
        nice: i8,
    },
    /// SCHED_FIFO and SCHED_RR.
    Realtime {
        /// From 1 to 99, which runs first.
        priority: u8,
    },
    /// SCHED_DEADLINE.
    Deadline,
}

impl Rank {
    fn level(self) -> i16 {
        match self {
            Rank::Idle => -100,
            Rank::Normal { nice } => -i16::from(nice),
            Rank::Realtime { priority } => 100 + i16::from(priority),
            Rank::Deadline => 1000,
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.level().cmp(&other.level())
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rank::Idle => f.write_str("idle"),
            Rank::Normal { nice: 0 } => f.write_str("normal"),
            Rank::Normal { nice } => write!(f, "nice {nice}"),
            Rank::Realtime { priority } => write!(f, "real-time {priority}"),
            Rank::Deadline => f.write_str("deadline"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_order() {
        let order = [
            Rank::Idle,
            Rank::Normal { nice: 19 },
            Rank::Normal { nice: 0 },
            Rank::Normal { nice: -20 },
            Rank::Realtime { priority: 1 },
            Rank::Realtime { priority: 99 },
            Rank::Deadline,
        ];
        assert!(order.is_sorted_by(|low, high| low < high));
    }
}
