//! Hardware time stamping of a NIC (linux/net_tstamp.h).

use super::Ethtool;
use super::ioctl::{HWTSTAMP_FILTER_ALL, StampConfig};
use crate::Result;

/// The frames that a NIC stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardwareStamps {
    /// Sent frames for which the sender requests it. The method (such as PTP's one-step synchronization) is
    /// kept if already enabled.
    pub tx: bool,
    /// Received frames: a number of `enum hwtstamp_rx_filters`.
    pub rx_filter: i32,
}

impl HardwareStamps {
    /// No received frame.
    pub const NONE: i32 = 0;
    /// Every received frame.
    pub const ALL: i32 = HWTSTAMP_FILTER_ALL as i32;
}

impl Ethtool {
    /// Returns the frames that the NIC stamps at present.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`crate::Error::Unsupported`]: not supported by the driver.
    pub fn hardware_stamps(&self, interface: &str) -> Result<HardwareStamps> {
        let mut config = StampConfig::default();
        let operation = "read the hardware time stamping";
        self.call_by(libc::SIOCGHWTSTAMP, interface, operation, &mut config)?;
        Ok(HardwareStamps { tx: config.tx_type != 0, rx_filter: config.rx_filter })
    }

    /// Makes the NIC stamp these frames, for all users of the interface; returns the resulting setting, which
    /// may include more frames.
    ///
    /// # Errors
    /// Those of [`Ethtool::hardware_stamps`]; the driver refuses a filter.
    pub fn set_hardware_stamps(
        &self,
        interface: &str,
        stamps: HardwareStamps,
    ) -> Result<HardwareStamps> {
        let mut now = StampConfig::default();
        // Some old drivers support setting and not reading: assume that none were stamped.
        let operation = "read the hardware time stamping";
        let _ = self.call_by(libc::SIOCGHWTSTAMP, interface, operation, &mut now);
        let mut config = StampConfig::default();
        config.tx_type = tx_type(stamps.tx, now.tx_type);
        config.rx_filter = stamps.rx_filter;
        let operation = "set the hardware time stamping";
        self.call_by(libc::SIOCSHWTSTAMP, interface, operation, &mut config)?;
        Ok(HardwareStamps { tx: config.tx_type != 0, rx_filter: config.rx_filter })
    }
}

/// Returns a number of `enum hwtstamp_tx_types` that stamps or does not, and keeps the current one if
/// possible: more than one stamps.
fn tx_type(wanted: bool, now: i32) -> i32 {
    if wanted && now != 0 { now } else { wanted.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_of_transmit_time_stamps_is_kept() {
        // HWTSTAMP_TX_OFF, HWTSTAMP_TX_ON, HWTSTAMP_TX_ONESTEP_SYNC.
        for (wanted, now, then) in [(true, 0, 1), (true, 1, 1), (true, 2, 2), (false, 2, 0)] {
            assert_eq!(tx_type(wanted, now), then, "{wanted} {now}");
        }
    }
}
