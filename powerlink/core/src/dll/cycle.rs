//! The isochronous cycle of a controlled node (EPSG DS 301, 4.2.4.5: DLL_CS).

/// The expected frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cycle {
    /// DLL_CS_NON_CYCLIC: no cycle.
    #[default]
    NonCyclic,
    /// DLL_CS_WAIT_SOC: SoC of the next cycle.
    WaitSoc,
    /// DLL_CS_WAIT_PREQ: poll of this node.
    WaitPreq,
    /// DLL_CS_WAIT_SOA: SoA.
    WaitSoa,
}

/// An event of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CycleEvent {
    /// DLL_CE_SOC.
    Soc,
    /// DLL_CE_PREQ: this node was polled.
    Preq,
    /// DLL_CE_SOA.
    Soa,
    /// DLL_CE_SOC_TIMEOUT: no SoC in time (0x1006, 0x1C14).
    SocTimeout,
}

/// Lost frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Losses {
    /// SoC.
    pub soc: bool,
    /// PReq; not a loss if the node is not polled in every cycle.
    pub preq: bool,
    /// SoA.
    pub soa: bool,
}

impl Cycle {
    /// The state after an event, and the frames lost before it.
    pub const fn next(self, event: CycleEvent) -> (Cycle, Losses) {
        use Cycle::{NonCyclic, WaitPreq, WaitSoa, WaitSoc};
        use CycleEvent::{Preq, Soa, Soc, SocTimeout};
        const NONE: Losses = Losses { soc: false, preq: false, soa: false };
        match (self, event) {
            (NonCyclic | WaitSoc, Soc) => (WaitPreq, NONE),
            (NonCyclic, _) => (NonCyclic, NONE),
            (WaitPreq, Preq) => (WaitSoa, NONE),
            (WaitSoa, Soa) => (WaitSoc, NONE),

            (WaitSoc, Preq) => (WaitSoa, Losses { soc: true, ..NONE }),
            (WaitSoc, Soa) => (WaitSoc, Losses { soc: true, preq: true, ..NONE }),
            (WaitPreq, Soc) => (WaitPreq, Losses { preq: true, soa: true, ..NONE }),
            (WaitPreq, Soa) => (WaitSoc, Losses { preq: true, ..NONE }),
            (WaitSoa, Soc) => (WaitPreq, Losses { soa: true, ..NONE }),
            (WaitSoa, Preq) => (WaitSoa, Losses { soc: true, soa: true, ..NONE }),
            (WaitSoc, SocTimeout) => (WaitSoc, Losses { soc: true, ..NONE }),
            (WaitPreq, SocTimeout) => (WaitSoc, Losses { soc: true, preq: true, soa: true }),
            (WaitSoa, SocTimeout) => (WaitSoc, Losses { soc: true, soa: true, ..NONE }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Counts the losses in a number of cycles of which some frames are lost. Each loss is counted once, unless
    /// two frames in a row are lost, which looks like fewer.
    fn losses(lost: impl Fn(usize) -> bool, cycles: usize) -> [usize; 3] {
        let mut counted = [0; 3];
        let mut cycle = Cycle::NonCyclic.next(CycleEvent::Soc).0;
        let frames = [CycleEvent::Preq, CycleEvent::Soa, CycleEvent::Soc];
        for (n, event) in frames.into_iter().cycle().take(3 * cycles).enumerate() {
            if !lost(n) {
                let (next, losses) = cycle.next(event);
                cycle = next;
                counted[0] += usize::from(losses.preq);
                counted[1] += usize::from(losses.soa);
                counted[2] += usize::from(losses.soc);
            }
        }
        counted
    }

    #[test]
    fn a_cycle_without_losses() {
        assert_eq!(losses(|_| false, 1000), [0; 3]);
    }

    proptest! {
        #[test]
        fn each_frame_lost_by_itself_is_counted_once(drops in prop::collection::vec(0..1000usize, 0..200)) {
            let mut lost: Vec<usize> = drops;
            lost.sort_unstable();
            lost.dedup_by(|next, kept| *next - *kept < 2);
            let mut expected = [0; 3];
            lost.iter().for_each(|n| expected[n % 3] += 1);
            // One cycle more than the last loss, so that the cycle after it is observed.
            prop_assert_eq!(losses(|n| lost.contains(&n), 400), expected);
        }
    }

    #[test]
    fn a_time_out_ends_the_cycle_in_any_state() {
        for (cycle, losses) in [
            (Cycle::WaitSoc, Losses { soc: true, ..Losses::default() }),
            (Cycle::WaitPreq, Losses { soc: true, preq: true, soa: true }),
            (Cycle::WaitSoa, Losses { soc: true, soa: true, ..Losses::default() }),
        ] {
            assert_eq!(cycle.next(CycleEvent::SocTimeout), (Cycle::WaitSoc, losses));
        }
        let none = (Cycle::NonCyclic, Losses::default());
        assert_eq!(Cycle::NonCyclic.next(CycleEvent::SocTimeout), none);
    }
}
