//! PTP management messages (IEEE 1588-2019, 15): GET, and responses as ptp4l of linuxptp sends them.

use core::fmt;

use crate::bytes::{be16, room};
use crate::{EmitError, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const MESSAGE_TYPE: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const LENGTH: Range<usize> = 2..4;
    pub(super) const SOURCE: usize = 20;
    pub(super) const SEQUENCE: Range<usize> = 30..32;
    pub(super) const CONTROL: usize = 32;
    pub(super) const INTERVAL: usize = 33;
    pub(super) const TARGET: Range<usize> = 34..44;
    pub(super) const ACTION: usize = 46;
    pub(super) const TLV_TYPE: Range<usize> = 48..50;
    pub(super) const TLV_LENGTH: Range<usize> = 50..52;
    pub(super) const ID: Range<usize> = 52..54;
    pub(super) const DATA: usize = 54;
}

const WHAT: &str = "PTP management message";

/// Octets of a GET.
pub const GET_LEN: usize = field::DATA;

/// `messageType`, `versionPTP`, `controlField` and `logMessageInterval` of a management message.
const MANAGEMENT: u8 = 0x0d;
const VERSION: u8 = 2;
const CONTROL: u8 = 4;
const NO_INTERVAL: u8 = 0x7f;

/// `actionField` of a response.
const RESPONSE: u8 = 2;

/// `tlvType` of data, and of an error.
const MANAGEMENT_TLV: u16 = 1;
const ERROR_TLV: u16 = 2;

/// Bit of `timePropertiesDS`: the time is that of PTP (TAI), not an arbitrary one.
const PTP_TIMESCALE: u8 = 8;

/// Data that a GET requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManagementId {
    /// `CURRENT_DATA_SET`.
    CurrentDataSet,
    /// `TIME_PROPERTIES_DATA_SET`.
    TimeProperties,
    /// `TIME_STATUS_NP` of linuxptp.
    TimeStatus,
    /// `PORT_PROPERTIES_NP` of linuxptp: every port responds.
    PortProperties,
}

impl ManagementId {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::PortProperties, Self::TimeStatus, Self::CurrentDataSet, Self::TimeProperties];

    /// Its number.
    pub const fn number(self) -> u16 {
        match self {
            Self::CurrentDataSet => 0x2001,
            Self::TimeProperties => 0x2003,
            Self::TimeStatus => 0xc000,
            Self::PortProperties => 0xc004,
        }
    }
}

/// Identity of a clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClockIdentity(pub [u8; 8]);

/// As pmc prints it.
impl fmt::Display for ClockIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, octet) in self.0.iter().enumerate() {
            let dot = if at == 3 || at == 5 { "." } else { "" };
            write!(f, "{dot}{octet:02x}")?;
        }
        Ok(())
    }
}

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortState {
    /// Not initialized.
    Initializing,
    /// With a fault.
    Faulty,
    /// Disabled.
    Disabled,
    /// Without a master so far.
    Listening,
    /// Becomes a master.
    PreMaster,
    /// Sends the time.
    Master,
    /// Another port sends the time.
    Passive,
    /// Follows a master; its servo is not locked.
    Uncalibrated,
    /// Follows a master; its servo is locked.
    Slave,
    /// Not a state of the standard.
    Other(u8),
}

impl From<u8> for PortState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Initializing,
            2 => Self::Faulty,
            3 => Self::Disabled,
            4 => Self::Listening,
            5 => Self::PreMaster,
            6 => Self::Master,
            7 => Self::Passive,
            8 => Self::Uncalibrated,
            9 => Self::Slave,
            number => Self::Other(number),
        }
    }
}

/// As pmc prints it.
impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initializing => "INITIALIZING",
            Self::Faulty => "FAULTY",
            Self::Disabled => "DISABLED",
            Self::Listening => "LISTENING",
            Self::PreMaster => "PRE_MASTER",
            Self::Master => "MASTER",
            Self::Passive => "PASSIVE",
            Self::Uncalibrated => "UNCALIBRATED",
            Self::Slave => "SLAVE",
            Self::Other(number) => return write!(f, "state {number}"),
        })
    }
}

