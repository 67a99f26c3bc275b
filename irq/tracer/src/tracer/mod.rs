//! The ledger in the kernel: loads the programs of bpf/, reads their tables.

mod cost;
mod decode;
mod entry;
mod events;
mod features;
mod links;
mod meter;
mod sampler;
mod table;
mod taps;
mod ticks;
mod walker;

use std::mem::offset_of;
use std::os::fd::OwnedFd;

use libbpf_rs::{Map, MapCore, MapFlags, MapHandle};
use nix::libc;
use onbeat_bpf::{Object, PlainData, UnloadedObject};

use self::links::Links;
use self::taps::{ON_INGRESS, Taps};
use self::walker::{EACH_FILE, Walker};
use crate::abi::{irq_amount, irq_owner, irq_socket_owner, irq_totals};
use crate::error::{Error, Result};
use crate::names::{Names, SavedNames};
use onbeat_bpf::Runs;
use onbeat_irq_core::charge::{Accounts, Amount, Owner, Process};

pub use cost::CostMeter;
pub use events::Events;
pub use meter::Meter;
pub use sampler::Sampler;
pub use ticks::Ticks;

static LEDGER: &[u8] = onbeat_bpf::bpf_object!("ledger.bpf.o");

onbeat_bpf::bpf_skeleton!(skeleton, "ledger.skel.rs");

use skeleton::types::{bss, rodata};

/// Octets of the buffer for events.
const EVENTS: u32 = 16 << 20;

/// The program that runs at ticks of a clock, and not at a tracepoint.
const ON_TICK: &str = "on_tick";

/// The program that distinguishes polls that free buffers from empty ones.
const ON_CONSUME_SKB: &str = "on_consume_skb";

/// The program at transmissions of received packets.
const ON_NET_DEV_START_XMIT: &str = "on_net_dev_start_xmit";

/// The program at new sockets, of all processes of a control group.
const ON_SOCK_CREATE: &str = "on_sock_create";

/// The program at arrivals of packets, which polls with one cause do not need.
const ON_NETIF_RECEIVE_SKB: &str = "on_netif_receive_skb";

/// The program at reads from sockets, which sockets with a known reader need now and then.
const ON_SOCK_RECV_LENGTH: &str = "on_sock_recv_length";

/// Programs with a cost per packet that are not needed all the time.
const ON_DEMAND: [&str; 4] =
    [ON_CONSUME_SKB, ON_NET_DEV_START_XMIT, ON_NETIF_RECEIVE_SKB, ON_SOCK_RECV_LENGTH];

/// The programs at packets, attached only while polls are sampled.
const AT_PACKETS: [&str; 11] = [
    ON_NETIF_RECEIVE_SKB,
    "on_sk_data_ready",
    "on_tcp_probe",
    "on_kfree_skb",
    "on_xdp_redirect",
    "on_xdp_redirect_err",
    "on_xdp_bulk_tx",
    "on_xdp_exception",
    ON_CONSUME_SKB,
    ON_NET_DEV_START_XMIT,
    ON_SOCK_RECV_LENGTH,
];

/// The tables of budgets (bpf/budgets.h), which a guard has.
const OF_BUDGETS: [&str; 7] =
    ["slots", "cookies", "inherited", "guarded", "limits", "spent", "numbers"];

/// Budgets to which the ledger charges time.
#[derive(Debug, Clone, Copy)]
pub struct Budgets<'g> {
    /// The tables of the guard, by name; others are ignored.
    pub tables: &'g [Map<'g>],
    /// The network namespace of the guarded interfaces.
    pub netns: u32,
    /// Whether packets are dropped before the kernel merges them.
    pub unmerged: bool,
}

/// Records that a tracer writes besides the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    None,
    Events,
    Ticks,
}

