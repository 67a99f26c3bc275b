//! `onbeat fleet init`, `invite`, `agent`

use std::path::PathBuf;

use onbeat_etcd::{Access, Client, Error as EtcdError, Permission, Range};
use onbeat_rollout::record::{self};
use onbeat_rollout::store::{Condition, Operation, Store, Transaction};
use onbeat_rollout::{Current, key};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use crate::agent;
use crate::credentials::{Credentials, ROOT};
use crate::error::Error;
use crate::store::EtcdStore;

/// Create the keys of a fleet, and set up its store
///
/// Creates an authority, certificates for servers of etcd, and the key with which plans are signed. Once etcd runs, run
/// it again: it sets up users, roles and the first record.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet init --etcd https://10.0.0.1:2379 --etcd https://10.0.0.2:2379 --etcd https://10.0.0.3:2379
  onbeat fleet init --etcd http://127.0.0.1:2379 --fleet ./fleet

Exit status: 0 the store is set up; 1 the keys exist, and etcd does not run yet; 2 error.")]
pub(crate) struct Init {
    /// Server of etcd (repeatable); without TLS by http://
    #[arg(long, value_name = "URL", required = true)]
    etcd: Vec<String>,
    #[command(flatten)]
    fleet: FleetOption,
}

/// Admit a node to the fleet, and create its credentials
///
/// Adds a user and role for the node to etcd. Copy the directory to the node, readable by its agent only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet invite relay1 -o relay1
  onbeat fleet invite relay1 -o relay1 --fleet ./fleet

Exit status: 0 success; 2 error (the store cannot be reached, or the directory exists).")]
pub(crate) struct Invite {
    /// Name of the node, as in its file and in plans
    node: String,
    /// Directory for the credentials of the node
    #[arg(short, long, value_name = "DIRECTORY")]
    output: PathBuf,
    #[command(flatten)]
    fleet: FleetOption,
}

/// Run the agent of a node
///
/// Replaces the streams of the node as plans require, and acknowledges. The node must have managed-by in its file, and the
/// caller must be a member of group onbeat-fleet. The node continues without the agent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet agent /etc/onbeat/fleet-node
  onbeat fleet agent ./relay1 --state ./state

Exit status: 0 does not occur; 2 error.")]
pub(crate) struct AgentCommand {
    #[command(flatten)]
    options: agent::Options,
}

impl AgentCommand {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        agent::run(&self.options)?;
        Ok(CommandResult::Success)
    }
}

/// Whether a request failed because it had been made before.
fn is_repeated(error: &EtcdError) -> bool {
    matches!(error, EtcdError::Refused { message, .. } if message.contains("already exists"))
}

fn once(done: onbeat_etcd::Result<()>) -> onbeat_etcd::Result<()> {
    match done {
        Err(error) if is_repeated(&error) => Ok(()),
        other => other,
    }
}

async fn set_up_users(client: &Client) -> onbeat_etcd::Result<()> {
    once(client.add_user(ROOT).await)?;
    once(client.add_role(ROOT).await)?;
    once(client.grant_role(ROOT, ROOT).await)?;
    client.enable_authentication().await
}

/// A node reads all plans, and writes its own keys.
async fn admit(client: &Client, node: &str) -> onbeat_etcd::Result<()> {
    let permission = |kind, keys| Permission { kind, keys };
    let role = format!("node-{node}");
    let permissions = [
        permission(Access::Read, Range::prefix("plan/")),
        permission(Access::ReadWrite, Range::key(key::state(node))),
        permission(Access::ReadWrite, Range::key(key::inventory(node))),
    ];
    once(client.add_user(node).await)?;
    once(client.add_role(&role).await)?;
    // Also if the role exists: an interrupted invitation left it without them.
    for permission in &permissions {
        client.permit(&role, permission).await?;
    }
    once(client.grant_role(node, &role).await)
}

impl Init {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let directory = self.fleet.fleet;
        let credentials = Credentials::create(&directory, &self.etcd)?;
        let signer = credentials.signing_key()?;
        let mut store = EtcdStore::new(&credentials)?;
        let status = match store.run(Client::status) {
            Ok(status) => status,
            Err(error @ (EtcdError::Unreachable { .. } | EtcdError::TimedOut { .. })) => {
                let at = directory.display();
                print(&format!(
                    "keys are in {at}; certificates of servers in {at}/servers\nstart etcd with them, then run this command \
                     again ({error})\n"
                ))?;
                return Ok(CommandResult::Negative);
            }
            Err(error) => return Err(Error::from(error).into()),
        };
        check_version(&status.version)?;
        if credentials.tls()?.is_some() {
            store.run(set_up_users).map_err(Error::from)?;
        }
        let first = Transaction {
            compare: vec![Condition::CreateRevision(key::CURRENT.into(), 0)],
            success: vec![Operation::Put {
                key: key::CURRENT.into(),
                value: record::seal(&Current::FIRST, &signer),
                lease: 0,
            }],
            ..Transaction::default()
        };
        store.transact(&first).map_err(Error::from)?;
        print(&format!(
            "the store is set up (etcd {}); keys are in {}\n",
            status.version,
            directory.display()
        ))?;
        Ok(CommandResult::Success)
    }
}

/// etcd 3.5.0 to 3.5.2 corrupts its data when it is killed under load (etcd-io/etcd 13766).
fn check_version(version: &str) -> Result<()> {
    match version {
        "3.5.0" | "3.5.1" | "3.5.2" => Err(Failure::new(format!(
            "etcd {version} can corrupt its data when it is killed; use 3.4.42, 3.5.33 or a later version"
        ))),
        _ => Ok(()),
    }
}

impl Invite {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        if !key::is_node_name(&self.node) {
            return Err(Failure::new(format!(
                "{:?} is not a name of a node: 1 to 63 letters, digits, \"-\", \"_\" and \".\"",
                self.node
            )));
        }
        if self.node == ROOT {
            return Err(Failure::new(
                "\"root\" is the user of the controller; name the node otherwise",
            ));
        }
        let credentials = Credentials::open(&self.fleet.fleet)?;
        let store = EtcdStore::new(&credentials)?;
        if credentials.tls()?.is_some() {
            store.run(|client| admit(client, &self.node)).map_err(Error::from)?;
        }
        credentials.invite(&self.node, &self.output)?;
        print(&format!(
            "node {:?} may join; copy {} to it, and run there: onbeat fleet agent DIRECTORY\n",
            self.node,
            self.output.display()
        ))?;
        Ok(CommandResult::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_corrupt_data_are_refused() {
        assert!(check_version("3.5.2").is_err() && check_version("3.5.0").is_err());
        assert!(check_version("3.5.16").is_ok() && check_version("3.4.23").is_ok());
    }
}
