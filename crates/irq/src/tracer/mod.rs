//! The ledger in the kernel: loads the programs of bpf/, reads their tables.

mod decode;
mod events;
mod points;

use std::mem::offset_of;

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};

use crate::abi::{Plain, irq_amount, irq_key, irq_owner, irq_totals};
use crate::charge::{Accounts, Process};
use crate::error::{Error, Result};

pub use events::Events;

/// Octets in memory aligned as ELF wants them.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static LEDGER: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o")));

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    dead_code,
    unused
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/ledger.skel.rs"));
}

use skeleton::types::rodata;

/// Octets of the buffer for events.
const EVENTS: u32 = 16 << 20;

/// Keeps the ledger of this host's CPUs from its start until it is dropped.
///
/// Nothing of it outlives the process: no program, no table.
#[derive(Debug)]
pub struct Tracer {
    object: Object,
    links: Vec<Link>,
}

/// What the tracer could not keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Bottom-half time of rows that found no room in the table, in nanoseconds.
    pub unrecorded_ns: u64,
    /// Events that found no room in the buffer.
    pub events: u64,
}

impl Tracer {
    /// Begins to keep the ledger.
    ///
    /// # Errors
    /// [`Error::NoTypes`], [`Error::NoTracepoint`], [`Error::PreemptRt`]; [`Error::Kernel`] without
    /// the right to load programs.
    pub fn start() -> Result<Self> {
        let mut tracer = Self::load(false)?;
        tracer.attach()?;
        Ok(tracer)
    }

    /// As [`Tracer::start`], and tells every event, which costs more than the ledger itself.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn record() -> Result<(Self, Events)> {
        let mut tracer = Self::load(true)?;
        let events = Events::new(&tracer.map("events"))?;
        tracer.attach()?;
        Ok((tracer, events))
    }

    fn load(record: bool) -> Result<Self> {
        let points = points::Points::find()?;
        let mut open = ObjectBuilder::default()
            .open_memory(&LEDGER.0)
            .map_err(|source| Error::kernel("read the ledger's object file", source))?;
        set_constants(&mut open, record, &points);
        for mut program in open.progs_mut() {
            if program.name() == "on_tcp_probe" {
                program.set_autoload(points.tcp_probe);
            }
        }
        let rows = row_count()?;
        for mut map in open.maps_mut() {
            let size = match map.name().to_str() {
                Some("events") if record => EVENTS,
                Some("rows") => rows,
                _ => continue,
            };
            map.set_max_entries(size)
                .map_err(|source| Error::kernel("size the ledger's tables", source))?;
        }
        let object =
            open.load().map_err(|source| Error::kernel("load the ledger's programs", source))?;
        Ok(Self { object, links: Vec::new() })
    }

    fn attach(&mut self) -> Result<()> {
        for program in self.object.progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let link = program
                .attach()
                .map_err(|source| Error::kernel(format!("attach the ledger's {name}"), source))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Stops; what was counted until now can still be read.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    fn map(&self, name: &str) -> Map<'_> {
        self.object.maps().find(|map| map.name() == name).expect("the object holds it")
    }

    /// The accounts of each CPU, by its number. CPUs go on while they are read: what is under way
    /// shows as a small imbalance.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    pub fn accounts(&self) -> Result<Vec<Accounts>> {
        let totals = self.totals()?;
        let mut accounts: Vec<Accounts> = totals
            .iter()
            .map(|totals| Accounts {
                measured_ns: totals.measured_ns,
                hardirq_ns: totals.hardirq_ns,
                ..Accounts::default()
            })
            .collect();
        let rows = self.map("rows");
        for octets in rows.keys() {
            let key: irq_key = plain("rows", &octets)?;
            for (accounts, amount) in accounts.iter_mut().zip(per_cpu(&rows, "rows", &octets)?) {
                decode::row(&key, &amount, accounts);
            }
        }
        Ok(accounts)
    }

    /// What was lost since the start.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    pub fn losses(&self) -> Result<Losses> {
        let totals = self.totals()?;
        Ok(Losses {
            unrecorded_ns: totals.iter().map(|totals| totals.lost_ns).sum(),
            events: totals.iter().map(|totals| totals.lost_events).sum(),
        })
    }

    /// The process that a socket was found to be of: by who read from it first, or else by whom a
    /// packet woke. With this [`Accounts::resolve`] charges what came before.
    #[must_use]
    pub fn owner(&self, cookie: u64) -> Option<Process> {
        let octets = self.map("found").lookup(&cookie.to_ne_bytes(), MapFlags::ANY).ok()??;
        let irq_owner { pid, start_ticks } = irq_owner::from_octets(&octets)?;
        Some(Process { pid, start_ticks })
    }

    fn totals(&self) -> Result<Vec<irq_totals>> {
        per_cpu(&self.map("totals"), "totals", &0u32.to_ne_bytes())
    }
}

/// Rows of the ledger: 64 MiB of amounts on all CPUs together at most, and of each CPU no more than a
/// machine with very many sockets fills.
fn row_count() -> Result<u32> {
    const AMOUNTS: usize = (64 << 20) / size_of::<irq_amount>();
    const MOST: usize = 65_536;
    let cpus =
        libbpf_rs::num_possible_cpus().map_err(|source| Error::kernel("count the CPUs", source))?;
    Ok((AMOUNTS / cpus.max(1)).min(MOST) as u32)
}

fn set_constants(open: &mut OpenObject, record: bool, points: &points::Points) {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            let value = map.initial_value_mut().expect("constants have initial values");
            value[offset_of!(rodata, record)] = record.into();
            value[offset_of!(rodata, drops_name_socket)] = points.drops_name_socket.into();
            value[offset_of!(rodata, tcp_is_probed)] = points.tcp_probe.into();
        }
    }
}

fn plain<T: Plain>(table: &'static str, octets: &[u8]) -> Result<T> {
    T::from_octets(octets).ok_or(Error::Foreign { table, octets: octets.len() })
}

/// The values of a key on all CPUs; none where it is gone.
fn per_cpu<T: Plain>(map: &Map<'_>, table: &'static str, key: &[u8]) -> Result<Vec<T>> {
    let values = map
        .lookup_percpu(key, MapFlags::ANY)
        .map_err(|source| Error::kernel(format!("read table {table}"), source))?;
    // The kernel rounds a value up to eight octets.
    let value = |octets: Vec<u8>| plain(table, octets.get(..size_of::<T>()).unwrap_or(&octets));
    values.unwrap_or_default().into_iter().map(value).collect()
}
