//! Counters of the node, and resets.

use onbeat_frer::counters::Counters;
use onbeat_frer::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};

use super::{AppliedStream, Plane};
use crate::abi::constants as c;
use crate::abi::{frer_port_counters, frer_recovery, frer_recovery_record, frer_request};
use crate::compile::State;
use crate::error::Result;

impl Plane {
    /// Returns the counters of a stream; `None`: no such stream.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_stream(&self, name: &str) -> Result<Option<StreamReading>> {
        let Some(stream) = self.applied(name) else { return Ok(None) };
        let held = self.held.get(&stream.owner).map_or(&[][..], Vec::as_slice);
        let mut members = Vec::new();
        for member in &stream.members {
            let (mut input, mut enc_errored) = (0, 0);
            for held in held.iter().filter(|held| held.owner == member.owner) {
                input += self.tables.members.get(held.slot).input;
                enc_errored += self.tables.records.get(held.slot).enc_errored;
            }
            let individual = match member.does.individual {
                c::NONE => None,
                slot => Some(self.read_recovery(slot)?),
            };
            members.push(MemberReading { input, enc_errored, individual });
        }
        let output = held.iter().map(|held| self.tables.output(held.slot)).sum();
        let (mut generation, mut recovery) = (None, None);
        match stream.state {
            State::None => {}
            State::Generator(slot) => {
                let next = self.tables.generators.get(slot).next as u16;
                let resets = self.tables.generator_records.get(slot).resets;
                generation = Some(GenerationReading { next, resets });
            }
            State::Recovery(slot) => recovery = Some(self.read_recovery(slot)?),
        }
        Ok(Some(StreamReading { members, generation, recovery, output }))
    }

    pub(super) fn applied(&self, name: &str) -> Option<&AppliedStream> {
        self.names.get(name).map(|number| self.stream(*number))
    }

    fn read_recovery(&self, slot: u32) -> Result<RecoveryReading> {
        let record = self.tables.recovery_records.get(slot);
        let r = self.tables.recoveries.get_locked(&slot)?.unwrap_or_default();
        Ok(RecoveryReading {
            counters: counters(&r, &record),
            recov_seq_num: r.recov_seq_num,
            take_any: r.take_any != 0,
        })
    }

    /// Returns the counters of a port's programs for frames that no stream counts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_port(&self, name: &str) -> Result<frer_port_counters> {
        match self.ports.get(name) {
            Some(port) => Ok(self.tables.port_counters.get(&port.slot.into())?.unwrap_or_default()),
            None => Ok(Default::default()),
        }
    }

    /// Resets the generator and recovery functions of a stream (frerSeqGenReset, frerSeqRcvyReset); returns
    /// false if there is no such stream.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn reset(&self, name: &str) -> Result<bool> {
        let Some(stream) = self.applied(name) else { return Ok(false) };
        let run = |op, slot| self.control.run(&frer_request { op, slot, ..Default::default() });
        let individual = stream.members.iter().map(|member| member.does.individual);
        for slot in individual.filter(|slot| *slot != c::NONE) {
            run(c::OP_RESET_RECOVERY, slot)?;
        }
        match stream.state {
            State::None => {}
            State::Generator(slot) => run(c::OP_RESET_GENERATOR, slot)?,
            State::Recovery(slot) => run(c::OP_RESET_RECOVERY, slot)?,
        }
        Ok(true)
    }
}

/// Returns the counters of a recovery function. All are listed here and in [`add`]: the compiler detects a
/// missing one.
fn counters(r: &frer_recovery, record: &frer_recovery_record) -> Counters {
    Counters {
        out_of_order: record.out_of_order,
        rogue: record.rogue,
        passed: r.passed,
        discarded: r.discarded,
        lost: record.lost,
        lost_before_first: record.lost_before_first,
        tagless: record.tagless,
        resets: record.resets,
        // Counted by the daemon.
        latent_error_resets: 0,
    }
}

/// Adds to the counters of a recovery function.
pub(super) fn add(r: &mut frer_recovery, record: &mut frer_recovery_record, more: &Counters) {
    let Counters {
        out_of_order,
        rogue,
        passed,
        discarded,
        lost,
        lost_before_first,
        tagless,
        resets,
        latent_error_resets: _,
    } = counters(r, record) + *more;
    *r = frer_recovery { passed, discarded, ..*r };
    *record = frer_recovery_record {
        out_of_order,
        rogue,
        lost,
        tagless,
        resets,
        lost_before_first,
        ..*record
    };
}
