//! What prevents a redundant interface, all at once and each with its remedy.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use onbeat_host::InterfaceLock;
use onbeat_netdev::{Handle, Link, MAX_NAME};

use super::session;
use crate::config::{Backend, VETH_SUFFIX};
use crate::{control, run};

/// Why a redundant interface cannot be created or removed.
#[derive(Debug, thiserror::Error)]
pub enum ProtectError {
    /// The session of this command would end.
    #[error(
        "this ssh session uses {address} on {on:?}, which would be removed; connect to another address of this host, or \
         run the command from a console"
    )]
    Session {
        /// The address of the session.
        address: IpAddr,
        /// The interface that carries it.
        on: String,
    },
    /// Not the name of a node.
    #[error("{name:?} is not a valid name; use {rule}")]
    Name {
        /// The name.
        name: String,
        /// The rule.
        rule: String,
    },
    /// The state of this host.
    #[error("{}", .0.join("\n"))]
    Obstacles(Vec<String>),
    /// A node of this name runs.
    #[error(
        "node {name:?} runs already; remove it first with: onbeat protect --undo {name}, or use another --name"
    )]
    Running {
        /// Its name.
        name: String,
    },
    /// The daemon of a node of this name was killed.
    #[error(
        "node {name:?} was stopped, and its interfaces are still changed; start it again with: onbeat run {}, or remove it \
         with: onbeat protect --undo {name}", .file.display()
    )]
    Stopped {
        /// Its name.
        name: String,
        /// Its configuration.
        file: PathBuf,
    },
    /// A data plane that the format does not have.
    #[error("--format rtag requires --backend packet, not {backend}; remove --backend")]
    Backend {
        /// The data plane.
        backend: Backend,
    },
    /// A file of other content.
    #[error(
        "{path:?} exists, and differs from the configuration of this command; use another --name, move the file, or \
         remove the node with: onbeat protect --undo {name}"
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// Name of the node.
        name: String,
    },
    /// A node that this command did not create.
    #[error(
        "onbeat protect created no {name:?} on this host; if it is another node, remove it with: onbeat down {name}"
    )]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The configuration cannot be written.
    #[error("cannot write {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The daemon cannot be started.
    #[error("cannot start {program:?}: {source}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The daemon exited, or does not answer.
    #[error("the node did not start: {why}")]
    NotStarted {
        /// The end of its log.
        why: String,
    },
    /// A signal stopped the command while it waited.
    #[error("interrupted; the node is removed")]
    Interrupted,
    /// The service manager.
    #[error("{command}: {why}; the node is not changed")]
    Service {
        /// The command.
        command: String,
        /// Its message.
        why: String,
    },
    /// The node.
    #[error(transparent)]
    Run(#[from] run::Error),
    /// The control socket of the node.
    #[error(transparent)]
    Client(#[from] control::ClientError),
}

/// Obstacles that were found.
#[derive(Debug, Default)]
pub(super) struct Obstacles(Vec<String>);

impl Obstacles {
    pub(super) fn into_result(self) -> Result<(), ProtectError> {
        if self.0.is_empty() { Ok(()) } else { Err(ProtectError::Obstacles(self.0)) }
    }

    /// Returns the interface of a LAN.
    pub(super) fn lan(&mut self, handle: &Handle, name: &str) -> Option<Link> {
        let link = self.link(handle, name)?;
        if is_wireless(&link.name) {
            self.0.push(format!(
                "interface {name:?} is a wireless station, which sends frames of its own address only; use a tunnel over \
                 it (such as gretap or vxlan), or a bridge with 4addr (WDS)"
            ));
        }
        Some(link)
    }

    /// Returns an interface of the node.
    pub(super) fn link(&mut self, handle: &Handle, name: &str) -> Option<Link> {
        let link = match handle.link(name) {
            Ok(link) => link,
            Err(error) => {
                self.0.push(format!("{error}; ip link lists the interfaces"));
                return None;
            }
        };
        if link.loopback {
            self.0.push(format!(
                "interface {name:?} is the loopback interface; use an Ethernet interface"
            ));
        } else if link.mac.is_none() {
            self.0.push(format!(
                "interface {name:?} is no Ethernet interface; use one with a MAC address"
            ));
        }
        if link.master.is_some() {
            self.0.push(format!(
                "interface {name:?} belongs to a bridge or a bond, which would forward frames a second time; remove it \
                 from there: ip link set {name} nomaster"
            ));
        }
        self.unused(handle, &link);
        Some(link)
    }

    /// Checks the name of the interface to create.
    pub(super) fn new_interface(&mut self, handle: &Handle, name: &str) {
        let longest = MAX_NAME - VETH_SUFFIX.len();
        if name.len() > longest {
            self.0.push(format!(
                "the name {name:?} is too long for an interface; use {longest} characters at most"
            ));
        } else if handle.link(name).is_ok() {
            self.0.push(format!("interface {name:?} exists; use another --name"));
        }
    }

    /// Checks that all interfaces are different.
    pub(super) fn distinct(&mut self, lans: &[Option<Link>; 2], protected: Option<&Link>) {
        let links: Vec<&Link> = lans.iter().flatten().chain(protected).collect();
        for (place, link) in links.iter().enumerate() {
            if links[..place].iter().any(|other| other.index == link.index) {
                self.0.push(format!(
                    "interface {:?} is named twice; use different interfaces",
                    link.name
                ));
            }
        }
    }

    /// Checks that a change of the MTU does not interrupt the session of this command.
    pub(super) fn session(&mut self, handle: &Handle, link: &Link) {
        let Some((address, on)) = session::over(handle, link) else { return };
        let above =
            if on == link.name { String::new() } else { format!(", above {:?}", link.name) };
        self.0.push(format!(
            "this ssh session uses {address} on {on:?}{above}, whose MTU would change, which interrupts some drivers; set \
             the MTU of {:?} first, or run the command from a console",
            link.name
        ));
    }

    /// Checks that no other process has the interface.
    fn unused(&mut self, handle: &Handle, link: &Link) {
        // Without privileges the locks are not readable.
        let holder = InterfaceLock::holder(handle.namespace(), link.index).ok().flatten();
        if let Some(holder) = holder {
            self.0.push(format!(
                "interface {:?} is used by {holder}; stop it, or use another interface",
                link.name
            ));
        }
    }
}

fn is_wireless(interface: &str) -> bool {
    Path::new("/sys/class/net").join(interface).join("phy80211").exists()
}
