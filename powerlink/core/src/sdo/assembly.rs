//! Segments of a received transfer, put together.

use alloc::vec::Vec;

use onbeat_wire::powerlink::{Abort, Command, CommandId, Segmentation};

use super::transfer::DATA_SIZE;

/// Maximum octets of a value in a received transfer.
pub const MAX_TRANSFER: usize = 1 << 20;
/// Index and sub-index of a request.
const HEAD: usize = 4;

/// A transfer of which segments were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assembly {
    transaction: u8,
    command: CommandId,
    /// It grows with the segments, not with the announced length.
    octets: Vec<u8>,
    /// Octets in all segments.
    total: usize,
}

/// A complete command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AssembledCommand {
    pub(super) payload: Vec<u8>,
    /// Whether it was in several segments.
    pub(super) segmented: bool,
}

/// The result of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AssemblyStep {
    /// More segments follow.
    More,
    /// The whole command.
    Whole(AssembledCommand),
    /// The transfer is invalid.
    Refused(Abort),
}

impl Assembly {
    /// Whether it is the transfer of this id.
    pub(super) fn is(&self, transaction: u8) -> bool {
        self.transaction == transaction
    }

    /// Octets in all segments.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Octets in the segments received so far.
    pub(super) fn received(&self) -> usize {
        self.octets.len()
    }

    fn start(segment: &Command<'_>, data_size: u32) -> Result<Self, Abort> {
        let Command { transaction, command, .. } = *segment;
        let data_size = usize::try_from(data_size).unwrap_or(usize::MAX);
        let total = data_size.checked_sub(DATA_SIZE).ok_or(beyond(segment))?;
        if total > HEAD + MAX_TRANSFER {
            return Err(Abort::OUT_OF_MEMORY);
        }
        let mut assembly = Assembly { transaction, command, octets: Vec::new(), total };
        assembly.add(segment)?;
        Ok(assembly)
    }

    fn add(&mut self, segment: &Command<'_>) -> Result<(), Abort> {
        if segment.payload.len() > self.total - self.octets.len() {
            return Err(beyond(segment));
        }
        self.octets.extend_from_slice(segment.payload);
        Ok(())
    }
}

/// The reason to refuse a segment beyond the total. The codes are those of the reference stack.
fn beyond(segment: &Command<'_>) -> Abort {
    if segment.response { Abort::BLOCK_SIZE } else { Abort::TOO_LONG }
}

