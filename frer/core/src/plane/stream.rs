//! One stream: its functions, counters and replicas.

use alloc::boxed::Box;
use alloc::sync::Arc;

use onbeat_wire::edit::Edit;
use onbeat_wire::{Frame, SequenceTag};
use smallvec::SmallVec;

use super::replica::{PreparedEgress, Replicas, Splits, rewrite};
use crate::generate::SequenceGenerator;
use crate::paths::{PathRecorder, PathsReading};
use crate::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};
use crate::recover::RecoveryFunction;
use crate::spec::{Recovery, Role, Stream};
use crate::validate::RecoveryError;

/// With very many streams, the memory that a frame touches determines its processing time: two cache lines
/// for the stream and up to two members, and the first line of its recovery function, side by side.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct State {
    generate: Option<SequenceGenerator>,
    output: u64,
    egress: Arc<[PreparedEgress]>,
    spec: Box<Stream>,
    members: SmallVec<[Member; 2]>,
    sequence: Option<RecoveryFunction>,
    /// With sequence recovery.
    paths: Option<Box<PathRecorder>>,
}

#[derive(Debug)]
struct Member {
    input: u64,
    enc_errored: u64,
    /// Edits of addresses and tag at the input.
    up: Option<Box<Edit>>,
    individual: Option<Box<RecoveryFunction>>,
}

impl State {
    /// Cache lines that a frame touches, for a stream with up to two members.
    pub(super) const LINES: usize = 3;

    /// Creates a stream at BEGIN, or continues `before` with a new configuration.
    pub(super) fn new(
        spec: &Stream,
        before: Option<&State>,
        splits: &mut Splits,
    ) -> Result<Self, RecoveryError> {
        let sequence = recover(
            spec.recover.as_ref(),
            Role::Sequence,
            before.and_then(|before| before.sequence.as_ref()),
        )?;
        let generate = spec
            .generate
            .then(|| before.and_then(|before| before.generate.clone()).unwrap_or_default());
        let members = spec.members.iter().map(|member| {
            let same = before.and_then(|before| Some(&before.members[before.place_of(member)?]));
            let individual = recover(
                member.individual.as_ref(),
                Role::Individual,
                same.and_then(|state| state.individual.as_deref()),
            )?;
            Ok(Member {
                input: same.map_or(0, |state| state.input),
                enc_errored: same.map_or(0, |state| state.enc_errored),
                up: member.identification.rewrite().map(|up| Box::new(rewrite(&up))),
                individual: individual.map(Box::new),
            })
        });
        let members = members.collect::<Result<SmallVec<[Member; 2]>, RecoveryError>>()?;
        let paths = sequence.is_some().then(|| {
            let arrivals = spec.members.iter().map(|member| {
                let place = before.and_then(|before| before.place_of(member));
                let before = place.and_then(|place| before?.paths.as_ref()?.members.get(place));
                before.copied().unwrap_or_default()
            });
            Box::new(PathRecorder::new(arrivals.collect()))
        });
        let egress = splits.of(&spec.egress);
        let output = before.map_or(0, |before| before.output);
        let spec = Box::new(spec.clone());
        Ok(Self { generate, output, egress, spec, members, sequence, paths })
    }

    /// Returns the place of the member with the port and identification of another one.
    fn place_of(&self, member: &crate::spec::Member) -> Option<usize> {
        let alike = |other: &crate::spec::Member| {
            (other.port, &other.identification) == (member.port, &member.identification)
        };
        self.spec.members.iter().position(alike)
    }

    pub(super) fn spec(&self) -> &Stream {
        &self.spec
    }

