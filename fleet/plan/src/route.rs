//! Routes of streams: the paths to each listener, what they share, and what each node does.

use std::collections::BTreeSet;

use crate::ladder;
use crate::network::{Arc, Network, Stream};

/// An element whose failure a plan considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A link.
    Link(u32),
    /// A node.
    Node(u32),
    /// All links of a shared-risk group.
    Group(u32),
}

impl Element {
    /// Its kind and name.
    #[must_use]
    pub fn describe(self, network: &Network) -> String {
        match self {
            Self::Link(link) => format!("link {}", network.links[link as usize].name),
            Self::Node(node) => format!("node {}", network.nodes[node as usize].name),
            Self::Group(group) => format!("group {}", network.groups[group as usize].name),
        }
    }

    /// All links, nodes and groups.
    pub fn all(network: &Network) -> impl Iterator<Item = Self> + use<> {
        let (links, nodes) = (network.links.len() as u32, network.nodes.len() as u32);
        let groups = network.groups.len() as u32;
        let links = (0..links).map(Self::Link);
        links.chain((0..nodes).map(Self::Node)).chain((0..groups).map(Self::Group))
    }

    /// Whether its failure interrupts an arc.
    #[must_use]
    pub fn interrupts(self, network: &Network, arc: Arc) -> bool {
        match self {
            Self::Link(link) => arc.link() == link as usize,
            Self::Node(node) => {
                let (from, to) = network.ends(arc);
                from == node || to == node
            }
            Self::Group(group) => network.links[arc.link()].groups.contains(&group),
        }
    }

    /// Returns the element with this name.
    #[must_use]
    pub fn find(network: &Network, name: &str) -> Option<Self> {
        let link = |link: &crate::network::Link| {
            link.name == name || link.ends.iter().any(|end| network.end_name(*end) == name)
        };
        let index = |position: Option<usize>| position.map(|index| index as u32);
        let node = || network.node(name).map(Self::Node);
        let group = || index(network.groups.iter().position(|group| group.name == name));
        let link = index(network.links.iter().position(link)).map(Self::Link);
        link.or_else(node).or_else(|| group().map(Self::Group))
    }
}

/// The paths to one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerPaths {
    /// Index of its node.
    pub listener: u32,
    /// Paths from the talker, each a sequence of arcs.
    pub paths: Vec<Vec<Arc>>,
}

/// The paths of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// In the order of the stream's listeners.
    pub listeners: Vec<ListenerPaths>,
}

/// The part of a node in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPart {
    /// Index of the node.
    pub node: u32,
    /// Arcs on which frames arrive; none at the talker.
    pub ingress: Vec<Arc>,
    /// Arcs on which frames leave.
    pub egress: Vec<Arc>,
    /// Whether frames are delivered to the node's applications.
    pub delivers: bool,
    /// Whether copies are eliminated here.
    pub recovers: bool,
}

/// Marks of nodes, to find routes without common nodes in one pass.
#[derive(Debug)]
pub(crate) struct NodeMarks {
    marks: Vec<u32>,
    current: u32,
    /// The nodes that each arc leaves and enters.
    ends: Vec<(u32, u32)>,
}

impl NodeMarks {
    pub(crate) fn new(network: &Network) -> Self {
        let ends = network.arcs().map(|arc| network.ends(arc)).collect();
        Self { marks: vec![0; network.nodes.len()], current: 0, ends }
    }

    /// The node that an arc enters.
    pub(crate) fn head(&self, arc: Arc) -> usize {
        self.ends[arc.index()].1 as usize
    }

    /// Whether the route leads to one listener and its paths share no node and no link.
    pub(crate) fn is_disjoint(&mut self, route: &Route) -> bool {
        let [ListenerPaths { listener, paths }] = &route.listeners[..] else { return false };
        self.current += 1;
        let mut mark = |node: u32| {
            std::mem::replace(&mut self.marks[node as usize], self.current) != self.current
        };
        let Some(first) = paths.first().and_then(|path| path.first()) else { return false };
        if !mark(self.ends[first.index()].0) || !mark(*listener) {
            return false;
        }
        let mut direct = None;
        for path in paths {
            let Some((last, inner)) = path.split_last() else { return false };
            if self.ends[last.index()].1 != *listener {
                return false;
            }
            // Only a path of one link has no inner node of its own.
            if inner.is_empty() && direct.replace(last.link()).is_some() {
                return false;
            }
            if !inner.iter().all(|arc| mark(self.ends[arc.index()].1)) {
                return false;
            }
        }
        true
    }
}

