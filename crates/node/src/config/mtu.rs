//! Whether each egress port can carry what its streams send there.

use onbeat_frer::spec::{Egress, SequenceTag, Stream};

use super::reader::Faults;
use super::{Config, ConfigError, PortConfig};

/// Octets of an R-TAG (7.8).
const R_TAG: u32 = 6;

impl Config {
    /// Checks that no egress port is too narrow for the frames its streams bring. `mtu_of` tells
    /// the MTU of a port's interface; the `mtu` of the file goes first, and a port whose MTU
    /// nobody knows is not checked.
    ///
    /// A VLAN tag takes no room: Linux lets a frame be 4 octets longer than MTU and header for it
    /// (`xdp_ok_fwd_dev`, `veth_xdp_xmit`).
    pub fn check_mtu(
        &self,
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<(), ConfigError> {
        let faults = Faults::default();
        let mtu_of = |port: &PortConfig| port.mtu.or_else(|| mtu_of(port));
        for block in &self.blocks {
            for (egress, place) in block.first.egress.iter().zip(&block.egress) {
                let to = self.port(egress.port);
                let Some(room) = mtu_of(to) else { continue };
                let ingress = block.first.members.iter().map(|member| self.port(member.port));
                let widest = ingress
                    .filter_map(|port| Some((mtu_of(port)?, port)))
                    .max_by_key(|(mtu, _)| *mtu);
                let Some((mtu, from)) = widest else { continue };
                let needed = after_tagging(&block.first, egress, mtu);
                if room < needed {
                    faults.note(
                        place.span.clone(),
                        &place.path,
                        format!(
                            "port {:?} ({}) has MTU {room}, frames from port {:?} (MTU {mtu}) need {needed}",
                            to.name,
                            to.attached_interface(),
                            from.name,
                        ),
                        format!(
                            "set mtu = {needed} on port {:?}, or mtu = {} on port {:?}",
                            to.name,
                            mtu.saturating_sub(needed - room),
                            from.name,
                        ),
                    );
                }
            }
        }
        let faults = faults.into_vec();
        if faults.is_empty() { Ok(()) } else { Err(ConfigError::new(self.source.clone(), faults)) }
    }
}

/// The MTU that the longest frame of an ingress MTU needs at an egress port.
fn after_tagging(stream: &Stream, egress: &Egress, mtu: u32) -> u32 {
    match egress.tag {
        // Without generation a frame has a tag on arrival, or no number to put into one.
        SequenceTag::RTag if stream.generate => mtu + R_TAG,
        SequenceTag::RTag | SequenceTag::Keep => mtu,
        SequenceTag::Remove => mtu.saturating_sub(R_TAG),
    }
}
