//! Drops packets above a budget: loads bpf/limit.bpf.c, sets budgets, reads its counts. The ledger starts limits.
//!
//! Its programs are removed with the [`Limiter`], or with the process.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Map, MapCore, MapFlags};
use onbeat_bpf::{Link, MappedArray, Object, PlainData};
use onbeat_realtime::clock::now_ns;

use super::config::DropPoint;
use crate::abi::{guard_account, guard_charges, guard_count, guard_limit, guard_size, guard_spent};
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

/// Words of [`guard_limit`].
const STOPPED: usize = offset_of!(guard_limit, stopped_ns) / size_of::<u64>();
const NUMBER: usize = offset_of!(guard_limit, number) / size_of::<u64>();

/// What a number has used since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Time that the ledger charged.
    pub(super) spent_ns: u64,
    /// Packets passed and dropped while it was limited.
    pub(super) passed: u64,
    pub(super) dropped: u64,
    /// The recent cost of a packet; the mean without a limit.
    pub(super) ns_per_packet: u64,
    /// Whether it has used more than its budget, and repays that.
    pub(super) in_debt: bool,
}

/// The programs that process devices' packets.
#[derive(Debug)]
pub(super) struct Limiter {
    object: Object,
    drop_at: DropPoint,
    links: Vec<(u32, Link)>,
    charged: Vec<u32>,
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
        Ok(Self {
            limits: object.mapped_array("limits")?,
            spent: object.mapped_array("spent")?,
            object,
            drop_at,
            links: Vec::new(),
            charged: Vec::new(),
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

    /// The time for packets of these devices counts, and of no others.
    pub(super) fn charge_devices(&mut self, devices: &[u32]) -> Result<()> {
        let table = self.object.map("guarded");
        let failed = |source| Error::kernel("set the interfaces of budgets", source);
        for gone in self.charged.iter().filter(|device| !devices.contains(device)) {
            table.delete(&gone.to_ne_bytes()).map_err(failed)?;
        }
        for new in devices.iter().filter(|device| !self.charged.contains(device)) {
            table.update(&new.to_ne_bytes(), &[1], MapFlags::ANY).map_err(failed)?;
        }
        self.charged = devices.to_vec();
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
        self.remove_budget(number);
        self.spent.set(slot(number), &guard_spent::default());
        let limit = guard_limit { stopped_ns: now_ns(), ns_per_s, number: number.into() };
        self.limits.set(slot(number), &limit);
    }

    pub(super) fn remove_budget(&self, number: u32) {
        self.limits.entry(slot(number))[NUMBER].store(0, Ordering::Release);
    }

    /// Whether a number's packets are limited since the ledger found that they exceed the budget.
    pub(super) fn is_limited(&self, number: u32) -> bool {
        let limit = self.limits.get(slot(number));
        limit.number == u64::from(number)
            && self.spent.get(slot(number)).limited_at_ns > limit.stopped_ns
    }

    /// Starts the limit of a number, as the ledger does for packets of this cost.
    #[cfg(test)]
    pub(super) fn start_limit(&self, number: u32, ns_per_packet: u64) {
        let limited_at_ns = now_ns();
        let started = guard_spent { limited_at_ns, ..guard_spent::default() };
        let charged = guard_charges { ns: ns_per_packet, packets: 1 };
        self.spent.set(slot(number), &guard_spent { charged, ..started });
        self.spent.set(0, &started);
    }

    /// Stops the limit of a number, unless it starts now.
    pub(super) fn stop_limit(&self, number: u32) {
        self.limits.entry(slot(number))[STOPPED].store(now_ns(), Ordering::Release);
    }

    /// Packets are inspected while any number is limited, and from the start of the next limit on. `since_ns`: before
    /// the limits were read.
    pub(super) fn inspect(&self, any_limited: bool, since_ns: u64) {
        let stopped_ns = if any_limited { 0 } else { since_ns };
        self.limits.entry(0)[STOPPED].store(stopped_ns, Ordering::Release);
    }

    /// The time and the packets of a number.
    pub(super) fn count(&self, number: u32) -> Result<Count> {
        let octets = self
            .object
            .map("buckets")
            .lookup(&slot(number).to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::kernel("read the counts of dropped packets", source))?
            .unwrap_or_default();
        let foreign = || onbeat_irq::Error::Foreign { table: "buckets", octets: octets.len() };
        let account = member::<guard_account>(&octets, offset_of!(bucket, account));
        let count = member::<guard_count>(&octets, offset_of!(bucket, count));
        let guard_account { ns_per_packet, paid_until_ns, .. } = account.ok_or_else(foreign)?;
        let guard_count { passed, dropped } = count.ok_or_else(foreign)?;
        let spent = self.spent.get(slot(number));
        let guard_charges { ns, packets } = spent.charged;
        let known = self.is_limited(number) && ns_per_packet != 0;
        let ns_per_packet = if known { ns_per_packet } else { ns / packets.max(1) };
        let in_debt = paid_until_ns > now_ns();
        Ok(Count { spent_ns: ns, passed, dropped, ns_per_packet, in_debt })
    }
}

/// A member of a structure, by its offset.
fn member<T: PlainData>(octets: &[u8], at: usize) -> Option<T> {
    T::from_octets(octets.get(at..)?.get(..size_of::<T>())?)
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
