//! What an object is: its place, type, access and range.

use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

/// The place of an object: index and sub-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Index.
    pub index: u16,
    /// Sub-index.
    pub sub: u8,
}

/// `index` and `sub` as one.
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
    /// One octet, of which bit 0 counts.
    Boolean,
    /// A signed number of this many octets: 1, 2, 4 or 8.
    Integer(u8),
    /// An unsigned number of this many octets: 1, 2, 4 or 8.
    Unsigned(u8),
    /// A floating-point number of this many octets: 4 or 8.
    Real(u8),
    /// Text, up to this many octets.
    VisibleString(u16),
    /// Octets, up to this many.
    OctetString(u16),
    /// Octets of any number.
    Domain,
}

impl DataType {
    /// Octets of every value, where that is so.
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            DataType::Boolean => Some(1),
            DataType::Integer(len) | DataType::Unsigned(len) | DataType::Real(len) => {
                Some(len as usize)
            }
            DataType::VisibleString(_) | DataType::OctetString(_) | DataType::Domain => None,
        }
    }

    /// Octets of the longest value.
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

    /// Bits in a PDO, for types that may be there.
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

/// What a peer may do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, and it may change.
    ReadOnly,
    /// Read, and it never changes.
    Constant,
    /// Read and write.
    ReadWrite,
    /// Write.
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

/// Which PDOs an object may be mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mappable {
    /// None.
    #[default]
    No,
    /// Those this node sends: a value from its process.
    Transmit,
    /// Those this node receives: a value for its process.
    Receive,
}

/// An object as it is described, with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Type.
    pub data_type: DataType,
    /// What a peer may do.
    pub access: Access,
    /// Which PDOs it may be in.
    pub mappable: Mappable,
    /// Values allowed, of unsigned types.
    pub range: Option<RangeInclusive<u64>>,
    /// Value at start.
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
        Object { data_type, access, mappable: Mappable::No, range: None, default }
    }

    /// The same, in a range.
    pub fn within(mut self, range: RangeInclusive<u64>) -> Self {
        self.range = Some(range);
        self
    }

    /// The same, in PDOs.
    pub const fn mapped(mut self, mappable: Mappable) -> Self {
        self.mappable = mappable;
        self
    }
}