    /// Returns the replicas of a frame of a member, unless it is discarded.
    #[inline]
    pub(super) fn frame<'a>(
        &'a mut self,
        member: usize,
        now_ns: u64,
        frame: Frame<'a>,
    ) -> Option<Replicas<'a>> {
        let place = member;
        let member = &mut self.members[place];
        member.input += 1;
        // An HSR tag carries no number of this encapsulation.
        let number = match frame.sequence_tag() {
            Some(SequenceTag::RTag(tag)) => Some(tag.sequence),
            Some(SequenceTag::Hsr(_)) | None => None,
        };
        if let Some(individual) = member.individual.as_deref_mut() {
            if !individual.packet(now_ns, number).is_accept() {
                return None;
            }
        }
        if let Some(sequence) = &mut self.sequence {
            let passes = sequence.packet(now_ns, number).is_accept();
            let sampled = number.filter(|number| PathRecorder::is_sampled(*number));
            if let (Some(number), Some(paths)) = (sampled, &mut self.paths) {
                paths.record(place, number, now_ns, passes, sequence);
            }
            if !passes {
                return None;
            }
        }
        let drawn = match frame.sequence_tag() {
            None => self.generate.as_mut().map(SequenceGenerator::next),
            Some(_) => None,
        };
        self.output += 1;
        Some(Replicas::new(frame, member.up.as_deref(), &self.egress, drawn))
    }

    /// Counts a frame with an incomplete sequence tag.
    pub(super) fn cannot_decode(&mut self, member: usize) {
        let member = &mut self.members[member];
        member.input += 1;
        member.enc_errored += 1;
    }

    fn functions(&mut self) -> impl Iterator<Item = &mut RecoveryFunction> {
        let individual = self.members.iter_mut().filter_map(|m| m.individual.as_deref_mut());
        individual.chain(self.sequence.as_mut())
    }

    pub(super) fn expire(&mut self, now_ns: u64) {
        for function in self.functions() {
            function.expire(now_ns);
        }
    }

    pub(super) fn reset(&mut self, now_ns: u64) {
        for function in self.functions() {
            function.reset(now_ns);
        }
        if let Some(generate) = &mut self.generate {
            generate.reset();
        }
    }

    pub(super) fn set_number(&mut self, number: u16) -> bool {
        self.generate.as_mut().map(|generate| generate.set(number)).is_some()
    }

    pub(super) fn read_paths(&self) -> Option<PathsReading> {
        let (sequence, paths) = (self.sequence.as_ref()?, self.paths.as_ref()?);
        Some(PathsReading { members: paths.members.clone(), gap_ns: sequence.longest_gap_ns() })
    }

    pub(super) fn read(&mut self, now_ns: u64) -> StreamReading {
        self.expire(now_ns);
        let members = self.members.iter().map(|member| MemberReading {
            input: member.input,
            enc_errored: member.enc_errored,
            individual: member.individual.as_deref().map(read),
        });
        StreamReading {
            members: members.collect(),
            generation: self.generate.as_ref().map(|generate| GenerationReading {
                next: generate.clone().next(),
                resets: generate.resets(),
            }),
            recovery: self.sequence.as_ref().map(read),
            output: self.output,
        }
    }
}

fn read(function: &RecoveryFunction) -> RecoveryReading {
    RecoveryReading {
        counters: function.counters(),
        recov_seq_num: function.recov_seq_num(),
        take_any: function.take_any(),
    }
}

/// Returns the former recovery function with the wanted parameters; `None`: it is not wanted.
fn recover(
    wanted: Option<&Recovery>,
    role: Role,
    before: Option<&RecoveryFunction>,
) -> Result<Option<RecoveryFunction>, RecoveryError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let function = match before {
        Some(function) => {
            let mut function = function.clone();
            function.set_parameters(wanted, role)?;
            function
        }
        None => RecoveryFunction::new(wanted, role)?,
    };
    Ok(Some(function))
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::State;
    use crate::prefetch::LINE;

    #[test]
    fn the_state_that_a_frame_touches_is_prefetched() {
        assert_eq!(offset_of!(State, sequence), (State::LINES - 1) * LINE);
    }
}
