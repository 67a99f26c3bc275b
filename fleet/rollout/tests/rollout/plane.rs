//! Nodes in virtual time: the pure data plane behind links with delays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use onbeat_frer::plane::{Disposition, Plane};
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream,
    TagMatch, VlanAction, VlanMatch,
};
use onbeat_plan::Network;
use onbeat_wire::MacAddress;
use toml::{Table, Value};

/// EtherType of frames of applications, and of probes.
const DATA: u16 = 0x88b6;
const PROBE: u16 = 0x88b5;

/// The streams of a node file.
fn streams(text: &str, ports: &[String]) -> BTreeMap<String, Stream> {
    let root: Table = text.parse().expect("TOML");
    let port = |table: &Table| {
        let name = table["port"].as_str().expect("a name");
        PortId(ports.iter().position(|port| port == name).expect("a port") as u8)
    };
    let number = |value: &Value| value.as_integer().expect("a number");
    let tables = |stream: &Table, key: &str| -> Vec<Table> {
        let tables = stream[key].as_array().expect("tables").iter();
        tables.map(|table| table.as_table().expect("a table").clone()).collect()
    };
    let member = |table: &Table| {
        let identify = table["identify"].as_table().expect("a table");
        let octets = identify["destination"].as_str().expect("an address").split(':');
        let octets: Vec<u8> =
            octets.map(|octet| u8::from_str_radix(octet, 16).expect("an octet")).collect();
        let vlan = match identify.get("vlan") {
            Some(vlan) => VlanMatch { tagged: TagMatch::Tagged, vlan: number(vlan) as u16 },
            None => VlanMatch { tagged: TagMatch::Priority, vlan: 0 },
        };
        let destination = MacAddress(octets.try_into().expect("six octets"));
        let identification = Identification::Null { destination, vlan };
        Member { port: port(table), identification, individual: None }
    };
    let egress = |table: &Table| Egress {
        port: port(table),
        tag: match table.get("tag").and_then(Value::as_str) {
            Some("r-tag") => SequenceTag::RTag,
            Some("none") => SequenceTag::Remove,
            _ => SequenceTag::Keep,
        },
        rewrite: Rewrite {
            vlan: match table.get("vlan") {
                Some(Value::Integer(vlan)) => VlanAction::Set(*vlan as u16),
                Some(_) => VlanAction::Remove,
                None => VlanAction::Keep,
            },
            ..Rewrite::default()
        },
    };
    let recover = |table: &Value| Recovery {
        algorithm: Algorithm::Vector { history_length: number(&table["history-length"]) as u16 },
        reset_timeout_ms: number(&table["reset-timeout-ms"]) as u32,
        ..Recovery::vector(64)
    };
    let stream = |stream: &Value| {
        let stream = stream.as_table().expect("a table");
        let name = stream["name"].as_str().expect("a name").to_owned();
        let spec = Stream {
            name: name.clone(),
            members: tables(stream, "member").iter().map(member).collect(),
            generate: stream.get("generate").is_some(),
            recover: stream.get("recover").map(recover),
            egress: tables(stream, "egress").iter().map(egress).collect(),
        };
        (name, spec)
    };
    root.get("stream").and_then(Value::as_array).into_iter().flatten().map(stream).collect()
}

/// A node.
struct NodePlane {
    plane: Plane,
    ports: Vec<String>,
    streams: BTreeMap<String, Stream>,
    text: String,
    /// For each port the node and port at the other end, and the delay to it; none of the host.
    links: Vec<Option<(usize, PortId, u64)>>,
}

/// A frame that arrives: time, order, node, port, octets.
type Arrival = Reverse<(u64, u64, usize, u8, Vec<u8>)>;

/// A network in virtual time.
pub(crate) struct World {
    nodes: Vec<NodePlane>,
    arrivals: BinaryHeap<Arrival>,
    order: u64,
    /// How often each frame was delivered, by stream address and node, then by number.
    delivered: HashMap<([u8; 6], usize), Vec<u8>>,
    /// When each frame was sent, by address, then by number.
    sent: HashMap<[u8; 6], Vec<u64>>,
}

impl World {
    pub(crate) fn new(network: &Network) -> Self {
        let node = |index: usize| {
            let node = &network.nodes[index];
            let mut ports: Vec<String> = node.ports.iter().map(|port| port.name.clone()).collect();
            ports.push("host".into());
            let mut links = vec![None; ports.len()];
            for link in &network.links {
                for (own, other) in [(0, 1), (1, 0)] {
                    let (own, other) = (link.ends[own], link.ends[other]);
                    if own.node as usize == index {
                        let peer = (other.node as usize, PortId(other.port as u8), link.delay_ns);
                        links[own.port as usize] = Some(peer);
                    }
                }
            }
            let plane = Plane::new(ports.len());
            NodePlane { plane, ports, streams: BTreeMap::new(), text: String::new(), links }
        };
        Self {
            nodes: (0..network.nodes.len()).map(node).collect(),
            arrivals: BinaryHeap::new(),
            order: 0,
            delivered: HashMap::new(),
            sent: HashMap::new(),
        }
    }

