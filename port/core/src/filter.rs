//! Filters that select the received frames for an automatic response.

use crate::{Error, Result};

/// A pattern and a mask for octets from the start of a frame.
///
/// The octets are those of [`crate::Port::octets`]: destination address first, without the outer VLAN tag. A frame
/// that is shorter than the filter does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filter {
    value: [u8; Filter::MAX_LEN],
    mask: [u8; Filter::MAX_LEN],
    len: u8,
}

impl Filter {
    /// Maximum length: Ethernet header, and the fields that identify a frame of an industrial protocol (POWERLINK:
    /// message type, destination and source node, 3 octets).
    pub const MAX_LEN: usize = 32;

    /// Creates a filter that matches frames whose first octets equal those of `value` under `mask`. Bits of `value`
    /// outside of the mask are ignored.
    ///
    /// # Errors
    /// [`Error::Filter`] if the two differ in length, are empty or longer than [`Filter::MAX_LEN`], or if the mask
    /// is all zeros: such a filter would match every frame.
    pub fn new(value: &[u8], mask: &[u8]) -> Result<Self> {
        let len = value.len();
        let refused = Error::Filter { len, max: Self::MAX_LEN };
        if len != mask.len() || len > Self::MAX_LEN || mask.iter().all(|octet| *octet == 0) {
            return Err(refused);
        }
        let mut filter =
            Self { value: [0; Self::MAX_LEN], mask: [0; Self::MAX_LEN], len: len as u8 };
        filter.mask[..len].copy_from_slice(mask);
        for (to, (value, mask)) in filter.value.iter_mut().zip(value.iter().zip(mask)) {
            *to = value & mask;
        }
        Ok(filter)
    }

    /// Returns true if `frame` matches the filter.
    #[must_use]
    pub fn matches(&self, frame: &[u8]) -> bool {
        let len = self.octets();
        frame.len() >= len
            && frame[..len]
                .iter()
                .zip(&self.mask)
                .zip(&self.value)
                .all(|((octet, mask), value)| octet & mask == *value)
    }

    /// The octets to match under [`Filter::mask`].
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value[..self.octets()]
    }

    /// The bits to compare.
    #[must_use]
    pub fn mask(&self) -> &[u8] {
        &self.mask[..self.octets()]
    }

    /// The number of octets that the filter compares.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.len.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_masks_and_invalid_lengths_are_refused() {
        for (value, mask) in
            [(&[][..], &[][..]), (&[1, 2], &[0, 0]), (&[1, 2], &[0xff]), (&[0; 33], &[0xff; 33])]
        {
            assert!(matches!(Filter::new(value, mask), Err(Error::Filter { .. })), "{value:?}");
        }
        assert!(Filter::new(&[0; 32], &[1; 32]).is_ok());
    }

    fn masked() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        (1..=Filter::MAX_LEN).prop_flat_map(|len| {
            let octets = proptest::collection::vec(any::<u8>(), len);
            (octets.clone(), octets)
                .prop_filter("some bit counts", |(_, mask)| mask.iter().any(|octet| *octet != 0))
        })
    }

    proptest! {
        #[test]
        fn only_the_bits_of_the_mask_are_compared(
            (value, mask) in masked(),
            tail in proptest::collection::vec(any::<u8>(), 0..40),
            noise in any::<[u8; 32]>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let filter = Filter::new(&value, &mask).unwrap();
            let mut frame: Vec<u8> = value
                .iter()
                .zip(&mask)
                .zip(noise)
                .map(|((value, mask), noise)| value & mask | noise & !mask)
                .collect();
            frame.extend(tail);
            prop_assert!(filter.matches(&frame));
            prop_assert!(!filter.matches(&frame[..value.len() - 1]));
            let bit = flip.index(8 * value.len());
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(filter.matches(&frame), mask[bit / 8] & 1 << (bit % 8) == 0);
        }

        #[test]
        fn any_frame_is_matched_without_panic(
            (value, mask) in masked(),
            frame in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let expected = frame.len() >= value.len()
                && (0..value.len()).all(|i| frame[i] & mask[i] == value[i] & mask[i]);
            prop_assert_eq!(Filter::new(&value, &mask).unwrap().matches(&frame), expected);
        }
    }
}
