//! Loads and changes of settings beside which the experiment runs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sched::{CloneFlags, setns};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, raise};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Uid, fork, setuid};
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use std::os::fd::AsRawFd;

use super::rig::{Rig, Side, StormLink};
use crate::child::Child;
use crate::worker::Worker;
use crate::{Error, Result, cpus};

/// A condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// RPS is on when the guard starts.
    Rps,
    /// Another process changes RPS of the guarded interfaces all the time.
    RpsChanges,
    /// Many sockets are open in the network namespace of the guard.
    Sockets,
    /// An unprivileged process starts others.
    Forks,
    /// Unprivileged processes use all CPU time.
    BusyLoops,
}

/// Processes that hold the sockets, and the number of sockets of each: the limit of open files may be 20,000.
const HOLDERS: u16 = 5;
const SOCKETS: u16 = 10_000;
const FIRST_PORT: u16 = 10_000;
const BUSY_LOOPS: u32 = 16;
const FORKS_PER_S: u64 = 500;
/// Interval of changes of RPS.
const CHANGE_NS: u64 = SECOND / 10;
/// A user without privileges.
const UNPRIVILEGED: Uid = Uid::from_raw(65534);

impl Condition {
    /// All, by their names.
    pub(super) const ALL: [(&'static str, Self); 5] = [
        ("rps", Self::Rps),
        ("rps-changes", Self::RpsChanges),
        ("sockets", Self::Sockets),
        ("forks", Self::Forks),
        ("busy-loops", Self::BusyLoops),
    ];

    /// Its description in results.
    pub(super) fn text(self) -> String {
        match self {
            Self::Rps => "RPS was on when the guard started".into(),
            Self::RpsChanges => {
                format!(
                    "another process set RPS on the guarded side {} times/s",
                    SECOND / CHANGE_NS
                )
            }
            Self::Sockets => {
                let sockets = u32::from(HOLDERS) * u32::from(SOCKETS);
                format!("{sockets} sockets of {HOLDERS} processes on the guarded side")
            }
            Self::Forks => format!("{FORKS_PER_S} forks/s of an unprivileged process"),
            Self::BusyLoops => format!("{BUSY_LOOPS} unprivileged busy loops on the sender's CPU"),
        }
    }
}

/// Conditions that last until this is dropped.
#[derive(Debug)]
pub(super) struct Disturbance {
    _children: Vec<Child>,
    _changes: Option<Worker<()>>,
}

impl Disturbance {
    /// Starts them. `usable` are the CPUs of changing settings.
    pub(super) fn start(conditions: &[Condition], rig: &Rig, usable: &[u16]) -> Result<Self> {
        let mut children = Vec::new();
        let mut changes = None;
        let guarded = rig.server(Side::Guarded)?;
        for condition in conditions {
            match condition {
                Condition::Rps => {}
                Condition::RpsChanges => changes = Some(change_rps(guarded, usable)?),
                Condition::Sockets => {
                    for holder in 0..HOLDERS {
                        children.push(hold_sockets(guarded, FIRST_PORT + holder * SOCKETS)?);
                    }
                }
                Condition::Forks => children.push(unprivileged(start_processes)?),
                Condition::BusyLoops => {
                    for _ in 0..BUSY_LOOPS {
                        children.push(unprivileged(|| {
                            loop {
                                std::hint::spin_loop();
                            }
                        })?);
                    }
                }
            }
        }
        Ok(Self { _children: children, _changes: changes })
    }
}

/// Sets RPS of the interfaces to one CPU after the other.
fn change_rps(namespace: &Namespace, usable: &[u16]) -> Result<Worker<()>> {
    let namespace = namespace.clone();
    let masks: Vec<String> =
        usable.iter().map(|cpu| cpus::mask(&[*cpu].into_iter().collect())).collect();
    let change = move |stop: &AtomicBool| {
        for mask in masks.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
            for interface in StormLink::INTERFACES {
                // The guard may set it at the same time.
                let _ = fs::write(cpus::rps_file(interface), mask);
            }
            sleep_until(now_ns() + CHANGE_NS);
        }
    };
    Worker::start("lab-rps", move |stop| {
        if let Err(error) = namespace.run_with_sysfs(|| change(stop)) {
            tracing::warn!("RPS is not changed: {error}");
        }
    })
}

/// A process with open sockets that nothing is sent to.
fn hold_sockets(namespace: &Namespace, first_port: u16) -> Result<Child> {
    let open = |port| {
        let (family, flags) = (AddressFamily::Inet, SockFlag::SOCK_CLOEXEC);
        let socket = socket(family, SockType::Datagram, flags, None)?;
        bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, port))?;
        // Until the process exits.
        std::mem::forget(socket);
        Ok::<(), nix::Error>(())
    };
    let child = Child::fork(|| {
        let files = u64::from(SOCKETS) + 1000;
        let opened = setns(namespace, CloneFlags::CLONE_NEWNET)
            .and_then(|()| setrlimit(Resource::RLIMIT_NOFILE, files, files))
            .and_then(|()| (first_port..first_port + SOCKETS).try_for_each(open));
        if opened.is_ok() {
            // The parent waits for that.
            let _ = raise(Signal::SIGSTOP);
        }
    })?;
    child.wait_stopped()?;
    child.resume()?;
    let failed = |error| Error::Invalid(format!("open {SOCKETS} sockets: {error}"));
    child.wait_stopped().map_err(failed)?;
    Ok(child)
}

/// A process without privileges.
fn unprivileged(run: impl FnOnce()) -> Result<Child> {
    let child = Child::fork(|| {
        if setuid(UNPRIVILEGED).is_ok() {
            // Another user clears it.
            // SAFETY: numbers only.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            run();
        }
    })?;
    child.wait_stopped()?;
    child.resume()?;
    Ok(child)
}

fn start_processes() {
    let start = now_ns();
    for number in 1.. {
        // SAFETY: the child makes one system call.
        match unsafe { fork() } {
            // SAFETY: it does not return.
            Ok(ForkResult::Child) => unsafe { libc::_exit(0) },
            Ok(ForkResult::Parent { child }) => _ = waitpid(child, None),
            Err(_) => {}
        }
        sleep_until(start + number * SECOND / FORKS_PER_S);
    }
}
