//! The ladder of rings, its streams and its two plans.
//!
//! ```text
//!   r1a --- r1b ===== r2a --- r2b ===== r3a --- r3b        plan 1: b - a, c - d (straight)
//!    |       |    X    |       |    X    |       |         plan 2: b - d, c - a (crossed)
//!   r1d --- r1c ===== r2d --- r2c ===== r3d --- r3c
//! ```
//!
//! Each stream leads from one ring to another. The plans use different links between rings, so each path of each stream
//! changes.

use std::fmt::Write;

use onbeat_plan::manifest::Manifest;
use onbeat_plan::node_file::{self, NodeFile};
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::{Network, Plan};
use onbeat_realtime::clock::SECOND;
use onbeat_wire::MacAddress;
use onbeat_wire::random::Random;

use super::plant::managed_head;
use crate::{Error, Result, Topology};

/// Nodes of a ring.
const RING: u32 = 4;
/// Names of these nodes, clockwise from the upper left.
const PLACES: [char; 4] = ['a', 'b', 'c', 'd'];
/// Longest distance between the rings of talker and listener.
const REACH: u32 = 2;
/// Octets of a frame, with FCS.
const SIZE: usize = 128;
const FCS: usize = 4;

/// Numbers of nodes in a ring that a link between neighboring rings joins, and whether plan 2 has it.
const RUNGS: [(usize, usize, bool); 4] = [(1, 0, false), (2, 3, false), (1, 3, true), (2, 0, true)];

/// The network and its streams.
#[derive(Debug)]
pub(super) struct Ladder {
    rings: u32,
    pub(super) streams: Vec<LadderStream>,
    interval_us: u64,
}

/// A stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LadderStream {
    pub(super) talker: u32,
    pub(super) listener: u32,
}

/// A plan: the files of nodes, and its manifest.
#[derive(Debug)]
pub(super) struct PlanOutput {
    /// Name and text of the file of each node.
    pub(super) files: Vec<(String, String)>,
    pub(super) manifest: Manifest,
}

impl Ladder {
    /// Draws the streams; `rate`: frames per second of all streams.
    pub(super) fn draw(nodes: u32, streams: u32, rate: u64, seed: u64) -> Self {
        let rings = nodes / RING;
        let mut random = Random::new(seed);
        let mut node = |ring: u32| RING * ring + random.below(RING.into()) as u32;
        let mut ends = Vec::new();
        for number in 0..streams {
            let talker = number % rings;
            let near = talker.saturating_sub(REACH)..=(talker + REACH).min(rings - 1);
            let others: Vec<u32> = near.filter(|ring| *ring != talker).collect();
            let listener = others[(number / rings) as usize % others.len()];
            ends.push(LadderStream { talker: node(talker), listener: node(listener) });
        }
        let interval_us = (u64::from(streams) * SECOND / 1000 / rate).clamp(1, 60_000_000);
        Self { rings, streams: ends, interval_us }
    }

    pub(super) fn nodes(&self) -> u32 {
        self.rings * RING
    }

    pub(super) fn address(stream: usize) -> MacAddress {
        let [_, high, middle, low] = (stream as u32).to_be_bytes();
        MacAddress([0x01, 0x00, 0x5e, high, middle, low])
    }

    /// Octets of a frame at its talker, without FCS.
    pub(super) const fn frame_octets() -> usize {
        SIZE - FCS
    }

    /// The links as pairs of nodes; whether only one plan uses it, and which.
    fn links(&self) -> Vec<(u32, u32, Option<bool>)> {
        let mut links = Vec::new();
        for ring in 0..self.rings {
            let node = |ring: u32, place: usize| RING * ring + place as u32;
            links
                .extend((0..4).map(|place| (node(ring, place), node(ring, (place + 1) % 4), None)));
            if ring + 1 < self.rings {
                let rung = |(left, right, is_crossed)| {
                    (node(ring, left), node(ring + 1, right), Some(is_crossed))
                };
                links.extend(RUNGS.map(rung));
            }
        }
        links
    }

