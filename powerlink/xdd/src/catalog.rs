//! Names and types of objects: of a device description, and of the communication profile.

use core::net::Ipv4Addr;
use std::fmt;

use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_powerlink::od::{DataType, Dictionary, Limits, Object, ObjectId, id};
use onbeat_wire::powerlink::NmtState;

use crate::{Description, names, value};

/// Number of RPDO channels of the profile.
const CHANNELS: u16 = 256;

/// The objects of a node with their names.
#[derive(Debug)]
pub struct Catalog {
    description: Description,
    /// The objects that nodes of each kind have.
    profile: [Dictionary; 2],
}

/// The reason why a text names no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// No object has this name.
    Unknown,
    /// Several objects have it: some of them.
    Ambiguous(Vec<ObjectId>),
}

impl Catalog {
    /// The objects of a device, and of the communication profile.
    #[must_use]
    pub fn new(description: Description) -> Self {
        let identity = Identity::default();
        let controlled = profile::controlled_node(&identity, CHANNELS).unwrap_or_default();
        let managing = profile::managing_node(&identity, 1000, &[]).unwrap_or_default();
        Catalog { description, profile: [controlled, managing] }
    }

    fn dictionaries(&self) -> impl Iterator<Item = &Dictionary> {
        std::iter::once(&self.description.objects).chain(&self.profile)
    }

    fn object(&self, object: ObjectId) -> Option<&Object> {
        self.dictionaries().find_map(|objects| objects.object(object).ok())
    }

    /// The type of an object.
    #[must_use]
    pub fn data_type(&self, object: ObjectId) -> Option<DataType> {
        // Stored and restored by a signature, in devices with a store.
        let stores = matches!(object.index, profile::STORE | profile::RESTORE);
        let known = self.object(object).map(|known| known.data_type);
        known.or(stores.then_some(DataType::Unsigned(if object.sub == 0 { 1 } else { 4 })))
    }

    /// The limits of an object: of the description, otherwise of the communication profile.
    #[must_use]
    pub fn limits(&self, object: ObjectId) -> Option<&Limits> {
        match self.description.objects.object(object) {
            Ok(described) => described.limits.as_ref(),
            // Some apply to managing nodes only.
            Err(_) => self.profile.iter().find_map(|od| od.object(object).ok()?.limits.as_ref()),
        }
    }

    /// Whether the value of an object is an NMT state.
    fn is_state(object: ObjectId) -> bool {
        let by_node = [profile::NODE_STATE, profile::EXPECTED_STATE].contains(&object.index);
        object == profile::NMT_STATE || by_node && object.sub != 0
    }

    /// Whether the value of an object is an IP address, by its name.
    fn is_address(&self, object: ObjectId) -> bool {
        self.name(object).is_some_and(|name| name.ends_with("_IPAD"))
    }

    /// The name of an object: `NMT_CycleLen_U32`, with sub-indices `NMT_IdentityObject_REC.VendorId_U32`.
    #[must_use]
    pub fn name(&self, object: ObjectId) -> Option<String> {
        let ObjectId { index, sub } = object;
        let described = self.description.names.get(&object).cloned();
        let record = self.record(index);
        let is_compound = sub != 0
            || self.description.records.contains_key(&index)
            || self.object(id(index, 1)).is_some();
        if !is_compound {
            return described.or(record);
        }
        let entry = described.or_else(|| Some(names::of_sub(index, sub)?.to_owned()));
        match (record, entry) {
            (Some(record), Some(entry)) => Some(format!("{record}.{entry}")),
            (record, entry) => entry.or(record),
        }
    }

    /// The object with an index (`1006`, `1018/01`, in hexadecimal) or a name (`NMT_CycleLen_U32`,
    /// `NMT_IdentityObject_REC.VendorId_U32`, `NMT_IdentityObject_REC/1`, `VendorId_U32`).
    ///
    /// # Errors
    /// There is none, or several.
    pub fn find(&self, text: &str) -> Result<ObjectId, LookupError> {
        let (head, sub) = match text.split_once('/') {
            Some((head, sub)) => (head, Some(hexadecimal(sub, 2).ok_or(LookupError::Unknown)?)),
            None => (text, None),
        };
        if let Some(index) = hexadecimal(head, 4) {
            return Ok(id(index, sub.unwrap_or(0) as u8));
        }
        let mut found = Vec::new();
        for objects in self.dictionaries() {
            found.extend(objects.objects().map(|(object, _)| object).filter(|object| match sub {
                Some(sub) => {
                    u16::from(object.sub) == sub
                        && self.record(object.index) == Some(head.to_owned())
                }
                None => self.is_named(*object, head),
            }));
        }
        found.sort_unstable();
        found.dedup();
        match found[..] {
            [] => Err(LookupError::Unknown),
            [object] => Ok(object),
            _ => {
                found.truncate(4);
                Err(LookupError::Ambiguous(found))
            }
        }
    }

