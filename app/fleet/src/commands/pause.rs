//! `onbeat fleet pause`

use onbeat_rollout::key;
use onbeat_rollout::record::{self, LONGEST_REASON, Pause as PauseRecord, Record};
use onbeat_rollout::store::{Keys, Operation, Store, Transaction};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use super::apply::OpenFleet;
use crate::error;
use crate::store::EtcdStore;

/// Hold a roll-out where it is, and start none
///
/// No controller writes another step, forward or back, whatever nodes say. All nodes continue with what they run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet pause --why maintenance
  onbeat fleet pause --end

Exit status: 0 success; 2 error.")]
pub(crate) struct Pause {
    /// Reason, which `status` shows
    #[arg(long, value_name = "TEXT", default_value = "by the operator")]
    why: String,
    /// End the pause; `apply --continue` does so, too, and goes on
    #[arg(long, conflicts_with = "why")]
    end: bool,
    #[command(flatten)]
    fleet: FleetOption,
}

fn execute(store: &mut EtcdStore, operation: Operation) -> error::Result<()> {
    store.transact(&Transaction::write(vec![operation]))?;
    Ok(())
}

/// Ends a pause, if there is one.
pub(super) fn end(store: &mut EtcdStore) -> error::Result<()> {
    execute(store, Operation::Delete(Keys::One(key::PAUSE.into())))
}

impl Pause {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        if self.end {
            end(&mut fleet.store)?;
            print("the pause has ended\n")?;
            return Ok(CommandResult::Success);
        }
        let pause = PauseRecord { why: self.why };
        pause.check().map_err(|fault| {
            Failure::new(format!("--why: {fault}; use one line of at most {LONGEST_REASON} octets"))
        })?;
        let value = record::seal(&pause, &fleet.signer);
        let put = Operation::Put { key: key::PAUSE.into(), value, lease: 0 };
        execute(&mut fleet.store, put)?;
        print("no step is written until `onbeat fleet pause --end` or `apply --continue`\n")?;
        Ok(CommandResult::Success)
    }
}
