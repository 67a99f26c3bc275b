//! Counters of the node, and resets.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onbeat_frer::dataplane::Mode;
use onbeat_frer::paths::{MemberArrivals, PathsReading};
use onbeat_frer::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};
use onbeat_frer::spec::Stream;

use super::entries::CounterSlot;
use super::recovery::RecoveryState;
use super::{AppliedMember, AppliedStream, Plane};
use crate::abi::constants as c;
use crate::abi::{frer_output, frer_port_counters, frer_recovery_record, frer_request, frer_skew};
use crate::compile::{Key, State};
use crate::error::Result;

/// A packet is counted within this time after it moved the head, unless its CPU is interrupted.
const UNCOUNTED: Duration = Duration::from_micros(5);

/// Tries to mark a generator: a store of a number replaces the mark if it is between the load and this store.
const SHARE_TRIES: u32 = 8;

/// Streams that are loaded at a time: less than a cache of the first level has room for.
const BATCH: usize = 32;

/// Words of a cache line.
const LINE: usize = 8;

const LOST_SHOWN: usize = std::mem::offset_of!(frer_recovery_record, lost_shown) / 8;

impl Plane {
    /// Returns the counters of a stream; `None`: no such stream.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_stream(&self, name: &str) -> Result<Option<StreamReading>> {
        Ok(self.applied(name).map(|stream| self.read_applied(stream, self.held_by(stream))))
    }

    /// Passes each stream with its counters.
    ///
    /// With many streams, the time is that of the memory: none is looked up by name, and those of a batch are loaded at a
    /// time.
    pub fn read_all(&self, mut take: impl FnMut(&Stream, &StreamReading)) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut streams = self.streams.iter().flatten().peekable();
        while streams.peek().is_some() {
            batch.extend(streams.by_ref().take(BATCH).map(|stream| (stream, self.held_by(stream))));
            batch.iter().for_each(|(stream, held)| self.load_lines(stream, held));
            for (stream, held) in batch.drain(..) {
                take(&stream.stream, &self.read_applied(stream, held));
            }
        }
    }

    /// Loads the memory that [`Plane::read_applied`] reads. No load depends on one before, so that the CPU has many under
    /// way.
    fn load_lines(&self, stream: &AppliedStream, held: &[CounterSlot]) {
        let load = |words: &[AtomicU64]| black_box(words[0].load(Ordering::Relaxed));
        if let State::Recovery(slot) = stream.state {
            let (function, record) =
                (self.tables.recoveries.entry(slot), self.tables.recovery_records.entry(slot));
            for line in [function, record].into_iter().flat_map(|words| words.chunks(LINE)) {
                load(line);
            }
        }
        for held in held {
            load(self.tables.members.entry(held.slot));
            load(self.tables.records.entry(held.slot));
        }
        black_box(stream.members.first().map(|member| member.owner));
        black_box(stream.stream.members.first().map(|member| member.port));
        black_box(stream.stream.egress.first().map(|egress| egress.port));
    }

    /// Returns the slots with counters of a stream.
    fn held_by(&self, stream: &AppliedStream) -> &[CounterSlot] {
        self.held.get(&stream.owner).map_or(&[], Vec::as_slice)
    }

    fn read_applied(&self, stream: &AppliedStream, held: &[CounterSlot]) -> StreamReading {
        let individual = |member: &AppliedMember| match member.does.individual {
            c::NONE => None,
            slot => Some(self.read_recovery(slot, &[])),
        };
        let read =
            |member| MemberReading { input: 0, enc_errored: 0, individual: individual(member) };
        let mut members: Vec<_> = stream.members.iter().map(read).collect();
        let (mut output, mut judging) = (0, Vec::new());
        for held in held {
            let counted = self.tables.counted(held.slot);
            output += counted.output();
            for (member, reading) in stream.members.iter().zip(&mut members) {
                if held.owner == member.owner {
                    reading.input += counted.input();
                    reading.enc_errored += counted.record.enc_errored;
                }
            }
            if stream.state == State::Recovery(counted.record.recovery as u32) {
                judging.push(held.slot);
            }
        }
        let (mut generation, mut recovery) = (None, None);
        match stream.state {
            State::None => {}
            State::Generator(slot) => {
                let next = self.tables.generators.get(slot).next as u16;
                let resets = self.tables.generator_records.get(slot).resets;
                generation = Some(GenerationReading { next, resets });
            }
            State::Recovery(slot) => recovery = Some(self.read_recovery(slot, &judging)),
        }
        StreamReading { members, generation, recovery, output }
    }

    /// Returns the skew between the paths of a stream; `None`: no such stream, or it has no sequence recovery.
    pub fn read_paths(&self, name: &str) -> Option<PathsReading> {
        let stream = self.applied(name)?;
        let State::Recovery(slot) = stream.state else { return None };
        let held = self.held_by(stream);
        let members = stream.members.iter().map(|member| {
            // The present one: after a change, the former slot is still held.
            let present = held.iter().rfind(|held| held.owner == member.owner);
            present.map_or_else(Default::default, |held| {
                let frer_skew { first, greatest, behind, later } = self.tables.skews.get(held.slot);
                MemberArrivals { first, greatest, behind, later }
            })
        });
        let gap_ns = self.tables.recovery_records.get(slot).gap_ns;
        Some(PathsReading { members: members.collect(), gap_ns })
    }

    pub(super) fn applied(&self, name: &str) -> Option<&AppliedStream> {
        self.names.get(name).map(|number| self.stream(*number))
    }

    /// `members`: the slots that count frames of sequence recovery.
    fn read_recovery(&self, slot: u32, members: &[u32]) -> RecoveryReading {
        let state = RecoveryState::read(&self.tables, slot, members);
        let mut counters = state.counters();
        let shown = &self.tables.recovery_records.entry(slot)[LOST_SHOWN];
        let before = shown.load(Ordering::Relaxed);
        if counters.lost > before {
            // A packet moves the head before it is counted: one of another CPU may be between both.
            let end = Instant::now() + UNCOUNTED;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            let again = RecoveryState::read(&self.tables, slot, members).counters().lost;
            counters.lost = counters.lost.min(again);
        }
        // Around packets on other CPUs it may be read as less than before.
        counters.lost = counters.lost.max(before);
        if counters.lost != before {
            shown.store(counters.lost, Ordering::Relaxed);
        }
        RecoveryReading {
            counters,
            recov_seq_num: state.recov_seq_num(),
            take_any: state.take_any(),
        }
    }

    /// Returns the counters of a port's programs for frames that no stream counts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_port(&self, name: &str) -> Result<frer_port_counters> {
        match self.known_slot(name) {
            Some(slot) => Ok(self.tables.port_counters.get(&slot.into())?.unwrap_or_default()),
            None => Ok(Default::default()),
        }
    }

    /// Returns the frames that left by a port, and those that its driver refused. Frames that other processes
    /// redirect to its interface by XDP count as well. `None`: no such port, or they are not counted.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_output(&self, name: &str) -> Result<Option<frer_output>> {
        match (self.known_slot(name), &self.output) {
            (Some(slot), Ok(output)) if self.output_gap().is_none() => output.read(slot).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns why the output of ports is not counted.
    pub fn output_gap(&self) -> Option<&str> {
        let has = |mode| self.ports.values().any(|port| port.mode == mode);
        match &self.output {
            Err(why) => Some(why),
            Ok(output) => {
                let native = has(Mode::Native).then(|| output.gap(false)).flatten();
                native.or_else(|| has(Mode::Generic).then(|| output.gap(true)).flatten())
            }
        }
    }

    /// Resets the generator and recovery functions of a stream (frerSeqGenReset, frerSeqRcvyReset); returns
    /// false if there is no such stream.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn reset(&self, name: &str) -> Result<bool> {
        let Some(stream) = self.applied(name) else { return Ok(false) };
        let run = |op, slot| {
            let request = frer_request { op, slot, ..Default::default() };
            self.control.run(&request).map(|_| ())
        };
        let individual = stream.members.iter().map(|member| member.does.individual);
        for slot in individual.filter(|slot| *slot != c::NONE) {
            run(c::OP_RESET_RECOVERY, slot)?;
        }
        match stream.state {
            State::None => {}
            State::Generator(slot) => {
                self.share_generator(stream, slot)?;
                run(c::OP_RESET_GENERATOR, slot)?;
            }
            State::Recovery(slot) => run(c::OP_RESET_RECOVERY, slot)?,
        }
        Ok(true)
    }

    /// Sets the number of the next packet of a stream (GenSeqNum); returns false if there is no such stream, or it
    /// numbers no packets.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_number(&self, name: &str, number: u16) -> Result<bool> {
        let Some(stream) = self.applied(name) else { return Ok(false) };
        let State::Generator(slot) = stream.state else { return Ok(false) };
        self.share_generator(stream, slot)?;
        self.tables.generators.entry(slot)[0].store(number.into(), Ordering::Relaxed);
        Ok(true)
    }

    /// If a port's programs alone draw numbers of a generator: makes them use atomic additions until its next reset.
    /// The store of a number would otherwise undo the reset.
    fn share_generator(&self, stream: &AppliedStream, slot: u32) -> Result<()> {
        let keys = stream.members.iter().flat_map(|member| &member.keys);
        let ports: HashSet<u8> = keys.map(Key::port).collect();
        let exclusive = self.ports.values().filter(|port| port.has_exclusive_generators);
        if !exclusive.into_iter().any(|port| ports.contains(&port.slot)) {
            return Ok(());
        }
        let next = &self.tables.generators.entry(slot)[0];
        for _ in 0..SHARE_TRIES {
            next.fetch_or(c::GENERATOR_SHARED, Ordering::Relaxed);
            self.grace.wait(self.grace.now())?;
            // A program run that had read the former value may have stored its next one.
            if next.load(Ordering::Relaxed) & c::GENERATOR_SHARED != 0 {
                break;
            }
        }
        Ok(())
    }
}
