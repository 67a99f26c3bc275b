//! Measuring in rounds: what changes on the machine meanwhile then meets all that is compared.

use onbeat_realtime::clock::SECOND;

/// Shares of each round, of which there are `rounds` where there is that much: their sum is `all`.
pub(crate) fn split(all: u64, rounds: u32) -> Vec<u64> {
    let rounds = u64::from(rounds).min(all).max(1);
    (0..rounds).map(|round| all / rounds + u64::from(round < all % rounds)).collect()
}

/// A time to wait, as people say it.
pub(crate) fn in_words(time_ns: u64) -> String {
    let seconds = time_ns.div_ceil(SECOND);
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_to_rounding() {
        assert_eq!(split(10, 3), [4, 3, 3]);
        assert_eq!(split(2, 10), [1, 1]);
        assert_eq!(split(100_000, 10), [10_000; 10]);
        assert_eq!(split(0, 10), [0]);
    }

    #[test]
    fn times_in_words() {
        assert_eq!(in_words(0), "0 min 00 s");
        assert_eq!(in_words(61 * SECOND - 1), "1 min 01 s");
    }
}