/// Adds a segment to the current transfer, if there is one. A refused transfer is removed.
pub(super) fn assemble(assembly: &mut Option<Assembly>, segment: &Command<'_>) -> AssemblyStep {
    let Command { transaction, command, payload, response, .. } = *segment;
    let mut current = match segment.segmentation {
        Segmentation::Expedited => {
            *assembly = None;
            let payload = payload.to_vec();
            return AssemblyStep::Whole(AssembledCommand { payload, segmented: false });
        }
        Segmentation::Initiate { data_size } => {
            *assembly = None;
            match Assembly::start(segment, data_size) {
                Ok(started) => *assembly = Some(started),
                Err(abort) => return AssemblyStep::Refused(abort),
            }
            return AssemblyStep::More;
        }
        Segmentation::Segment | Segmentation::Complete => match assembly.take() {
            Some(current) if current.is(transaction) && current.command == command => current,
            other => {
                *assembly = other;
                return AssemblyStep::Refused(Abort::SEQUENCE);
            }
        },
    };
    if let Err(abort) = current.add(segment) {
        return AssemblyStep::Refused(abort);
    }
    if segment.segmentation == Segmentation::Segment {
        *assembly = Some(current);
        AssemblyStep::More
    } else if current.octets.len() < current.total {
        let why = if response { Abort::BLOCK_SIZE } else { Abort::TOO_SHORT };
        AssemblyStep::Refused(why)
    } else {
        AssemblyStep::Whole(AssembledCommand { payload: current.octets, segmented: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const WRITE: Command<'_> = Command {
        transaction: 3,
        response: false,
        abort: false,
        segmentation: Segmentation::Segment,
        command: CommandId::WRITE_BY_INDEX,
        payload: &[],
    };
    const READ: Command<'_> =
        Command { response: true, command: CommandId::READ_BY_INDEX, ..WRITE };

    /// Passes segments of these lengths, the first with this DataSize; returns the last result.
    fn pass(of: Command<'static>, data_size: u32, lens: &[usize]) -> AssemblyStep {
        let (mut assembly, octets) = (None, [5; 400]);
        let mut step = AssemblyStep::More;
        for (n, len) in lens.iter().enumerate() {
            assert_eq!(step, AssemblyStep::More, "before segment {n}");
            let segmentation = match n {
                0 => Segmentation::Initiate { data_size },
                n if n + 1 == lens.len() => Segmentation::Complete,
                _ => Segmentation::Segment,
            };
            let segment = Command { segmentation, payload: &octets[..*len], ..of };
            step = assemble(&mut assembly, &segment);
        }
        assert!(assembly.is_none() || step == AssemblyStep::More);
        step
    }

    #[test]
    fn the_total_must_be_exact() {
        let whole =
            |len| AssemblyStep::Whole(AssembledCommand { payload: vec![5; len], segmented: true });
        let refused = AssemblyStep::Refused;
        for (of, data_size, lens, expected) in [
            (READ, 704, &[252, 256, 192][..], whole(700)),
            (WRITE, 408, &[252, 152], whole(404)),
            (WRITE, 256, &[252, 0], whole(252)),
            // The payload without the octets of DataSize, as other stacks might count.
            (WRITE, 404, &[252, 152], refused(Abort::TOO_LONG)),
            (READ, 700, &[252, 256, 192], refused(Abort::BLOCK_SIZE)),
            (WRITE, 409, &[252, 152], refused(Abort::TOO_SHORT)),
            (READ, 705, &[252, 256, 192], refused(Abort::BLOCK_SIZE)),
            // Beyond the total before the last segment, and in the first.
            (WRITE, 300, &[252, 256], refused(Abort::TOO_LONG)),
            (READ, 300, &[252, 256], refused(Abort::BLOCK_SIZE)),
            (WRITE, 255, &[252], refused(Abort::TOO_LONG)),
            (READ, 3, &[0], refused(Abort::BLOCK_SIZE)),
        ] {
            assert_eq!(pass(of, data_size, lens), expected, "{data_size} {lens:?}");
        }
    }

    #[test]
    fn segments_belong_to_one_transfer() {
        let first = Command {
            segmentation: Segmentation::Initiate { data_size: 20 },
            payload: &[1; 8],
            ..WRITE
        };
        let last = Command { segmentation: Segmentation::Complete, payload: &[1; 8], ..WRITE };
        let mut assembly = None;
        let refused = AssemblyStep::Refused(Abort::SEQUENCE);
        assert_eq!(assemble(&mut assembly, &last), refused, "without a first one");
        assert_eq!(assemble(&mut assembly, &first), AssemblyStep::More);
        let other = Command { transaction: 4, ..last };
        assert_eq!(assemble(&mut assembly, &other), refused, "of another transfer");
        let other = Command { command: CommandId::WRITE_MULTIPLE_BY_INDEX, ..last };
        assert_eq!(assemble(&mut assembly, &other), refused, "of another command");
        let whole = AssembledCommand { payload: vec![1; 16], segmented: true };
        assert_eq!(assemble(&mut assembly, &last), AssemblyStep::Whole(whole));
    }

    /// An announced length allocates nothing.
    #[test]
    fn memory_grows_with_the_octets_received() {
        let announce = |data_size| Command {
            segmentation: Segmentation::Initiate { data_size },
            payload: &[0; 252],
            ..WRITE
        };
        let mut assembly = None;
        let longest = (MAX_TRANSFER + HEAD + DATA_SIZE) as u32;
        assert_eq!(assemble(&mut assembly, &announce(longest)), AssemblyStep::More);
        assert!(assembly.as_ref().is_some_and(|assembly| assembly.octets.capacity() < 1024));
        for data_size in [longest + 1, u32::MAX] {
            let refused = AssemblyStep::Refused(Abort::OUT_OF_MEMORY);
            assert_eq!(assemble(&mut assembly, &announce(data_size)), refused);
            assert_eq!(assembly, None);
        }
    }
}
