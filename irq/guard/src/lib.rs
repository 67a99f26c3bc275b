//! The guard: schedules softirq work by the priority of the threads that wait for it, on a stock kernel.
//!
//! ```text
//!  walk (BPF) --> candidates -> policy --> guard -> host::settings (threads, journal)
//!  sockets,       (pure)        rho_max    one step
//!  threads                      (pure)
//!
//!  Tracer (BPF) --> accounts of budgets --> limiter (BPF at ingress)
//!  the ledger       start of a limit        drops early
//! ```
//!
//! Devices use threaded NAPI, so that their softirq work runs in threads ([`Guard`]). BPF programs find the
//! waiting threads every [`Config::interval`] by walks: there is no cost per packet. A NAPI thread has the
//! priority of the highest thread that waits for its device, between floor and ceiling.
//!
//! Settings that outlive a process are written to a journal before each change; programs and tables are removed
//! with the process that loaded them. So [`run`] restores all settings when it returns. After `kill -9` the
//! next guard restores them, or `onbeat irq guard --restore`.

mod abi;
mod background;
mod budgets;
mod candidates;
mod changes;
mod config;
mod error;
mod event;
mod event_loop;
mod explain;
mod foreign;
mod guard;
mod limiter;
mod numbers;
mod observer;
mod open_sockets;
mod process_scans;

mod walk;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use onbeat_host::NamespaceLock;
use onbeat_host::settings::{Entry, Host, Journal, LiveHost, Log, Report, RestoredEntry, plan};
use onbeat_netdev::Namespace;
use onbeat_realtime::{Profile, Realtime, Scheduling};

pub use background::Background;
pub use candidates::{
    Candidates, DeviceTopology, Reader, Scan, Socket, Thread, WaitingThread, candidates,
};
pub use config::{BudgetScope, Config, DropPoint, Namespaces, Rule};
pub use error::{Error, Result};
pub use event::{Event, HighestWaiter, InterruptSource, Usage};
pub use explain::{
    Explanation, InterfaceExplanation, SocketExplanation, SocketsExplanation, WaitingExplanation,
};
pub use guard::Guard;
pub use observer::HostObserver;
pub use open_sockets::{SocketName, Transport};

use event_loop::{Clock, EventLoop, WaitResult};

/// The command that discards a damaged journal.
const DISCARD: &str = "onbeat irq guard --restore --forget";

/// Scans use at most one part in this many of a CPU, unless that would require a pause of more than
/// [`LONGEST_PAUSE`].
const COST: u32 = 50;

/// The longest pause, in intervals. Other users decide how many files and threads there are to scan: they
/// must not be able to delay the next scan further.
const LONGEST_PAUSE: u32 = 3;

/// The shortest pause after a scan of all, and after changes that the kernel reported.
const TICK: Duration = Duration::from_millis(10);

/// The interval of checks for changes that the kernel does not report.
const CHECK: Duration = Duration::from_secs(1);

/// The pause after a scan that used `cpu_time`. Time in which the thread waited for a CPU does not count:
/// other users decide how long that is.
fn pause(cpu_time: Duration, interval: Duration) -> Duration {
    let longest = interval.saturating_mul(LONGEST_PAUSE);
    cpu_time.saturating_mul(COST - 1).clamp(TICK.min(interval), longest)
}

/// The shortest time for a part of a scan: a usual host is scanned at once, also at short intervals.
const SHORTEST_SLICE: Duration = Duration::from_millis(5);

/// CPU time for each of the three parts of a scan: threads, sockets, rules. With the longest pause that is one
/// part in 20 of a CPU for all of them, at intervals of 100 ms and above. The rest continues after the pause.
fn slice(interval: Duration) -> Duration {
    (interval.saturating_mul(LONGEST_PAUSE) / 19 / 3).max(SHORTEST_SLICE)
}

/// A bounded CPU time of the calling thread.
#[derive(Debug)]
struct TimeSlice {
    until: Duration,
}

