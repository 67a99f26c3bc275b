//! Effects of failures: every link, node and group removed in turn.

use std::borrow::Cow;

use crate::network::{Network, Stream};
use crate::plan::Plan;
use crate::route::{Element, NodeMarks, Route};

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

/// The effect of a failure on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamEffect {
    Cut,
    Single,
    Ended,
    /// Two paths or more are left.
    Protected,
}

impl StreamEffect {
    fn of(network: &Network, stream: &Stream, route: &Route, element: Element) -> Self {
        let loss = route.losses(network, stream, element);
        match loss {
            _ if loss.cut > 0 => Self::Cut,
            _ if loss.ended > 0 && loss.single == 0 => Self::Ended,
            _ if loss.single > 0 => Self::Single,
            _ => Self::Protected,
        }
    }

    /// The effect of any element of one path, if the paths share none.
    fn of_disjoint(route: &Route) -> Self {
        match route.paths().count() {
            1 => Self::Cut,
            2 => Self::Single,
            _ => Self::Protected,
        }
    }
}

/// A stream that uses a link or a node, and the effect of its failure, if known.
type User = (u32, Option<StreamEffect>);

/// Streams by the link and the node that they use.
struct UsageIndex {
    links: Vec<Vec<User>>,
    nodes: Vec<Vec<User>>,
}

impl UsageIndex {
    fn new(network: &Network, plan: &Plan) -> Self {
        let mut index = Self {
            links: vec![Vec::new(); network.links.len()],
            nodes: vec![Vec::new(); network.nodes.len()],
        };
        let mut marks = NodeMarks::new(network);
        for (stream, route) in plan.routed() {
            let number = stream as u32;
            if marks.is_disjoint(route) {
                let user = (number, Some(StreamEffect::of_disjoint(route)));
                for path in route.paths() {
                    path.iter().for_each(|arc| index.links[arc.link()].push(user));
                    for arc in &path[1..] {
                        index.nodes[network.ends(*arc).0 as usize].push(user);
                    }
                }
                for node in [network.streams[stream].talker, route.listeners[0].listener] {
                    index.nodes[node as usize].push((number, Some(StreamEffect::Ended)));
                }
                continue;
            }
            for arc in route.paths().flatten() {
                let (from, to) = network.ends(*arc);
                add(&mut index.links[arc.link()], number);
                add(&mut index.nodes[from as usize], number);
                add(&mut index.nodes[to as usize], number);
            }
        }
        index
    }

    /// The streams that an element may interrupt, each once.
    fn users(&self, network: &Network, element: Element) -> Cow<'_, [User]> {
        match element {
            Element::Link(link) => Cow::Borrowed(&self.links[link as usize]),
            Element::Node(node) => Cow::Borrowed(&self.nodes[node as usize]),
            Element::Group(group) => {
                let links = network.groups[group as usize].links.iter();
                let users = links.flat_map(|link| &self.links[*link as usize]);
                let mut users: Vec<User> = users.map(|(stream, _)| (*stream, None)).collect();
                users.sort_unstable_by_key(|(stream, _)| *stream);
                users.dedup();
                Cow::Owned(users)
            }
        }
    }
}

/// Adds a stream; those of one stream follow one another.
fn add(users: &mut Vec<User>, stream: u32) {
    if users.last().is_none_or(|(last, _)| *last != stream) {
        users.push((stream, None));
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
        for &(user, known) in &*index.users(network, element) {
            let user = user as usize;
            let route: &Route = plan.routes[user].as_ref().expect("it has a route");
            let stream = &network.streams[user];
            let of_stream =
                known.unwrap_or_else(|| StreamEffect::of(network, stream, route, element));
            match of_stream {
                StreamEffect::Cut => effect.cut.push(user),
                StreamEffect::Single => effect.single.push(user),
                StreamEffect::Ended => effect.ended.push(user),
                StreamEffect::Protected => {}
            }
        }
        effect
    };
    elements.into_iter().map(effect).collect()
}
