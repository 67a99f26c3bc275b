//! Drops packets above a budget: loads bpf/limit.bpf.c, sets budgets, reads its counts. The ledger begins limits.
//!
//! Its programs are removed with the [`Limiter`], or with the process.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle};
use onbeat_bpf::{Link, MappedArray, Object, PlainData};
use onbeat_realtime::clock::now_ns;

use super::config::DropPoint;
use crate::abi::{guard_count, guard_limit, guard_size, guard_spent};
use crate::error::{Error, Result};
use onbeat_irq_core::policy::Budget;

static LIMIT: &[u8] = onbeat_bpf::bpf_object!("limit.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "limit.skel.rs");

use skeleton::types::bucket;

/// The programs.
const AT_TC: &str = "guard_ingress";
const AT_XDP: &str = "guard_xdp";

/// Native mode only: in the stack, tc ingress does the same at lower cost.
const XDP_FLAGS: u32 = sys::XDP_FLAGS_DRV_MODE;

/// The word of [`guard_limit`] with the end of limits.
const ENDED: usize = offset_of!(guard_limit, ended_ns) / size_of::<u64>();

/// What a number has used since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Time that the ledger charged.
    pub(super) spent_ns: u64,
    /// Packets passed and dropped while it was limited.
    pub(super) passed: u64,
    pub(super) dropped: u64,
    /// The recent cost of a packet; before any limit the mean.
    pub(super) ns_per_packet: u64,
}

/// The programs that process devices' packets.
#[derive(Debug)]
pub(super) struct Limiter {
    object: Object,
    drop_at: DropPoint,
    links: Vec<(u32, Link)>,
    limits: MappedArray<guard_limit>,
    spent: MappedArray<guard_spent>,
    addresses: BTreeSet<Ipv6Addr>,
}

impl Limiter {
    /// The number of limits. A number of processes has the limit of its remainder.
    pub(super) const SLOTS: u32 = guard_size::GUARD_SLOTS.0;

    /// Attached to no device yet. `tables` are those of budgets.
    pub(super) fn new(tables: &[Map<'_>], drop_at: DropPoint) -> Result<Self> {
        let object = Object::load(LIMIT, "the program of budgets", |object| {
            if drop_at != DropPoint::Xdp {
                object.skip(AT_XDP);
            }
            tables.iter().try_for_each(|table| object.share(table))
        })?;
        let handle = |name: &str| {
            let handle = MapHandle::try_from(&object.map(name));
            handle.map_err(|source| Error::kernel(format!("map the table {name}"), source))
        };
        Ok(Self {
            limits: MappedArray::new(&handle("limits")?)?,
            spent: MappedArray::new(&handle("spent")?)?,
            object,
            drop_at,
            links: Vec::new(),
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

    /// Gives a number a budget: it is limited when the ledger finds that it exceeds the budget.
    pub(super) fn set_budget(&self, number: u32, budget: Budget) {
        let Budget { ns_per_s } = budget;
        let limit = guard_limit { ns_per_s, number: number.into(), ended_ns: now_ns() };
        self.limits.set(slot(number), &limit);
    }

    pub(super) fn remove_budget(&self, number: u32) {
        self.limits.set(slot(number), &guard_limit::default());
    }

    /// Whether a number's packets are limited since the ledger found that they exceed the budget.
    pub(super) fn is_limited(&self, number: u32) -> bool {
        let limit = self.limits.get(slot(number));
        limit.number == u64::from(number)
            && self.spent.get(slot(number)).limited_at_ns > limit.ended_ns
    }

    /// Begins the limit of a number, as the ledger does for packets of this cost.
    #[cfg(test)]
    pub(super) fn begin_limit(&self, number: u32, ns_per_packet: u64) {
        let limited_at_ns = now_ns();
        let begun = guard_spent { limited_at_ns, ..guard_spent::default() };
        self.spent.set(slot(number), &guard_spent { ns: ns_per_packet, packets: 1, ..begun });
        self.spent.set(0, &begun);
    }

    /// Ends the limit of a number, unless it begins now.
    pub(super) fn end_limit(&self, number: u32) {
        self.limits.entry(slot(number))[ENDED].store(now_ns(), Ordering::Relaxed);
    }

    /// Packets are inspected while any number is limited, and from the start of the next limit on.
    pub(super) fn inspect(&self, any_limited: bool) {
        let ended_ns = if any_limited { 0 } else { now_ns() };
        self.limits.entry(0)[ENDED].store(ended_ns, Ordering::Relaxed);
    }

    /// The time and the packets of a number.
    pub(super) fn count(&self, number: u32) -> Result<Count> {
        let octets = self
            .object
            .map("buckets")
            .lookup(&slot(number).to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::kernel("read the counts of dropped packets", source))?
            .unwrap_or_default();
        let count = octets.get(offset_of!(bucket, count)..).unwrap_or_default();
        let guard_count { passed, dropped, ns_per_packet } = guard_count::from_octets(count)
            .ok_or(onbeat_irq::Error::Foreign { table: "buckets", octets: octets.len() })?;
        let guard_spent { ns, packets, .. } = self.spent.get(slot(number));
        let ns_per_packet = if ns_per_packet == 0 { ns / packets.max(1) } else { ns_per_packet };
        Ok(Count { spent_ns: ns, passed, dropped, ns_per_packet })
    }
}

/// The slot of a number.
fn slot(number: u32) -> u32 {
    number % Limiter::SLOTS
}

/// The name of an interface; the index if it was just removed.
fn name_of(device: u32) -> String {
    nix::net::if_::if_indextoname(device)
        .map_or_else(|_| device.to_string(), |name| name.to_string_lossy().into_owned())
}
