//! Measurement in rounds: changes of the machine affect all compared variants.

use onbeat_realtime::clock::SECOND;

/// Splits `all` into shares of at most `rounds` rounds; their sum is `all`.
pub(crate) fn split(all: u64, rounds: u32) -> Vec<u64> {
    let rounds = u64::from(rounds).min(all).max(1);
    (0..rounds).map(|round| all / rounds + u64::from(round < all % rounds)).collect()
}

/// The two variants that a round compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Subject,
    Reference,
}

/// Measures the subject and its reference one directly after the other, and returns them in this order. Which one is
/// first alternates from round to round.
pub(crate) fn pair<T, E>(
    round: u32,
    mut measure: impl FnMut(Variant) -> Result<T, E>,
) -> Result<(T, T), E> {
    if round % 2 == 0 {
        let reference = measure(Variant::Reference)?;
        Ok((measure(Variant::Subject)?, reference))
    } else {
        Ok((measure(Variant::Subject)?, measure(Variant::Reference)?))
    }
}

/// A remaining time as text.
pub(crate) fn in_words(time_ns: u64) -> String {
    let seconds = time_ns.div_ceil(SECOND);
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        assert_eq!(split(10, 3), [4, 3, 3]);
        assert_eq!(split(2, 10), [1, 1]);
        assert_eq!(split(100_000, 10), [10_000; 10]);
        assert_eq!(split(0, 10), [0]);
    }

    #[test]
    fn the_order_of_a_pair_alternates() {
        use Variant::{Reference, Subject};
        for (round, expected) in [(0, [Reference, Subject]), (1, [Subject, Reference])] {
            let mut order = Vec::new();
            let pair = pair(round, |variant| {
                order.push(variant);
                Ok::<_, ()>(variant)
            });
            assert_eq!((pair, &order[..]), (Ok((Subject, Reference)), &expected[..]));
        }
    }

    #[test]
    fn remaining_times_are_minutes_and_seconds() {
        assert_eq!(in_words(0), "0 min 00 s");
        assert_eq!(in_words(61 * SECOND - 1), "1 min 01 s");
    }
}
