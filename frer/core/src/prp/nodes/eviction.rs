//! Entries of a full table that are evicted for others.

use alloc::vec::Vec;

use onbeat_wire::MacAddress;

use super::super::ABSENCE_NS;
use super::{Node, Nodes};

/// Shortest time between searches for entries to evict, in nanoseconds: a flood of sources must not cause one for each
/// frame.
const SEARCH_INTERVAL_NS: u64 = 10_000_000;

/// The order in which entries are evicted from a full table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Eviction {
    /// Single attached: the entry only informs.
    Single,
    /// Its numbers are forgotten already.
    Unsupervised,
    /// Not even its supervision frames arrive any more.
    Supervised,
}

impl<N> Node<N> {
    /// Returns whether the node is known by frames without a trailer only.
    pub(super) fn is_single(&self) -> bool {
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

impl<N> Nodes<N> {
    /// Evicts an entry that is out of use.
    pub(super) fn evict(&mut self, redundant: bool, now_ns: u64, forget_ns: u64) -> Option<()> {
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

    /// Removes nodes without numbers until `most` nodes are left, single ones first, the least used first: their entries
    /// only inform.
    pub fn evict_without_numbers(&mut self, most: usize) {
        let excess = self.by_mac.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let without = |(mac, node): (&MacAddress, &Node<N>)| {
            node.numbers.is_none().then(|| (!node.is_single(), node.last_ns(), *mac))
        };
        let mut without: Vec<_> = self.by_mac.iter().filter_map(without).collect();
        without.sort_unstable();
        without.into_iter().take(excess).for_each(|(.., mac)| self.remove_evicted(mac));
    }

    /// Returns the number of nodes that were evicted for others.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}
