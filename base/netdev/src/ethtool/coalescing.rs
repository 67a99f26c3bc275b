//! Interrupt coalescing: the delay of interrupts by a device, to signal more frames with one interrupt.

use super::{Ethtool, ioctl::CommandWords};
use crate::Result;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
/// Words of `struct ethtool_coalesce`, including the command.
const WORDS: usize = 23;

/// The part of interrupt coalescing that delays a frame at low load (`struct ethtool_coalesce`).
///
/// A driver reports 0 for unsupported parameters. For supported ones its documentation defines 0: for times,
/// "immediately"; for numbers of frames, mostly "not counted".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coalescing {
    /// Whether the driver adapts the times of reception.
    pub adaptive_rx: bool,
    /// Whether the driver adapts the times of transmission.
    pub adaptive_tx: bool,
    /// Maximum delay after a received frame, in microseconds.
    pub rx_usecs: u32,
    /// Maximum number of received frames per interrupt.
    pub rx_frames: u32,
    /// Maximum delay after a transmitted frame, in microseconds.
    pub tx_usecs: u32,
    /// Maximum number of transmitted frames per interrupt.
    pub tx_frames: u32,
}

impl Coalescing {
    /// Returns whether an interrupt may be delayed: for a time, or for more than one frame.
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

/// Positions of fields in the structure.
mod at {
    pub(super) const RX_USECS: usize = 1;
    pub(super) const RX_FRAMES: usize = 2;
    pub(super) const TX_USECS: usize = 5;
    pub(super) const TX_FRAMES: usize = 6;
    pub(super) const ADAPTIVE_RX: usize = 10;
    pub(super) const ADAPTIVE_TX: usize = 11;
}

impl Ethtool {
    /// Returns the device's interrupt coalescing.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`crate::Error::Unsupported`]: not supported by the driver.
    pub fn coalescing(&self, interface: &str) -> Result<Coalescing> {
        let CommandWords(words) = self.read_coalescing(interface)?;
        Ok(Coalescing {
            adaptive_rx: words[at::ADAPTIVE_RX] != 0,
            adaptive_tx: words[at::ADAPTIVE_TX] != 0,
            rx_usecs: words[at::RX_USECS],
            rx_frames: words[at::RX_FRAMES],
            tx_usecs: words[at::TX_USECS],
            tx_frames: words[at::TX_FRAMES],
        })
    }

    /// Sets the device's interrupt coalescing; parameters that are not in [`Coalescing`] stay.
    ///
    /// # Errors
    /// Those of [`Ethtool::coalescing`]; the driver refuses a value, often with EINVAL.
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

    fn read_coalescing(&self, interface: &str) -> Result<CommandWords> {
        let mut request = CommandWords(vec![0; WORDS]);
        request.0[0] = ETHTOOL_GCOALESCE;
        self.call(interface, "read the interrupt coalescing", &mut request)?;
        Ok(request)
    }
}
