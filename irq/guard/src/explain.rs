//! Why a process has its budget, and NAPI threads their priority.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use onbeat_host::settings::Host;
use onbeat_irq_core::policy::Rank;
use serde::Serialize;

use super::candidates::{Scan, WaitingThread};
use super::config::{Config, Namespaces, ProcessProperties, Rule};
use super::event::{Event, HighestWaiter};
use super::guard::decisions;
use super::observer::LiveObserver;
use super::open_sockets::{OpenSocket, SocketName, open_sockets};
use crate::{Error, Result};

/// What a guard with a configuration would decide on a process now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The process.
    pub pid: u32,
    /// Its name, escaped.
    pub command: String,
    /// Its control group, escaped; none: not readable.
    pub cgroup: Option<String>,
    /// The number of its budget in the file, from 1 on; none: it has no budget.
    pub budget: Option<usize>,
    /// Softirq time of that budget, in nanoseconds per second.
    pub budget_ns_per_s: Option<u64>,
    /// The guarded interfaces.
    pub interfaces: Vec<InterfaceExplanation>,
}

/// A guarded interface, and the threads of the process that wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceExplanation {
    /// The interface.
    pub interface: String,
    /// Its NAPI threads and their policies as `chrt` names them; empty: it is not in threaded NAPI now.
    pub napi_threads: BTreeMap<u32, String>,
    /// The priority that they would have; none: the present one.
    pub to: Option<String>,
    /// The thread that decides it; none: no waiting thread is above the floor.
    pub by: Option<HighestWaiter>,
    /// Threads of the process that wait for its packets.
    pub waiting: Vec<WaitingExplanation>,
}

/// A thread that waits: that of the process with the highest priority. A guard that runs takes the one that reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingExplanation {
    /// Its id.
    pub tid: u32,
    /// Its name, escaped.
    pub name: String,
    /// Its priority.
    pub priority: String,
}

/// What a guard with a configuration would decide now for sockets of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketsExplanation {
    /// The sockets: those of the guard's network namespace first.
    pub sockets: Vec<SocketExplanation>,
    /// The processes that have one of them open.
    pub processes: Vec<Explanation>,
}

/// A socket, and the guarded interfaces that it receives packets of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketExplanation {
    /// Its protocol.
    pub protocol: &'static str,
    /// Its local address and port; unspecified if it has none.
    pub local: SocketAddr,
    /// The remote ones; none: not connected.
    pub peer: Option<SocketAddr>,
    /// Its inode, `ino` of `ss -e`.
    pub inode: u64,
    /// Its cookie: `sk` of `ss -e`, which prints it in hexadecimal.
    pub cookie: u64,
    /// The inode of its network namespace.
    pub namespace: u32,
    /// Whether that is another one than that of the guarded interfaces.
    pub elsewhere: bool,
    /// The guarded interfaces for which its processes wait.
    pub interfaces: Vec<String>,
    /// Why there is none.
    pub reason: Option<String>,
    /// The processes that have it open.
    pub processes: BTreeSet<u32>,
}

/// Explains what a guard decides on a process.
pub(super) fn explain(
    config: &Config,
    host: &mut dyn Host,
    observer: &mut LiveObserver,
    there: &BTreeMap<String, u32>,
    pid: u32,
) -> Result<Explanation> {
    let events = decisions(config, host, observer, there)?;
    of_process(config, host, observer, (there, &events), pid)?.ok_or(Error::NoProcess(pid))
}

/// Explains what a guard decides on the processes that have a socket open.
pub(super) fn explain_sockets(
    config: &Config,
    host: &mut dyn Host,
    observer: &mut LiveObserver,
    there: &BTreeMap<String, u32>,
    name: &SocketName,
) -> Result<SocketsExplanation> {
    let events = decisions(config, host, observer, there)?;
    let mut sockets: BTreeMap<(bool, u64), SocketExplanation> = BTreeMap::new();
    for open in open_sockets(observer.netns())? {
        if !open.is(name, |interface| observer.index(interface)) {
            continue;
        }
        let by_socket = (open.socket.elsewhere, open.cookie);
        let explanation =
            sockets.entry(by_socket).or_insert_with(|| of_socket(config, observer, there, &open));
        explanation.processes.insert(open.socket.pid);
    }
    if sockets.is_empty() {
        return Err(Error::NoSocket(name.to_string()));
    }
    let pids: BTreeSet<u32> =
        sockets.values().flat_map(|socket| socket.processes.iter().copied()).collect();
    // Some may have exited since.
    let processes = pids
        .into_iter()
        .map(|pid| of_process(config, host, observer, (there, &events), pid))
        .filter_map(Result::transpose)
        .collect::<Result<_>>()?;
    Ok(SocketsExplanation { sockets: sockets.into_values().collect(), processes })
}

