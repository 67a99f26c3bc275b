//! IdentResponse: identification of a node (EPSG DS 301, 7.3.3.2).

use core::fmt;
use core::net::Ipv4Addr;

use super::octets::{array, bit, bits, put, u16_at, u32_at, u64_at};
use super::{EplVersion, Links, NmtState, SendRequest};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const FLAGS: usize = 4;
    pub(super) const SIGNAL: usize = 5;
    pub(super) const STATE: usize = 6;
    pub(super) const VERSION: usize = 8;
    pub(super) const FEATURES: usize = 10;
    pub(super) const MTU: usize = 14;
    pub(super) const POLL_IN: usize = 16;
    pub(super) const POLL_OUT: usize = 18;
    pub(super) const RESPONSE_TIME: usize = 20;
    pub(super) const DEVICE_TYPE: usize = 26;
    pub(super) const VENDOR: usize = 30;
    pub(super) const PRODUCT: usize = 34;
    pub(super) const REVISION: usize = 38;
    pub(super) const SERIAL: usize = 42;
    pub(super) const VENDOR_EXTENSION_1: usize = 46;
    pub(super) const CONFIGURATION_DATE: usize = 54;
    pub(super) const CONFIGURATION_TIME: usize = 58;
    pub(super) const SOFTWARE_DATE: usize = 62;
    pub(super) const SOFTWARE_TIME: usize = 66;
    pub(super) const ADDRESS: usize = 70;
    pub(super) const MASK: usize = 74;
    pub(super) const GATEWAY: usize = 78;
    pub(super) const HOST_NAME: usize = 82;
    pub(super) const VENDOR_EXTENSION_2: usize = 114;
    pub(super) const END: usize = 162;
}

/// Octets of an IdentResponse.
pub(super) const LEN: usize = field::END;

const WHAT: &str = "POWERLINK IdentResponse";

/// A DNS host name, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostName(pub [u8; 32]);

impl HostName {
    /// Returns the name without padding.
    pub fn octets(&self) -> &[u8] {
        let len = self.0.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        self.0.get(..len).unwrap_or_default()
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.octets().escape_ascii())
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Identity and features of a node: its response to an IdentRequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdentResponse<'a> {
    /// EN.
    pub exception_new: bool,
    /// EC.
    pub exception_clear: bool,
    /// Status of the node's links.
    pub links: Links,
    /// Frames that the node requests to send.
    pub request: SendRequest,
    /// State of the node.
    pub state: NmtState,
    /// Its version of POWERLINK.
    pub version: EplVersion,
    /// Its features (0x1F82).
    pub features: u32,
    /// Maximum length of an asynchronous frame, in octets after the EtherType (0x1F98/8).
    pub mtu: u16,
    /// Payload octets of its PReq (0x1F98/4).
    pub poll_in_size: u16,
    /// Payload octets of its PRes (0x1F98/5).
    pub poll_out_size: u16,
    /// Maximum time from PReq to PRes, in nanoseconds (0x1F98/3).
    pub response_time_ns: u32,
    /// 0x1000.
    pub device_type: u32,
    /// 0x1018/1.
    pub vendor_id: u32,
    /// 0x1018/2.
    pub product_code: u32,
    /// 0x1018/3.
    pub revision_number: u32,
    /// 0x1018/4.
    pub serial_number: u32,
    /// Defined by the vendor.
    pub vendor_extension_1: u64,
    /// Date of its configuration (0x1020/1), in days since 1984-01-01.
    pub configuration_date: u32,
    /// Time of its configuration (0x1020/2), in milliseconds since midnight.
    pub configuration_time: u32,
    /// Date of its application software (0x1F52/1).
    pub software_date: u32,
    /// Time of its application software (0x1F52/2).
    pub software_time: u32,
    /// Its IP address.
    pub address: Ipv4Addr,
    /// The mask of its network.
    pub mask: Ipv4Addr,
    /// Its gateway.
    pub gateway: Ipv4Addr,
    /// Its name (0x1F9A).
    pub host_name: HostName,
    /// Defined by the vendor.
    pub vendor_extension_2: &'a [u8; 48],
}

