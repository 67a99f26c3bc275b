//! The effect of a restart on a node that runs or forwards, before it.

use std::fmt;
use std::path::Path;

use onbeat_frer::spec::Stream;
use onbeat_frer_xdp::{Error as PlaneError, PinDirectory, Plane};
use onbeat_host::trust;

use super::assembly::{max_nodes, pin_owner};
use super::error::Result;
use super::interfaces::absent_interfaces;
use super::journal::Journal;
use crate::config::{Config, NodeConfig};
use crate::control::{Client, Request, Response};
use crate::service::MissingDropIns;

/// The effect of a restart on the frames of a running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The start takes over the data plane in the kernel, with the same configuration and values.
    Seamless,
    /// The start refuses the file, or the unit lacks a drop-in.
    Fails,
    /// No interface of a port exists at present.
    Waits,
    /// An interface of a port does not exist at present.
    LeavesOut,
    /// The data plane is in user space, before or after it.
    Interrupts,
    /// The file has changed since the node read it.
    ChangesFile,
    /// Requests changed streams.
    ChangesStreams,
    /// Values of "auto" recovery start again from the first ones.
    ForgetsPaths,
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seamless => {
                "loses no frame: the data plane is in the kernel, and a start takes it over"
            }
            Self::Fails => {
                "fails: another user could have written the file, or the unit lacks a drop-in"
            }
            Self::Waits => "fails until one of its interfaces exists",
            Self::LeavesOut => "leaves out ports whose interfaces do not exist, until these appear",
            Self::Interrupts => "loses frames: the data plane is in user space",
            Self::ChangesFile => "changes the node: its file has changed since the node read it",
            Self::ChangesStreams => {
                "changes the node: streams were added, changed or removed since it read its file"
            }
            Self::ForgetsPaths => {
                "changes the node: recovery with \"auto\" starts with its first values, until it has measured the paths"
            }
        })
    }
}

/// Checks whether a start with this configuration can take over the data plane that the node left in its pin directory.
/// Changes nothing.
///
/// # Errors
/// The pin directory cannot be used, belongs to another node, or has tables of another version or size.
pub(super) fn check_pinned(config: &Config) -> Result<()> {
    let NodeConfig { name, pin, control, backend, .. } = &config.node;
    // Not readable without privileges.
    let is_hidden = |error: &PlaneError| match error {
        PlaneError::Pin { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
        PlaneError::Bpf(error) => error.is_permission(),
        _ => false,
    };
    let checked = match PinDirectory::open(pin) {
        Ok(Some(pins)) if nix::unistd::geteuid().is_root() && !backend.is_user_space() => pins
            .check_owner(&pin_owner(name, pin, control, Journal::exists(control)?))
            .and_then(|()| Plane::check(pins, config.streams.len() as u32, max_nodes(config))),
        opened => opened.map(drop),
    };
    match checked {
        Err(error) if is_hidden(&error) => Ok(()),
        checked => Ok(checked?),
    }
}

/// Returns the effect of a restart of the service of this file; `None`: the node does not run, or does not answer this user.
#[must_use]
pub fn restart(config: &Config, file: &Path) -> Option<Restart> {
    let NodeConfig { name, pin, control, backend, .. } = &config.node;
    let mut client = Client::connect_briefly(control).ok()?;
    let Ok(Response::Pong { node, configuration: Some(of_node), .. }) =
        client.request(&Request::Ping)
    else {
        return None;
    };
    let pins = PinDirectory::open(pin).ok().flatten();
    let attached = pins.and_then(|pins| pins.attached_by().ok().flatten());
    let is_refused = trust::check_file(file).is_err();
    let follows_paths = |stream: &Stream| {
        let adaptive = stream.recover.map(|recover| recover.adaptive);
        adaptive.is_some_and(|adaptive| adaptive.history_length || adaptive.reset_timeout)
    };
    Some(if is_refused || MissingDropIns::to_install(config, file).is_some() {
        Restart::Fails
    } else if let Some(effect) = effect_of_missing(config) {
        effect
    } else if backend.is_user_space() || attached.as_ref() != Some(control) {
        Restart::Interrupts
    } else if node != *name || of_node.sha256 != config.sha256 {
        Restart::ChangesFile
    } else if of_node.streams_changed {
        Restart::ChangesStreams
    } else if config.streams.iter().any(follows_paths) {
        Restart::ForgetsPaths
    } else {
        Restart::Seamless
    })
}

/// The effect of interfaces that do not exist. A running node can still use one that was renamed, and a start cannot.
fn effect_of_missing(config: &Config) -> Option<Restart> {
    let Ok(absent) = absent_interfaces(config) else { return Some(Restart::Waits) };
    let of_host = || config.ports.iter().filter(|port| port.create.is_none());
    let missing = of_host().filter(|port| absent.contains(&port.interface)).count();
    match missing {
        0 => None,
        all if all == of_host().count() => Some(Restart::Waits),
        _ => Some(Restart::LeavesOut),
    }
}
