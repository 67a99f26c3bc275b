//! Commands, kept until they are sent or acknowledged.

use alloc::vec::Vec;

use onbeat_wire::powerlink::{Command, CommandId, Sdo, Segmentation, Sequence};

use crate::od::Abort;

/// Payload octets of one segment: the frame stays below the minimum asynchronous MTU.
pub const MAX_SEGMENT: usize = 256;
/// Maximum octets of a transfer in all its segments.
pub const MAX_TRANSFER: usize = 1 << 20;

/// A command of the command layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdu {
    /// Links a response to its request.
    pub transaction: u8,
    /// Whether it is a response; otherwise a request.
    pub response: bool,
    /// Whether the transfer is aborted.
    pub abort: bool,
    /// The part of the transfer.
    pub segmentation: Segmentation,
    /// The operation.
    pub command: CommandId,
    /// The segment.
    pub payload: Vec<u8>,
}

impl Pdu {
    /// The form for the wire.
    pub fn command(&self) -> Command<'_> {
        let Pdu { transaction, response, abort, segmentation, command, ref payload } = *self;
        Command { transaction, response, abort, segmentation, command, payload }
    }

    /// An aborted transfer.
    pub(super) fn aborted(transaction: u8, response: bool, command: CommandId, why: Abort) -> Pdu {
        let payload = why.0.to_le_bytes().to_vec();
        let segmentation = Segmentation::Expedited;
        Pdu { transaction, response, abort: true, segmentation, command, payload }
    }

    /// Splits a payload into segments.
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

/// A frame of a connection to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingFrame {
    /// Sequence layer.
    pub sequence: Sequence,
    /// Command layer.
    pub pdu: Option<Pdu>,
}

impl OutgoingFrame {
    /// The form for the wire.
    pub fn sdo(&self) -> Sdo<'_> {
        Sdo { sequence: self.sequence, command: self.pdu.as_ref().map(Pdu::command) }
    }
}

/// Reassembles the segments of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assembly {
    /// The transfer's id.
    pub(super) transaction: u8,
    /// The transfer's command.
    pub(super) command: CommandId,
    octets: Vec<u8>,
    data_size: usize,
}

/// The result of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AssemblyStep {
    /// More segments follow.
    More,
    /// The payload of the whole transfer.
    Whole(Vec<u8>),
    /// The transfer is invalid.
    Refused(Abort),
}

/// Adds a segment to the current transfer, if there is one.
pub(super) fn assemble(assembly: &mut Option<Assembly>, segment: &Command<'_>) -> AssemblyStep {
    let Command { transaction, command, payload, .. } = *segment;
    match (segment.segmentation, &mut *assembly) {
        (Segmentation::Expedited, _) => {
            *assembly = None;
            AssemblyStep::Whole(payload.to_vec())
        }
        (Segmentation::Initiate { data_size }, _) => {
            *assembly = None;
            let data_size = usize::try_from(data_size).unwrap_or(usize::MAX);
            if data_size > MAX_TRANSFER {
                return AssemblyStep::Refused(Abort::OUT_OF_MEMORY);
            }
            *assembly =
                Some(Assembly { transaction, command, octets: payload.to_vec(), data_size });
            AssemblyStep::More
        }
        (_, Some(under_way)) if under_way.transaction == transaction => {
            under_way.octets.extend_from_slice(payload);
            // Some stacks include the octets before the data in the count, some do not.
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
                    AssemblyStep::Refused(Abort::TYPE)
                }
                (false, Segmentation::Complete) => match assembly.take() {
                    Some(assembly) => AssemblyStep::Whole(assembly.octets),
                    None => AssemblyStep::More,
                },
                (false, _) => AssemblyStep::More,
            }
        }
        _ => AssemblyStep::Refused(Abort::UNKNOWN_COMMAND),
    }
}
