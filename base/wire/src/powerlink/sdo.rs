//! SDO: sequence layer and command layer (EPSG DS 301, 6.3.2). In an ASnd they follow the service id.

use core::fmt;

use super::octets::{bit, bits, put, u16_at, u32_at};
use super::{Abort, ObjectEntries};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const RECEIVE: usize = 0;
    pub(super) const SEND: usize = 1;
    /// In the command layer, from its start.
    pub(super) const TRANSACTION: usize = 1;
    pub(super) const FLAGS: usize = 2;
    pub(super) const COMMAND: usize = 3;
    pub(super) const SIZE: usize = 4;
    /// In the first of several segments; otherwise the payload.
    pub(super) const DATA_SIZE: usize = 8;
}

const DATA_SIZE_LEN: usize = 4;

const SEQUENCE_LEN: usize = 4;
/// Octets of the command layer before the data size or the payload.
const COMMAND_LEN: usize = field::DATA_SIZE;
/// Maximum sequence number.
pub const MAX_SEQUENCE: u8 = 0x3f;

const SEQUENCE: &str = "POWERLINK SDO sequence layer";
const COMMAND: &str = "POWERLINK SDO command layer";
const SEGMENT: &str = "POWERLINK SDO segment";
const ABORT: &str = "POWERLINK SDO abort code";

/// State of one direction of a connection: ReceiveCon and SendCon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Connection {
    /// Not connected.
    None,
    /// Initialization.
    Initialise,
    /// Connected.
    Valid,
    /// Sent: connected, with a request for an acknowledgment. Received: frames are missing.
    ValidAcknowledge,
}

impl Connection {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Connection::None,
            1 => Connection::Initialise,
            2 => Connection::Valid,
            _ => Connection::ValidAcknowledge,
        }
    }
}

/// Sequence number and state of one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceCount {
    /// `0..=63`.
    pub number: u8,
    /// State.
    pub connection: Connection,
}

impl SequenceCount {
    const fn from_octet(octet: u8) -> Self {
        SequenceCount { number: octet >> 2, connection: Connection::from_bits(octet) }
    }

    fn octet(self) -> Result<u8, EmitError> {
        EmitError::check("SDO sequence number", self.number.into(), MAX_SEQUENCE.into())?;
        Ok(self.number << 2 | self.connection as u8)
    }
}

/// The sequence layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence {
    /// Number of the last frame received.
    pub receive: SequenceCount,
    /// Number of this frame.
    pub send: SequenceCount,
}

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandId(pub u8);

impl CommandId {
    /// No command.
    pub const NIL: CommandId = CommandId(0);
    /// Writes an object by index and sub-index.
    pub const WRITE_BY_INDEX: CommandId = CommandId(1);
    /// Reads an object by index and sub-index.
    pub const READ_BY_INDEX: CommandId = CommandId(2);
    /// Writes all sub-indices of an index.
    pub const WRITE_ALL_BY_INDEX: CommandId = CommandId(3);
    /// Reads all sub-indices of an index.
    pub const READ_ALL_BY_INDEX: CommandId = CommandId(4);
    /// Writes several objects.
    pub const WRITE_MULTIPLE_BY_INDEX: CommandId = CommandId(0x31);
    /// Reads several objects.
    pub const READ_MULTIPLE_BY_INDEX: CommandId = CommandId(0x32);
    /// The maximum segment size of a peer.
    pub const MAX_SEGMENT_SIZE: CommandId = CommandId(0x70);
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            CommandId::NIL => "Nil",
            CommandId::WRITE_BY_INDEX => "WriteByIndex",
            CommandId::READ_BY_INDEX => "ReadByIndex",
            CommandId::WRITE_ALL_BY_INDEX => "WriteAllByIndex",
            CommandId::READ_ALL_BY_INDEX => "ReadAllByIndex",
            CommandId::WRITE_MULTIPLE_BY_INDEX => "WriteMultipleByIndex",
            CommandId::READ_MULTIPLE_BY_INDEX => "ReadMultipleByIndex",
            CommandId::MAX_SEGMENT_SIZE => "MaxSegmentSize",
            CommandId(other) => return write!(f, "command {other:#04x}"),
        })
    }
}

