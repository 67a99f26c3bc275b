//! Offloads of a device: reading, setting, undoing.

use super::{
    Ethtool,
    ioctl::{CommandWords, text},
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
    /// Whether it is on.
    pub active: bool,
    /// Whether it is requested; it is off if another feature that it requires is off.
    pub requested: bool,
    /// Whether it can be changed.
    pub changeable: bool,
}

/// The effect of a change of features, and its reverse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Features whose state changed, with the new state: the requested ones, and those that depend on them.
    pub changed: Vec<(String, bool)>,
    /// Arguments of [`Ethtool::set_features`] that restore the former state.
    pub undo: Vec<(String, bool)>,
}

impl Change {
    /// Returns the features to set to restore the former state.
    pub fn undo(&self) -> Vec<(&str, bool)> {
        self.undo.iter().map(|(name, on)| (name.as_str(), *on)).collect()
    }
}

/// Returns whether a name of `ethtool -K` or of the kernel means a feature.
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
    /// Returns the features of the device, in the kernel's order.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn features(&self, interface: &str) -> Result<Vec<Feature>> {
        Ok(self.numbered_features(interface)?.into_iter().map(|(_, feature)| feature).collect())
    }

    /// Returns whether a feature is on; for a group ("tx", "tso"), whether any of its features is on.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`Error::Unsupported`]: unknown feature.
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
    /// All or nothing: if one does not change, those that did are restored. Unchangeable features of a group
    /// are ignored.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`]; [`Error::Unsupported`] for an unknown name; [`Error::Feature`] for a
    /// feature that cannot be set.
    pub fn set_features(&self, interface: &str, wanted: &[(&str, bool)]) -> Result<Change> {
        let before = self.numbered_features(interface)?;
        let mut settings = Vec::new();
        for &(name, on) in wanted {
            let mut known = before.iter().filter(|(_, f)| stands_for(name, &f.name)).peekable();
            if known.peek().is_none() {
                return Err(unknown(name));
            }
            for (number, feature) in known {
                // A feature in the requested state need not be changeable; unchangeable ones of a group stay.
                if feature.changeable {
                    settings.push((*number, feature, on));
                } else if feature.active != on && feature.name == name {
                    return Err(refused(interface, name, on, "the driver does not allow changes"));
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
        // By number: restores the former state independent of the names.
        let former = settings.iter().map(|&(number, feature, _)| (number, feature.requested));
        self.write(interface, former)?;
        Err(refused(
            interface,
            &feature.name,
            on,
            "the driver, or a feature that it depends on, prevents it",
        ))
    }

    /// Returns the features with their numbers: bits of the blocks. Numbers without a name are omitted.
    fn numbered_features(&self, interface: &str) -> Result<Vec<(usize, Feature)>> {
        let names = self.feature_names(interface)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0; 2 + blocks * GET_BLOCK];
        words[0] = ETHTOOL_GFEATURES;
        words[1] = count(blocks);
        let mut request = CommandWords(words);
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
        // struct ethtool_sset_info: command, reserved, 64-bit mask, one count per set bit.
        let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = mask;
        let mask = [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])];
        let mut request = CommandWords(vec![ETHTOOL_GSSET_INFO, 0, mask[0], mask[1], 0]);
        self.call(interface, OPERATION, &mut request)?;
        let number = request.0[4] as usize;
        // struct ethtool_gstrings: command, set, number, then the names.
        let mut words = vec![0; 3 + number * ETH_GSTRING_LEN / 4];
        words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count(number)]);
        let mut request = CommandWords(words);
        self.call(interface, OPERATION, &mut request)?;
        let octets: Vec<u8> = request.0[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(octets.chunks_exact(ETH_GSTRING_LEN).map(text).collect())
    }

    fn write(&self, interface: &str, settings: impl Iterator<Item = (usize, bool)>) -> Result<()> {
        let settings: Vec<_> = settings.collect();
        if settings.is_empty() {
            return Ok(());
        }
        // The kernel requires exactly the number of blocks of all its features.
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
        // A positive result means that some did not change; reading shows which.
        self.call(interface, "set features", &mut CommandWords(words)).map(drop)
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn unknown(name: &str) -> Error {
    Error::Unsupported {
        what: format!("device feature {name:?}"),
        remedy: "unknown to this kernel; `ethtool -k` lists the features".into(),
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
