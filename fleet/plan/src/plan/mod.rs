//! Planning: routes within capacities, then delays and windows, without those that break a limit.

mod admission;
mod finish;
mod planner;
mod search;

use std::collections::HashMap;

use admission::Admission;
use onbeat_wire::MacAddress;

use crate::delay::{DelayBounds, DelayRange};
use crate::labels::LabelScope;
use crate::network::{Arc, Network, Stream};
use crate::route::{Element, Route};
use crate::window::{Window, WindowError};

/// Streams of a node: the index range of its tables.
pub const MAX_STREAMS: u32 = 65_536;

/// Egress ports of a stream at a node.
pub const MAX_EGRESS: usize = onbeat_frer::spec::MAX_EGRESS;

/// Why a stream is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No path leads to a listener.
    Unreachable {
        /// Its node.
        listener: u32,
    },
    /// A stream with several listeners has no two disjoint trees.
    NoTrees {
        /// The listener without two paths.
        listener: u32,
        /// What separates it from the talker.
        cut: Vec<Element>,
    },
    /// The paths that would protect it have too little free capacity.
    Capacity {
        /// The arcs that are too full.
        arcs: Vec<Arc>,
    },
    /// A node would have more streams or egress ports than it supports.
    NodeFull {
        /// The node.
        node: u32,
    },
    /// The delay exceeds the permitted one.
    Delay {
        /// The listener.
        listener: u32,
        /// The bound; none: no bound exists.
        bound_ns: Option<u64>,
    },
    /// It would delay a stream that keeps its paths beyond the permitted delay.
    Displaces {
        /// The number of that stream.
        stream: usize,
    },
    /// The delay difference of the paths requires too long a history.
    Window(WindowError),
    /// A foreign bridge cannot eliminate copies, or copy frames of an individual address to several ports.
    Bridge {
        /// The bridge.
        node: u32,
    },
    /// No link with room joins both paths, so that no relay can recover.
    NoRung,
    /// Streams with the same address use all VLANs of labels where this one passes.
    Label,
}

/// The result of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPlan {
    /// It has disjoint paths, or the single path that it requests.
    Protected,
    /// Its paths share elements: no better ones exist.
    Shared {
        /// Nodes, links and groups whose failure can interrupt it.
        elements: Vec<Element>,
        /// Whether every alternative shares something.
        is_proven: bool,
    },
    /// It has no paths.
    Refused(Refusal),
}

/// A plan of all streams of a network.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Results, in the order of the streams.
    pub streams: Vec<StreamPlan>,
    /// Routes; none of refused streams.
    pub routes: Vec<Option<Route>>,
    /// Delays to each listener.
    pub delays: Vec<Vec<DelayRange>>,
    /// Recovery of each stream; none of streams with one path.
    pub windows: Vec<Option<Window>>,
    /// Recovery in relays, by their nodes: of copies that arrive at each of them.
    pub relays: Vec<Vec<RelayRecovery>>,
    /// VLANs between talker and listeners: one for all paths of a stream, or one for each; none without label VLANs.
    pub labels: Vec<Vec<u16>>,
    /// Rate of streams on each arc, in bit/s.
    pub load: Vec<u64>,
    /// Bounds of all queues.
    pub bounds: DelayBounds,
    /// Number of routes that equal those of the previous plan.
    pub kept: usize,
}

/// Recovery of a stream in a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayRecovery {
    /// The relay.
    pub node: u32,
    /// When copies arrive there.
    pub delay: DelayRange,
    /// Parameters for these delays, and those of the previous plan.
    pub window: Window,
}

/// A stream of a previous plan.
#[derive(Debug, Clone, Default)]
pub struct PreviousStream {
    /// Its route, if it was protected and its nodes and links exist.
    pub route: Option<Route>,
    /// Delays to each listener.
    pub delays: Vec<DelayRange>,
    /// Delays to recovering relays, by name.
    pub relay_delays: HashMap<String, DelayRange>,
    /// Destination address.
    pub address: MacAddress,
    /// VLANs of its paths.
    pub labels: Vec<u16>,
    /// Where its frames have these VLANs.
    pub scopes: Vec<LabelScope>,
}

/// The streams of a previous plan, by name.
pub type PreviousRoutes = HashMap<String, PreviousStream>;

impl Plan {
    /// Plans all streams. A route of the previous plan that still protects its stream is kept. If streams lack capacity,
    /// further orders are tried: the plan that protects the most streams is returned.
    #[must_use]
    pub fn new(network: &Network, previous: &PreviousRoutes) -> Self {
        let old = |stream: &Stream| previous.get(&stream.name)?.route.as_ref();
        let old: Vec<Option<&Route>> = network.streams.iter().map(old).collect();
        let mut best: Option<Admission<'_>> = None;
        for order in admission::Order::ALL {
            let admission = Admission::new(network, &old, order);
            let is_better = best.as_ref().is_none_or(|best| admission.count() > best.count());
            let lacks_capacity = admission.lacks_capacity();
            if is_better {
                best = Some(admission);
            }
            if !lacks_capacity {
                break;
            }
        }
        let Admission { planner, results, kept } = best.expect("there is an order");
        let (streams, routes): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        planner.finish(streams, routes, previous, kept)
    }

    /// Whether each stream is protected as its line requests.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.streams.iter().all(|stream| *stream == StreamPlan::Protected)
    }

    /// The streams with a route, by index.
    pub fn routed(&self) -> impl Iterator<Item = (usize, &Route)> {
        self.routes.iter().enumerate().filter_map(|(index, route)| Some((index, route.as_ref()?)))
    }

    /// Recovery of a stream in a node: its own parameters in a relay, else those of the stream.
    #[must_use]
    pub fn window_at(&self, stream: usize, node: u32) -> Option<Window> {
        let relay = self.relays[stream].iter().find(|relay| relay.node == node);
        relay.map(|relay| relay.window).or(self.windows[stream])
    }
}

/// The result of one stream, with its route.
type StreamResult = (StreamPlan, Option<Route>);