/// The position of a segment in a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segmentation {
    /// The whole transfer.
    Expedited,
    /// The first of several segments. DataSize is in front of its payload.
    Initiate {
        /// DataSize: the sum of the segment sizes of the transfer, in octets. As the segment size of this
        /// segment includes the four octets of DataSize, the sum is the payload of all segments and 4.
        data_size: u32,
    },
    /// A middle segment.
    Segment,
    /// The last segment.
    Complete,
}

/// The command layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command<'a> {
    /// Assigns a response to its request.
    pub transaction: u8,
    /// Whether it is a response instead of a request.
    pub response: bool,
    /// The transfer is aborted; the payload is the reason, a number of 32 bits.
    pub abort: bool,
    /// The position of the segment in the transfer.
    pub segmentation: Segmentation,
    /// The operation.
    pub command: CommandId,
    /// The segment, without padding.
    pub payload: &'a [u8],
}

impl<'a> Command<'a> {
    fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, rest) = split::<COMMAND_LEN>(COMMAND, octets)?;
        let (flags, needed) = (header[field::FLAGS], usize::from(u16_at(header, field::SIZE)));
        let segment =
            rest.get(..needed).ok_or(TruncationError { what: SEGMENT, needed, len: rest.len() })?;
        let (segmentation, payload) = match flags >> 4 & 3 {
            0 => (Segmentation::Expedited, segment),
            1 => {
                let (size, payload) = split::<DATA_SIZE_LEN>(SEGMENT, segment)?;
                (Segmentation::Initiate { data_size: u32_at(size, 0) }, payload)
            }
            2 => (Segmentation::Segment, segment),
            _ => (Segmentation::Complete, segment),
        };
        let abort = bit(flags, 6);
        if abort {
            split::<4>(ABORT, payload)?;
        }
        Ok(Command {
            transaction: header[field::TRANSACTION],
            response: bit(flags, 7),
            abort,
            segmentation,
            command: CommandId(header[field::COMMAND]),
            payload,
        })
    }

    /// Returns the segment size, in octets: that of the payload, and in the first of several segments that of
    /// DataSize.
    pub fn segment_size(&self) -> usize {
        let data_size = matches!(self.segmentation, Segmentation::Initiate { .. });
        self.payload.len() + if data_size { DATA_SIZE_LEN } else { 0 }
    }

    fn buffer_len(&self) -> usize {
        COMMAND_LEN + self.segment_size()
    }

    fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let size = self.segment_size();
        EmitError::check("SDO segment size", size, u16::MAX.into())?;
        let (needed, len) = (self.buffer_len(), buffer.len());
        let no_room = EmitError::NoRoom { what: COMMAND, needed, len };
        let at = needed - self.payload.len();
        buffer.get_mut(at..needed).ok_or(no_room)?.copy_from_slice(self.payload);
        let segmentation = match self.segmentation {
            Segmentation::Expedited => 0,
            Segmentation::Initiate { data_size } => {
                put(buffer, field::DATA_SIZE, data_size.to_le_bytes());
                1
            }
            Segmentation::Segment => 2,
            Segmentation::Complete => 3,
        };
        let header = room::<COMMAND_LEN>(COMMAND, buffer)?;
        header.fill(0);
        header[field::TRANSACTION] = self.transaction;
        header[field::FLAGS] = bits([(7, self.response), (6, self.abort)]) | segmentation << 4;
        header[field::COMMAND] = self.command.0;
        put(header, field::SIZE, (size as u16).to_le_bytes());
        Ok(())
    }

    /// Returns the reason, if the transfer is aborted.
    pub fn abort_code(&self) -> Option<Abort> {
        let code = self.payload.first_chunk().filter(|_| self.abort)?;
        Some(Abort(u32::from_le_bytes(*code)))
    }

    /// Whether it is the start of a request or response: not a further segment, nor an abort.
    fn is_first(&self) -> bool {
        let further = matches!(self.segmentation, Segmentation::Segment | Segmentation::Complete);
        !further && !self.abort
    }

    /// Returns index and sub-index of the object that a request reads or writes, if it contains them: not a
    /// further segment, nor a request of several objects.
    pub fn object(&self) -> Option<(u16, u8)> {
        let by_index = matches!(self.command, CommandId::WRITE_BY_INDEX | CommandId::READ_BY_INDEX);
        match self.payload {
            [low, high, sub, _, ..] if by_index && self.is_first() && !self.response => {
                Some((u16::from_le_bytes([*low, *high]), *sub))
            }
            _ => None,
        }
    }

    /// Returns the objects of a command that reads or writes several, as far as they are in this segment.
    pub fn objects(&self) -> ObjectEntries<'a> {
        let command = if self.is_first() { self.command } else { CommandId::NIL };
        let segmented = self.segmentation != Segmentation::Expedited;
        ObjectEntries::new(command, self.response, segmented, self.payload)
    }
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.response { "response" } else { "request" };
        write!(f, "{kind} {} {}", self.transaction, self.command)?;
        let several = self.objects().flatten().map(|object| (object.index, object.sub));
        for (index, sub) in self.object().into_iter().chain(several) {
            write!(f, " {index:04X}/{sub:02X}")?;
        }
        if let Some(abort) = self.abort_code() {
            return write!(f, " aborted {abort}");
        }
        let size = self.segment_size();
        match self.segmentation {
            Segmentation::Expedited => write!(f, " {size} octets"),
            Segmentation::Initiate { data_size } => {
                write!(f, " Initiate {size} of {data_size} octets")
            }
            Segmentation::Segment => write!(f, " Segment {size} octets"),
            Segmentation::Complete => write!(f, " Complete {size} octets"),
        }
    }
}

