//! Settings of an interface under /proc/sys/net.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

/// Maximum number of settings in a journal. The kernel has about 100.
const MAX_SETTINGS: usize = 512;

/// Maximum length of the name of a setting, in octets.
const MAX_NAME: usize = 64;

/// The only setting that is not a number: an IPv6 address.
const SECRET: &str = "stable_secret";

/// Protocols with settings for each interface.
const PROTOCOLS: [&str; 2] = ["ipv4", "ipv6"];

/// Returns the readable settings of the interface in the calling thread's namespace, by path.
pub(super) fn read(interface: &str) -> BTreeMap<String, String> {
    let directories = PROTOCOLS.map(|ip| directory(ip, interface));
    let files = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    files
        .filter_map(|file| {
            let path = file.path().to_str()?.to_owned();
            let value = fs::read_to_string(&path).ok()?;
            Some((path, value.trim_end().to_owned()))
        })
        .collect()
}

/// Checks that [`read`] could have returned these settings of the interface.
///
/// # Errors
/// The first setting that it could not have returned.
pub(super) fn check(
    settings: &BTreeMap<String, String>,
    interface: &str,
) -> std::result::Result<(), String> {
    if settings.len() > MAX_SETTINGS {
        return Err(format!(
            "it has {} settings, more than the limit of {MAX_SETTINGS}",
            settings.len()
        ));
    }
    for (path, value) in settings {
        let Some(name) = name(path, interface) else {
            return Err(format!("{path:?} is not a setting of interface {interface:?}"));
        };
        if !is_value(name, value) {
            return Err(format!("{value:?} is not a valid value of {path:?}"));
        }
    }
    Ok(())
}

/// Returns the name of the setting with this path, if the kernel has such a setting.
fn name<'a>(path: &'a str, interface: &str) -> Option<&'a str> {
    let of = |ip: &&str| path.strip_prefix(&directory(ip, interface))?.strip_prefix('/');
    let (ip, name) = PROTOCOLS.iter().find_map(|ip| Some((ip, of(ip)?)))?;
    let plain = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let valid = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain);
    // Every interface has the settings of "default".
    (valid && Path::new(&directory(ip, "default")).join(name).exists()).then_some(name)
}

fn is_value(name: &str, value: &str) -> bool {
    let numbers = i64::from(i32::MIN)..=i64::from(u32::MAX);
    match name {
        SECRET => value.parse::<Ipv6Addr>().is_ok(),
        _ => value.parse().is_ok_and(|number| numbers.contains(&number)),
    }
}

fn directory(ip: &str, interface: &str) -> String {
    format!("/proc/sys/net/{ip}/conf/{interface}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(path: &str, value: &str) -> std::result::Result<(), String> {
        check(&[(path.to_owned(), value.to_owned())].into(), "lo")
    }

    #[test]
    fn settings_of_an_interface_are_accepted() {
        let all = read("lo");
        assert!(all.keys().any(|path| path.ends_with("/arp_ignore")), "{all:?}");
        check(&all, "lo").unwrap();
        for value in ["0", "-1", "4294967295", "-2147483648"] {
            checked("/proc/sys/net/ipv4/conf/lo/arp_ignore", value).unwrap();
        }
    }

    #[test]
    fn other_paths_and_values_are_refused() {
        for path in [
            "",
            "/etc/passwd",
            "arp_ignore",
            "/proc/sys/net/ipv4/conf/lo",
            "/proc/sys/net/ipv4/conf/lo/",
            "/proc/sys/net/ipv4/conf/lo//arp_ignore",
            "/proc/sys/net/ipv4/conf/lo/../default/arp_ignore",
            "/proc/sys/net/ipv4/conf/lo/../../ip_forward",
            "/proc/sys/net/ipv4/conf/lo/no_such_setting",
            "/proc/sys/net/ipv4/conf/lo/Arp_ignore",
            "/proc/sys/net/ipv4/conf/lo/arp_ignore\0",
            "/proc/sys/net/ipv4/conf/all/arp_ignore",
            "/proc/sys/net/ipv4/conf/lo1/arp_ignore",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/net/ipv5/conf/lo/arp_ignore",
            "//proc/sys/net/ipv4/conf/lo/arp_ignore",
        ] {
            let why = checked(path, "1").unwrap_err();
            assert!(why.contains(&format!("{path:?} is not a setting")), "{path:?}: {why}");
        }
        let path = "/proc/sys/net/ipv4/conf/lo/arp_ignore";
        for value in ["", "x", "1 ", "1\n2", "0x1", "4294967296", "::1", &"1".repeat(1 << 20)] {
            let why = checked(path, value).unwrap_err();
            assert!(why.contains("is not a valid value of"), "{why}");
        }
        let many = (0..=MAX_SETTINGS).map(|n| (n.to_string(), String::new())).collect();
        assert!(check(&many, "lo").unwrap_err().contains("513 settings"));
    }

    #[test]
    fn the_stable_secret_is_an_address() {
        assert!(is_value(SECRET, "2001:0db8:0000:0000:0000:0000:0000:0001"));
        assert!(!is_value(SECRET, "1") && !is_value("arp_ignore", "::1"));
    }
}
