//! Features of the programs that a set of streams uses.

use std::ops::BitOr;

use crate::abi::constants as c;
use crate::abi::frer_split;
use crate::compile::{KeyKind, State};

/// What streams require of the programs. Programs are loaded for it and contain nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    /// `USES_*`.
    bits: u32,
    /// The only shape, without `USES_SHAPES`.
    shape: u16,
    lines: Lines,
    only: Only,
    /// Programs of other ports draw numbers of its generators.
    shares_generators: bool,
}

/// Members of a port. Programs can have the constants of an only one; this is not required of any program, but must not
/// be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    None,
    One(OnlyMember),
    Several,
}

/// The member of a layer 2 key that is the only one of its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnlyMember {
    /// Destination of its frames, its first octet lowest.
    pub(crate) destination: u64,
    /// VLAN ID of its frames.
    pub(crate) vid: u16,
    /// Slot of the member.
    pub(crate) member: u32,
    /// Slot of its generator or recovery function.
    pub(crate) state: u32,
    /// Slot of its individual recovery, or all bits of a slot.
    pub(crate) individual: u32,
    /// Its features, of a usual set.
    pub(crate) uses: u32,
    /// Its egress port, or the slot of its group.
    pub(crate) target: u32,
    /// Whether it has several egress ports.
    pub(crate) is_group: bool,
    /// VLAN ID of its replicas, if they are rewritten.
    pub(crate) new_vid: u16,
}

impl OnlyMember {
    /// The constants of a program without an only member.
    pub(crate) const NONE: Self = Self {
        destination: 0,
        vid: 0,
        member: c::NONE,
        state: 0,
        individual: c::FUNCTIONS_SLOT,
        uses: 0,
        target: 0,
        is_group: false,
        new_vid: 0,
    };
}

/// Lines of the index with keys of a port. A single one is searched first; this is not required of any program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    None,
    One(u32),
    Several,
}

impl Features {
    /// Those of a node without streams.
    pub(crate) const NONE: Self = Self {
        bits: 0,
        shape: c::SHAPE_NONE as u16,
        lines: Lines::None,
        only: Only::None,
        shares_generators: false,
    };
    /// Those of all streams.
    pub(crate) const ALL: Self = Self { bits: c::USES_ALL, shares_generators: true, ..Self::NONE };
    /// That of a generator with keys at several ports.
    pub(crate) const SHARED_GENERATOR: Self = Self { shares_generators: true, ..Self::NONE };

    /// These, with streams that are all identified by destination and VLAN.
    pub(crate) const fn of_destinations(bits: u32) -> Self {
        Self { bits, shape: c::VLAN_EXACT as u16, shares_generators: true, ..Self::NONE }
    }

    fn of_bits(bits: u32) -> Self {
        Self { bits, ..Self::NONE }
    }

    /// Those of an identification of this kind.
    pub(crate) fn of_kind(kind: KeyKind) -> Self {
        match kind {
            KeyKind::L2(shape) => Self { shape, ..Self::NONE },
            KeyKind::Ip(_) | KeyKind::Mask(_) => Self::of_bits(c::USES_SHAPES),
        }
    }

    /// Those of a key in this line of the index.
    pub(crate) fn of_line(line: u32) -> Self {
        Self { lines: Lines::One(line), ..Self::NONE }
    }

    /// Those of a member that is known to be this one; `None`: another one.
    pub(crate) fn of_member(only: Option<OnlyMember>) -> Self {
        Self { only: only.map_or(Only::Several, Only::One), ..Self::NONE }
    }

    /// The only member.
    pub(crate) fn only(self) -> Option<OnlyMember> {
        match self.only {
            Only::One(only) => Some(only),
            Only::None | Only::Several => None,
        }
    }

    /// Those of a member with these functions; `individual`: a slot or `NONE`.
    pub(crate) fn of_functions(state: State, individual: u32, split: &frer_split) -> Self {
        let state = match state {
            State::None => 0,
            State::Generator(_) => c::USES_GENERATION,
            State::Recovery(_) => c::USES_RECOVERY,
        };
        let rewrites = u32::from(split.flags) & c::SPLIT_REWRITE != 0;
        let uses = [
            (individual != c::NONE, c::USES_INDIVIDUAL),
            (rewrites || u32::from(split.tag) != c::TAG_KEEP, c::USES_EDIT),
            (rewrites, c::USES_REWRITE),
            (u32::from(split.flags) & c::SPLIT_EGRESSES != 0, c::USES_EGRESSES),
        ];
        let used = uses.into_iter().filter(|(uses, _)| *uses);
        Self::of_bits(used.fold(state, |bits, (_, feature)| bits | feature))
    }

    /// Whether programs for these features serve streams that need `other`.
    pub(crate) fn cover(self, other: Self) -> bool {
        let both = self | other;
        (both.bits, both.shape) == (self.bits, self.shape)
            && (self.only().is_none() || both.only == self.only)
            && both.shares_generators == self.shares_generators
    }

    /// Whether programs of other ports draw numbers of its generators.
    pub(crate) fn shares_generators(self) -> bool {
        self.shares_generators
    }

