//! Names as the kernel stores them: octets, not necessarily text.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name of octets. Comparison is by octets. As text it is lossless: a backslash is `\\`, an octet that is not
/// part of a printable UTF-8 character is `\xNN`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Octets(Vec<u8>);

impl Octets {
    /// The octets.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Parses the written form; text without valid escapes stands for itself.
    #[must_use]
    pub fn from_escaped(text: &str) -> Self {
        Self(unescaped(text).unwrap_or(text.as_bytes().into()).into_owned())
    }

    /// The possible meanings of a user's text: its own octets, and those that its escapes stand for. Both,
    /// since names with a backslash and hexadecimal digits exist (systemd units).
    pub fn interpretations(text: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let literal = Cow::from(text.as_bytes());
        let unescaped = unescaped(text).filter(|octets| *octets != literal);
        [Some(literal), unescaped].into_iter().flatten()
    }
}

/// `None` where a backslash starts no escape.
fn unescaped(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('\\') {
        return Some(text.as_bytes().into());
    }
    let mut octets = Vec::with_capacity(text.len());
    let mut parts = text.split('\\');
    octets.extend_from_slice(parts.next()?.as_bytes());
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // Two in a row: the text after the second is literal.
            octets.push(b'\\');
            octets.extend_from_slice(parts.next()?.as_bytes());
            continue;
        }
        let digits = part.strip_prefix('x')?.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        octets.push(u8::from_str_radix(digits, 16).ok()?);
        octets.extend_from_slice(&part.as_bytes()[3..]);
    }
    Some(octets.into())
}

impl fmt::Display for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escape = |octets: &[u8], f: &mut fmt::Formatter<'_>| {
            octets.iter().try_for_each(|octet| write!(f, "\\x{octet:02x}"))
        };
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '"' | '\'' => f.write_char(character)?,
                    // Characters that control a terminal, and invisible ones.
                    _ if character.escape_debug().len() > 1 => {
                        escape(character.encode_utf8(&mut [0; 4]).as_bytes(), f)?;
                    }
                    _ => f.write_char(character)?,
                }
            }
            escape(chunk.invalid(), f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<&[u8]> for Octets {
    fn from(octets: &[u8]) -> Self {
        Self(octets.into())
    }
}

/// The octets of a text without escapes.
impl From<&str> for Octets {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from_escaped(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_text() {
        for (octets, text) in [
            (&b"iperf3"[..], "iperf3"),
            (b"a b\"'(x)", "a b\"'(x)"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"\xff\xfe", "\\xff\\xfe"),
            // A truncated character.
            (b"x\xc3", "x\\xc3"),
            (b"a\\xff", "a\\\\xff"),
            (b"\x1b[2J\n\0", "\\x1b[2J\\x0a\\x00"),
            // It would reverse the direction of the line.
            ("\u{202e}x".as_bytes(), "\\xe2\\x80\\xaex"),
            (b"", ""),
        ] {
            assert_eq!(Octets::from(octets).to_string(), text);
            assert_eq!(Octets::from_escaped(text), Octets::from(octets));
        }
    }

    #[test]
    fn text_without_valid_escapes_is_literal() {
        for text in ["a\\", "\\x", "\\x1", "\\xg0", "\\x+1", "\\n", "\\x2\u{e9}", "\\\\\\"] {
            assert_eq!(Octets::from_escaped(text), Octets::from(text), "{text}");
            assert_eq!(Octets::interpretations(text).count(), 1);
        }
        let readings: Vec<_> = Octets::interpretations("dev-disk\\x2da").collect();
        assert_eq!(readings, [&b"dev-disk\\x2da"[..], b"dev-disk-a"]);
    }

    proptest! {
        #[test]
        fn no_two_names_have_the_same_written_form(octets in proptest::collection::vec(any::<u8>(), 0..40)) {
            let name = Octets::from(&octets[..]);
            prop_assert_eq!(Octets::from_escaped(&name.to_string()), name.clone());
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(serde_json::from_str::<Octets>(&json).unwrap(), name);
        }
    }
}
