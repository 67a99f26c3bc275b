//! Types, and values in the form of attributes.

use core::net::Ipv4Addr;

use onbeat_powerlink::od::{DataType, Limits};

/// Maximum length of a text in a description, in octets.
const TEXT: u16 = u16::MAX;

/// The type with an index of DS 301, 6.1.4, if it can be an object's.
pub(crate) fn data_type(index: u16) -> Option<DataType> {
    use DataType::{Boolean, Domain, Integer, OctetString, Real, Unsigned, VisibleString};
    Some(match index {
        0x0001 => Boolean,
        0x0002 => Integer(1),
        0x0003 => Integer(2),
        0x0004 => Integer(4),
        0x0005 => Unsigned(1),
        0x0006 => Unsigned(2),
        0x0007 => Unsigned(4),
        0x0008 => Real(4),
        0x0009 => VisibleString(TEXT),
        0x000a | 0x000b => OctetString(TEXT),
        // Times, and Ethernet addresses.
        0x000c | 0x000d | 0x0401 => Unsigned(6),
        0x000f => Domain,
        0x0010 => Integer(3),
        0x0011 => Real(8),
        0x0012 => Integer(5),
        0x0013 => Integer(6),
        0x0014 => Integer(7),
        0x0015 => Integer(8),
        0x0016 => Unsigned(3),
        0x0018 => Unsigned(5),
        0x0019 => Unsigned(6),
        0x001a => Unsigned(7),
        0x001b | 0x0403 => Unsigned(8),
        // IP address.
        0x0402 => Unsigned(4),
        _ => return None,
    })
}

/// The index of a type.
pub(crate) fn index(data_type: DataType) -> u16 {
    match data_type {
        DataType::Boolean => 0x0001,
        DataType::Integer(1) => 0x0002,
        DataType::Integer(2) => 0x0003,
        DataType::Integer(3) => 0x0010,
        DataType::Integer(4) => 0x0004,
        DataType::Integer(len) => 0x000d + u16::from(len.min(8)),
        DataType::Unsigned(1) => 0x0005,
        DataType::Unsigned(2) => 0x0006,
        DataType::Unsigned(3) => 0x0016,
        DataType::Unsigned(4) => 0x0007,
        DataType::Unsigned(len) => 0x0013 + u16::from(len.min(8)),
        DataType::Real(4) => 0x0008,
        DataType::Real(_) => 0x0011,
        DataType::VisibleString(_) => 0x0009,
        DataType::OctetString(_) => 0x000a,
        DataType::Domain => 0x000f,
    }
}

/// The form of a value that [`value`] reads; `None` for a text that is not UTF-8.
pub(crate) fn written(data_type: DataType, octets: &[u8]) -> Option<String> {
    let mut number = [0; 8];
    number.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    let unsigned = u64::from_le_bytes(number);
    Some(match data_type {
        DataType::Boolean => (unsigned != 0).to_string(),
        DataType::Unsigned(4 | 8) => {
            let digits = 2 * octets.len();
            format!("0x{unsigned:0digits$X}")
        }
        DataType::Unsigned(_) => unsigned.to_string(),
        DataType::Integer(len) => {
            let unused = 64 - 8 * u32::from(len.clamp(1, 8));
            ((unsigned << unused) as i64 >> unused).to_string()
        }
        DataType::Real(4) => format!("0x{:08X}", unsigned as u32),
        DataType::Real(_) => format!("0x{unsigned:016X}"),
        DataType::VisibleString(_) => std::str::from_utf8(octets).ok()?.to_owned(),
        DataType::OctetString(_) | DataType::Domain if octets.is_empty() => String::new(),
        DataType::OctetString(_) | DataType::Domain => {
            let digits: Vec<String> = octets.iter().map(|octet| format!("{octet:02X}")).collect();
            format!("0x{}", digits.concat())
        }
    })
}

