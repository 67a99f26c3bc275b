//! Numbers in either byte order.

/// Returns the number at `at`, which the caller has checked to be present.
#[inline]
pub(super) fn u32_at(octets: &[u8], at: usize, big_endian: bool) -> u32 {
    let number: [u8; 4] = std::array::from_fn(|i| octets[at + i]);
    if big_endian { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) }
}
