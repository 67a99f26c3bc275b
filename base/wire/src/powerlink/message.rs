//! The message: its header, and its type.

use core::fmt;

use super::{
    IdentResponse, NmtCommand, NmtRequest, NodeId, Preq, Pres, Sdo, Soa, Soc, StatusResponse,
    ident, nmt, poll, soa, soc,
};
use crate::bytes::split;
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const DESTINATION: usize = 1;
    pub(super) const SOURCE: usize = 2;
    /// In an ASnd.
    pub(super) const SERVICE: usize = 3;
    pub(super) const BEHIND_SERVICE: usize = 4;
}

/// Octets of the common header of all messages.
const HEADER_LEN: usize = field::SOURCE + 1;

const WHAT: &str = "POWERLINK message";
const ASND: &str = "POWERLINK ASnd";

/// Kinds of message. The highest bit of the octet is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Start of cycle.
    pub const SOC: MessageType = MessageType(1);
    /// Poll request.
    pub const PREQ: MessageType = MessageType(3);
    /// Poll response.
    pub const PRES: MessageType = MessageType(4);
    /// Start of asynchronous phase.
    pub const SOA: MessageType = MessageType(5);
    /// Asynchronous send.
    pub const ASND: MessageType = MessageType(6);
    /// Active managing node indication (EPSG DS 302-A).
    pub const AMNI: MessageType = MessageType(7);
}

/// The reason why octets are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageError {
    /// The message is truncated.
    Truncated(TruncationError),
    /// The message type is unknown.
    Type(MessageType),
}

impl From<TruncationError> for MessageError {
    fn from(error: TruncationError) -> Self {
        MessageError::Truncated(error)
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Truncated(error) => error.fmt(f),
            MessageError::Type(kind) => write!(f, "POWERLINK message type {} is unknown", kind.0),
        }
    }
}

impl core::error::Error for MessageError {}