impl TimeSlice {
    /// Starts now.
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

/// The directory of the journal of a guard of the calling thread's network namespace. Only one guard per
/// namespace can run: two would undo each other's changes.
///
/// # Errors
/// /proc is not readable.
pub fn journal_directory() -> Result<PathBuf> {
    let inode = Namespace::current().map_err(onbeat_host::settings::Error::from)?.inode();
    Ok(format!("/run/onbeat/guard/{inode}").into())
}

/// Excludes other guards of the calling thread's network namespace, also those that do not share /run.
fn lock() -> Result<NamespaceLock> {
    let namespace = Namespace::current().map_err(onbeat_host::settings::Error::from)?;
    Ok(NamespaceLock::take(&namespace, "guard").map_err(onbeat_host::settings::Error::from)?)
}

/// Runs the guard until `stop` is readable, or its other end is closed. `report` receives events, and the usage of
/// budgets.
///
/// The result includes settings that could not be restored at the end; these stay in the journal.
///
/// # Errors
/// As [`Guard::start`] and [`Guard::step`]; then, too, all settings are restored.
pub fn run(
    config: &Config,
    directory: &Path,
    stop: BorrowedFd<'_>,
    report: &mut (dyn FnMut(&[Event], &[Usage]) + Send),
) -> Result<Vec<RestoredEntry>> {
    LiveHost::run(|host| {
        let clock = Clock::start();
        let mut journal = Journal::open(directory, DISCARD)?;
        let _lock = lock()?;
        let mut observer =
            observer::LiveObserver::open(config, slice(config.interval), clock.now_ns())?;
        let (mut guard, events) = Guard::start(config, host, &mut journal, &mut observer)?;
        report(&events, &[]);
        let _scheduled = scheduled();
        let ended = run_steps(config, &mut guard, clock, stop, report);
        let restored = guard.stop();
        ended.and(restored)
    })?
}

/// Steps until `stop` is readable.
fn run_steps(
    config: &Config,
    guard: &mut Guard<'_>,
    clock: Clock,
    stop: BorrowedFd<'_>,
    report: &mut (dyn FnMut(&[Event], &[Usage]) + Send),
) -> Result<()> {
    // Budgets are measured at each interval.
    let is_event_driven = config.budgets.is_empty() && guard.wakes().is_some();
    let check = if is_event_driven { CHECK } else { CHECK.min(config.interval) };
    loop {
        let before = cpu_time();
        let events = guard.step(clock.now_ns())?;
        report(&events, &guard.usage());
        let pause = pause(cpu_time().saturating_sub(before), config.interval);
        if EventLoop::new(clock, stop, pause, check).wait(guard, report)? == WaitResult::Guard {
            return Ok(());
        }
    }
}

/// Follows processes and budgets as [`run`], and changes nothing: `report` receives what a guard would do.
///
/// # Errors
/// As [`run`].
pub fn watch(
    config: &Config,
    stop: BorrowedFd<'_>,
    report: &mut (dyn FnMut(&[Event], &[Usage]) + Send),
) -> Result<()> {
    LiveHost::run(|host| {
        let clock = Clock::start();
        let slice = slice(config.interval);
        let mut observer = observer::LiveObserver::open(config, slice, clock.now_ns())?.preview();
        let mut log = NoChanges;
        let mut guard = Guard::preview(config, host, &mut log, &mut observer)?;
        run_steps(config, &mut guard, clock, stop, report)
    })?
}

/// The journal of a guard that changes nothing.
#[derive(Debug)]
struct NoChanges;

impl Log for NoChanges {
    fn entries(&self) -> Vec<Entry> {
        Vec::new()
    }

