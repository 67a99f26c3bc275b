//! Bounds of delay by total-flow analysis of first-in-first-out queues.
//!
//! A stream with interval T and jitter J (longest minus shortest delay up to a link) brings at most
//! floor((t + J) / T) + 1 frames in any time t. While the load is at most 100 %, the longest wait of a frame at a link,
//! its own transmission included, is the line time of one such burst of each stream, after one frame of other traffic
//! that is being sent. Jitter depends on the bounds of earlier links and these on jitter: they are iterated from 0 to the
//! least fixed point, also where paths form cycles. After a recovering relay a copy may have taken any path: the jitter
//! of such a stream is its longest delay along all its arcs.
//!
//! Streams have strict priority over other traffic, whose frames have at most [`OTHER`] octets.

use crate::network::{Arc, Network, Stream};
use crate::route::{ListenerPaths, Route};

/// Octets of the longest frame of other traffic, with preamble and gap.
pub const OTHER: u64 = 1542;

/// Above it, a delay counts as unbounded: 10 s.
const UNBOUNDED_NS: u64 = 10_000_000_000;

/// Iterations without a fixed point after which the bounds count as infinite.
const ITERATIONS: usize = 2000;

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

/// One arc of a stream, behind the previous one.
#[derive(Debug, Clone, Copy)]
struct Step {
    arc: u32,
    /// Index of the previous step of the stream.
    previous: u32,
}

/// The steps of one stream.
#[derive(Debug)]
struct Flow {
    interval_ns: u64,
    octets: u64,
    first: usize,
    last: usize,
    /// Copies may change paths.
    mixes: bool,
}

/// Computes the bounds for all streams with a route.
#[must_use]
pub fn bounds(network: &Network, routes: &[(&Stream, &Route)]) -> DelayBounds {
    let arcs = 2 * network.links.len();
    let mut steps = Vec::new();
    let mut index = vec![NONE; arcs];
    let mut flows = Vec::with_capacity(routes.len());
    for (stream, route) in routes {
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
        let mixes = stream.paths > 1 && route.has_recovering_relay(network, stream);
        let (interval_ns, octets) = (stream.interval_ns, stream.octets());
        flows.push(Flow { interval_ns, octets, first, last: steps.len(), mixes });
    }
    let fixed: Vec<u64> = network.arcs().map(|arc| fixed_ns(network, arc)).collect();
    let line = |arc: u32, octets| network.line_time(Arc(arc), octets);
    let mut is_used = vec![false; arcs];
    steps.iter().for_each(|step| is_used[step.arc as usize] = true);
    let start: Vec<u64> =
        network.arcs().map(|arc| if is_used[arc.index()] { network.line_time(arc, OTHER) } else { 0 }).collect();
    let mut queue = start.clone();
    let mut jitter = vec![0u64; steps.len()];
    for _ in 0..ITERATIONS {
        let mut next = start.clone();
        for flow in &flows {
            let own = &steps[flow.first..flow.last];
            let whole = flow.mixes.then(|| {
                let each = own.iter().map(|step| queue[step.arc as usize] + fixed[step.arc as usize]);
                each.sum::<u64>()
            });
            for (position, step) in own.iter().enumerate() {
                let octets_ns = line(step.arc, flow.octets);
                let at = flow.first + position;
                jitter[at] = match (whole, step.previous) {
                    (Some(whole), _) => whole,
                    (None, NONE) => 0,
                    (None, previous) => {
                        let arc = steps[previous as usize].arc;
                        let waits = queue[arc as usize].saturating_sub(line(arc, flow.octets));
                        let (_, node) = network.ends(Arc(arc));
                        jitter[previous as usize]
                            + waits
                            + network.nodes[node as usize].forwarding_ns
                    }
                };
                let more = (octets_ns * jitter[at]).div_ceil(flow.interval_ns);
                next[step.arc as usize] += octets_ns + more;
            }
        }
        if next == queue {
            return DelayBounds { queue_ns: queue, is_bounded: true };
        }
        if next.iter().any(|ns| *ns > UNBOUNDED_NS) {
            break;
        }
        queue = next;
    }
    DelayBounds { queue_ns: queue, is_bounded: false }
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
        let own = |arc: &Arc| network.line_time(*arc, stream.octets() - u64::from(crate::network::GAP));
        let shortest = path.iter().map(|arc| network.links[arc.link()].delay_ns + own(arc)).sum();
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
        let ranges = paths.paths.iter().map(|path| self.path(network, stream, path));
        let (shortest_ns, longest_ns) = ranges
            .fold((u64::MAX, 0), |(low, high), (short, long)| (low.min(short), high.max(long)));
        let mut latest_copy_ns = longest_ns;
        if route.has_recovering_relay(network, stream) {
            latest_copy_ns = route
                .arcs()
                .iter()
                .map(|arc| self.queue_ns[arc.index()] + fixed_ns(network, *arc))
                .sum();
        }
        DelayRange { shortest_ns, longest_ns, latest_copy_ns }
    }
}
