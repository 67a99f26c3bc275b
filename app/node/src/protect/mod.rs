//! A redundant interface in one command: the configuration of a node, with PRP or R-TAGs, from the names of interfaces, and
//! its start.

mod obstacle;
mod process;
mod session;

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use onbeat_host::{PrivateDirectory, RUN, replace};
use onbeat_netdev::{Handle, Link};
use onbeat_realtime::interrupt::Guard;

use crate::config::{Backend, Config, TRAILER, is_name, name_rule};
use crate::control::NodeTables;
use crate::run;
use obstacle::Obstacles;
pub use obstacle::ProtectError;
pub use process::StartedNode;

/// Directory of saved configurations, as of `onbeat@.service`.
const SAVED: &str = "/etc/onbeat";

/// The first line of a file that this command wrote, and may remove.
const MARK: &str = "# Written by onbeat protect";

/// MTU of Ethernet.
const ETHERNET_MTU: u32 = 1500;

/// The format of redundant frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The trailer of PRP (IEC 62439-3).
    #[default]
    Prp,
    /// The R-TAG of 802.1CB: both ends run onbeat.
    RTag,
}

impl Format {
    /// Returns the term for one of both networks.
    fn network(self) -> &'static str {
        match self {
            Self::Prp => "LAN",
            Self::RTag => "path",
        }
    }
}

/// A redundant interface, or a redundancy box for the stations behind an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// The format of its frames.
    pub format: Format,
    /// Name of the node; without `protected`, that of the interface to create.
    pub name: String,
    /// The interfaces of LAN A and LAN B.
    pub lans: [String; 2],
    /// The interface of the stations to protect.
    pub protected: Option<String>,
    /// MTU of the interface to create.
    pub mtu: Option<u32>,
    /// The data plane; `None`: XDP if all drivers support it, else packet sockets.
    pub backend: Option<Backend>,
}

/// Whether a configuration outlives a restart of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the next restart.
    Boot,
    /// It is saved, and its service is enabled.
    Permanent,
}

impl Lifetime {
    fn directory(self) -> &'static Path {
        Path::new(match self {
            Self::Boot => RUN,
            Self::Permanent => SAVED,
        })
    }
}

/// A checked protection: its configuration, and its changes of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    name: String,
    /// The configuration file.
    pub text: String,
    /// The changes, one per line, and what could not be checked.
    pub changes: Vec<String>,
}

impl Protection {
    /// Checks the interfaces of this host, and plans the changes.
    ///
    /// # Errors
    /// All obstacles, each with its remedy.
    pub fn plan(&self) -> Result<Plan, ProtectError> {
        if !is_name(&self.name) {
            let rule = name_rule();
            return Err(ProtectError::Name { name: self.name.clone(), rule });
        }
        let handle = Handle::open().map_err(run::Error::from)?;
        process::refuse_running(&self.name, &handle)?;
        process::refuse_stopped(&self.name, &handle)?;
        let mut obstacles = Obstacles::default();
        let links = self.lans.each_ref().map(|name| obstacles.lan(&handle, name));
        let protected = self.protected.as_ref().map(|name| obstacles.link(&handle, name));
        let protected = protected.flatten();
        match &protected {
            Some(link) if self.format == Format::Prp => obstacles.long_frames(link),
            _ => {}
        }
        if self.protected.is_none() {
            obstacles.new_interface(&handle, &self.name);
            if self.mtu.is_none() {
                links.iter().flatten().for_each(|link| obstacles.tiny_frames(link));
            }
        }
        obstacles.distinct(&links, protected.as_ref());
        let needed = match &protected {
            Some(link) => Some(link.mtu + TRAILER),
            None => self.mtu.map(|mtu| mtu + TRAILER),
        };
        let raised = |link: &Link| needed.filter(|needed| link.mtu < *needed);
        for link in links.iter().flatten().filter(|link| raised(link).is_some()) {
            obstacles.session(&handle, link);
        }
        let unchecked = obstacles.unchecked();
        obstacles.into_result()?;
        let [Some(a), Some(b)] = &links else { unreachable!("a missing one is an obstacle") };
        let interfaces = self.lans.iter().chain(&self.protected).map(String::as_str);
        let is_prp = self.format == Format::Prp;
        let backend =
            self.backend.map_or_else(|| run::redundancy_backend(interfaces, is_prp), Ok)?;
        let text = self.text(backend, [raised(a), raised(b)]);
        Config::parse(&text, &self.name).map_err(run::Error::from)?;
        let mut changes = self.changes(&handle, [a, b], raised, protected.as_ref());
        changes.extend(unchecked.map(str::to_owned));
        Ok(Plan { name: self.name.clone(), text, changes })
    }

