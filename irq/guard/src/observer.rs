//! The observations of a guard: its devices, and the threads that wait for them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use onbeat_irq_core::policy::Rank;
use onbeat_netdev::udev::has_yet_to_name;
use onbeat_netdev::{Handle, Link, Monitor, napi};
use onbeat_realtime::CpuSet;

use super::budgets::Budgets;
use super::candidates::{Candidates, DeviceTopology, Scan, Socket, candidates};
use super::config::Config;
use super::event::{Event, InterruptSource, Usage};
use super::foreign;
use super::process_scans::{PROCESS_SLICE, ProcessScans};
use super::walk::Walk;
use super::{TimeSlice, cpu_time};
use crate::Result;

/// The source of a guard's observations: this host, or a table in tests.
pub trait HostObserver {
    /// The existing interfaces with these names, each with its index.
    ///
    /// # Errors
    /// The kernel does not list its interfaces.
    fn devices(&mut self, names: &[String]) -> Result<BTreeMap<String, u32>>;

    /// Whether a step would find something new.
    ///
    /// # Errors
    /// The kernel does not report changes.
    fn is_due(&mut self, _now_ns: u64) -> Result<bool> {
        Ok(true)
    }

    /// Whether only a scan of all finds what the kernel reported.
    fn is_changed(&self) -> bool {
        false
    }

    /// A descriptor that is readable when [`Self::changed_candidates`] or [`Self::is_changed`] has something new; `None`:
    /// the kernel does not report all changes.
    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When [`Self::changed_candidates`] is to be called again without an event.
    fn next_deadline_ns(&self) -> Option<u64> {
        None
    }

    /// Watches the scheduling of the threads that wait and of these NAPI threads: a change of it makes a step due.
    ///
    /// # Errors
    /// The kernel refuses.
    fn watch(&mut self, _threads: &[(u32, Rank)]) -> Result<()> {
        Ok(())
    }

    /// The threads that wait for these devices now.
    ///
    /// # Errors
    /// The kernel does not list sockets or threads.
    fn candidates(&mut self, devices: &[u32], now_ns: u64) -> Result<Candidates>;

    /// As [`Self::candidates`] of the last call, with the processes that have changed since; `None`: none has.
    ///
    /// # Errors
    /// As [`Self::candidates`].
    fn changed_candidates(&mut self, _now_ns: u64) -> Result<Option<Candidates>> {
        Ok(None)
    }

    /// [`Self::changed_candidates`], and all that followed from it, used this CPU time: it pauses accordingly.
    fn followed(&mut self, _cpu_time: Duration, _now_ns: u64) {}

    /// The usage of each process with a budget.
    fn usage(&self) -> Vec<Usage>;

    /// Events since the last call; `irqs` are the interrupts of the devices, read when they are required.
    fn events(&mut self, _irqs: &mut dyn FnMut() -> BTreeSet<u32>) -> Vec<Event> {
        Vec::new()
    }
}

/// This host, and the interfaces of the calling thread's network namespace.
#[derive(Debug)]
pub(super) struct LiveObserver {
    handle: Handle,
    walk: Walk,
    budgets: Option<Budgets>,
    /// Whether packets above a budget are only counted.
    is_preview: bool,
    monitor: Monitor,
    links: Vec<Link>,
    /// Whether udev has yet to name a guarded interface.
    has_unnamed: bool,
    scan: Scan,
    /// Whether the next step scans.
    scan_is_due: bool,
    /// The time of the last scan, and of the last step.
    scan_ns: u64,
    step_ns: u64,
    interval_ns: u64,
    /// The result of the last scan, and what it depends on.
    found: Candidates,
    places: DeviceTopology,
    /// Processes to scan.
    process_scans: ProcessScans,
    /// CPU time for each part of a scan.
    slice: Duration,
    /// Whether the last scan was partial, as last reported.
    was_partial: bool,
    events: Vec<Event>,
    /// The CPUs of the guarded interfaces.
    cpus: Option<CpuSet>,
}

impl LiveObserver {
    pub(super) fn open(config: &Config, slice: Duration, now_ns: u64) -> Result<Self> {
        let handle = Handle::open()?;
        // The kernel keeps it in 32 bits.
        let netns = handle.namespace().inode() as u32;
        let walk = Walk::new(netns, config)?;
        let budgets =
            (!config.budgets.is_empty()).then(|| Budgets::new(config, netns, &walk, now_ns));
        Ok(Self {
            handle,
            budgets: budgets.transpose()?,
            walk,
            is_preview: false,
            monitor: Monitor::open()?,
            links: Vec::new(),
            has_unnamed: false,
            scan: Scan::default(),
            scan_is_due: true,
            scan_ns: now_ns,
            step_ns: now_ns,
            interval_ns: config.interval.as_nanos() as u64,
            found: Candidates::default(),
            places: DeviceTopology::default(),
            process_scans: ProcessScans::default(),
            slice,
            was_partial: false,
            events: Vec::new(),
            cpus: config.cpus.clone(),
        })
    }
}

