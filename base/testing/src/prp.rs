//! The cases of `vectors/prp.toml`, whose header defines them.

use onbeat_wire::MacAddress;
use onbeat_wire::prp::supervision::{DESTINATION, MAX_LEN, NodeKind, Repr as Supervision};
use onbeat_wire::prp::{Lan, Repr};
use serde::Deserialize;

use crate::vectors::{self, octets};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Tails that a sender appends.
    pub tail: Vec<TailCase>,
    /// Frames that a receiver gets.
    pub received: Vec<ReceivedCase>,
    /// Supervision frames.
    pub supervision: Vec<SupervisionCase>,
}

impl File {
    /// Reads the file.
    ///
    /// # Panics
    /// It does not exist, or has another form.
    #[must_use]
    pub fn read() -> Self {
        vectors::read("prp.toml")
    }
}

/// A frame to send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailCase {
    /// Unique in the file.
    pub number: u32,
    /// Its subject.
    pub name: String,
    head: String,
    /// Octets of the frame, without tail.
    pub frame_len: usize,
    /// Octets before the LSDU.
    pub lsdu_offset: usize,
    /// The sequence number.
    pub sequence: u16,
    lan: String,
    tail: Option<String>,
}

impl TailCase {
    /// Returns the frame without its tail.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = octets(&self.head);
        frame.resize(self.frame_len, 0x55);
        frame
    }

    /// Returns the network.
    #[must_use]
    pub fn lan(&self) -> Lan {
        lan(&self.lan)
    }

    /// Returns the expected tail; `None`: the frame is refused.
    #[must_use]
    pub fn tail(&self) -> Option<Vec<u8>> {
        self.tail.as_deref().map(octets)
    }
}

/// A received frame.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivedCase {
    /// Unique in the file.
    pub number: u32,
    /// Its subject.
    pub name: String,
    octets: String,
    sequence: Option<u16>,
    lan: Option<String>,
    lsdu_size: Option<u16>,
    /// Octets of the frame without its trailer.
    pub stripped: Option<usize>,
    error: Option<String>,
}

impl ReceivedCase {
    /// Returns the frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        octets(&self.octets)
    }

    /// Returns the expected trailer, or the name of the reason why there is none.
    ///
    /// # Panics
    /// The case has neither a trailer nor a reason.
    pub fn expected(&self) -> Result<Repr, &str> {
        match (self.sequence, &self.lan, self.lsdu_size, &self.error) {
            (Some(sequence), Some(id), Some(lsdu_size), None) => {
                Ok(Repr { sequence, lan: lan(id), lsdu_size })
            }
            (None, None, None, Some(error)) => Err(error),
            _ => panic!("case {}: either a trailer or an error", self.number),
        }
    }
}

/// The octets after EtherType 0x88FB.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisionCase {
    /// Unique in the file.
    pub number: u32,
    /// Its subject.
    pub name: String,
    octets: String,
    path: Option<u8>,
    version: Option<u16>,
    sequence: Option<u16>,
    kind: Option<String>,
    node: Option<String>,
    redbox: Option<String>,
    emits: Option<String>,
    error: Option<String>,
    /// The receiver counts the frame as one of another version.
    #[serde(default)]
    pub other_version: bool,
}

impl SupervisionCase {
    /// Returns the octets.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        octets(&self.octets)
    }

    /// Returns the expected fields, or the name of the reason why there are none.
    ///
    /// # Panics
    /// The case has neither all fields nor a reason.
    pub fn expected(&self) -> Result<Supervision, &str> {
        if let Some(error) = &self.error {
            return Err(error);
        }
        let fields = || {
            Some(Supervision {
                path: self.path?,
                version: self.version?,
                sequence: self.sequence?,
                kind: kind(self.kind.as_deref()?),
                node: mac(self.node.as_deref()?),
                redbox: self.redbox.as_deref().map(mac),
            })
        };
        Ok(fields().unwrap_or_else(|| panic!("case {}: either fields or an error", self.number)))
    }

    /// Returns the octets that the expected fields emit.
    #[must_use]
    pub fn emits(&self, len: usize) -> Vec<u8> {
        match &self.emits {
            Some(emits) => octets(emits),
            None => self.octets().into_iter().take(len).collect(),
        }
    }
}

fn lan(id: &str) -> Lan {
    match id {
        "A" => Lan::A,
        "B" => Lan::B,
        other => panic!("LAN {other:?}"),
    }
}

fn kind(name: &str) -> NodeKind {
    [NodeKind::DuplicateDiscard, NodeKind::DuplicateAccept, NodeKind::Hsr]
        .into_iter()
        .find(|kind| kind.to_string() == name)
        .unwrap_or_else(|| panic!("kind {name:?}"))
}

fn mac(text: &str) -> MacAddress {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Returns a supervision frame that `source` sends for `node`, without a trailer.
#[must_use]
pub fn supervision_of(source: MacAddress, node: MacAddress, redbox: Option<MacAddress>) -> Vec<u8> {
    let kind = NodeKind::DuplicateDiscard;
    let content = Supervision { path: 0, version: 1, sequence: 0, kind, node, redbox };
    let mut octets = [0; MAX_LEN];
    let len = content.emit(&mut octets).expect("the buffer has room");
    [&DESTINATION.0[..], &source.0, &[0x88, 0xfb], &octets[..len]].concat()
}
