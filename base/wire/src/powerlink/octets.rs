//! Little-endian numbers at fixed positions of a message.

/// Returns `N` octets at `at`, which the caller's layout contains.
pub(super) fn array<const N: usize>(octets: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| octets[at + i])
}

pub(super) fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(octets, at))
}

pub(super) fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(octets, at))
}

pub(super) fn u64_at(octets: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(octets, at))
}

/// Writes `value`, already in wire order, to `at`.
pub(super) fn put<const N: usize>(octets: &mut [u8], at: usize, value: [u8; N]) {
    octets[at..at + N].copy_from_slice(&value);
}

/// Returns the octet with the bits set that have `true`.
pub(super) fn bits<const N: usize>(flags: [(u8, bool); N]) -> u8 {
    flags.into_iter().filter(|(_, set)| *set).fold(0, |octet, (bit, _)| octet | 1 << bit)
}

/// Returns whether a bit is set.
pub(super) fn bit(octet: u8, number: u8) -> bool {
    octet >> number & 1 == 1
}