/// A frame of an SDO connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sdo<'a> {
    /// Sequence layer.
    pub sequence: Sequence,
    /// Command layer; a frame without one opens, acknowledges or closes a connection.
    pub command: Option<Command<'a>>,
}

impl<'a> Sdo<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (sequence, rest) = split::<SEQUENCE_LEN>(SEQUENCE, octets)?;
        let sequence = Sequence {
            receive: SequenceCount::from_octet(sequence[field::RECEIVE]),
            send: SequenceCount::from_octet(sequence[field::SEND]),
        };
        // No command is a command layer of zeros, or an absent one; reserved octets are ignored.
        let said = |at: usize| {
            let mask = if at == field::FLAGS { 0xf0 } else { 0xff };
            rest.get(at).is_some_and(|octet| octet & mask != 0)
        };
        let command = match (field::TRANSACTION..field::SIZE + 2).any(said) {
            true => Some(Command::parse(rest)?),
            false => None,
        };
        Ok(Sdo { sequence, command })
    }

    /// Returns the octets of both layers.
    pub(super) fn buffer_len(&self) -> usize {
        SEQUENCE_LEN + self.command.map_or(COMMAND_LEN, |command| command.buffer_len())
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let (receive, send) = (self.sequence.receive.octet()?, self.sequence.send.octet()?);
        let (needed, len) = (self.buffer_len(), buffer.len());
        let (sequence, rest) = buffer
            .split_at_mut_checked(SEQUENCE_LEN)
            .filter(|_| needed <= len)
            .ok_or(EmitError::NoRoom { what: SEQUENCE, needed, len })?;
        match &self.command {
            Some(command) => command.emit(rest)?,
            None => room::<COMMAND_LEN>(COMMAND, rest)?.fill(0),
        }
        sequence.copy_from_slice(&[receive, send, 0, 0]);
        Ok(())
    }
}

