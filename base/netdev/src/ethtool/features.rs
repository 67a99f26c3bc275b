//! Offloads of a device: show, set, undo.

use super::{
    Ethtool,
    ioctl::{Words, text},
};
use crate::{Error, Result};

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// Octets of one name in a string set.
const ETH_GSTRING_LEN: usize = 32;
/// Words of `struct ethtool_get_features_block`: available, requested, active, never changed.
const GET_BLOCK: usize = 4;
/// Words of `struct ethtool_set_features_block`: valid, requested.
const SET_BLOCK: usize = 2;

/// A feature of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// The kernel's name: "rx-gro", "tx-checksum-ipv4".
    pub name: String,
    /// It is on.
    pub active: bool,
    /// Someone wants it on; it is off where another feature that it needs is off.
    pub requested: bool,
    /// It can be changed.
    pub changeable: bool,
}

/// What a change of features did, and how to undo it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The features that are in another state now, with that state: those asked for, and those
    /// that follow them.
    pub changed: Vec<(String, bool)>,
    /// What to hand to [`Ethtool::set_features`] to have the former state again.
    pub undo: Vec<(String, bool)>,
}

impl Change {
    /// The features to set to be back at the former state.
    pub fn undo(&self) -> Vec<(&str, bool)> {
        self.undo.iter().map(|(name, on)| (name.as_str(), *on)).collect()
    }
}

/// Whether a name, as `ethtool -K` takes it or as the kernel has it, stands for a feature.
fn stands_for(name: &str, feature: &str) -> bool {
    let within =
        |prefix: &str, suffix: &str| feature.starts_with(prefix) && feature.ends_with(suffix);
    match name {
        "gro" => feature == "rx-gro",
        "gso" => feature == "tx-generic-segmentation",
        "tso" => within("tx-tcp", "-segmentation"),
        "lro" => feature == "rx-lro",
        "sg" => within("tx-scatter-gather", ""),
        "rx" => feature == "rx-checksum",
        "tx" => within("tx-checksum-", ""),
        "rxvlan" => feature == "rx-vlan-hw-parse",
        "txvlan" => feature == "tx-vlan-hw-insert",
        "ntuple" => feature == "rx-ntuple-filter",
        "rxhash" => feature == "rx-hashing",
        _ => name == feature,
    }
}

