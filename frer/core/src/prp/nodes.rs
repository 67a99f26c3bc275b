//! NodesTable: the nodes that are heard on LAN A and LAN B.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use onbeat_wire::MacAddress;
use onbeat_wire::prp::supervision;

use super::{ABSENCE_NS, LIFE_CHECK_MS, NS_PER_MS};

/// Shortest time between searches for entries to evict, in nanoseconds: a flood of sources must not cause one for each
/// frame.
const SEARCH_INTERVAL_NS: u64 = 10_000_000;

/// Time of claims after which a source without supervision frames of its own is an alias: two LifeCheckIntervals.
const ALIAS_AFTER_NS: u64 = 2 * LIFE_CHECK_MS as u64 * NS_PER_MS;

/// State of a node that is heard on the LANs.
#[derive(Debug)]
pub(super) struct Node<N> {
    /// Its frames.
    pub(super) frames: [LanRecord; 2],
    /// Supervision frames that a RedBox sent for it.
    represented: [LanRecord; 2],
    /// The latest supervision frame of the node or for it.
    supervision: Option<Supervision>,
    /// From its first frame with a trailer on.
    pub(super) numbers: Option<N>,
    /// LANs on which frames have its address as their source.
    is_source: [bool; 2],
    /// The source of its frames on one LAN, by index, if it is another one there.
    alias: Option<(MacAddress, usize)>,
    /// The node of which it sends supervision frames, and the time of the first one.
    claim: Option<(MacAddress, u64)>,
}

/// What a node sent on one LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanRecord {
    /// Time of the last frame, in nanoseconds; `None`: no frame.
    pub last_ns: Option<u64>,
    /// Frames with a trailer, duplicates included, and supervision frames.
    pub tagged: u64,
    /// Frames without a trailer.
    pub untagged: u64,
    /// Frames with a trailer of the other LAN.
    pub wrong_lan: u64,
}

impl LanRecord {
    /// Returns the sum of two records.
    fn with(&self, other: &Self) -> Self {
        Self {
            last_ns: self.last_ns.max(other.last_ns),
            tagged: self.tagged + other.tagged,
            untagged: self.untagged + other.untagged,
            wrong_lan: self.wrong_lan + other.wrong_lan,
        }
    }
}

/// Content of a supervision frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supervision {
    /// Time of reception, in nanoseconds.
    pub at_ns: u64,
    /// The RedBox that represents the node.
    pub redbox: Option<MacAddress>,
}

impl<N> Node<N> {
    fn new() -> Self {
        Self {
            frames: [LanRecord::default(); 2],
            represented: [LanRecord::default(); 2],
            supervision: None,
            numbers: None,
            is_source: [false; 2],
            alias: None,
            claim: None,
        }
    }

    /// Notes that a frame has its address as the source.
    pub(super) fn note_source(&mut self, lan: usize) {
        self.is_source[lan] = true;
    }

    /// Returns the time of its last frame or supervision frame.
    fn last_ns(&self) -> u64 {
        let lans = self.frames.iter().chain(&self.represented).filter_map(|lan| lan.last_ns);
        lans.chain(self.supervision.map(|supervision| supervision.at_ns)).max().unwrap_or(0)
    }

    /// Returns what it sent, and what was sent for it, on each LAN.
    fn lans(&self) -> [LanRecord; 2] {
        core::array::from_fn(|lan| self.frames[lan].with(&self.represented[lan]))
    }

    /// Returns whether the node is known by frames without a trailer only.
    fn is_single(&self) -> bool {
        self.numbers.is_none() && self.supervision.is_none()
    }

    /// Returns the rank of the entry: the lowest is evicted first; `None`: it is in use.
    fn eviction(&self, now_ns: u64, forget_ns: u64) -> Option<(Eviction, u64)> {
        let last = self.last_ns();
        let (class, use_ns) = match (&self.numbers, self.supervision) {
            (None, None) => (Eviction::Single, 0),
            (Some(_), None) => (Eviction::Unsupervised, forget_ns),
            (_, Some(_)) => (Eviction::Supervised, forget_ns.max(ABSENCE_NS)),
        };
        (now_ns.saturating_sub(last) >= use_ns).then_some((class, last))
    }
}

