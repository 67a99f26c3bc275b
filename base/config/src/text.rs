//! Values without a TOML type: addresses and octet strings.

use onbeat_wire::MacAddress;

/// Parses `01:00:5e:00:00:01`, also with hyphens.
pub fn mac_address(text: &str) -> Option<MacAddress> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut octets = [0; 6];
    let mut parts = text.split(separator);
    for octet in &mut octets {
        *octet = hex_octet(parts.next()?.as_bytes())?;
    }
    parts.next().is_none().then_some(MacAddress(octets))
}

/// Parses hexadecimal digits; spaces and colons between octets are ignored.
pub fn octets(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.bytes().filter(|octet| !matches!(octet, b' ' | b':' | b'_')).collect();
    if digits.len() % 2 != 0 {
        return None;
    }
    digits.chunks_exact(2).map(hex_octet).collect()
}

fn hex_octet(digits: &[u8]) -> Option<u8> {
    let &[high, low] = digits else { return None };
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(nibble(high)? << 4 | nibble(low)?).ok()
}

/// Maximum length of a name of a node, port or stream.
const NAME_LENGTH: usize = 63;

/// Returns whether a name is valid in file names, on command lines and in tables.
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let length = 1..=NAME_LENGTH;
    length.contains(&text.len())
        && text.chars().all(allowed)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Describes the rule of [`is_name`].
pub fn name_rule() -> String {
    format!(
        "1 to {NAME_LENGTH} letters, digits, hyphens, underscores and dots, a letter or digit first"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        let address = MacAddress([1, 0, 0x5e, 0, 0xab, 0xff]);
        for text in ["01:00:5e:00:ab:ff", "01-00-5E-00-AB-FF"] {
            assert_eq!(mac_address(text), Some(address), "{text}");
        }
        for text in
            ["", "01:00:5e:00:ab", "01:00:5e:00:ab:ff:00", "01:00:5e:00:ab:+f", "1:0:0:0:0:0"]
        {
            assert_eq!(mac_address(text), None, "{text}");
        }
    }

    #[test]
    fn octet_strings() {
        assert_eq!(octets("08 00:ff_01"), Some(vec![8, 0, 255, 1]));
        assert_eq!(octets(""), Some(vec![]));
        assert_eq!(octets("080"), None);
        assert_eq!(octets("0g"), None);
        assert_eq!(octets("\u{e9}"), None);
    }

    #[test]
    fn names_contain_no_path() {
        for text in ["bridge", "a.b-c_d", "7", &"a".repeat(63)] {
            assert!(is_name(text), "{text}");
        }
        for text in ["", ".", "..", ".a", "-a", "_a", "/", "a/b", "../a", "a b", "a\0", "\u{e9}"] {
            assert!(!is_name(text), "{text:?}");
        }
        assert!(!is_name(&"a".repeat(64)));
    }
}