impl Route {
    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &Vec<Arc>> {
        self.listeners.iter().flat_map(|listener| &listener.paths)
    }

    /// The arcs in use, each once: a recovering relay sends one copy.
    #[must_use]
    pub fn arcs(&self) -> Vec<Arc> {
        let mut arcs: Vec<Arc> = self.paths().flatten().copied().collect();
        sort(&mut arcs);
        arcs
    }

    /// Inner nodes, links and groups that all paths to a listener use, or two of them.
    #[must_use]
    pub fn shared(&self, network: &Network) -> Vec<Element> {
        let mut shared = Vec::new();
        let mut uses: Vec<(Element, usize)> = Vec::new();
        for listener in self.listeners.iter().filter(|listener| listener.paths.len() > 1) {
            uses.clear();
            for (number, path) in listener.paths.iter().enumerate() {
                for (position, arc) in path.iter().enumerate() {
                    uses.push((Element::Link(arc.link() as u32), number));
                    if position > 0 {
                        uses.push((Element::Node(network.ends(*arc).0), number));
                    }
                    let groups = network.links[arc.link()].groups.iter();
                    uses.extend(groups.map(|group| (Element::Group(*group), number)));
                }
            }
            sort(&mut uses);
            let several = uses.windows(2).filter(|uses| uses[0].0 == uses[1].0);
            shared.extend(several.map(|uses| uses[0].0));
        }
        sort(&mut shared);
        shared
    }

    /// The parts of all nodes. Frames are recovered where several paths to one listener meet, where they arrive by several
    /// arcs and leave by a common one, and where they are delivered, so that each arc carries one copy.
    #[must_use]
    pub fn parts(&self, network: &Network, stream: &Stream) -> Vec<StreamPart> {
        let common = self.common_nodes(network);
        let mut first = Vec::new();
        // Each arc with the node that it enters, and an arc by which frames go on.
        let mut hops: Vec<(u32, Arc, Option<Arc>)> = Vec::new();
        for path in self.paths() {
            first.extend(path.first().copied());
            let next = path.iter().skip(1).map(|arc| Some(*arc)).chain([None]);
            hops.extend(
                path.iter().zip(next).map(|(arc, next)| (network.ends(*arc).1, *arc, next)),
            );
        }
        sort(&mut first);
        sort(&mut hops);
        let mut parts = vec![StreamPart {
            node: stream.talker,
            ingress: Vec::new(),
            egress: first,
            delivers: false,
            recovers: false,
        }];
        for of_node in hops.chunk_by(|a, b| a.0 == b.0) {
            let node = of_node[0].0;
            let delivers = self.listeners.iter().any(|paths| paths.listener == node);
            let outs = |hops: &[(u32, Arc, Option<Arc>)]| -> Vec<Arc> {
                hops.iter().filter_map(|hop| hop.2).collect()
            };
            let mut all = outs(of_node);
            let sum = all.len();
            sort(&mut all);
            let flows = of_node.chunk_by(|a, b| a.1 == b.1);
            if delivers || sum != all.len() || common.binary_search(&node).is_ok() {
                let ingress: Vec<Arc> = flows.map(|flow| flow[0].1).collect();
                let recovers = ingress.len() > 1 || delivers && stream.paths > 1;
                parts.push(StreamPart { node, ingress, egress: all, delivers, recovers });
                continue;
            }
            parts.extend(flows.map(|flow| StreamPart {
                node,
                ingress: vec![flow[0].1],
                egress: outs(flow),
                delivers: false,
                recovers: false,
            }));
        }
        parts
    }

