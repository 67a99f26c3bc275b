//! Data that a managing node publishes: lists of nodes, their states, date and time (EPSG DS 301, 7.3.4).

use core::fmt;

use super::octets::{array, u32_at};
use super::{NetTime, NmtCommand, NmtCommandId, NmtState, NodeId};
use crate::TruncationError;
use crate::bytes::split;

const STATES: &str = "POWERLINK NMTPublishNodeStates";
const TIME: &str = "POWERLINK NMTPublishTime";

const SECONDS_OF_DAY: u64 = 86_400;

/// Days from 1970-01-01, the epoch of [`NetTime`], to 1984-01-01, the epoch of [`TimeOfDay`].
const DAYS_TO_1984: u64 = 5_113;

/// TIME_OF_DAY: date and time in NMTPublishTime and objects of that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeOfDay {
    /// Days since 1984-01-01.
    pub days: u16,
    /// Milliseconds since midnight.
    pub milliseconds: u32,
}

impl TimeOfDay {
    /// Its length in octets.
    pub const LEN: usize = 6;

    /// Milliseconds have 28 bits; the higher bits are reserved.
    const MILLISECONDS: u32 = (1 << 28) - 1;

    /// Converts to the wire format.
    pub fn to_octets(self) -> [u8; Self::LEN] {
        let [a, b, c, d] = (self.milliseconds & Self::MILLISECONDS).to_le_bytes();
        let [e, f] = self.days.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Converts from the wire format.
    pub fn from_octets(octets: &[u8; Self::LEN]) -> Self {
        let milliseconds = u32_at(octets, 0) & Self::MILLISECONDS;
        TimeOfDay { days: u16::from_le_bytes(array(octets, 4)), milliseconds }
    }

    /// Returns the network time; `None` after 2106, where its seconds overflow.
    pub fn net_time(self) -> Option<NetTime> {
        let days = DAYS_TO_1984 + u64::from(self.days);
        let seconds = days * SECONDS_OF_DAY + u64::from(self.milliseconds / 1000);
        let nanoseconds = self.milliseconds % 1000 * 1_000_000;
        Some(NetTime { seconds: u32::try_from(seconds).ok()?, nanoseconds })
    }
}

impl From<NetTime> for TimeOfDay {
    /// Converts with a resolution of milliseconds; times before 1984 become the start of 1984.
    fn from(time: NetTime) -> Self {
        let seconds = u64::from(time.seconds);
        let Some(days) = (seconds / SECONDS_OF_DAY).checked_sub(DAYS_TO_1984) else {
            return TimeOfDay::default();
        };
        let second = (seconds % SECONDS_OF_DAY) as u32;
        // 32 bits of seconds are at most 44,597 days after 1984.
        TimeOfDay {
            days: days as u16,
            milliseconds: second * 1000 + time.nanoseconds.min(999_999_999) / 1_000_000,
        }
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "day {} since 1984, {} ms", self.days, self.milliseconds)
    }
}

/// The state of every node: an octet for each, starting with node 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeStates(pub [u8; Self::LEN]);

impl NodeStates {
    /// Its length in octets: nodes 1 to 240; the managing node is the last.
    pub const LEN: usize = 240;

    /// All nodes are off.
    pub const OFF: NodeStates = NodeStates([NmtState::OFF.0; Self::LEN]);

    /// Returns the state of a node, 1 to 240.
    pub fn get(&self, node: NodeId) -> Option<NmtState> {
        let place = usize::from(node.0).checked_sub(1)?;
        self.0.get(place).copied().map(NmtState)
    }

    /// Sets the state of a node; other ids are ignored.
    pub fn set(&mut self, node: NodeId, state: NmtState) {
        let place = usize::from(node.0).checked_sub(1).and_then(|place| self.0.get_mut(place));
        if let Some(octet) = place {
            *octet = state.0;
        }
    }

    /// Returns every node and its state.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, NmtState)> + '_ {
        (1..).map(NodeId).zip(self.0.iter().copied().map(NmtState))
    }
}

impl NmtCommandId {
    /// Returns whether the command publishes a list of nodes.
    pub const fn publishes_nodes(self) -> bool {
        matches!(
            self,
            NmtCommandId::PUBLISH_CONFIGURED_NODES
                | NmtCommandId::PUBLISH_ACTIVE_NODES
                | NmtCommandId::PUBLISH_PRE_OPERATIONAL_1
                | NmtCommandId::PUBLISH_PRE_OPERATIONAL_2
                | NmtCommandId::PUBLISH_READY_TO_OPERATE
                | NmtCommandId::PUBLISH_OPERATIONAL
                | NmtCommandId::PUBLISH_STOPPED
                | NmtCommandId::PUBLISH_EMERGENCY_NEW
        )
    }

