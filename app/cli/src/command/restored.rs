//! Output of `onbeat doctor --restore` and `onbeat irq guard --restore`.

use std::path::Path;

use onbeat_host::settings::{Journal, RestoreOutcome, RestoredEntry, RestoredLine, restored_table};
use onbeat_link::Claim;
use onbeat_link::raw::NicStamps;
use serde::Serialize;

use onbeat_terminal::exit::{CommandResult, Result, warn};
use onbeat_terminal::output;

/// Output of `--json`.
#[derive(Serialize)]
struct RestoreReport {
    ok: bool,
    restored: Vec<RestoredLine>,
}

/// Renames a damaged journal, and warns that nothing is restored from it.
pub(super) fn discard_damaged(directory: &Path) -> Result<()> {
    if let Some(path) = Journal::set_aside(directory)? {
        warn(discarded(&path));
    }
    Ok(())
}

/// Like [`discard_damaged`], for the journals of interfaces in the directories of claims and taps.
pub(super) fn discard_damaged_of_interfaces(claims: &Path, taps: &Path) -> Result<()> {
    let damaged = [Claim::discard_damaged(claims)?, NicStamps::discard_damaged(taps)?];
    damaged.iter().flatten().for_each(|path| warn(discarded(path)));
    Ok(())
}

fn discarded(path: &Path) -> String {
    format!("damaged journal discarded, none of its values restored: renamed to {path:?}")
}

/// Prints the restored settings. The answer is bad if a setting could not be restored, unless `forget` is set.
pub(super) fn print(restored: Vec<RestoredEntry>, forget: bool, json: bool) -> Result {
    let ok = forget || restored.iter().all(|one| one.outcome != RestoreOutcome::Failed);
    if json {
        let restored = restored.into_iter().map(RestoredLine::from).collect();
        output::print_json(&RestoreReport { ok, restored })?;
    } else if restored.is_empty() {
        output::print("nothing to restore\n")?;
    } else {
        output::print(&restored_table(&restored))?;
    }
    Ok(CommandResult::good_if(ok))
}
