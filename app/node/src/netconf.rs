//! A running node for NETCONF sessions. Each session is a process; locks are files beside the control socket.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_host::{Error as HostError, Holder, Lock, PrivateDirectory, file};
pub use onbeat_netconf::Session;
use onbeat_netconf::{Datastore, ErrorTag, LockError, Node, RpcError, of_faults};
use onbeat_yang::schema::{MODULES, Module};
use serde_json::Value;

use crate::control::{Client, ClientError, Request, Response};
use crate::yang::{self, SetError, SetTerms};

/// Environment variable with a directory of modules.
const MODULES_VARIABLE: &str = "ONBEAT_YANG_MODULES";

/// Directory of modules of other programs.
const SHARED_MODULES: &str = "/usr/share/yang/modules";

/// Description of a session in its locks.
const SESSION: &str = "onbeat yang netconf";

/// Maximum length of a module in octets.
const MODULE_LENGTH: u64 = 4 << 20;

/// A running node, by its control socket.
#[derive(Debug)]
pub struct ManagedNode {
    /// Its control socket. A session lasts longer than a daemon: each request connects.
    socket: PathBuf,
    name: String,
    force: bool,
    locks: [Option<Lock>; 2],
    /// Hash of the running configuration that was read last.
    base: Option<String>,
}

impl ManagedNode {
    /// The node of a connection. With `force`, another system may manage it.
    ///
    /// # Errors
    /// It does not respond.
    pub fn new(mut client: Client, force: bool) -> Result<Self, ClientError> {
        let Response::Pong { node, .. } = client.request(&Request::Ping)? else {
            return Err(ClientError::Unexpected);
        };
        let (socket, locks) = (client.path().to_owned(), [None, None]);
        Ok(Self { socket, name: node, force, locks, base: None })
    }

    fn client(&self) -> Result<Client, RpcError> {
        Client::connect(&self.socket).map_err(|error| of_client(&error))
    }

    fn has_lock(&self, datastore: Datastore) -> bool {
        self.locks[datastore as usize].is_some()
    }
}

/// The directory of the locks of a node with this control socket, and the name of a lock in it.
fn lock_file<'a>(socket: &'a Path, node: &str, datastore: Datastore) -> (&'a Path, String) {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    (directory, format!("{node}.{datastore}-lock"))
}

/// The session that has the lock of a node's datastore; `None`: none has.
pub(crate) fn lock_holder(
    socket: &Path,
    node: &str,
    datastore: Datastore,
) -> Result<Option<Holder>, HostError> {
    let (directory, name) = lock_file(socket, node, datastore);
    match PrivateDirectory::open(directory)? {
        Some(directory) => Lock::holder(&directory, &name),
        None => Ok(None),
    }
}

fn of_client(error: &ClientError) -> RpcError {
    let tag = match error {
        ClientError::Forbidden { .. } => ErrorTag::AccessDenied,
        ClientError::Conflict(_) => ErrorTag::InUse,
        _ => ErrorTag::OperationFailed,
    };
    RpcError::new(tag, error.to_string())
}

impl Node for ManagedNode {
    fn read(&mut self, datastore: Datastore, with_state: bool) -> Result<Value, RpcError> {
        let mut client = self.client()?;
        let read = match datastore {
            Datastore::Running => yang::running(&mut client, with_state),
            Datastore::Startup => yang::startup(&mut client),
        };
        let failed = |error: yang::ReadError| match error {
            yang::ReadError::Client(error) => of_client(&error),
            error => RpcError::new(ErrorTag::OperationFailed, error.to_string()),
        };
        let data = read.map_err(failed)?;
        if datastore == Datastore::Running {
            self.base = data.sha256;
        }
        Ok(data.document)
    }

    fn write(&mut self, configuration: &Value) -> Result<(), Vec<RpcError>> {
        let mut client = self.client()?;
        let terms = SetTerms {
            base: self.base.take(),
            has_lock: self.has_lock(Datastore::Running),
            force: self.force,
            store: false,
        };
        match yang::set(&mut client, configuration, terms, "edit-config") {
            Ok(_) => Ok(()),
            Err(SetError::Faults(faults)) => Err(of_faults(faults)),
            Err(SetError::Client(error)) => Err(of_client(&error).into()),
            Err(error @ SetError::Changed) => {
                Err(RpcError::new(ErrorTag::InUse, error.to_string()).into())
            }
            Err(error) => Err(RpcError::new(ErrorTag::OperationFailed, error.to_string()).into()),
        }
    }

    fn store(&mut self, remove: bool) -> Result<(), RpcError> {
        let has_lock = self.has_lock(Datastore::Startup);
        let request = Request::StoreStreams { remove, has_lock, force: self.force };
        self.client()?.order(&request).map(drop).map_err(|error| of_client(&error))
    }

    fn lock(&mut self, datastore: Datastore) -> Result<(), LockError> {
        let (directory, name) = lock_file(&self.socket, &self.name, datastore);
        let taken = PrivateDirectory::create(directory)
            .and_then(|directory| Lock::take(&directory, &name, SESSION));
        match taken {
            Ok(lock) => {
                self.locks[datastore as usize] = Some(lock);
                Ok(())
            }
            Err(HostError::Locked { holder, .. }) => {
                Err(LockError::Held(holder.pid.unwrap_or(0), holder.to_string()))
            }
            Err(error) => Err(LockError::Failed(error.to_string())),
        }
    }

    fn unlock(&mut self, datastore: Datastore) {
        self.locks[datastore as usize] = None;
    }

    fn kill(&mut self, session: u32) -> Result<(), RpcError> {
        let is_session = |holder: &Holder| {
            holder.pid == Some(session) && holder.what.as_deref() == Some(SESSION)
        };
        let holder = |datastore| lock_holder(&self.socket, &self.name, datastore).ok().flatten();
        let mut holders = [Datastore::Running, Datastore::Startup].into_iter().filter_map(holder);
        if !holders.any(|holder| is_session(&holder)) {
            let message = format!(
                "no session {session} has a lock of this node, and others cannot be ended; lock-denied has the id of \
                 the session with the lock"
            );
            return Err(RpcError::element(ErrorTag::InvalidValue, "session-id", message));
        }
        kill(Pid::from_raw(session as i32), Signal::SIGTERM).map_err(|errno| {
            let message = format!("session {session} cannot be ended: {errno}");
            RpcError::new(ErrorTag::OperationFailed, message)
        })
    }

    fn module(&mut self, name: &str, revision: Option<&str>) -> Option<String> {
        let Module { name, revision: own, .. } = *MODULES.iter().find(|one| one.name == name)?;
        if revision.is_some_and(|revision| revision != own) {
            return None;
        }
        let named = std::env::var_os(MODULES_VARIABLE).map(PathBuf::from);
        let directories = named.into_iter().chain([PathBuf::from(SHARED_MODULES)]);
        let files = directories.flat_map(|directory| {
            fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
        });
        let is_module = |path: &PathBuf| {
            let file = path.file_name().and_then(|name| name.to_str());
            file.and_then(|file| file.strip_suffix(".yang"))
                .is_some_and(|stem| stem.split('@').next() == Some(name))
        };
        let is_own = |text: &String| {
            let of_revision = |line: &str| line.starts_with("revision ") && line.contains(own);
            text.lines().any(|line| of_revision(line.trim_start()))
        };
        files
            .filter(is_module)
            .filter_map(|path| file::read_text(&path, MODULE_LENGTH).ok())
            .find(is_own)
    }
}