/// Keeps the ledger of this host's CPUs from its start until it is dropped.
///
/// No program or table outlives the process.
#[derive(Debug)]
pub struct Tracer {
    object: Object,
    links: Links,
    /// Packets are sampled in windows only, and not before the first.
    sampled: bool,
    mode: Mode,
    /// The programs on demand in use.
    in_use: Vec<&'static str>,
    /// Whether this host is configured to forward packets.
    forwards: bool,
    /// Whether a device's driver frees transmitted buffers in its polls.
    sends: bool,
    walker: Walker,
    taps: Taps,
    /// The root of the control groups, if the kernel has them.
    group: Option<OwnedFd>,
    absent: Vec<&'static str>,
}

/// The variables of the programs.
#[derive(Debug, Clone, Copy, Default)]
struct Mode {
    kept: bool,
    skip: bool,
    inspect: bool,
    walk: u32,
    replace: bool,
    entry_ns: u64,
}

/// Data that the tracer could not keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Softirq time of rows that found no room in the table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// Events that found no room in the buffer.
    pub events: u64,
}

impl Tracer {
    /// Starts the ledger.
    ///
    /// # Errors
    /// [`Error::Bpf`], also without permission to load programs.
    pub fn start() -> Result<Self> {
        let mut tracer = Self::load(Records::None, row_count()?, None)?;
        tracer.attach()?;
        Ok(tracer)
    }

