//! The table entries that a stream requires.

use onbeat_frer::dataplane::Mode;
use onbeat_frer::spec::{Egress, PortId, Rewrite, SequenceTag, Stream};

use super::Plane;
use crate::abi::frer_mask;
use crate::compile::{self, Key, Replication};
use crate::error::{Error, Result};
use crate::owner::{self, owner};

/// A stream to set, with the owners of its functions.
#[derive(Debug)]
pub(super) struct RequestedStream<'a> {
    pub(super) stream: &'a Stream,
    /// Slot of each port in `stream`, in the order of members and egress ports.
    pub(super) port_slots: Vec<u8>,
    pub(super) owner: u64,
    pub(super) generator: Option<u64>,
    pub(super) recovery: Option<u64>,
    pub(super) members: Vec<RequestedMember>,
}

#[derive(Debug)]
pub(super) struct RequestedMember {
    pub(super) owner: u64,
    pub(super) individual: Option<u64>,
    pub(super) keys: Vec<Key>,
}

fn unsupported(stream: &Stream, what: impl Into<String>) -> Error {
    Error::Unsupported { stream: stream.name.clone(), what: what.into() }
}

/// Returns the slots of the ports in a stream, in the order of members and egress ports.
pub(super) fn port_slots(plane: &Plane, names: &[String], stream: &Stream) -> Result<Vec<u8>> {
    let slot = |port: PortId| {
        let name = &names[usize::from(port.0)];
        let slot = plane.known_slot(name);
        slot.ok_or_else(|| unsupported(stream, format!("port {name:?} is not attached")))
    };
    let members = stream.members.iter().map(|member| member.port);
    members.chain(stream.egress.iter().map(|egress| egress.port)).map(slot).collect()
}

impl<'a> RequestedStream<'a> {
    pub(super) fn of(
        plane: &Plane,
        names: &[String],
        stream: &'a Stream,
        port_slots: Vec<u8>,
    ) -> Result<Self> {
        if stream.generate && stream.egress.iter().any(|e| e.tag == SequenceTag::Keep) {
            return Err(unsupported(
                stream,
                "generate is set; set tag = \"r-tag\" or \"none\" at each egress port",
            ));
        }
        let member = |(member, slot): (&onbeat_frer::spec::Member, &u8)| {
            compile::check(&member.identification).map_err(|what| unsupported(stream, what))?;
            let port = &names[usize::from(member.port.0)];
            let owner = |role| owner::of_member(role, &stream.name, port, &member.identification);
            Ok(RequestedMember {
                owner: owner("member"),
                individual: member.individual.map(|_| owner("individual")),
                keys: compile::keys(&member.identification, *slot),
            })
        };
        let members = stream.members.iter().zip(&port_slots).map(member);
        let members = members.collect::<Result<Vec<_>>>()?;
        let owner = |role| owner(role, &[&stream.name]);
        let wanted = Self {
            stream,
            owner: owner("stream"),
            generator: stream.generate.then(|| owner("generator")),
            recovery: stream.recover.map(|_| owner("recovery")),
            members,
            port_slots,
        };
        // In generic mode the copies of a frame share one buffer.
        let names = stream.members.iter().map(|m| &names[usize::from(m.port.0)]);
        let generic =
            |name: &&String| plane.ports.get(*name).is_some_and(|port| port.mode == Mode::Generic);
        if let Some(port) = names.into_iter().find(generic) {
            if !wanted.replication().egresses.is_empty() {
                let what = format!(
                    "port {port:?} runs XDP in generic mode, where all replicas of a frame are identical; \
                     set the same tag, vlan, priority and destination at each egress port, or use an \
                     interface whose driver supports native XDP"
                );
                return Err(unsupported(stream, what));
            }
        }
        Ok(wanted)
    }

    /// Returns the replication of the stream.
    pub(super) fn replication(&self) -> Replication {
        Replication::of(self.stream, |egress| self.egress_slot(egress))
    }

    /// Returns the edit of each member at its input.
    pub(super) fn ups(&self) -> impl Iterator<Item = Rewrite> {
        let members = self.stream.members.iter();
        members.map(|member| member.identification.rewrite().unwrap_or_default())
    }

    /// Returns the masks that identify its members.
    pub(super) fn masks(&self) -> impl Iterator<Item = frer_mask> {
        self.stream.members.iter().filter_map(|member| compile::mask(&member.identification))
    }

    /// Returns the owners of its recovery functions.
    pub(super) fn recoveries(&self) -> impl Iterator<Item = u64> {
        self.recovery.into_iter().chain(self.members.iter().filter_map(|m| m.individual))
    }

    fn egress_slot(&self, egress: &Egress) -> u8 {
        let index = self.stream.egress.iter().position(|e| e.port == egress.port);
        self.port_slots[self.members.len() + index.expect("an egress port of this stream")]
    }
}
