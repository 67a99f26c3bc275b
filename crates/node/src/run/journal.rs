//! What a node changed on interfaces, so that any later process can give it back: the daemon at its
//! end, or `onbeat down` after the daemon was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use onbeat_netdev::{Ethtool, Handle};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// Changes not yet given back.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Changes {
    /// Veth pairs made, by one end.
    pub(super) created: Vec<String>,
    /// Interfaces set promiscuous.
    pub(super) promiscuous: Vec<String>,
    /// MTU before, by interface.
    pub(super) mtu: BTreeMap<String, u32>,
    /// Offloads before, by interface and name.
    pub(super) features: BTreeMap<String, BTreeMap<String, bool>>,
}

impl Changes {
    /// Whether there is nothing to give back.
    pub(super) fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.promiscuous.is_empty()
            && self.mtu.is_empty()
            && self.features.is_empty()
    }
}

/// The changes, in a file that is written before each change is made.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    pub(super) changes: Changes,
}

impl Journal {
    /// The journal of a node, beside its control socket; with what an earlier daemon left.
    pub(super) fn open(control: &Path) -> Result<Self> {
        let path = control.with_extension("journal.json");
        let changes = match std::fs::read(&path) {
            Ok(octets) => serde_json::from_slice(&octets)
                .map_err(|error| Error::Journal { path: path.clone(), source: error.into() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Changes::default(),
            Err(source) => return Err(Error::Journal { path, source }),
        };
        Ok(Self { path, changes })
    }

    /// Writes the journal; a crash leaves the old one or the new one.
    pub(super) fn save(&self) -> Result<()> {
        let save = || {
            if let Some(directory) = self.path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let new = self.path.with_extension("new");
            std::fs::write(&new, serde_json::to_vec_pretty(&self.changes)?)?;
            std::fs::rename(&new, &self.path)
        };
        save().map_err(|source| Error::Journal { path: self.path.clone(), source })
    }

    /// Interfaces that something was changed on.
    pub(super) fn interfaces(&self) -> BTreeSet<String> {
        let Changes { created, promiscuous, mtu, features } = &self.changes;
        let named = created.iter().chain(promiscuous).chain(mtu.keys()).chain(features.keys());
        named.cloned().collect()
    }

    /// Gives back what was changed on one interface.
    pub(super) fn restore(&mut self, handle: &Handle, ethtool: &Ethtool, interface: &str) {
        let give_back = |what: &str, done: onbeat_netdev::Result<()>| match done {
            Err(error) if !error.is_not_found() => {
                tracing::warn!("{interface}: {what} not given back: {error}");
            }
            _ => {}
        };
        if let Some(features) = self.changes.features.remove(interface) {
            let features: Vec<_> = features.iter().map(|(name, on)| (name.as_str(), *on)).collect();
            give_back("offloads", ethtool.set_features(interface, &features).map(drop));
        }
        if let Some(mtu) = self.changes.mtu.remove(interface) {
            give_back("MTU", handle.set_mtu(interface, mtu));
        }
        if take(&mut self.changes.promiscuous, interface) {
            give_back("promiscuous mode", handle.set_promiscuous(interface, false));
        }
        if take(&mut self.changes.created, interface) {
            give_back("interface made by the node", handle.delete(interface));
        }
    }

    /// Gives everything back, and forgets it.
    pub(super) fn restore_all(mut self, handle: &Handle, ethtool: &Ethtool) -> Result<()> {
        for interface in self.interfaces() {
            self.restore(handle, ethtool, &interface);
        }
        match std::fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Journal { path: self.path, source })
            }
            _ => Ok(()),
        }
    }
}

fn take(list: &mut Vec<String>, item: &str) -> bool {
    let before = list.len();
    list.retain(|entry| entry != item);
    list.len() != before
}