/// Data of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagementData<'a> {
    /// Distance to the grandmaster.
    Current {
        /// Number of paths to it.
        steps_removed: u16,
        /// Mean delay of the path to the master, in nanoseconds.
        path_delay_ns: i64,
    },
    /// Timescale.
    TimeProperties {
        /// TAI minus UTC, in seconds.
        utc_offset_s: i16,
        /// Whether the time is TAI; otherwise that of an arbitrary epoch, mostly UTC.
        is_tai: bool,
    },
    /// State of the clock.
    TimeStatus {
        /// Time of the clock minus that of its master, in nanoseconds.
        offset_ns: i64,
        /// Time of receipt of the last Sync message, in nanoseconds.
        ingress_ns: i64,
        /// The clock that it follows; none: itself.
        grandmaster: Option<ClockIdentity>,
    },
    /// A port.
    Port {
        /// Its state.
        state: PortState,
        /// Whether the NIC makes its time stamps.
        is_hardware: bool,
        /// Name of its interface.
        interface: &'a str,
    },
}

/// A response to a GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The clock that responds.
    pub source: ClockIdentity,
    /// Number of the GET.
    pub sequence: u16,
    /// Its data.
    pub data: ManagementData<'a>,
}

/// Octets that are no response with known data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// The message, or its data, is truncated.
    Truncated(TruncationError),
    /// A field has another value.
    Other {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u16,
    },
    /// The clock refuses the request.
    Refused {
        /// Its `managementErrorId`.
        error: u16,
    },
    /// The name of an interface is not UTF-8.
    Name,
}

impl From<TruncationError> for ResponseError {
    fn from(error: TruncationError) -> Self {
        Self::Truncated(error)
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(error) => error.fmt(f),
            Self::Other { field, value } => {
                write!(f, "no response to a PTP management request: {field} is {value:#x}")
            }
            Self::Refused { error } => write!(f, "the clock refuses: management error {error:#x}"),
            Self::Name => f.write_str("name of an interface is not UTF-8"),
        }
    }
}

impl core::error::Error for ResponseError {}

/// A GET for all ports of the clock that receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get {
    /// The requested data.
    pub id: ManagementId,
    /// Its number.
    pub sequence: u16,
}

impl Get {
    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        GET_LEN
    }

    /// Writes the message to the start of `buffer`; returns its length. No clock forwards it: its `boundaryHops` are 0.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let message = room::<GET_LEN>(WHAT, buffer)?;
        message.fill(0);
        message[field::MESSAGE_TYPE] = MANAGEMENT;
        message[field::VERSION] = VERSION;
        message[field::LENGTH].copy_from_slice(&(GET_LEN as u16).to_be_bytes());
        message[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        message[field::CONTROL] = CONTROL;
        message[field::INTERVAL] = NO_INTERVAL;
        message[field::TARGET].fill(0xff);
        message[field::TLV_TYPE].copy_from_slice(&MANAGEMENT_TLV.to_be_bytes());
        message[field::TLV_LENGTH].copy_from_slice(&2u16.to_be_bytes());
        message[field::ID].copy_from_slice(&self.id.number().to_be_bytes());
        Ok(GET_LEN)
    }
}

