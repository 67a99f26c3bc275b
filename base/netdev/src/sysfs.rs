//! The network namespace whose devices /sys shows.

use std::{collections::BTreeSet, fs, path::Path};

use onbeat_wire::MacAddress;

use crate::{Handle, Result};

/// Returns whether /sys shows the devices of the handle's namespace: the same names with the same indices and
/// hardware addresses, at least one of them not a loopback. The kernel does not report the namespace for
/// which a sysfs was mounted.
pub(crate) fn shows(handle: &Handle) -> Result<bool> {
    let links = handle.links()?;
    let expected: BTreeSet<_> =
        links.iter().map(|link| (link.name.clone(), link.index, link.mac)).collect();
    let shown = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    // Some entries are not devices: bonding_masters is a file.
    let shown: BTreeSet<_> = shown.filter_map(|entry| device(&entry.path())).collect();
    Ok(shown == expected && links.iter().any(|link| !link.loopback))
}

fn device(directory: &Path) -> Option<(String, u32, Option<MacAddress>)> {
    let text = |name| fs::read_to_string(directory.join(name)).ok();
    let index = text("ifindex")?.trim().parse().ok()?;
    let mac = text("address").and_then(|text| text.trim().parse().ok());
    Some((directory.file_name()?.to_str()?.to_owned(), index, mac))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, VethEnd};
    use onbeat_testing::{Feature, require};

    #[test]
    fn only_the_sysfs_of_the_namespace_shows_its_devices() {
        if !require(Feature::Root) {
            return;
        }
        let (namespace, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let handle = Handle::in_namespace(&namespace).unwrap();
        let shown = || shows(&handle).unwrap();
        assert!(!namespace.run_with_sysfs(shown).unwrap(), "every namespace has a loopback");
        let same_names = |handle: &Handle| {
            handle.create_veth(&VethEnd::new("path1"), &VethEnd::new("path2")).unwrap();
        };
        same_names(&handle);
        same_names(&Handle::in_namespace(&other).unwrap());
        assert!(namespace.run_with_sysfs(shown).unwrap());
        assert!(!other.run_with_sysfs(shown).unwrap());
    }
}
