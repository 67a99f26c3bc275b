//! What an interface offers to ports over AF_XDP.

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
                "a frame that was answered is copied out of the driver's buffer, which the answer \
                 takes; others are read in the UMEM"
                    .into(),
            ),
            Feature::ZeroCopyReceive => Capability::Native,
            Feature::SendAt | Feature::SendEvery => {
                emulated(format!("this process sends when it runs, by {}", self.clock))
            }
            Feature::Response if responds => Capability::Native,
            Feature::Response => {
                emulated("this process sends when it runs and sees the frame".into())
            }
            Feature::Confirmation | Feature::TransmitStamp if !self.confirm => {
                none("it was turned off".into(), "open the port with confirmations")
            }
            Feature::Confirmation => emulated(
                "the driver is done with the frame, be it sent or not".to_owned()
                    + if responds { "; of a response, that it was handed to the driver" } else { "" },
            ),
            Feature::TransmitStamp => emulated(
                "CLOCK_REALTIME when this process sees that the driver is done".to_owned()
                    + if responds { "; of a response, when it was handed to the driver" } else { "" },
            ),
            Feature::ReceiveStamp => emulated(
                "the XDP program stamps by CLOCK_REALTIME, not the NIC; where the driver carries no \
                 metadata, this process when it sees the frame"
                    .into(),
            ),
            Feature::NicTime => match &self.nic_clock {
                Ok(_) => Capability::Native,
                Err(why) => none(why.clone(), "take a NIC for which ethtool -T shows a PTP clock"),
            },
        }
    }
}
