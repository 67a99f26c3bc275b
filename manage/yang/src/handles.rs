//! Handles of streams: YANG has no names.

use std::collections::{HashMap, HashSet};

use onbeat_frer::spec::{Egress, Identification, Rewrite, Stream};

use crate::STREAM_IDENTIFICATION;

/// Highest handle: each sequence recovery has an index of twice a handle, of 32 bits.
pub const MAX_HANDLE: u32 = i32::MAX as u32;

/// Handles that streams keep, by name of the stream.
pub type KeptHandles = HashMap<String, StreamHandles>;

/// The handles of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamHandles {
    /// Of its members.
    pub members: Vec<u32>,
    /// Of its egress entries; `None`: frames keep the handles of the members there.
    pub egress: Vec<Option<u32>>,
}

impl StreamHandles {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.members.iter().copied().chain(self.egress.iter().flatten().copied())
    }

    /// The handles of frames at an egress entry.
    pub(crate) fn at_egress(&self, number: usize) -> Vec<u32> {
        self.egress[number].map_or_else(|| self.members.clone(), |own| vec![own])
    }
}

/// Returns the handles of streams: those that they keep, and else the lowest free numbers from 1, in the order of the
/// streams.
pub fn handles<'s>(
    streams: impl IntoIterator<Item = &'s Stream>,
    kept: &'s KeptHandles,
) -> impl Iterator<Item = StreamHandles> {
    let used: HashSet<u32> = kept.values().flat_map(StreamHandles::iter).collect();
    let mut free = (1..).filter(move |handle| !used.contains(handle));
    let mut next = move || free.next().unwrap_or(MAX_HANDLE);
    streams.into_iter().map(move |stream| {
        let kept = kept.get(&stream.name);
        let member = |number| kept.and_then(|kept| kept.members.get(number).copied());
        let members =
            (0..stream.members.len()).map(|number| member(number).unwrap_or_else(&mut next));
        let members = members.collect();
        let egress = stream.egress.iter().enumerate().map(|(number, egress)| {
            let own = || kept.and_then(|kept| kept.egress.get(number).copied().flatten());
            has_own(stream, egress).then(|| own().unwrap_or_else(&mut next))
        });
        StreamHandles { members, egress: egress.collect() }
    })
}

/// Whether an egress entry has a handle of its own: it edits frames, or the entries of the members cannot name its port
/// as output. Those of active identification would edit frames there; on a port of the stream's input, one entry of
/// sequence identification is for both directions.
fn has_own(stream: &Stream, egress: &Egress) -> bool {
    egress.rewrite != Rewrite::default()
        || stream.members.iter().any(|member| {
            member.port == egress.port
                || matches!(member.identification, Identification::ActiveDestination { .. })
        })
}

/// Path of the entry of a handle in the Stream identity table.
pub fn identity_path(handle: u32) -> String {
    format!("/{STREAM_IDENTIFICATION}:stream-identity[index='{handle}']")
}
