//! Features that a back end provides on an interface, native or emulated.

use std::borrow::Cow;
use std::fmt;

use crate::{Backend, Error, Result};

/// A feature of a port beyond sending and receiving frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Frames to other multicast addresses do not reach user space.
    MulticastFilter,
    /// Received frames are read from the kernel's buffer, without a copy.
    ZeroCopyReceive,
    /// [`crate::Port::send_at`].
    SendAt,
    /// [`crate::Port::send_every`].
    SendEvery,
    /// Sent frames are confirmed.
    Confirmation,
    /// Confirmations carry the time of transmission.
    TransmitStamp,
    /// Received frames carry the time of reception.
    ReceiveStamp,
    /// [`crate::Port::respond`].
    Response,
    /// [`crate::Port::nic_time`].
    NicTime,
}

impl Feature {
    /// All features, in the order of the table of `onbeat doctor`.
    pub const ALL: [Feature; 9] = [
        Feature::MulticastFilter,
        Feature::ZeroCopyReceive,
        Feature::SendAt,
        Feature::SendEvery,
        Feature::Confirmation,
        Feature::TransmitStamp,
        Feature::ReceiveStamp,
        Feature::Response,
        Feature::NicTime,
    ];
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::MulticastFilter => "multicast filter",
            Feature::ZeroCopyReceive => "zero-copy receive",
            Feature::SendAt => "transmission at a time",
            Feature::SendEvery => "cyclic transmission",
            Feature::Confirmation => "transmit confirmation",
            Feature::TransmitStamp => "transmit time stamp",
            Feature::ReceiveStamp => "receive time stamp",
            Feature::Response => "automatic response",
            Feature::NicTime => "NIC time",
        })
    }
}

/// The method by which a back end provides a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// By the NIC or the kernel: once configured, it works without this process.
    Native,
    /// By this process, or with less precision than the name implies; `how` states the difference.
    Emulated {
        /// The method of emulation.
        how: Cow<'static, str>,
    },
    /// Not supported: the request is refused.
    None {
        /// The missing requirement.
        why: Cow<'static, str>,
        /// The remedy.
        remedy: Cow<'static, str>,
    },
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capability::Native => f.write_str("native"),
            Capability::Emulated { how } => write!(f, "emulated: {how}"),
            Capability::None { why, remedy } => write!(f, "none: {why}; {remedy}"),
        }
    }
}

/// The capabilities of one back end on one interface.
#[derive(Debug, Clone)]
pub struct Capabilities {
    interface: String,
    backend: Backend,
    of: [Capability; Feature::ALL.len()],
}

impl Capabilities {
    /// Evaluates `of` for each feature.
    pub(crate) fn new(
        backend: Backend,
        interface: &str,
        of: impl FnMut(Feature) -> Capability,
    ) -> Self {
        Self { interface: interface.to_owned(), backend, of: Feature::ALL.map(of) }
    }

    /// The back end.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the capability for a feature.
    #[must_use]
    pub fn get(&self, feature: Feature) -> &Capability {
        &self.of[feature as usize]
    }

    /// Iterates over each feature and its capability.
    pub fn iter(&self) -> impl Iterator<Item = (Feature, &Capability)> {
        Feature::ALL.into_iter().zip(&self.of)
    }

    /// Checks that the feature is native or emulated.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn require(&self, feature: Feature) -> Result<()> {
        match self.get(feature) {
            Capability::Native | Capability::Emulated { .. } => Ok(()),
            Capability::None { why, remedy } => Err(self.refusal(feature, why, remedy)),
        }
    }

    /// Checks that the feature is native.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the emulation if there is one.
    pub fn require_native(&self, feature: Feature) -> Result<()> {
        match self.get(feature) {
            Capability::Native => Ok(()),
            Capability::Emulated { how } => Err(self.refusal(
                feature,
                &format!("only by emulation ({how})"),
                "accept the emulation, or use a back end that supports it natively",
            )),
            Capability::None { why, remedy } => Err(self.refusal(feature, why, remedy)),
        }
    }

    fn refusal(&self, feature: Feature, why: &str, remedy: &str) -> Error {
        Error::Unsupported {
            interface: self.interface.clone(),
            backend: self.backend,
            feature,
            why: why.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Capabilities {
        Capabilities::new(Backend::Packet, "eth0", |feature| match feature {
            Feature::SendAt => Capability::Emulated { how: "by a timer".into() },
            Feature::NicTime => {
                Capability::None { why: "no clock".into(), remedy: "use a NIC with one".into() }
            }
            _ => Capability::Native,
        })
    }

    #[test]
    fn features_are_indexed_by_their_numbers() {
        for (i, feature) in Feature::ALL.into_iter().enumerate() {
            assert_eq!(feature as usize, i, "{feature}");
        }
    }

    #[test]
    fn emulation_is_accepted_only_if_allowed() {
        let has = mixed();
        assert!(has.require(Feature::SendAt).is_ok());
        let refusal = has.require_native(Feature::SendAt).unwrap_err().to_string();
        assert!(refusal.contains("only by emulation (by a timer)"), "{refusal}");
        assert!(has.require_native(Feature::SendEvery).is_ok());
    }

    #[test]
    fn a_refusal_names_the_interface_and_the_remedy() {
        assert_eq!(
            mixed().require(Feature::NicTime).unwrap_err().to_string(),
            "interface \"eth0\": back end packet has no NIC time: no clock; use a NIC with one"
        );
    }
}