    /// `USES_*` bits.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// The only shape that frames are identified by; `SHAPE_NONE`: none, or several.
    pub(crate) fn shape(self) -> u16 {
        self.shape
    }

    /// The line with all layer 2 keys, or `NONE`.
    pub(crate) fn line(self) -> u32 {
        match self.lines {
            Lines::One(line) => line,
            Lines::None | Lines::Several => c::NONE,
        }
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        let bits = self.bits | other.bits;
        let shapes = [self.shape, other.shape].map(u32::from);
        let (bits, shape) = match shapes {
            _ if bits & c::USES_SHAPES != 0 => (bits, c::SHAPE_NONE),
            [one, c::SHAPE_NONE] | [c::SHAPE_NONE, one] => (bits, one),
            [one, other] if one == other => (bits, one),
            _ => (bits | c::USES_SHAPES, c::SHAPE_NONE),
        };
        let lines = match (self.lines, other.lines) {
            (lines, Lines::None) | (Lines::None, lines) => lines,
            (one, other) if one == other => one,
            _ => Lines::Several,
        };
        let only = match (self.only, other.only) {
            (only, Only::None) | (Only::None, only) => only,
            (one, other) if one == other => one,
            _ => Only::Several,
        };
        let shares_generators = self.shares_generators || other.shares_generators;
        Self { bits, shape: shape as u16, lines, only, shares_generators }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Features = Features { shape: 3, ..Features::NONE };
    const OTHER: Features = Features { shape: 4, ..Features::NONE };
    const ONLY_MEMBER: OnlyMember = OnlyMember { member: 2, state: 3, ..OnlyMember::NONE };
    const ONLY: Features = Features { only: Only::One(ONLY_MEMBER), ..Features::NONE };

    #[test]
    fn a_second_shape_requires_the_list() {
        assert_eq!(Features::NONE | SHAPE, SHAPE);
        assert_eq!(SHAPE | SHAPE, SHAPE);
        let both = SHAPE | OTHER;
        assert_eq!(both, Features::of_bits(c::USES_SHAPES));
        assert_eq!(Features::of_kind(KeyKind::Mask(1)) | SHAPE, both);
    }

    #[test]
    fn features_cover_those_that_they_contain() {
        let shapes = Features::of_bits(c::USES_SHAPES);
        let recovery = Features::of_bits(c::USES_RECOVERY);
        for (features, other, covers) in [
            (Features::NONE, SHAPE, false),
            (SHAPE, Features::NONE, true),
            (SHAPE, OTHER, false),
            (shapes, SHAPE, true),
            (SHAPE, shapes, false),
            (SHAPE | recovery, recovery, true),
            (SHAPE, recovery, false),
            (Features::ALL, shapes | recovery, true),
            (SHAPE, SHAPE | Features::of_line(7), true),
            (SHAPE, SHAPE | ONLY, true),
            (SHAPE | ONLY, SHAPE | ONLY, true),
            (SHAPE | ONLY, SHAPE, true),
            (SHAPE | ONLY, Features::of_member(None), false),
            (SHAPE, SHAPE | Features::SHARED_GENERATOR, false),
            (SHAPE | Features::SHARED_GENERATOR, SHAPE, true),
            (Features::ALL, Features::SHARED_GENERATOR, true),
        ] {
            assert_eq!(features.cover(other), covers, "{features:?} {other:?}");
        }
    }

    #[test]
    fn a_single_line_is_searched_first() {
        let line = Features::of_line(7);
        assert_eq!(Features::NONE.line(), c::NONE);
        assert_eq!((SHAPE | line | SHAPE | line).line(), 7);
        assert_eq!((line | Features::of_line(8) | line).line(), c::NONE);
    }

    #[test]
    fn a_second_member_is_not_the_only_one() {
        let other = OnlyMember { member: 9, ..ONLY_MEMBER };
        assert_eq!((SHAPE | ONLY | SHAPE | ONLY).only(), Some(ONLY_MEMBER));
        assert_eq!((ONLY | Features::of_member(Some(other)) | ONLY).only(), None);
        assert_eq!((ONLY | Features::of_member(None)).only(), None);
    }

    #[test]
    fn functions_and_edits_are_features() {
        let keep = frer_split { tag: c::TAG_KEEP as u8, ..Default::default() };
        let push = frer_split { tag: c::TAG_PUSH as u8, ..Default::default() };
        let rewrite = frer_split { flags: c::SPLIT_REWRITE as u8, ..keep };
        for (state, individual, split, bits) in [
            (State::None, c::NONE, keep, 0),
            (State::Generator(0), c::NONE, push, c::USES_GENERATION | c::USES_EDIT),
            (State::Recovery(0), 5, keep, c::USES_RECOVERY | c::USES_INDIVIDUAL),
            (State::None, c::NONE, rewrite, c::USES_EDIT | c::USES_REWRITE),
        ] {
            assert_eq!(Features::of_functions(state, individual, &split).bits(), bits);
        }
    }
}
