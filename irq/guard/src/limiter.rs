//! Drops packets that exceed a limit: loads bpf/limit.bpf.c, sets its table, reads its counts.
//!
//! Its programs are removed with the [`Limiter`], or with the process.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Map, MapCore, MapFlags};
use onbeat_bpf::{Link, Object, PlainData};

use super::config::DropPoint;
use crate::abi::{guard_count, guard_limit, guard_size};
use crate::error::{Error, Result};
use onbeat_irq_core::policy::Limit;

static LIMIT: &[u8] = onbeat_bpf::bpf_object!("limit.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "limit.skel.rs");

use skeleton::types::{bss, bucket};

/// The programs.
const AT_TC: &str = "guard_ingress";
const AT_XDP: &str = "guard_xdp";

/// Native mode only: in the stack, tc ingress does the same at lower cost.
const XDP_FLAGS: u32 = sys::XDP_FLAGS_DRV_MODE;

/// The credit that a process can accumulate while it receives less than its limit: packets come in bursts.
const BURST: Duration = Duration::from_millis(10);

/// Packets of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) dropped: u64,
}

/// The programs that process devices' packets.
#[derive(Debug)]
pub(super) struct Limiter {
    object: Object,
    drop_at: DropPoint,
    links: Vec<(u32, Link)>,
    /// By slot: its number, and the time for each packet.
    limits: Vec<(u32, u64)>,
    addresses: BTreeSet<Ipv6Addr>,
}

impl Limiter {
    /// The number of limits. A number of processes has the limit of its remainder.
    pub(super) const SLOTS: u32 = guard_size::GUARD_SLOTS.0;

    /// Attached to no device yet. `numbers` are the tables with the number of each socket.
    pub(super) fn new(numbers: &[Map<'_>], drop_at: DropPoint) -> Result<Self> {
        let object = Object::load(LIMIT, "the program of budgets", |object| {
            if drop_at != DropPoint::Xdp {
                object.skip(AT_XDP);
            }
            numbers.iter().try_for_each(|table| object.share(table))
        })?;
        Ok(Self {
            object,
            drop_at,
            links: Vec::new(),
            limits: vec![(0, 0); Self::SLOTS as usize],
            addresses: BTreeSet::new(),
        })
    }

    /// Limits packets to these addresses only, those of this host: no other packet has one known receiver.
    pub(super) fn set_addresses(&mut self, addresses: impl Iterator<Item = IpAddr>) -> Result<()> {
        let addresses: BTreeSet<Ipv6Addr> = addresses
            .map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            })
            .collect();
        let table = self.object.map("addresses");
        let failed = |source| Error::kernel("set the addresses that budgets hold for", source);
        for gone in self.addresses.difference(&addresses) {
            table.delete(&gone.octets()).map_err(failed)?;
        }
        for new in addresses.difference(&self.addresses) {
            table.update(&new.octets(), &[1], MapFlags::ANY).map_err(failed)?;
        }
        self.addresses = addresses;
        Ok(())
    }

    /// Attaches a program to these devices, and detaches it from all others.
    pub(super) fn set_devices(&mut self, devices: &[u32]) -> Result<()> {
        self.links.retain(|(device, _)| devices.contains(device));
        for device in devices {
            if self.links.iter().all(|(known, _)| known != device) {
                let link = self.attach(*device)?;
                self.links.push((*device, link));
            }
        }
        Ok(())
    }

    fn attach(&self, device: u32) -> Result<Link> {
        if self.drop_at == DropPoint::Xdp {
            match Link::xdp(self.object.program(AT_XDP).as_fd(), device, XDP_FLAGS) {
                Ok(link) => return Ok(link),
                // The interface no longer exists: the caller finds that when it lists devices.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => tracing::warn!(
                    "interface {:?} does not accept an XDP program ({error}): packets above a \
                     budget are dropped at its tc ingress",
                    name_of(device),
                ),
            }
        }
        Link::tcx_ingress(self.object.program(AT_TC).as_fd(), device).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EINVAL) => Error::NoIngress,
                _ => {
                    let what =
                        format!("attach the program of budgets to interface {:?}", name_of(device));
                    Error::kernel(what, error.into())
                }
            }
        })
    }

    /// Sets the packet rate that the process with a number may receive.
    pub(super) fn limit(&mut self, number: u32, limit: Limit) -> Result<()> {
        let ns_per_packet = match limit {
            Limit::None => 0,
            Limit::PacketsPerSecond(packets) => 1_000_000_000 / packets.clamp(1, 1_000_000_000),
        };
        let slot = slot(number);
        if std::mem::replace(&mut self.limits[slot], (number, ns_per_packet))
            == (number, ns_per_packet)
        {
            return Ok(());
        }
        let failed = |source| Error::kernel("set the limit of a process", source);
        let mut value = self.object.variables().map_err(failed)?;
        let limit =
            guard_limit { ns_per_packet, burst_ns: BURST.as_nanos() as u64, number: number.into() };
        let at = offset_of!(bss, limits) + slot * size_of::<guard_limit>();
        value[at..][..size_of::<guard_limit>()].copy_from_slice(limit.octets());
        let limited = self.limits.iter().filter(|(_, limit)| *limit != 0).count() as u32;
        value[offset_of!(bss, limited)..][..4].copy_from_slice(&limited.to_ne_bytes());
        self.object.set_variables(&[(0, &value)]).map_err(failed)
    }

    /// The packets passed and dropped since the start.
    pub(super) fn count(&self, number: u32) -> Result<Count> {
        let octets = self
            .object
            .map("buckets")
            .lookup(&(slot(number) as u32).to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::kernel("read the counts of dropped packets", source))?
            .unwrap_or_default();
        let count = octets.get(offset_of!(bucket, count)..).unwrap_or_default();
        let guard_count { passed, dropped } = guard_count::from_octets(count)
            .ok_or(onbeat_irq::Error::Foreign { table: "buckets", octets: octets.len() })?;
        Ok(Count { passed, dropped })
    }
}

/// The slot of a number.
fn slot(number: u32) -> usize {
    (number % Limiter::SLOTS) as usize
}

/// The name of an interface; the index if it was just removed.
fn name_of(device: u32) -> String {
    nix::net::if_::if_indextoname(device)
        .map_or_else(|_| device.to_string(), |name| name.to_string_lossy().into_owned())
}
