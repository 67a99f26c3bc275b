//! The states of a managing node (EPSG DS 301, 7.1.3).

use super::State;

/// What can change a managing node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MnEvent {
    /// The node is turned on.
    Start,
    /// No other managing node was heard (0x1F89/1).
    Alone,
    /// All mandatory nodes are identified and configured, and it took long enough (0x1F89/3).
    Configured,
    /// All mandatory nodes are in READY_TO_OPERATE.
    Ready,
    /// All mandatory nodes answer their polls.
    Communicating,
    /// A mandatory node was lost.
    Lost,
    /// The cycle took too long too often (0x1C02).
    CycleExceeded,
}

/// The state that an event leads to, where it changes the state.
pub const fn next(state: State, event: MnEvent) -> Option<State> {
    use State::{NotActive, Off, Operational, PreOperational1, PreOperational2, ReadyToOperate};
    Some(match (state, event) {
        (Off, MnEvent::Start) => NotActive,             // NMT_MT1
        (NotActive, MnEvent::Alone) => PreOperational1, // NMT_MT2
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
