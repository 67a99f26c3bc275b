//! Key files of authenticated sessions.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use onbeat_delay::probe::Key;

use crate::error::LONGEST_KEY_FILE;
use crate::{Error, KeyFileError, Result};

/// Read or write permission of users other than the owner and the group.
const EVERYBODY: u32 = 0o006;

/// Reads the key of a file. Hexadecimal digits, with any white space, are decoded to octets; of any other content
/// each octet belongs to the key, including line ends.
///
/// # Errors
/// [`Error::Key`].
pub fn read_key(path: &Path) -> Result<Key> {
    read(path).map_err(|source| Error::Key { path: path.to_owned(), source })
}

fn read(path: &Path) -> std::result::Result<Key, KeyFileError> {
    let file = onbeat_host::file::open_regular(path)?;
    // The permissions of the open file, whatever the name refers to by now.
    let mode = file.metadata()?.mode() & 0o7777;
    if mode & EVERYBODY != 0 {
        return Err(KeyFileError::Everybodys(mode));
    }
    let octets =
        onbeat_host::file::read_stream(file, LONGEST_KEY_FILE).map_err(|error| {
            match error.kind() {
                io::ErrorKind::FileTooLarge => KeyFileError::TooLong,
                _ => error.into(),
            }
        })?;
    Key::new(&key_octets(octets)?).ok_or(KeyFileError::Empty)
}

fn key_octets(octets: Vec<u8>) -> std::result::Result<Vec<u8>, KeyFileError> {
    let digit = |octet: &u8| char::from(*octet).to_digit(16).map(|digit| digit as u8);
    let there = || octets.iter().filter(|octet| !octet.is_ascii_whitespace());
    let Some(digits) = there().map(digit).collect::<Option<Vec<u8>>>() else {
        return Ok(octets);
    };
    if digits.len() % 2 != 0 {
        return Err(KeyFileError::HalfAnOctet(digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_are_hexadecimal_or_raw() {
        let octets = |text: &[u8]| key_octets(text.to_vec()).unwrap();
        assert_eq!(octets(b"00ffA5\n"), [0x00, 0xff, 0xa5]);
        assert_eq!(octets(b" 0 0 f\tf\r\nA5"), [0x00, 0xff, 0xa5]);
        assert_eq!(octets(b"a secret\n"), b"a secret\n", "each octet belongs to the key");
        assert_eq!(octets(&[0, 0xff, b'\n']), [0, 0xff, b'\n']);
        assert_eq!(octets(b"0x00ff"), b"0x00ff", "not a hexadecimal digit");
        assert!(octets(b" \n").is_empty() && octets(b"").is_empty());
        assert!(matches!(key_octets(b"00f\n".to_vec()), Err(KeyFileError::HalfAnOctet(3))));
    }
}
