//! Energy-efficient Ethernet (IEEE 802.3az): a link that sleeps between frames, and requires microseconds to
//! wake up.

use super::{Ethtool, ioctl::CommandWords};
use crate::Result;

const ETHTOOL_GEEE: u32 = 0x44;
const ETHTOOL_SEEE: u32 = 0x45;
/// Words of `struct ethtool_eee`, including the command.
const WORDS: usize = 10;

/// The settings of energy-efficient Ethernet (`struct ethtool_eee`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnergyEfficient {
    /// Whether it is advertised to the link partner.
    pub enabled: bool,
    /// The speeds for which it is advertised (bits `ADVERTISED_*` of linux/ethtool.h).
    pub advertised: u32,
    /// Whether the transmitter sleeps when idle.
    pub tx_lpi_enabled: bool,
    /// Idle time before it sleeps, in microseconds.
    pub tx_lpi_timer_us: u32,
}

/// Positions of fields in the structure.
mod at {
    pub(super) const ADVERTISED: usize = 2;
    pub(super) const ENABLED: usize = 5;
    pub(super) const TX_LPI_ENABLED: usize = 6;
    pub(super) const TX_LPI_TIMER: usize = 7;
}

impl Ethtool {
    /// Returns the device's energy-efficient Ethernet.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`crate::Error::Unsupported`]: not supported by the device.
    pub fn energy_efficient(&self, interface: &str) -> Result<EnergyEfficient> {
        let CommandWords(words) = self.read_eee(interface)?;
        Ok(EnergyEfficient {
            enabled: words[at::ENABLED] != 0,
            advertised: words[at::ADVERTISED],
            tx_lpi_enabled: words[at::TX_LPI_ENABLED] != 0,
            tx_lpi_timer_us: words[at::TX_LPI_TIMER],
        })
    }

    /// Sets the device's energy-efficient Ethernet. A change renegotiates the link, which is down for
    /// seconds.
    ///
    /// # Errors
    /// Those of [`Ethtool::energy_efficient`]; the driver refuses a value.
    pub fn set_energy_efficient(&self, interface: &str, wanted: &EnergyEfficient) -> Result<()> {
        let mut request = self.read_eee(interface)?;
        let words = &mut request.0;
        words[0] = ETHTOOL_SEEE;
        words[at::ENABLED] = wanted.enabled.into();
        words[at::ADVERTISED] = wanted.advertised;
        words[at::TX_LPI_ENABLED] = wanted.tx_lpi_enabled.into();
        words[at::TX_LPI_TIMER] = wanted.tx_lpi_timer_us;
        let operation = format!("set energy-efficient Ethernet to {wanted:?}");
        self.call(interface, &operation, &mut request)?;
        Ok(())
    }

    fn read_eee(&self, interface: &str) -> Result<CommandWords> {
        let mut request = CommandWords(vec![0; WORDS]);
        request.0[0] = ETHTOOL_GEEE;
        self.call(interface, "read the energy-efficient Ethernet", &mut request)?;
        Ok(request)
    }
}
