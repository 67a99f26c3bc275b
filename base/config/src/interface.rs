//! Names of interfaces.

use onbeat_netdev::{Error, NAME_RULE, check_name};

use crate::reader::Value;

/// Reads the name of an existing or new interface.
pub fn read(value: &Value<'_>) -> Option<String> {
    let name = value.text()?;
    let reason = match check_name(name) {
        Ok(()) if name.bytes().all(|octet| octet.is_ascii_graphic()) => {
            return Some(name.to_owned());
        }
        Err(Error::InvalidName { reason, .. }) => reason,
        // The kernel permits other octets, which a terminal may interpret.
        _ => "it contains a character that is not printable ASCII",
    };
    value.fault(format!("{name:?} cannot name an interface: {reason}"), NAME_RULE);
    None
}
