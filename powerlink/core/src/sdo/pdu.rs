//! A command that is kept: until it is sent, or acknowledged.

use alloc::vec::Vec;

use onbeat_wire::powerlink::{Command, CommandId, Sdo, Segmentation, Sequence};

use crate::od::Abort;

/// Octets of payload in one segment: with it a frame stays below the least asynchronous MTU.
pub const MAX_SEGMENT: usize = 256;
/// Octets of a transfer in all its segments.
pub const MAX_TRANSFER: usize = 1 << 20;

/// A command of the command layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdu {
    /// Ties a response to its request.
    pub transaction: u8,
    /// A response, else a request.
    pub response: bool,
    /// The transfer is given up.
    pub abort: bool,
    /// Which part of the transfer this is.
    pub segmentation: Segmentation,
    /// What is done.
    pub command: CommandId,
    /// The segment.
    pub payload: Vec<u8>,
}

impl Pdu {
    /// As it goes to the wire.
    pub fn command(&self) -> Command<'_> {
        let Pdu { transaction, response, abort, segmentation, command, ref payload } = *self;
        Command { transaction, response, abort, segmentation, command, payload }
    }

    /// A transfer given up.
    pub(super) fn aborted(transaction: u8, response: bool, command: CommandId, why: Abort) -> Pdu {
        let payload = why.0.to_le_bytes().to_vec();
        let segmentation = Segmentation::Expedited;
        Pdu { transaction, response, abort: true, segmentation, command, payload }
    }

    /// A payload in as many segments as it takes.
    pub(super) fn segments(
        transaction: u8,
        response: bool,
        command: CommandId,
        payload: &[u8],
    ) -> Vec<Pdu> {
        let count = payload.len().div_ceil(MAX_SEGMENT).max(1);
        let segment = |n: usize| {
            let segmentation = match n {
                0 if count == 1 => Segmentation::Expedited,
                0 => Segmentation::Initiate { data_size: payload.len() as u32 },
                n if n + 1 == count => Segmentation::Complete,
                _ => Segmentation::Segment,
            };
            let end = payload.len().min((n + 1) * MAX_SEGMENT);
            let payload = payload[n * MAX_SEGMENT..end].to_vec();
            Pdu { transaction, response, abort: false, segmentation, command, payload }
        };
        (0..count).map(segment).collect()
    }
}

/// A frame of a connection on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Sequence layer.
    pub sequence: Sequence,
    /// Command layer.
    pub pdu: Option<Pdu>,
}

impl Outgoing {
    /// As it goes to the wire.
    pub fn sdo(&self) -> Sdo<'_> {
        Sdo { sequence: self.sequence, command: self.pdu.as_ref().map(Pdu::command) }
    }
}

/// Puts the segments of a transfer together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assembly {
    /// Of the transfer.
    pub(super) transaction: u8,
    /// Of the transfer.
    pub(super) command: CommandId,
    octets: Vec<u8>,
    data_size: usize,
}

/// What a segment makes of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// More is to come.
    More,
    /// The payload of the whole transfer.
    Whole(Vec<u8>),
    /// It cannot be.
    Refused(Abort),
}

/// Adds a segment to the transfer that is under way, if one is.
pub(super) fn assemble(assembly: &mut Option<Assembly>, segment: &Command<'_>) -> Assembled {
    let Command { transaction, command, payload, .. } = *segment;
    match (segment.segmentation, &mut *assembly) {
        (Segmentation::Expedited, _) => {
            *assembly = None;
            Assembled::Whole(payload.to_vec())
        }
        (Segmentation::Initiate { data_size }, _) => {
            *assembly = None;
            let data_size = usize::try_from(data_size).unwrap_or(usize::MAX);
            if data_size > MAX_TRANSFER {
                return Assembled::Refused(Abort::OUT_OF_MEMORY);
            }
            *assembly =
                Some(Assembly { transaction, command, octets: payload.to_vec(), data_size });
            Assembled::More
        }
        (_, Some(under_way)) if under_way.transaction == transaction => {
            under_way.octets.extend_from_slice(payload);
            // Some count the octets in front of the data, some do not.
            let len = under_way.octets.len();
            let refused = match segment.segmentation {
                Segmentation::Complete => {
                    len != under_way.data_size && len != under_way.data_size + 4
                }
                _ => len > under_way.data_size + 4,
            };
            match (refused, segment.segmentation) {
                (true, _) => {
                    *assembly = None;
                    Assembled::Refused(Abort::TYPE)
                }
                (false, Segmentation::Complete) => match assembly.take() {
                    Some(assembly) => Assembled::Whole(assembly.octets),
                    None => Assembled::More,
                },
                (false, _) => Assembled::More,
            }
        }
        _ => Assembled::Refused(Abort::UNKNOWN_COMMAND),
    }
}
