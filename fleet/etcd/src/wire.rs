//! Protocol Buffers: the encoding of messages (protobuf.dev, "Encoding").

use std::ops::Range;

/// A message that does not follow the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodingError {
    /// It ends within a field.
    #[error("it ends within a field")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("a number has more than 64 bits")]
    TooLarge,
    /// A wire type that was removed from the encoding, or never existed.
    #[error("wire type {0} does not exist")]
    WireType(u8),
    /// A field that has another type in etcd's definition.
    #[error("field {0} has another type")]
    Type(u32),
}

/// Writes a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Adds a number; 0 is the default, and left out.
    pub(crate) fn number(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(value);
        }
        self
    }

    /// Adds a number of which 0 is not the default: a member of a `oneof`.
    pub(crate) fn chosen_number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds octets; none are the default, and left out.
    pub(crate) fn octets(self, field: u32, value: &[u8]) -> Self {
        if value.is_empty() { self } else { self.chosen_octets(field, value) }
    }

    /// Adds octets, or a message, which may be empty.
    pub(crate) fn chosen_octets(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a message.
    pub(crate) fn message(self, field: u32, message: Writer) -> Self {
        self.chosen_octets(field, &message.0)
    }
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Octets(&'a [u8]),
    /// Four or eight octets: etcd uses none of these.
    Fixed,
}

/// Reads the fields of a message in their order.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    fn varint(&mut self) -> Result<u64, EncodingError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&octet, rest) = self.0.split_first().ok_or(EncodingError::Truncated)?;
            self.0 = rest;
            let bits = u64::from(octet & 0x7f);
            // The tenth octet has one bit.
            if shift == 63 && bits > 1 {
                return Err(EncodingError::TooLarge);
            }
            value |= bits << shift;
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(EncodingError::TooLarge)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], EncodingError> {
        let length = usize::try_from(length).map_err(|_| EncodingError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(EncodingError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Returns the next field and its number.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, EncodingError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).map_err(|_| EncodingError::TooLarge)?;
        let value = match key as u8 & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Octets(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            other => return Err(EncodingError::WireType(other)),
        };
        Ok(Some((field, value)))
    }

    /// Passes each field to `set`; it returns whether the type is that of the field.
    pub(crate) fn each(
        mut self,
        mut set: impl FnMut(u32, Value<'a>) -> Result<bool, EncodingError>,
    ) -> Result<(), EncodingError> {
        while let Some((field, value)) = self.next()? {
            if !set(field, value)? {
                return Err(EncodingError::Type(field));
            }
        }
        Ok(())
    }
}

impl<'a> Value<'a> {
    /// Sets a number; returns whether it is one.
    pub(crate) fn to_number(self, to: &mut u64) -> bool {
        if let Self::Number(value) = self {
            *to = value;
        }
        matches!(self, Self::Number(_))
    }

    /// Sets a signed number, which etcd encodes in two's complement.
    pub(crate) fn to_signed(self, to: &mut i64) -> bool {
        if let Self::Number(value) = self {
            *to = value as i64;
        }
        matches!(self, Self::Number(_))
    }

    /// Sets a truth value.
    pub(crate) fn to_bool(self, to: &mut bool) -> bool {
        if let Self::Number(value) = self {
            *to = value != 0;
        }
        matches!(self, Self::Number(_))
    }

    /// Sets octets.
    pub(crate) fn to_octets(self, to: &mut Vec<u8>) -> bool {
        if let Self::Octets(value) = self {
            value.clone_into(to);
        }
        matches!(self, Self::Octets(_))
    }

    /// Sets a text; other octets than those of UTF-8 are replaced, as it is for people.
    pub(crate) fn to_text(self, to: &mut String) -> bool {
        if let Self::Octets(value) = self {
            *to = String::from_utf8_lossy(value).into_owned();
        }
        matches!(self, Self::Octets(_))
    }

    /// Reads a message.
    pub(crate) fn message<T>(
        self,
        read: impl FnOnce(&'a [u8]) -> Result<T, EncodingError>,
        set: impl FnOnce(T),
    ) -> Result<bool, EncodingError> {
        let Self::Octets(octets) = self else { return Ok(false) };
        read(octets).map(set).map(|()| true)
    }
}

/// Returns the keys with a prefix, as etcd expects ranges: the end is the prefix with its last octet incremented.
pub(crate) fn prefix(prefix: &[u8]) -> Range<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return prefix.to_vec()..end;
        }
    }
    // All keys from this one on; no key is empty.
    let start = if prefix.is_empty() { vec![0] } else { prefix.to_vec() };
    start..vec![0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_the_encoding_of_the_definition() {
        // The example of protobuf.dev: field 1 is 150.
        assert_eq!(Writer::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Writer::default().number(1, 0).0, []);
        assert_eq!(Writer::default().chosen_number(1, 0).0, [0x08, 0]);
        // The example of a string: field 2 is "testing".
        let text = Writer::default().octets(2, b"testing").0;
        assert_eq!(text, [0x12, 7, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let negative = Writer::default().number(1, u64::MAX).0;
        assert_eq!(negative.len(), 11, "{negative:?}");
        let mut signed = 0;
        Reader::new(&negative).each(|_, value| Ok(value.to_signed(&mut signed))).unwrap();
        assert_eq!(signed, -1);
    }

    #[test]
    fn broken_messages_are_refused() {
        let read = |octets: &[u8]| Reader::new(octets).each(|_, _| Ok(true));
        assert_eq!(read(&[0x08]), Err(EncodingError::Truncated));
        assert_eq!(read(&[0x12, 5, 1]), Err(EncodingError::Truncated));
        assert_eq!(read(&[0x0b]), Err(EncodingError::WireType(3)));
        assert_eq!(
            read(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
            Err(EncodingError::TooLarge)
        );
        assert_eq!(
            read(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Err(EncodingError::Truncated)
        );
        let typed = Reader::new(&[0x08, 1]).each(|_, value| Ok(value.to_octets(&mut Vec::new())));
        assert_eq!(typed, Err(EncodingError::Type(1)));
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(prefix(b"state/"), b"state/".to_vec()..b"state0".to_vec());
        assert_eq!(prefix(&[1, 0xff]), vec![1, 0xff]..vec![2]);
        assert_eq!(prefix(&[0xff]), vec![0xff]..vec![0]);
        assert_eq!(prefix(b""), vec![0]..vec![0]);
    }

    proptest! {
        #[test]
        fn any_octets_end(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Reader::new(&octets).each(|_, _| Ok(true));
        }

        #[test]
        fn what_is_written_is_read(numbers in proptest::collection::vec((1u32..1000, any::<u64>()), 0..8)) {
            let written = numbers.iter().fold(Writer::default(), |writer, (field, value)| {
                writer.chosen_number(*field, *value)
            });
            let mut read = Vec::new();
            Reader::new(&written.0).each(|field, value| {
                let mut number = 0;
                let is_number = value.to_number(&mut number);
                read.push((field, number));
                Ok(is_number)
            }).unwrap();
            prop_assert_eq!(read, numbers);
        }
    }
}
