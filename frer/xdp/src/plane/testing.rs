//! Access for tests: sets counters to large values without sending frames, and inspects programs.

use libbpf_rs::ProgramMut;
use onbeat_frer::counters::Counters;

use super::Plane;
use super::recovery;
use crate::abi::constants as c;
use crate::compile::State;

impl Plane {
    /// Returns the program on a port's interface, and the one for replicas that leave by it, of a plane
    /// opened with `test_clock`.
    #[doc(hidden)]
    pub fn programs(&self, name: &str) -> Option<(ProgramMut<'_>, ProgramMut<'_>)> {
        let port = self.ports.get(name)?;
        Some((port.programs.ingress(), port.programs.egress_test()))
    }

    /// Returns the program for copies on LAN B, of a port of the link redundancy entity.
    #[doc(hidden)]
    pub fn lan_b_program(&self, name: &str) -> Option<ProgramMut<'_>> {
        Some(self.ports.get(name)?.programs.lan_b_test())
    }

    /// Returns the program on a port's interface.
    pub(crate) fn ingress(&self, name: &str) -> Option<ProgramMut<'_>> {
        Some(self.ports.get(name)?.programs.ingress())
    }

    /// Returns the control program.
    #[doc(hidden)]
    pub fn control_program(&self) -> ProgramMut<'_> {
        self.control.program()
    }

    /// Adds to the counters of a stream's sequence recovery, or of a member's individual recovery. Not for
    /// planes with traffic: concurrent increments may be lost.
    ///
    /// # Panics
    /// There is no such function.
    #[doc(hidden)]
    pub fn add_to_counters(&self, stream: &str, member: Option<usize>, more: &Counters) {
        let applied = self.applied(stream).expect("a stream of this name");
        let slot = match (member, applied.state) {
            (Some(index), _) => applied.members[index].does.individual,
            (None, State::Recovery(slot)) => slot,
            (None, _) => c::NONE,
        };
        assert_ne!(slot, c::NONE, "no such recovery function");
        let mut recovery = self.tables.recoveries.get(slot);
        let mut record = self.tables.recovery_records.get(slot);
        recovery::add(&mut recovery, &mut record, more);
        self.tables.recoveries.set(slot, &recovery);
        self.tables.recovery_records.set(slot, &record);
    }
}
