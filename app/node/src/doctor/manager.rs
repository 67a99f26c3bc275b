//! Who configures an interface: network managers and their files.

use onbeat_host::settings::{Manager, SettingKind};
use onbeat_netdev::shell_word;

use super::root::HostRoot;
use super::{Finding, Level};

const WHAT: &str = "network manager";

/// The findings on an interface: none if nothing configures it.
pub(super) fn examine(root: &HostRoot<'_>, interface: &str) -> Vec<Finding> {
    let running = Manager::ALL.into_iter().filter_map(|manager| running(root, manager, interface));
    let written = [netplan(root, interface), ifupdown(root, interface)];
    running.chain(written.into_iter().flatten()).collect()
}

/// A manager that runs, and knows the interface.
fn running(root: &HostRoot<'_>, manager: Manager, interface: &str) -> Option<Finding> {
    let state = manager.state(&root.path("/"), interface)?;
    if !manager.manages(&state) {
        return Some(Finding::ok("network-manager", WHAT, format!("{manager} does not manage it")));
    }
    let source = manager.source(&state).map(|source| format!(" by {source}")).unwrap_or_default();
    let value = format!(
        "{manager} configures it{source}: DHCP, addresses, MTU and promiscuous mode of a port may change"
    );
    let finding = Finding::new("network-manager", Level::Warn, WHAT, value);
    if !Manager::can_name(interface) {
        return Some(finding.remedy(format!("rename {}", shell_word(interface))));
    }
    let remedy = format!(
        "if this host does not use its addresses, for all boots: printf '{}\\n' >{} && {}",
        manager.lines(interface).join("\\n"),
        manager.permanent_file(interface),
        manager.reload().join(" "),
    );
    Some(finding.remedy(remedy).fix(SettingKind::Manager))
}

/// Files of netplan, which writes those of a manager at boot.
fn netplan(root: &HostRoot<'_>, interface: &str) -> Option<Finding> {
    let file = named_in(root, "/etc/netplan", ".yaml", |line| {
        let key = line.trim().strip_suffix(':').unwrap_or_default();
        key.trim_matches(['"', '\'']) == interface
    })?;
    let value = format!("netplan configures it by {file}");
    Some(Finding::new("network-manager", Level::Warn, WHAT, value).remedy(format!(
        "remove it from {file}, or set there: dhcp4: false, dhcp6: false, accept-ra: false, link-local: [], optional: \
         true, mtu; then: netplan apply"
    )))
}

/// Files of ifupdown. The method `manual` sets nothing.
fn ifupdown(root: &HostRoot<'_>, interface: &str) -> Option<Finding> {
    let sets = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("iface")
            && words.next() == Some(interface)
            && words.nth(1).is_some_and(|method| method != "manual")
    };
    let main = "/etc/network/interfaces";
    let text = root.read(main)?;
    let is_sourced = text
        .lines()
        .any(|line| line.trim_start().starts_with("source") && line.contains("interfaces.d"));
    let file = if text.lines().any(sets) {
        main.to_owned()
    } else {
        is_sourced.then(|| named_in(root, "/etc/network/interfaces.d", "", sets))??
    };
    let value = format!("ifupdown configures it by {file}");
    Some(Finding::new("network-manager", Level::Warn, WHAT, value).remedy(format!(
        "set its methods in {file} to manual: iface {} inet manual",
        shell_word(interface)
    )))
}

/// The first file of a directory with such a line.
fn named_in(
    root: &HostRoot<'_>,
    directory: &str,
    ending: &str,
    names_it: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut names = root.list(directory);
    names.sort();
    let is_backup =
        |name: &str| name.ends_with('~') || name.contains(".bak") || name.contains(".dpkg-");
    let paths = names.iter().filter(|name| name.ends_with(ending) && !is_backup(name));
    let mut paths = paths.map(|name| format!("{directory}/{name}"));
    paths.find(|path| root.read(path).is_some_and(|text| text.lines().any(&names_it)))
}