/// The type of an element of a parameter.
pub(crate) fn simple_type(element: &str) -> Option<DataType> {
    data_type(match element {
        "BOOL" => 0x0001,
        "SINT" => 0x0002,
        "INT" => 0x0003,
        "DINT" => 0x0004,
        "LINT" => 0x0015,
        "USINT" | "BYTE" | "CHAR" => 0x0005,
        "UINT" | "WORD" => 0x0006,
        "UDINT" | "DWORD" => 0x0007,
        "ULINT" | "LWORD" => 0x001b,
        "REAL" => 0x0008,
        "LREAL" => 0x0011,
        "STRING" => 0x0009,
        "WSTRING" => 0x000b,
        _ => return None,
    })
}

/// The value of an object without a default.
pub(crate) fn zero(data_type: DataType) -> Vec<u8> {
    vec![0; data_type.fixed_len().unwrap_or_default()]
}

/// The value within the limits that is next to 0.
pub(crate) fn nearest(data_type: DataType, limits: Option<&Limits>) -> Vec<u8> {
    let nearest = match (data_type, limits) {
        (DataType::Unsigned(len), Some(Limits::Unsigned(range))) => {
            low(&range.start().to_le_bytes(), len, 0)
        }
        (DataType::Boolean, Some(Limits::Unsigned(range))) => {
            Some(vec![u8::from(*range.start() > 0)])
        }
        (DataType::Integer(len), Some(Limits::Signed(range))) if *range.start() <= *range.end() => {
            low(&0.clamp(*range.start(), *range.end()).to_le_bytes(), len, 0xff)
        }
        (DataType::Real(len), Some(Limits::Real(range))) if *range.start() <= *range.end() => {
            let nearest = 0_f64.clamp(*range.start(), *range.end());
            Some(match len {
                4 => (nearest as f32).to_le_bytes().to_vec(),
                _ => nearest.to_le_bytes().to_vec(),
            })
        }
        _ => None,
    };
    nearest.unwrap_or_else(|| zero(data_type))
}

/// The octets of a value on the wire; `None` if it does not fit the type.
pub(crate) fn value(data_type: DataType, text: &str) -> Option<Vec<u8>> {
    let trimmed = text.trim();
    match data_type {
        // Blanks are part of a text.
        DataType::VisibleString(_) => Some(text.as_bytes().to_vec()),
        // A number where octets are expected: the length of the value.
        DataType::OctetString(_) | DataType::Domain if trimmed == "0" => Some(Vec::new()),
        DataType::OctetString(_) | DataType::Domain => octets(trimmed),
        _ if trimmed.is_empty() => Some(zero(data_type)),
        DataType::Boolean => match trimmed {
            "true" => Some(vec![1]),
            "false" => Some(vec![0]),
            number => Some(vec![u8::from(integer(number)? != 0)]),
        },
        // An Ethernet address has the order of the wire.
        DataType::Unsigned(6) if trimmed.contains([':', '-']) => ethernet_address(trimmed),
        DataType::Unsigned(len) => {
            let number = match trimmed.parse::<Ipv4Addr>() {
                // 192.168.100.1 is 0xC0A86401.
                Ok(address) if len == 4 => u32::from(address).into(),
                _ => u64::try_from(integer(trimmed)?).ok()?,
            };
            low(&number.to_le_bytes(), len, 0)
        }
        DataType::Integer(len) => low(&signed(trimmed, len)?.to_le_bytes(), len, 0xff),
        // A hexadecimal number is the octets of the value.
        DataType::Real(4) => match hexadecimal(trimmed) {
            Some(bits) => Some(u32::try_from(bits?).ok()?.to_le_bytes().to_vec()),
            None => Some(trimmed.parse::<f32>().ok()?.to_le_bytes().to_vec()),
        },
        DataType::Real(_) => match hexadecimal(trimmed) {
            Some(bits) => Some(bits?.to_le_bytes().to_vec()),
            None => Some(trimmed.parse::<f64>().ok()?.to_le_bytes().to_vec()),
        },
    }
}

