//! Capture reader: pcap and pcapng, either byte order, micro- and nanoseconds, gzip and zstd.
//!
//! A packet is borrowed from the reader's buffer: nothing is copied, and memory does not grow with the file. A file
//! that ends within a record yields all records before it, and is reported as cut off ([`Reader::cut_off`]).

mod blocks;
mod buffer;
mod compression;
mod error;
mod ng;
mod octets;
mod pcap;
mod write;

use std::io::Read;

use buffer::Buffer;

pub use compression::decompress;
pub use error::{CaptureError, Damage};
pub use write::{PcapngWriter, Writer};

/// Maximum packet length in octets; the limit of libpcap. A larger length indicates a damaged file.
pub const MAX_PACKET: u32 = 262_144;

/// The type of a packet's first header, by tcpdump's list of link types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = LinkType(1);
    /// An IPv4 or IPv6 header (LINKTYPE_RAW).
    pub const RAW_IP: Self = LinkType(101);
    /// Packet sockets of Linux on all interfaces (LINKTYPE_LINUX_SLL).
    pub const LINUX_SLL: Self = LinkType(113);
    /// The same, version 2 (LINKTYPE_LINUX_SLL2).
    pub const LINUX_SLL2: Self = LinkType(276);
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            0 => "BSD loopback",
            1 => "Ethernet",
            101 => "raw IP",
            105 => "802.11",
            113 => "Linux cooked",
            127 => "802.11 with radiotap",
            220 | 249 => "USB",
            227 => "CAN",
            276 => "Linux cooked 2",
            other => return write!(f, "{other}"),
        };
        write!(f, "{} ({name})", self.0)
    }
}

/// The direction of a packet at the capturing interface, if the capture records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the file, starting at 1, as in other programs.
    pub number: u64,
    /// The time stamp, in nanoseconds since the epoch of the capture's clock.
    pub time_ns: i64,
    /// The interface in a pcapng file, in order of the file; 0 in pcap.
    pub interface: u32,
    /// The name of the interface, if the file contains one: pcapng.
    pub interface_name: Option<&'a str>,
    /// The direction, if the file contains it.
    pub direction: Option<Direction>,
    /// The type of its first header.
    pub link: LinkType,
    /// Octets on the wire, FCS not included.
    pub wire_len: u32,
    /// The captured octets, without FCS; fewer than `wire_len` if the capture truncated them.
    pub octets: &'a [u8],
}

/// The position of a packet in the buffer, and its metadata. The format's decoder returns it, so that the borrow of
/// the octets starts only after decoding.
struct Record {
    time_ns: i64,
    interface: u32,
    direction: Option<Direction>,
    link: LinkType,
    wire_len: u32,
    /// Octets of the buffer before the packet, and of the packet.
    start: usize,
    len: usize,
}

enum Format {
    Pcap(pcap::Decoder),
    Ng(ng::Decoder),
}

/// Reads a capture packet by packet.
pub struct Reader<R> {
    buffer: Buffer<R>,
    format: Format,
    packets: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header of an uncompressed capture; use [`decompress`] for the others.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut buffer = Buffer::new(input);
        buffer.peek(4)?;
        let magic = match *buffer.remaining() {
            [] => return Err(CaptureError::Empty),
            [a, b, c, d, ..] => [a, b, c, d],
            _ => return Err(CaptureError::NotACapture(None)),
        };
        let format = if magic == blocks::MAGIC {
            Format::Ng(ng::Decoder::new())
        } else {
            Format::Pcap(pcap::Decoder::new(magic, &mut buffer)?)
        };
        Ok(Reader { buffer, format, packets: 0 })
    }

    /// Returns the next packet; `None` at the end of the file.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let record = match &mut self.format {
            Format::Pcap(decoder) => decoder.next(&mut self.buffer)?,
            Format::Ng(decoder) => decoder.next(&mut self.buffer)?,
        };
        let Some(record) = record else { return Ok(None) };
        self.packets += 1;
        Ok(Some(Packet {
            number: self.packets,
            time_ns: record.time_ns,
            interface: record.interface,
            interface_name: self.interface_name(record.interface),
            direction: record.direction,
            link: record.link,
            wire_len: record.wire_len,
            octets: self.buffer.taken(record.start, record.len),
        }))
    }

    /// Returns true if the file ended within a record, as it does if a capture was killed or is still being
    /// written.
    pub fn cut_off(&self) -> bool {
        self.buffer.cut_off()
    }

    /// The number of skipped blocks of a pcapng file that hold a packet without a time stamp.
    pub fn without_time(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::Ng(decoder) => decoder.without_time(),
        }
    }

    /// The number of packets that the capture dropped, by the statistics at the end of a pcapng file.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::Ng(decoder) => decoder.dropped(),
        }
    }

    /// The unit of time stamps in the file, in nanoseconds; the largest of all interfaces so far.
    pub fn unit_ns(&self) -> u32 {
        match &self.format {
            Format::Pcap(decoder) => decoder.unit_ns(),
            Format::Ng(decoder) => decoder.unit_ns(),
        }
    }

    /// The position in the uncompressed file, for progress reports.
    pub fn position(&self) -> u64 {
        self.buffer.position()
    }
}

impl<R> Reader<R> {
    /// The number of interfaces that the section of a pcapng file has described so far; none in a pcap file.
    pub fn interfaces(&self) -> u32 {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::Ng(decoder) => decoder.interfaces(),
        }
    }

    /// The name of a pcapng file's interface.
    #[inline]
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        match &self.format {
            Format::Pcap(_) => None,
            Format::Ng(decoder) => decoder.interface_name(interface),
        }
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("packets", &self.packets).finish_non_exhaustive()
    }
}