/// The order in which entries are evicted from a full table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Eviction {
    /// Single attached: the entry only informs.
    Single,
    /// Its numbers are forgotten already.
    Unsupervised,
    /// Not even its supervision frames arrive any more.
    Supervised,
}

/// The nodes by their MAC address. `N`: their received numbers, or where those are.
#[derive(Debug)]
pub struct Nodes<N> {
    by_mac: HashMap<MacAddress, Node<N>>,
    /// The nodes of sources that are aliases.
    aliases: HashMap<MacAddress, MacAddress>,
    capacity: usize,
    /// Nodes without redundancy at the last search and those inserted since, the next one to evict first.
    singles: VecDeque<MacAddress>,
    /// Other entries out of use at the last search, the next one to evict last.
    idle: Vec<((Eviction, u64), MacAddress)>,
    /// Time of the last search.
    searched_ns: Option<u64>,
    /// Entries that were evicted for others.
    evicted: u64,
}

impl<N> Nodes<N> {
    /// Creates a table for this number of nodes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            by_mac: HashMap::new(),
            aliases: HashMap::new(),
            capacity,
            singles: VecDeque::new(),
            idle: Vec::new(),
            searched_ns: None,
            evicted: 0,
        }
    }

    /// Changes the number of nodes for which there is room.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.searched_ns = None;
    }

    /// Returns the entry of a node; a new one if it has none and there is room. `None`: the table is full of nodes in
    /// use. A node that is not `redundant`, whose entry only informs, evicts none that is.
    pub(super) fn entry(
        &mut self,
        mac: MacAddress,
        redundant: bool,
        now_ns: u64,
        forget_ns: u64,
    ) -> Option<&mut Node<N>> {
        if !self.by_mac.contains_key(&mac) {
            if self.capacity == 0 {
                return None;
            }
            // More than once after the capacity was reduced.
            let is_full = self.by_mac.len() >= self.capacity;
            while self.by_mac.len() >= self.capacity {
                self.evict(redundant, now_ns, forget_ns)?;
            }
            if is_full && !redundant {
                self.singles.push_back(mac);
            }
        }
        Some(self.by_mac.entry(mac).or_insert_with(Node::new))
    }

    /// Evicts an entry that is out of use.
    fn evict(&mut self, redundant: bool, now_ns: u64, forget_ns: u64) -> Option<()> {
        let searched = self.searched_ns.and_then(|searched| now_ns.checked_sub(searched));
        if searched.is_none_or(|ago_ns| ago_ns >= SEARCH_INTERVAL_NS) {
            self.searched_ns = Some(now_ns);
            self.search(now_ns, forget_ns);
        }
        // Unless they were heard or removed since the search.
        while let Some(mac) = self.singles.pop_front() {
            if self.by_mac.get(&mac).is_some_and(Node::is_single) {
                self.remove_evicted(mac);
                return Some(());
            }
        }
        if !redundant {
            return None;
        }
        while let Some((eviction, mac)) = self.idle.pop() {
            let now = self.by_mac.get(&mac).and_then(|node| node.eviction(now_ns, forget_ns));
            if now == Some(eviction) {
                self.remove_evicted(mac);
                return Some(());
            }
        }
        None
    }

    /// Searches entries that are out of use.
    fn search(&mut self, now_ns: u64, forget_ns: u64) {
        let nodes = self.by_mac.iter();
        let unused =
            |(mac, node): (&MacAddress, &Node<N>)| Some((node.eviction(now_ns, forget_ns)?, *mac));
        self.idle.clear();
        self.idle.extend(nodes.filter_map(unused));
        self.idle.sort_unstable_by(|one, other| other.cmp(one));
        let singles = self.idle.partition_point(|((class, _), _)| *class != Eviction::Single);
        self.singles.clear();
        self.singles.extend(self.idle.drain(singles..).rev().map(|(_, mac)| mac));
    }

    fn remove_evicted(&mut self, mac: MacAddress) {
        self.remove(mac);
        self.evicted += 1;
    }

    /// Notes a supervision frame that `source` sent on a LAN. It is of a node that is neither this one nor behind it.
    pub fn supervised(
        &mut self,
        source: MacAddress,
        lan: usize,
        &supervision::Repr { node, redbox, .. }: &supervision::Repr,
        now_ns: u64,
        forget_ns: u64,
    ) {
        if source == node {
            // It is a node of its own, whatever other frames claim.
            self.end_alias_of(source);
        }
        if let Some(entry) = self.entry(node, true, now_ns, forget_ns) {
            entry.supervision = Some(Supervision { at_ns: now_ns, redbox });
            let record = &mut entry.represented[lan];
            record.last_ns = Some(now_ns);
            record.tagged += u64::from(redbox.is_some() && source != node);
        }
        if redbox.is_none() && source != node {
            self.note_alias(source, node, lan, now_ns);
        }
    }

    /// Returns the node of a frame with this source, heard on a LAN, and ends an alias that the frame contradicts.
    ///
    /// The two sources of a node with an alias are never heard on the same LAN.
    pub(super) fn of_source(&mut self, source: MacAddress, lan: usize) -> MacAddress {
        if let Some(node) = self.aliases.get(&source).copied() {
            let alias = self.by_mac.get(&node).and_then(|node| node.alias);
            if alias == Some((source, lan)) {
                return node;
            }
            self.end_alias(node);
        } else if self
            .by_mac
            .get(&source)
            .is_some_and(|node| node.alias.is_some_and(|(_, of)| of == lan))
        {
            self.end_alias(source);
        }
        source
    }

    /// Ends the alias that a source is, if it is one.
    fn end_alias_of(&mut self, source: MacAddress) {
        if let Some(node) = self.aliases.get(&source).copied() {
            self.end_alias(node);
        }
    }

    /// Ends the alias of a node: frames of its two sources are those of two nodes from now on.
    pub fn end_alias(&mut self, mac: MacAddress) {
        let Some(node) = self.by_mac.get_mut(&mac) else { return };
        // They can be those of two nodes.
        node.numbers = None;
        if let Some((alias, _)) = node.alias.take() {
            self.aliases.remove(&alias);
        }
    }

    /// Notes that a source on a LAN sends supervision frames of a node with another address, and no RedBox.
    ///
    /// Linux 6.12 sends on each LAN with the address of that interface. The source is an alias of the node if
    /// neither is heard on the LAN of the other: else they can be nodes with numbers of their own. A node of its own
    /// supervises itself within LifeCheckInterval: one forged frame makes no alias of it.
    fn note_alias(&mut self, source: MacAddress, mac: MacAddress, lan: usize, now_ns: u64) {
        let Some(of_source) = self.by_mac.get_mut(&source) else { return };
        let since_ns = match of_source.claim {
            Some((node, since_ns)) if node == mac => since_ns,
            _ => of_source.claim.insert((mac, now_ns)).1,
        };
        if now_ns.saturating_sub(since_ns) < ALIAS_AFTER_NS {
            return;
        }
        let is_node = of_source.supervision.is_some() || of_source.alias.is_some();
        let is_elsewhere = of_source.is_source[1 - lan];
        let is_free = |node: &Node<N>| node.alias.is_none() && !node.is_source[lan];
        if is_node || is_elsewhere || !self.by_mac.get(&mac).is_some_and(is_free) {
            return;
        }
        let Some(of_source) = self.by_mac.remove(&source) else { return };
        let Some(node) = self.by_mac.get_mut(&mac) else { return };
        node.alias = Some((source, lan));
        node.frames[lan] = node.frames[lan].with(&of_source.frames[lan]);
        node.numbers = node.numbers.take().or(of_source.numbers);
        self.aliases.insert(source, mac);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MacAddress, &Node<N>)> {
        self.by_mac.iter().map(|(mac, node)| (*mac, node))
    }

    /// Removes nodes without a frame for `node_forget_ns`.
    pub fn expire(&mut self, now_ns: u64, node_forget_ns: u64) {
        self.by_mac.retain(|_, node| now_ns.saturating_sub(node.last_ns()) < node_forget_ns);
        self.aliases.retain(|_, node| self.by_mac.contains_key(node));
    }

    /// Removes a node.
    pub fn remove(&mut self, mac: MacAddress) {
        let node = self.by_mac.remove(&mac);
        if let Some((alias, _)) = node.and_then(|node| node.alias) {
            self.aliases.remove(&alias);
        }
    }

    /// Forgets the numbers of all nodes.
    pub(super) fn forget_numbers(&mut self)
    where
        N: Default,
    {
        for numbers in self.by_mac.values_mut().filter_map(|node| node.numbers.as_mut()) {
            *numbers = N::default();
        }
    }
}

