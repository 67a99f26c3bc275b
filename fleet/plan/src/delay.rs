//! Bounds of delay by total-flow analysis of first-in-first-out queues.
//!
//! A stream with interval T and jitter J (longest minus shortest delay up to a link) brings at most
//! floor((t + J) / T) + 1 frames in any time t, and the streams that come over one line bring at most what the line
//! carries. The longest wait of a frame at a link, its own transmission included, is the largest difference of the line
//! time of these frames and t in a busy period that starts behind one frame of other traffic. Jitter depends on the
//! bounds of earlier links and these on jitter: `queue` computes the least fixed point, also where paths form cycles.
//! After a recovering relay a copy may have taken any path: the jitter of such a stream is its longest delay along all
//! its arcs.
//!
//! Streams have strict priority over other traffic, whose frames have at most [`OTHER`] octets.

use crate::network::{Arc, Network, Stream};
use crate::queue::{Flow, Queues, Step};
use crate::route::{ListenerPaths, NodeMarks, Route, StreamPart};

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
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoutedStream<'a> {
    pub stream: &'a Stream,
    pub route: &'a Route,
    /// One listener, and paths without common nodes.
    pub is_disjoint: bool,
    /// A relay recovers: copies may change paths.
    pub mixes: bool,
}

impl<'a> RoutedStream<'a> {
    pub(crate) fn new(
        network: &Network,
        marks: &mut NodeMarks,
        stream: &'a Stream,
        route: &'a Route,
    ) -> Self {
        let is_disjoint = marks.is_disjoint(route);
        let mixes = !is_disjoint && route.has_recovering_relay(network, stream);
        Self { stream, route, is_disjoint, mixes }
    }
}

/// Computes the bounds of streams.
pub(crate) fn bounds_of(network: &Network, routed: &[RoutedStream<'_>]) -> DelayBounds {
    let mut steps: Vec<Step> = Vec::new();
    let mut index = vec![NONE; 2 * network.links.len()];
    let mut flows = Vec::with_capacity(routed.len());
    for RoutedStream { stream, route, mixes, .. } in routed {
        let first = steps.len();
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
        // Trees and disjoint paths enter a node by several arcs only where they end.
        let mixes = stream.paths > 1 && *mixes;
        let arcs = first as u32..steps.len() as u32;
        flows.push(Flow { interval_ns: stream.interval_ns, octets: stream.octets(), mixes, arcs });
    }
    let mut queues = Queues::new(network, &flows, &steps);
    let is_bounded = queues.solve();
    DelayBounds { queue_ns: queues.queue_ns, is_bounded }
}

/// Propagation and the longest time in the node at the end of an arc.
fn fixed_ns(network: &Network, arc: Arc) -> u64 {
    let (_, to) = network.ends(arc);
    network.links[arc.link()].delay_ns + network.nodes[to as usize].forwarding_ns
}

impl DelayBounds {
    /// The delay range of one path.
    #[must_use]
    pub fn path(&self, network: &Network, stream: &Stream, path: &[Arc]) -> (u64, u64) {
        let octets = stream.octets() - u64::from(crate::network::GAP);
        // Most links of a path have one speed.
        let (mut speed, mut line_ns) = (0, 0);
        let mut own = |arc: &Arc| {
            let link = &network.links[arc.link()];
            if link.speed_mbps != speed {
                (speed, line_ns) = (link.speed_mbps, network.line_time(*arc, octets));
            }
            link.delay_ns + line_ns
        };
        let shortest = path.iter().map(&mut own).sum();
        let longest =
            path.iter().map(|arc| self.queue_ns[arc.index()] + fixed_ns(network, *arc)).sum();
        (shortest, longest)
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
        let mixes = route.has_recovering_relay(network, stream);
        self.range(network, RoutedStream { stream, route, is_disjoint: false, mixes }, paths)
    }

    /// When copies arrive at a recovering relay. A copy can have passed every arc from which the relay is reached, also after
    /// other relays recovered it.
    pub(crate) fn at_relay(
        &self,
        network: &Network,
        routed: RoutedStream<'_>,
        parts: &[StreamPart],
        relay: u32,
    ) -> DelayRange {
        let mut before: Vec<Arc> = Vec::new();
        let mut open = vec![relay];
        let mut seen = std::collections::BTreeSet::from([relay]);
        while let Some(node) = open.pop() {
            for arc in parts.iter().filter(|part| part.node == node).flat_map(|part| &part.ingress)
            {
                before.push(*arc);
                let from = network.ends(*arc).0;
                if seen.insert(from) {
                    open.push(from);
                }
            }
        }
        let prefixes = routed.route.paths().filter_map(|path| {
            let end = path.iter().position(|arc| network.ends(*arc).1 == relay)?;
            Some(self.path(network, routed.stream, &path[..=end]))
        });
        let (shortest_ns, longest_ns) = prefixes
            .fold((u64::MAX, 0), |(low, high), (short, long)| (low.min(short), high.max(long)));
        let latest = |arc: &Arc| self.queue_ns[arc.index()] + fixed_ns(network, *arc);
        let latest_copy_ns = before.iter().map(latest).sum();
        DelayRange { shortest_ns, longest_ns, latest_copy_ns }
    }

    pub(crate) fn range(
        &self,
        network: &Network,
        routed: RoutedStream<'_>,
        paths: &ListenerPaths,
    ) -> DelayRange {
        let ranges = paths.paths.iter().map(|path| self.path(network, routed.stream, path));
        let (shortest_ns, longest_ns) = ranges
            .fold((u64::MAX, 0), |(low, high), (short, long)| (low.min(short), high.max(long)));
        let mut latest_copy_ns = longest_ns;
        if routed.mixes {
            latest_copy_ns = routed
                .route
                .arcs()
                .iter()
                .map(|arc| self.queue_ns[arc.index()] + fixed_ns(network, *arc))
                .sum();
        }
        DelayRange { shortest_ns, longest_ns, latest_copy_ns }
    }
}
