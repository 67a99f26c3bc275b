//! The guard of bottom halves, beside the node.

use onbeat_host::settings::PutBack;
use onbeat_irq_guard::{Background, Config, Event, journal_directory};

use super::error::{Error, Result};
use crate::service::has_capability;

/// Begins to guard, and tells the log.
///
/// # Errors
/// What keeps the guard from beginning; nothing is changed then.
pub(super) fn start(config: Config) -> Result<Background> {
    // The guard itself would log each refusal, and go on.
    if !has_capability("CAP_SYS_NICE") {
        return Err(Error::GuardPermission);
    }
    let log = |events: &[Event], _: &[_]| {
        events.iter().for_each(|event| tracing::info!("guard: {event}"))
    };
    let directory = journal_directory().map_err(Error::Guard)?;
    Background::start(config, directory, log).map_err(Error::Guard)
}

/// Restores everything. Returns whether every setting is restored.
pub(super) fn stop(guard: Background) -> bool {
    match guard.stop() {
        Err(error) => {
            tracing::error!("the guard has ended: {error}");
            false
        }
        Ok(restored) => {
            for one in restored.iter().filter(|one| one.outcome == PutBack::Failed) {
                let reason = one.reason.as_deref().unwrap_or_default();
                tracing::warn!(
                    "guard: {} is not as before: {reason}; try: onbeat irq guard --restore",
                    one.entry.place
                );
            }
            restored.iter().all(|one| one.outcome != PutBack::Failed)
        }
    }
}
