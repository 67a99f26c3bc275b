//! Names of users, from /etc/passwd: queries of a directory service could take long.

use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;

use onbeat_irq_core::names::Octets;

/// The name of a user; its number if /etc/passwd has none.
pub(super) fn name(user: u32) -> Octets {
    static NAMES: OnceLock<HashMap<u32, Octets>> = OnceLock::new();
    let names = NAMES.get_or_init(|| parse(&fs::read("/etc/passwd").unwrap_or_default()));
    names.get(&user).cloned().unwrap_or_else(|| user.to_string().as_str().into())
}

/// Names by number; of several, the first.
fn parse(octets: &[u8]) -> HashMap<u32, Octets> {
    let mut names = HashMap::new();
    for line in octets.split(|octet| *octet == b'\n') {
        let mut fields = line.split(|octet| *octet == b':');
        let (Some(name), Some(number)) = (fields.next(), fields.nth(1)) else { continue };
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| !name.is_empty()) {
            names.entry(number).or_insert_with(|| name.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd() {
        let names =
            parse(b"root:x:0:0::/root:/bin/sh\ntoor:x:0:0\n\nx\n:x:7:7\na:x:-1:1\nwww:x:33:33\n");
        let mut all: Vec<(u32, String)> =
            names.into_iter().map(|(number, name)| (number, name.to_string())).collect();
        all.sort();
        assert_eq!(all, [(0, "root".into()), (33, "www".into())]);
        assert_eq!(name(4_000_000_000).to_string(), "4000000000");
    }
}
