//! What a stream will need in the tables.

use onbeat_frer::dataplane::Mode;
use onbeat_frer::spec::{Egress, PortId, Rewrite, SequenceTag, Stream};

use super::Plane;
use crate::abi::frer_mask;
use crate::compile::{self, Key, Replication};
use crate::error::{Error, Result};
use crate::owner::{self, owner};

/// A stream with the owners of its functions.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) stream: &'a Stream,
    /// Slot of each port that `stream` names, in the order of its members and egress ports.
    pub(super) port_slots: Vec<u8>,
    pub(super) owner: u64,
    pub(super) generator: Option<u64>,
    pub(super) recovery: Option<u64>,
    pub(super) members: Vec<WantedMember>,
}

#[derive(Debug)]
pub(super) struct WantedMember {
    pub(super) owner: u64,
    pub(super) individual: Option<u64>,
    pub(super) keys: Vec<Key>,
}

fn unsupported(stream: &Stream, what: impl Into<String>) -> Error {
    Error::Unsupported { stream: stream.name.clone(), what: what.into() }
}

/// Slots of the ports that a stream names, in the order of its members and egress ports.
pub(super) fn port_slots(plane: &Plane, names: &[String], stream: &Stream) -> Result<Vec<u8>> {
    let slot = |port: PortId| {
        let name = &names[usize::from(port.0)];
        let port = plane.ports.get(name).map(|port| port.slot);
        port.ok_or_else(|| unsupported(stream, format!("port {name:?} is not attached")))
    };
    let members = stream.members.iter().map(|member| member.port);
    members.chain(stream.egress.iter().map(|egress| egress.port)).map(slot).collect()
}

impl<'a> Wanted<'a> {
    pub(super) fn of(
        plane: &Plane,
        names: &[String],
        stream: &'a Stream,
        port_slots: Vec<u8>,
    ) -> Result<Self> {
        if stream.generate && stream.egress.iter().any(|e| e.tag == SequenceTag::Keep) {
            return Err(unsupported(
                stream,
                "generates numbers, so say tag = \"r-tag\" or \"none\" at each egress port",
            ));
        }
        let member = |(member, slot): (&onbeat_frer::spec::Member, &u8)| {
            compile::check(&member.identification).map_err(|what| unsupported(stream, what))?;
            let port = &names[usize::from(member.port.0)];
            let owner = |role| owner::of_member(role, &stream.name, port, &member.identification);
            Ok(WantedMember {
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
        // In generic mode the kernel's copies of a frame share one buffer.
        let names = stream.members.iter().map(|m| &names[usize::from(m.port.0)]);
        let generic =
            |name: &&String| plane.ports.get(*name).is_some_and(|port| port.mode == Mode::Generic);
        if let Some(port) = names.into_iter().find(generic) {
            if !wanted.replication().egresses.is_empty() {
                let what = format!(
                    "its port {port:?} runs XDP in generic mode, where all replicas of a frame are \
                     alike: give each egress port the same tag, vlan, priority and destination, or \
                     use an interface whose driver has native XDP"
                );
                return Err(unsupported(stream, what));
            }
        }
        Ok(wanted)
    }

    /// How the stream's replicas are made.
    pub(super) fn replication(&self) -> Replication {
        Replication::of(self.stream, |egress| self.egress_slot(egress))
    }

    /// What each member does to a frame on its way in.
    pub(super) fn ups(&self) -> impl Iterator<Item = Rewrite> {
        let members = self.stream.members.iter();
        members.map(|member| member.identification.rewrite().unwrap_or_default())
    }

    /// Masks that its members are told by.
    pub(super) fn masks(&self) -> impl Iterator<Item = frer_mask> {
        self.stream.members.iter().filter_map(|member| compile::mask(&member.identification))
    }

    /// Owners of its recovery functions.
    pub(super) fn recoveries(&self) -> impl Iterator<Item = u64> {
        self.recovery.into_iter().chain(self.members.iter().filter_map(|m| m.individual))
    }

    fn egress_slot(&self, egress: &Egress) -> u8 {
        let index = self.stream.egress.iter().position(|e| e.port == egress.port);
        self.port_slots[self.members.len() + index.expect("an egress port of this stream")]
    }
}
