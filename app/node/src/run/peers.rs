//! The other ends of ports' veth pairs, with few searches: a search reads the network namespace of
//! every process on the machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_netdev::{Handle, Link, VethPeer};

/// Delay before a second search for a peer that was not found; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(2);

/// Longest delay, and the interval at which peers that were found are read.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Reads the other ends of veth pairs.
pub(super) trait PeerReader {
    /// Finds the other ends of these veths with one search.
    fn search(&mut self, links: &[&Link]) -> Vec<Option<VethPeer>>;

    /// Reads a peer that a search found, without another one; `None` where that is not possible.
    fn reread(&mut self, link: &Link, peer: &VethPeer) -> Option<VethPeer>;
}

impl PeerReader for &Handle {
    fn search(&mut self, links: &[&Link]) -> Vec<Option<VethPeer>> {
        VethPeer::search(self, links)
    }

    fn reread(&mut self, link: &Link, peer: &VethPeer) -> Option<VethPeer> {
        peer.reread(self, link)
    }
}

/// The peers last read, by port.
#[derive(Debug, Default)]
pub(super) struct PeerCache {
    peers: BTreeMap<String, CachedPeer>,
}

#[derive(Debug)]
struct CachedPeer {
    peer: VethPeer,
    /// Index of the link, and number of the namespace of its peer.
    link: (u32, Option<i32>),
    due_at: Instant,
    /// Delay of the previous search.
    delay: Duration,
}

impl CachedPeer {
    fn is_of(&self, link: &Link) -> bool {
        self.link == (link.index, link.peer_namespace) && link.peer == Some(self.peer.index)
    }
}

impl PeerCache {
    /// Reads the peers of these ports' interfaces, by port. A peer that was not found is searched
    /// only once its delay is over.
    pub(super) fn read(
        &mut self,
        mut reader: impl PeerReader,
        now: Instant,
        ports: &[(&str, Link)],
    ) {
        self.peers.retain(|name, cached| {
            ports.iter().any(|(port, link)| port == name && cached.is_of(link))
        });
        let mut wanted = Vec::new();
        for (port, link) in ports {
            let cached = self.peers.get_mut(*port);
            let is_due = match cached {
                // Found before.
                Some(cached) if cached.peer.name.is_some() => {
                    let read = reader.reread(link, &cached.peer);
                    if let Some(peer) = &read {
                        (cached.peer, cached.due_at) = (peer.clone(), now + LONGEST_DELAY);
                    }
                    read.is_none()
                }
                Some(cached) => cached.due_at <= now,
                None => link.kind.as_deref() == Some("veth"),
            };
            if is_due {
                wanted.push((*port, link));
            }
        }
        if !wanted.is_empty() {
            let links: Vec<&Link> = wanted.iter().map(|(_, link)| *link).collect();
            for ((port, link), peer) in wanted.into_iter().zip(reader.search(&links)) {
                self.note(now, port, link, peer);
            }
        }
    }

    /// Stores the result of a search.
    fn note(&mut self, now: Instant, port: &str, link: &Link, peer: Option<VethPeer>) {
        let before = self.peers.remove(port).map(|cached| cached.delay).unwrap_or_default();
        let Some(peer) = peer else { return };
        let (delay, due_at) = if peer.name.is_some() {
            (Duration::ZERO, now + LONGEST_DELAY)
        } else {
            let delay = (2 * before).clamp(FIRST_DELAY, LONGEST_DELAY);
            (delay, now + delay)
        };
        let link = (link.index, link.peer_namespace);
        self.peers.insert(port.to_owned(), CachedPeer { peer, link, due_at, delay });
    }

    /// The peer of a port by the last reading.
    pub(super) fn peer(&self, port: &str) -> Option<&VethPeer> {
        self.peers.get(port).map(|cached| &cached.peer)
    }

    /// Makes the peer of a port due: its interface changed.
    pub(super) fn reset(&mut self, now: Instant, port: &str) {
        if let Some(cached) = self.peers.get_mut(port) {
            (cached.due_at, cached.delay) = (now, Duration::ZERO);
        }
    }

