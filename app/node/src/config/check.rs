//! Checks across all streams.

use std::collections::HashSet;

use onbeat_frer::spec::Stream;

use super::block::Block;
use super::reader::Faults;
use super::set::FrameOwners;
use super::{Mode, PortConfig};

/// Checks that ports in generic mode have streams with equal replicas only: the kernel's copies of a frame share
/// one buffer there. With mode "auto" this is checked when the interface exists.
pub(super) fn replicas(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) {
    let mut reported = HashSet::new();
    for (block, stream) in streams {
        let differs = stream.unlike_replica();
        let generic = stream.members.iter().find_map(|member| {
            let port = ports.get(usize::from(member.port.0))?;
            (port.mode == Mode::Generic).then_some(&port.name)
        });
        let (Some(differs), Some(port)) = (differs, generic) else { continue };
        if !reported.insert(*block) {
            continue;
        }
        let place = &blocks[*block].egress[differs];
        faults.note(
            place.span.clone(),
            &place.path,
            format!(
                "stream {:?} is received by port {port:?}, which runs XDP in generic mode, where \
                 all replicas of a frame are equal",
                stream.name
            ),
            "give each egress port the same tag, vlan, priority and destination, or leave mode out \
             and use an interface whose driver has native XDP",
        );
    }
}

/// Checks that no frame belongs to two streams. Returns the owner of each frame, by the number of the stream.
pub(super) fn all(
    streams: &[(usize, Stream)],
    blocks: &[Block],
    ports: &[PortConfig],
    faults: &Faults,
) -> FrameOwners {
    let mut taken = FrameOwners::default();
    // Tables with `count` may collide a thousand times; one fault is reported.
    let mut reported = HashSet::new();
    for (number, (block, stream)) in streams.iter().enumerate() {
        for member in 0..stream.members.len() {
            let Err(other) = taken.insert(stream, number, member) else { continue };
            let (other_block, other_stream) = &streams[other.stream];
            if !reported.insert((*block, member, *other_block, other.member)) {
                continue;
            }
            let help = if block == other_block && blocks[*block].repeat.count > 1 {
                "advance a key of the identification by step"
            } else {
                DIFFER
            };
            same_frames(stream, member, &other_stream.name, &blocks[*block], ports, faults, help);
        }
    }
    taken
}

/// Remedy for two streams with the same frames.
pub(super) const DIFFER: &str = "use different addresses, VLANs or ports";

/// Reports a member that identifies frames of another stream.
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
            "stream {:?} identifies the same frames on port {port:?} as stream {other:?}",
            stream.name
        ),
        help,
    );
}
