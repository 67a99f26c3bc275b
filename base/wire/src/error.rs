//! Errors of several codecs.

use core::fmt;

use crate::EtherType;

/// Fewer octets than a header requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncationError {
    /// The header.
    pub what: &'static str,
    /// Required octets.
    pub needed: usize,
    /// Available octets.
    pub len: usize,
}

impl fmt::Display for TruncationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is truncated: {} octets of {}", self.what, self.len, self.needed)
    }
}

impl core::error::Error for TruncationError {}

/// A tag is missing or truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagError {
    /// The tag is truncated.
    Truncated(TruncationError),
    /// The EtherType differs.
    OtherEtherType {
        /// The expected tag.
        what: &'static str,
        /// The EtherType.
        found: EtherType,
    },
}

impl From<TruncationError> for TagError {
    fn from(error: TruncationError) -> Self {
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

/// The reason why a header could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom {
        /// The header.
        what: &'static str,
        /// Required octets.
        needed: usize,
        /// Octets of the buffer.
        len: usize,
    },
    /// A value does not fit its field.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The value.
        value: usize,
        /// The maximum value of the field.
        max: usize,
    },
}

impl EmitError {
    /// Returns `Ok` if `value` is at most `max`, the maximum of the field.
    pub(crate) fn check(field: &'static str, value: usize, max: usize) -> Result<(), Self> {
        if value <= max { Ok(()) } else { Err(EmitError::OutOfRange { field, value, max }) }
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::NoRoom { what, needed, len } => {
                write!(f, "{what} requires {needed} octets, but the buffer has {len}")
            }
            EmitError::OutOfRange { field, value, max } => {
                write!(f, "{field} {value} does not fit: at most {max}")
            }
        }
    }
}

impl core::error::Error for EmitError {}
