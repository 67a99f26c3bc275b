//! Latent error detection (7.4.4) of streams.

use onbeat_frer::counters::Counters;
use onbeat_frer::latent::LatentErrorDetector;
use onbeat_frer::spec::LatentErrorDetection;

use crate::control::EventDetail;

/// Latent error detection of one stream.
#[derive(Debug)]
pub(super) struct LatentErrorMonitor {
    pub(super) config: LatentErrorDetection,
    /// `None` before the first poll.
    latent: Option<LatentErrorDetector>,
    /// Number of latent error signals.
    pub(super) errors: u64,
}

impl LatentErrorMonitor {
    pub(super) fn new(config: LatentErrorDetection) -> Self {
        Self { config, latent: None, errors: 0 }
    }

    /// Whether the last period had a latent error.
    pub(super) fn is_active(&self) -> bool {
        self.latent.as_ref().is_some_and(LatentErrorDetector::is_active)
    }

    /// When to poll next.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.latent.as_ref().map(LatentErrorDetector::next_deadline)
    }

    /// 10.8.10: number of resets of the base difference.
    pub(super) fn base_resets(&self) -> u64 {
        self.latent.as_ref().map_or(0, |latent| latent.counters().latent_error_resets)
    }

    /// Polls the counters of the stream's recovery function; returns an event if a latent error starts or ends.
    pub(super) fn poll(&mut self, now_ns: u64, counted: &Counters) -> Option<EventDetail> {
        let Some(latent) = &mut self.latent else {
            // The configuration was checked when it was read.
            self.latent = LatentErrorDetector::new(&self.config, now_ns, counted).ok();
            return None;
        };
        let before = latent.is_active();
        let signal = latent.poll(now_ns, counted);
        self.errors += u64::from(signal.is_some());
        match (before, signal) {
            (false, Some(error)) => {
                let (difference, allowed) = (error.difference, error.allowed);
                Some(EventDetail::LatentError { difference, allowed })
            }
            (true, _) if !latent.is_active() => Some(EventDetail::LatentErrorEnded),
            _ => None,
        }
    }
}