    fn record(&self, index: u16) -> Option<String> {
        let described = self.description.records.get(&index).cloned();
        described.or_else(|| names::of_index(index).map(Into::into))
    }

    fn is_named(&self, object: ObjectId, name: &str) -> bool {
        // The name of an entry can have dots as well: "drive.position" of a managing node's own description.
        !name.is_empty()
            && self.name(object).is_some_and(|full| {
                full.strip_suffix(name).is_some_and(|head| head.is_empty() || head.ends_with('.'))
            })
    }

    /// The octets of a value: a number, a text or octets by the type of the object; of any object, `hex:0123`,
    /// `text:save` or `"save"`, and with a type `u16:500`.
    ///
    /// # Errors
    /// The text is not a value of the type, or the type is unknown: a sentence with the remedy.
    pub fn octets(&self, object: ObjectId, text: &str) -> Result<Vec<u8>, String> {
        if let Some(digits) = text.strip_prefix("hex:") {
            let octets = value::octets(&format!("0x{digits}")).filter(|_| !digits.is_empty());
            let octets = octets.or(digits.is_empty().then(Vec::new));
            return octets.ok_or_else(|| {
                format!("invalid octets {text:?}; write two digits for each, such as hex:01ff")
            });
        }
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        if let Some(text) = text.strip_prefix("text:").or(quoted) {
            return Ok(text.as_bytes().to_vec());
        }
        let typed = text.split_once(':').and_then(|(prefix, text)| {
            let (_, data_type) = TYPES.iter().find(|(name, _)| *name == prefix)?;
            Some((*data_type, text))
        });
        let known = self.data_type(object).map(|data_type| (data_type, text));
        let Some((data_type, text)) = typed.or(known) else {
            return Err(format!(
                "the type of object {object} is unknown; use --xdd, or write the value as u16:500, text:abc or hex:01ff"
            ));
        };
        let is_empty = text.trim().is_empty() && data_type.fixed_len().is_some();
        value::value(data_type, text)
            .filter(|_| !is_empty)
            .filter(|octets| data_type.fixed_len().is_none_or(|len| len == octets.len()))
            .ok_or_else(|| {
                format!("invalid value {text:?} of object {object}; its type is {data_type}")
            })
    }
}

/// A value of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// BOOLEAN.
    Boolean(bool),
    /// UNSIGNED.
    Unsigned(u64),
    /// An NMT state, UNSIGNED8.
    State(NmtState),
    /// INTEGER.
    Signed(i64),
    /// REAL.
    Real(f64),
    /// An IP address, a number of 32 bits on the wire.
    Address(Ipv4Addr),
    /// VISIBLE_STRING, without NUL at its end.
    Text(String),
    /// Any other, and values whose length is not that of their type.
    Octets(Vec<u8>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => value.fmt(f),
            Value::Unsigned(value) => write!(f, "{value} ({value:#x})"),
            Value::State(state) => write!(f, "{:#04X} ({state})", state.0),
            Value::Signed(value) => value.fmt(f),
            Value::Real(value) => value.fmt(f),
            Value::Address(value) => value.fmt(f),
            Value::Text(value) => write!(f, "{value:?}"),
            Value::Octets(value) => {
                f.write_str("hex:")?;
                value.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
        }
    }
}

