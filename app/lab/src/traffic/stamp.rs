//! The payload of a frame.
//!
//! ```text
//! "onbt" | stream 4 | sequence 8 | intended 8 | actual 8 | check 4 | pattern ...
//! ```
//!
//! Numbers are big-endian. The check covers the fields before it; the pattern, which depends on the
//! offset only, is compared octet by octet.

use std::sync::OnceLock;

use onbeat_wire::random::Random;

/// The EtherType of the lab's frames: for experiments (IEEE 802, 9.2.4).
pub const ETHERTYPE: u16 = 0x88b5;

/// Octets of a stamp.
pub const STAMP_LEN: usize = 36;

/// Maximum payload in octets.
pub(super) const MAX_PAYLOAD: usize = 9216;

const MAGIC: [u8; 4] = *b"onbt";

/// Number and transmission time of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its stream.
    pub stream: u32,
    /// Its number, from 0.
    pub sequence: u64,
    /// Due time (CLOCK_MONOTONIC, ns).
    pub intended_ns: u64,
    /// Time of passing it to the kernel (CLOCK_MONOTONIC, ns).
    pub actual_ns: u64,
}

/// An invalid payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampError {
    /// A foreign frame.
    Foreign,
    /// A frame of this lab that was corrupted or truncated in transit.
    Corrupted,
}

impl Stamp {
    /// Writes the stamp to the start of a payload, which has at least [`STAMP_LEN`] octets.
    pub fn emit(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&MAGIC);
        payload[4..8].copy_from_slice(&self.stream.to_be_bytes());
        payload[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&self.intended_ns.to_be_bytes());
        payload[24..32].copy_from_slice(&self.actual_ns.to_be_bytes());
        let check = check(&payload[..32]);
        payload[32..STAMP_LEN].copy_from_slice(&check.to_be_bytes());
    }

    /// Parses a payload with its pattern.
    ///
    /// # Errors
    /// The frame has another sender, or was changed.
    pub fn parse(payload: &[u8]) -> Result<Self, StampError> {
        if payload.get(..4) != Some(&MAGIC) {
            return Err(StampError::Foreign);
        }
        let (stamp, rest) = payload.split_at_checked(STAMP_LEN).ok_or(StampError::Corrupted)?;
        if u64::from(check(&stamp[..32])) != number(&stamp[32..])
            || pattern().get(STAMP_LEN..payload.len()) != Some(rest)
        {
            return Err(StampError::Corrupted);
        }
        Ok(Self {
            stream: number(&stamp[4..8]) as u32,
            sequence: number(&stamp[8..16]),
            intended_ns: number(&stamp[16..24]),
            actual_ns: number(&stamp[24..32]),
        })
    }
}

/// The fill pattern of payloads.
pub(super) fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut random = Random::new(0x6f6e_6265_6174);
        (0..MAX_PAYLOAD).map(|_| random.number() as u8).collect()
    })
}

/// The content of a payload of `len` octets, [`MAX_PAYLOAD`] at most, before its stamp is written.
pub(crate) fn filled(len: usize) -> &'static [u8] {
    &pattern()[..len]
}

fn number(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

/// Every bit of every word affects every bit of the result.
fn check(octets: &[u8]) -> u32 {
    let mixed = octets.chunks(8).fold(0_u64, |sum, word| {
        (sum ^ number(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    (mixed ^ (mixed >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(stamp: Stamp, len: usize) -> Vec<u8> {
        let mut payload = pattern()[..len].to_vec();
        stamp.emit(&mut payload);
        payload
    }

    #[test]
    fn foreign_frames_are_recognized() {
        assert_eq!(Stamp::parse(&[]), Err(StampError::Foreign));
        assert_eq!(Stamp::parse(b"onb"), Err(StampError::Foreign));
        assert_eq!(Stamp::parse(&[0; 100]), Err(StampError::Foreign));
        assert_eq!(Stamp::parse(b"onbt"), Err(StampError::Corrupted));
    }

    proptest! {
        #[test]
        fn a_payload_is_decoded_as_sent(
            stream: u32, sequence: u64, intended_ns: u64, actual_ns: u64,
            len in STAMP_LEN..=MAX_PAYLOAD,
        ) {
            let stamp = Stamp { stream, sequence, intended_ns, actual_ns };
            prop_assert_eq!(Stamp::parse(&payload(stamp, len)), Ok(stamp));
        }

        #[test]
        fn a_changed_bit_is_detected(
            sequence: u64, len in STAMP_LEN..200_usize, place: prop::sample::Index, bit in 0..8_u8,
        ) {
            let stamp = Stamp { stream: 1, sequence, intended_ns: 2, actual_ns: 3 };
            let mut payload = payload(stamp, len);
            payload[place.index(len)] ^= 1 << bit;
            prop_assert!(Stamp::parse(&payload).is_err());
        }
    }
}
