//! Bounds of delay by total-flow analysis of first-in-first-out queues.
//!
//! A stream with interval T and jitter J (longest minus shortest delay up to a link) brings at most
//! floor((t + J) / T) + 1 frames in any time t, and the streams that come over one line bring at most what the line
//! carries. The longest wait of a frame at a link, its own transmission included, is the largest difference of the line
//! time of these frames and t in a busy period that starts behind one frame of other traffic. Jitter depends on the
//! bounds of earlier links and these on jitter: `queue` computes the least fixed point, also where paths form cycles.
//! After a recovering relay a copy may have taken any path: where arcs join, the longest and the shortest delay are those
//! of any of them. Where the arcs of a stream form a cycle, its jitter is the sum of its delays along all its arcs.
//!
//! Streams have strict priority over other traffic, whose frames have at most [`OTHER`] octets.

use std::collections::BTreeMap;

use crate::network::{Arc, Network, Stream};
use crate::passage::Passage;
use crate::queue::{Flow, Join, Queues, Step};
use crate::route::{ListenerPaths, NodeMarks, Route};

/// Octets of the longest frame of other traffic, with preamble and gap.
pub const OTHER: u64 = 1542;

const NONE: u32 = u32::MAX;

/// Delay bounds of a plan.
#[derive(Debug, Clone, Default)]
pub struct DelayBounds {
    /// Longest time of a frame in the queue of each arc and on its line without propagation, in nanoseconds.
    pub queue_ns: Vec<u64>,
    /// Whether a fixed point exists.
    pub is_bounded: bool,
    /// The times of each arc.
    arcs: Vec<ArcTimes>,
}

/// The times of an arc, side by side in memory.
#[derive(Debug, Clone, Copy)]
struct ArcTimes {
    /// Longest time from the queue to that of the next arc, in nanoseconds.
    longest_ns: u64,
    /// Propagation delay, in nanoseconds.
    delay_ns: u64,
    speed_mbps: u32,
}

impl ArcTimes {
    fn new(network: &Network, arc: Arc, queue_ns: u64) -> Self {
        let (_, to) = network.ends(arc);
        let link = &network.links[arc.link()];
        let forwarding_ns = network.nodes[to as usize].forwarding_ns;
        Self {
            longest_ns: queue_ns + link.delay_ns + forwarding_ns,
            delay_ns: link.delay_ns,
            speed_mbps: link.speed_mbps,
        }
    }

    /// The time without other frames.
    fn shortest_ns(&self, octets: u64) -> u64 {
        self.delay_ns + (octets * 8000).div_ceil(self.speed_mbps.into())
    }
}

/// Shortest and longest delay of a stream to a listener, over all paths, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DelayRange {
    /// Without other frames.
    pub shortest_ns: u64,
    /// The bound of the slowest path.
    pub longest_ns: u64,
    /// The latest copy of a frame, also if relays recover and copies change paths.
    pub latest_copy_ns: u64,
}

/// Computes the bounds for all streams with a route.
#[must_use]
pub fn bounds(network: &Network, routes: &[(&Stream, &Route)]) -> DelayBounds {
    let mut marks = NodeMarks::new(network);
    let mut routed = Vec::with_capacity(routes.len());
    for (stream, route) in routes {
        routed.push(RoutedStream::new(network, &mut marks, stream, route));
    }
    bounds_of(network, &routed)
}

/// A stream with its route.
#[derive(Debug)]
pub(crate) struct RoutedStream<'a> {
    pub stream: &'a Stream,
    pub route: &'a Route,
    /// One listener, and paths without common nodes.
    pub is_disjoint: bool,
    /// A relay recovers: copies may change paths.
    pub mixes: bool,
    /// The order of the arcs of a stream that mixes, unless they form a cycle.
    passage: Option<Passage>,
}

impl<'a> RoutedStream<'a> {
    pub(crate) fn new(
        network: &Network,
        marks: &mut NodeMarks,
        stream: &'a Stream,
        route: &'a Route,
    ) -> Self {
        let is_disjoint = marks.is_disjoint(route);
        let mixes = !is_disjoint && stream.paths > 1 && route.has_recovering_relay(network, stream);
        let passage = if mixes { Passage::new(network, route) } else { None };
        Self { stream, route, is_disjoint, mixes, passage }
    }
}