    /// Returns the configuration file, with MTUs to set on the LANs.
    fn text(&self, backend: Backend, mtus: [Option<u32>; 2]) -> String {
        let protocol = match self.format {
            Format::Prp => "protocol = \"prp\"\n",
            Format::RTag => "",
        };
        let name = &self.name;
        let mut text =
            format!("{MARK}\n\n[node]\nname = \"{name}\"\n{protocol}backend = \"{backend}\"\n");
        let mtu = |mtu: Option<u32>| mtu.map(|mtu| format!("mtu = {mtu}\n")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = match &self.protected {
            Some(interface) => write!(
                text,
                "\n[[port]]\nname = \"stations\"\ninterface = \"{interface}\"\npromiscuous = \"yes\"\n"
            ),
            None => write!(
                text,
                "\n[[port]]\nname = \"host\"\ninterface = \"{}\"\ncreate = \"veth\"\n{}",
                self.name,
                mtu(self.mtu)
            ),
        };
        for ((interface, lan), to_set) in self.lans.iter().zip(["a", "b"]).zip(mtus) {
            let of_lan = match self.format {
                Format::Prp => format!("lan = \"{lan}\"\n"),
                Format::RTag => String::new(),
            };
            let _ = write!(
                text,
                "\n[[port]]\nname = \"{lan}\"\ninterface = \"{interface}\"\n{of_lan}{}",
                mtu(to_set)
            );
        }
        if self.format == Format::RTag {
            let host = if self.protected.is_some() { "stations" } else { "host" };
            let _ = write!(
                text,
                "\n[[stream]]\nname = \"all\"\ngenerate = true\n\
                 member = [{{ port = \"{host}\", identify = {{ type = \"all\" }} }}]\n\
                 egress = [{{ port = \"a\", tag = \"r-tag\" }}, {{ port = \"b\", tag = \"r-tag\" }}]\n"
            );
        }
        text
    }

    fn changes(
        &self,
        handle: &Handle,
        links: [&Link; 2],
        raised: impl Fn(&Link) -> Option<u32>,
        protected: Option<&Link>,
    ) -> Vec<String> {
        let mut changes = Vec::new();
        match protected {
            Some(link) => changes.push(format!(
                "{}: its stations are protected; promiscuous, received frames are not merged",
                link.name
            )),
            None => {
                let most = match self.format {
                    Format::Prp => run::MAX_PRP_MTU,
                    Format::RTag => u32::MAX,
                };
                let narrow = links[0].mtu.min(links[1].mtu).saturating_sub(TRAILER);
                let mtu = self.mtu.unwrap_or(narrow.min(most));
                let mut line = format!("{}: created, with MTU {mtu}", self.name);
                if self.mtu.is_none() && mtu < ETHERNET_MTU {
                    let _ = write!(
                        line,
                        " (the {} has {TRAILER} octets; --mtu {ETHERNET_MTU} sets that of the {}s to {}, which all \
                         switches must support)",
                        match self.format {
                            Format::Prp => "trailer",
                            Format::RTag => "R-TAG",
                        },
                        self.format.network(),
                        ETHERNET_MTU + TRAILER
                    );
                }
                changes.push(line);
            }
        }
        for (link, lan) in links.into_iter().zip(["A", "B"]) {
            let mut line = format!("{}: {} {lan}; promiscuous", link.name, self.format.network());
            if self.format == Format::Prp {
                line += ", received frames are not merged (GRO, LRO)";
                if handle.arp_ignore(&link.name).is_ok_and(|level| level == 0) {
                    line += ", answers ARP requests for its own addresses only (arp_ignore)";
                }
            }
            if !link.up {
                line += ", set up";
            }
            if let Some(mtu) = raised(link) {
                let _ = write!(line, ", MTU {mtu} instead of {}", link.mtu);
            }
            changes.push(line);
        }
        changes
    }
}

impl Plan {
    /// Writes the configuration and starts its node; waits until it runs.
    ///
    /// # Errors
    /// The node runs already, or cannot start; the file cannot be written.
    pub fn start(&self, lifetime: Lifetime) -> Result<StartedNode, ProtectError> {
        let handle = Handle::open().map_err(run::Error::from)?;
        let _alone = process::lock(&self.name)?;
        process::refuse_running(&self.name, &handle)?;
        // A signal ends the wait, and the node is removed.
        let _signals = Guard::install();
        let (file, existed) = self.write(lifetime)?;
        let started = process::start(&self.name, &file, lifetime);
        if started.is_err() {
            // The cause is that of the start.
            if let Err(error) = self.remove_failed(lifetime, existed) {
                tracing::warn!("{error}");
            }
        }
        started
    }

