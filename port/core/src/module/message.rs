//! Netlink messages, written into and read from memory that is allocated once.

/// `struct nlmsghdr` and `struct genlmsghdr`.
const HEADERS: usize = 20;
const NLMSG_HEADER: usize = 16;
/// `struct nlattr`: length, type.
const ATTRIBUTE: usize = 4;
/// The bits of an attribute's type that are not part of its number.
const TYPE_MASK: u16 = 0x3fff;

/// A request being written.
#[derive(Debug)]
pub(super) struct Request<'a>(&'a mut Vec<u8>);

impl<'a> Request<'a> {
    /// Starts a request in `memory`.
    pub(super) fn new(
        memory: &'a mut Vec<u8>,
        family: u16,
        command: u8,
        version: u8,
        sequence: u32,
    ) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        memory.clear();
        memory.extend([0; 4]);
        memory.extend(family.to_ne_bytes());
        memory.extend(flags.to_ne_bytes());
        memory.extend(sequence.to_ne_bytes());
        memory.extend([0; 4]);
        memory.extend([command, version, 0, 0]);
        Self(memory)
    }

    pub(super) fn octets(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = (ATTRIBUTE + value.len()) as u16;
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.octets(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.octets(kind, &value.to_ne_bytes())
    }

    /// Returns the whole message.
    pub(super) fn finish(&mut self) -> &[u8] {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// A command of the family, with its attributes.
    Command { command: u8, attributes: Attributes<'a> },
    /// The result of request `sequence`: 0 or an error number, and the kernel's message.
    Verdict { sequence: u32, errno: i32, detail: &'a str },
}

/// The messages of a datagram; an invalid one ends the iteration.
#[derive(Debug)]
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let octets = std::mem::take(&mut self.0);
        let len = read_u32(octets, 0)? as usize;
        let message = octets.get(..len)?;
        self.0 = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
        let kind = read_u16(message, 4)?;
        if i32::from(kind) == libc::NLMSG_ERROR {
            return verdict(message);
        }
        let command = *message.get(NLMSG_HEADER)?;
        Some(Message::Command { command, attributes: Attributes(message.get(HEADERS..)?) })
    }
}

fn verdict(message: &[u8]) -> Option<Message<'_>> {
    /// `NLMSGERR_ATTR_MSG`
    const SENTENCE: u16 = 1;
    let sequence = read_u32(message, 8)?;
    let errno = -(read_u32(message, NLMSG_HEADER)? as i32);
    // The request's header follows; its body does not, because of NETLINK_CAP_ACK.
    let attributes = Attributes(message.get(2 * NLMSG_HEADER + 4..).unwrap_or_default());
    let detail = attributes.get(SENTENCE).unwrap_or_default();
    let detail = std::str::from_utf8(detail).unwrap_or_default().trim_end_matches('\0');
    Some(Message::Verdict { sequence, errno, detail })
}

/// Attributes by type; an invalid one ends the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Attributes<'a> {
    /// Returns the first attribute of that type.
    pub(super) fn get(self, kind: u16) -> Option<&'a [u8]> {
        let mut attributes = self;
        attributes.find_map(|(found, value)| (found == kind).then_some(value))
    }

    /// Returns a number of 32 bits.
    pub(super) fn u32(self, kind: u16) -> Option<u32> {
        read_u32(self.get(kind)?, 0)
    }

    /// Returns a number of 16 bits.
    pub(super) fn u16(self, kind: u16) -> Option<u16> {
        read_u16(self.get(kind)?, 0)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let octets = std::mem::take(&mut self.0);
        let len = usize::from(read_u16(octets, 0)?);
        let kind = read_u16(octets, 2)? & TYPE_MASK;
        let value = octets.get(ATTRIBUTE..len)?;
        self.0 = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn read_u32(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

fn read_u16(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Vec<u8> {
        let mut memory = Vec::new();
        let mut request = Request::new(&mut memory, 30, 5, 1, 7);
        request.u32(2, 0x0102_0304).octets(11, b"frame").u64(12, 99).finish();
        memory
    }

    #[test]
    fn a_written_request_is_decoded() {
        let written = request();
        let datagram = [&written[..], &written].concat();
        let read: Vec<_> = Messages(&datagram).collect();
        assert_eq!(read.len(), 2);
        for message in read {
            let Message::Command { command: 5, attributes } = message else {
                panic!("{message:?}");
            };
            assert_eq!(attributes.count(), 3);
            assert_eq!(attributes.u32(2), Some(0x0102_0304));
            assert_eq!(attributes.get(11), Some(&b"frame"[..]));
            assert_eq!(attributes.get(12), Some(&99_u64.to_ne_bytes()[..]));
            assert_eq!(attributes.get(13), None);
        }
    }

    #[test]
    fn a_refusal_is_read_with_its_message() {
        let mut memory = Vec::new();
        Request::new(&mut memory, libc::NLMSG_ERROR as u16, 0, 0, 7);
        memory.truncate(NLMSG_HEADER);
        memory.extend((-libc::EBUSY).to_ne_bytes());
        memory.extend([0; NLMSG_HEADER]);
        Request(&mut memory).octets(1, b"taken\0").finish();
        let read = Messages(&memory).next();
        let expected = Message::Verdict { sequence: 7, errno: libc::EBUSY, detail: "taken" };
        assert_eq!(read, Some(expected));
    }

    proptest! {
        #[test]
        fn any_octets_are_decoded_without_panic(octets in proptest::collection::vec(any::<u8>(), 0..128)) {
            for message in Messages(&octets) {
                if let Message::Command { attributes, .. } = message {
                    prop_assert!(attributes.count() <= octets.len());
                }
            }
        }

        #[test]
        fn a_truncated_or_changed_message_is_not_read_beyond_its_end(
            cut in 0..80_usize,
            place in any::<prop::sample::Index>(),
            octet in any::<u8>(),
        ) {
            let mut octets = request();
            let place = place.index(octets.len());
            octets[place] = octet;
            octets.truncate(cut);
            for message in Messages(&octets) {
                if let Message::Command { attributes, .. } = message {
                    prop_assert!(attributes.count() <= octets.len());
                }
            }
        }
    }
}
