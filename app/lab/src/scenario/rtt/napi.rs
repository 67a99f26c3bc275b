//! NAPI in threads. The interfaces are the lab's own: threads and priorities go with them, whichever
//! way the lab ends, so that nothing has to be put back.

use std::io;

use onbeat_host::settings::{Entry, Host, Live, Log, SettingKind, Tuning, apply};
use onbeat_netdev::Namespace;
use onbeat_realtime::{CpuSet, Scheduling};

use crate::{Error, Result};

/// Of a raised NAPI thread, as `onbeat doctor --fix` sets it.
const RAISED: Scheduling = Scheduling::Fifo(50);

/// A journal that nobody will ever need.
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

/// Has these interfaces polled by threads on this CPU, at real-time priority or not.
///
/// # Errors
/// Where one of them cannot be, with what the kernel says.
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
    let tune = || Live::run(|host| threads(host, &tuning));
    namespace.run(tune)??
}

fn threads(host: &mut Live, tuning: &Tuning) -> Result<()> {
    let report = apply(host, &mut DiscardedLog::default(), tuning, false)?;
    let refused = report.changes.iter().filter_map(|change| {
        let reason = change.reason.as_deref()?;
        Some(format!("{}: {reason}", change.setting.place))
    });
    let mut reasons: Vec<String> = report.cannot.iter().cloned().chain(refused).collect();
    for interface in host.survey(&tuning.interfaces)?.interfaces {
        if interface.threads.is_empty() {
            reasons.push(format!("{}: no NAPI thread is seen from here", interface.name));
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Error::io("poll interfaces by threads", io::Error::other(reasons.join("; "))))
}
