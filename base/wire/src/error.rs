//! Errors that more than one codec returns.

use core::fmt;

use crate::EtherType;

/// Fewer octets than a header takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The header.
    pub what: &'static str,
    /// Octets it takes.
    pub needed: usize,
    /// Octets there are.
    pub len: usize,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is cut off: {} octets of {}", self.what, self.len, self.needed)
    }
}

impl core::error::Error for Truncated {}

/// What stands at the place of a tag is not that tag, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagError {
    /// The tag is cut off.
    Truncated(Truncated),
    /// Another EtherType stands there.
    OtherEtherType {
        /// The tag looked for.
        what: &'static str,
        /// The EtherType found.
        found: EtherType,
    },
}

impl From<Truncated> for TagError {
    fn from(error: Truncated) -> Self {
        TagError::Truncated(error)
    }
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagError::Truncated(error) => error.fmt(f),
            TagError::OtherEtherType { what, found } => {
                write!(f, "no {what} here: the EtherType is {found}")
            }
        }
    }
}

impl core::error::Error for TagError {}

/// Why a header could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom {
        /// The header.
        what: &'static str,
        /// Octets it takes.
        needed: usize,
        /// Octets the buffer has.
        len: usize,
    },
    /// A value does not fit its field.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The value given.
        value: usize,
        /// The greatest value the field holds.
        max: usize,
    },
}

impl EmitError {
    /// `Ok` where `value` fits a field whose greatest value is `max`.
    pub(crate) fn check(field: &'static str, value: usize, max: usize) -> Result<(), Self> {
        if value <= max { Ok(()) } else { Err(EmitError::OutOfRange { field, value, max }) }
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::NoRoom { what, needed, len } => {
                write!(f, "{what} takes {needed} octets, the buffer has {len}")
            }
            EmitError::OutOfRange { field, value, max } => {
                write!(f, "{field} {value} does not fit: at most {max}")
            }
        }
    }
}

impl core::error::Error for EmitError {}
