//! The key of authenticated sessions (RFC 8762 4.4).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use onbeat_wire::stamp::{AuthenticatedView, COVERED_LEN, HMAC_LEN};
use sha2::Sha256;

/// A key shared by both ends of a session: packets authenticated with it are distinguished from others.
///
/// It proves the origin and integrity of a packet, but not its freshness: a replayed packet verifies again. Key
/// distribution is outside of the protocol.
#[derive(Clone)]
pub struct Key {
    /// Initialized with the key, so that the cost per packet is that of its own octets.
    hmac: Hmac<Sha256>,
}

impl Key {
    /// Creates a key of these octets; `None` for no octets. RFC 4868 uses keys of 32 octets; HMAC accepts shorter
    /// ones, which are easier to guess, and longer ones, which are no stronger.
    pub fn new(octets: &[u8]) -> Option<Self> {
        if octets.is_empty() {
            return None;
        }
        Hmac::new_from_slice(octets).ok().map(|hmac| Key { hmac })
    }

    /// Computes HMAC-SHA-256, truncated to its first 128 bits.
    pub fn hmac(&self, covered: &[u8; COVERED_LEN]) -> [u8; HMAC_LEN] {
        let whole = self.hmac.clone().chain_update(covered).finalize().into_bytes();
        std::array::from_fn(|i| whole[i])
    }

    /// Verifies a packet's HMAC in constant time.
    pub fn verifies(&self, packet: &AuthenticatedView<'_>) -> bool {
        let hmac = self.hmac.clone().chain_update(packet.covered());
        hmac.verify_truncated_left(&packet.hmac()).is_ok()
    }
}

/// Debug output must not contain the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_key_is_refused_and_debug_output_omits_the_octets() {
        assert!(Key::new(&[]).is_none());
        assert_eq!(format!("{:?}", Key::new(b"secret").unwrap()), "Key");
    }
}
