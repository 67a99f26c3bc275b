//! Bounds of delay by total-flow analysis of first-in-first-out queues.
//!
//! A stream with interval T and jitter J (longest minus shortest delay up to a link) brings at most
//! floor((t + J) / T) + 1 frames in any time t. The longest wait of a frame at a link, its own transmission included, is
//! the largest difference of the line time of these frames and t in a busy period that starts behind one frame of
//! other traffic. Jitter depends on the bounds of earlier links and these on jitter: they are iterated from 0 to the
//! least fixed point, or to values that a further iteration does not exceed, also where paths form cycles. After a recovering relay a copy may have taken any path: the jitter
//! of such a stream is its longest delay along all its arcs.
//!
//! Streams have strict priority over other traffic, whose frames have at most [`OTHER`] octets.

use crate::network::{Arc, Network, Stream};
use crate::route::{ListenerPaths, Route};

/// Octets of the longest frame of other traffic, with preamble and gap.
pub const OTHER: u64 = 1542;

/// Above it, a delay counts as unbounded: 100 ms.
const UNBOUNDED_NS: u64 = 100_000_000;

/// Longest busy period for which a bound is searched: 1 s.
const BUSY_NS: u64 = 1_000_000_000;

/// Iterations without a fixed point after which the bounds count as infinite.
const ITERATIONS: usize = 100;

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
    let mut arrivals = Arrivals::new(arcs, &steps, &flows, network);
    let mut queue: Vec<u64> = network.arcs().map(|arc| arrivals.queue_ns(network, arc)).collect();
    let mut advance = |queue: &[u64]| -> Vec<u64> {
        for flow in &flows {
            let own = flow.first..flow.last;
            if flow.mixes {
                let each = steps[own.clone()].iter();
                let each = each.map(|step| queue[step.arc as usize] + fixed[step.arc as usize]);
                let whole = each.sum::<u64>();
                own.for_each(|at| arrivals.set_jitter(at, whole));
                continue;
            }
            for at in own {
                let Some(previous) = steps.get(steps[at].previous as usize) else { continue };
                let arc = Arc(previous.arc);
                let line_ns = network.line_time(arc, flow.octets);
                let (_, node) = network.ends(arc);
                let further = queue[arc.index()].saturating_sub(line_ns)
                    + network.nodes[node as usize].forwarding_ns;
                let before = arrivals.jitter(steps[at].previous as usize);
                arrivals.set_jitter(at, before + further);
            }
        }
        network.arcs().map(|arc| arrivals.queue_ns(network, arc)).collect()
    };
    for iteration in 1..=ITERATIONS {
        let next = advance(&queue);
        if next == queue {
            return DelayBounds { queue_ns: queue, is_bounded: true };
        }
        queue = next;
        if queue.iter().any(|ns| *ns > UNBOUNDED_NS) {
            break;
        }
        // Values that an iteration does not exceed are bounds, too: the least fixed point is below them.
        if iteration % GUESS == 0 {
            let guess: Vec<u64> = queue.iter().map(|ns| ns + ns / 2).collect();
            let next = advance(&guess);
            let holds = |(next, guess): (&u64, &u64)| next <= guess && *next <= UNBOUNDED_NS;
            if next.iter().zip(&guess).all(holds) {
                return DelayBounds { queue_ns: next, is_bounded: true };
            }
        }
    }
    DelayBounds { queue_ns: queue, is_bounded: false }
}

/// Iterations between two tries to bound the fixed point from above.
const GUESS: usize = 6;

/// The frames of one stream at an arc, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Arrival {
    line_ns: u64,
    interval_ns: u64,
    jitter_ns: u64,
    /// Line time of the frames that can arrive at once.
    burst_ns: u64,
    /// Time from then to the next frame.
    further_ns: u64,
}

impl Arrival {
    fn set_jitter(&mut self, jitter_ns: u64) {
        if self.jitter_ns == jitter_ns && self.burst_ns != 0 {
            return;
        }
        let further = jitter_ns / self.interval_ns;
        self.jitter_ns = jitter_ns;
        self.burst_ns = self.line_ns * (further + 1);
        self.further_ns = self.interval_ns - (jitter_ns - further * self.interval_ns);
    }

    /// Line time of the frames that arrive later than the burst and before a time.
    fn later_ns(&self, before_ns: u64) -> u64 {
        match before_ns.checked_sub(self.further_ns) {
            Some(rest @ 1..) => self.line_ns * rest.div_ceil(self.interval_ns),
            _ => 0,
        }
    }
}

/// The streams of each arc.
struct Arrivals {
    /// First arrival of each arc.
    starts: Vec<u32>,
    list: Vec<Arrival>,
    /// The arrival of each step.
    places: Vec<u32>,
}

impl Arrivals {
    fn new(arcs: usize, steps: &[Step], flows: &[Flow], network: &Network) -> Self {
        let mut starts = vec![0u32; arcs + 1];
        steps.iter().for_each(|step| starts[step.arc as usize + 1] += 1);
        for arc in 0..arcs {
            starts[arc + 1] += starts[arc];
        }
        let mut next = starts.clone();
        let mut list = vec![Arrival::default(); steps.len()];
        let mut places = vec![0; steps.len()];
        for flow in flows {
            for at in flow.first..flow.last {
                let arc = steps[at].arc;
                places[at] = next[arc as usize];
                next[arc as usize] += 1;
                list[places[at] as usize] = Arrival {
                    line_ns: network.line_time(Arc(arc), flow.octets),
                    interval_ns: flow.interval_ns,
                    ..Arrival::default()
                };
                list[places[at] as usize].set_jitter(0);
            }
        }
        Self { starts, list, places }
    }

    fn jitter(&self, step: usize) -> u64 {
        self.list[self.places[step] as usize].jitter_ns
    }

    fn set_jitter(&mut self, step: usize, jitter_ns: u64) {
        self.list[self.places[step] as usize].set_jitter(jitter_ns);
    }

    /// The longest wait at an arc: the largest backlog of a busy period.
    fn queue_ns(&self, network: &Network, arc: Arc) -> u64 {
        let span = self.starts[arc.index()] as usize..self.starts[arc.index() + 1] as usize;
        let arrivals = &self.list[span];
        if arrivals.is_empty() {
            return 0;
        }
        let burst = network.line_time(arc, OTHER)
            + arrivals.iter().map(|arrival| arrival.burst_ns).sum::<u64>();
        // The end of the busy period: all that arrives before it is sent by then.
        let mut end = burst;
        loop {
            let later = arrivals.iter().map(|arrival| arrival.later_ns(end)).sum::<u64>();
            if burst + later == end {
                break;
            }
            end = burst + later;
            // The line is overloaded, or nearly.
            if end > BUSY_NS {
                return UNBOUNDED_NS + 1;
            }
        }
        let mut events: Vec<(u64, u64)> = Vec::new();
        for arrival in arrivals {
            let mut time = arrival.further_ns;
            while time < end {
                events.push((time, arrival.line_ns));
                time += arrival.interval_ns;
            }
        }
        events.sort_unstable();
        let (mut work, mut longest) = (burst, burst);
        for (time, line_ns) in events {
            work += line_ns;
            longest = longest.max(work - time);
        }
        longest
    }
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
        let own =
            |arc: &Arc| network.line_time(*arc, stream.octets() - u64::from(crate::network::GAP));
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