/// The services of an ASnd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service<'a> {
    /// Identification of a node.
    IdentResponse(IdentResponse<'a>),
    /// Errors of a node.
    StatusResponse(StatusResponse<'a>),
    /// A request of a node for an NMT command.
    NmtRequest(NmtRequest<'a>),
    /// An NMT command of the managing node.
    NmtCommand(NmtCommand<'a>),
    /// A frame of an SDO connection.
    Sdo(Sdo<'a>),
    /// Another service: of a manufacturer, or of an extension.
    Other {
        /// The service.
        id: u8,
        /// Its data, and the padding after it.
        data: &'a [u8],
    },
}

impl<'a> Service<'a> {
    const IDENT_RESPONSE: u8 = 1;
    const STATUS_RESPONSE: u8 = 2;
    const NMT_REQUEST: u8 = 3;
    const NMT_COMMAND: u8 = 4;
    const SDO: u8 = 5;

    /// Returns the service id.
    pub const fn id(&self) -> u8 {
        match self {
            Service::IdentResponse(_) => Self::IDENT_RESPONSE,
            Service::StatusResponse(_) => Self::STATUS_RESPONSE,
            Service::NmtRequest(_) => Self::NMT_REQUEST,
            Service::NmtCommand(_) => Self::NMT_COMMAND,
            Service::Sdo(_) => Self::SDO,
            Service::Other { id, .. } => *id,
        }
    }

    fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, rest) = split::<{ field::BEHIND_SERVICE }>(ASND, octets)?;
        Ok(match header[field::SERVICE] {
            Self::IDENT_RESPONSE => Service::IdentResponse(IdentResponse::parse(octets)?),
            Self::STATUS_RESPONSE => Service::StatusResponse(StatusResponse::parse(octets)?),
            Self::NMT_REQUEST => Service::NmtRequest(NmtRequest::parse(octets)?),
            Self::NMT_COMMAND => Service::NmtCommand(NmtCommand::parse(octets)?),
            Self::SDO => Service::Sdo(Sdo::parse(rest)?),
            id => Service::Other { id, data: rest },
        })
    }

    fn buffer_len(&self) -> usize {
        match self {
            Service::IdentResponse(_) => ident::LEN,
            Service::StatusResponse(status) => status.buffer_len(),
            Service::NmtRequest(request) => nmt::HEADER_LEN + request.data.len(),
            Service::NmtCommand(command) => nmt::HEADER_LEN + command.data.len(),
            Service::Sdo(sdo) => field::BEHIND_SERVICE + sdo.buffer_len(),
            Service::Other { data, .. } => field::BEHIND_SERVICE + data.len(),
        }
    }

    /// `buffer` has at least [`buffer_len`](Self::buffer_len) octets.
    fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        match self {
            Service::IdentResponse(ident) => ident.emit(buffer)?,
            Service::StatusResponse(status) => status.emit(buffer)?,
            Service::NmtRequest(request) => request.emit(buffer)?,
            Service::NmtCommand(command) => command.emit(buffer)?,
            Service::Sdo(sdo) => sdo.emit(&mut buffer[field::BEHIND_SERVICE..])?,
            Service::Other { data, .. } => {
                buffer[field::BEHIND_SERVICE..][..data.len()].copy_from_slice(data);
            }
        }
        buffer[field::SERVICE] = self.id();
        Ok(())
    }
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Body<'a> {
    /// Start of cycle.
    Soc(Soc),
    /// Poll request.
    Preq(Preq<'a>),
    /// Poll response.
    Pres(Pres<'a>),
    /// Start of asynchronous phase.
    Soa(Soa),
    /// Asynchronous send.
    Asnd(Service<'a>),
    /// A managing node is active (EPSG DS 302-A). The octets after the header are reserved.
    Amni,
}

/// A message: the octets after the EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message<'a> {
    /// The destination node.
    pub destination: NodeId,
    /// The source node.
    pub source: NodeId,
    /// Its content.
    pub body: Body<'a>,
}

impl<'a> Message<'a> {
    /// Parses the message at the start of `octets`; padding may follow.
    ///
    /// # Errors
    /// The message is truncated, or its type is unknown.
    pub fn parse(octets: &'a [u8]) -> Result<Self, MessageError> {
        let (header, _) = split::<HEADER_LEN>(WHAT, octets)?;
        let body = match MessageType(header[field::KIND] & 0x7f) {
            MessageType::SOC => Body::Soc(Soc::parse(octets)?),
            MessageType::PREQ => Body::Preq(Preq::parse(octets)?),
            MessageType::PRES => Body::Pres(Pres::parse(octets)?),
            MessageType::SOA => Body::Soa(Soa::parse(octets)?),
            MessageType::ASND => Body::Asnd(Service::parse(octets)?),
            MessageType::AMNI => Body::Amni,
            other => return Err(MessageError::Type(other)),
        };
        let destination = NodeId(header[field::DESTINATION]);
        Ok(Message { destination, source: NodeId(header[field::SOURCE]), body })
    }

    /// Returns the message type.
    pub const fn kind(&self) -> MessageType {
        match self.body {
            Body::Soc(_) => MessageType::SOC,
            Body::Preq(_) => MessageType::PREQ,
            Body::Pres(_) => MessageType::PRES,
            Body::Soa(_) => MessageType::SOA,
            Body::Asnd(_) => MessageType::ASND,
            Body::Amni => MessageType::AMNI,
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        match &self.body {
            Body::Soc(_) => soc::LEN,
            Body::Preq(preq) => poll::HEADER_LEN + preq.payload.len(),
            Body::Pres(pres) => poll::HEADER_LEN + pres.payload.len(),
            Body::Soa(_) => soa::LEN,
            Body::Asnd(service) => service.buffer_len(),
            Body::Amni => HEADER_LEN,
        }
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short, or a value does not fit its field.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let (needed, len) = (self.buffer_len(), buffer.len());
        let message =
            buffer.get_mut(..needed).ok_or(EmitError::NoRoom { what: WHAT, needed, len })?;
        match &self.body {
            Body::Soc(soc) => soc.emit(message)?,
            Body::Preq(preq) => preq.emit(message)?,
            Body::Pres(pres) => pres.emit(message)?,
            Body::Soa(soa) => soa.emit(message)?,
            Body::Asnd(service) => service.emit(message)?,
            Body::Amni => {}
        }
        message[field::KIND] = self.kind().0;
        message[field::DESTINATION] = self.destination.0;
        message[field::SOURCE] = self.source.0;
        Ok(needed)
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} ", self.source, self.destination)?;
        match &self.body {
            Body::Soc(soc) => soc.fmt(f),
            Body::Preq(preq) => preq.fmt(f),
            Body::Pres(pres) => pres.fmt(f),
            Body::Soa(soa) => soa.fmt(f),
            Body::Asnd(Service::IdentResponse(ident)) => ident.fmt(f),
            Body::Asnd(Service::StatusResponse(status)) => status.fmt(f),
            Body::Asnd(Service::NmtRequest(request)) => request.fmt(f),
            Body::Asnd(Service::NmtCommand(command)) => command.fmt(f),
            Body::Asnd(Service::Sdo(sdo)) => sdo.fmt(f),
            Body::Asnd(Service::Other { id, data }) => {
                write!(f, "ASnd service {id} {} octets", data.len())
            }
            Body::Amni => f.write_str("AMNI"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powerlink::{NmtCommandId, RequestedService};
    use std::string::ToString;

    #[test]
    fn other_kinds_and_services() {
        let error = Message::parse(&[0x0d, 255, 240]).unwrap_err();
        assert_eq!(error.to_string(), "POWERLINK message type 13 is unknown");
        assert!(matches!(Message::parse(&[6, 255]), Err(MessageError::Truncated(_))));
        let amni = Message::parse(&[0x87, 255, 241]).unwrap();
        assert_eq!(amni.body, Body::Amni);
        let manufacturer = [6, 1, 240, 0xa0, 1, 2, 3];
        let message = Message::parse(&manufacturer).unwrap();
        assert_eq!(message.to_string(), "240 -> 1 ASnd service 160 3 octets");
        let mut buffer = [0xa5; 8];
        assert_eq!(message.emit(&mut buffer), Ok(7));
        assert_eq!(buffer[..7], manufacturer);
        assert_eq!(buffer[7], 0xa5);
    }

    #[test]
    fn shows() {
        let message = |body| Message { destination: NodeId(255), source: NodeId::MN, body };
        let command = NmtCommand { command: NmtCommandId::RESET_NODE, data: &[] };
        let shown = message(Body::Asnd(Service::NmtCommand(command))).to_string();
        assert_eq!(shown, "240 -> 255 NMTCommand ResetNode");
        let mut octets = [0; 40];
        octets[..10].copy_from_slice(&[5, 255, 240, 0x1d, 2, 0, 2, 1, 0x20, 0]);
        let soa = Message::parse(&octets).unwrap();
        assert_eq!(soa.to_string(), "240 -> 255 SoA PRE_OPERATIONAL_1 StatusRequest -> 1 ER");
        let Body::Soa(soa) = soa.body else { panic!("{soa}") };
        assert_eq!(soa.service, RequestedService::STATUS_REQUEST);
    }
}
