//! Edits: the length is as computed, other octets are unchanged, a pushed tag can be removed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_wire::edit::{Edit, EditError, MAX_GROWTH, RTagAction, VlanAction, edit};
use onbeat_wire::{EtherType, Frame, MacAddress, SequenceTag, VlanTag};

fn run(source: &[u8], what: &Edit) -> Result<Vec<u8>, EditError> {
    let frame = Frame::parse(source).expect("parsed before");
    let mut out = vec![0xa5; source.len() + MAX_GROWTH];
    let len = edit(&frame, what, &mut out)?;
    assert!(out[len..].iter().all(|octet| *octet == 0xa5), "written past the end");
    let short = edit(&frame, what, &mut vec![0; len - 1]);
    assert!(matches!(short, Err(EditError::Emit(_))));
    out.truncate(len);
    Ok(out)
}

fuzz_target!(|input: ([u8; 8], &[u8])| {
    let ([vlan_choice, rtag_choice, a, b, c, d, e, f], octets) = input;
    let Ok(frame) = Frame::parse(octets) else { return };
    let number = u16::from_be_bytes([a, b]);
    let tag = VlanTag { tpid: EtherType::S_VLAN, pcp: c & 7, dei: d & 1 == 1, vid: number & 4095 };
    let what = Edit {
        destination: (e & 1 == 1).then_some(MacAddress([a, b, c, d, e, f])),
        vlan: match vlan_choice % 4 {
            0 => VlanAction::Keep,
            1 => VlanAction::Set(number),
            2 => VlanAction::Push(tag),
            _ => VlanAction::Remove,
        },
        priority: (e & 2 == 2).then_some(f % 9),
        rtag: match rtag_choice % 3 {
            0 => RTagAction::Keep,
            1 => RTagAction::Push(number),
            _ => RTagAction::Remove,
        },
    };
    let before = frame.vlans().count();
    let out = match run(octets, &what) {
        Ok(out) => out,
        Err(EditError::TooManyVlans) => {
            assert!(before == 2 && vlan_choice % 4 == 2);
            return;
        }
        Err(EditError::AlreadyTagged(tag)) => {
            assert!(frame.sequence_tag() == Some(tag) && rtag_choice % 3 == 1);
            return;
        }
        Err(EditError::Emit(_)) => {
            assert!(what.priority == Some(8) || (vlan_choice % 4 == 1 && number > 4095));
            return;
        }
    };
    let had_rtag = matches!(frame.sequence_tag(), Some(SequenceTag::RTag(_)));
    let (grown, kept) = match what.rtag {
        RTagAction::Keep => (0, frame.msdu()),
        RTagAction::Push(_) => (6, frame.msdu()),
        RTagAction::Remove if had_rtag => (0, &frame.msdu()[6..]),
        RTagAction::Remove => (0, frame.msdu()),
    };
    let after = match what.vlan {
        VlanAction::Keep => before,
        VlanAction::Set(_) => before.max(1),
        VlanAction::Push(_) => before + 1,
        VlanAction::Remove => before.saturating_sub(1),
    };
    assert_eq!(out.len(), 12 + after * 4 + grown + kept.len());
    assert!(out.ends_with(kept));
    assert_eq!(out[..6], what.destination.unwrap_or(frame.destination()).0);
    assert_eq!(out[6..12], frame.source().0);
    if let (VlanAction::Set(vid), Some(old)) = (what.vlan, frame.vlan()) {
        let pcp = what.priority.unwrap_or(old.pcp);
        let new = Frame::parse(&out[..]).ok().and_then(|frame| frame.vlan());
        // After removal of the R-TAG, a truncated tag may follow: then there is no frame.
        assert!(new.is_none_or(|new| new == VlanTag { vid, pcp, ..old }));
    }

    let push = Edit { rtag: RTagAction::Push(number), ..Edit::default() };
    let remove = Edit { rtag: RTagAction::Remove, ..Edit::default() };
    if let Ok(pushed) = run(octets, &push) {
        assert_eq!(run(&pushed, &remove).as_deref(), Ok(octets));
    }
    let push = Edit { vlan: VlanAction::Push(tag), ..Edit::default() };
    let remove = Edit { vlan: VlanAction::Remove, ..Edit::default() };
    if let Ok(pushed) = run(octets, &push) {
        assert_eq!(run(&pushed, &remove).as_deref(), Ok(octets));
    }
    assert_eq!(run(octets, &Edit::default()).as_deref(), Ok(octets));
});