    /// The network as input of `onbeat plan`, with the links of one plan.
    fn text(&self, is_crossed: bool) -> String {
        let links = self.links();
        let mut text = String::from("[network]\nlabel-vlans = [101, 102]\n");
        for node in 0..self.nodes() {
            let name = name(node);
            let peers = links.iter().filter_map(|(a, b, _)| match node {
                node if node == *a => Some(*b),
                node if node == *b => Some(*a),
                _ => None,
            });
            let ports: Vec<String> =
                peers.map(|peer| format!("{{ name = \"{}\" }}", port(node, peer))).collect();
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "[[node]]\nname = \"{name}\"\nhost = {{ interface = \"{name}-host\" }}\nport = [{}]\n",
                ports.join(", ")
            );
        }
        for (a, b, _) in links.iter().filter(|(.., of)| of.is_none_or(|of| of == is_crossed)) {
            let end = |node, peer| format!("{}:{}", name(node), port(node, peer));
            let _ = write!(text, "[[link]]\na = \"{}\"\nb = \"{}\"\n", end(*a, *b), end(*b, *a));
        }
        for (number, stream) in self.streams.iter().enumerate() {
            let LadderStream { talker, listener } = *stream;
            let _ = write!(
                text,
                "[[stream]]\nname = \"s{number}\"\ntalker = \"{}\"\nlisteners = [\"{}\"]\naddress = \"{}\"\n\
                 interval-us = {}\nsize = {SIZE}\n",
                name(talker),
                name(listener),
                Self::address(number),
                self.interval_us
            );
        }
        text
    }

    fn plan(&self, is_crossed: bool, previous: Option<&Manifest>) -> Result<PlanOutput> {
        let network = Network::parse(&self.text(is_crossed), "ladder.toml");
        let network = network.map_err(|error| Error::Invalid(error.to_string()))?;
        let previous =
            previous.map_or_else(PreviousRoutes::default, |plan| plan.previous(&network));
        let plan = Plan::new(&network, &previous);
        if !plan.is_complete() {
            let reason = "a stream of the ladder is not protected; use fewer streams";
            return Err(Error::Invalid(reason.into()));
        }
        let files = node_file::all(&network, &plan);
        let manifest = Manifest::new(&network, &plan, &files);
        let named = |file: NodeFile| (network.nodes[file.node as usize].name.clone(), file.text);
        Ok(PlanOutput { files: files.into_iter().map(named).collect(), manifest })
    }

    /// Two plans between which roll-outs can alternate: each keeps labels and delay bounds of the other.
    pub(super) fn plans(&self) -> Result<[PlanOutput; 2]> {
        let first = self.plan(false, None)?;
        let second = self.plan(true, Some(&first.manifest))?;
        let first = self.plan(false, Some(&second.manifest))?;
        Ok([first, second])
    }

    /// The network of namespaces. Nodes start with the ports of their file, and without streams.
    pub(super) fn topology(&self, plan: Option<&PlanOutput>) -> Topology {
        let mut topology = Topology::default();
        for node in 0..self.nodes() {
            let (ring, place) = (node / RING, node % RING);
            let (column, row) =
                (2 * ring + u32::from(place == 1 || place == 2), 1 + 2 * (place / 2));
            let (name, column, row) = (name(node), column as u16, row as u16);
            let file = plan.and_then(|plan| plan.files.iter().find(|(of, _)| *of == name));
            let text = file.map_or("", |(_, text)| text);
            topology.node(&name, column, row, managed_head(&name, text));
            topology.host(&host(node), column, if row == 1 { 0 } else { 4 });
            let end = format!("{name}:{name}-host");
            topology.link(&format!("host-{name}"), &format!("{}:eth0", host(node)), &end);
        }
        for (a, b, _) in self.links() {
            let ends =
                [(a, b), (b, a)].map(|(node, peer)| format!("{}:{}", name(node), port(node, peer)));
            topology.link(&port(a, b), &ends[0], &ends[1]);
        }
        topology
    }

    /// Names of the links between nodes.
    pub(super) fn link_names(&self) -> Vec<String> {
        self.links().into_iter().map(|(a, b, _)| port(a, b)).collect()
    }
}

/// Name of a node.
pub(super) fn name(node: u32) -> String {
    format!("r{}{}", node / RING + 1, PLACES[(node % RING) as usize])
}

/// Name of a node's host.
pub(super) fn host(node: u32) -> String {
    format!("at-{}", name(node))
}

fn port(node: u32, peer: u32) -> String {
    format!("{}-{}", name(node), name(peer))
}

/// Streams of which a path is the same in both plans.
pub(super) fn unchanged(plans: &[PlanOutput; 2]) -> u64 {
    let [first, second] = plans.each_ref().map(|plan| plan.manifest.by_name());
    let keeps = |name: &&&str| {
        let paths =
            [&first, &second].map(|plan| plan.get(**name).map(|stream| &stream.listeners[0].paths));
        match paths {
            [Some(one), Some(other)] => one.iter().any(|path| other.contains(path)),
            _ => true,
        }
    };
    first.keys().filter(keeps).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_every_stream_changes_and_back() {
        for nodes in [8, 12, 32] {
            let ladder = Ladder::draw(nodes, 100, 1000, 7);
            let plans = ladder.plans().expect("two plans");
            assert_eq!(unchanged(&plans), 0);
            assert!(plans.iter().all(|plan| plan.files.len() == nodes as usize));
            let topology = ladder.topology(Some(&plans[0])).checked().expect("a valid topology");
            assert_eq!(
                (topology.nodes.len(), topology.hosts.len()),
                (nodes as usize, nodes as usize)
            );
            // The plan after the second is the first one again.
            let again = ladder.plan(true, Some(&plans[0].manifest)).unwrap();
            assert_eq!(again.files, plans[1].files);
        }
    }

    #[test]
    fn a_plan_is_the_same_for_a_seed_only() {
        let streams = |seed| Ladder::draw(12, 50, 1000, seed).streams;
        assert_eq!(streams(1), streams(1));
        assert_ne!(streams(1), streams(2));
    }
}