impl Ethtool {
    /// The features of the device, in the kernel's order.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn features(&self, interface: &str) -> Result<Vec<Feature>> {
        Ok(self.numbered_features(interface)?.into_iter().map(|(_, feature)| feature).collect())
    }

    /// Whether a feature is on; of a group ("tx", "tso"), whether any of it is.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; [`Error::Unsupported`] where the kernel knows no such feature.
    pub fn feature(&self, interface: &str, name: &str) -> Result<bool> {
        let features = self.features(interface)?;
        let mut known =
            features.iter().filter(|feature| stands_for(name, &feature.name)).peekable();
        if known.peek().is_none() {
            return Err(unknown(name));
        }
        Ok(known.any(|feature| feature.active))
    }

    /// Turns features on or off: by the kernel's names ("rx-gro", "tx-checksum-ip-generic",
    /// "rx-vlan-hw-parse"), or by the short names of `ethtool -K` ("gro", "gso", "tso", "lro",
    /// "sg", "rx", "tx", "rxvlan", "txvlan", "ntuple", "rxhash"), of which some are groups.
    ///
    /// All or nothing: where one does not take its state, those that did get their former state
    /// back. Of a group, features that cannot change are left alone.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; [`Error::Unsupported`] for a name that the kernel does not know;
    /// [`Error::Feature`] for a feature that cannot take the state.
    pub fn set_features(&self, interface: &str, wanted: &[(&str, bool)]) -> Result<Change> {
        let before = self.numbered_features(interface)?;
        let mut settings = Vec::new();
        for &(name, on) in wanted {
            let mut known = before.iter().filter(|(_, f)| stands_for(name, &f.name)).peekable();
            if known.peek().is_none() {
                return Err(unknown(name));
            }
            for (number, feature) in known {
                // What is as it should be needs no right to change; of a group, fixed ones stay.
                if feature.changeable {
                    settings.push((*number, feature, on));
                } else if feature.active != on && feature.name == name {
                    return Err(refused(interface, name, on, "the driver fixes it"));
                }
            }
        }
        self.write(interface, settings.iter().map(|&(number, _, on)| (number, on)))?;
        let after = self.numbered_features(interface)?;
        let change = Change {
            changed: before
                .iter()
                .zip(&after)
                .filter(|((_, before), (_, after))| before.active != after.active)
                .map(|(_, (_, after))| (after.name.clone(), after.active))
                .collect(),
            undo: settings
                .iter()
                .filter(|(_, feature, on)| feature.requested != *on)
                .map(|(_, feature, _)| (feature.name.clone(), feature.requested))
                .collect(),
        };
        let failed = settings.iter().find(|&&(number, _, on)| {
            after.iter().any(|(other, feature)| *other == number && feature.active != on)
        });
        let Some(&(_, feature, on)) = failed else { return Ok(change) };
        // Numbers rather than names: the former state is set whatever a name stands for.
        let former = settings.iter().map(|&(number, feature, _)| (number, feature.requested));
        self.write(interface, former)?;
        Err(refused(
            interface,
            &feature.name,
            on,
            "the driver, or a feature it depends on, is against it",
        ))
    }

    /// Features with their numbers: bits of the blocks. Numbers without a name are left out.
    fn numbered_features(&self, interface: &str) -> Result<Vec<(usize, Feature)>> {
        let names = self.feature_names(interface)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0; 2 + blocks * GET_BLOCK];
        words[0] = ETHTOOL_GFEATURES;
        words[1] = count(blocks);
        let mut request = Words(words);
        self.call(interface, "read the features", &mut request)?;
        let blocks: Vec<_> = request.0[2..].chunks_exact(GET_BLOCK).collect();
        let features = names.into_iter().enumerate().filter(|(_, name)| !name.is_empty());
        Ok(features
            .map(|(number, name)| {
                let block = blocks[number / 32];
                let bit = |word: usize| block[word] >> (number % 32) & 1 != 0;
                let changeable = bit(0) && !bit(3);
                (number, Feature { name, active: bit(2), requested: bit(1), changeable })
            })
            .collect())
    }

    fn feature_names(&self, interface: &str) -> Result<Vec<String>> {
        const OPERATION: &str = "read the names of features";
        // struct ethtool_sset_info: command, reserved, 64-bit mask, one count for each bit set.
        let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = mask;
        let mask = [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])];
        let mut request = Words(vec![ETHTOOL_GSSET_INFO, 0, mask[0], mask[1], 0]);
        self.call(interface, OPERATION, &mut request)?;
        let number = request.0[4] as usize;
        // struct ethtool_gstrings: command, set, number, then the names.
        let mut words = vec![0; 3 + number * ETH_GSTRING_LEN / 4];
        words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count(number)]);
        let mut request = Words(words);
        self.call(interface, OPERATION, &mut request)?;
        let octets: Vec<u8> = request.0[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(octets.chunks_exact(ETH_GSTRING_LEN).map(text).collect())
    }

    fn write(&self, interface: &str, settings: impl Iterator<Item = (usize, bool)>) -> Result<()> {
        let settings: Vec<_> = settings.collect();
        if settings.is_empty() {
            return Ok(());
        }
        // The kernel takes the number of blocks that all its features fill, and no other.
        let blocks = self.feature_names(interface)?.len().div_ceil(32);
        let mut words = vec![0; 2 + blocks * SET_BLOCK];
        words[0] = ETHTOOL_SFEATURES;
        words[1] = count(blocks);
        for (number, on) in settings {
            let block = 2 + number / 32 * SET_BLOCK;
            let bit = 1_u32 << (number % 32);
            words[block] |= bit;
            words[block + 1] = if on { words[block + 1] | bit } else { words[block + 1] & !bit };
        }
        // A positive result says that some did not take; reading them back says which.
        self.call(interface, "set features", &mut Words(words)).map(drop)
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn unknown(name: &str) -> Error {
    Error::Unsupported {
        what: format!("device feature {name:?}"),
        remedy: "this kernel knows no feature of that name; `ethtool -k` lists those it knows"
            .into(),
    }
}

fn refused(interface: &str, feature: &str, wanted: bool, reason: &str) -> Error {
    Error::Feature {
        interface: interface.to_owned(),
        feature: feature.to_owned(),
        wanted,
        reason: reason.to_owned(),
    }
}
