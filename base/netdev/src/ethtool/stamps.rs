//! Which frames a NIC stamps by its own clock (linux/net_tstamp.h).

use super::Ethtool;
use super::ioctl::{HWTSTAMP_FILTER_ALL, StampConfig};
use crate::Result;

/// Which frames a NIC stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardwareStamps {
    /// Those sent for which the sender asked; how (by PTP's one-step synchronisation, say) is left as it
    /// is where they are already.
    pub tx: bool,
    /// Those received: a number of `enum hwtstamp_rx_filters`.
    pub rx_filter: i32,
}

impl HardwareStamps {
    /// No received frame.
    pub const NONE: i32 = 0;
    /// Every received frame.
    pub const ALL: i32 = HWTSTAMP_FILTER_ALL as i32;
}

impl Ethtool {
    /// Which frames the NIC stamps at present.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; [`crate::Error::Unsupported`] of a driver without such stamps.
    pub fn hardware_stamps(&self, interface: &str) -> Result<HardwareStamps> {
        let mut config = StampConfig::default();
        let operation = "read the hardware time stamping";
        self.call_by(libc::SIOCGHWTSTAMP, interface, operation, &mut config)?;
        Ok(HardwareStamps { tx: config.tx_type != 0, rx_filter: config.rx_filter })
    }

    /// Has the NIC stamp these frames, for whoever uses the interface; what it then does, which may
    /// be more.
    ///
    /// # Errors
    /// As [`Ethtool::hardware_stamps`]; the driver's refusal of a filter.
    pub fn set_hardware_stamps(
        &self,
        interface: &str,
        stamps: HardwareStamps,
    ) -> Result<HardwareStamps> {
        let mut now = StampConfig::default();
        // Some old drivers can be told and not asked: then it is as if none were stamped.
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

/// A number of `enum hwtstamp_tx_types` that stamps or does not, and is not another one needlessly: more
/// than one stamps.
fn tx_type(wanted: bool, now: i32) -> i32 {
    if wanted && now != 0 { now } else { wanted.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_frames_are_stamped_that_are_sent_is_left_as_it_is() {
        // HWTSTAMP_TX_OFF, HWTSTAMP_TX_ON, HWTSTAMP_TX_ONESTEP_SYNC.
        for (wanted, now, then) in [(true, 0, 1), (true, 1, 1), (true, 2, 2), (false, 2, 0)] {
            assert_eq!(tx_type(wanted, now), then, "{wanted} {now}");
        }
    }
}
