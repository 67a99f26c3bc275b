//! Network management: states, commands and requests (EPSG DS 301, 7.1 and 7.3).

use core::fmt;

use super::{NodeId, NodeSet};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const COMMAND: usize = 4;
    /// In a request; reserved in a command.
    pub(super) const TARGET: usize = 5;
    pub(super) const DATA: usize = 6;
}

/// Octets before the data of a command or request.
pub(super) const HEADER_LEN: usize = field::DATA;

const COMMAND: &str = "POWERLINK NMTCommand";
const REQUEST: &str = "POWERLINK NMTRequest";

/// State of a node in frames. Managing and controlled nodes use the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NmtState(pub u8);

impl NmtState {
    /// The node is off.
    pub const OFF: NmtState = NmtState(0);
    /// The node initializes its hardware and software.
    pub const INITIALISING: NmtState = NmtState(0x19);
    /// The node sets its application to defaults.
    pub const RESET_APPLICATION: NmtState = NmtState(0x29);
    /// The node sets its communication to defaults.
    pub const RESET_COMMUNICATION: NmtState = NmtState(0x39);
    /// The node applies its configuration.
    pub const RESET_CONFIGURATION: NmtState = NmtState(0x79);
    /// The node listens without sending.
    pub const NOT_ACTIVE: NmtState = NmtState(0x1c);
    /// No managing node is active: the node uses standard Ethernet.
    pub const BASIC_ETHERNET: NmtState = NmtState(0x1e);
    /// Reduced cycle: asynchronous phases only.
    pub const PRE_OPERATIONAL_1: NmtState = NmtState(0x1d);
    /// Isochronous cycle without valid process data.
    pub const PRE_OPERATIONAL_2: NmtState = NmtState(0x5d);
    /// Configured and ready to start.
    pub const READY_TO_OPERATE: NmtState = NmtState(0x6d);
    /// Process data are valid.
    pub const OPERATIONAL: NmtState = NmtState(0xfd);
    /// The node is no longer polled.
    pub const STOPPED: NmtState = NmtState(0x4d);
}

impl fmt::Display for NmtState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            NmtState::OFF => "OFF",
            NmtState::INITIALISING => "INITIALISING",
            NmtState::RESET_APPLICATION => "RESET_APPLICATION",
            NmtState::RESET_COMMUNICATION => "RESET_COMMUNICATION",
            NmtState::RESET_CONFIGURATION => "RESET_CONFIGURATION",
            NmtState::NOT_ACTIVE => "NOT_ACTIVE",
            NmtState::BASIC_ETHERNET => "BASIC_ETHERNET",
            NmtState::PRE_OPERATIONAL_1 => "PRE_OPERATIONAL_1",
            NmtState::PRE_OPERATIONAL_2 => "PRE_OPERATIONAL_2",
            NmtState::READY_TO_OPERATE => "READY_TO_OPERATE",
            NmtState::OPERATIONAL => "OPERATIONAL",
            NmtState::STOPPED => "STOPPED",
            NmtState(other) => return write!(f, "state {other:#04x}"),
        })
    }
}

/// The id of an NMT command, or of a request for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NmtCommandId(pub u8);

/// Names of assigned commands, for the constants and for [`fmt::Display`].
macro_rules! commands {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal;)*) => {
        impl NmtCommandId {
            $($(#[$doc])* pub const $constant: NmtCommandId = NmtCommandId($number);)*
        }

        impl fmt::Display for NmtCommandId {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(NmtCommandId::$constant => f.write_str($name),)*
                    NmtCommandId(other) => write!(f, "command {other:#04x}"),
                }
            }
        }
    };
}