    /// As [`Tracer::start`], and charges time to budgets as well. `rows`: the size of the table; time that finds no room
    /// in it is in [`Losses::unrecorded_ns`], and in its budget.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn start_with_budgets(budgets: Budgets<'_>, rows: Option<u32>) -> Result<Self> {
        let rows = rows.map_or_else(row_count, Ok)?;
        let mut tracer = Self::load(Records::None, rows, Some(budgets))?;
        tracer.attach()?;
        Ok(tracer)
    }

    /// As [`Tracer::start`], but samples packets only while a [`Sampler`] requests it: for all other polls it
    /// measures the time, and charges it to [`Class::Unsampled`](onbeat_irq_core::charge::Class::Unsampled).
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn start_sampled() -> Result<Self> {
        let mut tracer = Self::load(Records::None, row_count()?, None)?;
        tracer.sampled = true;
        tracer.attach()?;
        Ok(tracer)
    }

    /// As [`Tracer::start`], with the ticks that the algorithm of the paper needs
    /// ([`charge::tick`](onbeat_irq_core::charge::tick)).
    ///
    /// # Errors
    /// As [`Tracer::start`]; [`Error::Bpf`] where the kernel has no software events of perf.
    pub fn start_with_ticks() -> Result<(Self, Ticks)> {
        let mut tracer = Self::load(Records::Ticks, row_count()?, None)?;
        tracer.attach()?;
        let ticks = Ticks::start(&tracer.object.program(ON_TICK), &tracer.map("ticks"))?;
        Ok((tracer, ticks))
    }

    /// As [`Tracer::start`], and records every event, which costs more than the ledger itself.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn record() -> Result<(Self, Events)> {
        let mut tracer = Self::load(Records::Events, row_count()?, None)?;
        let events = Events::new(&tracer.map("events"))?;
        tracer.attach()?;
        Ok((tracer, events))
    }

    fn load(records: Records, rows: u32, budgets: Option<Budgets<'_>>) -> Result<Self> {
        let points = features::KernelFeatures::find()?;
        let object = Object::load(LEDGER, "the ledger's programs", |object| {
            set_constants(object, records == Records::Events, &points);
            // Events are for tests, which require all of them.
            let used = [
                ("on_tcp_probe", points.tcp_probe),
                (ON_SOCK_CREATE, points.group.is_some()),
                (ON_TICK, records == Records::Ticks),
            ];
            used.iter().filter(|(_, used)| !used).for_each(|(program, _)| object.skip(program));
            points.absent.iter().for_each(|point| object.skip(&format!("on_{point}")));
            object.set_entries("senders", cpus()? as u32)?;
            match records {
                Records::None => {}
                Records::Events => object.set_entries("events", EVENTS)?,
                Records::Ticks => object.set_entries("ticks", ticks::BUFFER)?,
            }
            match budgets {
                Some(Budgets { tables, netns, unmerged }) => {
                    object.set_constants(&[
                        (offset_of!(rodata, budget_netns), &netns.to_ne_bytes()),
                        (offset_of!(rodata, budget_unmerged), &[unmerged.into()]),
                    ]);
                    let of_budgets =
                        |table: &&Map<'_>| OF_BUDGETS.iter().any(|name| table.name() == *name);
                    tables.iter().filter(of_budgets).try_for_each(|table| object.share(table))?;
                }
                None => OF_BUDGETS.iter().try_for_each(|table| object.omit(table))?,
            }
            object.set_entries("rows", rows)
        })?;
        Ok(Self {
            object,
            links: Links::default(),
            sampled: false,
            mode: Mode { inspect: true, ..Mode::default() },
            // A periodic reader detaches those that this host does not need.
            in_use: ON_DEMAND.into(),
            walker: Walker::default(),
            taps: Taps::default(),
            forwards: points.forwards,
            sends: points.sends,
            group: points.group,
            absent: points.absent,
        })
    }

    /// Attaches the programs of a stopped tracer, which return at once: no ledger is kept. This is the least cost of
    /// programs at these points. [`Tracer::stop`] detaches them.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn attach_idle(&mut self) -> Result<()> {
        let Self { object, links, in_use, sampled, group, .. } = self;
        links.attach(object, group.as_ref(), |name| {
            let later = *sampled && AT_PACKETS.contains(&name);
            ![ON_TICK, EACH_FILE, ON_INGRESS].contains(&name) && !later && is_used(in_use, name)
        })
    }

    /// Attaches the programs, those at packets only if all packets are observed, and starts them at once.
    fn attach(&mut self) -> Result<()> {
        self.attach_idle()?;
        table::clear_after::<irq_totals>(&self.map("cpus"), "cpus", &0u32.to_ne_bytes())?;
        // Sockets that are opened during the walk are recorded when the ledger is kept.
        self.find_owners()?;
        self.set_mode(true, self.sampled)
    }

    /// Measures the time around the handlers of hard interrupts ([`Tracer::entry_ns`]), for those from now on. It takes
    /// 8 ms on two CPUs.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn measure_interrupt_entry(&mut self) -> Result<()> {
        self.mode.entry_ns = 0;
        self.apply()?;
        self.mode.entry_ns = entry::measure(self)?.unwrap_or(0);
        self.apply()
    }

    /// Walks over all open files for the owners of sockets, and replaces owners that do not have their socket open any
    /// more. It costs about 0.3 us for each open file.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn find_owners(&mut self) -> Result<()> {
        self.mode.walk = self.mode.walk.wrapping_add(1).max(1);
        for replace in [false, true] {
            self.mode.replace = replace;
            self.apply()?;
            self.walker.walk(&self.object)?;
        }
        Ok(())
    }

    /// Charges the time of packet sockets that receive all packets of a device, such as that of tcpdump, to their
    /// owners, on devices whose packets reached such sockets until now.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn attach_taps(&mut self) -> Result<()> {
        self.taps.attach(&self.object)
    }

    /// Samples the packets of the polls that start from now on.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn sample_packets(&mut self) -> Result<()> {
        let Self { object, links, in_use, group, .. } = self;
        links.attach(object, group.as_ref(), |name| {
            AT_PACKETS.contains(&name) && is_used(in_use, name)
        })?;
        self.set_mode(true, false)
    }

    /// Attaches a program on demand.
    fn attach_on_demand(&mut self, program: &'static str) -> Result<()> {
        if self.uses(program) {
            return Ok(());
        }
        self.in_use.push(program);
        if !self.mode.kept || self.sampled {
            return Ok(());
        }
        self.links.attach(&self.object, self.group.as_ref(), |name| name == program)
    }

    /// Whether a program on demand is in use.
    fn uses(&self, program: &str) -> bool {
        self.in_use.contains(&program)
    }

    /// Detaches a program on demand.
    fn detach(&mut self, program: &str) {
        self.in_use.retain(|used| *used != program);
        let in_use = &self.in_use;
        self.links.retain(|name| is_used(in_use, name));
    }

    /// Inspects the headers of packets, or does not.
    fn inspect(&mut self, on: bool) -> Result<()> {
        if on == self.mode.inspect {
            return Ok(());
        }
        if on {
            self.attach_on_demand(ON_CONSUME_SKB)?;
        }
        self.mode.inspect = on;
        self.apply()?;
        if !on && !self.sends {
            self.detach(ON_CONSUME_SKB);
        }
        Ok(())
    }

    /// Skips the polls that start from now on: only their time is measured, at no cost per packet. When this
    /// returns, earlier polls are over.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn skip_packets(&mut self) -> Result<()> {
        self.set_mode(true, true)?;
        wait_for_programs();
        self.links.retain(|name| !AT_PACKETS.contains(&name));
        Ok(())
    }

    /// Starts or stops the ledger of the attached programs, and samples or skips the packets of polls.
    fn set_mode(&mut self, kept: bool, skip: bool) -> Result<()> {
        self.mode = Mode { kept, skip, ..self.mode };
        self.apply()
    }

    fn apply(&self) -> Result<()> {
        let Mode { kept, skip, inspect, walk, replace, entry_ns } = self.mode;
        let [kept, skip, inspect, replace] =
            [kept, skip, inspect, replace].map(|value| [value.into()]);
        let values = [
            (offset_of!(bss, kept), &kept[..]),
            (offset_of!(bss, skip), &skip),
            (offset_of!(bss, inspect), &inspect),
            (offset_of!(bss, replace), &replace),
            (offset_of!(bss, walk), &walk.to_ne_bytes()),
            (offset_of!(bss, entry_ns), &entry_ns.to_ne_bytes()),
        ];
        self.object
            .set_variables(&values)
            .map_err(|source| Error::kernel("start the ledger's programs", source))
    }

    /// Stops, at once on all CPUs; counts until now stay readable.
    pub fn stop(&mut self) {
        // If the kernel denies it, the programs stop with their links, one after another.
        let _ = self.set_mode(false, false);
        wait_for_programs();
        self.links.retain(|_| false);
        self.taps.detach_all(&self.object);
    }

    /// The time around the handler of a hard interrupt that no tracepoint covers, in nanoseconds. Accounts contain it
    /// for each interrupt of a process. 0: not measured, or not known.
    #[must_use]
    pub fn entry_ns(&self) -> u64 {
        self.mode.entry_ns
    }

    /// The attached programs.
    pub fn attached(&self) -> impl Iterator<Item = &str> {
        self.links.attached()
    }

    /// The tracepoints of hard interrupts and of their senders that this kernel does not have. The time of these
    /// interrupts is in no account.
    #[must_use]
    pub fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    fn map(&self, name: &str) -> Map<'_> {
        self.object.map(name)
    }

    /// The accounts of each CPU, by its number. CPUs continue during the reading: a softirq in progress shows
    /// as a small imbalance.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn accounts(&self) -> Result<Vec<Accounts>> {
        let totals = self.totals()?;
        let mut accounts: Vec<Accounts> = totals
            .iter()
            .map(|totals| Accounts {
                measured_ns: totals.measured_ns,
                hardirq_ns: totals.interrupt_ns,
                ..Accounts::default()
            })
            .collect();
        for row in self.rows()? {
            for (accounts, amount) in accounts.iter_mut().zip(row.amounts) {
                decode::row(&row.key, amount, accounts);
            }
        }
        Ok(accounts)
    }

    /// The losses since the start.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn losses(&self) -> Result<Losses> {
        let totals = self.totals()?;
        Ok(Losses {
            unrecorded_ns: totals.iter().map(|totals| totals.lost_ns).sum(),
            events: totals.iter().map(|totals| totals.lost_events).sum(),
        })
    }

    /// The owner of a socket that received packets before it was read: the first reader, or else the process that has it
    /// open. With this [`Accounts::resolve`] charges these packets.
    #[must_use]
    pub fn owner(&self, cookie: u64) -> Option<Owner> {
        let octets =
            self.map("socket_owners").lookup(&cookie.to_ne_bytes(), MapFlags::ANY).ok()??;
        let irq_socket_owner { owner: irq_owner { pid, start_ticks }, kind } =
            irq_socket_owner::from_octets(&octets)?;
        let by = decode::attribution(kind as u32);
        Some(Owner { process: Process { pid, start_ticks }, by })
    }

    /// Names on this host, also of processes that have exited: the kernel keeps the names and groups of the last
    /// 32,768 processes with a row. They stay readable without the tracer.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn names(&self) -> Result<Names> {
        let table = |name: &str| {
            MapHandle::try_from(&self.map(name))
                .map_err(|source| Error::kernel(format!("open table {name}"), source))
        };
        Ok(Names::with_saved(SavedNames::new(table("processes")?, table("groups")?)))
    }

    /// Resumes after [`Tracer::stop`], with the same accounts.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn resume(&mut self) -> Result<()> {
        if self.links.attached().next().is_none() { self.attach() } else { Ok(()) }
    }

    /// Run time and runs of each program, by name, while [`Statistics`](onbeat_bpf::statistics::Statistics)
    /// were on.
    ///
    /// # Errors
    /// The kernel reports no statistics.
    pub fn runs(&self) -> onbeat_bpf::Result<Vec<(String, Runs)>> {
        self.object.runs()
    }

    fn totals(&self) -> Result<Vec<irq_totals>> {
        table::per_cpu(&self.map("cpus"), "cpus", &0u32.to_ne_bytes())
    }

    fn rows(&self) -> Result<Vec<table::Row>> {
        table::rows(&self.map("rows"))
    }

    fn remove_row(&self, row: &table::Row) -> Result<Vec<Amount>> {
        table::remove(&self.map("rows"), row)
    }
}