/// The limits in an attribute, if the type has limits.
pub(crate) fn limits(data_type: DataType, low: Option<&str>, high: Option<&str>) -> Option<Limits> {
    let (low, high) = (low.map(str::trim), high.map(str::trim));
    Some(match data_type {
        DataType::Boolean | DataType::Unsigned(_) => {
            let parse = |text| u64::try_from(integer(text)?).ok();
            let low = low.map_or(Some(0), parse)?;
            Limits::Unsigned(low..=high.map_or(Some(u64::MAX), parse)?)
        }
        DataType::Integer(len) => {
            let parse = |text| signed(text, len);
            let low = low.map_or(Some(i64::MIN), parse)?;
            Limits::Signed(low..=high.map_or(Some(i64::MAX), parse)?)
        }
        DataType::Real(_) => {
            let parse = |text: &str| text.parse().ok().filter(|number: &f64| !number.is_nan());
            let low = low.map_or(Some(f64::NEG_INFINITY), parse)?;
            Limits::Real(low..=high.map_or(Some(f64::INFINITY), parse)?)
        }
        DataType::VisibleString(_) | DataType::OctetString(_) | DataType::Domain => return None,
    })
}

/// Whether no value is within the limits.
pub(crate) fn is_empty(limits: &Limits) -> bool {
    match limits {
        Limits::Unsigned(range) => range.is_empty(),
        Limits::Signed(range) => range.is_empty(),
        Limits::Real(range) => range.is_empty(),
    }
}

/// A whole number in decimal or hexadecimal.
fn integer(text: &str) -> Option<i128> {
    match hexadecimal(text) {
        Some(number) => number.map(i128::from),
        None => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number =
                !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            if is_number { text.parse().ok() } else { None }
        }
    }
}

/// A signed number; in hexadecimal it may be the octets in two's complement.
fn signed(text: &str, octets: u8) -> Option<i64> {
    let number = integer(text)?;
    let bits = 8 * u32::from(octets);
    let negative = hexadecimal(text).is_some() && number >> (bits - 1) == 1;
    let number = if negative { number - (1 << bits) } else { number };
    let fits = number >= -(1 << (bits - 1)) && number < 1 << (bits - 1);
    i64::try_from(number).ok().filter(|_| fits)
}

/// The number after `0x`; the outer `None` without `0x`, the inner one if it is invalid.
fn hexadecimal(text: &str) -> Option<Option<u64>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some(if is_number { u64::from_str_radix(digits, 16).ok() } else { None })
}

/// The low octets of a number, if all others equal the filling.
fn low(number: &[u8; 8], len: u8, filling: u8) -> Option<Vec<u8>> {
    let (low, high) = number.split_at(usize::from(len).min(8));
    let fits = high.iter().all(|octet| *octet == 0 || *octet == filling);
    fits.then(|| low.to_vec())
}

