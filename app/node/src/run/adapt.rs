//! Parameters of recovery that follow the measured paths, by the rules of [`onbeat_frer::adapt`].

use onbeat_frer::adapt::Adaptation;
use onbeat_frer::counters::Counters;
use onbeat_frer::paths::PathsReading;
use onbeat_frer::spec::{Algorithm, Recovery, Stream};

use super::assembly::{Node, sweep_interval};
use super::error::Result;
use super::events::EventSubject;
use super::setup::names;
use crate::control::EventDetail;

/// Interval of reading the paths of a stream.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Pause after a change that the data plane refused.
const REFUSED_NS: u64 = 60_000_000_000;

/// The parameters of a stream that follow its paths.
#[derive(Debug, Default)]
pub(super) struct FollowedPaths {
    adaptation: Adaptation,
    due_ns: u64,
}

impl FollowedPaths {
    /// Returns whether the paths are due to be read.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns <= now_ns
    }

    /// Returns other parameters than `recovery`, if these follow from a reading.
    pub(super) fn poll(
        &mut self,
        now_ns: u64,
        recovery: &Recovery,
        counters: &Counters,
        paths: &PathsReading,
    ) -> Option<Recovery> {
        self.due_ns = now_ns + INTERVAL_NS;
        let next = self.adaptation.update(now_ns, recovery, counters, paths);
        (next != *recovery).then_some(next)
    }

    /// Pauses after a change that the data plane refused.
    pub(super) fn refuse(&mut self, now_ns: u64) {
        self.due_ns = now_ns + REFUSED_NS;
    }
}

impl Node {
    /// Changes the parameters of recovery that follow other paths than before.
    pub(super) fn adapt_recoveries(&mut self, now_ns: u64) -> Result<()> {
        let adapted = self.watcher.take_adapted().into_iter().filter_map(|(name, recovery)| {
            let stream = self.setup.streams.get(&name)?;
            Some(Stream { recover: Some(recovery), ..stream.clone() })
        });
        let changed: Vec<Stream> = adapted.collect();
        if changed.is_empty() { Ok(()) } else { self.change_recoveries(&changed, now_ns) }
    }

    /// Changes all of these streams that the data plane accepts.
    fn change_recoveries(&mut self, streams: &[Stream], now_ns: u64) -> Result<()> {
        match self.plane.change(&names(&self.setup.ports), &[], streams) {
            Ok(_) => {
                streams.iter().for_each(|stream| self.note_adapted(stream));
                Ok(())
            }
            // One of them may need more room than there is.
            Err(_) if streams.len() > 1 => {
                let mut outcome = Ok(());
                for stream in streams {
                    let changed = self.change_recoveries(std::slice::from_ref(stream), now_ns);
                    outcome = outcome.and(changed);
                }
                outcome
            }
            Err(error) => {
                self.watcher.refuse_adapted(&streams[0].name, now_ns);
                Err(error)
            }
        }
    }

    fn note_adapted(&mut self, stream: &Stream) {
        let Some(recovery) = stream.recover else { return };
        self.setup.streams.set_recovery(&stream.name, recovery);
        self.watcher.set_timeouts(stream);
        self.sweep = self.sweep.into_iter().chain(sweep_interval(stream)).min();
        let history_length = match recovery.algorithm {
            Algorithm::Vector { history_length } => Some(history_length),
            Algorithm::Match => None,
        };
        let reset_timeout_ms = recovery.reset_timeout_ms;
        let subject = EventSubject { stream: Some(&stream.name), ..EventSubject::default() };
        let what = EventDetail::RecoveryAdapted { history_length, reset_timeout_ms };
        self.events.record(&subject, what);
    }

    /// Streams of a new configuration continue with the parameters that follow their paths.
    pub(super) fn keep_adapted(&self, streams: &mut [Stream]) {
        for stream in streams {
            let before = self.setup.streams.get(&stream.name).and_then(|before| before.recover);
            let (Some(recover), Some(before)) = (&mut stream.recover, before) else { continue };
            // Of a fixed length, too: with a shorter one, late copies are rogue until the paths are read.
            if recover.adaptive.history_length
                && matches!(before.algorithm, Algorithm::Vector { .. })
            {
                recover.algorithm = before.algorithm;
            }
            if recover.adaptive.reset_timeout && before.adaptive.reset_timeout {
                recover.reset_timeout_ms = before.reset_timeout_ms;
            }
        }
    }
}