    /// Restores the host after a failed start.
    fn remove_failed(&self, lifetime: Lifetime, file_existed: bool) -> Result<(), ProtectError> {
        if lifetime == Lifetime::Permanent && !file_existed {
            process::disable(&self.name)?;
        }
        let removal = match run::down(&self.name, false) {
            Err(run::Error::UnknownNode { .. }) => Ok(run::Removal::Complete),
            removal => removal,
        };
        // With settings left, the file and the log serve the next attempt.
        if !matches!(removal, Ok(run::Removal::SettingsLeft | run::Removal::DataPlaneLeft)) {
            if !file_existed {
                remove_file(lifetime, &self.name)?;
            }
            remove_log(&self.name)?;
        }
        Ok(removal.map(drop)?)
    }

    /// Writes the file; returns whether it existed with the same content.
    fn write(&self, lifetime: Lifetime) -> Result<(PathBuf, bool), ProtectError> {
        let directory = PrivateDirectory::create(lifetime.directory()).map_err(run::Error::from)?;
        let name = file_name(&self.name);
        let path = directory.file(&name);
        if directory.stat(&name).map_err(run::Error::from)?.is_some() {
            let text = onbeat_host::file::read_text(&path, crate::config::LONGEST);
            if text.ok().as_deref() != Some(&self.text) {
                let remedy = if is_marked(lifetime, &name)? {
                    format!("remove its node first with: onbeat protect --undo {}", self.name)
                } else {
                    "move the file".to_owned()
                };
                return Err(ProtectError::ForeignFile { path, remedy });
            }
            return Ok((path, true));
        }
        replace(directory.as_fd(), name.as_ref(), self.text.as_bytes())
            .map_err(|source| ProtectError::Write { path: path.clone(), source })?;
        Ok((path, false))
    }
}

/// Removes a redundant interface: stops its node, restores the host, and removes its file.
///
/// # Errors
/// There is none of this name; the node cannot be removed.
pub fn undo(name: &str) -> Result<run::Removal, ProtectError> {
    if !is_name(name) {
        return Err(ProtectError::Name { name: name.to_owned(), rule: name_rule() });
    }
    let _alone = process::lock(name)?;
    refuse_own_session(name)?;
    if is_marked(Lifetime::Permanent, &file_name(name))? {
        process::disable(name)?;
    }
    if !names()?.iter().any(|known| known == name) {
        return Err(ProtectError::Unknown { name: name.to_owned() });
    }
    let removal = match run::down(name, false) {
        // Its daemon was stopped, and the host restored, by another command.
        Err(run::Error::UnknownNode { .. }) => run::Removal::Complete,
        removal => removal?,
    };
    // What is left is removed by the next attempt, which knows the node by its file.
    if removal == run::Removal::Complete {
        remove_log(name)?;
        for lifetime in [Lifetime::Boot, Lifetime::Permanent] {
            remove_file(lifetime, name)?;
        }
    }
    Ok(removal)
}

/// Refuses to remove a node that created the interface of this command's session, or changed the MTU of its interface.
///
/// # Errors
/// [`ProtectError::Session`].
pub fn refuse_own_session(name: &str) -> Result<(), ProtectError> {
    let handle = Handle::open().map_err(run::Error::from)?;
    if !process::is_here(name, &handle) {
        return Ok(());
    }
    let (created, resized) = run::interfaces_to_restore(name);
    for (names, change) in [
        (created, "would be removed"),
        (resized, "would get its former MTU, which interrupts some drivers"),
    ] {
        for interface in names {
            let Ok(link) = handle.link(&interface) else { continue };
            if let Some((address, on)) = session::over(&handle, &link) {
                return Err(ProtectError::Session { address, on, interface, change });
            }
        }
    }
    Ok(())
}

/// Returns the names of nodes that this command started or saved.
///
/// # Errors
/// Another user can write to the directory of the files.
pub fn names() -> Result<Vec<String>, ProtectError> {
    let mut names = Vec::new();
    for lifetime in [Lifetime::Boot, Lifetime::Permanent] {
        let directory = PrivateDirectory::open(lifetime.directory()).map_err(run::Error::from)?;
        let Some(directory) = directory else { continue };
        for file in directory.names().map_err(run::Error::from)? {
            let Some(stem) = file.strip_suffix(".toml") else { continue };
            if is_name(stem) && is_marked(lifetime, &file)? {
                names.push(stem.to_owned());
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns the names of nodes whose interfaces are in the network namespace of this process.
///
/// # Errors
/// Those of [`names`].
pub fn names_here() -> Result<Vec<String>, ProtectError> {
    let handle = Handle::open().map_err(run::Error::from)?;
    Ok(names()?.into_iter().filter(|name| process::is_here(name, &handle)).collect())
}

/// Removes the file of a node if this command wrote it.
fn remove_file(lifetime: Lifetime, name: &str) -> Result<(), ProtectError> {
    let name = file_name(name);
    if !is_marked(lifetime, &name)? {
        return Ok(());
    }
    let directory = PrivateDirectory::open(lifetime.directory()).map_err(run::Error::from)?;
    let removed = directory.map_or(Ok(()), |directory| directory.remove(&name));
    Ok(removed.map_err(run::Error::from)?)
}

/// Removes the log of a node, if there is one.
fn remove_log(name: &str) -> Result<(), ProtectError> {
    let directory = PrivateDirectory::open(Path::new(RUN)).map_err(run::Error::from)?;
    let log = process::log_name(name);
    match directory {
        Some(directory) if directory.stat(&log).map_err(run::Error::from)?.is_some() => {
            Ok(directory.remove(&log).map_err(run::Error::from)?)
        }
        _ => Ok(()),
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.toml")
}

/// Whether a file was written by this command. A file that is no configuration was not.
fn is_marked(lifetime: Lifetime, file: &str) -> Result<bool, ProtectError> {
    let directory = PrivateDirectory::open(lifetime.directory()).map_err(run::Error::from)?;
    let Some(directory) = directory else { return Ok(false) };
    let text = directory.read_text(file, crate::config::LONGEST).ok().flatten();
    Ok(text.is_some_and(|text| text.lines().next() == Some(MARK)))
}

/// Summary of a started node, with the next steps.
#[must_use]
pub fn summary(protection: &Protection, tables: &NodeTables) -> String {
    let Protection { name, lans: [a, b], protected, format, .. } = protection;
    let mac = match tables {
        NodeTables::Prp(status) => Some(&status.mac),
        NodeTables::Wildcards(tables) => tables.wildcards.first().map(|wildcard| &wildcard.mac),
    };
    let mac = mac.map_or("", String::as_str);
    let network = format.network();
    let subject = protected.as_ref().map_or_else(
        || format!("{name} ({mac}) sends"),
        |interface| format!("node {name:?} sends for the stations behind {interface}"),
    );
    let next = match protected {
        Some(_) => String::new(),
        None => format!("next: ip address add ADDRESS/PREFIX dev {name}\n"),
    };
    format!(
        "{subject} over {a} ({network} A) and {b} ({network} B)\n{next}nodes: onbeat show {name} --nodes\nremove: onbeat protect --undo {name}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection() -> Protection {
        let lans = ["eth1", "eth2"].map(str::to_owned);
        Protection {
            format: Format::Prp,
            name: "red0".into(),
            lans,
            protected: None,
            mtu: None,
            backend: None,
        }
    }

    #[test]
    fn with_r_tags_the_configuration_is_a_wildcard() {
        for protected in [None, Some("eth3".to_owned())] {
            let host = protected.clone().unwrap_or_else(|| "red0".into());
            let protection = Protection { format: Format::RTag, protected, ..protection() };
            let text = protection.text(Backend::Packet, [Some(1506), None]);
            let config = Config::parse(&text, "red0.toml").unwrap();
            let [wildcard] = &config.wildcards[..] else { panic!("{text}") };
            assert_eq!((wildcard.scope.name(), config.prp.is_none()), ("all", true));
            let interface = |port| config.port(port).interface.as_str();
            let link = &wildcard.link;
            assert_eq!(
                [interface(link.host), interface(link.a), interface(link.b)],
                [&host, "eth1", "eth2"]
            );
            assert_eq!((config.port(link.a).mtu, config.port(link.b).mtu), (Some(1506), None));
        }
    }

    #[test]
    fn the_configuration_is_a_prp_node() {
        let text = protection().text(Backend::Packet, [None, None]);
        let config = Config::parse(&text, "red0.toml").unwrap();
        let prp = config.prp.as_ref().unwrap();
        assert_eq!(config.node.name, "red0");
        assert_eq!(config.port(prp.a).interface, "eth1");
        assert_eq!(config.port(prp.b).interface, "eth2");
        assert_eq!(config.port(prp.host).interface, "red0");
        assert!(config.port(prp.host).create.is_some());
    }

    #[test]
    fn a_redundancy_box_protects_an_interface_and_widens_the_lans() {
        let protection = Protection { protected: Some("eth3".into()), ..protection() };
        let text = protection.text(Backend::Packet, [Some(1506), None]);
        let config = Config::parse(&text, "red0.toml").unwrap();
        let prp = config.prp.as_ref().unwrap();
        assert_eq!(config.port(prp.host).interface, "eth3");
        assert_eq!((config.port(prp.a).mtu, config.port(prp.b).mtu), (Some(1506), None));
        assert!(config.port(prp.host).create.is_none());
    }
}
