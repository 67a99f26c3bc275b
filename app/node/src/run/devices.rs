//! Interfaces of a node, each locked, and the offloads that a node changes.

use std::collections::BTreeMap;

use onbeat_frer::dataplane::{Mode, ReceiveQueues};
use onbeat_host::InterfaceLock;
use onbeat_netdev::{Ethtool, Handle, Link};

use super::error::Result;
use crate::config::PortConfig;

/// The offload that removes VLAN tags of received frames, by the kernel's name.
pub(super) const RX_VLAN: &str = "rx-vlan-hw-parse";

/// Offloads of the end of a veth pair that programs of this machine use, by the kernel's names.
/// Frames of programs leave the machine unchanged: nothing behind a veth computes checksums, inserts
/// VLAN tags or cuts segments. Redirection to a veth requires NAPI at the other end, which GRO starts.
pub(super) const PAIR_OFFLOADS: [(&str, bool); 9] = [
    ("tx-checksum-ip-generic", false),
    ("tx-checksum-sctp", false),
    ("tx-sctp-segmentation", false),
    ("tx-tcp-segmentation", false),
    ("tx-tcp6-segmentation", false),
    ("tx-generic-segmentation", false),
    ("tx-udp-segmentation", false),
    ("tx-vlan-hw-insert", false),
    RX_GRO,
];

/// Offloads that merge received frames: a merged one is no frame of its sender any more.
pub(super) const MERGING: [(&str, bool); 4] =
    [("rx-gro", false), ("rx-gro-hw", false), ("rx-lro", false), ("rx-udp-gro-forwarding", false)];

/// GRO starts NAPI of a veth.
pub(super) const RX_GRO: (&str, bool) = ("rx-gro", true);

/// Drivers that poll each receive queue by a NAPI instance of its own, and number the queues of an interface uniquely.
/// Others run a program for several devices with one queue number (bonding, hv_netvsc), in the context of a sender (tun),
/// or were not examined.
const SERIAL_QUEUES: [&str; 14] = [
    "atlantic",
    "bnxt_en",
    "ena",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mlx4_en",
    "mlx5_core",
    "st_gmac",
    "tsnep",
    "veth",
    "virtio_net",
];

/// Whether a node changes this feature of an interface.
pub(super) fn is_changed_feature(name: &str) -> bool {
    let mut features = PAIR_OFFLOADS.iter().chain(&MERGING);
    name == RX_VLAN || features.any(|(known, _)| *known == name)
}

/// Access to interfaces, and the locks on the interfaces of this node.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) handle: Handle,
    pub(super) ethtool: Ethtool,
    /// Description of the node for other processes.
    node: String,
    /// By index of the interface.
    locks: BTreeMap<u32, InterfaceLock>,
}

impl Devices {
    /// Opens the access for the node with this name.
    pub(super) fn open(node: &str) -> Result<Self> {
        let (handle, ethtool) = (Handle::open()?, Ethtool::open()?);
        Ok(Self { handle, ethtool, node: format!("node {node:?}"), locks: BTreeMap::new() })
    }

    /// The receive queues of an interface for a program in this mode. In generic mode several CPUs run a program for one
    /// queue.
    pub(super) fn receive_queues(&self, link: &Link, mode: Mode) -> ReceiveQueues {
        let driver = self.ethtool.driver(&link.name);
        let is_serial = driver.is_ok_and(|driver| SERIAL_QUEUES.contains(&driver.name.as_str()));
        if !is_serial || mode != Mode::Native {
            return ReceiveQueues::Concurrent;
        }
        if self.ethtool.receive_queues(link) == 1 {
            ReceiveQueues::Single
        } else {
            ReceiveQueues::Serial
        }
    }

    /// Locks an interface for this node, which may have the lock already.
    pub(super) fn lock(&mut self, link: &Link) -> onbeat_host::Result<()> {
        if !self.locks.contains_key(&link.index) {
            let lock =
                InterfaceLock::take(self.handle.namespace(), link.index, &link.name, &self.node)?;
            self.locks.insert(link.index, lock);
        }
        Ok(())
    }

    /// Releases interfaces that no longer exist in this namespace.
    pub(super) fn release_gone(&mut self) {
        let handle = &self.handle;
        let gone = |index| handle.link_by_index(index).is_err_and(|error| error.is_not_found());
        self.locks.retain(|index, _| !gone(*index));
    }

    /// Releases all interfaces but those of these ports.
    pub(super) fn release_others(&mut self, ports: &[PortConfig]) {
        let index = |port: &PortConfig| self.handle.index(&port.attached_interface()).ok();
        let indices: Vec<u32> = ports.iter().filter_map(index).collect();
        self.locks.retain(|index, _| indices.contains(index));
    }
}