/// For a data plane that notes frames elsewhere, and refers to their numbers by `N`.
impl<N> Nodes<N> {
    /// Sets the frames of a node, and the LANs on which they have its address as their source.
    pub fn set_frames(
        &mut self,
        mac: MacAddress,
        frames: [LanRecord; 2],
        is_source: [bool; 2],
        numbers: Option<N>,
    ) {
        let node = self.by_mac.entry(mac).or_insert_with(Node::new);
        (node.frames, node.is_source, node.numbers) = (frames, is_source, numbers);
    }

    /// Adds an alias that was found before: the source, the LAN on which it is one, and the node.
    pub fn adopt_alias(&mut self, alias: MacAddress, lan: usize, mac: MacAddress) {
        if let Some(node) = self.by_mac.get_mut(&mac) {
            node.alias = Some((alias, lan));
            self.aliases.insert(alias, mac);
        }
    }

    /// Removes nodes that are known by frames without a trailer only, but those that are `present`.
    pub fn retain_singles(&mut self, present: impl Fn(MacAddress) -> bool) {
        self.by_mac.retain(|mac, node| !node.is_single() || present(*mac));
    }

    /// Forgets which sources claim to be of another node.
    pub fn forget_claims(&mut self) {
        self.by_mac.values_mut().for_each(|node| node.claim = None);
    }

