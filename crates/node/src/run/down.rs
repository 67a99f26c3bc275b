//! Removal of a node by another process than its daemon.

use std::path::Path;
use std::time::{Duration, Instant};

use onbeat_frer_xdp::{BPF_MOUNT, PinDirectory};
use onbeat_host::PrivateDirectory;

use super::assembly::{NodeRemoval, is_pinned};
use super::error::{Error, Result};
use super::journal::Journal;
use crate::config::{Config, is_name};
use crate::control::{BindError, Client, DIRECTORY, Request, Response, Server, in_directory};

/// How long a daemon may take to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes a node, whether its daemon runs or not: programs, tables, and changes of interfaces.
/// `node` is a name, or the path of a configuration file. With `forget`, a damaged
/// journal and the settings that cannot be restored are discarded.
///
/// Returns whether every change is undone; the others are logged and stay in the journal.
///
/// # Errors
/// `node` is neither a file nor a valid name; there is no such node; something cannot be removed.
pub fn down(node: &str, forget: bool) -> Result<bool> {
    let (name, control, pin, ports) = if Path::new(node).is_file() {
        let Config { node, ports, .. } = Config::load(Path::new(node))?;
        (node.name, node.control, node.pin, Some(ports))
    } else {
        // It goes into the paths of what is removed: it must not lead elsewhere.
        if !is_name(node) {
            return Err(Error::NoNode { node: node.to_string() });
        }
        let control = Path::new(DIRECTORY).join(format!("{node}.sock"));
        (node.to_string(), control, Path::new(BPF_MOUNT).join("onbeat").join(node), None)
    };
    // Both are checked before anything is removed, and before the control socket is used.
    let pinned = is_pinned(PinDirectory::open(&pin)?.as_ref())?;
    let directory = PrivateDirectory::open(in_directory(&control)?.0)?;
    let stopped = directory.is_some() && stop(&control);
    // A damaged journal, too, shows that there was such a node.
    let known = stopped || pinned || directory.is_some() && Journal::exists(&control)?;
    if !known {
        let message =
            format!("nothing of node {name:?} at {} or {}", pin.display(), control.display());
        return Err(Error::System {
            what: "find such a node",
            source: std::io::Error::new(std::io::ErrorKind::NotFound, message),
        });
    }
    // With the lock no process starts the node or changes the journal meanwhile. The socket that a
    // killed daemon left is removed as well.
    let _server = bind(&control, stopped)?;
    if forget {
        Journal::discard_damaged(&control, node)?;
    }
    Journal::adopt_former(&control, node, ports.as_deref())?;
    let argument = node.to_owned();
    NodeRemoval { name, pin, control, argument, forget }.remove()
}

/// Makes a daemon remove its node and exit. Returns whether one runs.
fn stop(control: &Path) -> bool {
    let Ok(mut client) = Client::connect(control) else { return false };
    let Ok(Response::Done { message }) = client.request(&Request::Stop) else { return false };
    tracing::info!("{message}");
    true
}

/// Binds the control socket. A daemon that exits releases it last.
fn bind(control: &Path, exiting: bool) -> Result<Server> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Server::bind(control) {
            Err(BindError::Running { .. }) if exiting && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return Ok(bound?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use onbeat_host::Lock;
    use onbeat_netdev::testing::{Feature, TemporaryDirectory, require_all};

    use super::*;

    /// A daemon holds the lock and does not answer: its journal is not set aside.
    #[test]
    fn a_journal_is_discarded_only_with_the_lock_of_its_node() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-down");
        let (control, file) = (directory.file("a.sock"), directory.file("a.toml"));
        let text = format!(
            "[node]\nname = \"nh-down\"\ncontrol = {control:?}\n[[port]]\nname = \"p\"\n\
             interface = \"nh0\"\n"
        );
        fs::write(&file, text).unwrap();
        let journal = directory.file("a.sock.node-journal");
        let former = directory.file("a.journal.json");
        for damaged in [&journal, &former] {
            fs::write(damaged, "damaged").unwrap();
        }
        let private = PrivateDirectory::create(in_directory(&control).unwrap().0).unwrap();
        let lock = Lock::take(&private, "a.sock.node-lock", "node \"nh-down\"").unwrap();
        let file = file.to_str().unwrap();
        let error = down(file, true).unwrap_err();
        assert!(matches!(error, Error::Control(BindError::Running { .. })), "{error}");
        for damaged in [&journal, &former] {
            assert_eq!(fs::read_to_string(damaged).unwrap(), "damaged");
        }

        drop(lock);
        let error = down(file, false).unwrap_err().to_string();
        assert!(error.contains("--forget"), "{error}");
        assert!(down(file, true).unwrap());
        assert!(!journal.exists() && !former.exists());
        let error = down(file, true).unwrap_err().to_string();
        assert!(error.contains("nothing of node"), "{error}");
    }

    #[test]
    fn an_invalid_node_name_is_refused() {
        for node in ["", ".", "..", "/", "/sys", "../a", "a/b", "missing/a.toml", "-a", "a\0"] {
            let error = down(node, false).unwrap_err();
            assert!(matches!(&error, Error::NoNode { node: named } if named == node), "{error}");
        }
    }

    #[test]
    fn the_error_of_an_unknown_node_names_its_paths() {
        let error = down("no-node-has-this-name", false).unwrap_err().to_string();
        assert!(error.contains("/sys/fs/bpf/onbeat/no-node-has-this-name"), "{error}");
    }
}
