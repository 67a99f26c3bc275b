//! Whether each egress port can carry what its streams send there.

use onbeat_frer::spec::{Egress, PortId, SequenceTag, Stream};

use super::reader::Faults;
use super::{Config, ConfigError, PortConfig, SourceText, Warnings};

/// Octets of an R-TAG (7.8).
const R_TAG: u32 = 6;

impl Config {
    /// Checks that no egress port is too narrow for the frames its streams bring, and tells all
    /// known traps that the configuration steps into. `mtu_of` tells the MTU of a port's interface;
    /// the `mtu` of the file goes first, and a port whose MTU nobody knows is not checked.
    ///
    /// A port where a frame keeps or gets its tag is a path, laid out for FRER: too narrow a one is
    /// a mistake, and an error. Where the tag is removed frames become shorter than they came, and
    /// whether any talker fills a path's MTU the file does not know: a listener narrower than paths
    /// with an MTU of 9,000 is nothing unusual, so this is a warning.
    ///
    /// A VLAN tag takes no room: Linux lets a frame be 4 octets longer than MTU and header for it
    /// (`xdp_ok_fwd_dev`, `veth_xdp_xmit`).
    ///
    /// # Errors
    /// A path that is too narrow.
    pub fn check(
        &self,
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        self.written.check(&self.ports, mtu_of)
    }
}

impl SourceText {
    /// As [`Config::check`], of streams between these ports.
    pub(super) fn check(
        &self,
        ports: &[PortConfig],
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        let faults = Faults::default();
        let port = |id: PortId| &ports[usize::from(id.0)];
        // Each port is asked for once: the answer may come from the kernel.
        let mut known = vec![None; ports.len()];
        let mut mtu_of = |id: PortId| {
            let mtu = || port(id).mtu.or_else(|| mtu_of(port(id)));
            *known[usize::from(id.0)].get_or_insert_with(mtu)
        };
        for block in &self.blocks {
            for (egress, place) in block.first.egress.iter().zip(&block.egress) {
                let to = port(egress.port);
                let Some(room) = mtu_of(egress.port) else { continue };
                let ingress = block.first.members.iter().map(|member| member.port);
                let widest = ingress
                    .filter_map(|id| Some((mtu_of(id)?, port(id))))
                    .max_by_key(|(mtu, _)| *mtu);
                let Some((mtu, from)) = widest else { continue };
                let needed = after_tagging(&block.first, egress, mtu);
                if room >= needed {
                    continue;
                }
                let narrow =
                    format!("port {:?} ({}) has MTU {room}", to.name, to.attached_interface());
                let wide = format!("frames from port {:?} (MTU {mtu})", from.name);
                let raise = format!("set mtu = {needed} on port {:?}", to.name);
                let (span, path) = (place.span.clone(), &place.path);
                if egress.tag == SequenceTag::Remove {
                    faults.warn(
                        span,
                        path,
                        format!("{narrow}, {wide} may need {needed}: longer ones are lost there"),
                        format!("{raise}, or let no talker of the stream send frames that need more than {room}"),
                    );
                } else {
                    faults.note(
                        span,
                        path,
                        format!("{narrow}, {wide} need {needed}"),
                        format!(
                            "{raise}, or mtu = {} on port {:?}",
                            mtu.saturating_sub(needed - room),
                            from.name,
                        ),
                    );
                }
            }
        }
        Ok(self.warnings.clone().and(faults.judge(&self.source)?))
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