    /// Returns whether the command publishes data to the whole network instead of changing states.
    pub const fn publishes(self) -> bool {
        self.publishes_nodes()
            || matches!(self, NmtCommandId::PUBLISH_NODE_STATES | NmtCommandId::PUBLISH_TIME)
    }
}

impl NmtCommand<'_> {
    /// Returns the states of NMTPublishNodeStates.
    ///
    /// # Errors
    /// They are truncated.
    pub fn node_states(&self) -> Result<NodeStates, TruncationError> {
        split(STATES, self.data).map(|(states, _)| NodeStates(*states))
    }

    /// Returns date and time of NMTPublishTime.
    ///
    /// # Errors
    /// They are truncated.
    pub fn time_of_day(&self) -> Result<TimeOfDay, TruncationError> {
        split(TIME, self.data).map(|(time, _)| TimeOfDay::from_octets(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn a_date_that_is_known() {
        // `date -u -d 2026-11-22T08:00:00.250Z +%s` and days from `date -d 1984-01-01`.
        let time = NetTime { seconds: 1_795_334_400, nanoseconds: 250_999_999 };
        let day = TimeOfDay { days: 15_666, milliseconds: 28_800_250 };
        assert_eq!(TimeOfDay::from(time), day);
        assert_eq!(day.net_time(), Some(NetTime { nanoseconds: 250_000_000, ..time }));
        assert_eq!(day.to_octets(), [0xfa, 0x74, 0xb7, 0x01, 0x32, 0x3d]);
        let reserved = TimeOfDay::from_octets(&[0xfa, 0x74, 0xb7, 0xf1, 0x32, 0x3d]);
        assert_eq!(reserved, day, "four bits are reserved");
    }

    #[test]
    fn times_out_of_range() {
        assert_eq!(
            TimeOfDay::from(NetTime { seconds: 441_763_199, nanoseconds: 9 }),
            TimeOfDay::default()
        );
        let first = TimeOfDay::from(NetTime { seconds: 441_763_200 + 86_400, nanoseconds: 0 });
        assert_eq!(first, TimeOfDay { days: 1, milliseconds: 0 });
        assert_eq!(TimeOfDay { days: u16::MAX, milliseconds: 0 }.net_time(), None);
    }

    proptest! {
        #[test]
        fn every_millisecond_comes_back(seconds in 441_763_200_u32.., milliseconds in 0..1000_u32) {
            let time = NetTime { seconds, nanoseconds: milliseconds * 1_000_000 };
            let day = TimeOfDay::from(time);
            prop_assert_eq!(TimeOfDay::from_octets(&day.to_octets()), day);
            prop_assert_eq!(day.net_time(), Some(time));
        }

        #[test]
        fn octets_of_any_kind_are_a_time(octets in any::<[u8; TimeOfDay::LEN]>()) {
            let day = TimeOfDay::from_octets(&octets);
            prop_assert_eq!(TimeOfDay::from_octets(&day.to_octets()), day);
            let _ = day.net_time();
        }
    }

    #[test]
    fn states_are_those_of_1_to_240() {
        let mut states = NodeStates::OFF;
        for node in (0..=255).map(NodeId) {
            states.set(node, NmtState(node.0));
        }
        assert_eq!((states.0[0], states.0[239]), (1, 240));
        assert_eq!((states.get(NodeId::NONE), states.get(NodeId(241))), (None, None));
        assert!(states.iter().all(|(node, state)| node.0 == state.0));
        assert_eq!(states.iter().count(), NodeStates::LEN);
        let command = NmtCommand { command: NmtCommandId::PUBLISH_NODE_STATES, data: &states.0 };
        assert_eq!(command.node_states(), Ok(states));
        assert!(NmtCommand { data: &states.0[..239], ..command }.node_states().is_err());
        assert!(NmtCommand { data: &[0; 5], ..command }.time_of_day().is_err());
    }

    #[test]
    fn services_that_publish() {
        let all: Vec<u8> = (0..=255).filter(|id| NmtCommandId(*id).publishes()).collect();
        assert_eq!(all, [0x80, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0xa0, 0xb0]);
    }
}
