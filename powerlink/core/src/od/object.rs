//! Description of an object: index, type, access and range.

use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use super::Abort;

/// The identifier of an object: index and sub-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Index.
    pub index: u16,
    /// Sub-index.
    pub sub: u8,
}

/// The object id of `index` and `sub`.
pub const fn id(index: u16, sub: u8) -> ObjectId {
    ObjectId { index, sub }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04X}/{:02X}", self.index, self.sub)
    }
}

/// The type of an object (EPSG DS 301, 6.1.4). Values are octets in the order of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One octet, bit 0.
    Boolean,
    /// A signed number of this many octets, 1 to 8.
    Integer(u8),
    /// An unsigned number of this many octets, 1 to 8.
    Unsigned(u8),
    /// A floating-point number of this many octets: 4 or 8.
    Real(u8),
    /// Text, up to this many octets.
    VisibleString(u16),
    /// Octets, up to this many.
    OctetString(u16),
    /// Octets, any number.
    Domain,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("BOOLEAN"),
            DataType::Integer(octets) => write!(f, "INTEGER{}", 8 * u16::from(*octets)),
            DataType::Unsigned(octets) => write!(f, "UNSIGNED{}", 8 * u16::from(*octets)),
            DataType::Real(octets) => write!(f, "REAL{}", 8 * u16::from(*octets)),
            DataType::VisibleString(_) => f.write_str("VISIBLE_STRING"),
            DataType::OctetString(_) => f.write_str("OCTET_STRING"),
            DataType::Domain => f.write_str("DOMAIN"),
        }
    }
}

impl DataType {
    /// Length in octets, if it is fixed.
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            DataType::Boolean => Some(1),
            DataType::Integer(len) | DataType::Unsigned(len) | DataType::Real(len) => {
                Some(len as usize)
            }
            DataType::VisibleString(_) | DataType::OctetString(_) | DataType::Domain => None,
        }
    }

    /// Maximum length in octets.
    pub const fn max_len(self) -> usize {
        match self {
            DataType::VisibleString(max) | DataType::OctetString(max) => max as usize,
            DataType::Domain => usize::MAX,
            _ => match self.fixed_len() {
                Some(len) => len,
                None => 0,
            },
        }
    }

    /// Bits in a PDO, for types that can be mapped.
    pub const fn bits(self) -> Option<u16> {
        match self {
            DataType::Boolean => Some(1),
            _ => match self.fixed_len() {
                Some(len) => Some(len as u16 * 8),
                None => None,
            },
        }
    }
}

/// The access of peers to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only; it may change.
    ReadOnly,
    /// Read only; it never changes.
    Constant,
    /// Read and write.
    ReadWrite,
    /// Write only.
    WriteOnly,
}

impl Access {
    /// Whether a peer may read.
    pub const fn reads(self) -> bool {
        !matches!(self, Access::WriteOnly)
    }

    /// Whether a peer may write.
    pub const fn writes(self) -> bool {
        matches!(self, Access::ReadWrite | Access::WriteOnly)
    }
}

/// The PDOs that an object may be mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PdoMapping {
    /// None.
    #[default]
    No,
    /// PDOs that this node sends: a value from its process.
    Transmit,
    /// PDOs that this node receives: a value for its process.
    Receive,
    /// PDOs in both directions.
    Both,
}

impl PdoMapping {
    /// Whether this permits a mapping that requires `wanted`.
    pub fn allows(self, wanted: PdoMapping) -> bool {
        self == wanted || self == PdoMapping::Both || wanted == PdoMapping::No
    }
}

/// The minimum and the maximum of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Limits {
    /// For booleans and unsigned numbers.
    Unsigned(RangeInclusive<u64>),
    /// For signed numbers.
    Signed(RangeInclusive<i64>),
    /// For floating-point numbers.
    Real(RangeInclusive<f64>),
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limits::Unsigned(range) => write!(f, "from {} to {}", range.start(), range.end()),
            Limits::Signed(range) => write!(f, "from {} to {}", range.start(), range.end()),
            Limits::Real(range) => write!(f, "from {} to {}", range.start(), range.end()),
        }
    }
}

impl Limits {
    /// Checks a value, with the octets of its type, against the limits.
    pub(super) fn check(&self, data_type: DataType, value: &[u8]) -> Result<(), Abort> {
        let mut octets = [0; 8];
        octets.get_mut(..value.len()).ok_or(Abort::TYPE)?.copy_from_slice(value);
        let unsigned = u64::from_le_bytes(octets);
        match self {
            Limits::Unsigned(range) => within(range, unsigned),
            Limits::Signed(range) => within(range, sign_extended(unsigned, value.len())),
            Limits::Real(range) => {
                let [a, b, c, d, ..] = octets;
                within(
                    range,
                    match data_type {
                        DataType::Real(4) => f32::from_le_bytes([a, b, c, d]).into(),
                        _ => f64::from_le_bytes(octets),
                    },
                )
            }
        }
    }
}

/// Checks a number against a range; NaN is not too great.
fn within<T: PartialOrd>(range: &RangeInclusive<T>, number: T) -> Result<(), Abort> {
    if range.contains(&number) {
        Ok(())
    } else if number < *range.start() {
        Err(Abort::TOO_SMALL)
    } else {
        Err(Abort::TOO_GREAT)
    }
}

/// A number of this many octets in two's complement.
const fn sign_extended(number: u64, octets: usize) -> i64 {
    let unused = match octets {
        1..=7 => 64 - 8 * octets as u32,
        _ => 0,
    };
    (number << unused) as i64 >> unused
}

/// The description of an object, with its default.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Type.
    pub data_type: DataType,
    /// Access of peers.
    pub access: Access,
    /// PDOs that it may be mapped to.
    pub mappable: PdoMapping,
    /// Permitted values.
    pub limits: Option<Limits>,
    /// Initial value.
    pub default: Vec<u8>,
}

impl Object {
    /// An unsigned number of `len` octets.
    pub fn unsigned(len: u8, access: Access, default: u64) -> Self {
        let default = default.to_le_bytes().into_iter().take(len.into()).collect();
        Object::new(DataType::Unsigned(len), access, default)
    }

    /// An object of any type.
    pub const fn new(data_type: DataType, access: Access, default: Vec<u8>) -> Self {
        Object { data_type, access, mappable: PdoMapping::No, limits: None, default }
    }

    /// Sets a range.
    pub fn within(mut self, range: RangeInclusive<u64>) -> Self {
        self.limits = Some(Limits::Unsigned(range));
        self
    }

    /// Sets the PDOs.
    pub const fn mapped(mut self, mappable: PdoMapping) -> Self {
        self.mappable = mappable;
        self
    }
}
