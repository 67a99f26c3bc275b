//! Taking a node down from outside.

use std::path::Path;
use std::time::{Duration, Instant};

use onbeat_frer_xdp::{BPF_MOUNT, PinDirectory};

use super::assembly;
use super::error::{Error, Result};
use super::journal::Journal;
use crate::config::{Config, is_name};
use crate::control::{Client, DIRECTORY, Request, Response, Server};

/// Takes a node down, whether its daemon lives or not: programs, tables, and what was made and set
/// on interfaces. `node` is a name, or the path of a configuration file.
///
/// # Errors
/// What is neither a file nor can be a name; what cannot be removed.
pub fn down(node: &str) -> Result<()> {
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
    if let Ok(mut client) = Client::connect(&control) {
        // The daemon answers, then removes; its pid file lock tells when it is done.
        if let Ok(Response::Done { message }) = client.request(&Request::Stop) {
            tracing::info!("{message}");
            return wait_gone(&control);
        }
    }
    let pinned = assembly::is_pinned(PinDirectory::open(&pin)?.as_ref())?;
    let known = pinned || !Journal::open(&control)?.changes.is_empty();
    if !known {
        let message =
            format!("nothing of node {name:?} at {} or {}", pin.display(), control.display());
        return Err(Error::System {
            what: "find such a node",
            source: std::io::Error::new(std::io::ErrorKind::NotFound, message),
        });
    }
    // Nobody starts the node meanwhile, and the socket that a killed daemon left goes, too.
    let _place = Server::bind(&control)?;
    assembly::take_away(&pin, &control)
}

/// Until the daemon has given up its control socket, which it does last.
fn wait_gone(control: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Client::connect(control).is_ok() {
        if Instant::now() > deadline {
            return Err(Error::System {
                what: "see the daemon end",
                source: std::io::ErrorKind::TimedOut.into(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_node_is_not_looked_for() {
        for node in ["", ".", "..", "/", "/sys", "../a", "a/b", "missing/a.toml", "-a", "a\0"] {
            let error = down(node).unwrap_err();
            assert!(matches!(&error, Error::NoNode { node: named } if named == node), "{error}");
        }
    }

    #[test]
    fn a_node_that_is_none_is_told_with_where_it_was_looked_for() {
        let error = down("no-node-has-this-name").unwrap_err().to_string();
        assert!(error.contains("/sys/fs/bpf/onbeat/no-node-has-this-name"), "{error}");
    }
}
