//! Common functions of the fuzz targets.

use onbeat_wire::EmitError;

/// Runs `emit` on a buffer of 0xa5 that is longer than needed, and checks that it writes exactly the
/// octets that it reports, and that it rejects a buffer that is one octet too short.
pub fn emitted(len: usize, emit: impl Fn(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
    let mut buffer = vec![0xa5; len + 8];
    assert_eq!(emit(&mut buffer), Ok(len), "a parsed value fits into a buffer of its length");
    assert!(buffer[len..].iter().all(|octet| *octet == 0xa5), "written past the end");
    let mut other = vec![0x5a; len + 8];
    assert_eq!(emit(&mut other), Ok(len));
    assert_eq!(buffer[..len], other[..len], "an octet was left unwritten");
    assert!(matches!(emit(&mut other[..len - 1]), Err(EmitError::NoRoom { .. })));
    buffer.truncate(len);
    buffer
}
