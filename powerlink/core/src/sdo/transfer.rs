//! Commands to send, and their segments.

use alloc::sync::Arc;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{Abort, Command, CommandId, Sdo, Segmentation, Sequence};

/// Maximum segment size, in octets: the frame stays below the minimum asynchronous MTU. It includes the four
/// octets of DataSize in the first of several segments.
pub const MAX_SEGMENT: usize = 256;
/// Octets of DataSize.
pub(super) const DATA_SIZE: usize = 4;
/// Maximum payload of a response in one segment, and of the first of several segments. The reference stack
/// sends a read of 253 octets in two segments.
const MAX_FIRST: usize = MAX_SEGMENT - DATA_SIZE;

/// A segment of a command, or a command in one segment.
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

/// The number of segments of a payload determines its first octets, where an offset counts DataSize.
pub(super) fn is_segmented(response: bool, len: usize) -> bool {
    len > if response { MAX_FIRST } else { MAX_SEGMENT }
}

/// A command to send. Its segments are copied from it one by one.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    /// Links a response to its request.
    pub(super) transaction: u8,
    /// Whether it is a response; otherwise a request.
    pub(super) response: bool,
    /// Whether it aborts the transfer of this id.
    pub(super) abort: bool,
    /// The operation.
    pub(super) command: CommandId,
    /// The start of the payload: index and sub-index of a request.
    pub(super) head: Vec<u8>,
    /// The rest of the payload.
    pub(super) data: Arc<[u8]>,
    /// Octets of the payload in the segments that were taken.
    taken: usize,
}

impl Transfer {
    /// A request.
    pub(super) fn request(
        transaction: u8,
        command: CommandId,
        head: Vec<u8>,
        data: Arc<[u8]>,
    ) -> Self {
        Transfer { transaction, response: false, abort: false, command, head, data, taken: 0 }
    }

    /// A response.
    pub(super) fn response(transaction: u8, command: CommandId, payload: Vec<u8>) -> Self {
        let request = Transfer::request(transaction, command, Vec::new(), payload.into());
        Transfer { response: true, ..request }
    }

    /// Aborts a transfer.
    pub(super) fn aborted(transaction: u8, response: bool, command: CommandId, why: Abort) -> Self {
        let code = why.0.to_le_bytes().to_vec();
        let request = Transfer::request(transaction, command, code, Arc::default());
        Transfer { response, abort: true, ..request }
    }

    /// Whether no segment was taken.
    pub(super) fn is_unsent(&self) -> bool {
        self.taken == 0
    }

    /// Octets of payload that remain to be sent.
    pub(super) fn remaining(&self) -> usize {
        self.len() - self.taken
    }

    fn len(&self) -> usize {
        self.head.len() + self.data.len()
    }

    /// Removes the next segment; returns whether it is the last.
    pub(super) fn next_segment(&mut self) -> (Pdu, bool) {
        let (len, at) = (self.len(), self.taken);
        let (segmentation, end) = if at == 0 && !is_segmented(self.response, len) {
            (Segmentation::Expedited, len)
        } else if at == 0 {
            let data_size = u32::try_from(len + DATA_SIZE).unwrap_or(u32::MAX);
            (Segmentation::Initiate { data_size }, MAX_FIRST)
        } else if len - at > MAX_SEGMENT {
            (Segmentation::Segment, at + MAX_SEGMENT)
        } else {
            (Segmentation::Complete, len)
        };
        self.taken = end;
        let Transfer { transaction, response, abort, command, ref head, ref data, .. } = *self;
        let (in_head, in_data) =
            (|at: usize| at.min(head.len()), |at: usize| at.saturating_sub(head.len()));
        let parts = [&head[in_head(at)..in_head(end)], &data[in_data(at)..in_data(end)]];
        let pdu =
            Pdu { transaction, response, abort, segmentation, command, payload: parts.concat() };
        (pdu, end == len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Segment sizes of a transfer, and its DataSize.
    fn sizes(mut transfer: Transfer) -> (Vec<usize>, Option<u32>) {
        let (mut sizes, mut data_size) = (Vec::new(), None);
        loop {
            let (pdu, last) = transfer.next_segment();
            sizes.push(pdu.command().segment_size());
            if let Segmentation::Initiate { data_size: size } = pdu.segmentation {
                data_size = Some(size);
            }
            if last {
                assert_eq!(transfer.remaining(), 0);
                return (sizes, data_size);
            }
        }
    }

    fn read(len: usize) -> (Vec<usize>, Option<u32>) {
        sizes(Transfer::response(0, CommandId::READ_BY_INDEX, vec![7; len]))
    }

    fn write(len: usize) -> (Vec<usize>, Option<u32>) {
        let (head, data) = (vec![0; 4], vec![7; len].into());
        sizes(Transfer::request(0, CommandId::WRITE_BY_INDEX, head, data))
    }

    /// Of the reference stack: reads of 252 and 253 octets, of 768 and of 700; a write of 400.
    #[test]
    fn segments_are_those_of_the_reference_stack() {
        assert_eq!(read(252), (vec![252], None));
        assert_eq!(read(253), (vec![256, 1], Some(257)));
        assert_eq!(read(768), (vec![256, 256, 256, 4], Some(772)));
        assert_eq!(read(700), (vec![256, 256, 192], Some(704)));
        assert_eq!(write(400), (vec![256, 152], Some(408)));
    }

    #[test]
    fn a_segment_is_full_before_the_next() {
        assert_eq!(read(0), (vec![0], None));
        assert_eq!(read(256), (vec![256, 4], Some(260)));
        assert_eq!(read(257), (vec![256, 5], Some(261)));
        assert_eq!(read(252 + 256), (vec![256, 256], Some(512)));
        assert_eq!(read(252 + 257), (vec![256, 256, 1], Some(513)));
        assert_eq!(write(248), (vec![252], None));
        assert_eq!(write(252), (vec![256], None));
        assert_eq!(write(253), (vec![256, 5], Some(261)));
        assert_eq!(write(248 + 256), (vec![256, 256], Some(512)));
        assert_eq!(write(248 + 257), (vec![256, 256, 1], Some(513)));
    }

    #[test]
    fn data_size_is_the_sum_of_the_segment_sizes() {
        for len in (0..2000).chain([65_536, 1 << 20]) {
            for (sizes, data_size) in [read(len), write(len)] {
                let sum = sizes.iter().sum::<usize>() as u32;
                assert_eq!(data_size.unwrap_or(sum), sum, "{len}");
                assert!(sizes.iter().all(|size| *size <= MAX_SEGMENT), "{len}");
            }
        }
    }
}