    /// Returns the aliases: the source, the LAN on which it is one, and the node.
    pub fn aliases(&self) -> impl Iterator<Item = (MacAddress, usize, MacAddress)> {
        self.by_mac.iter().filter_map(|(mac, node)| node.alias.map(|(of, lan)| (of, lan, *mac)))
    }

    /// Returns whether an address is that of a node, or an alias of one.
    #[must_use]
    pub fn contains(&self, mac: MacAddress) -> bool {
        self.by_mac.contains_key(&mac) || self.aliases.contains_key(&mac)
    }

    /// Removes nodes with numbers that are out of use, the least used first, until `most` with numbers are left.
    pub fn evict_numbers(&mut self, most: usize, now_ns: u64, forget_ns: u64) {
        let with_numbers = self.by_mac.iter().filter(|(_, node)| node.numbers.is_some());
        let excess = with_numbers.clone().count().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let unused =
            |(mac, node): (&MacAddress, &Node<N>)| Some((node.eviction(now_ns, forget_ns)?, *mac));
        let mut unused: Vec<_> = with_numbers.filter_map(unused).collect();
        unused.sort_unstable();
        unused.into_iter().take(excess).for_each(|(_, mac)| self.remove_evicted(mac));
    }

    /// Returns the number of nodes that were evicted for others.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// Type of a node, from its frames and supervision frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum NodeKind {
    /// Singly attached: sends frames without a trailer.
    San,
    /// Doubly attached: sends frames with a trailer.
    Danp,
    /// A RedBox.
    RedBox,
    /// Represented by a RedBox.
    Vdanp,
}

