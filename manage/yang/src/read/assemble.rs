//! Entries of the tables -> streams: members that share a function are of one stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use onbeat_frer::identify::{MemberRef, Table};
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
};

use super::functions::{Functions, Handles, RecoveryEntry};
use super::identity::{Identity, Method};
use crate::document::{FaultList, Node};
use crate::handles::StreamHandles;

/// A handle of received frames.
#[derive(Debug, Default)]
struct ReceivedHandle<'a> {
    /// Port, identification and leaf of each.
    members: Vec<(PortId, &'a Identification, &'a Node<'a>)>,
    /// Ports that send its frames as they are.
    outputs: Vec<PortId>,
    /// Handles that its frames get; `None`: no split.
    split: Option<Vec<u32>>,
    /// Ports at which it is split.
    split_at: BTreeSet<PortId>,
    individual: HashMap<PortId, Recovery>,
    /// Ports at which R-TAGs are decoded.
    decoded: BTreeSet<PortId>,
}

/// The entries by handle.
struct Assembly<'a> {
    /// Handles of received frames, in the order of the document.
    order: Vec<u32>,
    received: HashMap<u32, ReceivedHandle<'a>>,
    /// Handles of edited frames: port, edit, leaf.
    edited: HashMap<u32, Vec<(PortId, Rewrite, &'a Node<'a>)>>,
    /// Handles whose frames get an R-TAG at a port.
    encoded: BTreeSet<(u32, PortId)>,
    faults: &'a FaultList,
}

/// The sequence functions of a stream.
#[derive(Debug, Default, Clone)]
struct GroupFunctions<'a> {
    generation: Option<&'a Node<'a>>,
    recovery: Option<&'a RecoveryEntry<'a>>,
}

