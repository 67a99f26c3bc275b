//! Which frames a NIC stamps by its own clock (linux/net_tstamp.h).

use super::Ethtool;
use super::ioctl::{HWTSTAMP_FILTER_ALL, StampConfig};
use crate::Result;

/// Which frames a NIC stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardwareStamps {
    /// Those sent for which the sender asked, and how: a number of `enum hwtstamp_tx_types`, of which 0
    /// is none.
    pub tx_type: i32,
    /// Those received: a number of `enum hwtstamp_rx_filters`.
    pub rx_filter: i32,
}

impl HardwareStamps {
    /// No received frame.
    pub const NONE: i32 = 0;
    /// Every received frame.
    pub const ALL: i32 = HWTSTAMP_FILTER_ALL as i32;

    /// Whether frames are stamped that are sent.
    #[must_use]
    pub fn transmits(&self) -> bool {
        self.tx_type != 0
    }
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
        Ok(HardwareStamps { tx_type: config.tx_type, rx_filter: config.rx_filter })
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
        let mut config = StampConfig::default();
        config.tx_type = stamps.tx_type;
        config.rx_filter = stamps.rx_filter;
        let operation = "set the hardware time stamping";
        self.call_by(libc::SIOCSHWTSTAMP, interface, operation, &mut config)?;
        Ok(HardwareStamps { tx_type: config.tx_type, rx_filter: config.rx_filter })
    }
}
