//! Taking a node down from outside.

use std::path::Path;
use std::time::{Duration, Instant};

use onbeat_frer_xdp::{BPF_MOUNT, PinDirectory};
use onbeat_host::PrivateDirectory;

use super::assembly::{Removal, is_pinned};
use super::error::{Error, Result};
use super::journal::Journal;
use crate::config::{Config, is_name};
use crate::control::{BindError, Client, DIRECTORY, Request, Response, Server, in_directory};

/// How long a daemon may take to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes a node down, whether its daemon lives or not: programs, tables, and what was made and set
/// on interfaces. `node` is a name, or the path of a configuration file. With `forget`, a damaged
/// journal and the settings that cannot be restored are discarded.
///
/// Whether everything could be undone: what could not is logged and stays in the journal.
///
/// # Errors
/// What is neither a file nor can be a name; what cannot be removed.
pub fn down(node: &str, forget: bool) -> Result<bool> {
    let (name, control, pin) = if Path::new(node).is_file() {
        let config = Config::load(Path::new(node))?.node;
        (config.name, config.control, config.pin)
    } else {
        // It goes into the paths of what is removed: it must not lead elsewhere.
        if !is_name(node) {
            return Err(Error::NoNode { node: node.to_string() });
        }
        let control = Path::new(DIRECTORY).join(format!("{node}.sock"));
        (node.to_string(), control, Path::new(BPF_MOUNT).join("onbeat").join(node))
    };
    // Both before anything is removed, and before anything in the latter is trusted, the socket
    // included.
    let pinned = is_pinned(PinDirectory::open(&pin)?.as_ref())?;
    let directory = PrivateDirectory::open(in_directory(&control)?.0)?;
    let stopped = directory.is_some() && stop(&control);
    let mut known = stopped || pinned;
    if directory.is_some() {
        known |= forget && Journal::discard_damaged(&control, node)?;
        // A damaged one says that there was such a node.
        known = known || !Journal::open(&control, node)?.is_empty();
    }
    if !known {
        let message =
            format!("nothing of node {name:?} at {} or {}", pin.display(), control.display());
        return Err(Error::System {
            what: "find such a node",
            source: std::io::Error::new(std::io::ErrorKind::NotFound, message),
        });
    }
    // No process starts the node meanwhile, and the socket that a killed daemon left goes, too.
    let _server = bind(&control, stopped)?;
    let argument = node.to_owned();
    Removal { name, pin, control, argument, forget }.remove()
}

/// Makes a daemon remove its node and exit; whether there is one.
fn stop(control: &Path) -> bool {
    let Ok(mut client) = Client::connect(control) else { return false };
    let Ok(Response::Done { message }) = client.request(&Request::Stop) else { return false };
    tracing::info!("{message}");
    true
}

/// Takes the control socket, once a daemon that is to exit has given it up, which it does last.
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
    use super::*;

    #[test]
    fn what_is_no_name_of_a_node_is_not_looked_for() {
        for node in ["", ".", "..", "/", "/sys", "../a", "a/b", "missing/a.toml", "-a", "a\0"] {
            let error = down(node, false).unwrap_err();
            assert!(matches!(&error, Error::NoNode { node: named } if named == node), "{error}");
        }
    }

    #[test]
    fn a_node_that_is_none_is_told_with_where_it_was_looked_for() {
        let error = down("no-node-has-this-name", false).unwrap_err().to_string();
        assert!(error.contains("/sys/fs/bpf/onbeat/no-node-has-this-name"), "{error}");
    }
}
