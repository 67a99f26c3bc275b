//! Network management: the states of a node (EPSG DS 301, 7.1).

mod cn;
mod mn;

use core::fmt;

use onbeat_wire::powerlink::{NmtCommandId, NmtState};

pub use cn::next;
pub use mn::{MnEvent, next as next_mn};

/// State of a node. The codes in frames are the same for managing and controlled nodes; only a controlled node
/// can be Stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// NMT_GS_OFF.
    Off,
    /// NMT_GS_INITIALISING.
    Initialising,
    /// NMT_GS_RESET_APPLICATION.
    ResetApplication,
    /// NMT_GS_RESET_COMMUNICATION.
    ResetCommunication,
    /// NMT_GS_RESET_CONFIGURATION.
    ResetConfiguration,
    /// NMT_CS_NOT_ACTIVE, NMT_MS_NOT_ACTIVE.
    NotActive,
    /// NMT_CS_PRE_OPERATIONAL_1, NMT_MS_PRE_OPERATIONAL_1.
    PreOperational1,
    /// NMT_CS_PRE_OPERATIONAL_2, NMT_MS_PRE_OPERATIONAL_2.
    PreOperational2,
    /// NMT_CS_READY_TO_OPERATE, NMT_MS_READY_TO_OPERATE.
    ReadyToOperate,
    /// NMT_CS_OPERATIONAL, NMT_MS_OPERATIONAL.
    Operational,
    /// NMT_CS_STOPPED.
    Stopped,
    /// NMT_CS_BASIC_ETHERNET, NMT_MS_BASIC_ETHERNET.
    BasicEthernet,
}

impl State {
    /// The code in frames and in 0x1F8C.
    pub const fn code(self) -> NmtState {
        match self {
            State::Off => NmtState::OFF,
            State::Initialising => NmtState::INITIALISING,
            State::ResetApplication => NmtState::RESET_APPLICATION,
            State::ResetCommunication => NmtState::RESET_COMMUNICATION,
            State::ResetConfiguration => NmtState::RESET_CONFIGURATION,
            State::NotActive => NmtState::NOT_ACTIVE,
            State::PreOperational1 => NmtState::PRE_OPERATIONAL_1,
            State::PreOperational2 => NmtState::PRE_OPERATIONAL_2,
            State::ReadyToOperate => NmtState::READY_TO_OPERATE,
            State::Operational => NmtState::OPERATIONAL,
            State::Stopped => NmtState::STOPPED,
            State::BasicEthernet => NmtState::BASIC_ETHERNET,
        }
    }

    /// NMT_GS_COMMUNICATING: the node listens to the network.
    pub const fn communicates(self) -> bool {
        !matches!(
            self,
            State::Off
                | State::Initialising
                | State::ResetApplication
                | State::ResetCommunication
                | State::ResetConfiguration
        )
    }

    /// The node answers requests of the asynchronous phase.
    pub const fn answers(self) -> bool {
        self.communicates() && !matches!(self, State::NotActive | State::BasicEthernet)
    }

    /// The node follows the isochronous cycle.
    pub const fn is_cyclic(self) -> bool {
        self.is_polled() || matches!(self, State::Stopped)
    }

    /// The node answers polls.
    pub const fn is_polled(self) -> bool {
        matches!(self, State::PreOperational2 | State::ReadyToOperate | State::Operational)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}

/// An event that can change a controlled node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A state that needs no event is completed.
    Done,
    /// NMTSwReset.
    SwReset,
    /// NMTResetNode.
    ResetNode,
    /// NMTResetCommunication.
    ResetCommunication,
    /// A communication error inside the node.
    InternalCommunicationError,
    /// NMTResetConfiguration.
    ResetConfiguration,
    /// A SoC was received.
    Soc,
    /// A SoA was received.
    Soa,
    /// No managing node was heard (0x1F99/1).
    BasicEthernetTimeout,
    /// NMTEnableReadyToOperate was received, and the application is ready.
    ReadyToOperate,
    /// NMTStartNode.
    StartNode,
    /// NMTStopNode.
    StopNode,
    /// NMTEnterPreOperational2.
    EnterPreOperational2,
    /// A threshold of an error counter was reached.
    ErrorCondition,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Event::Done => "state completed",
            Event::SwReset => "NMTSwReset",
            Event::ResetNode => "NMTResetNode",
            Event::ResetCommunication => "NMTResetCommunication",
            Event::InternalCommunicationError => "internal communication error",
            Event::ResetConfiguration => "NMTResetConfiguration",
            Event::Soc => "SoC",
            Event::Soa => "SoA",
            Event::BasicEthernetTimeout => "no managing node",
            Event::ReadyToOperate => "NMTEnableReadyToOperate",
            Event::StartNode => "NMTStartNode",
            Event::StopNode => "NMTStopNode",
            Event::EnterPreOperational2 => "NMTEnterPreOperational2",
            Event::ErrorCondition => "error threshold reached",
        })
    }
}

impl Event {
    /// The event of a plain state command; NMTEnableReadyToOperate has none, since it only permits a transition
    /// of the application.
    pub const fn from_command(command: NmtCommandId) -> Option<Event> {
        Some(match command {
            NmtCommandId::START_NODE => Event::StartNode,
            NmtCommandId::STOP_NODE => Event::StopNode,
            NmtCommandId::ENTER_PRE_OPERATIONAL_2 => Event::EnterPreOperational2,
            NmtCommandId::RESET_NODE => Event::ResetNode,
            NmtCommandId::RESET_COMMUNICATION => Event::ResetCommunication,
            NmtCommandId::RESET_CONFIGURATION => Event::ResetConfiguration,
            NmtCommandId::SW_RESET => Event::SwReset,
            _ => return None,
        })
    }
}
