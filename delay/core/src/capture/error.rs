use std::io;

use super::{LinkType, MAX_PACKET};

/// Interfaces of a section, and octets of the name of one: far more than any program writes. What is kept
/// of a file must not grow with it, and a few octets may stand for very many, compressed.
pub(super) const MAX_INTERFACES: usize = 65_536;
pub(super) const MAX_NAME: usize = 1024;

/// Why a file, or the rest of it, cannot be read as a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The input could not be read, or is not what its compression's magic number promised.
    #[error("cannot read the capture: {0}")]
    Read(#[from] io::Error),
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It begins with something else.
    #[error("not a pcap or pcapng file{}", began(.0))]
    NotACapture(Option<[u8; 4]>),
    /// A pcap of another time.
    #[error(
        "pcap version {0}.{1} is not supported: only 2.4 is; `editcap -F pcap` makes that of it"
    )]
    Version(u16, u16),
    /// A pcap variant whose records are laid out another way.
    #[error(
        "a pcap with records of Alexey Kuznetzov's layout; `editcap -F nsecpcap` makes a usual one"
    )]
    Kuznetzov,
    /// A record that no program would have written.
    #[error(
        "packet {number} at octet {position}: {what}: the file is damaged there; what comes \
         before it can be had with `editcap`"
    )]
    Damaged {
        /// The packet, or the one that would come next.
        number: u64,
        /// Where in the uncompressed file.
        position: u64,
        /// What is wrong.
        what: Damage,
    },
    /// Frames that are not Ethernet's, or none at all.
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
    /// A filter that does not apply to it.
    #[error("packet {number}: the filter does not apply: {reason}")]
    Filter {
        /// The packet.
        number: u64,
        /// Why.
        reason: String,
    },
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A length beyond any packet.
    #[error("a length of {0} octets, more than {MAX_PACKET}")]
    Length(u32),
    /// A fraction of a second that is a second or more.
    #[error("a fraction of a second of {0} units")]
    Fraction(u32),
    /// A pcapng block whose length is less than its parts, or not a multiple of four.
    #[error("a block of type {kind:#x} and length {len}")]
    Block {
        /// The block's type.
        kind: u32,
        /// The length it states.
        len: u32,
    },
    /// The two lengths of a pcapng block differ.
    #[error("a block that begins with length {0} and ends with {1}")]
    BlockEnd(u32, u32),
    /// A pcapng section header without a byte order.
    #[error("a section with byte-order magic {0:#x}")]
    ByteOrder(u32),
    /// A packet of an interface that was not described.
    #[error("interface {0}, which the section does not describe")]
    Interface(u32),
    /// More interfaces than a capture has.
    #[error("more than {MAX_INTERFACES} interfaces in one section")]
    Interfaces,
    /// An interface whose name no system gives.
    #[error("an interface's name of {0} octets, more than {MAX_NAME}")]
    Name(usize),
    /// A resolution that makes no nanoseconds.
    #[error("a time-stamp resolution of {0:#x}")]
    Resolution(u8),
    /// A time that does not fit 64 bits of nanoseconds.
    #[error("a time stamp beyond the year 2262")]
    Time,
}

fn began(magic: &Option<[u8; 4]>) -> String {
    match magic {
        Some([a, b, c, d]) => format!(": it begins with {a:02x} {b:02x} {c:02x} {d:02x}"),
        None => ": it is shorter than any header".into(),
    }
}
