//! Routes of streams: the paths to each listener, what they share, and what each node does.

use std::collections::{BTreeMap, BTreeSet};

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
        arcs.sort_unstable();
        arcs.dedup();
        arcs
    }

    /// Inner nodes, links and groups that all paths to a listener use, or two of them.
    #[must_use]
    pub fn shared(&self, network: &Network) -> Vec<Element> {
        let mut shared = BTreeSet::new();
        for listener in self.listeners.iter().filter(|listener| listener.paths.len() > 1) {
            let mut seen: BTreeMap<Element, usize> = BTreeMap::new();
            for (number, path) in listener.paths.iter().enumerate() {
                let mut own = BTreeSet::new();
                for (position, arc) in path.iter().enumerate() {
                    own.insert(Element::Link(arc.link() as u32));
                    if position > 0 {
                        own.insert(Element::Node(network.ends(*arc).0));
                    }
                    let groups = network.links[arc.link()].groups.iter();
                    own.extend(groups.map(|group| Element::Group(*group)));
                }
                for element in own {
                    if *seen.entry(element).or_insert(number) != number {
                        shared.insert(element);
                    }
                }
            }
        }
        shared.into_iter().collect()
    }

    /// The parts of all nodes. Frames are recovered where several paths to one listener meet, where they arrive by several
    /// arcs and leave by a common one, and where they are delivered, so that each arc carries one copy.
    #[must_use]
    pub fn parts(&self, network: &Network, stream: &Stream) -> Vec<StreamPart> {
        let mut nodes: BTreeMap<u32, BTreeMap<Arc, BTreeSet<Arc>>> = BTreeMap::new();
        let mut first = BTreeSet::new();
        let common = self.common_nodes(network);
        for path in self.paths() {
            first.extend(path.first());
            for (position, arc) in path.iter().enumerate() {
                let outs = nodes.entry(network.ends(*arc).1).or_default().entry(*arc).or_default();
                outs.extend(path.get(position + 1));
            }
        }
        let mut parts = vec![StreamPart {
            node: stream.talker,
            ingress: Vec::new(),
            egress: first.into_iter().collect(),
            delivers: false,
            recovers: false,
        }];
        for (node, flows) in nodes {
            let delivers = self.listeners.iter().any(|paths| paths.listener == node);
            let all: BTreeSet<Arc> = flows.values().flatten().copied().collect();
            let sum: usize = flows.values().map(BTreeSet::len).sum();
            if delivers || sum != all.len() || common.contains(&node) {
                let ingress: Vec<Arc> = flows.into_keys().collect();
                let recovers = ingress.len() > 1 || delivers && stream.paths > 1;
                let egress = all.into_iter().collect();
                parts.push(StreamPart { node, ingress, egress, delivers, recovers });
                continue;
            }
            parts.extend(flows.into_iter().map(|(arc, outs)| StreamPart {
                node,
                ingress: vec![arc],
                egress: outs.into_iter().collect(),
                delivers: false,
                recovers: false,
            }));
        }
        parts
    }

    /// Inner nodes through which several paths to one listener lead.
    fn common_nodes(&self, network: &Network) -> BTreeSet<u32> {
        let mut common = BTreeSet::new();
        for listener in self.listeners.iter().filter(|listener| listener.paths.len() > 1) {
            let mut seen = BTreeSet::new();
            for arc in listener.paths.iter().flat_map(|path| path.iter().skip(1)) {
                let node = network.ends(*arc).0;
                if !seen.insert(node) {
                    common.insert(node);
                }
            }
        }
        common
    }

    /// Whether a relay recovers: copies may then change paths.
    #[must_use]
    pub fn has_recovering_relay(&self, network: &Network, stream: &Stream) -> bool {
        let parts = self.parts(network, stream);
        parts.iter().any(|part| part.recovers && !part.egress.is_empty())
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