pub(super) fn assemble(
    identities: &[Identity<'_>],
    functions: &Functions<'_>,
    names: &BTreeMap<u32, String>,
    faults: &FaultList,
) -> Vec<(Stream, StreamHandles)> {
    let mut assembly = Assembly::new(identities, faults);
    assembly.split(functions);
    assembly.encode(functions);
    assembly.recover_individually(functions);
    let groups = assembly.groups(functions, names);
    if faults.count() > 0 {
        return Vec::new();
    }
    let mut streams = Vec::new();
    let mut tables: HashMap<PortId, Table> = HashMap::new();
    let mut known = BTreeSet::new();
    for (handles, functions) in groups {
        let first = handles[0];
        let name = handles.iter().find_map(|handle| names.get(handle).cloned());
        let name = name.filter(|name| !known.contains(name));
        let name = name.unwrap_or_else(|| format!("stream-{first}"));
        known.insert(name.clone());
        let Some(stream) = assembly.stream(name, &handles, &functions) else { continue };
        let own = assembly.handles(&handles);
        let members = handles.iter().flat_map(|handle| &assembly.received[handle].members);
        for (number, (member, (.., leaf))) in stream.members.iter().zip(members).enumerate() {
            let at = MemberRef { stream: streams.len(), member: number };
            let table = tables.entry(member.port).or_default();
            if table.insert(&member.identification, at).is_err() {
                let help = "change one of them; a frame is of one stream";
                leaf.fault("another entry identifies the same frames at this port", help);
            }
        }
        streams.push((stream, own));
    }
    streams
}

impl<'a> Assembly<'a> {
    fn new(identities: &'a [Identity<'a>], faults: &'a FaultList) -> Self {
        let mut assembly = Self {
            order: Vec::new(),
            received: HashMap::new(),
            edited: HashMap::new(),
            encoded: BTreeSet::new(),
            faults,
        };
        for identity in identities {
            let handle = identity.handle;
            match &identity.method {
                Method::Identify(identification) => {
                    let received = assembly.received.entry(handle).or_insert_with(|| {
                        assembly.order.push(handle);
                        ReceivedHandle::default()
                    });
                    for (port, leaf) in &identity.inputs {
                        received.members.push((*port, identification, leaf));
                    }
                    for (port, leaf) in &identity.outputs {
                        if received.members.iter().any(|(input, ..)| input == port) {
                            leaf.fault(
                                "the handle is received at this port, too",
                                "give the output an entry with a handle of its own, and a stream-split",
                            );
                        } else if !received.outputs.contains(port) {
                            received.outputs.push(*port);
                        }
                    }
                }
                Method::Edit(rewrite) => {
                    let edited = assembly.edited.entry(handle).or_default();
                    for (port, leaf) in &identity.outputs {
                        if edited.iter().any(|(known, ..)| known == port) {
                            leaf.fault(
                                "two entries of this handle edit frames at this port",
                                "remove one",
                            );
                        }
                        edited.push((*port, *rewrite, leaf));
                    }
                }
            }
        }
        for identity in identities {
            let handle = identity.handle;
            if assembly.edited.contains_key(&handle) && assembly.received.contains_key(&handle) {
                identity.node.fault(
                    format!("handle {handle} is received, and edited at an output"),
                    "give the output a handle of its own, and a stream-split",
                );
            }
        }
        assembly
    }

    /// Refuses handles that are of no received frames.
    fn are_received(&self, handles: &Handles<'_>) -> bool {
        let mut all = true;
        for (handle, leaf) in handles {
            if !self.received.contains_key(handle) {
                all = false;
                let message = match self.edited.contains_key(handle) {
                    true => format!("handle {handle} is that of an output"),
                    false => format!("no stream-identity has handle {handle}"),
                };
                leaf.fault(message, "use the handle of an entry with out-facing/input-port");
            }
        }
        all
    }

    fn split(&mut self, functions: &Functions<'_>) {
        for split in &functions.splits {
            for (handle, leaf) in &split.outputs {
                let is_input = split.inputs.iter().any(|(input, _)| input == handle);
                if !self.edited.contains_key(handle) && !is_input {
                    leaf.fault(
                        format!("handle {handle} is not that of an output"),
                        "use the handle of an entry with out-facing/output-port alone, or of input-id",
                    );
                }
            }
            if !self.are_received(&split.inputs) {
                continue;
            }
            for (handle, leaf) in &split.inputs {
                let keeps = split.outputs.iter().any(|(output, _)| output == handle);
                let outputs: Vec<u32> = split
                    .outputs
                    .iter()
                    .map(|(output, _)| *output)
                    .filter(|output| output == handle || self.edited.contains_key(output))
                    .collect();
                let Some(received) = self.received.get_mut(handle) else { continue };
                if keeps == received.outputs.is_empty() {
                    let message = match keeps {
                        true => {
                            "output-id has the handle, and its entry has no out-facing/output-port"
                        }
                        false => {
                            "output-id lacks the handle, and its entry has out-facing/output-port"
                        }
                    };
                    leaf.fault(
                        message,
                        "state in both that its frames are sent unedited, or in neither",
                    );
                }
                match &split.port {
                    Some((port, leaf)) => {
                        if !received.members.iter().any(|(input, ..)| input == port) {
                            leaf.fault(
                                format!("handle {handle} is not received at this port"),
                                "use a port of its out-facing/input-port",
                            );
                        }
                        received.split_at.insert(*port);
                    }
                    None => {
                        received.split_at.extend(received.members.iter().map(|(port, ..)| *port))
                    }
                }
                match &received.split {
                    Some(known) if *known != outputs => leaf.fault(
                        format!("handle {handle} is split differently at another port"),
                        "split it alike at all its ports",
                    ),
                    _ => received.split = Some(outputs),
                }
            }
        }
        for handle in &self.order {
            let received = &self.received[handle];
            if received.split.is_none() {
                continue;
            }
            for (port, _, leaf) in &received.members {
                if !received.split_at.contains(port) {
                    leaf.fault(
                        format!("handle {handle} is split at other ports, and not at this one"),
                        "split it alike at all its ports",
                    );
                }
            }
        }
    }

    fn encode(&mut self, functions: &Functions<'_>) {
        for entry in &functions.encodings {
            for (handle, leaf) in &entry.streams {
                let port = entry.port;
                let received = self.received.get_mut(handle);
                let sends =
                    received.as_ref().is_some_and(|received| received.outputs.contains(&port))
                        || self.edited.get(handle).is_some_and(|edited| {
                            edited.iter().any(|(output, ..)| *output == port)
                        });
                let input = received
                    .filter(|received| received.members.iter().any(|(input, ..)| *input == port));
                match (input, sends, entry.is_active) {
                    (Some(received), ..) => {
                        received.decoded.insert(port);
                    }
                    (None, true, true) => {
                        self.encoded.insert((*handle, port));
                    }
                    (None, true, false) => leaf.fault(
                        "the port sends this handle, and a passive entry only decodes",
                        "set active to true, or remove the handle",
                    ),
                    (None, false, _) => leaf.fault(
                        format!("the port neither receives nor sends handle {handle}"),
                        "remove it, or add the port to its stream-identity",
                    ),
                }
            }
        }
    }

    fn recover_individually(&mut self, functions: &Functions<'_>) {
        for entry in functions.recoveries.iter().filter(|entry| entry.is_individual) {
            if !self.are_received(&entry.streams) {
                continue;
            }
            let ([(handle, _)], [(port, leaf)]) =
                (entry.streams.as_slice(), entry.ports.as_slice())
            else {
                entry.node.fault(
                    "individual recovery is of one member",
                    "write an entry for each handle and port",
                );
                continue;
            };
            let Some(received) = self.received.get_mut(handle) else { continue };
            let at_port = received.members.iter().filter(|(input, ..)| input == port).count();
            if at_port != 1 {
                leaf.fault(
                    format!("handle {handle} has {at_port} identifications at this port, not 1"),
                    "give each its own handle",
                );
            } else if received.individual.insert(*port, entry.recovery).is_some() {
                entry.node.fault("another entry recovers this member", "remove one of them");
            }
        }
    }

    /// The streams: handles that a function joins.
    fn groups(
        &self,
        functions: &'a Functions<'a>,
        names: &BTreeMap<u32, String>,
    ) -> Vec<(Vec<u32>, GroupFunctions<'a>)> {
        let mut of: HashMap<u32, GroupFunctions<'a>> = HashMap::new();
        let mut joined: Vec<Vec<u32>> = Vec::new();
        let mut join = |streams: &'a Handles<'a>, add: &dyn Fn(&mut GroupFunctions<'a>) -> bool| {
            if !self.are_received(streams) {
                return;
            }
            for (handle, leaf) in streams {
                if !add(of.entry(*handle).or_default()) {
                    leaf.fault(
                        format!("handle {handle} has another sequence function already"),
                        "generate or recover the numbers of a stream in one entry",
                    );
                }
            }
            joined.push(streams.iter().map(|(handle, _)| *handle).collect());
        };
        for entry in &functions.generations {
            join(&entry.streams, &|functions| {
                functions.recovery.is_none() && functions.generation.replace(&entry.node).is_none()
            });
        }
        for entry in functions.recoveries.iter().filter(|entry| !entry.is_individual) {
            join(&entry.streams, &|functions| {
                functions.generation.is_none() && functions.recovery.replace(entry).is_none()
            });
        }
        // Without a function, the name joins members.
        let mut named: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for handle in self.order.iter().filter(|handle| !of.contains_key(handle)) {
            match names.get(handle) {
                Some(name) => named.entry(name).or_default().push(*handle),
                None => joined.push(vec![*handle]),
            }
        }
        joined.extend(named.into_values());
        let place: HashMap<u32, usize> =
            self.order.iter().enumerate().map(|(place, handle)| (*handle, place)).collect();
        for handles in &mut joined {
            handles.sort_unstable_by_key(|handle| place.get(handle));
        }
        joined.sort_unstable_by_key(|handles| handles.first().and_then(|first| place.get(first)));
        let group = |handles: Vec<u32>| {
            let functions = handles.first().and_then(|first| of.get(first)).cloned();
            (handles, functions.unwrap_or_default())
        };
        joined.into_iter().map(group).collect()
    }

    /// The egress entries of a handle, with the handle of its frames at each.
    fn egress(&self, handle: u32) -> Vec<(Egress, u32)> {
        let received = &self.received[&handle];
        let plain = received.outputs.iter().map(|port| (*port, Rewrite::default(), handle));
        let outputs = received.split.iter().flatten().filter(|output| **output != handle);
        let edited = outputs.flat_map(|output| {
            let edited = self.edited.get(output).into_iter().flatten();
            edited.map(|(port, rewrite, _)| (*port, *rewrite, *output))
        });
        plain
            .chain(edited)
            .map(|(port, rewrite, of)| {
                let is_encoded = self.encoded.contains(&(of, port));
                let tag = if is_encoded { SequenceTag::RTag } else { SequenceTag::Keep };
                (Egress { port, tag, rewrite }, of)
            })
            .collect()
    }

    /// The handles of a stream's members, and of its egress entries.
    fn handles(&self, handles: &[u32]) -> StreamHandles {
        let members =
            handles.iter().flat_map(|handle| self.received[handle].members.iter().map(|_| *handle));
        let own = |(_, of)| (of != handles[0]).then_some(of);
        StreamHandles {
            members: members.collect(),
            egress: self.egress(handles[0]).into_iter().map(own).collect(),
        }
    }

    fn stream(
        &self,
        name: String,
        handles: &[u32],
        functions: &GroupFunctions<'a>,
    ) -> Option<Stream> {
        let before = self.faults.count();
        let (mut members, mut decoded) = (Vec::new(), None);
        for handle in handles {
            let received = &self.received[handle];
            for (port, identification, leaf) in &received.members {
                members.push(Member {
                    port: *port,
                    identification: (*identification).clone(),
                    individual: received.individual.get(port).copied(),
                });
                let is_decoded = received.decoded.contains(port);
                if *decoded.get_or_insert(is_decoded) != is_decoded {
                    leaf.fault(
                        "sequence-identification decodes some members of the stream, not all",
                        "list all their handles, each at its port, or none",
                    );
                }
            }
        }
        let decoded = decoded.unwrap_or(false);
        let first = self.received[&handles[0]].members.first().map(|(.., leaf)| *leaf)?;
        let mut egress: Vec<Egress> =
            self.egress(handles[0]).into_iter().map(|(egress, _)| egress).collect();
        for handle in &handles[1..] {
            let other: Vec<Egress> =
                self.egress(*handle).into_iter().map(|(egress, _)| egress).collect();
            if other != egress {
                let leaf = self.received[handle].members.first().map_or(first, |(.., leaf)| *leaf);
                leaf.fault(
                    format!("handle {handle} leaves by other ports than {} of its stream", handles[0]),
                    "send all members of a stream by the same ports, with the same edits and R-TAGs",
                );
            }
        }
        if egress.is_empty() {
            first.fault(
                "no port sends these frames",
                "add out-facing/output-port, or a stream-split to handles of outputs",
            );
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = egress.iter().find(|egress| !seen.insert(egress.port)) {
            first.fault(
                format!("a port (number {}) sends these frames twice", twice.port.0 + 1),
                "list each output port once",
            );
        }
        if decoded {
            // What is decoded leaves without R-TAG unless it is encoded again.
            for egress in egress.iter_mut().filter(|egress| egress.tag == SequenceTag::Keep) {
                egress.tag = SequenceTag::Remove;
            }
        }
        let is_encoded = egress.iter().any(|egress| egress.tag == SequenceTag::RTag);
        match functions.generation {
            Some(node) if !is_encoded => node.fault(
                "sequence numbers are generated, but no port sends them",
                "list the outputs in sequence-identification, with active true",
            ),
            None if is_encoded && !decoded => first.fault(
                "R-TAGs are sent, but the node has no numbers for them",
                "decode them at this port (sequence-identification), or generate them",
            ),
            _ => {}
        }
        let is_recovered = functions.recovery.is_some()
            || members.iter().any(|member| member.individual.is_some());
        if is_recovered && !decoded {
            first.fault(
                "recovery requires sequence numbers, and R-TAGs are not decoded at this port",
                "list the handle in sequence-identification of the port",
            );
        }
        if let Some(entry) = functions.recovery {
            let ports: BTreeSet<PortId> = entry.ports.iter().map(|(port, _)| *port).collect();
            for (_, leaf) in entry.ports.iter().filter(|(port, _)| !seen.contains(port)) {
                leaf.fault("the stream does not leave by this port", "use its output ports");
            }
            if seen.iter().any(|port| !ports.contains(port)) {
                entry.node.fault(
                    "the stream leaves by further ports: the node recovers it for all of them",
                    "list all its output ports in port",
                );
            }
        }
        if self.faults.count() > before {
            return None;
        }
        let recover = functions.recovery.map(|entry| entry.recovery);
        let generate = functions.generation.is_some();
        let stream = Stream { name, members, generate, recover, egress };
        if let Err(error) = stream.validate() {
            first.fault(error.to_string(), "correct the stream");
            return None;
        }
        Some(stream)
    }
}