/// Computes the bounds of streams.
pub(crate) fn bounds_of(network: &Network, routed: &[RoutedStream<'_>]) -> DelayBounds {
    let mut steps: Vec<Step> = Vec::new();
    let mut index = vec![NONE; 2 * network.links.len()];
    let mut flows = Vec::with_capacity(routed.len());
    let mut joins = Vec::new();
    for RoutedStream { stream, route, mixes, passage, .. } in routed {
        let first = steps.len();
        let first_join = joins.len();
        if let Some(passage) = passage {
            for (position, arc) in passage.arcs().enumerate() {
                let mut before = passage.before(position).map(|before| (first + before) as u32);
                let (one, other) = (before.next(), before.next());
                let previous = one.filter(|_| other.is_none()).unwrap_or(NONE);
                if let (Some(one), Some(other)) = (one, other) {
                    let all = [one, other].into_iter().chain(before);
                    joins.extend(all.map(|before| Join { step: steps.len() as u32, before }));
                }
                steps.push(Step { arc: arc.0, previous });
            }
        } else {
            for path in route.paths() {
                let mut previous = NONE;
                for arc in path {
                    if index[arc.index()] == NONE {
                        index[arc.index()] = steps.len() as u32;
                        steps.push(Step { arc: arc.0, previous });
                    }
                    previous = index[arc.index()];
                }
            }
            steps[first..].iter().for_each(|step| index[step.arc as usize] = NONE);
        }
        flows.push(Flow {
            interval_ns: stream.interval_ns,
            octets: stream.octets(),
            is_cyclic: *mixes && passage.is_none(),
            arcs: first as u32..steps.len() as u32,
            joins: first_join as u32..joins.len() as u32,
        });
    }
    let mut queues = Queues::new(network, &flows, &steps, &joins);
    let is_bounded = queues.solve();
    let queue_ns = queues.queue_ns;
    let times = network.arcs().map(|arc| ArcTimes::new(network, arc, queue_ns[arc.index()]));
    let arcs = times.collect();
    DelayBounds { queue_ns, is_bounded, arcs }
}

impl DelayBounds {
    /// The delay range of one path.
    #[must_use]
    pub fn path(&self, stream: &Stream, path: &[Arc]) -> (u64, u64) {
        let octets = stream.octets() - u64::from(crate::network::GAP);
        // Most links of a path have one speed.
        let (mut speed, mut line_ns) = (0, 0);
        path.iter().fold((0, 0), |(shortest, longest), arc| {
            let times = &self.arcs[arc.index()];
            let delay_ns = times.delay_ns;
            if times.speed_mbps != speed {
                (speed, line_ns) = (times.speed_mbps, times.shortest_ns(octets) - delay_ns);
            }
            (shortest + delay_ns + line_ns, longest + times.longest_ns)
        })
    }

    /// The delay range of a listener.
    #[must_use]
    pub fn listener(
        &self,
        network: &Network,
        stream: &Stream,
        route: &Route,
        paths: &ListenerPaths,
    ) -> DelayRange {
        let routed = RoutedStream::new(network, &mut NodeMarks::new(network), stream, route);
        let times = self.copy_times(&routed);
        self.range(network, &routed, times.as_ref(), paths)
    }

    /// When copies arrive at a recovering relay.
    pub(crate) fn at_relay(
        &self,
        network: &Network,
        routed: &RoutedStream<'_>,
        times: &CopyTimes,
        relay: u32,
    ) -> DelayRange {
        let prefixes = routed.route.paths().filter_map(|path| {
            let end = path.iter().position(|arc| network.ends(*arc).1 == relay)?;
            Some(self.path(routed.stream, &path[..=end]).1)
        });
        let (shortest_ns, latest_copy_ns) = times.at(network, relay);
        DelayRange { shortest_ns, longest_ns: prefixes.max().unwrap_or_default(), latest_copy_ns }
    }

    /// When copies arrive at a listener; `times` are those of a stream that mixes.
    pub(crate) fn range(
        &self,
        network: &Network,
        routed: &RoutedStream<'_>,
        times: Option<&CopyTimes>,
        paths: &ListenerPaths,
    ) -> DelayRange {
        let ranges = paths.paths.iter().map(|path| self.path(routed.stream, path));
        let (shortest_ns, longest_ns) = ranges
            .fold((u64::MAX, 0), |(low, high), (short, long)| (low.min(short), high.max(long)));
        let mixed = times.map(|times| times.at(network, paths.listener));
        let (shortest_ns, latest_copy_ns) = mixed.unwrap_or((shortest_ns, longest_ns));
        DelayRange { shortest_ns, longest_ns, latest_copy_ns }
    }

    /// The times of copies of a stream that mixes; `None` for other streams.
    pub(crate) fn copy_times(&self, routed: &RoutedStream<'_>) -> Option<CopyTimes> {
        let octets = routed.stream.octets() - u64::from(crate::network::GAP);
        let shortest = |arc: Arc| self.arcs[arc.index()].shortest_ns(octets);
        let longest = |arc: Arc| self.arcs[arc.index()].longest_ns;
        routed.mixes.then(|| match &routed.passage {
            Some(passage) => CopyTimes::Ordered(passage.times(shortest, longest)),
            None => {
                let arcs = routed.route.arcs().into_iter();
                let arcs = arcs.map(|arc| (arc, shortest(arc), longest(arc))).collect();
                CopyTimes::Cyclic { arcs, talker: routed.stream.talker }
            }
        })
    }
}

/// When the copies of a stream that mixes pass its arcs: arcs with a shortest and a longest time.
pub(crate) enum CopyTimes {
    /// Of the earliest and the latest copy at the end of each arc.
    Ordered(Vec<(Arc, u64, u64)>),
    /// Of each arc alone.
    Cyclic { arcs: Vec<(Arc, u64, u64)>, talker: u32 },
}

impl CopyTimes {
    /// When the earliest and the latest copy are at a node.
    fn at(&self, network: &Network, node: u32) -> (u64, u64) {
        let (arcs, talker) = match self {
            Self::Ordered(arcs) => {
                let entering = arcs.iter().filter(|(arc, ..)| network.ends(*arc).1 == node);
                return entering.fold((u64::MAX, 0), |(low, high), (_, early, late)| {
                    (low.min(*early), high.max(*late))
                });
            }
            Self::Cyclic { arcs, talker } => (arcs, *talker),
        };
        // A copy can have passed every arc from which the node is reached, each once. From the node back, `left` is the
        // shortest time to it.
        let mut left = BTreeMap::from([(node, 0)]);
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            for (arc, shortest, _) in arcs.iter().filter(|(arc, ..)| network.ends(*arc).1 == node) {
                let time = left[&node] + shortest;
                let known = left.entry(network.ends(*arc).0).or_insert(u64::MAX);
                if time < *known {
                    *known = time;
                    open.push(network.ends(*arc).0);
                }
            }
        }
        let before = arcs.iter().filter(|(arc, ..)| left.contains_key(&network.ends(*arc).1));
        let latest = before.map(|(.., longest)| longest).sum();
        (left.get(&talker).copied().unwrap_or_default(), latest)
    }
}