/// Whether a program is used: always, unless it is one on demand.
fn is_used(in_use: &[&str], program: &str) -> bool {
    !ON_DEMAND.contains(&program) || in_use.contains(&program)
}

/// Returns when all programs that were running, and their polls, are over.
fn wait_for_programs() {
    // Both are over after a grace period of RCU, also on a CPU that the hypervisor has just preempted, which
    // this waits for. A kernel with tickless CPUs (nohz_full) refuses, and is read without it. SAFETY: it takes
    // numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// Rows of the ledger: at most 64 MiB of amounts on all CPUs together, and per CPU no more than a machine with
/// very many sockets requires.
fn row_count() -> Result<u32> {
    const AMOUNTS: usize = (64 << 20) / size_of::<irq_amount>();
    const MOST: usize = 65_536;
    Ok((AMOUNTS / cpus()?.max(1)).min(MOST) as u32)
}

/// The number of possible CPUs.
fn cpus() -> onbeat_bpf::Result<usize> {
    libbpf_rs::num_possible_cpus()
        .map_err(|source| onbeat_bpf::Error::kernel("count the CPUs", source))
}

fn set_constants(object: &mut UnloadedObject, record: bool, points: &features::KernelFeatures) {
    let values = [
        (offset_of!(rodata, record), record),
        (offset_of!(rodata, drops_name_socket), points.drops_name_socket),
        (offset_of!(rodata, tcp_is_probed), points.tcp_probe),
    ];
    object.set_constants(&values.map(|(at, value)| (at, if value { &[1][..] } else { &[0] })));
    let addresses = [
        (offset_of!(rodata, at_rps_trigger_softirq), points.rps_trigger_softirq),
        (offset_of!(rodata, at_ptype_all), points.ptype_all),
        (offset_of!(rodata, at_net_hotdata), points.net_hotdata),
    ];
    addresses
        .iter()
        .for_each(|(at, address)| object.set_constants(&[(*at, &address.to_ne_bytes())]));
}
