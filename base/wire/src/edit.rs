//! Edits of a frame by a data plane: destination, outer VLAN tag, R-TAG.

use core::fmt;

use crate::bytes::Writer;
use crate::frame::MAX_VLANS;
use crate::{EmitError, Frame, MacAddress, SequenceTag, VlanTag, rtag, vlan};

/// Handling of the outer VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VlanAction {
    /// Keeps the tag.
    #[default]
    Keep,
    /// Replaces the VLAN id of the outer tag, which keeps TPID, PCP and DEI; adds a customer tag with PCP 0
    /// and DEI 0 to an untagged frame.
    Set(u16),
    /// Adds this tag as the outer one.
    Push(VlanTag),
    /// Removes the outer tag, if present.
    Remove,
}

/// Handling of the R-TAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RTagAction {
    /// Keeps the tag.
    #[default]
    Keep,
    /// Adds an R-TAG with this sequence number after the VLAN tags; the frame must not have a sequence tag.
    Push(u16),
    /// Removes the R-TAG, if present. An HSR tag is kept.
    Remove,
}

/// The edits of a frame. The default is no edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edit {
    /// New destination address.
    pub destination: Option<MacAddress>,
    /// Handling of the outer VLAN tag.
    pub vlan: VlanAction,
    /// New PCP, `0..=7`, of the resulting outer tag, if present.
    pub priority: Option<u8>,
    /// Handling of the R-TAG.
    pub rtag: RTagAction,
}

/// The reason why a frame cannot be edited. The content of the buffer is then undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditError {
    /// The buffer is too short, or a VLAN id or priority does not fit.
    Emit(EmitError),
    /// A VLAN tag pushed onto two tags.
    TooManyVlans,
    /// An R-TAG pushed before a sequence tag.
    AlreadyTagged(SequenceTag),
}

impl From<EmitError> for EditError {
    fn from(error: EmitError) -> Self {
        EditError::Emit(error)
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Emit(error) => error.fmt(f),
            EditError::TooManyVlans => {
                write!(f, "no VLAN tag pushed: the frame already has {MAX_VLANS}")
            }
            EditError::AlreadyTagged(tag) => {
                write!(f, "no R-TAG pushed: the frame already has a sequence tag ({tag})")
            }
        }
    }
}

impl core::error::Error for EditError {}

/// Maximum growth of a frame, in octets: a VLAN tag and an R-TAG.
pub const MAX_GROWTH: usize = vlan::TAG_LEN + rtag::TAG_LEN;

/// Maximum length of a frame's headers, in octets: addresses, VLAN tags and R-TAG.
const MAX_HEAD: usize = 12 + MAX_VLANS * vlan::TAG_LEN + rtag::TAG_LEN;

/// The headers of an edited frame.
#[derive(Debug, Clone, Copy)]
pub struct EditedHeaders {
    octets: [u8; MAX_HEAD],
    len: u8,
}

impl core::ops::Deref for EditedHeaders {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

/// An edited frame in two parts, to send as such or to join in place.
#[derive(Debug, Clone, Copy)]
pub struct EditedFrame<'a> {
    /// The edited headers; empty if unchanged.
    pub head: EditedHeaders,
    /// The remaining part of the original frame.
    pub rest: &'a [u8],
}

impl<'a> EditedFrame<'a> {
    /// Wraps an unchanged frame.
    pub fn unchanged(frame: &Frame<'a>) -> Self {
        Self { head: EditedHeaders { octets: [0; MAX_HEAD], len: 0 }, rest: frame.octets() }
    }
}

/// Applies several edits to `frame`, one after the other; returns it in two parts. A frame that becomes
/// shorter is not padded: the sending port does that.
///
/// # Errors
/// An edit is impossible for this frame.
#[inline]
pub fn edit_head<'a>(frame: &Frame<'a>, edits: &[&Edit]) -> Result<EditedFrame<'a>, EditError> {
    if let [Edit { destination: None, vlan: VlanAction::Keep, priority: None, rtag }] = edits {
        return with_tag(frame, *rtag);
    }
    let headers = Headers::changed(frame, edits)?;
    let mut octets = [0; MAX_HEAD];
    let mut writer = Writer::new(&mut octets);
    headers.write(&mut writer)?;
    let len = writer.len() as u8;
    Ok(EditedFrame { head: EditedHeaders { octets, len }, rest: headers.rest })
}

