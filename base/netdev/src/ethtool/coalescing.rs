//! How long a device holds an interrupt back, in the hope of more to tell by it.

use super::{Ethtool, ioctl::Words};
use crate::Result;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
/// Words of `struct ethtool_coalesce`, the command among them.
const WORDS: usize = 23;

/// The part of interrupt coalescing that delays a frame at low load (`struct ethtool_coalesce`).
///
/// A driver shows 0 for what it does not have. Its documentation says what 0 means where it has it:
/// of the times, "at once"; of the numbers of frames, mostly "do not count".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coalescing {
    /// The driver changes the times of reception by itself.
    pub adaptive_rx: bool,
    /// The driver changes the times of transmission by itself.
    pub adaptive_tx: bool,
    /// Longest wait after a received frame, in microseconds.
    pub rx_usecs: u32,
    /// Received frames after which it waits no longer.
    pub rx_frames: u32,
    /// Longest wait after a transmitted frame, in microseconds.
    pub tx_usecs: u32,
    /// Transmitted frames after which it waits no longer.
    pub tx_frames: u32,
}

impl Coalescing {
    /// Whether an interrupt may be held back: for a time, or for more than one frame.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.adaptive_rx
            || self.adaptive_tx
            || self.rx_usecs > 0
            || self.tx_usecs > 0
            || self.rx_frames > 1
            || self.tx_frames > 1
    }
}

/// Where in the structure each stands.
mod at {
    pub(super) const RX_USECS: usize = 1;
    pub(super) const RX_FRAMES: usize = 2;
    pub(super) const TX_USECS: usize = 5;
    pub(super) const TX_FRAMES: usize = 6;
    pub(super) const ADAPTIVE_RX: usize = 10;
    pub(super) const ADAPTIVE_TX: usize = 11;
}

impl Ethtool {
    /// The device's interrupt coalescing.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; [`crate::Error::Unsupported`] where the driver has none.
    pub fn coalescing(&self, interface: &str) -> Result<Coalescing> {
        let Words(words) = self.read_coalescing(interface)?;
        Ok(Coalescing {
            adaptive_rx: words[at::ADAPTIVE_RX] != 0,
            adaptive_tx: words[at::ADAPTIVE_TX] != 0,
            rx_usecs: words[at::RX_USECS],
            rx_frames: words[at::RX_FRAMES],
            tx_usecs: words[at::TX_USECS],
            tx_frames: words[at::TX_FRAMES],
        })
    }

    /// Sets the device's interrupt coalescing; what [`Coalescing`] does not name stays.
    ///
    /// # Errors
    /// As [`Ethtool::coalescing`]; the driver's refusal of a value, often EINVAL.
    pub fn set_coalescing(&self, interface: &str, wanted: &Coalescing) -> Result<()> {
        let mut request = self.read_coalescing(interface)?;
        let words = &mut request.0;
        words[0] = ETHTOOL_SCOALESCE;
        words[at::ADAPTIVE_RX] = wanted.adaptive_rx.into();
        words[at::ADAPTIVE_TX] = wanted.adaptive_tx.into();
        words[at::RX_USECS] = wanted.rx_usecs;
        words[at::RX_FRAMES] = wanted.rx_frames;
        words[at::TX_USECS] = wanted.tx_usecs;
        words[at::TX_FRAMES] = wanted.tx_frames;
        self.call(interface, &format!("set interrupt coalescing to {wanted:?}"), &mut request)?;
        Ok(())
    }

    fn read_coalescing(&self, interface: &str) -> Result<Words> {
        let mut request = Words(vec![0; WORDS]);
        request.0[0] = ETHTOOL_GCOALESCE;
        self.call(interface, "read the interrupt coalescing", &mut request)?;
        Ok(request)
    }
}
