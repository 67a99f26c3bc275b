//! What only shows when all streams are looked at together.

use std::collections::HashSet;

use onbeat_frer::spec::Stream;

use super::block::Block;
use super::reader::Faults;
use super::set::FrameOwners;
use super::{Mode, PortConfig};

/// In generic mode the kernel's copies of a frame share one buffer: what leaves is alike. Where the
/// mode is left open this shows when the interface does; said here, nothing need be tried.
pub(super) fn replicas(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) {
    let mut told = HashSet::new();
    for (block, stream) in streams {
        let differs = stream.unlike_replica();
        let generic = stream.members.iter().find_map(|member| {
            let port = ports.get(usize::from(member.port.0))?;
            (port.mode == Mode::Generic).then_some(&port.name)
        });
        let (Some(differs), Some(port)) = (differs, generic) else { continue };
        if !told.insert(*block) {
            continue;
        }
        let place = &blocks[*block].egress[differs];
        faults.note(
            place.span.clone(),
            &place.path,
            format!(
                "stream {:?} comes in by port {port:?}, which is to run XDP in generic mode, where \
                 all replicas of a frame are alike",
                stream.name
            ),
            "give each egress port the same tag, vlan, priority and destination, or leave mode out \
             and use an interface whose driver has native XDP",
        );
    }
}

/// No frame may be of two streams. Tells whose frames are whose, by the number of the stream.
pub(super) fn all(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) -> FrameOwners {
    let mut taken = FrameOwners::default();
    // Tables with `count` may collide a thousand times: once is told.
    let mut told = HashSet::new();
    for (number, (block, stream)) in streams.iter().enumerate() {
        for member in 0..stream.members.len() {
            let Err(other) = taken.insert(stream, number, member) else { continue };
            let (other_block, other_stream) = &streams[other.stream];
            if !told.insert((*block, member, *other_block, other.member)) {
                continue;
            }
            let help = if block == other_block && blocks[*block].repeat.count > 1 {
                "let step advance what the identification looks at"
            } else {
                DIFFER
            };
            same_frames(stream, member, &other_stream.name, &blocks[*block], ports, faults, help);
        }
    }
    taken
}

/// The way out for two streams.
pub(super) const DIFFER: &str = "let them differ in address, VLAN or port";

/// A member takes frames that are another stream's.
pub(super) fn same_frames(
    stream: &Stream,
    member: usize,
    other: &str,
    block: &Block,
    ports: &[PortConfig],
    faults: &Faults,
    help: &str,
) {
    let place = &block.members[member];
    let port = usize::from(stream.members[member].port.0);
    let port = ports.get(port).map_or("", |port| &port.name);
    faults.note(
        place.span.clone(),
        &place.path,
        format!(
            "stream {:?} takes the same frames on port {port:?} as stream {other:?}",
            stream.name
        ),
        help,
    );
}
