//! NodesTable: the nodes that are heard on LAN A and LAN B.

mod alias;
mod eviction;
mod reading;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;
use onbeat_wire::MacAddress;
use onbeat_wire::prp::supervision;

use self::eviction::Eviction;
pub use self::reading::{NodeKind, NodeReading};

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

    /// Removes nodes that are known by frames without a trailer only, but those that are `present`.
    pub fn retain_singles(&mut self, present: impl Fn(MacAddress) -> bool) {
        self.by_mac.retain(|mac, node| !node.is_single() || present(*mac));
    }

    /// Returns whether an address is that of a node, or an alias of one.
    #[must_use]
    pub fn contains(&self, mac: MacAddress) -> bool {
        self.by_mac.contains_key(&mac) || self.aliases.contains_key(&mac)
    }
}