impl<'a> Response<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// It is truncated, no response, or has other data.
    pub fn parse(octets: &'a [u8]) -> Result<Self, ResponseError> {
        let header: &[u8; GET_LEN] = first(octets)?;
        let be = |field: core::ops::Range<usize>| be16(header, field.start).unwrap_or_default();
        let expect = |field, value: u16, expected: u16| {
            if value == expected { Ok(()) } else { Err(ResponseError::Other { field, value }) }
        };
        // The upper halves of these octets have other fields.
        let low = |at: usize| u16::from(header[at] & 0xf);
        expect("messageType", low(field::MESSAGE_TYPE), MANAGEMENT.into())?;
        expect("versionPTP", low(field::VERSION), VERSION.into())?;
        expect("actionField", low(field::ACTION), RESPONSE.into())?;
        let tlv = be(field::TLV_TYPE);
        if tlv == ERROR_TLV {
            return Err(ResponseError::Refused { error: be(field::ID) });
        }
        expect("tlvType", tlv, MANAGEMENT_TLV)?;
        let end = field::TLV_LENGTH.end + usize::from(be(field::TLV_LENGTH));
        let length = usize::from(be(field::LENGTH)).min(octets.len());
        let data = octets[..length].get(field::DATA..end).ok_or(truncated(end, length))?;
        let mut source = [0; 8];
        source.copy_from_slice(&header[field::SOURCE..field::SOURCE + 8]);
        Ok(Self {
            source: ClockIdentity(source),
            sequence: be(field::SEQUENCE),
            data: ManagementData::parse(be(field::ID), data)?,
        })
    }
}

impl<'a> ManagementData<'a> {
    fn parse(id: u16, data: &'a [u8]) -> Result<Self, ResponseError> {
        let Some(id) = ManagementId::ALL.into_iter().find(|known| known.number() == id) else {
            return Err(ResponseError::Other { field: "managementId", value: id });
        };
        Ok(match id {
            ManagementId::CurrentDataSet => {
                let data: &[u8; 18] = first(data)?;
                // Scaled by 2^16.
                let path_delay_ns = be64(data, 10) >> 16;
                let steps_removed = u16::from_be_bytes([data[0], data[1]]);
                Self::Current { steps_removed, path_delay_ns }
            }
            ManagementId::TimeProperties => {
                let data: &[u8; 4] = first(data)?;
                let utc_offset_s = i16::from_be_bytes([data[0], data[1]]);
                Self::TimeProperties { utc_offset_s, is_tai: data[2] & PTP_TIMESCALE != 0 }
            }
            ManagementId::TimeStatus => {
                let data: &[u8; 50] = first(data)?;
                let is_present = data[38..42] != [0; 4];
                let identity = ClockIdentity(be64(data, 42).to_be_bytes());
                Self::TimeStatus {
                    offset_ns: be64(data, 0),
                    ingress_ns: be64(data, 8),
                    grandmaster: is_present.then_some(identity),
                }
            }
            ManagementId::PortProperties => {
                let head: &[u8; 13] = first(data)?;
                let end = head.len() + usize::from(head[12]);
                let name = data.get(head.len()..end).ok_or(truncated(end, data.len()))?;
                Self::Port {
                    state: head[10].into(),
                    is_hardware: head[11] != 0,
                    interface: core::str::from_utf8(name).map_err(|_| ResponseError::Name)?,
                }
            }
        })
    }
}

fn truncated(needed: usize, len: usize) -> TruncationError {
    TruncationError { what: WHAT, needed, len }
}

fn first<const N: usize>(octets: &[u8]) -> Result<&[u8; N], TruncationError> {
    octets.first_chunk().ok_or(truncated(N, octets.len()))
}