impl fmt::Display for Sdo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sequence { receive, send } = self.sequence;
        write!(
            f,
            "SDO receive {} {:?} send {} {:?}",
            receive.number, receive.connection, send.number, send.connection
        )?;
        match self.command {
            Some(command) => write!(f, ", {command}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_octet_and_back() {
        for octet in 0..=255 {
            assert_eq!(SequenceCount::from_octet(octet).octet(), Ok(octet));
        }
        let wide = SequenceCount { number: 64, connection: Connection::Valid };
        assert!(wide.octet().is_err());
    }

    #[test]
    fn a_frame_without_a_command() {
        let octets = [0x0a, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for len in SEQUENCE_LEN..=octets.len() {
            assert_eq!(Sdo::parse(&octets[..len]).unwrap().command, None);
        }
        // Nor is what is reserved.
        let reserved = [0x0a, 0x0b, 0, 0, 1, 0, 0x0f, 0, 0, 0, 1, 1];
        assert_eq!(Sdo::parse(&reserved).unwrap().command, None);
        let sdo = Sdo::parse(&octets).unwrap();
        let count = |number, connection| SequenceCount { number, connection };
        assert_eq!(sdo.sequence.receive, count(2, Connection::Valid));
        assert_eq!(sdo.sequence.send, count(2, Connection::ValidAcknowledge));
        let mut buffer = [0xa5; 13];
        sdo.emit(&mut buffer).unwrap();
        assert_eq!(buffer[..12], octets);
        assert_eq!(buffer[12], 0xa5);
        assert!(sdo.emit(&mut buffer[..11]).is_err());
    }

    fn command(segmentation: Segmentation, payload: &[u8]) -> Command<'_> {
        Command {
            transaction: 5,
            response: true,
            abort: false,
            segmentation,
            command: CommandId::READ_BY_INDEX,
            payload,
        }
    }

    #[test]
    fn an_abort_has_a_code() {
        let abort = |payload| Command { abort: true, ..command(Segmentation::Expedited, payload) };
        assert_eq!(abort(&[0, 0, 2, 6]).abort_code(), Some(Abort::NO_OBJECT));
        assert_eq!(Command { abort: false, ..abort(&[0; 4]) }.abort_code(), None);
        for (len, there) in [(3, false), (4, true)] {
            let mut buffer = [0; 12];
            abort(&[0, 0, 2, 6][..len]).emit(&mut buffer).unwrap();
            assert_eq!(Command::parse(&buffer).is_ok(), there, "{len}");
        }
    }

    #[test]
    fn a_segment_ends_within_the_frame() {
        let mut octets = [0; 24];
        octets[7] = 2;
        octets[6] = 0x20;
        for (size, there) in [(12, true), (13, false)] {
            octets[8] = size;
            assert_eq!(Sdo::parse(&octets).is_ok(), there);
        }
    }

    /// The first of several segments: its size includes the four octets of DataSize.
    #[test]
    fn the_size_of_a_first_segment_includes_data_size() {
        let first = Segmentation::Initiate { data_size: 704 };
        let mut buffer = [0xa5; 16];
        let sent = command(first, &[1, 2, 3, 4]);
        assert_eq!((sent.segment_size(), sent.buffer_len()), (8, 16));
        sent.emit(&mut buffer).unwrap();
        assert_eq!(buffer, [0, 5, 0x90, 2, 8, 0, 0, 0, 0xc0, 2, 0, 0, 1, 2, 3, 4]);
        assert_eq!(Command::parse(&buffer), Ok(sent));
        buffer[4] = 4;
        assert_eq!(Command::parse(&buffer), Ok(command(first, &[])));
        buffer[4] = 3;
        let short = TruncationError { what: SEGMENT, needed: 4, len: 3 };
        assert_eq!(Command::parse(&buffer), Err(short), "shorter than its own DataSize");
        buffer[4] = 9;
        let cut = TruncationError { what: SEGMENT, needed: 9, len: 8 };
        assert_eq!(Command::parse(&buffer), Err(cut));
    }

    #[test]
    fn shows() {
        use std::string::ToString;
        let write = |segmentation, payload| Command {
            response: false,
            command: CommandId::WRITE_BY_INDEX,
            ..command(segmentation, payload)
        };
        let first = Segmentation::Initiate { data_size: 408 };
        for (command, text) in [
            (
                write(first, &[0x22, 0x1f, 1, 0, 9]),
                "request 5 WriteByIndex 1F22/01 Initiate 9 of 408 octets",
            ),
            (
                write(Segmentation::Complete, &[0; 152]),
                "request 5 WriteByIndex Complete 152 octets",
            ),
            (
                command(Segmentation::Segment, &[0; 256]),
                "response 5 ReadByIndex Segment 256 octets",
            ),
            (command(Segmentation::Expedited, &[]), "response 5 ReadByIndex 0 octets"),
            (
                Command {
                    command: CommandId::READ_MULTIPLE_BY_INDEX,
                    ..write(Segmentation::Expedited, &[6, 0x10, 0, 0, 0, 0x16, 1, 0])
                },
                "request 5 ReadMultipleByIndex 1006/00 1600/01 8 octets",
            ),
            (
                Command { abort: true, ..command(Segmentation::Expedited, &[0, 0, 2, 6]) },
                "response 5 ReadByIndex aborted 0x06020000: the object does not exist",
            ),
        ] {
            assert_eq!(command.to_string(), text);
        }
    }
}
