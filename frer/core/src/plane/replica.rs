//! Replicas of a frame: the port and the edits of each.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice;

use onbeat_wire::Frame;
use onbeat_wire::edit::{self, Edit, EditError, EditedFrame, RTagAction, edit_all, edit_head};

use crate::spec::{Egress, PortId, Rewrite, SequenceTag, VlanAction};

/// An egress port of a stream, prepared for forwarding.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PreparedEgress {
    pub(super) port: PortId,
    /// Whether to insert a drawn number.
    push: bool,
    edit: Edit,
}

impl PreparedEgress {
    pub(super) fn new(egress: &Egress) -> Self {
        let rtag = match egress.tag {
            SequenceTag::Remove => RTagAction::Remove,
            SequenceTag::RTag | SequenceTag::Keep => RTagAction::Keep,
        };
        Self {
            port: egress.port,
            push: egress.tag == SequenceTag::RTag,
            edit: Edit { rtag, ..rewrite(&egress.rewrite) },
        }
    }
}

/// Egress sets shared by streams, so that frames of many streams use the same cache lines.
#[derive(Debug, Default)]
pub(super) struct Splits {
    /// The most recently used sets.
    recent: VecDeque<Arc<[PreparedEgress]>>,
}

impl Splits {
    /// Maximum number of sets to compare: thousands of streams use few sets.
    const KNOWN: usize = 32;

    /// Returns the egress ports, lowest first.
    pub(super) fn of(&mut self, egress: &[Egress]) -> Arc<[PreparedEgress]> {
        let mut outgoing: Vec<_> = egress.iter().map(PreparedEgress::new).collect();
        outgoing.sort_by_key(|outgoing| outgoing.port);
        if let Some(known) = self.recent.iter().find(|known| ***known == *outgoing) {
            return known.clone();
        }
        let split: Arc<[PreparedEgress]> = outgoing.into();
        self.recent.truncate(Self::KNOWN - 1);
        self.recent.push_front(split.clone());
        split
    }
}

/// Converts a rewrite to the form of the codecs.
pub(super) fn rewrite(rewrite: &Rewrite) -> Edit {
    Edit {
        destination: rewrite.destination,
        vlan: match rewrite.vlan {
            VlanAction::Keep => edit::VlanAction::Keep,
            VlanAction::Set(vid) => edit::VlanAction::Set(vid),
            VlanAction::Remove => edit::VlanAction::Remove,
        },
        priority: rewrite.priority,
        rtag: RTagAction::Keep,
    }
}

/// The replicas of a frame, lowest port first.
#[derive(Debug, Clone)]
pub struct Replicas<'a> {
    frame: Frame<'a>,
    up: Option<&'a Edit>,
    egress: slice::Iter<'a, PreparedEgress>,
    /// The number drawn for the frame.
    drawn: Option<u16>,
}

impl<'a> Replicas<'a> {
    pub(super) fn new(
        frame: Frame<'a>,
        up: Option<&'a Edit>,
        egress: &'a [PreparedEgress],
        drawn: Option<u16>,
    ) -> Self {
        Self { frame, up, egress: egress.iter(), drawn }
    }
}

impl<'a> Iterator for Replicas<'a> {
    type Item = Replica<'a>;

    #[inline]
    fn next(&mut self) -> Option<Replica<'a>> {
        let PreparedEgress { port, push, edit } = self.egress.next()?;
        let edit = match self.drawn {
            Some(number) if *push => Edit { rtag: RTagAction::Push(number), ..*edit },
            _ => *edit,
        };
        Some(Replica { port: *port, frame: self.frame, up: self.up, edit })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.egress.size_hint()
    }
}

impl ExactSizeIterator for Replicas<'_> {}

/// A frame as sent by one port.
#[derive(Debug, Clone, Copy)]
pub struct Replica<'a> {
    /// The port.
    pub port: PortId,
    frame: Frame<'a>,
    up: Option<&'a Edit>,
    edit: Edit,
}

impl<'a> Replica<'a> {
    /// Returns the frame if it leaves as received.
    pub fn unchanged(&self) -> Option<&'a [u8]> {
        (self.up.is_none() && self.edit == Edit::default()).then(|| self.frame.octets())
    }

    /// Returns the headers, and the octets after them: the end of the received frame. The frame is not
    /// padded: the sending port does that.
    ///
    /// # Panics
    /// Never: only edits that are possible for the frame are requested.
    #[inline]
    pub fn parts(&self) -> EditedFrame<'a> {
        let parts = match (self.unchanged(), self.up) {
            (Some(_), _) => Ok(EditedFrame::unchanged(&self.frame)),
            (None, None) => edit_head(&self.frame, &[&self.edit]),
            (None, Some(up)) => edit_head(&self.frame, &[up, &self.edit]),
        };
        parts.expect("an edit that is possible for the frame")
    }

    /// Returns the maximum length.
    pub fn max_len(&self) -> usize {
        self.frame.octets().len() + edit::MAX_GROWTH
    }

    /// Writes the frame to the start of `out`, which has at least [`Replica::max_len`] octets; returns its
    /// length. The frame is not padded: the sending port does that.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, EditError> {
        match self.up {
            None => edit_all(&self.frame, &[&self.edit], out),
            Some(up) => edit_all(&self.frame, &[up, &self.edit], out),
        }
    }
}