    /// When a peer is due to be searched or read.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.peers.values().map(|cached| cached.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts searches, and the links of all of them.
    #[derive(Default)]
    struct CountingReader {
        searches: usize,
        searched_links: usize,
        rereads: usize,
        /// Names of peers that can be read, by index of the link.
        there: BTreeMap<u32, String>,
    }

    impl PeerReader for &mut CountingReader {
        fn search(&mut self, links: &[&Link]) -> Vec<Option<VethPeer>> {
            self.searches += 1;
            self.searched_links += links.len();
            links.iter().map(|link| Some(peer(link, self.there.get(&link.index)))).collect()
        }

        fn reread(&mut self, link: &Link, _: &VethPeer) -> Option<VethPeer> {
            self.rereads += 1;
            self.there.get(&link.index).map(|name| peer(link, Some(name)))
        }
    }

    fn peer(link: &Link, name: Option<&String>) -> VethPeer {
        VethPeer {
            index: link.peer.unwrap(),
            name: name.cloned(),
            namespace: name.map(|_| "/proc/1/ns/net".into()),
            offloads: name.map(|_| vec![]),
        }
    }

    fn veth(index: u32) -> Link {
        let mut link = Link::default();
        (link.index, link.peer, link.peer_namespace) = (index, Some(index), Some(0));
        link.kind = Some("veth".into());
        link
    }

    #[test]
    fn the_search_interval_of_a_missing_peer_doubles() {
        let start = Instant::now();
        let (mut cache, mut reader) = (PeerCache::default(), CountingReader::default());
        let mut bridge = veth(3);
        bridge.kind = Some("bridge".into());
        let ports = [("a", veth(1)), ("b", veth(2)), ("c", bridge)];
        // Polled every second for ten minutes.
        let mut searched_at = Vec::new();
        for second in 0..600 {
            let before = reader.searches;
            cache.read(&mut reader, start + Duration::from_secs(second), &ports);
            assert!(["a", "b"].iter().all(|port| cache.peer(port).unwrap().name.is_none()));
            assert_eq!(cache.peer("c"), None);
            searched_at.extend((reader.searches > before).then_some(second));
        }
        assert_eq!(searched_at[..7], [0, 2, 6, 14, 30, 62, 122]);
        assert_eq!(searched_at.len(), 14);
        assert_eq!(reader.searched_links, 2 * reader.searches, "one search for all ports");
    }

    #[test]
    fn a_link_event_makes_the_peer_of_its_port_due() {
        let now = Instant::now();
        let (mut cache, mut reader) = (PeerCache::default(), CountingReader::default());
        let ports = [("a", veth(1)), ("b", veth(2))];
        cache.read(&mut reader, now, &ports);
        cache.read(&mut reader, now, &ports);
        assert_eq!((reader.searches, reader.searched_links), (1, 2));
        cache.reset(now, "b");
        assert_eq!(cache.next_due(), Some(now));
        cache.read(&mut reader, now, &ports);
        assert_eq!((reader.searches, reader.searched_links), (2, 3));
        assert_eq!(cache.next_due(), Some(now + FIRST_DELAY), "the delay is reset");
        // Another interface of the same name.
        cache.read(&mut reader, now, &[("a", veth(7)), ("b", veth(2))]);
        assert_eq!((reader.searches, reader.searched_links), (3, 4));
    }

    #[test]
    fn a_peer_that_was_found_is_read_without_a_search() {
        let now = Instant::now();
        let (mut cache, mut reader) = (PeerCache::default(), CountingReader::default());
        reader.there.insert(1, "eth0".into());
        let ports = [("a", veth(1))];
        for _ in 0..5 {
            cache.read(&mut reader, now, &ports);
            assert_eq!(cache.peer("a").unwrap().name.as_deref(), Some("eth0"));
        }
        assert_eq!((reader.searches, reader.rereads), (1, 4));
        // Its process exits.
        reader.there.clear();
        for _ in 0..5 {
            cache.read(&mut reader, now, &ports);
            assert_eq!(cache.peer("a").unwrap().name, None);
        }
        assert_eq!(reader.searches, 2);
        cache.read(&mut reader, now, &[]);
        assert_eq!(cache.peer("a"), None);
        assert_eq!(cache.next_due(), None);
    }
}
