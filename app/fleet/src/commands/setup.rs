//! `onbeat fleet init`, `invite`, `join`, `revoke`, `agent`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_etcd::{Access, Client, Error as EtcdError, Permission, Range};
use onbeat_rollout::record::{self, ClusterNumber};
use onbeat_rollout::store::{Condition, Keys, Operation, Store, Transaction};
use onbeat_rollout::{Current, key};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::print;

use super::FleetOption;
use crate::agent;
use crate::credentials::{
    Admission, Application, Credentials, NodeSecrets, ROOT, is_user_of, user_of,
};
use crate::disk;
use crate::error::{self, Error};
use crate::files;
use crate::join::{self, Invitation, Token};
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

/// Admit a node to the fleet
///
/// With --listen, prints a token and waits until the node joins with it: its keys are created there. With --output, creates
/// its credentials here; copy them to the node, readable by its agent only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet invite relay1 --listen 10.0.0.1:2378
  onbeat fleet invite relay1 -o relay1 --fleet ./fleet

Exit status: 0 the node is admitted; 1 no node joined in time; 2 error.")]
pub(crate) struct Invite {
    /// Name of the node, as in its file and in plans
    node: String,
    /// Address and port of this machine at which the node joins
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "output")]
    listen: Option<SocketAddr>,
    /// Minutes for which the token is valid
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1440), conflicts_with = "output")]
    valid: u64,
    /// Directory for the credentials of the node
    #[arg(short, long, value_name = "DIRECTORY", conflicts_with = "listen")]
    output: Option<PathBuf>,
    #[command(flatten)]
    fleet: FleetOption,
}

/// Join a fleet by a token
///
/// Creates the keys of this node, and has them certified by the machine that invites it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet join 10.0.0.1:2378 -o /etc/onbeat/fleet-relay1 --token onbeat1.4f1c...

Exit status: 0 success; 2 error (wrong or old token, or the directory exists).")]
pub(crate) struct Join {
    /// Address and port at which `onbeat fleet invite` waits
    address: SocketAddr,
    /// Token that `onbeat fleet invite` printed
    #[arg(long)]
    token: String,
    /// New directory for the credentials of this node
    #[arg(short, long, value_name = "DIRECTORY")]
    output: PathBuf,
}

/// Exclude a node: its credentials are void
///
/// The node continues with what it runs; its agent can no longer read plans or acknowledge. Without a plan that uses other
/// nodes, roll-outs wait for it: see --without of `apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet revoke relay1

