//! `onbeat doctor --restore`

use onbeat_host::settings::{Log, restore};
use onbeat_link::Claim;
use onbeat_link::raw::CaptureSocket;
use onbeat_node::doctor::Target;
use onbeat_realtime::BlockedSignals;

use crate::command::restored;
use onbeat_terminal::exit::Result;

#[derive(Debug, clap::Args)]
pub(super) struct RestoreOptions {
    /// Restore the settings that --fix changed since boot
    // clap does not enforce `requires = "fix"` if --restore excludes --fix: each is listed here.
    #[arg(long, conflicts_with_all = [
        "fix", "interfaces", "dry_run", "cpu", "napi_priority", "only", "keep_going", "hold",
        "latency_us", "command",
    ])]
    pub(super) restore: bool,
    /// Discard settings that cannot be restored, such as those of a deleted interface, and damaged journals, also
    /// those of ports and captures
    #[arg(long, requires = "restore")]
    forget: bool,
}

impl RestoreOptions {
    pub(super) fn execute(self, at: &Target, json: bool) -> Result {
        let _signals = BlockedSignals::begin()?;
        if self.forget {
            restored::discard_damaged(&at.journal_directory())?;
            let (claims, taps) = (at.below(Claim::DIRECTORY), at.below(CaptureSocket::DIRECTORY));
            restored::discard_damaged_of_interfaces(&claims, &taps)?;
        }
        let mut journal = at.journal()?;
        let restored = at.settings(|host| restore(host, &mut journal))??;
        if self.forget {
            journal.replace(Vec::new())?;
        }
        restored::print(restored, self.forget, json)
    }
}
