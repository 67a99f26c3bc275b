use std::io;

use super::{LinkType, MAX_PACKET};

/// Maximum number of interfaces of a section, and of octets of an interface name: far more than any program writes.
/// Memory must not grow with the file, and a few compressed octets may expand to very many.
pub(super) const MAX_INTERFACES: usize = 65_536;
pub(super) const MAX_NAME: usize = 1024;

/// The error of a file that cannot be read, or read on, as a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The input could not be read, or is not of the format of its compression's magic number.
    #[error("cannot read the capture: {0}")]
    Read(#[from] io::Error),
    /// An empty file.
    #[error("the file is empty")]
    Empty,
    /// Another file format.
    #[error("not a pcap or pcapng file{}", began(.0))]
    NotACapture(Option<[u8; 4]>),
    /// A pcap of another version.
    #[error("pcap version {0}.{1} is not supported; convert it to 2.4 with `editcap -F pcap`")]
    Version(u16, u16),
    /// A pcap variant with another record layout.
    #[error(
        "pcap records of Alexey Kuznetzov's layout are not supported; convert them with `editcap -F nsecpcap`"
    )]
    Kuznetzov,
    /// An invalid record.
    #[error(
        "packet {number} at octet {position}: {what}: the file is damaged there; extract the \
         packets before it with `editcap`"
    )]
    Damaged {
        /// The packet, or the next one.
        number: u64,
        /// The position in the uncompressed file.
        position: u64,
        /// The damage.
        what: Damage,
    },
    /// A link type other than Ethernet, raw IP and Linux cooked.
    #[error(
        "packet {number} is of link type {link}; packets are matched in captures of Ethernet, raw \
         IP and Linux cooked"
    )]
    Link {
        /// The packet.
        number: u64,
        /// Its link type.
        link: LinkType,
    },
    /// A filter that does not apply to the packet.
    #[error("packet {number}: the filter does not apply: {reason}")]
    Filter {
        /// The packet.
        number: u64,
        /// The reason.
        reason: String,
    },
}

/// The damage of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A length beyond that of any packet.
    #[error("length of {0} octets exceeds {MAX_PACKET}")]
    Length(u32),
    /// A fraction of a second that is a second or more.
    #[error("fraction of {0} units is a second or more")]
    Fraction(u32),
    /// A pcapng block whose length is less than that of its parts, or not a multiple of four.
    #[error("invalid length {len} of a block of type {kind:#x}")]
    Block {
        /// The block's type.
        kind: u32,
        /// The length it states.
        len: u32,
    },
    /// The two lengths of a pcapng block differ.
    #[error("lengths of a block differ: {0} at its start, {1} at its end")]
    BlockEnd(u32, u32),
    /// A pcapng section header without a byte order.
    #[error("unknown byte-order magic {0:#x} of a section")]
    ByteOrder(u32),
    /// A packet of an interface without a description.
    #[error("interface {0} is not described in its section")]
    Interface(u32),
    /// Too many interfaces.
    #[error("a section describes more than {MAX_INTERFACES} interfaces")]
    Interfaces,
    /// An interface name beyond the limit.
    #[error("interface name of {0} octets exceeds {MAX_NAME}")]
    Name(usize),
    /// A resolution that cannot be converted to nanoseconds.
    #[error("time-stamp resolution {0:#x} cannot be converted to nanoseconds")]
    Resolution(u8),
    /// A time that exceeds 64 bits of nanoseconds.
    #[error("time stamp is beyond the year 2262")]
    Time,
}

fn began(magic: &Option<[u8; 4]>) -> String {
    match magic {
        Some([a, b, c, d]) => format!(": its first octets are {a:02x} {b:02x} {c:02x} {d:02x}"),
        None => ": it is shorter than any header".into(),
    }
}
