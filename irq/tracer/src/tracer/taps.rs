//! Devices with packet sockets that receive all of their packets: the program at their ingress.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags};
use onbeat_bpf::{Link, Object, PlainData};

use crate::abi::{irq_device, irq_taps};
use crate::error::{Error, Result};
use crate::names;

/// The program.
pub(super) const ON_INGRESS: &str = "on_ingress";

/// ETH_P_ALL, as /proc/net/packet prints it.
const ALL_PROTOCOLS: &str = "0003";

/// The devices, by the octets of their key.
#[derive(Debug, Default)]
pub(super) struct Taps {
    /// `None`: the kernel refused (before Linux 6.6), or the device was not found.
    links: HashMap<Vec<u8>, Option<Link>>,
}

impl Taps {
    /// Whether there are such devices.
    pub(super) fn any(&self) -> bool {
        !self.links.is_empty()
    }

    /// Attaches the program to devices that the kernel side found.
    pub(super) fn attach(&mut self, object: &Object) -> Result<()> {
        let table = object.map("tapped");
        for key in table.keys() {
            if self.links.contains_key(&key) {
                continue;
            }
            let link = in_namespace(&key, |device| {
                Link::first_tcx_ingress(object.program(ON_INGRESS).as_fd(), device).ok()
            });
            if link.is_some() {
                set(object, &key, true)?;
            }
            self.links.insert(key, link);
        }
        Ok(())
    }

    /// Detaches the program from devices without such sockets. Devices where it could not be attached are tried again.
    pub(super) fn detach_unused(&mut self, object: &Object) {
        self.links.retain(|key, link| {
            let used = link.is_some()
                && in_namespace(key, |device| has_taps(device).ok()).unwrap_or(false);
            if !used {
                // It is gone if the kernel evicted it.
                let _ = object.map("tapped").delete(key);
            }
            used
        });
    }

    /// Detaches the program from all devices.
    pub(super) fn detach_all(&mut self, object: &Object) {
        self.links.drain().for_each(|(key, _)| {
            let _ = object.map("tapped").delete(&key);
        });
    }
}

fn set(object: &Object, key: &[u8], attached: bool) -> Result<()> {
    let taps = irq_taps { attached: attached.into(), hash: 0 };
    let set = object.map("tapped").update(key, taps.octets(), MapFlags::ANY);
    set.map_err(|source| Error::kernel("write table tapped", source))
}

/// Performs a task for a device in its namespace.
fn in_namespace<T>(key: &[u8], what: impl FnOnce(u32) -> Option<T> + Send) -> Option<T>
where
    T: Send,
{
    let irq_device { netns, index } = irq_device::from_octets(key)?;
    names::namespace(netns)?.run(|| what(index)).ok()?
}

/// Whether this network namespace has packet sockets that receive all packets of a device.
fn has_taps(device: u32) -> io::Result<bool> {
    let text = fs::read_to_string("/proc/thread-self/net/packet")?;
    // sk RefCnt Type Proto Iface ...
    Ok(text.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        matches!(fields[..], [_, _, _, ALL_PROTOCOLS, of, ..]
            if of.parse().is_ok_and(|of: u32| of == 0 || of == device))
    }))
}
