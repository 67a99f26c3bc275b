//! The commands of `onbeat fleet`.

mod apply;
mod diff;
mod drain;
mod history;
mod man;
mod pause;
mod report;
mod setup;
mod status;

use std::path::PathBuf;

pub(crate) use man::Man;

use onbeat_terminal::exit::{CommandResult, Result};

/// Where the credentials of the fleet are.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetOption {
    /// Directory that `onbeat fleet init` wrote
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/onbeat/fleet")]
    pub(crate) fleet: PathBuf,
}

/// Roll plans out to the nodes of a plant while frames flow
///
/// The plan is in etcd, signed. An agent beside each node takes the node's file from there, phase by phase. Nodes
/// continue with what they have when etcd or the controller is away.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet init --etcd https://10.0.0.1:2379
  onbeat fleet invite relay1 --listen 10.0.0.1:2378
  onbeat fleet apply plan-1
  onbeat fleet status

Exit status: 0 success; 1 negative result; 2 error; `status` also 3 and 4.")]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(setup::Init),
    Invite(setup::Invite),
    Join(setup::Join),
    Revoke(setup::Revoke),
    Agent(setup::AgentCommand),
    Diff(diff::Diff),
    Apply(apply::Apply),
    Rollback(apply::Rollback),
    Drain(drain::Drain),
    Pause(pause::Pause),
    Status(status::Status),
    History(history::History),
    Report(report::Report),
}

impl Command {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        match self {
            Command::Init(init) => init.execute(),
            Command::Invite(invite) => invite.execute(),
            Command::Join(join) => join.execute(),
            Command::Revoke(revoke) => revoke.execute(),
            Command::Agent(agent) => agent.execute(),
            Command::Diff(diff) => diff.execute(),
            Command::Apply(apply) => apply.execute(),
            Command::Rollback(rollback) => rollback.execute(),
            Command::Drain(drain) => drain.execute(),
            Command::Pause(pause) => pause.execute(),
            Command::Status(status) => status.execute(),
            Command::History(history) => history.execute(),
            Command::Report(report) => report.execute(),
        }
    }
}
