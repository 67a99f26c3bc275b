//! Features that an interface provides to a packet port.

use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Ethtool, Namespace, NicClock};

use crate::clock;
use crate::txtime::Txtime;
use crate::{Capability, Clock, Feature, PortOptions};

/// Features of the interface.
pub(super) struct InterfaceFeatures {
    confirm: bool,
    /// The driver stamps transmitted frames, or the NIC is enabled to.
    pub(super) tx_stamps: bool,
    /// Enabled NIC time stamps.
    pub(super) stamps: HardwareStamps,
    txtime: Option<Txtime>,
    clock: Clock,
    pub(super) nic_clock: std::result::Result<NicClock, String>,
}

impl InterfaceFeatures {
    pub(super) fn of(
        namespace: &Namespace,
        interface: &str,
        options: &PortOptions,
        txtime: Option<Txtime>,
    ) -> Self {
        let ethtool = Ethtool::in_namespace(namespace);
        let stamps = ethtool.as_ref().ok().and_then(|e| e.hardware_stamps(interface).ok());
        let stamping = ethtool
            .and_then(|ethtool| ethtool.timestamping(interface))
            .map_err(|error| error.to_string());
        // Drivers without them refuse the query.
        let stamps = stamps.unwrap_or_default();
        let nic_clock = match &stamping {
            Err(error) => Err(error.clone()),
            Ok(stamping) => clock::of_number(stamping.phc),
        };
        Self {
            confirm: options.confirm,
            tx_stamps: stamps.tx || stamping.is_ok_and(|stamping| stamping.tx_software),
            stamps,
            txtime,
            clock: options.clock,
            nic_clock,
        }
    }

    fn launches(&self, feature: Feature) -> Capability {
        let how = match &self.txtime {
            None => format!("this process sends when it is scheduled, by {}", self.clock),
            Some(txtime) if feature == Feature::SendEvery => txtime.cyclic(),
            Some(txtime) => match txtime.inexact() {
                Some(how) => how.into(),
                None => return Capability::Native,
            },
        };
        Capability::Emulated { how: how.into() }
    }

    pub(super) fn capability(&self, feature: Feature) -> Capability {
        let none = |why: String, remedy: &'static str| Capability::None {
            why: why.into(),
            remedy: remedy.into(),
        };
        let software = |who: &str| Capability::Emulated {
            how: format!("{who} stamps with CLOCK_REALTIME, not the NIC").into(),
        };
        match feature {
            Feature::MulticastFilter | Feature::ZeroCopyReceive => Capability::Native,
            Feature::SendAt | Feature::SendEvery => self.launches(feature),
            Feature::Response => Capability::Emulated {
                how: "this process sends when it is scheduled and receives the frame".into(),
            },
            Feature::Confirmation | Feature::TransmitStamp if !self.confirm => {
                none("it is disabled".into(), "open the port with confirmations")
            }
            Feature::Confirmation | Feature::TransmitStamp if !self.tx_stamps => none(
                "the driver provides no transmit time stamps".into(),
                "use a NIC for which ethtool -T shows software-transmit",
            ),
            Feature::TransmitStamp if !self.stamps.tx => software("the driver"),
            Feature::ReceiveStamp if self.stamps.rx_filter != HardwareStamps::ALL => {
                software("the stack")
            }
            Feature::Confirmation | Feature::TransmitStamp | Feature::ReceiveStamp => {
                Capability::Native
            }
            Feature::NicTime => match &self.nic_clock {
                Ok(_) => Capability::Native,
                Err(why) => none(why.clone(), "use a NIC for which ethtool -T shows a PTP clock"),
            },
        }
    }
}