impl LiveObserver {
    /// Drops no packets: budgets are compared only.
    pub(super) fn preview(self) -> Self {
        Self { is_preview: true, ..self }
    }

    /// The inode of the guard's network namespace.
    pub(super) fn netns(&self) -> u32 {
        self.handle.namespace().inode() as u32
    }

    /// The name of an interface, if there is one with this index.
    pub(super) fn name(&self, index: u32) -> Option<String> {
        self.links.iter().find(|link| link.index == index).map(|link| link.name.clone())
    }

    /// Why an interface cannot receive in threads. Unknown while it is down and before Linux 6.8: `None`.
    pub(super) fn why_not_threaded(&self, name: &str) -> Result<Option<String>> {
        let Some(link) = self.links.iter().find(|link| link.name == name) else { return Ok(None) };
        let instances = match link.up && !link.loopback {
            true => napi::instances(&self.handle, name)?.map(|instances| instances.len()),
            false => link.loopback.then_some(0),
        };
        let remedy = match link.kind.as_deref() {
            Some("veth") => format!("a veth has them with GRO: ethtool -K {name} gro on"),
            _ => "remove it from interfaces".to_owned(),
        };
        let why = || format!("{name}: no NAPI instances that could run in threads; {remedy}");
        Ok((instances == Some(0)).then(why))
    }

    /// The index of an interface.
    pub(super) fn index(&self, name: &str) -> Option<u32> {
        self.links.iter().find(|link| link.name == name).map(|link| link.index)
    }

    /// The interface with an address.
    pub(super) fn interface_of(&self, address: IpAddr) -> Option<u32> {
        self.places.addresses.get(&address).copied()
    }

    /// The guarded devices that the packets of a socket come from.
    pub(super) fn devices_of(&self, socket: &Socket) -> BTreeSet<u32> {
        let socket = socket.with_known_address(|one| self.interface_of(*one).is_some());
        self.places.devices(&socket).collect()
    }

    /// The last scan, and its result.
    pub(super) fn found(&self) -> (&Scan, &Candidates) {
        (&self.scan, &self.found)
    }
}

/// Without a change, scans of all are this many intervals apart: not all changes are reported (bpf/changes.h).
const AUDIT: u64 = 100;

impl HostObserver for LiveObserver {
    fn devices(&mut self, names: &[String]) -> Result<BTreeMap<String, u32>> {
        self.links = self.handle.links()?;
        let ours = self.links.iter().filter(|link| names.contains(&link.name));
        // One that udev is to name may get another name in a moment.
        let (unnamed, named): (Vec<_>, Vec<_>) = ours.partition(|link| has_yet_to_name(link));
        self.has_unnamed = !unnamed.is_empty();
        Ok(named.into_iter().map(|link| (link.name.clone(), link.index)).collect())
    }

    fn is_due(&mut self, now_ns: u64) -> Result<bool> {
        while self.monitor.next_event()?.is_some() {
            self.scan_is_due = true;
        }
        self.walk.check()?;
        let since_scan = now_ns.saturating_sub(self.scan_ns);
        self.scan_is_due = self.scan_is_due
            || self.has_unnamed
            || self.scan.partial
            || since_scan >= AUDIT * self.interval_ns
            || self.walk.is_changed();
        let measures = || now_ns.saturating_sub(self.step_ns) >= self.interval_ns;
        Ok(self.scan_is_due || self.budgets.is_some() && measures())
    }

    fn is_changed(&self) -> bool {
        self.walk.is_changed()
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.walk.wakes()
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        self.process_scans.next_ns()
    }

    fn watch(&mut self, threads: &[(u32, Rank)]) -> Result<()> {
        let waiting: BTreeMap<u32, Rank> =
            self.found.waiting.iter().map(|((_, waiter), rank)| (waiter.tid, *rank)).collect();
        let processes = self.found.waiting.keys().map(|(_, waiter)| waiter.process.pid);
        self.walk.watch(threads.iter().copied().chain(waiting), processes)
    }

    fn candidates(&mut self, devices: &[u32], now_ns: u64) -> Result<Candidates> {
        self.step_ns = now_ns;
        let addresses = addresses(&self.links)?;
        let scans = std::mem::take(&mut self.scan_is_due);
        let Self { walk, scan, slice, .. } = self;
        if scans {
            self.scan_ns = now_ns;
            let has_address = |address: &IpAddr| addresses.contains_key(address);
            if walk.scan(*slice, has_address, scan)? {
                self.process_scans.all_scanned(now_ns);
            }
        }
        if scan.partial && !self.was_partial {
            self.events.push(Event::ScanPartial);
        }
        self.was_partial = scan.partial;
        if let Some(budgets) = &mut self.budgets {
            budgets.set_devices(devices, !self.is_preview)?;
            budgets.set_addresses(addresses.keys().copied())?;
            budgets.step(walk, scan, &TimeSlice::new(*slice), now_ns)?;
            if !self.process_scans.note(budgets.numbered(), now_ns) {
                self.scan_is_due = true;
            }
        }
        if scans {
            let above = |device: &u32| (*device, above(*device, &self.links));
            let above = devices.iter().map(above).collect();
            self.places = DeviceTopology { above, addresses };
            self.found = candidates(scan, &self.places);
        }
        Ok(self.found.clone())
    }

