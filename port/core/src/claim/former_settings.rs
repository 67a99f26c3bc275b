//! Settings of an interface before it is claimed, and their restoration.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Ethtool, Handle, Link};
use serde::{Deserialize, Serialize};

use super::{proc, sysctl};
use crate::journal::Settings;
use crate::{Error, Result};

/// Queueing disciplines that the kernel sets by default.
const PLAIN_QDISCS: [&str; 6] = ["noqueue", "noop", "mq", "pfifo_fast", "fq_codel", "fq"];

/// Maximum number of addresses of an interface in a journal.
const MAX_ADDRESSES: usize = 4096;

/// The highest number of a receive filter (`HWTSTAMP_FILTER_...`) accepted from a journal. The kernel has 16 at
/// present.
const MAX_RX_FILTER: i32 = 255;

/// Settings that an interface loses when it moves to another namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FormerSettings {
    pub(super) up: bool,
    pub(super) arp: bool,
    /// Addresses with prefix lengths.
    pub(super) addresses: Vec<(IpAddr, u8)>,
    /// The interface's own settings, by path. They change to a namespace's defaults when the interface enters it.
    pub(super) sysctls: BTreeMap<String, String>,
    /// The frames that the NIC stamps; `None`: the NIC has no time stamps.
    #[serde(default)]
    pub(super) stamps: Option<StampSettings>,
}

/// [`HardwareStamps`] in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StampSettings {
    tx: bool,
    rx_filter: i32,
}

impl StampSettings {
    /// Reads the settings of an interface in the namespace.
    fn read(home: &Handle, interface: &str) -> Option<Self> {
        let stamps =
            Ethtool::in_namespace(home.namespace()).ok()?.hardware_stamps(interface).ok()?;
        Some(Self { tx: stamps.tx, rx_filter: stamps.rx_filter })
    }

    fn restore(self, home: &Handle, interface: &str) -> Result<()> {
        if Self::read(home, interface) == Some(self) {
            return Ok(());
        }
        let stamps = HardwareStamps { tx: self.tx, rx_filter: self.rx_filter };
        Ethtool::in_namespace(home.namespace())?.set_hardware_stamps(interface, stamps)?;
        Ok(())
    }
}

impl Settings for FormerSettings {
    fn check(&self, interface: &str) -> std::result::Result<(), String> {
        if self.addresses.len() > MAX_ADDRESSES {
            return Err(format!(
                "it has {} addresses, more than the limit of {MAX_ADDRESSES}",
                self.addresses.len()
            ));
        }
        let too_long = |(address, prefix): &&(IpAddr, u8)| match address {
            IpAddr::V4(_) => *prefix > 32,
            IpAddr::V6(_) => *prefix > 128,
        };
        if let Some((address, prefix)) = self.addresses.iter().find(too_long) {
            return Err(format!("prefix of address {address}/{prefix} is too long"));
        }
        sysctl::check(&self.sysctls, interface)?;
        self.stamps.map_or(Ok(()), |stamps| check_rx_filter(stamps.rx_filter))
    }
}

/// Checks that the number can be a receive filter.
pub(crate) fn check_rx_filter(number: i32) -> std::result::Result<(), String> {
    if (0..=MAX_RX_FILTER).contains(&number) {
        return Ok(());
    }
    Err(format!("receive filter {number} is not in 0 to {MAX_RX_FILTER}"))
}

impl FormerSettings {
    /// Reads the settings, or refuses if one could not be restored.
    pub(super) fn read(home: &Handle, interface: &str) -> Result<Self> {
        let link = home.link(interface)?;
        let (addresses, sysctls) =
            home.namespace().run(|| (addresses(interface), sysctl::read(interface)))?;
        refuse_irreversible(home, &link, &addresses)?;
        let stamps = StampSettings::read(home, interface);
        let before = Self { up: link.up, arp: link.arp, addresses, sysctls, stamps };
        // A later process would refuse such a journal.
        before.check(interface).map_err(|why| Error::InUse {
            interface: interface.to_owned(),
            why,
            remedy: "claim another interface".into(),
        })?;
        Ok(before)
    }

    /// Restores the settings of an interface that is back in its namespace, and was turned off if it had left it.
    /// `former` is its name when the settings were read.
    pub(super) fn restore(&self, home: &Handle, former: &str, interface: &str) -> Result<()> {
        home.set_arp(interface, self.arp)?;
        if let Some(stamps) = self.stamps {
            stamps.restore(home, interface)?;
        }
        home.namespace().run(|| {
            let now = sysctl::read(interface);
            for (path, value) in &self.sysctls {
                let (of_former, of_present) =
                    (format!("/conf/{former}/"), format!("/conf/{interface}/"));
                let path = &path.replacen(&of_former, &of_present, 1);
                if now.get(path).is_none_or(|now| now == value) {
                    continue;
                }
                if let Err(error) = fs::write(path, value) {
                    tracing::warn!(
                        "interface {interface:?}: cannot restore {path} to {value}: {error}"
                    );
                }
            }
        })?;
        if self.up {
            home.set_up(interface)?;
        } else {
            home.set_down(interface)?;
        }
        for (address, prefix) in &self.addresses {
            match home.add_address(interface, *address, *prefix) {
                // Never removed, or set by the kernel (IPv6 link-local).
                Err(error) if error.errno() == Some(Errno::EEXIST) => {}
                result => result?,
            }
        }
        Ok(())
    }
}

fn refuse_irreversible(home: &Handle, link: &Link, addresses: &[(IpAddr, u8)]) -> Result<()> {
    let refuse = |why: String, remedy: String| {
        Err(Error::InUse { interface: link.name.clone(), why, remedy })
    };
    let name = &link.name;
    if link.loopback {
        return refuse("it is the loopback interface".into(), "use an Ethernet interface".into());
    }
    if let Some(master) = link.master {
        return refuse(
            format!("it is a port of a bridge or bond (interface {master})"),
            format!("ip link set {name} nomaster"),
        );
    }
    let plain = |kind: &String| PLAIN_QDISCS.contains(&kind.as_str());
    if let Some(program) = link.xdp.first() {
        return refuse(
            format!("XDP program {} ({}) receives its frames", program.program_id, program.mode),
            format!("stop its owner, or: ip link set dev {name} xdp off"),
        );
    }
    if let Some(kind) = link.qdisc.as_ref().filter(|kind| !plain(kind)) {
        return refuse(
            format!("its queueing discipline {kind} would be lost"),
            format!("tc qdisc del dev {name} root; configure it again within the claim"),
        );
    }
    let route = home.namespace().run(|| {
        let table = |table: &str| {
            fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
        };
        proc::ipv4_route(&table("route"), name, addresses)
            .or_else(|| proc::ipv6_route(&table("ipv6_route"), name, addresses))
    })?;
    match route {
        Some(route) => refuse(
            format!("the route to {route} would be lost"),
            format!("use an interface without routes, or: ip route del {route} dev {name}"),
        ),
        None => Ok(()),
    }
}

/// The interface's addresses in the calling thread's namespace.
fn addresses(interface: &str) -> Vec<(IpAddr, u8)> {
    let table = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let mut found = proc::ipv6_addresses(&table, interface);
    let all = getifaddrs().into_iter().flatten();
    found.extend(all.filter(|entry| entry.interface_name == interface).filter_map(|entry| {
        let address = entry.address.as_ref()?.as_sockaddr_in()?.ip();
        let mask = entry.netmask.as_ref()?.as_sockaddr_in()?.ip();
        Some((address.into(), u32::from(mask).leading_ones() as u8))
    }));
    found
}
