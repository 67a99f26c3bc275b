//! `onbeat doctor --restore`

use onbeat_realtime::HeldSignals;
use onbeat_realtime::host::{Log, PutBack, RestoredLine, restore, restored_table};
use serde::Serialize;

use super::Where;
use crate::exit::{Answer, Result};
use crate::output;

#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// Put back what --fix changed since the host was booted
    #[arg(long, conflicts_with_all = ["fix", "interfaces"])]
    pub(super) restore: bool,
    /// Give up what cannot be put back, such as settings of an interface that was deleted
    #[arg(long, requires = "restore")]
    forget: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Done {
    ok: bool,
    restored: Vec<RestoredLine>,
}

impl Restore {
    pub(super) fn execute(self, at: &Where, json: bool) -> Result {
        let _signals = HeldSignals::begin()?;
        let mut journal = at.journal()?;
        let restored = at.host(|host| restore(host, &mut journal))??;
        if self.forget {
            journal.replace(Vec::new())?;
        }
        let ok = self.forget || restored.iter().all(|one| one.outcome != PutBack::Failed);
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
}
