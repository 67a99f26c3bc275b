//! Real-time settings of the thread that runs a node.

use onbeat_realtime::scheduling::ThreadPolicy;
use onbeat_realtime::{CONTROL_LOOP, Profile, Realtime, Result, Scheduling, SchedulingGuard};

/// The policy of a node's thread if its file names none. Ports of nodes never spin, and a managing node waits actively
/// for a small share of a cycle only: the thread does not block its CPU.
const DEFAULT: Scheduling = CONTROL_LOOP;

/// The applied settings; undone on drop.
#[derive(Debug)]
pub(crate) struct NodeThread {
    // In the order of restoration.
    _default: Option<SchedulingGuard>,
    _settings: Realtime,
    policy: String,
    warning: Option<String>,
}

impl NodeThread {
    /// Applies the settings to the calling thread, and [`DEFAULT`] if they name no policy and the thread has no
    /// real-time policy yet. A refused default is no error; a thread without a real-time policy is a warning.
    ///
    /// # Errors
    /// A setting of the file is refused.
    pub(crate) fn enter(settings: &Profile) -> Result<Self> {
        let applied = settings.enter()?;
        let has_policy = || ThreadPolicy::of(0).is_ok_and(ThreadPolicy::is_real_time);
        let (default, refusal) = match settings.scheduling {
            Some(Scheduling::Other) => (None, Some(declined())),
            Some(_) => (None, None),
            None if has_policy() => (None, None),
            None => match SchedulingGuard::take(DEFAULT) {
                Ok(guard) => (Some(guard), None),
                Err(error) => (None, Some(error.to_string())),
            },
        };
        let warning = refusal.map(|why| {
            format!("no real-time scheduling, the node may answer or send late under load: {why}")
        });
        if let Some(warning) = &warning {
            tracing::warn!("{warning}");
        }
        let policy = ThreadPolicy::of(0).ok().and_then(ThreadPolicy::text);
        let policy = policy.unwrap_or_else(|| "unknown".into());
        Ok(Self { _default: default, _settings: applied, policy, warning })
    }

    /// Its policy, and the warning if it has no real-time policy, as remarks of a result.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let policy = format!("scheduling of the node's thread: {}", self.policy);
        [policy].into_iter().chain(self.warning.clone())
    }
}

fn declined() -> String {
    format!("scheduling = \"other\" of [realtime]; omit it for \"{DEFAULT}\", or set a priority")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use onbeat_testing::{Feature, drop_capabilities, require_all};

    use super::*;

    fn policy() -> String {
        ThreadPolicy::of(0).unwrap().text().unwrap()
    }

    fn warning(thread: &NodeThread) -> &str {
        thread.warning.as_deref().unwrap_or_default()
    }

    /// On a thread of its own: its settings do not affect other tests.
    fn alone(test: impl FnOnce() + Send + 'static) {
        if require_all(&[Feature::Root]) {
            thread::spawn(test).join().unwrap();
        }
    }
    #[test]
    fn a_node_has_a_real_time_policy_unless_its_file_names_another() {
        alone(|| {
            let before = policy();
            let thread = NodeThread::enter(&Profile::default()).unwrap();
            assert_eq!((policy().as_str(), warning(&thread)), ("fifo 49", ""));
            assert_eq!(
                thread.notes().collect::<Vec<_>>(),
                ["scheduling of the node's thread: fifo 49"]
            );
            drop(thread);
            assert_eq!(policy(), before);

            let wanted = Profile::default().scheduled(Scheduling::RoundRobin(7));
            let thread = NodeThread::enter(&wanted).unwrap();
            assert_eq!((policy().as_str(), warning(&thread)), ("rr 7", ""));
            // A policy of the caller, such as that of chrt(1).
            let inner = NodeThread::enter(&Profile::default()).unwrap();
            assert_eq!((policy().as_str(), warning(&inner)), ("rr 7", ""));
            drop(inner);
            let declined = Profile::default().scheduled(Scheduling::Other);
            let inner = NodeThread::enter(&declined).unwrap();
            assert_eq!(policy(), "other");
            assert!(warning(&inner).contains("scheduling = \"other\""), "{}", warning(&inner));
        });
    }

    #[test]
    fn a_refused_default_is_a_warning_and_a_refused_setting_an_error() {
        alone(|| {
            drop_capabilities();
            let before = policy();
            let thread = NodeThread::enter(&Profile::default()).unwrap();
            assert_eq!(policy(), before);
            let warning = warning(&thread);
            for part in [
                "may answer or send late",
                "fifo 49: Operation not permitted",
                "CAP_SYS_NICE",
                "ulimit -r",
            ] {
                assert!(warning.contains(part), "{warning}");
            }
            let wanted = Profile::default().scheduled(DEFAULT);
            assert!(NodeThread::enter(&wanted).is_err());
        });
    }
}
