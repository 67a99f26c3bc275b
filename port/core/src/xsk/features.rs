//! Features that an interface provides to ports over AF_XDP.

use onbeat_netdev::{Namespace, NicClock};

use crate::clock;
use crate::{Capability, Clock, Feature, PortOptions};

pub(super) struct InterfaceFeatures {
    confirm: bool,
    clock: Clock,
    pub(super) nic_clock: Result<NicClock, String>,
}

impl InterfaceFeatures {
    pub(super) fn of(namespace: &Namespace, interface: &str, options: &PortOptions) -> Self {
        let nic_clock = clock::of_nic(namespace, interface);
        Self { confirm: options.confirm, clock: options.clock, nic_clock }
    }

    pub(super) fn capability(&self, feature: Feature, responds: bool) -> Capability {
        let none = |why: String, remedy: &'static str| Capability::None {
            why: why.into(),
            remedy: remedy.into(),
        };
        let emulated = |how: String| Capability::Emulated { how: how.into() };
        match feature {
            Feature::MulticastFilter => Capability::Native,
            Feature::ZeroCopyReceive if responds => emulated(
                "an answered frame is copied out of the driver's buffer, which the answer \
                 uses; others are read in the UMEM"
                    .into(),
            ),
            Feature::ZeroCopyReceive => Capability::Native,
            Feature::SendAt | Feature::SendEvery => {
                emulated(format!("this process sends when it is scheduled, by {}", self.clock))
            }
            Feature::Response if responds => Capability::Native,
            Feature::Response => {
                emulated("this process sends when it is scheduled and receives the frame".into())
            }
            Feature::Confirmation | Feature::TransmitStamp if !self.confirm => {
                none("it is disabled".into(), "open the port with confirmations")
            }
            Feature::Confirmation => emulated(
                "the driver has completed the frame, sent or not".to_owned()
                    + if responds { "; for a response, it was passed to the driver" } else { "" },
            ),
            Feature::TransmitStamp => emulated(
                "CLOCK_REALTIME when this process reads the completion".to_owned()
                    + if responds {
                        "; for a response, when it was passed to the driver"
                    } else {
                        ""
                    },
            ),
            Feature::ReceiveStamp => emulated(
                "the XDP program stamps with CLOCK_REALTIME, not the NIC; if the driver supports no \
                 metadata, this process when it receives the frame"
                    .into(),
            ),
            Feature::NicTime => match &self.nic_clock {
                Ok(_) => Capability::Native,
                Err(why) => none(why.clone(), "use a NIC for which ethtool -T shows a PTP clock"),
            },
        }
    }
}