    /// Makes a node read a file.
    pub(crate) fn apply(&mut self, node: usize, text: &str) -> Result<(), String> {
        let node = &mut self.nodes[node];
        let streams = streams(text, &node.ports);
        let gone: Vec<&str> = node
            .streams
            .keys()
            .filter(|name| !streams.contains_key(*name))
            .map(|name| &**name)
            .collect();
        let is_new = |(name, stream): &(&String, &Stream)| node.streams.get(*name) != Some(stream);
        let changed: Vec<Stream> =
            streams.iter().filter(is_new).map(|(_, stream)| stream.clone()).collect();
        node.plane.change(&gone, &changed).map_err(|refusal| refusal.to_string())?;
        (node.streams, node.text) = (streams, text.to_owned());
        Ok(())
    }

    /// The file that a node runs.
    pub(crate) fn text(&self, node: usize) -> &str {
        &self.nodes[node].text
    }

    /// Frames that a member received.
    pub(crate) fn input(&mut self, node: usize, stream: &str, member: usize, now_ns: u64) -> u64 {
        let reading = self.nodes[node].plane.read(stream, now_ns);
        reading.and_then(|reading| Some(reading.members.get(member)?.input)).unwrap_or_default()
    }

    fn arrive(&mut self, time: u64, node: usize, port: PortId, octets: Vec<u8>) {
        self.order += 1;
        self.arrivals.push(Reverse((time, self.order, node, port.0, octets)));
    }

    /// A talker's application sends a frame, with the next number.
    pub(crate) fn send(&mut self, node: usize, address: MacAddress, now_ns: u64) {
        let times = self.sent.entry(address.0).or_default();
        let number = times.len() as u32;
        times.push(now_ns);
        let mut frame = address.0.to_vec();
        frame.extend([2, 0, 0, 0, 0, 1]);
        frame.extend(DATA.to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.resize(60, 0);
        let host = PortId(self.nodes[node].ports.len() as u8 - 1);
        self.arrive(now_ns, node, host, frame);
    }

    /// Sends this number of probes of the streams of a text along all their paths.
    pub(crate) fn probe(&mut self, node: usize, text: &str, probes: usize, now_ns: u64) {
        let streams = streams(text, &self.nodes[node].ports);
        for stream in streams.values() {
            let Identification::Null { destination, .. } = stream.members[0].identification else {
                continue;
            };
            for egress in &stream.egress {
                let VlanAction::Set(vlan) = egress.rewrite.vlan else { continue };
                let Some((peer, port, delay)) = self.nodes[node].links[usize::from(egress.port.0)]
                else {
                    continue;
                };
                let mut frame = destination.0.to_vec();
                frame.extend([2, 0, 0, 0, 0, 2, 0x81, 0]);
                frame.extend(vlan.to_be_bytes());
                frame.extend(PROBE.to_be_bytes());
                frame.resize(60, 0);
                for _ in 0..probes {
                    self.arrive(now_ns + delay, peer, port, frame.clone());
                }
            }
        }
    }

    /// Forwards all frames that arrive until a time.
    pub(crate) fn run_until(&mut self, end_ns: u64) {
        let mut buffer = [0; 256];
        while let Some(Reverse((time, ..))) = self.arrivals.peek() {
            if *time > end_ns {
                return;
            }
            let Some(Reverse((time, _, index, port, octets))) = self.arrivals.pop() else { return };
            let node = &mut self.nodes[index];
            let Disposition::Sent(replicas) = node.plane.frame(PortId(port), time, &octets) else {
                continue;
            };
            let mut sent = Vec::new();
            for replica in replicas {
                let length = replica.write(&mut buffer).expect("it fits");
                sent.push((replica.port, buffer[..length].to_vec()));
            }
            for (port, octets) in sent {
                match self.nodes[index].links[usize::from(port.0)] {
                    Some((peer, port, delay)) => self.arrive(time + delay, peer, port, octets),
                    None => self.deliver(index, &octets),
                }
            }
        }
    }

    fn deliver(&mut self, node: usize, octets: &[u8]) {
        assert_eq!(octets[12..14], DATA.to_be_bytes(), "a probe or tag reached a host");
        let address = octets[..6].try_into().expect("six octets");
        let number = u32::from_be_bytes(octets[14..18].try_into().expect("four octets")) as usize;
        let counts = self.delivered.entry((address, node)).or_default();
        counts.resize(counts.len().max(number + 1), 0);
        counts[number] = counts[number].saturating_add(1);
    }

    /// Frames sent at or after a time that a listener did not get, and those that it got more than once.
    pub(crate) fn judge(
        &self,
        address: MacAddress,
        listener: usize,
        since_ns: u64,
    ) -> (usize, usize) {
        let none = Vec::new();
        let counts = self.delivered.get(&(address.0, listener)).unwrap_or(&none);
        let (mut lost, mut doubled) = (0, 0);
        for (number, time) in self.sent.get(&address.0).into_iter().flatten().enumerate() {
            match counts.get(number).copied().unwrap_or_default() {
                _ if *time < since_ns => {}
                0 => lost += 1,
                1 => {}
                _ => doubled += 1,
            }
        }
        (lost, doubled)
    }

    /// Number of frames that talkers sent.
    pub(crate) fn frames(&self) -> usize {
        self.sent.values().map(Vec::len).sum()
    }
}
