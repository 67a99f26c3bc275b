//! The hello of a RedBox: a supervision frame to its stations, which ignore it. Other RedBoxes of this program there read
//! its last TLV, of a type that IEC 62439-3 does not assign.
//!
//! ```text
//! destination, source | EtherType | 0, version, number | TLV 20: source | TLV 30: source | TLV 200: state | end TLV
//! ```

use super::supervision;
use crate::{EtherType, MacAddress};

/// Type of the TLV with the state.
const STATE: u8 = 200;
/// Octets of the state.
const STATE_LEN: u8 = 1;

/// Bits of the state.
const IS_ON_LAN: u8 = 1;
const SERVES: u8 = 2;

/// Octets of addresses and EtherType.
const HEAD: usize = 14;
/// Place of the state, whose TLV is in place of the end TLV of a supervision frame.
const AT_STATE: usize = HEAD + supervision::MAX_LEN;

/// Octets of a hello.
pub const LEN: usize = AT_STATE + 3;

/// A hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The RedBox.
    pub sender: MacAddress,
    /// Its number.
    pub number: u16,
    /// Whether a LAN has brought frames lately.
    pub is_on_lan: bool,
    /// Whether it forwards.
    pub serves: bool,
}

impl Hello {
    /// Returns the frame.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..6].copy_from_slice(&supervision::DESTINATION.0);
        octets[6..12].copy_from_slice(&self.sender.0);
        octets[12..HEAD].copy_from_slice(&EtherType::PRP.to_octets());
        let content = supervision::Repr {
            path: 0,
            version: supervision::VERSION,
            sequence: self.number,
            kind: supervision::NodeKind::DuplicateDiscard,
            node: self.sender,
            redbox: Some(self.sender),
        };
        let written = content.emit(&mut octets[HEAD..]);
        debug_assert_eq!(written, Ok(supervision::MAX_LEN));
        octets[AT_STATE - 2..AT_STATE].copy_from_slice(&[STATE, STATE_LEN]);
        octets[AT_STATE] = u8::from(self.is_on_lan) * IS_ON_LAN + u8::from(self.serves) * SERVES;
        octets
    }

    /// Reads a frame; `None`: it is no hello. Padding may follow.
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let octets = octets.get(..LEN)?;
        let sender = MacAddress(octets[6..12].try_into().ok()?);
        let state = octets[AT_STATE];
        let number = u16::from_be_bytes([octets[16], octets[17]]);
        let hello =
            Self { sender, number, is_on_lan: state & IS_ON_LAN != 0, serves: state & SERVES != 0 };
        // The destination may have another last octet, and the state further bits.
        let mut expected = hello.emit();
        expected[5] = octets[5];
        expected[AT_STATE] = state;
        (sender.is_unicast() && octets == expected).then_some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_as_it_was_written_and_by_others_as_a_supervision_frame() {
        for (is_on_lan, serves) in [(false, false), (false, true), (true, false), (true, true)] {
            let sender = MacAddress([2, 0, 0, 0, 0, 7]);
            let hello = Hello { sender, number: 0x1234, is_on_lan, serves };
            let mut octets = hello.emit().to_vec();
            assert_eq!(Hello::parse(&octets), Some(hello));
            octets.resize(60, 0);
            assert_eq!(Hello::parse(&octets), Some(hello));
            let view = supervision::View::new_checked(&octets[14..]).unwrap();
            assert_eq!(
                (view.node(), view.redbox(), view.sequence()),
                (sender, Some(sender), 0x1234)
            );
        }
    }

    #[test]
    fn other_frames_are_no_hellos() {
        let sender = MacAddress([2, 0, 0, 0, 0, 7]);
        let sound = Hello { sender, number: 1, is_on_lan: true, serves: true }.emit();
        for at in 0..LEN {
            let mut octets = sound;
            octets[at] ^= 0x40;
            // The last octet of the destination, the number and unused bits of the state are free.
            let is_free = [5, 16, 17, AT_STATE].contains(&at);
            assert_eq!(Hello::parse(&octets).is_some(), is_free, "{at}");
            assert_eq!(Hello::parse(&sound[..at]), None);
        }
        let mut group = sound;
        for at in [6, 20, 28] {
            group[at] |= 1;
        }
        assert_eq!(Hello::parse(&group), None);
    }
}