impl<'a> IdentResponse<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (message, _) = split::<LEN>(WHAT, octets)?;
        let (vendor_extension_2, _) = split(WHAT, &message[field::VENDOR_EXTENSION_2..])?;
        // Addresses are little-endian numbers, so the last part of an address is first.
        let address = |at| Ipv4Addr::from(u32_at(message, at));
        Ok(IdentResponse {
            exception_new: bit(message[field::FLAGS], 4),
            exception_clear: bit(message[field::FLAGS], 3),
            links: Links::from_octet(message[field::SIGNAL]),
            request: SendRequest::from_octet(message[field::SIGNAL]),
            state: NmtState(message[field::STATE]),
            version: EplVersion(message[field::VERSION]),
            features: u32_at(message, field::FEATURES),
            mtu: u16_at(message, field::MTU),
            poll_in_size: u16_at(message, field::POLL_IN),
            poll_out_size: u16_at(message, field::POLL_OUT),
            response_time_ns: u32_at(message, field::RESPONSE_TIME),
            device_type: u32_at(message, field::DEVICE_TYPE),
            vendor_id: u32_at(message, field::VENDOR),
            product_code: u32_at(message, field::PRODUCT),
            revision_number: u32_at(message, field::REVISION),
            serial_number: u32_at(message, field::SERIAL),
            vendor_extension_1: u64_at(message, field::VENDOR_EXTENSION_1),
            configuration_date: u32_at(message, field::CONFIGURATION_DATE),
            configuration_time: u32_at(message, field::CONFIGURATION_TIME),
            software_date: u32_at(message, field::SOFTWARE_DATE),
            software_time: u32_at(message, field::SOFTWARE_TIME),
            address: address(field::ADDRESS),
            mask: address(field::MASK),
            gateway: address(field::GATEWAY),
            host_name: HostName(array(message, field::HOST_NAME)),
            vendor_extension_2,
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let signal = self.links.octet() | self.request.octet()?;
        let message = room::<LEN>(WHAT, buffer)?;
        message[4..].fill(0);
        message[field::FLAGS] = bits([(4, self.exception_new), (3, self.exception_clear)]);
        message[field::SIGNAL] = signal;
        message[field::STATE] = self.state.0;
        message[field::VERSION] = self.version.0;
        for (at, value) in [
            (field::MTU, self.mtu),
            (field::POLL_IN, self.poll_in_size),
            (field::POLL_OUT, self.poll_out_size),
        ] {
            put(message, at, value.to_le_bytes());
        }
        for (at, value) in [
            (field::FEATURES, self.features),
            (field::RESPONSE_TIME, self.response_time_ns),
            (field::DEVICE_TYPE, self.device_type),
            (field::VENDOR, self.vendor_id),
            (field::PRODUCT, self.product_code),
            (field::REVISION, self.revision_number),
            (field::SERIAL, self.serial_number),
            (field::CONFIGURATION_DATE, self.configuration_date),
            (field::CONFIGURATION_TIME, self.configuration_time),
            (field::SOFTWARE_DATE, self.software_date),
            (field::SOFTWARE_TIME, self.software_time),
            (field::ADDRESS, self.address.into()),
            (field::MASK, self.mask.into()),
            (field::GATEWAY, self.gateway.into()),
        ] {
            put(message, at, value.to_le_bytes());
        }
        put(message, field::VENDOR_EXTENSION_1, self.vendor_extension_1.to_le_bytes());
        put(message, field::HOST_NAME, self.host_name.0);
        put(message, field::VENDOR_EXTENSION_2, *self.vendor_extension_2);
        Ok(())
    }
}

impl fmt::Display for IdentResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IdentResponse {} device {:#010x} vendor {:#010x} \"{}\" {}",
            self.state, self.device_type, self.vendor_id, self.host_name, self.request
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_host_name_ends_with_its_last_letter() {
        let mut name = HostName([0; 32]);
        assert_eq!(name.to_string(), "");
        name.0[..3].copy_from_slice(b"a\0b");
        assert_eq!(name.octets(), b"a\0b");
        assert_eq!(std::format!("{name:?}"), "\"a\\x00b\"");
        name.0 = [b'x'; 32];
        assert_eq!(name.octets(), [b'x'; 32]);
    }
}
