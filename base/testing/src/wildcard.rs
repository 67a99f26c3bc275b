//! The cases of `vectors/wildcard.toml`, whose header defines them.

use serde::Deserialize;

use crate::vectors::{self, octets};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its cases.
    pub case: Vec<Case>,
}

impl File {
    /// Reads the file.
    ///
    /// # Panics
    /// It does not exist, or has another form.
    #[must_use]
    pub fn read() -> Self {
        vectors::read("wildcard.toml")
    }
}

/// Frames at the ports of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in the file.
    pub number: u32,
    /// Its subject.
    pub name: String,
    /// The wildcards of the node.
    pub wildcards: Vec<Scope>,
    /// The frames, in order.
    pub step: Vec<Step>,
}

/// The frames of a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Scope {
    /// Those of a VLAN.
    Vlan(u16),
    /// "all".
    All(String),
}

/// A frame that arrives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// "host", "a" or "b".
    pub port: String,
    /// Milliseconds after the end of the silence.
    pub at_ms: u64,
    frame: String,
    sent: Option<Vec<(String, String)>>,
}

impl Step {
    /// Returns the frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        octets(&self.frame)
    }

    /// Returns ports and frames that the node sends; `None`: the frame is in no wildcard.
    #[must_use]
    pub fn sent(&self) -> Option<Vec<(&str, Vec<u8>)>> {
        let sent = self.sent.as_ref()?;
        Some(sent.iter().map(|(port, frame)| (port.as_str(), octets(frame))).collect())
    }
}