/// The usual edit: adds or removes an R-TAG and keeps the octets before it.
#[inline]
fn with_tag<'a>(frame: &Frame<'a>, action: RTagAction) -> Result<EditedFrame<'a>, EditError> {
    let (mut len, mut rest) = (frame.msdu_offset(), frame.msdu());
    let mut octets = [0; MAX_HEAD];
    match frame.octets().first_chunk() {
        // Faster than a count, as the length is known at compile time.
        Some(first) => octets = *first,
        None => octets.iter_mut().zip(frame.octets()).for_each(|(to, from)| *to = *from),
    }
    match (action, frame.sequence_tag()) {
        (RTagAction::Push(_), Some(tag)) => return Err(EditError::AlreadyTagged(tag)),
        (RTagAction::Push(sequence), None) => {
            let room = octets.get_mut(len..).unwrap_or_default();
            len += rtag::Repr { sequence }.emit(room)?;
        }
        (RTagAction::Remove, Some(SequenceTag::RTag(_))) => {
            rest = rest.get(rtag::TAG_LEN..).unwrap_or_default();
        }
        (RTagAction::Remove | RTagAction::Keep, _) => {}
    }
    Ok(EditedFrame { head: EditedHeaders { octets, len: len as u8 }, rest })
}

/// Writes the edited `frame` to the start of `out`; returns its length.
///
/// A buffer of [`MAX_GROWTH`] octets more than the frame is sufficient for every edit. A frame that becomes
/// shorter is not padded: the sending port does that.
///
/// # Errors
/// The buffer is too short; an edit is impossible for this frame.
pub fn edit(frame: &Frame<'_>, edit: &Edit, out: &mut [u8]) -> Result<usize, EditError> {
    edit_all(frame, &[edit], out)
}

/// Applies several edits like [`edit`], one after the other.
///
/// # Errors
/// Those of [`edit`].
pub fn edit_all(frame: &Frame<'_>, edits: &[&Edit], out: &mut [u8]) -> Result<usize, EditError> {
    let headers = Headers::changed(frame, edits)?;
    let mut writer = Writer::new(out);
    headers.write(&mut writer)?;
    writer.put("frame", headers.rest)?;
    Ok(writer.len())
}