commands! {
    /// To OPERATIONAL.
    START_NODE = 0x21 "StartNode";
    /// To STOPPED.
    STOP_NODE = 0x22 "StopNode";
    /// To PRE_OPERATIONAL_2.
    ENTER_PRE_OPERATIONAL_2 = 0x23 "EnterPreOperational2";
    /// To READY_TO_OPERATE once the application is ready.
    ENABLE_READY_TO_OPERATE = 0x24 "EnableReadyToOperate";
    /// To RESET_APPLICATION.
    RESET_NODE = 0x28 "ResetNode";
    /// To RESET_COMMUNICATION.
    RESET_COMMUNICATION = 0x29 "ResetCommunication";
    /// To RESET_CONFIGURATION.
    RESET_CONFIGURATION = 0x2a "ResetConfiguration";
    /// To INITIALISING.
    SW_RESET = 0x2b "SwReset";
    /// A managing node passes control to another one (EPSG DS 302-A).
    GO_TO_STANDBY = 0x2c "GoToStandby";
    /// StartNode for a list of nodes.
    START_NODE_EX = 0x41 "StartNodeEx";
    /// StopNode for a list of nodes.
    STOP_NODE_EX = 0x42 "StopNodeEx";
    /// EnterPreOperational2 for a list of nodes.
    ENTER_PRE_OPERATIONAL_2_EX = 0x43 "EnterPreOperational2Ex";
    /// EnableReadyToOperate for a list of nodes.
    ENABLE_READY_TO_OPERATE_EX = 0x44 "EnableReadyToOperateEx";
    /// ResetNode for a list of nodes.
    RESET_NODE_EX = 0x48 "ResetNodeEx";
    /// ResetCommunication for a list of nodes.
    RESET_COMMUNICATION_EX = 0x49 "ResetCommunicationEx";
    /// ResetConfiguration for a list of nodes.
    RESET_CONFIGURATION_EX = 0x4a "ResetConfigurationEx";
    /// SwReset for a list of nodes.
    SW_RESET_EX = 0x4b "SwResetEx";
    /// Sets a node's host name.
    NET_HOST_NAME_SET = 0x62 "NetHostNameSet";
    /// Requests a new address resolution of a node's IP address.
    FLUSH_ARP_ENTRY = 0x63 "FlushArpEntry";
    /// Nodes of the configuration.
    PUBLISH_CONFIGURED_NODES = 0x80 "PublishConfiguredNodes";
    /// Identified nodes.
    PUBLISH_ACTIVE_NODES = 0x90 "PublishActiveNodes";
    /// Nodes in PRE_OPERATIONAL_1.
    PUBLISH_PRE_OPERATIONAL_1 = 0x91 "PublishPreOperational1";
    /// Nodes in PRE_OPERATIONAL_2.
    PUBLISH_PRE_OPERATIONAL_2 = 0x92 "PublishPreOperational2";
    /// Nodes in READY_TO_OPERATE.
    PUBLISH_READY_TO_OPERATE = 0x93 "PublishReadyToOperate";
    /// Nodes in OPERATIONAL.
    PUBLISH_OPERATIONAL = 0x94 "PublishOperational";
    /// Nodes in STOPPED.
    PUBLISH_STOPPED = 0x95 "PublishStopped";
    /// The state of every node.
    PUBLISH_NODE_STATES = 0x96 "PublishNodeStates";
    /// Nodes with new errors.
    PUBLISH_EMERGENCY_NEW = 0xa0 "PublishEmergencyNew";
    /// Date and time.
    PUBLISH_TIME = 0xb0 "PublishTime";
    /// Requests that the managing node identifies a node (request only).
    IDENT_REQUEST = 0x01 "IdentRequest";
    /// Requests a node's status from the managing node (request only).
    STATUS_REQUEST = 0x02 "StatusRequest";
    /// A request for an unknown service.
    INVALID_SERVICE = 0xff "InvalidService";
}

impl NmtCommandId {
    /// Returns the plain command of an extended one.
    pub const fn plain(self) -> Option<NmtCommandId> {
        match self.0 {
            0x41..=0x44 | 0x48..=0x4b => Some(NmtCommandId(self.0 - 0x20)),
            _ => None,
        }
    }

    /// Returns the extended form of a plain state command, with a list of nodes.
    pub const fn extended(self) -> Option<NmtCommandId> {
        match self.0 {
            0x21..=0x24 | 0x28..=0x2b => Some(NmtCommandId(self.0 + 0x20)),
            _ => None,
        }
    }
}

/// A command of the managing node to the destination of the message, or to the nodes of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NmtCommand<'a> {
    /// The command.
    pub command: NmtCommandId,
    /// The data of the command, and the padding after it.
    pub data: &'a [u8],
}