fn of_socket(
    config: &Config,
    observer: &LiveObserver,
    there: &BTreeMap<String, u32>,
    open: &OpenSocket,
) -> SocketExplanation {
    let counts = !open.socket.elsewhere || config.namespaces == Namespaces::All;
    let mut interfaces = Vec::new();
    if counts && open.receives {
        let devices = observer.devices_of(&open.socket);
        let guarded = there.iter().filter(|(_, index)| devices.contains(index));
        interfaces.extend(guarded.map(|(name, _)| name.clone()));
    }
    SocketExplanation {
        protocol: open.protocol,
        local: open.local,
        peer: open.peer,
        inode: open.inode,
        cookie: open.cookie,
        namespace: open.netns,
        elsewhere: open.socket.elsewhere,
        reason: interfaces.is_empty().then(|| reason(observer, open, counts)),
        interfaces,
        processes: BTreeSet::new(),
    }
}

/// Why a socket receives packets of no guarded interface.
fn reason(observer: &LiveObserver, open: &OpenSocket, counts: bool) -> String {
    let name = |index| observer.name(index).unwrap_or_else(|| index.to_string());
    if !open.receives {
        "it is neither bound to a port nor connected".to_owned()
    } else if !counts {
        "it is in another network namespace; [guard] with namespaces = \"all\" includes these"
            .to_owned()
    } else if open.socket.elsewhere {
        "it receives on the loopback of another network namespace only".to_owned()
    } else if open.socket.device != 0 {
        format!("it is bound to {}, which is not guarded", name(open.socket.device))
    } else {
        let of = observer.interface_of(open.local.ip()).map_or_else(|| "none".to_owned(), name);
        format!("its address belongs to {of}, which is not guarded")
    }
}

/// `None`: there is no such process.
fn of_process(
    config: &Config,
    host: &mut dyn Host,
    observer: &LiveObserver,
    (there, events): (&BTreeMap<String, u32>, &[Event]),
    pid: u32,
) -> Result<Option<Explanation>> {
    let process = onbeat_irq::names::process(pid);
    let Some(about) = process.and_then(onbeat_irq::names::describe) else { return Ok(None) };
    let (scan, found) = observer.found();
    let user = scan.threads.iter().find(|thread| thread.waiter.tid == pid).map(|of| of.user);
    let (command, cgroup) = (Some(&about.command), about.cgroup.as_ref());
    let rule = Rule::of(&config.budgets, ProcessProperties { command, cgroup, user });
    let interfaces = there.iter().map(|(name, index)| {
        let threads = host.napi_threads(name)?.into_iter();
        let policy = |text: Option<String>| text.unwrap_or_else(|| "deadline".to_owned());
        let decision = events.iter().find_map(|event| match event {
            Event::PriorityChanged { interface, to, waiter, .. } if interface == name => {
                Some((to.to_string(), waiter.clone()))
            }
            _ => None,
        });
        let (to, by) = decision.map_or((None, None), |(to, by)| (Some(to), by));
        let of_process = found
            .waiting
            .iter()
            .filter(|((device, waiter), _)| device == index && waiter.process.pid == pid);
        let waiting = of_process.map(|((_, waiter), rank)| waiting(scan, *waiter, *rank)).collect();
        Ok(InterfaceExplanation {
            interface: name.clone(),
            napi_threads: threads.map(|of| (of.pid.unsigned_abs(), policy(of.policy))).collect(),
            to,
            by,
            waiting,
        })
    });
    Ok(Some(Explanation {
        pid,
        command: about.command.to_string(),
        cgroup: about.cgroup.as_ref().map(ToString::to_string),
        budget: rule.map(|at| at + 1),
        budget_ns_per_s: rule.map(|at| config.budgets[at].budget.ns_per_s),
        interfaces: interfaces.collect::<Result<_>>()?,
    }))
}

fn waiting(scan: &Scan, waiter: WaitingThread, rank: Rank) -> WaitingExplanation {
    let thread = scan.threads.iter().find(|thread| thread.waiter == waiter);
    WaitingExplanation {
        tid: waiter.tid,
        name: thread.map(|thread| thread.name.to_string()).unwrap_or_default(),
        priority: rank.to_string(),
    }
}
