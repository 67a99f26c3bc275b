//! Headers and size of a source's frames.

use onbeat_wire::ethernet::{ADDRESSES_LEN, MIN_FRAME_LEN};
use onbeat_wire::{EtherType, MacAddress, VlanTag};

use super::stamp::{ETHERTYPE, MAX_PAYLOAD, STAMP_LEN, Stamp, pattern};

/// Maximum number of VLAN tags.
const MAX_VLANS: usize = 2;

/// Specification of a source's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN tags, outer first; at most two.
    pub vlans: Vec<VlanTag>,
    /// Frame size in octets, with Ethernet header and tags, without FCS.
    pub size: usize,
}

/// An invalid specification.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// Too short or too long.
    #[error("cannot send frames of size {size}: use {min} to {max} octets")]
    Size {
        /// The given size.
        size: usize,
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
    },
    /// Too many VLAN tags.
    #[error("too many VLAN tags: {0}; use {MAX_VLANS} at most")]
    Vlans(usize),
    /// A VLAN tag out of range.
    #[error("VLAN tag: {0}")]
    Vlan(#[from] onbeat_wire::EmitError),
}

impl FrameSpec {
    fn payload_offset(&self) -> usize {
        ADDRESSES_LEN + 4 * self.vlans.len() + 2
    }

    /// Builds a frame with an empty stamp; returns it with the offset of its payload.
    pub(crate) fn build(&self) -> Result<(Vec<u8>, usize), FrameError> {
        if self.vlans.len() > MAX_VLANS {
            return Err(FrameError::Vlans(self.vlans.len()));
        }
        let payload = self.payload_offset();
        let min = MIN_FRAME_LEN.max(payload + STAMP_LEN);
        let max = payload + MAX_PAYLOAD;
        if !(min..=max).contains(&self.size) {
            return Err(FrameError::Size { size: self.size, min, max });
        }
        let mut octets = Vec::with_capacity(self.size);
        octets.extend(self.destination.0);
        octets.extend(self.source.0);
        for tag in &self.vlans {
            let mut buffer = [0; 4];
            tag.emit(&mut buffer)?;
            octets.extend(buffer);
        }
        octets.extend(EtherType(ETHERTYPE).to_octets());
        octets.extend(&pattern()[..self.size - payload]);
        let none = Stamp { stream: 0, sequence: 0, intended_ns: 0, actual_ns: 0 };
        none.emit(&mut octets[payload..]);
        Ok((octets, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_wire::Frame;

    fn spec(vlans: &[u16], size: usize) -> FrameSpec {
        FrameSpec {
            destination: MacAddress([1, 0, 0x5e, 0, 0, 1]),
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            vlans: vlans.iter().map(|vid| VlanTag::new(*vid)).collect(),
            size,
        }
    }

    #[test]
    fn frames_can_be_decoded() {
        for vlans in [&[][..], &[10], &[20, 10]] {
            for size in [60, 64, 1000, 1514] {
                let spec = spec(vlans, size);
                let (octets, payload) = spec.build().unwrap();
                let frame = Frame::parse(&octets).unwrap();
                assert_eq!(octets.len(), size);
                assert_eq!((frame.destination(), frame.source()), (spec.destination, spec.source));
                assert_eq!(frame.vlans().collect::<Vec<_>>(), spec.vlans);
                assert_eq!(frame.payload_offset(), payload);
                assert_eq!(Stamp::parse(frame.payload()).unwrap().sequence, 0);
            }
        }
    }

    #[test]
    fn invalid_specifications_are_rejected() {
        assert_eq!(
            spec(&[], 59).build().unwrap_err().to_string(),
            "cannot send frames of size 59: use 60 to 9230 octets"
        );
        assert!(spec(&[1, 2], 60).build().is_ok());
        assert_eq!(spec(&[1, 2, 3], 100).build(), Err(FrameError::Vlans(3)));
        assert!(spec(&[4096], 100).build().unwrap_err().to_string().contains("4096"));
    }
}
