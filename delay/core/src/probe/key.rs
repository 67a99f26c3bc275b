//! The key of authenticated sessions (RFC 8762 4.4).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use onbeat_wire::stamp::{AuthenticatedView, COVERED_LEN, HMAC_LEN};
use sha2::Sha256;

/// A key that both ends of a session have: packets that were made without it are told from those that
/// were made with it.
///
/// It says who made a packet, and that it is whole; not when: a packet that somebody repeats verifies
/// again. How keys get to where they are needed is no matter of the protocol.
#[derive(Clone)]
pub struct Key {
    /// With the key taken in already, so that a packet costs its own octets alone.
    hmac: Hmac<Sha256>,
}

impl Key {
    /// A key of these octets; `None` of no octets. RFC 4868 has keys of 32 octets; HMAC takes
    /// shorter ones, which are guessed the sooner, and longer ones, which are no better.
    pub fn new(octets: &[u8]) -> Option<Self> {
        if octets.is_empty() {
            return None;
        }
        Hmac::new_from_slice(octets).ok().map(|hmac| Key { hmac })
    }

    /// HMAC-SHA-256, cut to its first 128 bits.
    pub fn hmac(&self, covered: &[u8; COVERED_LEN]) -> [u8; HMAC_LEN] {
        let whole = self.hmac.clone().chain_update(covered).finalize().into_bytes();
        std::array::from_fn(|i| whole[i])
    }

    /// Whether a packet was made with this key, in a time that does not tell how wrong it is.
    pub fn verifies(&self, packet: &AuthenticatedView<'_>) -> bool {
        let hmac = self.hmac.clone().chain_update(packet.covered());
        hmac.verify_truncated_left(&packet.hmac()).is_ok()
    }
}

/// What is printed for debugging is no place for a key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_octets_and_is_not_shown() {
        assert!(Key::new(&[]).is_none());
        assert_eq!(format!("{:?}", Key::new(b"secret").unwrap()), "Key");
    }
}