    /// Inner nodes through which several paths to one listener lead, in order.
    fn common_nodes(&self, network: &Network) -> Vec<u32> {
        let mut common = Vec::new();
        let mut nodes = Vec::new();
        for listener in self.listeners.iter().filter(|listener| listener.paths.len() > 1) {
            nodes.clear();
            let inner = listener.paths.iter().flat_map(|path| path.iter().skip(1));
            nodes.extend(inner.map(|arc| network.ends(*arc).0));
            nodes.sort_unstable();
            common.extend(nodes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]));
        }
        sort(&mut common);
        common
    }

    /// The relays that recover and forward, in order: there, copies may change paths.
    #[must_use]
    pub fn recovering_relays(&self, network: &Network, stream: &Stream) -> Vec<u32> {
        let mut relays: Vec<u32>;
        if let [ListenerPaths { listener, .. }] = &self.listeners[..] {
            // Arcs that enter an inner node of one listener's paths meet there.
            let arcs = self.arcs().into_iter();
            relays = arcs.map(|arc| network.ends(arc).1).filter(|node| node != listener).collect();
            relays.sort_unstable();
            relays = relays.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
        } else {
            let parts = self.parts(network, stream);
            let recovers = |part: &&StreamPart| part.recovers && !part.egress.is_empty();
            relays = parts.iter().filter(recovers).map(|part| part.node).collect();
        }
        relays.dedup();
        relays
    }

    /// Whether a relay recovers: copies may then change paths.
    #[must_use]
    pub fn has_recovering_relay(&self, network: &Network, stream: &Stream) -> bool {
        !self.recovering_relays(network, stream).is_empty()
    }

    /// The node of each part, in order.
    pub(crate) fn part_nodes(&self, network: &Network, stream: &Stream) -> Vec<u32> {
        if self.listeners.len() > 1 {
            return self.parts(network, stream).iter().map(|part| part.node).collect();
        }
        // The paths to one listener have one part where they meet.
        let mut nodes: Vec<u32> = self.paths().flatten().map(|arc| network.ends(*arc).1).collect();
        sort(&mut nodes);
        nodes.insert(0, stream.talker);
        nodes
    }

    /// Listeners that receive no frame when an element fails, and those with one path left of several.
    #[must_use]
    pub fn losses(&self, network: &Network, stream: &Stream, failed: Element) -> RouteLoss {
        let mut loss = RouteLoss::default();
        let is_alive = |path: &Vec<Arc>| !path.iter().any(|arc| failed.interrupts(network, *arc));
        for listener in &self.listeners {
            let alive = listener.paths.iter().filter(|path| is_alive(path)).count();
            let gone = failed == Element::Node(listener.listener)
                || failed == Element::Node(stream.talker);
            match alive {
                _ if gone => loss.ended += 1,
                0 => loss.cut += 1,
                1 if listener.paths.len() > 1 => loss.single += 1,
                _ => {}
            }
        }
        if ladder::has_rungs(stream, self) {
            return self.ladder_loss(network, stream, failed, loss);
        }
        if loss.cut > 0 && self.has_recovering_relay(network, stream) {
            let reached = self.reached(network, stream, &[failed]);
            let still = |paths: &&ListenerPaths| {
                !paths.paths.iter().any(is_alive) && reached.contains(&paths.listener)
            };
            let survivors = self.listeners.iter().filter(still).count();
            loss.cut -= survivors;
            loss.single += survivors;
        }
        loss
    }

    /// The loss of a route with rungs: one path is left if a further link or inner node can cut it.
    fn ladder_loss(
        &self,
        network: &Network,
        stream: &Stream,
        failed: Element,
        loss: RouteLoss,
    ) -> RouteLoss {
        if loss.ended > 0 {
            return loss;
        }
        let is_cut = |failed: &[Element]| self.reached(network, stream, failed).is_empty();
        if is_cut(&[failed]) {
            return RouteLoss { cut: 1, ..RouteLoss::default() };
        }
        let inner = |arc: &Arc| network.ends(*arc).0 != stream.talker;
        let arcs = self.arcs();
        let nodes =
            arcs.iter().filter(|arc| inner(arc)).map(|arc| Element::Node(network.ends(*arc).0));
        let links = arcs.iter().map(|arc| Element::Link(arc.link() as u32));
        let is_single = links.chain(nodes).any(|further| is_cut(&[failed, further]));
        RouteLoss { single: usize::from(is_single), ..RouteLoss::default() }
    }

    /// Nodes that deliver frames although elements failed.
    #[must_use]
    pub fn reached(&self, network: &Network, stream: &Stream, failed: &[Element]) -> BTreeSet<u32> {
        let parts = self.parts(network, stream);
        let (mut done, mut reached) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![0];
        while let Some(index) = open.pop() {
            if !done.insert(index) {
                continue;
            }
            let part: &StreamPart = &parts[index];
            if part.delivers {
                reached.insert(part.node);
            }
            let is_alive =
                |arc: &&Arc| !failed.iter().any(|failed| failed.interrupts(network, **arc));
            for arc in part.egress.iter().filter(is_alive) {
                open.extend((0..parts.len()).filter(|next| parts[*next].ingress.contains(arc)));
            }
        }
        reached
    }
}

/// Sorts values, each of which stays once.
fn sort<T: Ord>(values: &mut Vec<T>) {
    values.sort_unstable();
    values.dedup();
}

/// The effect of a failure on a stream, in listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteLoss {
    /// They receive nothing.
    pub cut: usize,
    /// One path is left.
    pub single: usize,
    /// Their node or that of the talker failed itself.
    pub ended: usize,
}
