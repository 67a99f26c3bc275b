//! Latent error detection (7.4.4) of a stream that asks for it.

use onbeat_frer::counters::Counters;
use onbeat_frer::latent::Latent;
use onbeat_frer::spec::LatentErrorDetection;

use crate::control::EventDetail;

/// The detection of one stream.
#[derive(Debug)]
pub(super) struct LatentErrorDetector {
    pub(super) config: LatentErrorDetection,
    /// From the first look on.
    latent: Option<Latent>,
    /// Latent errors signalled.
    pub(super) errors: u64,
}

impl LatentErrorDetector {
    pub(super) fn new(config: LatentErrorDetection) -> Self {
        Self { config, latent: None, errors: 0 }
    }

    /// When to look next.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.latent.as_ref().map(Latent::next_deadline)
    }

    /// 10.8.10: how often the base difference was taken anew.
    pub(super) fn base_resets(&self) -> u64 {
        self.latent.as_ref().map_or(0, |latent| latent.counters().latent_error_resets)
    }

    /// Looks at what the stream's recovery function has counted; tells what begins or ends.
    pub(super) fn look(&mut self, now_ns: u64, counted: &Counters) -> Option<EventDetail> {
        let Some(latent) = &mut self.latent else {
            // The configuration was checked when it was read.
            self.latent = Latent::new(&self.config, now_ns, counted).ok();
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
