//! What was put back, as `onbeat doctor --restore` and `onbeat irq guard --restore` tell it.

use std::path::Path;

use onbeat_realtime::host::{Journal, PutBack, Restored, RestoredLine, restored_table};
use serde::Serialize;

use crate::exit::{Answer, Result, warn};
use crate::output;

/// What `--json` prints.
#[derive(Serialize)]
struct Done {
    ok: bool,
    restored: Vec<RestoredLine>,
}

/// Moves a damaged journal aside, and reports that nothing is restored from it.
pub(super) fn discard_damaged(directory: &Path) -> Result<()> {
    if let Some(path) = Journal::set_aside(directory)? {
        warn(format!("damaged journal discarded, none of its values restored: it is now {path:?}"));
    }
    Ok(())
}

/// Tells it; bad where something could not be put back, and is not to be forgotten.
pub(super) fn tell(restored: Vec<Restored>, forget: bool, json: bool) -> Result {
    let ok = forget || restored.iter().all(|one| one.outcome != PutBack::Failed);
    if json {
        let restored = restored.into_iter().map(RestoredLine::from).collect();
        output::print_json(&Done { ok, restored })?;
    } else if restored.is_empty() {
        output::print("nothing to put back\n")?;
    } else {
        output::print(&restored_table(&restored))?;
    }
    Ok(Answer::good_if(ok))
}
