//! Frames of probes.

use onbeat_wire::stamp::{PACKET_LEN, PORT};

/// Octets of Ethernet, IPv4 and UDP headers.
pub(super) const AROUND: usize = 42;
/// Minimum size of a probe's frame in octets.
pub(super) const LEAST_OCTETS: usize = AROUND + PACKET_LEN;

/// A frame of a probe or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberedFrame {
    pub(super) sequence: u32,
    /// It is a reply of the reflector.
    pub(super) answer: bool,
}

/// The number of a probe or reply; `None`: another frame.
pub(super) fn sequence(frame: &[u8]) -> Option<NumberedFrame> {
    const IPV4: [u8; 2] = [8, 0];
    const NO_OPTIONS: u8 = 0x45;
    const UDP: u8 = 17;
    let is_udp =
        frame.get(12..14)? == IPV4 && *frame.get(14)? == NO_OPTIONS && *frame.get(23)? == UDP;
    let port = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (from, to) = (port(34)?, port(36)?);
    let number = frame.get(AROUND..AROUND + 4)?.try_into().ok().map(u32::from_be_bytes)?;
    let numbered = |answer| NumberedFrame { sequence: number, answer };
    match (is_udp, from == PORT, to == PORT) {
        (true, true, false) => Some(numbered(true)),
        (true, false, true) => Some(numbered(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_distinguished_from_other_frames() {
        let mut frame = [0; LEAST_OCTETS];
        assert_eq!(sequence(&frame), None);
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        frame[45] = 7;
        assert_eq!(sequence(&frame), Some(NumberedFrame { sequence: 7, answer: false }));
        assert_eq!(sequence(&frame[..45]), None);
        frame.copy_within(36..38, 34);
        assert_eq!(sequence(&frame), None, "from reflector to reflector");
        frame[37] = 0;
        assert_eq!(sequence(&frame), Some(NumberedFrame { sequence: 7, answer: true }));
        frame[23] = 6;
        assert_eq!(sequence(&frame), None);
    }
}
