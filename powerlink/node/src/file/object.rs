//! Objects and their types in a network file.

use onbeat_config::Value;
use onbeat_powerlink::od::{ObjectId, id};

/// `6000/01`: index and sub-index in hexadecimal.
pub(super) fn object(value: &Value<'_>) -> Option<ObjectId> {
    let written = value.text()?;
    let parsed = parse(written);
    if parsed.is_none() {
        let help = "write index and sub-index in hexadecimal: \"6000/01\"";
        value.fault(format!("invalid object {written:?}"), help);
    }
    parsed
}

fn parse(text: &str) -> Option<ObjectId> {
    let (index, sub) = text.split_once('/')?;
    let digits = |part: &str, most| {
        (1..=most).contains(&part.len()) && part.bytes().all(|octet| octet.is_ascii_hexdigit())
    };
    if !digits(index, 4) || !digits(sub, 2) {
        return None;
    }
    Some(id(u16::from_str_radix(index, 16).ok()?, u8::from_str_radix(sub, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_hexadecimal() {
        assert_eq!(parse("6000/01"), Some(id(0x6000, 1)));
        assert_eq!(parse("1c0B/ff"), Some(id(0x1c0b, 255)));
        for text in ["", "6000", "6000/", "/1", "16000/1", "6000/100", "+600/1", "6000/1/2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