impl NodeKind {
    /// Returns the name in tables and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::San => "SAN",
            Self::Danp => "DANP",
            Self::RedBox => "RedBox",
            Self::Vdanp => "VDANP",
        }
    }
}

/// A node as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeReading {
    /// Its address.
    pub mac: MacAddress,
    /// Its type.
    pub kind: NodeKind,
    /// On LAN A and LAN B.
    pub lans: [LanRecord; 2],
    /// Its latest supervision frame.
    pub supervision: Option<Supervision>,
}

impl<N> Nodes<N> {
    /// Returns all nodes in the order of their addresses.
    #[must_use]
    pub fn read(&self) -> Vec<NodeReading> {
        let redboxes: HashSet<MacAddress> =
            self.by_mac.values().filter_map(|node| node.supervision?.redbox).collect();
        let reading = |(mac, node): (MacAddress, &Node<N>)| {
            let redbox = node.supervision.and_then(|supervision| supervision.redbox);
            let kind = match redbox {
                Some(redbox) if redbox != mac => NodeKind::Vdanp,
                Some(_) => NodeKind::RedBox,
                None if redboxes.contains(&mac) => NodeKind::RedBox,
                None if node.numbers.is_some() || node.supervision.is_some() => NodeKind::Danp,
                None => NodeKind::San,
            };
            NodeReading { mac, kind, lans: node.lans(), supervision: node.supervision }
        };
        let mut nodes: Vec<_> = self.iter().map(reading).collect();
        nodes.sort_unstable_by_key(|node| node.mac);
        nodes
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use onbeat_wire::prp::{Lan, Tail};
    use onbeat_wire::{Frame, MacAddress};

    use super::ALIAS_AFTER_NS;
    use crate::prp::{LanPort, Lre, Outcome, Parameters};
    use crate::spec::PortId;

    const NODE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0a]);
    const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0b]);
    const LANS: [(Lan, PortId); 2] = [(Lan::A, PortId(0)), (Lan::B, PortId(1))];

    fn lre(mac: MacAddress) -> Lre {
        let lan =
            |(_, port): (Lan, PortId)| LanPort { port, mac: MacAddress([2, 0, 0, 0, 1, port.0]) };
        let parameters = Parameters {
            a: lan(LANS[0]),
            b: lan(LANS[1]),
            host: PortId(2),
            mac,
            is_segment: false,
            entry_forget_ms: 400,
            node_forget_ms: 60_000,
            max_nodes: 8,
        };
        Lre::new(parameters, 0)
    }

    /// Times of two supervision frames; other frames are as late as the second one.
    const TIMES_NS: [u64; 2] = [1_000_000, ALIAS_AFTER_NS + 1_000_000];

    /// Returns whether a frame is delivered to the host.
    fn receive(lre: &mut Lre, lan: usize, source: MacAddress, number: u16, octets: &[u8]) -> bool {
        receive_at(lre, TIMES_NS[1], (lan, source), number, octets)
    }

    fn receive_at(
        lre: &mut Lre,
        now_ns: u64,
        (lan, source): (usize, MacAddress),
        number: u16,
        octets: &[u8],
    ) -> bool {
        let mut octets = Vec::from(octets);
        octets[6..12].copy_from_slice(&source.0);
        octets.resize(60, 0);
        let tail = Tail::of(&Frame::parse(&octets).unwrap(), number, LANS[lan].0).unwrap();
        octets.extend(tail.as_slice());
        matches!(lre.frame(LANS[lan].1, now_ns, &octets), Outcome::Send(_))
    }

    fn data() -> Vec<u8> {
        let mut octets = Vec::from([2, 0, 0, 0, 0, 9]);
        octets.extend([0; 6]);
        octets.extend([8, 0]);
        octets
    }

    /// Supervision frames of [`NODE`], and sources by LAN.
    fn supervise(lre_under_test: &mut Lre, sources: [MacAddress; 2], number: u16) {
        let (frames, _) = lre(NODE).supervise();
        for now_ns in TIMES_NS {
            for of_lan in sources.into_iter().enumerate() {
                receive_at(lre_under_test, now_ns, of_lan, number, &frames[0]);
            }
        }
    }

    #[test]
    fn copies_of_a_node_with_two_addresses_pass_once() {
        let mut lre = lre(MacAddress([2, 0, 0, 0, 0, 9]));
        supervise(&mut lre, [NODE, OTHER], 0);
        for number in 1..100 {
            assert!(receive(
                &mut lre,
                usize::from(number % 2),
                [NODE, OTHER][usize::from(number % 2)],
                number,
                &data()
            ));
            assert!(!receive(
                &mut lre,
                usize::from(number % 2 == 0),
                [OTHER, NODE][usize::from(number % 2)],
                number,
                &data()
            ));
        }
        let nodes = lre.read().nodes;
        assert_eq!(nodes.len(), 1);
        assert_eq!(
            (nodes[0].mac, nodes[0].lans[0].tagged, nodes[0].lans[1].tagged),
            (NODE, 101, 101)
        );
    }

    #[test]
    fn a_source_that_is_heard_on_both_lans_is_no_alias() {
        for heard_before in [false, true] {
            let mut lre = lre(MacAddress([2, 0, 0, 0, 0, 9]));
            if heard_before {
                assert!(receive_at(&mut lre, 0, (0, OTHER), 1000, &data()));
            }
            supervise(&mut lre, [NODE, OTHER], 0);
            assert!(receive(&mut lre, 0, NODE, 5, &data()));
            // Their numbers are their own from here on, and an alias does not return.
            assert!(receive(&mut lre, 0, OTHER, 5, &data()), "{heard_before}");
            supervise(&mut lre, [NODE, OTHER], 1);
            assert!(receive(&mut lre, 0, NODE, 6, &data()));
            assert!(receive(&mut lre, 0, OTHER, 6, &data()), "{heard_before}");
            assert!(!receive(&mut lre, 1, OTHER, 6, &data()), "{heard_before}");
            assert!(!receive(&mut lre, 1, NODE, 6, &data()), "{heard_before}");
        }
    }

    #[test]
    fn a_node_that_is_heard_on_the_lan_of_its_alias_has_none() {
        let mut lre = lre(MacAddress([2, 0, 0, 0, 0, 9]));
        supervise(&mut lre, [NODE, OTHER], 0);
        assert!(receive(&mut lre, 1, OTHER, 5, &data()));
        // As through a RedBox that does not name itself.
        assert!(receive(&mut lre, 1, NODE, 5, &data()));
        assert!(receive(&mut lre, 1, OTHER, 6, &data()));
        assert!(receive(&mut lre, 1, NODE, 6, &data()));
    }

    /// A neighbor forges a supervision frame of one node with the source of another. Each has a path on one LAN only.
    #[test]
    fn forged_claims_join_no_nodes() {
        let mut receiver = lre(MacAddress([2, 0, 0, 0, 0, 9]));
        let (of_node, _) = lre(NODE).supervise();
        let (of_other, _) = lre(OTHER).supervise();
        for second in 0..30 {
            let now_ns = second * 1_000_000_000;
            let number = second as u16 * 10;
            if second % 2 == 0 {
                receive_at(&mut receiver, now_ns, (0, NODE), number, &of_node[0]);
                receive_at(&mut receiver, now_ns, (1, OTHER), number, &of_other[0]);
            }
            receive_at(&mut receiver, now_ns, (1, OTHER), 60_000, &of_node[0]);
            for later in 1..9 {
                let number = number + later;
                assert!(receive_at(&mut receiver, now_ns, (0, NODE), number, &data()), "{second}");
                assert!(receive_at(&mut receiver, now_ns, (1, OTHER), number, &data()), "{second}");
            }
        }
        assert_eq!(receiver.read().nodes.len(), 2);
    }
}