Exit status: 0 success; 2 error.")]
pub(crate) struct Revoke {
    /// Name of the node
    node: String,
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

/// Removes the role of a node and the users of all its invitations, whatever keys the store has; returns whether there were
/// some.
async fn exclude(client: &Client, node: &str) -> onbeat_etcd::Result<bool> {
    let is_removed = |removed: onbeat_etcd::Result<()>| match removed {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    };
    let mut was_there = is_removed(client.remove_role(&role(node)).await)?;
    for user in client.users().await?.iter().filter(|user| is_user_of(user, node)) {
        was_there |= is_removed(client.remove_user(user).await)?;
    }
    Ok(was_there)
}

/// A node reads all plans, and writes its own keys.
async fn permit(client: &Client, node: &str, user: &str) -> onbeat_etcd::Result<()> {
    let permission = |kind, keys| Permission { kind, keys };
    let role = role(node);
    let permissions = [
        permission(Access::Read, Range::prefix("plan/")),
        permission(Access::ReadWrite, Range::key(key::state(node))),
        permission(Access::ReadWrite, Range::key(key::inventory(node))),
    ];
    once(client.add_user(user).await)?;
    once(client.add_role(&role).await)?;
    for permission in &permissions {
        client.permit(&role, permission).await?;
    }
    once(client.grant_role(user, &role).await)
}

fn role(node: &str) -> String {
    format!("node-{node}")
}

/// Admits a node to the store. Its former credentials, if it has some, are void: the store has no such user, and their states
/// are not signed by this key.
fn admit(
    credentials: &Credentials,
    store: &mut EtcdStore,
    node: &str,
    application: &Application,
) -> error::Result<Admission> {
    let node_key = application.node_key(node)?;
    let admission = credentials.admit(node, application)?;
    if credentials.tls()?.is_some() {
        store.run(|client| exclude(client, node))?;
        let user = user_of(&node_key);
        store.run(|client| permit(client, node, &user))?;
    }
    let value = record::seal(&node_key, &credentials.signing_key()?);
    let put = Operation::Put { key: key::node_key(node), value, lease: 0 };
    store.transact(&Transaction::write(vec![put]))?;
    Ok(admission)
}

fn check_node(node: &str) -> Result<()> {
    if !key::is_node_name(node) {
        return Err(Failure::new(format!(
            "{node:?} is not a name of a node: 1 to 63 letters, digits, \"-\", \"_\" and \".\""
        )));
    }
    if node == ROOT {
        let fault = "\"root\" is the user of the controller; name the node otherwise";
        return Err(Failure::new(fault));
    }
    Ok(())
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
        let number = store.transact(&Transaction::default()).map_err(Error::from)?.cluster;
        let put = |key: &str, value| Operation::Put { key: key.into(), value, lease: 0 };
        let first = Transaction {
            compare: vec![Condition::CreateRevision(key::CURRENT.into(), 0)],
            success: vec![
                put(key::CURRENT, record::seal(&Current::FIRST, &signer)),
                put(key::CLUSTER, record::seal(&ClusterNumber { number }, &signer)),
            ],
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
        check_node(&self.node)?;
        let credentials = Credentials::open(&self.fleet.fleet)?;
        let mut store = EtcdStore::new(&credentials)?;
        let Some(output) = &self.output else {
            return self.listen(&credentials, &mut store);
        };
        // With its admission the former credentials of the node are void.
        disk::check_new(output)?;
        let secrets = NodeSecrets::generate()?;
        let application = secrets.application()?;
        secrets.save(&admit(&credentials, &mut store, &self.node, &application)?, output)?;
        print(&format!(
            "node {:?} may join; copy {} to it, and run there: onbeat fleet agent DIRECTORY\n",
            self.node,
            output.display()
        ))?;
        Ok(CommandResult::Success)
    }

    fn listen(&self, credentials: &Credentials, store: &mut EtcdStore) -> Result<CommandResult> {
        let address =
            self.listen.ok_or_else(|| Failure::new("--listen or --output is required"))?;
        // What would fail later fails now.
        store.run(Client::status).map_err(Error::from)?;
        let invitation = Invitation::new(credentials, address)?;
        print(&format!(
            "run on {0}, within {1} min:\n\n  onbeat fleet join {2} -o /etc/onbeat/fleet-{0} --token {3}\n\n",
            self.node,
            self.valid,
            invitation.address()?,
            invitation.token()
        ))?;
        let Some(applicant) = invitation.wait(Duration::from_secs(60 * self.valid))? else {
            print("no node joined; the token is void\n")?;
            return Ok(CommandResult::Negative);
        };
        let admitted = admit(credentials, store, &self.node, applicant.application());
        applicant.answer(&admitted);
        admitted?;
        print(&format!("node {:?} has joined\n", self.node))?;
        Ok(CommandResult::Success)
    }
}

impl Join {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let token: Token =
            self.token.parse().map_err(|fault| Failure::new(format!("--token: {fault}")))?;
        disk::check_new(&self.output)?;
        let secrets = NodeSecrets::generate()?;
        let admission = join::apply(self.address, &token, &secrets.application()?)?;
        let node = admission.node()?;
        secrets.save(&admission, &self.output)?;
        print(&format!(
            "this node is {node:?}; run: onbeat fleet agent {}\n",
            self.output.display()
        ))?;
        Ok(CommandResult::Success)
    }
}

/// Whether a request failed because there is nothing to remove.
fn is_absent(error: &EtcdError) -> bool {
    matches!(error, EtcdError::Refused { message, .. } if message.contains("not found"))
}

impl Revoke {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        check_node(&self.node)?;
        let credentials = Credentials::open(&self.fleet.fleet)?;
        let mut store = EtcdStore::new(&credentials)?;
        let keys = [key::node_key(&self.node), key::state(&self.node), key::inventory(&self.node)];
        // Who can write to the store can remove the key or exchange it: users are removed in any case.
        let mut was_there = files::read_one(&mut store, &keys[0])?.is_some();
        if credentials.tls()?.is_some() {
            let excluded = store.run(|client| exclude(client, &self.node));
            was_there |= excluded.map_err(Error::from)?;
        }
        // Last: with its key gone, the node counts as not invited.
        let removed = keys.map(|key| Operation::Delete(Keys::One(key))).to_vec();
        let removed = Transaction::write(removed);
        store.transact(&removed).map_err(Error::from)?;
        if !was_there {
            return Err(Failure::new(format!(
                "no node {:?} was invited; see `onbeat fleet status`",
                self.node
            )));
        }
        print(&format!("the credentials of node {:?} are void\n", self.node))?;
        Ok(CommandResult::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_all_invitations_are_those_of_the_node() {
        let is_of_a = |user| is_user_of(user, "a");
        assert!(["a", "a~0123456789abcdef", "a~"].into_iter().all(is_of_a));
        assert!(!["root", "b", "ab", "ab~01", "a.b", "~a"].into_iter().any(is_of_a));
    }

    #[test]
    fn versions_that_corrupt_data_are_refused() {
        assert!(check_version("3.5.2").is_err() && check_version("3.5.0").is_err());
        assert!(check_version("3.5.16").is_ok() && check_version("3.4.23").is_ok());
    }
}