/// The headers of a frame during edits.
struct Headers<'a> {
    destination: MacAddress,
    source: MacAddress,
    vlans: [Option<VlanTag>; MAX_VLANS],
    /// A sequence tag in `rest`, or before it.
    sequence: Option<SequenceTag>,
    /// The R-TAG to write before `rest`.
    pushed: Option<rtag::Repr>,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    fn of(frame: &Frame<'a>) -> Self {
        let mut vlans = frame.vlans();
        Self {
            destination: frame.destination(),
            source: frame.source(),
            vlans: [vlans.next(), vlans.next()],
            sequence: frame.sequence_tag(),
            pushed: None,
            rest: frame.msdu(),
        }
    }

    fn changed(frame: &Frame<'a>, edits: &[&Edit]) -> Result<Self, EditError> {
        let mut headers = Self::of(frame);
        for edit in edits {
            headers.change(edit)?;
        }
        Ok(headers)
    }

    fn change(&mut self, edit: &Edit) -> Result<(), EditError> {
        self.destination = edit.destination.unwrap_or(self.destination);
        let [outer, inner] = self.vlans;
        self.vlans = match edit.vlan {
            VlanAction::Keep => [outer, inner],
            VlanAction::Set(vid) => {
                [Some(outer.map_or(VlanTag::new(vid), |tag| VlanTag { vid, ..tag })), inner]
            }
            VlanAction::Push(_) if inner.is_some() => return Err(EditError::TooManyVlans),
            VlanAction::Push(tag) => [Some(tag), outer],
            VlanAction::Remove => [inner, None],
        };
        if let (Some(outer), Some(pcp)) = (&mut self.vlans[0], edit.priority) {
            outer.pcp = pcp;
        }
        match (edit.rtag, self.sequence) {
            (RTagAction::Push(_), Some(tag)) => return Err(EditError::AlreadyTagged(tag)),
            (RTagAction::Push(sequence), None) => {
                let tag = rtag::Repr { sequence };
                self.pushed = Some(tag);
                self.sequence = Some(SequenceTag::RTag(tag));
            }
            (RTagAction::Remove, Some(SequenceTag::RTag(_))) => {
                if self.pushed.take().is_none() {
                    // Frame::parse found the R-TAG's EtherType here.
                    self.rest = self.rest.get(rtag::TAG_LEN..).unwrap_or_default();
                }
                self.sequence = None;
            }
            (RTagAction::Remove | RTagAction::Keep, _) => {}
        }
        Ok(())
    }

    /// Writes the headers before `rest`.
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EditError> {
        writer.put("destination address", &self.destination.0)?;
        writer.put("source address", &self.source.0)?;
        for tag in self.vlans.iter().flatten() {
            let len = tag.emit(writer.rest())?;
            writer.advance(len);
        }
        if let Some(tag) = &self.pushed {
            let len = tag.emit(writer.rest())?;
            writer.advance(len);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EtherType;
    use std::string::ToString;
    use std::vec::Vec;

    const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    /// Priority 5, drop eligible.
    const VLAN_10: &[u8] = &[0x81, 0, 0xb0, 10];
    const S_VLAN_5: &[u8] = &[0x88, 0xa8, 0x60, 5];
    const R_TAG: &[u8] = &[0xf1, 0xc1, 0, 0, 0x12, 0x34];
    const DATA: &[u8] = &[0x88, 0xcc, b'd', b'a', b't', b'a'];

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        [&ADDRESSES, parts.concat().as_slice(), DATA].concat()
    }

    fn run(source: &[u8], what: Edit) -> Result<Vec<u8>, EditError> {
        let frame = Frame::parse(source).unwrap();
        let mut out = [0xa5; 64];
        let whole = edit(&frame, &what, &mut out);
        let parts = edit_head(&frame, &[&what]);
        assert_eq!(whole.err(), parts.err(), "{what:?}");
        let (len, parts) = (whole?, parts?);
        assert!(out[len..].iter().all(|octet| *octet == 0xa5));
        assert_eq!([&parts.head[..], parts.rest].concat(), out[..len]);
        assert!(source.ends_with(parts.rest));
        Ok(out[..len].to_vec())
    }

    fn vlan(vlan: VlanAction) -> Edit {
        Edit { vlan, ..Edit::default() }
    }

    fn rtag(rtag: RTagAction) -> Edit {
        Edit { rtag, ..Edit::default() }
    }

    #[test]
    fn an_empty_edit_changes_nothing() {
        for parts in [&[][..], &[VLAN_10], &[S_VLAN_5, VLAN_10, R_TAG]] {
            assert_eq!(run(&frame(parts), Edit::default()), Ok(frame(parts)));
        }
    }

    #[test]
    fn setting_the_vlan_keeps_priority_and_dei() {
        let set = vlan(VlanAction::Set(0xabc));
        assert_eq!(run(&frame(&[VLAN_10]), set), Ok(frame(&[&[0x81, 0, 0xba, 0xbc]])));
        assert_eq!(
            run(&frame(&[S_VLAN_5, VLAN_10]), set),
            Ok(frame(&[&[0x88, 0xa8, 0x6a, 0xbc], VLAN_10]))
        );
        assert_eq!(run(&frame(&[]), set), Ok(frame(&[&[0x81, 0, 0x0a, 0xbc]])));
    }

    #[test]
    fn priority_applies_to_the_resulting_outer_tag() {
        let with = |action| Edit { priority: Some(1), ..vlan(action) };
        assert_eq!(
            run(&frame(&[VLAN_10]), with(VlanAction::Keep)),
            Ok(frame(&[&[0x81, 0, 0x30, 10]]))
        );
        assert_eq!(
            run(&frame(&[S_VLAN_5, VLAN_10]), with(VlanAction::Remove)),
            Ok(frame(&[&[0x81, 0, 0x30, 10]]))
        );
        assert_eq!(run(&frame(&[]), with(VlanAction::Set(7))), Ok(frame(&[&[0x81, 0, 0x20, 7]])));
        assert_eq!(run(&frame(&[]), with(VlanAction::Keep)), Ok(frame(&[])));
    }

    #[test]
    fn vlan_push_and_remove() {
        let tag = VlanTag { tpid: EtherType::S_VLAN, pcp: 3, dei: false, vid: 5 };
        let push = vlan(VlanAction::Push(tag));
        assert_eq!(run(&frame(&[VLAN_10]), push), Ok(frame(&[S_VLAN_5, VLAN_10])));
        assert_eq!(
            run(&frame(&[S_VLAN_5, VLAN_10]), push).unwrap_err().to_string(),
            "no VLAN tag pushed: the frame already has 2"
        );
        let remove = vlan(VlanAction::Remove);
        assert_eq!(run(&frame(&[S_VLAN_5, VLAN_10]), remove), Ok(frame(&[VLAN_10])));
        assert_eq!(run(&frame(&[]), remove), Ok(frame(&[])));
    }

    #[test]
    fn r_tag_push_and_remove() {
        let push = rtag(RTagAction::Push(0x1234));
        let remove = rtag(RTagAction::Remove);
        assert_eq!(run(&frame(&[VLAN_10]), push), Ok(frame(&[VLAN_10, R_TAG])));
        assert_eq!(run(&frame(&[VLAN_10, R_TAG]), remove), Ok(frame(&[VLAN_10])));
        assert_eq!(
            run(&frame(&[R_TAG]), push).unwrap_err().to_string(),
            "no R-TAG pushed: the frame already has a sequence tag (r-tag 4660)"
        );
    }

    #[test]
    fn removing_a_missing_r_tag_changes_nothing() {
        let remove = rtag(RTagAction::Remove);
        let hsr: &[u8] = &[0x89, 0x2f, 0, 10, 0, 1];
        for parts in [&[][..], &[VLAN_10], &[hsr], &[hsr, R_TAG]] {
            assert_eq!(run(&frame(parts), remove), Ok(frame(parts)));
        }
        // Only the first of two is the sequence tag of the frame.
        assert_eq!(run(&frame(&[R_TAG, R_TAG]), remove), Ok(frame(&[R_TAG])));
    }

    #[test]
    fn everything_at_once() {
        let all = Edit {
            destination: Some(MacAddress([1, 2, 3, 4, 5, 6])),
            vlan: VlanAction::Set(20),
            priority: Some(7),
            rtag: RTagAction::Push(0x1234),
        };
        let mut expected = frame(&[&[0x81, 0, 0xf0, 20], R_TAG]);
        expected[..6].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(run(&frame(&[VLAN_10]), all), Ok(expected));
    }

    #[test]
    fn values_that_do_not_fit_and_short_buffers() {
        let source = frame(&[VLAN_10]);
        assert_eq!(
            run(&source, vlan(VlanAction::Set(4096))).unwrap_err().to_string(),
            "VLAN id 4096 does not fit: at most 4095"
        );
        assert!(run(&source, Edit { priority: Some(8), ..Edit::default() }).is_err());
        let source = Frame::parse(&source).unwrap();
        let push = rtag(RTagAction::Push(1));
        for len in 0..28 {
            let error = edit(&source, &push, &mut [0; 64][..len]).unwrap_err();
            assert!(matches!(error, EditError::Emit(EmitError::NoRoom { .. })), "{len}");
        }
        assert_eq!(edit(&source, &push, &mut [0; 28]), Ok(28));
    }
}
