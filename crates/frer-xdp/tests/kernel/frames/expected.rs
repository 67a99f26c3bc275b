//! What frames become by the description of the streams, step by step, with the codecs.

use onbeat_frer::generate::Generate;
use onbeat_frer::identify::{Fields, MemberRef, Table};
use onbeat_frer::recover::{Recover, Role};
use onbeat_frer::spec::{Egress, Identification, PortId, Rewrite, SequenceTag, Stream, VlanAction};
use onbeat_wire::edit::{self, Edit, MAX_GROWTH, RTagAction, edit};
use onbeat_wire::{Frame, SequenceTag as Tag};

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Of no stream.
    Unmatched,
    Dropped,
    /// The replica at each egress port, lowest port first.
    Sent(Vec<(u8, Vec<u8>)>),
}

pub(crate) struct Model {
    tables: Vec<Table>,
    streams: Vec<State>,
    pub(crate) unmatched: u64,
    pub(crate) dropped: u64,
}

struct State {
    stream: Stream,
    generate: Generate,
    individual: Vec<Option<Recover>>,
    sequence: Option<Recover>,
    input: Vec<u64>,
    enc_errored: Vec<u64>,
}

impl State {
    fn new(stream: &Stream) -> Self {
        let function = |config, role| Recover::new(config, role).expect("a valid configuration");
        Self {
            stream: stream.clone(),
            generate: Generate::new(),
            individual: stream
                .members
                .iter()
                .map(|m| m.individual.as_ref().map(|config| function(config, Role::Individual)))
                .collect(),
            sequence: stream.recover.as_ref().map(|config| function(config, Role::Sequence)),
            input: vec![0; stream.members.len()],
            enc_errored: vec![0; stream.members.len()],
        }
    }

    fn frame(&mut self, member: usize, frame: &Frame<'_>) -> Outcome {
        // An HSR tag carries no number of this data plane's encapsulation.
        let number = match frame.sequence_tag() {
            Some(Tag::RTag(tag)) => Some(tag.sequence),
            Some(Tag::Hsr(_)) | None => None,
        };
        let passes = |function: &mut Option<Recover>| {
            function.as_mut().is_none_or(|function| function.packet(1, number).is_accept())
        };
        if !passes(&mut self.individual[member]) || !passes(&mut self.sequence) {
            return Outcome::Dropped;
        }
        let untagged = frame.sequence_tag().is_none();
        let drawn = (self.stream.generate && untagged).then(|| self.generate.next());
        let up = match &self.stream.members[member].identification {
            Identification::ActiveDestination { up, .. } => *up,
            _ => Rewrite::default(),
        };
        let offered = apply(frame, &up, RTagAction::Keep);
        let offered = Frame::parse(&offered).expect("still a frame");
        let replica = |egress: &Egress| {
            let tag = match (egress.tag, drawn) {
                (SequenceTag::RTag, Some(number)) => RTagAction::Push(number),
                (SequenceTag::RTag, None) | (SequenceTag::Keep, _) => RTagAction::Keep,
                (SequenceTag::Remove, _) => RTagAction::Remove,
            };
            (egress.port.0, apply(&offered, &egress.rewrite, tag))
        };
        let mut replicas: Vec<_> = self.stream.egress.iter().map(replica).collect();
        replicas.sort();
        Outcome::Sent(replicas)
    }
}

fn apply(frame: &Frame<'_>, rewrite: &Rewrite, rtag: RTagAction) -> Vec<u8> {
    let what = Edit {
        destination: rewrite.destination,
        vlan: match rewrite.vlan {
            VlanAction::Keep => edit::VlanAction::Keep,
            VlanAction::Set(vid) => edit::VlanAction::Set(vid),
            VlanAction::Remove => edit::VlanAction::Remove,
        },
        priority: rewrite.priority,
        rtag,
    };
    let mut out = vec![0xa5; frame.octets().len() + MAX_GROWTH];
    let length = edit(frame, &what, &mut out).expect("an edit that can be done");
    out.truncate(length);
    out
}

impl Model {
    pub(crate) fn new(streams: &[Stream], ports: u8) -> Self {
        Self {
            tables: (0..ports)
                .map(|port| Table::new(streams, PortId(port)).expect("no conflict"))
                .collect(),
            streams: streams.iter().map(State::new).collect(),
            unmatched: 0,
            dropped: 0,
        }
    }

    /// Each member's input packets and encoding errors of a stream.
    pub(crate) fn counted(&self, stream: usize) -> (Vec<u64>, Vec<u64>) {
        (self.streams[stream].input.clone(), self.streams[stream].enc_errored.clone())
    }

    pub(crate) fn frame(&mut self, port: u8, octets: &[u8]) -> Outcome {
        let outcome = match self.identify(port, octets) {
            None => Outcome::Unmatched,
            Some(at) => self.member_frame(at, octets),
        };
        match outcome {
            Outcome::Unmatched => self.unmatched += 1,
            Outcome::Dropped => self.dropped += 1,
            Outcome::Sent(_) => {}
        }
        outcome
    }

    fn identify(&self, port: u8, octets: &[u8]) -> Option<MemberRef> {
        let table = &self.tables[usize::from(port)];
        match Frame::parse(octets) {
            Ok(frame) => table.lookup(&Fields::from(&frame)),
            // Identification stands below sequence decoding: what is in front of the R-TAG counts.
            Err(_) => {
                let longer = ends_within_r_tag(octets)?;
                let frame = Frame::parse(&longer).expect("longer than its headers");
                table.lookup(&Fields { ip: None, ..Fields::from(&frame) })
            }
        }
    }

    fn member_frame(&mut self, at: MemberRef, octets: &[u8]) -> Outcome {
        let state = &mut self.streams[at.stream];
        state.input[at.member] += 1;
        match Frame::parse(octets) {
            Ok(frame) => state.frame(at.member, &frame),
            Err(_) => {
                state.enc_errored[at.member] += 1;
                Outcome::Dropped
            }
        }
    }
}

/// The frame with octets behind it, where it ends behind the EtherType of an R-TAG.
fn ends_within_r_tag(octets: &[u8]) -> Option<Vec<u8>> {
    let longer = [octets, &[0; 8]].concat();
    let frame = Frame::parse(&longer).ok()?;
    let r_tag = matches!(frame.sequence_tag(), Some(Tag::RTag(_)));
    (r_tag && frame.msdu_offset() + 2 <= octets.len()).then_some(longer)
}
