//! The counters of a device.

use netlink_packet_route::link::{LinkAttribute, LinkMessage};

/// The standard counters of a device (`rtnl_link_stats64`). Counting of frames that XDP processes depends on
/// the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub struct Statistics {
    pub rx_packets: u64,
    pub tx_packets: u64,
    /// Octets, without the FCS.
    pub rx_bytes: u64,
    /// Octets, without the FCS.
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Received correctly and dropped for lack of room.
    pub rx_dropped: u64,
    /// Dropped before transmission.
    pub tx_dropped: u64,
    pub multicast: u64,
    pub collisions: u64,
    pub rx_length_errors: u64,
    pub rx_crc_errors: u64,
    pub rx_fifo_errors: u64,
    /// Frames dropped by the device itself for lack of room.
    pub rx_missed_errors: u64,
    pub tx_carrier_errors: u64,
    pub tx_fifo_errors: u64,
    /// Received, but no protocol handled it.
    pub rx_nohandler: u64,
}

impl Statistics {
    pub(super) fn of(message: &LinkMessage) -> Option<Self> {
        let stats = message.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(stats),
            _ => None,
        })?;
        Some(Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            multicast: stats.multicast,
            collisions: stats.collisions,
            rx_length_errors: stats.rx_length_errors,
            rx_crc_errors: stats.rx_crc_errors,
            rx_fifo_errors: stats.rx_fifo_errors,
            rx_missed_errors: stats.rx_missed_errors,
            tx_carrier_errors: stats.tx_carrier_errors,
            tx_fifo_errors: stats.tx_fifo_errors,
            rx_nohandler: stats.rx_nohandler,
        })
    }
}
