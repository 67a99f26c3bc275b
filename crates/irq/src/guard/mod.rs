//! The guard: bottom halves scheduled by who waits for them, on a stock kernel.
//!
//! ```text
//!  walk (BPF) --> waiting ----> policy --> keep --> realtime::host (threads, journal)
//!  sockets,       candidates    rho_max    one step
//!  threads        (pure)        (pure)
//!
//!  Tracer (BPF) --> budgets --> policy::Meter --> limiter (BPF at ingress)
//!  the ledger       held against                  drops early
//! ```
//!
//! Devices are put into threaded NAPI, so that their bottom halves are threads ([`Guard`]). Who waits
//! is asked every [`Config::interval`], by walks of BPF programs: no packet pays for it. A thread of
//! NAPI has the priority of the highest thread that waits for its device, between floor and ceiling.
//!
//! Everything that outlives a process is written to a journal before it is changed; programs and
//! tables go with the process that loaded them. So [`run`] gives back everything when it ends, and
//! after a `kill -9` the next one does, or `onbeat irq guard --restore`.

mod background;
mod budgets;
mod config;
mod event;
mod keep;
mod limiter;
mod look;
mod waiting;
mod walk;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onbeat_netdev::Namespace;
use onbeat_realtime::host::{Host, Journal, Live, Report, Restored, plan};

pub use background::Background;
pub use budgets::Usage;
pub use config::{Config, DropAt, Namespaces, Rule};
pub use event::{Event, Who};
pub use keep::Guard;
pub use look::Look;
pub use waiting::{Candidates, Places, Reader, Scan, Socket, Thread, Waiter, candidates};

use crate::{Error, Result};

/// The command that discards a damaged journal.
const DISCARD: &str = "onbeat irq guard --restore --forget";

/// Part of a CPU that looking may take: 1 in this many.
const COST: u32 = 50;

/// Where the journal of a guard of the calling thread's network namespace is. There is one guard for
/// each: two would undo each other's work.
///
/// # Errors
/// Where /proc is not readable.
pub fn journal_directory() -> Result<PathBuf> {
    let inode = Namespace::current().map_err(onbeat_realtime::Error::from)?.inode();
    Ok(format!("/run/onbeat/guard/{inode}").into())
}

/// Guards until `go_on` says no: it is called for each pause, whose length it is given. `tell` hears
/// what happened, and how processes stand to their budgets.
///
/// What could not be put back at the end is in the result, and stays in the journal.
///
/// # Errors
/// As [`Guard::begin`] and [`Guard::step`]; then, too, everything is put back.
pub fn run(
    config: &Config,
    directory: &Path,
    go_on: &mut (dyn FnMut(Duration) -> bool + Send),
    tell: &mut (dyn FnMut(&[Event], &[Usage]) + Send),
) -> Result<Vec<Restored>> {
    Live::run(|host| {
        let start = Instant::now();
        let now_ns = || start.elapsed().as_nanos() as u64;
        let mut journal = Journal::open(directory, DISCARD)?;
        let mut look = look::Live::open(config, now_ns())?;
        let (mut guard, events) = Guard::begin(config, host, &mut journal, &mut look)?;
        tell(&events, &[]);
        let ended = loop {
            let before = Instant::now();
            match guard.step(now_ns()) {
                Ok(events) => tell(&events, &guard.usage()),
                Err(error) => break Err(error),
            }
            if !go_on(config.interval.max(before.elapsed() * (COST - 1))) {
                break Ok(());
            }
        };
        let restored = guard.end();
        ended.and(restored)
    })?
}

/// What a guard would do now.
#[derive(Debug)]
pub struct Preview {
    /// The settings it would change at its start.
    pub report: Report,
    /// The priorities it would give.
    pub events: Vec<Event>,
}

/// Says what a guard would do now, and changes nothing.
///
/// # Errors
/// As [`Guard::begin`].
pub fn preview(config: &Config) -> Result<Preview> {
    Live::run(|host| {
        let mut look = look::Live::open(config, 0)?;
        let there = look.devices(&config.interfaces)?;
        for name in &config.interfaces {
            if !there.contains_key(name) {
                return Err(Error::NoInterface(name.clone()));
            }
        }
        let tuning = keep::tuning(config, &config.interfaces);
        let report = plan(&tuning, &host.survey(&config.interfaces)?).into();
        Ok(Preview { report, events: keep::decisions(config, host, &mut look, &there)? })
    })?
}

/// Puts back what a guard left that was killed.
///
/// # Errors
/// [`onbeat_realtime::Error::Host`] while a guard runs; where the journal cannot be read or written.
pub fn restore(directory: &Path, forget: bool) -> Result<Vec<Restored>> {
    use onbeat_realtime::host::{self, Log};
    Live::run(|live| {
        let mut journal = Journal::open(directory, DISCARD)?;
        let restored = host::restore(live, &mut journal)?;
        if forget {
            journal.replace(Vec::new())?;
        }
        Ok(restored)
    })?
}
