//! Scheduling priorities.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The scheduling policy and priority of a thread, ordered by precedence in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rank {
    /// SCHED_IDLE.
    Idle,
    /// SCHED_OTHER and SCHED_BATCH.
    Normal {
        /// From -20 (largest share) to 19.
        nice: i8,
    },
    /// SCHED_FIFO and SCHED_RR.
    Realtime {
        /// From 1 to 99 (first).
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

/// A text that is not a valid priority of a NAPI thread.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid priority {0:?}; use \"idle\", \"normal\", \"nice -5\" (-20 to 19) or \"fifo 50\" (1 \
     to 99)"
)]
pub struct ParseRankError(String);

/// The form used in configurations: `normal`, `nice -5`, `fifo 50`, `idle`.
impl FromStr for Rank {
    type Err = ParseRankError;

    fn from_str(text: &str) -> Result<Self, ParseRankError> {
        let (name, number) = text.split_once(' ').unwrap_or((text, ""));
        let number = number.trim().parse().ok();
        match (name, number) {
            ("idle", None) if text == "idle" => Some(Rank::Idle),
            ("normal", None) if text == "normal" => Some(Rank::Normal { nice: 0 }),
            ("nice", Some(nice @ -20..=19)) => Some(Rank::Normal { nice }),
            ("fifo", Some(priority @ 1..=99)) => {
                Some(Rank::Realtime { priority: priority.unsigned_abs() })
            }
            _ => None,
        }
        .ok_or_else(|| ParseRankError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_as_configurations_have_them() {
        for (text, rank) in [
            ("idle", Rank::Idle),
            ("normal", Rank::Normal { nice: 0 }),
            ("nice -20", Rank::Normal { nice: -20 }),
            ("nice 19", Rank::Normal { nice: 19 }),
            ("fifo 1", Rank::Realtime { priority: 1 }),
            ("fifo 99", Rank::Realtime { priority: 99 }),
        ] {
            assert_eq!(text.parse(), Ok(rank));
        }
        for text in
            ["", "fifo", "fifo 0", "fifo 100", "fifo 300", "nice 20", "idle 1", "rr 5", "normal x"]
        {
            let error = text.parse::<Rank>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid priority {text:?}; use ")), "{error}");
        }
    }

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