    fn replace(&mut self, _entries: Vec<Entry>) -> onbeat_host::settings::Result<()> {
        Ok(())
    }
}

/// The changes that a guard would make now.
#[derive(Debug)]
pub struct Preview {
    /// The settings it would change at its start.
    pub report: Report,
    /// The priorities it would give.
    pub events: Vec<Event>,
}

/// Returns the changes that a guard would make now, and changes nothing.
///
/// # Errors
/// As [`Guard::start`].
pub fn preview(config: &Config) -> Result<Preview> {
    observe(config, |host, mut observer, mut there| {
        let mut cannot = Vec::new();
        for name in &config.interfaces {
            if let Some(why) = observer.why_not_threaded(name)? {
                cannot.push(why);
                there.remove(name);
            }
        }
        let mut guarded = config.interfaces.clone();
        guarded.retain(|name| there.contains_key(name));
        let tuning = guard::tuning(config, &guarded);
        let mut report = Report::from(plan(&tuning, &host.survey(&tuning)?));
        report.cannot.extend(cannot);
        Ok(Preview { report, events: guard::decisions(config, host, &mut observer, &there)? })
    })
}

/// Returns what a guard would decide on a process now, and why; changes nothing.
///
/// # Errors
/// As [`preview`]; there is no such process.
pub fn explain(config: &Config, pid: u32) -> Result<Explanation> {
    observe(config, |host, mut observer, there| {
        explain::explain(config, host, &mut observer, &there, pid)
    })
}

/// Returns what a guard would decide now on the processes that have a socket open, and why; changes nothing.
///
/// # Errors
/// As [`preview`]; no process has such a socket open.
pub fn explain_sockets(config: &Config, name: &SocketName) -> Result<SocketsExplanation> {
    observe(config, |host, mut observer, there| {
        explain::explain_sockets(config, host, &mut observer, &there, name)
    })
}

/// Observes this host once, with the indexes of the guarded interfaces.
fn observe<T: Send>(
    config: &Config,
    body: impl FnOnce(&mut LiveHost, observer::LiveObserver, BTreeMap<String, u32>) -> Result<T> + Send,
) -> Result<T> {
    LiveHost::run(|host| {
        let mut observer = observer::LiveObserver::open(config, Duration::MAX, 0)?.preview();
        let there = observer.devices(&config.interfaces)?;
        for name in &config.interfaces {
            if !there.contains_key(name) {
                return Err(Error::NoInterface(name.clone()));
            }
        }
        body(host, observer, there)
    })?
}

/// Restores the settings that a killed guard left.
///
/// # Errors
/// [`onbeat_host::settings::Error::Host`] while a guard runs; the journal cannot be read or written.
pub fn restore(directory: &Path, forget: bool) -> Result<Vec<RestoredEntry>> {
    use onbeat_host::settings;
    LiveHost::run(|live| {
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
    use libbpf_rs::libbpf_sys as sys;
    use onbeat_irq_core::policy::Budget;
    use onbeat_netdev::{Ethtool, Handle, VethEnd};
    use onbeat_testing::{Feature, require_all};

    /// Not even for a moment: a native XDP program restarts the queues of some drivers.
    #[test]
    fn a_preview_attaches_no_program() {
        if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 6)]) {
            return;
        }
        let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1")).unwrap();
        let index = handle.index("a0").unwrap() as i32;
        let config = Config {
            budgets: vec![Rule::any(Budget { ns_per_s: 1_000_000 })],
            drop_at: DropPoint::Xdp,
            ..Config::of(vec!["a0".to_owned()])
        };
        let attached = || {
            observe(&config, |host, mut observer, there| {
                guard::decisions(&config, host, &mut observer, &there)?;
                let mut program = 0;
                // SAFETY: a number, and room for one.
                let code = unsafe { sys::bpf_xdp_query_id(index, 0, &raw mut program) };
                assert_eq!(code, 0);
                Ok(program)
            })
        };
        assert_eq!(handle.namespace().run(attached).unwrap().unwrap(), 0);
    }

    /// The guard itself refuses such an interface.
    #[test]
    fn a_preview_reports_interfaces_without_napi() {
        if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 8)]) {
            return;
        }
        let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1")).unwrap();
        for name in ["a0", "a1"] {
            handle.set_up(name).unwrap();
        }
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool.set_features("a0", &[("rx-gro", true)]).unwrap();
        ethtool.set_features("a1", &[("rx-gro", false)]).unwrap();
        let config = Config::of(["lo", "a0", "a1"].map(str::to_owned).into());
        let Preview { report, .. } = handle.namespace().run(|| preview(&config)).unwrap().unwrap();
        let changed =
            report.changes.iter().filter_map(|change| change.setting.interface.as_deref());
        assert_eq!(changed.collect::<Vec<_>>(), ["a0"]);
        let [lo, a1] = &report.cannot[..] else { panic!("{report:?}") };
        assert!(lo.starts_with("lo: no NAPI instances"), "{lo}");
        assert!(a1.ends_with("ethtool -K a1 gro on"), "{a1}");
    }

    /// Beside eight busy loops a scan with 40 ms of CPU time lasted 350 ms; 49 times that was a pause of
    /// 17 s.
    #[test]
    fn a_pause_depends_on_cpu_time_and_is_bounded() {
        const MS: Duration = Duration::from_millis(1);
        for (cpu_time_us, interval_ms, pause_us) in [
            (0, 100, 10_000),
            (500, 100, 24_500),
            (2_000, 100, 98_000),
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
