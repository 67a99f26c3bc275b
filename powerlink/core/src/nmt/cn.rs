//! The states of a controlled node (EPSG DS 301, 7.1.3 and 7.1.4).

use super::{Event, State};

/// The next state after an event; `None`: no change.
pub const fn next(state: State, event: Event) -> Option<State> {
    use State::{
        BasicEthernet, Initialising, NotActive, Operational, PreOperational1, PreOperational2,
        ReadyToOperate, ResetApplication, ResetCommunication, ResetConfiguration, Stopped,
    };
    Some(match (state, event) {
        (Initialising, Event::Done) => ResetApplication, // NMT_GT10
        (ResetApplication, Event::Done) => ResetCommunication, // NMT_GT11
        (ResetCommunication, Event::Done) => ResetConfiguration, // NMT_GT12
        (ResetConfiguration, Event::Done) => NotActive,  // NMT_CT1

        (from, Event::SwReset) if from.communicates() => Initialising, // NMT_GT8
        (from, Event::ResetNode) if from.communicates() => ResetApplication, // NMT_GT4
        (from, Event::ResetCommunication) if from.communicates() => ResetCommunication, // NMT_GT5
        // NMT_GT6
        (from, Event::InternalCommunicationError) if from.communicates() => ResetCommunication,
        (from, Event::ResetConfiguration) if from.communicates() => ResetConfiguration, // NMT_GT7

        (NotActive, Event::Soc | Event::Soa) => PreOperational1, // NMT_CT2
        (NotActive, Event::BasicEthernetTimeout) => BasicEthernet, // NMT_CT3
        (PreOperational1, Event::Soc) => PreOperational2,        // NMT_CT4
        (PreOperational2, Event::ReadyToOperate) => ReadyToOperate, // NMT_CT6, by NMT_CT5
        (ReadyToOperate, Event::StartNode) => Operational,       // NMT_CT7
        (PreOperational2 | ReadyToOperate | Operational, Event::StopNode) => Stopped, // NMT_CT8
        (ReadyToOperate | Operational, Event::EnterPreOperational2) => PreOperational2, // NMT_CT9
        (Stopped, Event::EnterPreOperational2) => PreOperational2, // NMT_CT10
        // NMT_CT11
        (PreOperational2 | ReadyToOperate | Operational | Stopped, Event::ErrorCondition) => {
            PreOperational1
        }
        (BasicEthernet, Event::Soc | Event::Soa) => PreOperational1, // NMT_CT12
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::*;

    const STATES: [State; 12] = [
        Off,
        Initialising,
        ResetApplication,
        ResetCommunication,
        ResetConfiguration,
        NotActive,
        PreOperational1,
        PreOperational2,
        ReadyToOperate,
        Operational,
        Stopped,
        BasicEthernet,
    ];

    /// The events of a boot, one after the other.
    #[test]
    fn boots() {
        let events = [
            (Event::Done, ResetApplication),
            (Event::Done, ResetCommunication),
            (Event::Done, ResetConfiguration),
            (Event::Done, NotActive),
            (Event::Soa, PreOperational1),
            (Event::Soc, PreOperational2),
            (Event::ReadyToOperate, ReadyToOperate),
            (Event::StartNode, Operational),
        ];
        let end = events.into_iter().fold(Initialising, |state, (event, to)| {
            assert_eq!(next(state, event), Some(to), "{state} {event:?}");
            to
        });
        assert_eq!(end, Operational);
    }

    /// Every state with every event: the transitions, and no others.
    #[test]
    fn transitions_by_event() {
        use Event::*;
        let communicating: &[State] = &STATES[5..];
        let table: [(Event, &[State]); 14] = [
            (Done, &STATES[1..5]),
            (SwReset, communicating),
            (ResetNode, communicating),
            (Event::ResetCommunication, communicating),
            (InternalCommunicationError, communicating),
            (Event::ResetConfiguration, communicating),
            (Soc, &[NotActive, PreOperational1, BasicEthernet]),
            (Soa, &[NotActive, BasicEthernet]),
            (BasicEthernetTimeout, &[NotActive]),
            (Event::ReadyToOperate, &[PreOperational2]),
            (StartNode, &[State::ReadyToOperate]),
            (StopNode, &[PreOperational2, State::ReadyToOperate, Operational]),
            (EnterPreOperational2, &[State::ReadyToOperate, Operational, Stopped]),
            (ErrorCondition, &[PreOperational2, State::ReadyToOperate, Operational, Stopped]),
        ];
        for (event, changed) in table {
            for state in STATES {
                assert_eq!(
                    next(state, event).is_some(),
                    changed.contains(&state),
                    "{state} {event:?}"
                );
            }
        }
    }

    #[test]
    fn states_have_the_codes_of_frames() {
        for state in STATES {
            assert_eq!(state.is_polled(), [0x5d, 0x6d, 0xfd].contains(&state.code().0), "{state}");
            assert!(!state.is_cyclic() || state.answers());
            assert!(!state.answers() || state.communicates());
        }
    }
}