    fn changed_candidates(&mut self, now_ns: u64) -> Result<Option<Candidates>> {
        let Self { walk, scan, places, found, process_scans, .. } = self;
        if !process_scans.note(walk.changed_processes()?, now_ns) {
            self.scan_is_due = true;
        }
        let mut is_changed = false;
        while let Some(pid) = process_scans.next(now_ns) {
            let before = cpu_time();
            let slice = TimeSlice::new(PROCESS_SLICE);
            let has_address = |address: &IpAddr| places.addresses.contains_key(address);
            let of_process = walk.scan_process(pid, &slice, has_address)?;
            match of_process {
                Some(of_process) => {
                    found.replace_process(pid, candidates(&of_process, places));
                    scan.replace_process(pid, of_process);
                    is_changed = true;
                }
                // A scan of all reads it in slices.
                None => self.scan_is_due = true,
            }
            // Others decide how many sockets and threads it was sought among.
            process_scans.scanned(pid, cpu_time().saturating_sub(before), now_ns);
        }
        Ok(is_changed.then(|| self.found.clone()))
    }

    fn followed(&mut self, cpu_time: Duration, now_ns: u64) {
        self.process_scans.end(cpu_time, now_ns);
    }

    fn usage(&self) -> Vec<Usage> {
        self.budgets.as_ref().map(Budgets::usage).unwrap_or_default()
    }

    fn events(&mut self, irqs: &mut dyn FnMut() -> BTreeSet<u32>) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        events.extend(self.budgets.as_mut().map(Budgets::events).unwrap_or_default());
        let interrupts = self.walk.interrupts();
        if let (Some(cpus), false) = (&self.cpus, interrupts.is_empty()) {
            // Reading the interrupts of all devices takes longer than the rest.
            let (irqs, known) = (RefCell::new(irqs), OnceCell::new());
            let own = |source, number: u32| match source {
                InterruptSource::Device => {
                    known.get_or_init(|| (irqs.borrow_mut())()).contains(&number)
                }
                _ => self.places.above.contains_key(&number),
            };
            let netns = self.netns();
            let each = |report| foreign::describe(report, cpus, netns, own);
            events.extend(interrupts.iter().filter_map(each));
        }
        events
    }
}

/// A device and its upper devices: its bridge or bond, VLANs on it, and so on.
fn above(device: u32, links: &[Link]) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([device]);
    loop {
        let is_above = |link: &&Link| {
            let master_of =
                |below: &Link| found.contains(&below.index) && below.master == Some(link.index);
            // For a veth this is the peer.
            let on = link.kind.as_deref() != Some("veth")
                && link.peer.is_some_and(|below| found.contains(&below));
            !found.contains(&link.index) && (on || links.iter().any(master_of))
        };
        let more: Vec<u32> = links.iter().filter(is_above).map(|link| link.index).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn addresses(links: &[Link]) -> Result<HashMap<IpAddr, u32>> {
    let index: HashMap<&str, u32> =
        links.iter().map(|link| (link.name.as_str(), link.index)).collect();
    let entries = getifaddrs().map_err(|errno| crate::Error::System {
        operation: "read the addresses of interfaces",
        source: errno.into(),
    })?;
    let address = |storage: &SockaddrStorage| match storage.family()? {
        nix::sys::socket::AddressFamily::Inet => Some(IpAddr::from(storage.as_sockaddr_in()?.ip())),
        nix::sys::socket::AddressFamily::Inet6 => {
            Some(IpAddr::from(storage.as_sockaddr_in6()?.ip()))
        }
        _ => None,
    };
    let with_index = entries.filter_map(|entry| {
        // A label of an address, eth0:1, names its interface before the colon.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        Some((address(entry.address.as_ref()?)?, *index.get(name)?))
    });
    Ok(with_index.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_netdev::{Bridge, Namespace, VethEnd};
    use onbeat_testing::{Feature, require_all};

    /// A bridge over one end of a veth pair whose other end is in the same namespace.
    #[test]
    fn addresses_of_a_bridge_count_for_its_ports() {
        if !require_all(&[Feature::Root, Feature::Veth, Feature::Bridge]) {
            return;
        }
        let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1")).unwrap();
        handle.create_bridge(&Bridge::new("b0")).unwrap();
        handle.set_master("a0", Some("b0")).unwrap();
        let address = "10.0.0.1".parse().unwrap();
        handle.add_address("b0", address, 24).unwrap();
        let index = |name| handle.index(name).unwrap();
        let links = handle.links().unwrap();
        assert_eq!(above(index("a0"), &links), BTreeSet::from([index("a0"), index("b0")]));
        assert_eq!(above(index("a1"), &links), BTreeSet::from([index("a1")]));
        let found = handle.namespace().run(|| addresses(&links).unwrap()).unwrap();
        assert_eq!(found.get(&address), Some(&index("b0")));
    }
}
