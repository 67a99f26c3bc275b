//! Effects of failures: every link, node and group removed in turn.

use crate::network::Network;
use crate::plan::Plan;
use crate::route::{Element, Route};

/// The effect of one failure on all streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureEffect {
    /// The failed element.
    pub element: Element,
    /// Streams of which a listener receives nothing, by index.
    pub cut: Vec<usize>,
    /// Other streams of which a listener has one path left.
    pub single: Vec<usize>,
    /// Streams whose talker, or only listener, is at the failed node.
    pub ended: Vec<usize>,
}

/// Streams by the link and the node that they use.
struct UsageIndex {
    links: Vec<Vec<u32>>,
    nodes: Vec<Vec<u32>>,
}

impl UsageIndex {
    fn new(network: &Network, plan: &Plan) -> Self {
        let mut index = Self {
            links: vec![Vec::new(); network.links.len()],
            nodes: vec![Vec::new(); network.nodes.len()],
        };
        for (stream, route) in plan.routed() {
            for arc in route.paths().flatten() {
                let (from, to) = network.ends(*arc);
                let users = [&mut index.links[arc.link()], &mut index.nodes[from as usize]];
                users.into_iter().for_each(|users| add(users, stream));
                add(&mut index.nodes[to as usize], stream);
            }
        }
        index
    }

    /// The streams that an element may interrupt, each once.
    fn users(&self, network: &Network, element: Element) -> Vec<u32> {
        match element {
            Element::Link(link) => self.links[link as usize].clone(),
            Element::Node(node) => self.nodes[node as usize].clone(),
            Element::Group(group) => {
                let links = network.groups[group as usize].links.iter();
                let mut users: Vec<u32> =
                    links.flat_map(|link| self.links[*link as usize].iter().copied()).collect();
                users.sort_unstable();
                users.dedup();
                users
            }
        }
    }
}

/// Adds a stream; those of one stream follow one another.
fn add(users: &mut Vec<u32>, stream: usize) {
    if users.last() != Some(&(stream as u32)) {
        users.push(stream as u32);
    }
}

/// Removes each of these elements in turn.
#[must_use]
pub fn effects(
    network: &Network,
    plan: &Plan,
    elements: impl IntoIterator<Item = Element>,
) -> Vec<FailureEffect> {
    let index = UsageIndex::new(network, plan);
    let effect = |element| {
        let mut effect =
            FailureEffect { element, cut: Vec::new(), single: Vec::new(), ended: Vec::new() };
        for user in index.users(network, element) {
            let user = user as usize;
            let route: &Route = plan.routes[user].as_ref().expect("it has a route");
            let stream = &network.streams[user];
            let loss = route.losses(network, stream, element);
            let streams = match loss {
                _ if loss.cut > 0 => &mut effect.cut,
                _ if loss.ended > 0 && loss.single == 0 => &mut effect.ended,
                _ if loss.single > 0 => &mut effect.single,
                _ => continue,
            };
            streams.push(user);
        }
        effect
    };
    elements.into_iter().map(effect).collect()
}