/// The number at `at` of sufficient octets.
fn be64(octets: &[u8], at: usize) -> i64 {
    octets.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |octets| i64::from_be_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    /// Responses of ptp4l 3.1.1 (Debian 12) with software time stamps, and what pmc prints of them.
    const PORT: &str = "0d0200480000000000000000000000000000000032009dfffef7905b00010007047f00000000000000000000000002000001\
        0014c00432009dfffef7905b00010900046270763100";
    const TIME_STATUS: &str = "0d0200680000000000000000000000000000000032009dfffef7905b00000007047f000000000000000000000000\
        020000010034c000fffffffffffffd3e18ecb98505ebfb6200000000000000000000000000000000000000000000000000012ef6d5fffeced65e";
    const CURRENT: &str = "0d0200480000000000000000000000000000000032009dfffef7905b00000007047f000000000000000000000000\
        02000001001420010001fffffffffd3e00000000000009eb0000";
    const TIME_PROPERTIES: &str = "0d02003a0000000000000000000000000000000032009dfffef7905b00000007047f000000000000000000000000\
        0200000100062003002500a0";

    fn octets(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.bytes().filter_map(|c| char::from(c).to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn data(hex: &str) -> ManagementData<'static> {
        let octets = octets(hex).leak();
        let response = Response::parse(octets).unwrap();
        assert_eq!(response.source.to_string(), "32009d.fffe.f7905b");
        assert_eq!(response.sequence, 7);
        for len in 0..octets.len() {
            let part = Response::parse(&octets[..len]);
            assert!(matches!(part, Err(ResponseError::Truncated(_))), "{len}: {part:?}");
        }
        response.data
    }

    #[test]
    fn responses_of_ptp4l_have_what_pmc_prints() {
        let port =
            ManagementData::Port { state: PortState::Slave, is_hardware: false, interface: "bpv1" };
        assert_eq!(data(PORT), port);
        let grandmaster = ClockIdentity([0x2e, 0xf6, 0xd5, 0xff, 0xfe, 0xce, 0xd6, 0x5e]);
        let status = ManagementData::TimeStatus {
            offset_ns: -706,
            ingress_ns: 1_796_014_332_395_125_602,
            grandmaster: Some(grandmaster),
        };
        assert_eq!(data(TIME_STATUS), status);
        let current = ManagementData::Current { steps_removed: 1, path_delay_ns: 2539 };
        assert_eq!(data(CURRENT), current);
        let properties = ManagementData::TimeProperties { utc_offset_s: 37, is_tai: false };
        assert_eq!(data(TIME_PROPERTIES), properties);
    }

    #[test]
    fn a_get_has_the_octets_that_ptp4l_answers() {
        let get = Get { id: ManagementId::TimeStatus, sequence: 7 };
        let mut buffer = [0xa5; GET_LEN + 1];
        assert_eq!(get.emit(&mut buffer), Ok(get.buffer_len()));
        let expected = "0d020036000000000000000000000000000000000000000000000000000000\
            07047fffffffffffffffffffff0000000000010002c000a5";
        assert_eq!(buffer.as_slice(), octets(expected));
        assert!(get.emit(&mut buffer[..GET_LEN - 1]).is_err());
        // It is no response itself.
        let own = Response::parse(&buffer);
        assert_eq!(own, Err(ResponseError::Other { field: "actionField", value: 0 }));
    }

    #[test]
    fn other_messages_are_refused() {
        let changed = |at: usize, value: u8| {
            let mut octets = octets(PORT);
            octets[at] = value;
            Response::parse(&octets).map(|_| ()).unwrap_err().to_string()
        };
        for (at, value, cause) in [
            (0, 0x00, "messageType is 0x0"),
            (1, 0x01, "versionPTP is 0x1"),
            (46, 0x03, "actionField is 0x3"),
            (49, 0x02, "management error 0xc004"),
            (49, 0x03, "tlvType is 0x3"),
            (53, 0x05, "managementId is 0xc005"),
            (51, 0x01, "truncated"),
            (51, 0xff, "truncated"),
            (3, 60, "truncated: 60 octets of 72"),
            (66, 6, "truncated: 18 octets of 19"),
            (67, 0xff, "not UTF-8"),
        ] {
            assert!(changed(at, value).contains(cause), "{at}: {}", changed(at, value));
        }
    }

    #[test]
    fn states_have_the_names_of_pmc() {
        assert_eq!(PortState::from(9).to_string(), "SLAVE");
        assert_eq!(PortState::from(8).to_string(), "UNCALIBRATED");
        assert_eq!(PortState::from(42).to_string(), "state 42");
    }

    proptest::proptest! {
        #[test]
        fn no_octets_panic(at in 0..104usize, value: u8, second in 0..104usize, other: u8) {
            for hex in [PORT, TIME_STATUS, CURRENT, TIME_PROPERTIES] {
                let mut octets = octets(hex);
                for (at, value) in [(at, value), (second, other)] {
                    octets.iter_mut().skip(at).take(1).for_each(|octet| *octet = value);
                }
                let _ = Response::parse(&octets).map_err(|error| error.to_string());
            }
        }
    }
}
