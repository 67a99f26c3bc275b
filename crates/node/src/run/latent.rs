//! Latent error detection (7.4.4) of the streams that ask for it.

use super::clock::monotonic_ns;
use super::engine::Engine;
use super::error::Result;
use onbeat_frer::counters::Counters;
use onbeat_frer::latent::Latent;
use onbeat_frer::spec::LatentErrorDetection;

/// The detection of one stream.
#[derive(Debug)]
pub(super) struct Detection {
    pub(super) config: LatentErrorDetection,
    latent: Latent,
    /// Latent errors signalled.
    pub(super) errors: u64,
}

fn counted(plane: &Engine, stream: &str) -> Result<Option<Counters>> {
    let reading = plane.read_stream(stream)?;
    Ok(reading.and_then(|reading| reading.recovery).map(|recovery| recovery.counters))
}

impl Detection {
    /// Starts from what the stream's recovery function has counted by now.
    pub(super) fn start(
        plane: &Engine,
        stream: &str,
        config: LatentErrorDetection,
    ) -> Result<Option<Self>> {
        let counters = counted(plane, stream)?.unwrap_or_default();
        // The configuration was checked when it was read.
        let latent = Latent::new(&config, monotonic_ns(), &counters).ok();
        Ok(latent.map(|latent| Self { config, latent, errors: 0 }))
    }

    /// When to look next.
    pub(super) fn next_deadline_ns(&self) -> u64 {
        self.latent.next_deadline()
    }

    /// 10.8.10: how often the base difference was taken anew.
    pub(super) fn base_resets(&self) -> u64 {
        self.latent.counters().latent_error_resets
    }

    /// Looks, where it is time.
    pub(super) fn poll(&mut self, plane: &Engine, stream: &str) -> Result<()> {
        let now = monotonic_ns();
        if now < self.latent.next_deadline() {
            return Ok(());
        }
        let Some(counters) = counted(plane, stream)? else { return Ok(()) };
        if let Some(error) = self.latent.poll(now, &counters) {
            self.errors += 1;
            tracing::warn!(
                "stream {stream:?}: latent error: {} replicas missing, {} allowed, over {} paths",
                error.difference,
                error.allowed,
                self.config.paths
            );
        }
        Ok(())
    }
}
