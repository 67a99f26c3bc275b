//! What the node counted, and resets.

use onbeat_frer::counters::Counters;
use onbeat_frer::reading::{GenerationReading, MemberReading, RecoveryReading, StreamReading};

use super::Plane;
use crate::abi::constants as c;
use crate::abi::{frer_port_counters, frer_request};
use crate::error::Result;

impl Plane {
    /// A stream's counters; `None` where there is no such stream.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn read_stream(&self, name: &str) -> Result<Option<StreamReading>> {
        let Some(stream) = self.streams.get(name) else { return Ok(None) };
        let mut members = Vec::new();
        let mut output = self.retired_output(stream.owner);
        for member in &stream.members {
            let (mut input, mut enc_errored) = (0, 0);
            for slot in self.slots_of(member.owner, &member.keys) {
                input += self.tables.members.get(slot).input;
                enc_errored += self.tables.records.get(slot).enc_errored;
                output += self.tables.output(slot);
            }
            let individual = self.read_recovery(member.functions.individual)?;
            members.push(MemberReading { input, enc_errored, individual });
        }
        let generation = match stream.generator {
            c::NONE => None,
            slot => {
                let generator = self.tables.generators.get(&slot)?.unwrap_or_default();
                Some(GenerationReading { next: generator.next as u16, resets: generator.resets })
            }
        };
        let recovery = self.read_recovery(stream.recovery)?;
        Ok(Some(StreamReading { members, generation, recovery, output }))
    }

    fn read_recovery(&self, slot: u32) -> Result<Option<RecoveryReading>> {
        if slot == c::NONE {
            return Ok(None);
        }
        let r = self.tables.recoveries.get_locked(&slot)?.unwrap_or_default();
        Ok(Some(RecoveryReading {
            counters: Counters {
                out_of_order: r.counters.out_of_order,
                rogue: r.counters.rogue,
                passed: r.passed,
                discarded: r.discarded,
                lost: r.counters.lost,
                tagless: r.counters.tagless,
                resets: r.counters.resets,
                lost_before_first: r.counters.lost_before_first,
                ..Default::default()
            },
            recov_seq_num: r.recov_seq_num,
            take_any: r.take_any != 0,
        }))
    }

    /// What a port's programs did with frames that no stream counts.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn read_port(&self, name: &str) -> Result<frer_port_counters> {
        match self.ports.get(name) {
            Some(port) => Ok(self.tables.port_counters.get(&port.slot.into())?.unwrap_or_default()),
            None => Ok(Default::default()),
        }
    }

    /// Resets a stream's generator and recovery functions (frerSeqGenReset, frerSeqRcvyReset);
    /// false where there is no such stream.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn reset(&self, name: &str) -> Result<bool> {
        let Some(stream) = self.streams.get(name) else { return Ok(false) };
        let individual = stream.members.iter().map(|member| member.functions.individual);
        for slot in individual.chain([stream.recovery]).filter(|slot| *slot != c::NONE) {
            let op = c::OP_RESET_RECOVERY;
            self.control.run(&frer_request { op, slot, ..Default::default() })?;
        }
        if stream.generator != c::NONE {
            let (op, slot) = (c::OP_RESET_GENERATOR, stream.generator);
            self.control.run(&frer_request { op, slot, ..Default::default() })?;
        }
        Ok(true)
    }
}