/// An Ethernet address, such as `02:00:00:00:00:01`.
fn ethernet_address(text: &str) -> Option<Vec<u8>> {
    let pairs = text.split([':', '-']).map(|pair| match octets(pair)?[..] {
        [octet] => Some(octet),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().filter(|octets| octets.len() == 6)
}

/// Octets in hexadecimal, with or without `0x` in front, and blanks in between.
pub(crate) fn octets(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let digits: Vec<u8> = digits.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_in_their_written_form() {
        use DataType::{Boolean, Domain, Integer, OctetString, Real, Unsigned, VisibleString};
        let cases: [(DataType, &str, Option<&[u8]>); 39] = [
            (Unsigned(1), "255", Some(&[255])),
            (Unsigned(1), "0xFF", Some(&[255])),
            (Unsigned(1), " 7 ", Some(&[7])),
            (Unsigned(1), "+7", Some(&[7])),
            (Unsigned(1), "256", None),
            (Unsigned(1), "-1", None),
            (Unsigned(1), "", Some(&[0])),
            (Unsigned(1), "0x", None),
            (Unsigned(1), "1F", None),
            (Unsigned(1), "$NODEID", None),
            (Unsigned(1), "+-1", None),
            (Unsigned(4), "192.168.100.1", Some(&[1, 100, 168, 192])),
            (Unsigned(3), "1.2.3.4", None),
            (Unsigned(6), "02:00-00:00:00:01", Some(&[2, 0, 0, 0, 0, 1])),
            (Unsigned(6), "02:00:00:00:01", None),
            (Unsigned(6), "-1", None),
            (OctetString(9), "0", Some(&[])),
            (Unsigned(3), "0x010203", Some(&[3, 2, 1])),
            (Unsigned(4), "0X000F0191", Some(&[0x91, 1, 15, 0])),
            (Unsigned(8), "18446744073709551615", Some(&[255; 8])),
            (Unsigned(8), "18446744073709551616", None),
            (Unsigned(8), "0x10000000000000000", None),
            (Integer(1), "-128", Some(&[0x80])),
            (Integer(1), "-129", None),
            (Integer(1), "128", None),
            (Integer(1), "0x80", Some(&[0x80])),
            (Integer(1), "0x100", None),
            (Integer(3), "-2", Some(&[0xfe, 0xff, 0xff])),
            (Integer(8), "0xffffffffffffffff", Some(&[255; 8])),
            (Boolean, "true", Some(&[1])),
            (Boolean, "0x00", Some(&[0])),
            (Boolean, "yes", None),
            (Real(4), "1.5", Some(&[0, 0, 0xc0, 0x3f])),
            (Real(4), "0x3fc00000", Some(&[0, 0, 0xc0, 0x3f])),
            (Real(8), "-1e3", Some(&[0, 0, 0, 0, 0, 0x40, 0x8f, 0xc0])),
            (VisibleString(9), " drive", Some(b" drive")),
            (OctetString(9), "0x01 02 ff", Some(&[1, 2, 255])),
            (OctetString(9), "012", None),
            (Domain, "", Some(&[])),
        ];
        for (data_type, text, expected) in cases {
            assert_eq!(value(data_type, text).as_deref(), expected, "{data_type:?} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read_in_decimal_and_hexadecimal(number: i64, octets in 1..=8u8) {
            let unused = 64 - 8 * u32::from(octets);
            let number = number >> unused;
            let expected = number.to_le_bytes()[..usize::from(octets)].to_vec();
            let bits = (number as u64) << unused >> unused;
            for text in [number.to_string(), format!("{bits:#x}")] {
                prop_assert_eq!(value(DataType::Integer(octets), &text), Some(expected.clone()));
            }
            for text in [bits.to_string(), format!("{bits:#x}")] {
                prop_assert_eq!(value(DataType::Unsigned(octets), &text), Some(expected.clone()));
            }
        }

        /// A value in its written form is read back, and so is its type.
        #[test]
        fn written_values_are_read_back(number: u64, len in 1..=8u8, texts in "[ -~]{0,20}") {
            use DataType::{Boolean, Domain, Integer, OctetString, Real, Unsigned, VisibleString};
            for data_type in
                [Boolean, Unsigned(len), Integer(len), Real(4), Real(8), VisibleString(TEXT), OctetString(TEXT), Domain]
            {
                let octets = match data_type {
                    Boolean => vec![number as u8 & 1],
                    VisibleString(_) => texts.clone().into_bytes(),
                    _ => number.to_le_bytes()[..data_type.fixed_len().unwrap_or(len.into())].to_vec(),
                };
                let text = written(data_type, &octets).unwrap();
                prop_assert_eq!(value(data_type, &text), Some(octets), "{:?} {}", data_type, text);
                prop_assert_eq!(super::data_type(index(data_type)), Some(data_type));
            }
        }

        #[test]
        fn no_text_panics(text: String, octets in 1..=8u8) {
            for data_type in [
                DataType::Boolean,
                DataType::Unsigned(octets),
                DataType::Integer(octets),
                DataType::Real(4),
                DataType::Real(8),
                DataType::VisibleString(TEXT),
                DataType::OctetString(TEXT),
                DataType::Domain,
            ] {
                if let Some(octets) = value(data_type, &text) {
                    prop_assert!(data_type.fixed_len().is_none_or(|len| len == octets.len()));
                }
                limits(data_type, Some(&text), Some("1"));
            }
        }
    }
}