impl Catalog {
    /// The value of an object with these octets.
    #[must_use]
    pub fn value(&self, object: ObjectId, octets: &[u8]) -> Value {
        let raw = || Value::Octets(octets.to_vec());
        let Some(data_type) = self.data_type(object) else { return raw() };
        if data_type.fixed_len().is_some_and(|len| len != octets.len()) {
            return raw();
        }
        let mut number = [0; 8];
        number.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        let unsigned = u64::from_le_bytes(number);
        match data_type {
            DataType::Boolean => Value::Boolean(unsigned != 0),
            DataType::Unsigned(4) if self.is_address(object) => {
                Value::Address(Ipv4Addr::from(unsigned as u32))
            }
            DataType::Unsigned(1) if Self::is_state(object) => {
                Value::State(NmtState(unsigned as u8))
            }
            DataType::Unsigned(_) => Value::Unsigned(unsigned),
            DataType::Integer(len) => {
                let unused = 64 - 8 * u32::from(len.clamp(1, 8));
                Value::Signed((unsigned << unused) as i64 >> unused)
            }
            DataType::Real(4) => Value::Real(f32::from_bits(unsigned as u32).into()),
            DataType::Real(_) => Value::Real(f64::from_bits(unsigned)),
            DataType::VisibleString(_) => {
                let end = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
                match std::str::from_utf8(&octets[..end]) {
                    Ok(text) if !text.contains(char::is_control) => Value::Text(text.to_owned()),
                    _ => raw(),
                }
            }
            DataType::OctetString(_) | DataType::Domain => raw(),
        }
    }
}

/// Names of types: of values, and of signals in a network file.
pub const TYPES: [(&str, DataType); 11] = [
    ("bool", DataType::Boolean),
    ("u8", DataType::Unsigned(1)),
    ("u16", DataType::Unsigned(2)),
    ("u32", DataType::Unsigned(4)),
    ("u64", DataType::Unsigned(8)),
    ("i8", DataType::Integer(1)),
    ("i16", DataType::Integer(2)),
    ("i32", DataType::Integer(4)),
    ("i64", DataType::Integer(8)),
    ("f32", DataType::Real(4)),
    ("f64", DataType::Real(8)),
];

