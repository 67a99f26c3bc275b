//! The guard of interrupt work, which runs with the node.

use onbeat_host::settings::RestoreOutcome;
use onbeat_irq_guard::{Background, Config, Event, journal_directory};

use super::error::{Error, Result};
use crate::service::has_capability;

/// Starts the guard, whose events are logged.
///
/// # Errors
/// The guard cannot start; nothing is changed then.
pub(super) fn start(config: Config) -> Result<Background> {
    // The guard itself would log each refusal and continue.
    if !has_capability("CAP_SYS_NICE") {
        return Err(Error::GuardPermission);
    }
    let log = |events: &[Event], _: &[_]| {
        events.iter().for_each(|event| tracing::info!("guard: {event}"))
    };
    let directory = journal_directory().map_err(Error::Guard)?;
    Background::start(config, directory, log).map_err(Error::Guard)
}

/// Stops the guard. Returns whether all settings are restored.
pub(super) fn stop(guard: Background) -> bool {
    match guard.stop() {
        Err(error) => {
            tracing::error!("the guard has stopped: {error}");
            false
        }
        Ok(restored) => {
            for one in restored.iter().filter(|one| one.outcome == RestoreOutcome::Failed) {
                let reason = one.reason.as_deref().unwrap_or_default();
                tracing::warn!(
                    "guard: {} not restored: {reason}; try: onbeat irq guard --restore",
                    one.entry.place
                );
            }
            restored.iter().all(|one| one.outcome != RestoreOutcome::Failed)
        }
    }
}
