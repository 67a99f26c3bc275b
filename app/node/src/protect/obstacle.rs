//! What prevents a redundant interface, all at once and each with its remedy.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use onbeat_host::InterfaceLock;
use onbeat_netdev::{Handle, Link, MAX_NAME};

use super::session;
use crate::config::{TRAILER, VETH_SUFFIX};
use crate::{control, run};

/// The least MTU of an Ethernet interface (RFC 791).
const LEAST_MTU: u32 = 68;

/// Why a redundant interface cannot be created or removed.
#[derive(Debug, thiserror::Error)]
pub enum ProtectError {
    /// The session of this command would end.
    #[error(
        "this ssh session uses {address} on {on:?}{}, which {change}; connect to another address of this host, or \
         run the command from a console",
        above(on, interface)
    )]
    Session {
        /// The address of the session.
        address: IpAddr,
        /// The interface that carries it.
        on: String,
        /// The interface that would change: the same, or one below.
        interface: String,
        /// What would happen to it.
        change: &'static str,
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
        "node {name:?} runs already{}",
        if *is_here {
            format!("; remove it first with: onbeat protect --undo {name}, or use another --name")
        } else {
            " in another network namespace; use another --name".to_owned()
        }
    )]
    Running {
        /// Its name.
        name: String,
        /// Whether it runs in this network namespace.
        is_here: bool,
    },
    /// Another process creates or removes a node of this name.
    #[error("node {name:?} is being created or removed by {holder}; wait until it has ended")]
    Busy {
        /// Its name.
        name: String,
        /// The process.
        holder: String,
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
    /// A file of other content.
    #[error(
        "{path:?} exists, and differs from the configuration of this command; use another --name, or {remedy}"
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What makes room for another one.
        remedy: String,
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
pub(super) struct Obstacles {
    found: Vec<String>,
    /// Whether locks of interfaces were not readable.
    unread: bool,
}

impl Obstacles {
    pub(super) fn into_result(self) -> Result<(), ProtectError> {
        if self.found.is_empty() { Ok(()) } else { Err(ProtectError::Obstacles(self.found)) }
    }

    /// Returns what could not be checked.
    pub(super) fn unchecked(&self) -> Option<&'static str> {
        let what = "not checked without root: whether another process uses the interfaces";
        self.unread.then_some(what)
    }

    /// Returns the interface of a LAN.
    pub(super) fn lan(&mut self, handle: &Handle, name: &str) -> Option<Link> {
        let link = self.link(handle, name)?;
        if is_wireless(&link.name) {
            self.found.push(format!(
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
                self.found.push(format!("{error}; ip link lists the interfaces"));
                return None;
            }
        };
        if link.loopback {
            self.found.push(format!(
                "interface {name:?} is the loopback interface; use an Ethernet interface"
            ));
        } else if link.mac.is_none() {
            self.found.push(format!(
                "interface {name:?} is no Ethernet interface; use one with a MAC address"
            ));
        }
        if link.master.is_some() {
            self.found.push(format!(
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
            self.found.push(format!(
                "the name {name:?} is too long for an interface; use {longest} characters at most"
            ));
        } else if ["all", "default"].contains(&name) {
            self.found.push(format!(
                "the kernel reserves the name {name:?}, which no interface can have; use another --name"
            ));
        } else if handle.link(name).is_ok() {
            self.found.push(format!("interface {name:?} exists; use another --name"));
        }
    }

    /// Checks that a trailer can state the size of each frame of a segment.
    pub(super) fn long_frames(&mut self, link: &Link) {
        let (name, most) = (&link.name, run::MAX_PRP_MTU);
        if link.mtu > most {
            self.found.push(format!(
                "interface {name:?} has MTU {}, and PRP carries packets of up to {most} octets; run: ip link set {name} mtu \
                 {most}",
                link.mtu
            ));
        }
    }

    /// Checks that a LAN or path leaves room for an interface over it.
    pub(super) fn tiny_frames(&mut self, link: &Link) {
        let (name, least) = (&link.name, LEAST_MTU + TRAILER);
        if link.mtu < least {
            self.found.push(format!(
                "interface {name:?} has MTU {}, too little for an interface over it; use --mtu, or run: ip link set {name} \
                 mtu {least} at least",
                link.mtu
            ));
        }
    }

    /// Checks that all interfaces are different.
    pub(super) fn distinct(&mut self, lans: &[Option<Link>; 2], protected: Option<&Link>) {
        let links: Vec<&Link> = lans.iter().flatten().chain(protected).collect();
        for (place, link) in links.iter().enumerate() {
            if links[..place].iter().any(|other| other.index == link.index) {
                self.found.push(format!(
                    "interface {:?} is named twice; use different interfaces",
                    link.name
                ));
            }
        }
    }

    /// Checks that a change of the MTU does not interrupt the session of this command.
    pub(super) fn session(&mut self, handle: &Handle, link: &Link) {
        let Some((address, on)) = session::over(handle, link) else { return };
        let above = above(&on, &link.name);
        self.found.push(format!(
            "this ssh session uses {address} on {on:?}{above}, whose MTU would change, which interrupts some drivers; set \
             the MTU of {:?} first, or run the command from a console",
            link.name
        ));
    }

    /// Checks that no other process has the interface.
    fn unused(&mut self, handle: &Handle, link: &Link) {
        let holder = InterfaceLock::holder(handle.namespace(), link.index);
        self.unread |= holder.is_err();
        if let Ok(Some(holder)) = holder {
            self.found.push(format!(
                "interface {:?} is used by {holder}; stop it (a node: onbeat protect --undo NAME, or onbeat down NAME), or use another interface",
                link.name
            ));
        }
        for node in run::stopped_nodes_of(handle, &link.name) {
            self.found.push(format!(
                "interface {:?} still has the settings of node {node:?}, which was stopped; start it again with: onbeat run \
                 FILE, or remove it with: onbeat down {node}",
                link.name
            ));
        }
    }
}

/// Describes the interface below the one of a session.
fn above(on: &str, interface: &str) -> String {
    if on == interface { String::new() } else { format!(", above {interface:?}") }
}

fn is_wireless(interface: &str) -> bool {
    Path::new("/sys/class/net").join(interface).join("phy80211").exists()
}
