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
}

impl Features {
    /// Those of a node without streams.
    pub(crate) const NONE: Self = Self { bits: 0, shape: c::SHAPE_NONE as u16 };
    /// Those of all streams.
    pub(crate) const ALL: Self = Self { bits: c::USES_ALL, shape: c::SHAPE_NONE as u16 };

    fn of_bits(bits: u32) -> Self {
        Self { bits, ..Self::NONE }
    }

    /// Those of an identification of this kind.
    pub(crate) fn of_kind(kind: KeyKind) -> Self {
        match kind {
            KeyKind::L2(shape) => Self { bits: 0, shape },
            KeyKind::Ip(_) | KeyKind::Mask(_) => Self::of_bits(c::USES_SHAPES),
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
        self | other == self
    }

    /// `USES_*` bits.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// The only shape that frames are identified by; `SHAPE_NONE`: none, or several.
    pub(crate) fn shape(self) -> u16 {
        self.shape
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
        Self { bits, shape: shape as u16 }
    }
}

impl FromIterator<Features> for Features {
    fn from_iter<I: IntoIterator<Item = Features>>(all: I) -> Self {
        all.into_iter().fold(Self::NONE, Self::bitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Features = Features { bits: 0, shape: 3 };

    #[test]
    fn a_second_shape_requires_the_list() {
        assert_eq!(Features::NONE | SHAPE, SHAPE);
        assert_eq!(SHAPE | SHAPE, SHAPE);
        let both = SHAPE | Features { bits: 0, shape: 4 };
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
            (SHAPE, Features { bits: 0, shape: 4 }, false),
            (shapes, SHAPE, true),
            (SHAPE, shapes, false),
            (SHAPE | recovery, recovery, true),
            (SHAPE, recovery, false),
            (Features::ALL, shapes | recovery, true),
        ] {
            assert_eq!(features.cover(other), covers, "{features:?} {other:?}");
        }
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
