//! Reasons to refuse access to an object (EPSG DS 301, table 60).

use core::fmt;

/// An SDO abort code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Abort(pub u32);

/// Codes and texts, for the constants and for [`Abort::reason`].
macro_rules! aborts {
    ($($constant:ident = $code:literal $text:literal;)*) => {
        impl Abort {
            $(#[doc = concat!("The ", $text, ".")] pub const $constant: Abort = Abort($code);)*
        }

        impl Abort {
            /// The reason in words.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => concat!("the ", $text),)*
                    _ => "the reason is unknown",
                }
            }
        }
    };
}

aborts! {
    TIME_OUT = 0x0504_0000 "peer did not answer in time";
    UNKNOWN_COMMAND = 0x0504_0001 "command is unknown";
    BLOCK_SIZE = 0x0504_0002 "size of a segment is invalid";
    SEQUENCE = 0x0504_0003 "sequence of segments is invalid";
    OUT_OF_MEMORY = 0x0504_0005 "transfer is longer than the available memory";
    UNSUPPORTED_ACCESS = 0x0601_0000 "object does not support this access";
    WRITE_ONLY = 0x0601_0001 "object can only be written";
    READ_ONLY = 0x0601_0002 "object can only be read";
    NO_OBJECT = 0x0602_0000 "object does not exist";
    NOT_MAPPABLE = 0x0604_0041 "object cannot be mapped to a PDO";
    PDO_TOO_LONG = 0x0604_0042 "mapped objects are longer than a PDO";
    INCOMPATIBLE = 0x0604_0043 "parameters are incompatible";
    HEARTBEAT = 0x0604_0044 "heartbeat settings are invalid";
    INTERNAL = 0x0604_0047 "device is incompatible internally";
    HARDWARE = 0x0606_0000 "hardware failed";
    TYPE = 0x0607_0010 "length does not match the object's type";
    TOO_LONG = 0x0607_0012 "value is too long for the object";
    TOO_SHORT = 0x0607_0013 "value is too short for the object";
    NO_SUB_INDEX = 0x0609_0011 "sub-index does not exist";
    VALUE = 0x0609_0030 "value is not allowed";
    TOO_GREAT = 0x0609_0031 "value is too great";
    TOO_SMALL = 0x0609_0032 "value is too small";
    LIMITS = 0x0609_0036 "maximum is less than the minimum";
    GENERAL = 0x0800_0000 "access failed";
    NOT_STORED = 0x0800_0020 "value cannot be transferred or stored";
    LOCAL = 0x0800_0021 "application does not permit it";
    STATE = 0x0800_0022 "state of the device does not permit it";
    NO_DICTIONARY = 0x0800_0023 "object dictionary does not exist";
    NO_CONFIGURATION = 0x0800_0024 "configuration data are empty";
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}: {}", self.0, self.reason())
    }
}

impl core::error::Error for Abort {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_text_has_code_and_reason() {
        assert_eq!(Abort::NO_OBJECT.to_string(), "0x06020000: the object does not exist");
        assert_eq!(Abort(1).to_string(), "0x00000001: the reason is unknown");
    }
}
