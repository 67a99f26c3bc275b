//! Copies of bits between octets; bit 0 of an octet comes first, as in the order of the wire.

use core::ops::Range;

/// Copies the bits `from` of `source` to `target`, from bit `to` on. Both ranges must exist.
pub(super) fn copy(source: &[u8], from: Range<usize>, target: &mut [u8], to: usize) {
    let len = from.len();
    if from.start % 8 == 0 && to % 8 == 0 && len % 8 == 0 {
        let (from, to, len) = (from.start / 8, to / 8, len / 8);
        target[to..to + len].copy_from_slice(&source[from..from + len]);
        return;
    }
    for (from, to) in from.zip(to..) {
        let bit = source[from / 8] >> (from % 8) & 1;
        let octet = &mut target[to / 8];
        *octet = *octet & !(1 << (to % 8)) | bit << (to % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with arithmetic on numbers: no other bits change.
        #[test]
        fn bits_of_a_number(source: u64, target: u64, from in 0..64usize, to in 0..64usize, len in 0..=64usize) {
            let len = len.min(64 - from).min(64 - to);
            let mut octets = target.to_le_bytes();
            copy(&source.to_le_bytes(), from..from + len, &mut octets, to);
            let mask = if len == 64 { u64::MAX } else { (1 << len) - 1 };
            let expected = target & !(mask << to) | (source >> from & mask) << to;
            prop_assert_eq!(u64::from_le_bytes(octets), expected);
        }
    }
}