/// At most this many hexadecimal digits: for an index exactly four.
fn hexadecimal(text: &str, digits: usize) -> Option<u16> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let is_valid = match digits {
        4 => text.len() == 4,
        most => (1..=most).contains(&text.len()),
    };
    let is_number = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_valid && is_number { u16::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use onbeat_powerlink::od::Access;

    use super::*;

    fn catalog() -> Catalog {
        let device = include_str!("../../../examples/powerlink/digital-io.xdd");
        Catalog::new(crate::read(device).unwrap())
    }

    #[test]
    fn objects_are_found_by_index_and_by_name() {
        let catalog = catalog();
        for (text, expected) in [
            ("1006", id(0x1006, 0)),
            ("0x1006/0", id(0x1006, 0)),
            ("1f8E/f0", id(0x1f8e, 0xf0)),
            ("7777/7", id(0x7777, 7)),
            ("NMT_CycleLen_U32", id(0x1006, 0)),
            ("NMT_IdentityObject_REC.VendorId_U32", id(0x1018, 1)),
            ("NMT_IdentityObject_REC/2", id(0x1018, 2)),
            ("VendorId_U32", id(0x1018, 1)),
            // Of the device.
            ("Offset_I16", id(0x6423, 1)),
            // Of a managing node.
            ("NMT_StartUp_U32", id(0x1f80, 0)),
            ("NMT_NodeAssignment_AU32/1", id(0x1f81, 1)),
        ] {
            assert_eq!(catalog.find(text), Ok(expected), "{text}");
        }
        for text in ["", "106", "1006/100", "1006/", "Offset", "NMT_CycleLen_U32/1", "/1"] {
            assert_eq!(catalog.find(text), Err(LookupError::Unknown), "{text}");
        }
        assert_eq!(catalog.find("Offset_I16."), Err(LookupError::Unknown));
        let ambiguous = catalog.find("Threshold_U32");
        assert!(matches!(ambiguous, Err(LookupError::Ambiguous(found)) if found.len() == 4));
    }

    /// A managing node's own description names an entry by node and signal.
    #[test]
    fn names_with_dots_are_found() {
        let mut catalog = catalog();
        let [speed, position] = [id(0x1c0b, 1), id(0x6423, 1)];
        for (object, name) in [(speed, "drive-2.position"), (position, "drive-1.position")] {
            catalog.description.names.insert(object, name.into());
        }
        assert_eq!(catalog.find("drive-1.position"), Ok(position));
        assert_eq!(catalog.find("drive-2.position"), Ok(speed));
        let full = catalog.name(position).unwrap();
        assert!(full.ends_with(".drive-1.position"), "{full}");
        assert_eq!(catalog.find(&full), Ok(position));
        assert_eq!(catalog.find("position"), Err(LookupError::Ambiguous(vec![speed, position])));
        assert_eq!(catalog.find("ition"), Err(LookupError::Unknown));
    }

    #[test]
    fn limits_are_of_the_description_or_the_profile() {
        let mut catalog = catalog();
        let described = Object::unsigned(2, Access::ReadWrite, 5).within(1..=9);
        catalog.description.objects.add(id(0x7000, 0), described).unwrap();
        for (object, expected) in [
            (id(0x7000, 0), Some("from 1 to 9")),
            (id(0x1f98, 8), Some("from 300 to 1500")),
            // Of a managing node.
            (id(0x1f8a, 2), Some("from 250 to 4294967295")),
            (id(0x1f8c, 0), None),
            (id(0x7777, 7), None),
        ] {
            let limits = catalog.limits(object).map(ToString::to_string);
            assert_eq!(limits.as_deref(), expected, "{object}");
        }
    }

    #[test]
    fn a_name_leads_back_to_its_object() {
        let catalog = catalog();
        for object in [id(0x1006, 0), id(0x1018, 0), id(0x1018, 1), id(0x6423, 1), id(0x1f80, 0)] {
            let name = catalog.name(object).unwrap();
            assert_eq!(catalog.find(&name), Ok(object), "{name}");
        }
        assert_eq!(catalog.name(id(0x7777, 7)), None);
    }

    #[test]
    fn values_have_the_type_of_their_object() {
        let catalog = catalog();
        let (cycle, name, offset, unknown) =
            (id(0x1006, 0), id(0x1f9a, 0), id(0x6423, 1), id(0x7777, 7));
        for (object, text, expected) in [
            (cycle, "5000", Some(&[0x88, 0x13, 0, 0][..])),
            (cycle, "0x10", Some(&[0x10, 0, 0, 0])),
            (cycle, "hex:01ff", Some(&[1, 0xff])),
            (cycle, "u8:7", Some(&[7])),
            (id(0x1010, 1), "\"save\"", Some(b"save")),
            (id(0x1011, 1), "text:load", Some(b"load")),
            (id(0x1e40, 2), "192.168.100.1", Some(&[1, 100, 168, 192])),
            (name, "drive", Some(b"drive")),
            (name, "u8:7", Some(&[7])),
            (name, "a:b", Some(b"a:b")),
            (offset, "-5", Some(&[0xfb, 0xff])),
            (unknown, "u16:500", Some(&[0xf4, 1])),
            (unknown, "hex:", Some(&[])),
            (cycle, "", None),
            (cycle, "1.5", None),
            (cycle, "4294967296", None),
            (unknown, "5", None),
            (unknown, "hex:1", None),
            (unknown, "u16:70000", None),
        ] {
            assert_eq!(catalog.octets(object, text).ok().as_deref(), expected, "{object} {text}");
        }
    }

    #[test]
    fn values_are_shown_by_type() {
        let catalog = catalog();
        for (object, octets, expected) in [
            (id(0x1006, 0), &[0x88, 0x13, 0, 0][..], "5000 (0x1388)"),
            (id(0x1006, 0), &[1], "hex:01"),
            (id(0x1e40, 2), &[1, 100, 168, 192], "192.168.100.1"),
            (id(0x1f8c, 0), &[0xfd], "0xFD (OPERATIONAL)"),
            (id(0x1f8e, 1), &[0x1d], "0x1D (PRE_OPERATIONAL_1)"),
            (id(0x1f8f, 0), &[254], "254 (0xfe)"),
            (id(0x1f9a, 0), b"drive\0\0", "\"drive\""),
            (id(0x1f9a, 0), b"a\x1b\xff", "hex:611bff"),
            (id(0x6423, 1), &[0xfb, 0xff], "-5"),
            (id(0x2001, 0), &1.5_f32.to_le_bytes(), "1.5"),
            (id(0x1030, 9), &[1], "true"),
            (id(0x7777, 7), &[1, 2], "hex:0102"),
            (id(0x7777, 7), &[], "hex:"),
        ] {
            assert_eq!(catalog.value(object, octets).to_string(), expected, "{object}");
        }
    }
}
