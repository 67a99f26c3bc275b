//! MTU checks of egress ports.

use onbeat_frer::spec::{Egress, PortId, SequenceTag, Stream};

use super::reader::Faults;
use super::{Config, ConfigError, LinkConfig, PortConfig, SourceText, TRAILER, Warnings};

/// Octets of an R-TAG (7.8).
const R_TAG: u32 = 6;

impl Config {
    /// Checks that the MTU of each egress port is sufficient for the frames of its streams, and returns all
    /// warnings of the configuration. `mtu_of` returns the MTU of a port's interface; the `mtu` of the file
    /// takes precedence, and a port with unknown MTU is not checked.
    ///
    /// A port at which a frame keeps or gets its tag is a path of FRER: an insufficient MTU is an error. If the
    /// tag is removed, frames become shorter, and the file does not show whether any talker sends frames as
    /// long as a path's MTU. A listener with a smaller MTU than paths with an MTU of 9,000 is usual, so this
    /// is a warning.
    ///
    /// A VLAN tag does not count: Linux permits frames 4 octets longer than MTU and header for it
    /// (`xdp_ok_fwd_dev`, `veth_xdp_xmit`).
    ///
    /// # Errors
    /// The MTU of a path is too small.
    pub fn check(
        &self,
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        if let Some(stored) = &self.stored {
            stored.check(&self.ports, &mtu_of)?;
        }
        self.written.check(&self.ports, mtu_of)
    }
}

impl SourceText {
    /// Like [`Config::check`], for streams between these ports.
    pub(super) fn check(
        &self,
        ports: &[PortConfig],
        mtu_of: impl Fn(&PortConfig) -> Option<u32>,
    ) -> Result<Warnings, ConfigError> {
        let faults = Faults::default();
        let port = |id: PortId| &ports[usize::from(id.0)];
        // Each MTU is read once: it may come from the kernel.
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
                        format!("{narrow}, {wide} may require {needed}: longer ones are lost there"),
                        format!("{raise}, or limit the frames of the stream's talkers to an MTU of {room}"),
                    );
                } else {
                    faults.note(
                        span,
                        path,
                        format!("{narrow}, {wide} require {needed}"),
                        format!(
                            "{raise}, or mtu = {} on port {:?}",
                            mtu.saturating_sub(needed - room),
                            from.name,
                        ),
                    );
                }
            }
        }
        Ok(self.warnings.clone().and(faults.into_result(&self.source)?))
    }
}

/// An egress port that is too narrow for the longest frames it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NarrowPath<'a> {
    pub(crate) frames: Frames<'a>,
    pub(crate) port: PortId,
    /// The MTU that the port requires.
    pub(crate) needed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Frames<'a> {
    /// Of the ingress ports of a stream.
    Stream(&'a str),
    /// Of a host, which both LANs or paths of its port carry.
    Host(PortId),
}

/// Returns the narrow paths of streams and of hosts, by the MTUs of ports; a port with unknown MTU is not checked.
pub(crate) fn narrow_paths<'a>(
    streams: impl IntoIterator<Item = &'a Stream>,
    links: impl IntoIterator<Item = &'a LinkConfig>,
    mtus: &[Option<u32>],
) -> impl Iterator<Item = NarrowPath<'a>> {
    let mtu_of = |port: PortId| mtus.get(usize::from(port.0)).copied().flatten();
    let narrow = move |frames, port, needed| {
        (mtu_of(port)? < needed).then_some(NarrowPath { frames, port, needed })
    };
    let of_hosts = links.into_iter().flat_map(move |&LinkConfig { host, a, b, .. }| {
        [a, b]
            .into_iter()
            .filter_map(move |port| narrow(Frames::Host(host), port, mtu_of(host)? + TRAILER))
    });
    let of_streams = streams.into_iter().flat_map(move |stream| {
        let widest = stream.members.iter().filter_map(|member| mtu_of(member.port)).max();
        stream.egress.iter().filter_map(move |egress| {
            let needed = after_tagging(stream, egress, widest?);
            narrow(Frames::Stream(&stream.name), egress.port, needed)
        })
    });
    of_streams.chain(of_hosts)
}

/// The MTU required at an egress port for the longest frame of an ingress MTU.
fn after_tagging(stream: &Stream, egress: &Egress, mtu: u32) -> u32 {
    match egress.tag {
        // Without generation a frame has a tag on arrival, or no number to put into one.
        SequenceTag::RTag if stream.generate => mtu + R_TAG,
        SequenceTag::RTag | SequenceTag::Keep => mtu,
        SequenceTag::Remove => mtu.saturating_sub(R_TAG),
    }
}
