//! Handles of streams: YANG has no names.

use onbeat_frer::spec::{Egress, Identification, Rewrite, Stream};

/// The handles of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHandles {
    /// Of its members.
    pub members: Vec<u32>,
    /// Of its egress entries; `None`: frames keep the handles of the members there.
    pub egress: Vec<Option<u32>>,
}

impl StreamHandles {
    /// The handles of frames at an egress entry.
    pub(crate) fn at_egress(&self, number: usize) -> Vec<u32> {
        self.egress[number].map_or_else(|| self.members.clone(), |own| vec![own])
    }
}

/// Returns the handles of streams: consecutive numbers from 1, in the order of the streams.
pub fn handles<'s>(
    streams: impl IntoIterator<Item = &'s Stream>,
) -> impl Iterator<Item = StreamHandles> {
    let mut last = 0;
    streams.into_iter().map(move |stream| {
        let mut next = || {
            last += 1;
            last
        };
        let members = stream.members.iter().map(|_| next()).collect();
        let egress = stream.egress.iter().map(|egress| has_own(stream, egress).then(&mut next));
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
