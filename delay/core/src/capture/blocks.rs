//! Block and option types of pcapng, shared by its reader and writer.

/// The type of a section header, the same in either byte order.
pub(super) const MAGIC: [u8; 4] = 0x0a0d_0d0a_u32.to_be_bytes();

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;

pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;

pub(super) mod option {
    pub(in crate::capture) const END: u16 = 0;
    pub(in crate::capture) const IF_NAME: u16 = 2;
    pub(in crate::capture) const IF_TSRESOL: u16 = 9;
    pub(in crate::capture) const IF_FCSLEN: u16 = 13;
    pub(in crate::capture) const IF_TSOFFSET: u16 = 14;
    pub(in crate::capture) const EPB_FLAGS: u16 = 2;
    pub(in crate::capture) const ISB_IFDROP: u16 = 5;
    pub(in crate::capture) const ISB_OSDROP: u16 = 7;
}
