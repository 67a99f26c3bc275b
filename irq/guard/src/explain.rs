//! Why a process has its budget, and NAPI threads their priority.

use std::collections::BTreeMap;

use onbeat_host::settings::Host;
use onbeat_irq_core::policy::Rank;
use serde::Serialize;

use super::candidates::{Scan, WaitingThread};
use super::config::{Config, ProcessProperties, Rule};
use super::event::{Event, HighestWaiter};
use super::guard::decisions;
use super::observer::LiveObserver;
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

/// Explains what a guard decides on a process.
pub(super) fn explain(
    config: &Config,
    host: &mut dyn Host,
    observer: &mut LiveObserver,
    there: &BTreeMap<String, u32>,
    pid: u32,
) -> Result<Explanation> {
    let events = decisions(config, host, observer, there)?;
    let process = onbeat_irq::names::process(pid);
    let about = process.and_then(onbeat_irq::names::describe).ok_or(Error::NoProcess(pid))?;
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
    Ok(Explanation {
        pid,
        command: about.command.to_string(),
        cgroup: about.cgroup.as_ref().map(ToString::to_string),
        budget: rule.map(|at| at + 1),
        budget_ns_per_s: rule.map(|at| config.budgets[at].budget.ns_per_s),
        interfaces: interfaces.collect::<Result<_>>()?,
    })
}

fn waiting(scan: &Scan, waiter: WaitingThread, rank: Rank) -> WaitingExplanation {
    let thread = scan.threads.iter().find(|thread| thread.waiter == waiter);
    WaitingExplanation {
        tid: waiter.tid,
        name: thread.map(|thread| thread.name.to_string()).unwrap_or_default(),
        priority: rank.to_string(),
    }
}
