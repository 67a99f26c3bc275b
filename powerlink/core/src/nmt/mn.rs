//! The states of a managing node (EPSG DS 301, 7.1.3).

use core::fmt;

use super::State;

/// An event that can change a managing node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MnEvent {
    /// The node is turned on.
    Start,
    /// No other managing node was heard (0x1F89/1).
    Alone,
    /// The same, and the network must stay unmanaged (0x1F80, bit 13).
    AloneInBasicEthernet,
    /// The application resets the node.
    Reset,
    /// All mandatory nodes are identified and configured, and the minimum time has passed (0x1F89/3).
    Configured,
    /// All mandatory nodes are in READY_TO_OPERATE.
    Ready,
    /// All mandatory nodes answer their polls.
    Communicating,
    /// A mandatory node was lost.
    Lost,
    /// The cycle was exceeded too often (0x1C02).
    CycleExceeded,
}

impl fmt::Display for MnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MnEvent::Start => "start",
            MnEvent::Alone => "no other managing node",
            MnEvent::AloneInBasicEthernet => "no other managing node, basic Ethernet",
            MnEvent::Reset => "reset",
            MnEvent::Configured => "mandatory nodes are configured",
            MnEvent::Ready => "mandatory nodes are ready",
            MnEvent::Communicating => "mandatory nodes respond to polls",
            MnEvent::Lost => "mandatory node lost",
            MnEvent::CycleExceeded => "cycle exceeded",
        })
    }
}

/// The next state after an event; `None`: no change.
pub const fn next(state: State, event: MnEvent) -> Option<State> {
    use State::{
        BasicEthernet, NotActive, Off, Operational, PreOperational1, PreOperational2,
        ReadyToOperate,
    };
    Some(match (state, event) {
        (Off, MnEvent::Start) => NotActive, // NMT_MT1
        // NMT_GT4 to NMT_GT8, and through the states that need no event.
        (
            BasicEthernet | NotActive | PreOperational1 | PreOperational2 | ReadyToOperate
            | Operational,
            MnEvent::Reset,
        ) => NotActive,
        (NotActive, MnEvent::Alone) => PreOperational1, // NMT_MT2
        (NotActive, MnEvent::AloneInBasicEthernet) => BasicEthernet, // NMT_MT7
        (PreOperational1, MnEvent::Configured) => PreOperational2, // NMT_MT3
        (PreOperational2, MnEvent::Ready) => ReadyToOperate, // NMT_MT4
        (ReadyToOperate, MnEvent::Communicating) => Operational, // NMT_MT5
        // NMT_MT6
        (
            PreOperational2 | ReadyToOperate | Operational,
            MnEvent::Lost | MnEvent::CycleExceeded,
        ) => PreOperational1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::*;

    /// Every state with every event: the transitions, and no others.
    #[test]
    fn transitions_by_event() {
        let states = [
            Off,
            NotActive,
            BasicEthernet,
            PreOperational1,
            PreOperational2,
            ReadyToOperate,
            Operational,
        ];
        let table: [(MnEvent, &[State], State); 9] = [
            (MnEvent::Start, &[Off], NotActive),
            (MnEvent::Alone, &[NotActive], PreOperational1),
            (MnEvent::AloneInBasicEthernet, &[NotActive], BasicEthernet),
            (MnEvent::Reset, &states[1..], NotActive),
            (MnEvent::Configured, &[PreOperational1], PreOperational2),
            (MnEvent::Ready, &[PreOperational2], ReadyToOperate),
            (MnEvent::Communicating, &[ReadyToOperate], Operational),
            (MnEvent::Lost, &states[4..], PreOperational1),
            (MnEvent::CycleExceeded, &states[4..], PreOperational1),
        ];
        for (event, from, to) in table {
            for state in states {
                let expected = from.contains(&state).then_some(to);
                assert_eq!(next(state, event), expected, "{state} {event:?}");
            }
        }
    }
}