impl<'a> NmtCommand<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, data) = split::<HEADER_LEN>(COMMAND, octets)?;
        Ok(NmtCommand { command: NmtCommandId(header[field::COMMAND]), data })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        emit(COMMAND, buffer, self.command, 0, self.data)
    }

    /// Returns the nodes of an extended command, or of one that publishes a list of nodes.
    ///
    /// # Errors
    /// The list is truncated.
    pub fn nodes(&self) -> Result<NodeSet, TruncationError> {
        split(COMMAND, self.data).map(|(set, _)| NodeSet(*set))
    }

    /// Returns the plain command for a node when addressed to `destination`; `None`: it is for other nodes.
    ///
    /// # Errors
    /// The list of an extended command is truncated.
    pub fn to(
        &self,
        node: NodeId,
        destination: NodeId,
    ) -> Result<Option<NmtCommandId>, TruncationError> {
        if destination != node && destination != NodeId::BROADCAST {
            return Ok(None);
        }
        match self.command.plain() {
            Some(plain) => Ok(self.nodes()?.contains(node).then_some(plain)),
            None => Ok(Some(self.command)),
        }
    }
}

impl fmt::Display for NmtCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = self.command;
        write!(f, "NMTCommand {command}")?;
        match (self.nodes(), self.time_of_day()) {
            (Ok(nodes), _) if command.plain().is_some() || command.publishes_nodes() => {
                write!(f, " {nodes:?}")
            }
            (_, Ok(time)) if command == NmtCommandId::PUBLISH_TIME => write!(f, " {time}"),
            _ => Ok(()),
        }
    }
}

/// A node's request for a command of the managing node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NmtRequest<'a> {
    /// The command.
    pub command: NmtCommandId,
    /// The target node.
    pub target: NodeId,
    /// The data of the command, and the padding after it.
    pub data: &'a [u8],
}

impl<'a> NmtRequest<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, data) = split::<HEADER_LEN>(REQUEST, octets)?;
        Ok(NmtRequest {
            command: NmtCommandId(header[field::COMMAND]),
            target: NodeId(header[field::TARGET]),
            data,
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        emit(REQUEST, buffer, self.command, self.target.0, self.data)
    }
}

impl fmt::Display for NmtRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NMTRequest {} for {}", self.command, self.target)
    }
}

fn emit(
    what: &'static str,
    buffer: &mut [u8],
    command: NmtCommandId,
    target: u8,
    data: &[u8],
) -> Result<(), EmitError> {
    let (needed, len) = (HEADER_LEN + data.len(), buffer.len());
    buffer
        .get_mut(field::DATA..needed)
        .ok_or(EmitError::NoRoom { what, needed, len })?
        .copy_from_slice(data);
    let header = room::<HEADER_LEN>(what, buffer)?;
    header[field::COMMAND] = command.0;
    header[field::TARGET] = target;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_extended_commands() {
        let extended = (0..=255).map(NmtCommandId).filter_map(|id| id.extended());
        assert!(extended.eq([0x41, 0x42, 0x43, 0x44, 0x48, 0x49, 0x4a, 0x4b].map(NmtCommandId)));
        for id in (0..=255).map(NmtCommandId) {
            assert_eq!(id.extended().and_then(NmtCommandId::plain), id.extended().map(|_| id));
        }
        assert_eq!(NmtCommandId::RESET_NODE_EX.plain(), Some(NmtCommandId::RESET_NODE));
        assert_eq!(NmtCommandId(0x99).to_string(), "command 0x99");
    }

    use std::string::ToString;

    #[test]
    fn commands_apply_to_their_destination() {
        let (one, two) = (NodeId(1), NodeId(2));
        let plain = NmtCommand { command: NmtCommandId::START_NODE, data: &[] };
        assert_eq!(plain.to(one, one), Ok(Some(NmtCommandId::START_NODE)));
        assert_eq!(plain.to(one, NodeId::BROADCAST), Ok(Some(NmtCommandId::START_NODE)));
        assert_eq!(plain.to(one, two), Ok(None));
        let nodes: NodeSet = [one].into_iter().collect();
        let listed = NmtCommand { command: NmtCommandId::STOP_NODE_EX, data: &nodes.0 };
        assert_eq!(listed.to(one, NodeId::BROADCAST), Ok(Some(NmtCommandId::STOP_NODE)));
        assert_eq!(listed.to(two, NodeId::BROADCAST), Ok(None));
        assert_eq!(listed.to_string(), "NMTCommand StopNodeEx {1}");
        let cut = NmtCommand { data: &nodes.0[..31], ..listed };
        assert!(cut.to(one, NodeId::BROADCAST).is_err());
    }
}
