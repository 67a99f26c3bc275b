//! NAPI threads. The interfaces belong to the lab: threads and priorities are removed with them, so
//! that nothing has to be restored.

use std::io;

use onbeat_host::settings::{Entry, Host, LiveHost, Log, SettingKind, Tuning, apply};
use onbeat_netdev::Namespace;
use onbeat_realtime::{CpuSet, Scheduling};

use crate::{Error, Result};

/// Policy of a NAPI thread with raised priority, as set by `onbeat doctor --fix`.
const RAISED: Scheduling = Scheduling::Fifo(50);

/// A journal without storage: nothing has to be restored.
#[derive(Default)]
struct DiscardedLog(Vec<Entry>);

impl Log for DiscardedLog {
    fn entries(&self) -> Vec<Entry> {
        self.0.clone()
    }

    fn replace(&mut self, entries: Vec<Entry>) -> onbeat_host::settings::Result<()> {
        self.0 = entries;
        Ok(())
    }
}

/// Moves NAPI of these interfaces to threads on this CPU, at real-time priority or not.
///
/// # Errors
/// An interface does not support it, with the kernel's error.
pub(super) fn thread(
    namespace: &Namespace,
    interfaces: &[&str],
    cpu: u16,
    realtime: bool,
) -> Result<()> {
    let mut only = vec![SettingKind::ThreadedNapi, SettingKind::NapiAffinity];
    if realtime {
        only.push(SettingKind::NapiPriority);
    }
    let tuning = Tuning {
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        cpus: Some([cpu].into_iter().collect::<CpuSet>()),
        napi: RAISED,
        only,
    };
    let tune = || LiveHost::run(|host| threads(host, &tuning));
    namespace.run(tune)??
}

fn threads(host: &mut LiveHost, tuning: &Tuning) -> Result<()> {
    let report = apply(host, &mut DiscardedLog::default(), tuning, false)?;
    let refused = report.changes.iter().filter_map(|change| {
        let reason = change.reason.as_deref()?;
        Some(format!("{}: {reason}", change.setting.place))
    });
    let mut reasons: Vec<String> = report.cannot.iter().cloned().chain(refused).collect();
    for interface in host.survey(tuning)?.interfaces {
        if interface.threads.is_empty() {
            reasons.push(format!(
                "{}: its NAPI thread is not visible in this PID namespace",
                interface.name
            ));
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Error::io("enable threaded NAPI", io::Error::other(reasons.join("; "))))
}
