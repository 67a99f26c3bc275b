//! The tables of `vectors/`, run by several implementations.

use std::fs;

use serde::de::DeserializeOwned;

/// Reads the table in `vectors/NAME`, such as "stamp/authenticated.toml".
///
/// # Panics
/// It does not exist, or has another form.
#[must_use]
pub fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/../../vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Parses hexadecimal digits. Spaces and colons are ignored.
///
/// # Panics
/// There are other characters, or half an octet.
#[must_use]
pub fn octets(text: &str) -> Vec<u8> {
    let digits = text.chars().filter(|c| !matches!(c, ' ' | ':'));
    let digit = |c: char| c.to_digit(16).unwrap_or_else(|| panic!("{c:?} in {text:?}"));
    let digits: Vec<u8> = digits.map(|c| digit(c) as u8).collect();
    assert!(digits.len() % 2 == 0, "half an octet: {text:?}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
