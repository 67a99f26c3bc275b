//! The guard: bottom halves scheduled by who waits for them, on a stock kernel.
//!
//! ```text
//!  walk (BPF) --> waiting ----> policy --> keep --> host::settings (threads, journal)
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

mod abi;
mod background;
mod budgets;
mod config;
mod error;
mod event;
mod keep;
mod limiter;
mod look;
mod numbers;
mod waiting;
mod walk;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use onbeat_host::NamespaceLock;
use onbeat_host::settings::{Host, Journal, Live, Report, Restored, plan};
use onbeat_netdev::Namespace;
use onbeat_realtime::{Profile, Realtime, Scheduling};

pub use background::Background;
pub use config::{Config, DropAt, Namespaces, Rule};
pub use error::{Error, Result};
pub use event::{Event, Usage, Who};
pub use keep::Guard;
pub use look::Look;
pub use waiting::{Candidates, Places, Reader, Scan, Socket, Thread, Waiter, candidates};

/// The command that discards a damaged journal.
const DISCARD: &str = "onbeat irq guard --restore --forget";

/// Scans use at most one part in this many of a CPU, unless that would require a pause of more than
/// [`LONGEST_PAUSE`].
const COST: u32 = 50;

/// The longest pause, in intervals. Other users decide how many files and threads there are to scan: they
/// must not be able to delay the next scan further.
const LONGEST_PAUSE: u32 = 3;

/// The pause after a scan that used `cpu_time`. Time in which the thread waited for a CPU does not count:
/// other users decide how long that is.
fn pause(cpu_time: Duration, interval: Duration) -> Duration {
    cpu_time.saturating_mul(COST - 1).clamp(interval, interval.saturating_mul(LONGEST_PAUSE))
}

/// The shortest time for a part of a scan: a usual host is scanned at once, also at short intervals.
const SHORTEST_SLICE: Duration = Duration::from_millis(5);

/// CPU time for each of the three parts of a scan: threads, sockets, rules. With the longest pause that is one
/// part in 20 of a CPU for all of them, at intervals of 100 ms and above: what is left continues after the
/// pause.
fn slice(interval: Duration) -> Duration {
    (interval.saturating_mul(LONGEST_PAUSE) / 19 / 3).max(SHORTEST_SLICE)
}

/// A bounded CPU time of the calling thread.
#[derive(Debug)]
struct TimeSlice {
    until: Duration,
}

impl TimeSlice {
    /// From now on.
    fn new(length: Duration) -> Self {
        Self { until: cpu_time().saturating_add(length) }
    }

    fn is_over(&self) -> bool {
        cpu_time() >= self.until
    }
}

/// The policy of the scanning thread: above all threads of the normal policies, so that no number of them
/// delays a scan, and below all other real-time threads, which it must not delay.
const SCHEDULING: Scheduling = Scheduling::Fifo(1);

/// Schedules the calling thread by [`SCHEDULING`] until the result is dropped, where the kernel permits it.
fn scheduled() -> Option<Realtime> {
    let refused = |error| {
        tracing::warn!(
            "the guard runs as a normal thread, whose scans other threads can delay: {error}"
        );
    };
    Profile::default().scheduled(SCHEDULING).enter().map_err(refused).ok()
}

/// CPU time of the calling thread since its start.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    // The clock exists in every kernel; without it the pause would be the interval.
    time.map(Duration::from).unwrap_or_default()
}

/// Where the journal of a guard of the calling thread's network namespace is. There is one guard for
/// each: two would undo each other's work.
///
/// # Errors
/// Where /proc is not readable.
pub fn journal_directory() -> Result<PathBuf> {
    let inode = Namespace::current().map_err(onbeat_host::settings::Error::from)?.inode();
    Ok(format!("/run/onbeat/guard/{inode}").into())
}

/// Excludes other guards of the calling thread's network namespace, also those that do not share /run.
fn lock() -> Result<NamespaceLock> {
    let namespace = Namespace::current().map_err(onbeat_host::settings::Error::from)?;
    Ok(NamespaceLock::take(&namespace, "guard").map_err(onbeat_host::settings::Error::from)?)
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
        let _lock = lock()?;
        let mut look = look::Live::open(config, slice(config.interval), now_ns())?;
        let (mut guard, events) = Guard::begin(config, host, &mut journal, &mut look)?;
        tell(&events, &[]);
        let _scheduled = scheduled();
        let ended = loop {
            let before = cpu_time();
            match guard.step(now_ns()) {
                Ok(events) => tell(&events, &guard.usage()),
                Err(error) => break Err(error),
            }
            if !go_on(pause(cpu_time().saturating_sub(before), config.interval)) {
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
        let mut look = look::Live::open(config, Duration::MAX, 0)?;
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
/// [`onbeat_host::settings::Error::Host`] while a guard runs; where the journal cannot be read or written.
pub fn restore(directory: &Path, forget: bool) -> Result<Vec<Restored>> {
    use onbeat_host::settings::{self, Log};
    Live::run(|live| {
        let mut journal = Journal::open(directory, DISCARD)?;
        let _lock = lock()?;
        let restored = settings::restore(live, &mut journal)?;
        if forget {
            journal.replace(Vec::new())?;
        }
        Ok(restored)
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside eight busy loops a scan with 40 ms of CPU time lasted 350 ms; 49 times that was a pause of
    /// 17 s.
    #[test]
    fn a_pause_depends_on_cpu_time_and_is_bounded() {
        const MS: Duration = Duration::from_millis(1);
        for (cpu_time_us, interval_ms, pause_us) in [
            (0, 100, 100_000),
            (500, 100, 100_000),
            (2_000, 100, 100_000),
            (4_000, 100, 196_000),
            (6_122, 100, 299_978),
            (40_000, 100, 300_000),
            (3_600_000_000, 100, 300_000),
            (1, 1, 1_000),
            (1_000, 1, 3_000),
        ] {
            let found = pause(Duration::from_micros(cpu_time_us), interval_ms * MS);
            assert_eq!(found.as_micros(), pause_us, "{cpu_time_us} us of {interval_ms} ms");
        }
        assert_eq!(pause(Duration::MAX, MS), 3 * MS);
    }

    #[test]
    fn the_cpu_share_of_scans_is_bounded() {
        for interval_ms in [100, 250, 10_000] {
            let interval = Duration::from_millis(interval_ms);
            let scan = 3 * slice(interval);
            let share = scan.as_secs_f64() / (scan + pause(scan, interval)).as_secs_f64();
            assert!((0.04..=0.0501).contains(&share), "{share} of a CPU at {interval:?}");
        }
        assert_eq!(slice(Duration::from_millis(1)), SHORTEST_SLICE);
    }
}
