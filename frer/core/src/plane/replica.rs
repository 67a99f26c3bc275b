//! What leaves: which port, and how the frame looks there.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice;

use onbeat_wire::Frame;
use onbeat_wire::edit::{self, Edit, EditError, Edited, RTagAction, edit_all, edit_head};

use crate::spec::{Egress, PortId, Rewrite, SequenceTag, VlanAction};

/// An egress port of a stream, made ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) port: PortId,
    /// A number that was drawn is written here.
    push: bool,
    edit: Edit,
}

impl Outgoing {
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

/// The ways to leave that streams have in common, so that frames of many find them in the cache.
#[derive(Debug, Default)]
pub(super) struct Splits {
    /// The last ones that were asked for.
    recent: VecDeque<Arc<[Outgoing]>>,
}

impl Splits {
    /// More are not looked for: streams by the thousand leave in a few ways.
    const KNOWN: usize = 32;

    /// The egress ports, lowest first.
    pub(super) fn of(&mut self, egress: &[Egress]) -> Arc<[Outgoing]> {
        let mut outgoing: Vec<_> = egress.iter().map(Outgoing::new).collect();
        outgoing.sort_by_key(|outgoing| outgoing.port);
        if let Some(known) = self.recent.iter().find(|known| ***known == *outgoing) {
            return known.clone();
        }
        let split: Arc<[Outgoing]> = outgoing.into();
        self.recent.truncate(Self::KNOWN - 1);
        self.recent.push_front(split.clone());
        split
    }
}

/// A rewrite as the codecs have it.
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
    egress: slice::Iter<'a, Outgoing>,
    /// The number drawn for the frame.
    drawn: Option<u16>,
}

impl<'a> Replicas<'a> {
    pub(super) fn new(
        frame: Frame<'a>,
        up: Option<&'a Edit>,
        egress: &'a [Outgoing],
        drawn: Option<u16>,
    ) -> Self {
        Self { frame, up, egress: egress.iter(), drawn }
    }
}

impl<'a> Iterator for Replicas<'a> {
    type Item = Replica<'a>;

    #[inline]
    fn next(&mut self) -> Option<Replica<'a>> {
        let Outgoing { port, push, edit } = self.egress.next()?;
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

/// A frame as it leaves by one port.
#[derive(Debug, Clone, Copy)]
pub struct Replica<'a> {
    /// The port.
    pub port: PortId,
    frame: Frame<'a>,
    up: Option<&'a Edit>,
    edit: Edit,
}

impl<'a> Replica<'a> {
    /// The frame, where it leaves as it came.
    pub fn unchanged(&self) -> Option<&'a [u8]> {
        (self.up.is_none() && self.edit == Edit::default()).then(|| self.frame.octets())
    }

    /// Its headers, and what follows them: the end of the frame as it came. It is not padded: the
    /// port that sends it does that.
    ///
    /// # Panics
    /// Never: what cannot be done to a frame is not asked for.
    #[inline]
    pub fn parts(&self) -> Edited<'a> {
        let parts = match (self.unchanged(), self.up) {
            (Some(_), _) => Ok(Edited::unchanged(&self.frame)),
            (None, None) => edit_head(&self.frame, &[&self.edit]),
            (None, Some(up)) => edit_head(&self.frame, &[up, &self.edit]),
        };
        parts.expect("a change that the frame can have")
    }

    /// The longest that it can be.
    pub fn max_len(&self) -> usize {
        self.frame.octets().len() + edit::MAX_GROWTH
    }

    /// Writes it to the start of `out`, of [`Replica::max_len`] octets or more, and tells its
    /// length. It is not padded: the port that sends it does that.
    ///
    /// # Errors
    /// Only where `out` is too short.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, EditError> {
        match self.up {
            None => edit_all(&self.frame, &[&self.edit], out),
            Some(up) => edit_all(&self.frame, &[up, &self.edit], out),
        }
    }
}
