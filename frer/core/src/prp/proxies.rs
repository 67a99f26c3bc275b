//! ProxyNodeTable: the stations behind the host port, in whose name the LRE sends.

use alloc::vec::Vec;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use onbeat_wire::MacAddress;

/// A station behind the host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyReading {
    /// Its address.
    pub mac: MacAddress,
    /// Time of its last frame, in nanoseconds.
    pub last_ns: u64,
}

/// The stations behind the host port, except the host itself.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    by_mac: HashMap<MacAddress, u64>,
    /// Frames of stations for which the table had no room.
    pub(super) unknown: u64,
}

impl Proxies {
    /// Notes a frame from a station. With a full table the station has no entry, and its frames pass nevertheless.
    pub(super) fn heard(&mut self, mac: MacAddress, now_ns: u64, capacity: usize) {
        let has_room = self.by_mac.len() < capacity;
        match self.by_mac.entry(mac) {
            Entry::Occupied(mut entry) => *entry.get_mut() = now_ns,
            Entry::Vacant(entry) if has_room => _ = entry.insert(now_ns),
            Entry::Vacant(_) => self.unknown += 1,
        }
    }

    /// Returns whether a station sent a frame within the last `within_ns`.
    pub(super) fn sent_within(&self, mac: MacAddress, now_ns: u64, within_ns: u64) -> bool {
        self.by_mac.get(&mac).is_some_and(|last_ns| now_ns.saturating_sub(*last_ns) < within_ns)
    }

    pub(super) fn contains(&self, mac: MacAddress) -> bool {
        self.by_mac.contains_key(&mac)
    }

    /// Removes a station that is heard elsewhere.
    pub(super) fn remove(&mut self, mac: MacAddress) {
        self.by_mac.remove(&mac);
    }

    pub(super) fn expire(&mut self, now_ns: u64, forget_ns: u64) {
        self.by_mac.retain(|_, last_ns| now_ns.saturating_sub(*last_ns) < forget_ns);
    }

    /// Returns all stations in the order of their addresses.
    pub(super) fn read(&self) -> Vec<ProxyReading> {
        let entry =
            |(mac, last_ns): (&MacAddress, &u64)| ProxyReading { mac: *mac, last_ns: *last_ns };
        let mut proxies: Vec<_> = self.by_mac.iter().map(entry).collect();
        proxies.sort_unstable_by_key(|proxy| proxy.mac);
        proxies
    }
}
