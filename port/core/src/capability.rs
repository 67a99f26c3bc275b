//! What a back end can do on an interface, and how honestly.

use std::borrow::Cow;
use std::fmt;

use crate::{Backend, Error, Result};

/// What a port may be asked for beyond sending and receiving frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Frames to unwanted multicast addresses do not reach user space.
    MulticastFilter,
    /// Received frames are read where the kernel put them.
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
    /// All of them, in the order of the table that `onbeat doctor` shows.
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

/// How a back end provides a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// By the NIC or the kernel: once asked for, it happens without this process running.
    Native,
    /// By this process, or by something less exact than the name promises. `how` says what the
    /// difference is.
    Emulated {
        /// What is done instead.
        how: Cow<'static, str>,
    },
    /// Not at all: the request is refused.
    None {
        /// What is lacking.
        why: Cow<'static, str>,
        /// What provides it.
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

/// What one back end can do on one interface.
#[derive(Debug, Clone)]
pub struct Capabilities {
    interface: String,
    backend: Backend,
    of: [Capability; Feature::ALL.len()],
}

impl Capabilities {
    /// Asks `of` for each feature.
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

    /// How a feature is provided.
    #[must_use]
    pub fn get(&self, feature: Feature) -> &Capability {
        &self.of[feature as usize]
    }

    /// Each feature, and how it is provided.
    pub fn iter(&self) -> impl Iterator<Item = (Feature, &Capability)> {
        Feature::ALL.into_iter().zip(&self.of)
    }

    /// That the feature is there, native or emulated.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn require(&self, feature: Feature) -> Result<()> {
        match self.get(feature) {
            Capability::Native | Capability::Emulated { .. } => Ok(()),
            Capability::None { why, remedy } => Err(self.refusal(feature, why, remedy)),
        }
    }

    /// That the feature is there, and no emulation.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which says what the emulation would be.
    pub fn require_native(&self, feature: Feature) -> Result<()> {
        match self.get(feature) {
            Capability::Native => Ok(()),
            Capability::Emulated { how } => Err(self.refusal(
                feature,
                &format!("it is emulated: {how}"),
                "do with the emulation, or take a back end that has it natively",
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
                Capability::None { why: "no clock".into(), remedy: "take a NIC with one".into() }
            }
            _ => Capability::Native,
        })
    }

    #[test]
    fn features_stand_where_their_numbers_say() {
        for (i, feature) in Feature::ALL.into_iter().enumerate() {
            assert_eq!(feature as usize, i, "{feature}");
        }
    }

    #[test]
    fn emulation_is_taken_only_where_it_may_be() {
        let has = mixed();
        assert!(has.require(Feature::SendAt).is_ok());
        let refusal = has.require_native(Feature::SendAt).unwrap_err().to_string();
        assert!(refusal.contains("it is emulated: by a timer"), "{refusal}");
        assert!(has.require_native(Feature::SendEvery).is_ok());
    }

    #[test]
    fn a_refusal_names_the_thing_and_the_way_out() {
        assert_eq!(
            mixed().require(Feature::NicTime).unwrap_err().to_string(),
            "interface \"eth0\": back end packet has no NIC time: no clock; take a NIC with one"
        );
    }
}
