//! Nodes with another source address on one LAN.

use onbeat_wire::MacAddress;

use super::super::{LIFE_CHECK_MS, NS_PER_MS};
use super::{Node, Nodes};

/// Time of claims after which a source without supervision frames of its own is an alias: two LifeCheckIntervals.
const ALIAS_AFTER_NS: u64 = 2 * LIFE_CHECK_MS as u64 * NS_PER_MS;

impl<N> Nodes<N> {
    /// Returns the node of a frame with this source, heard on a LAN, and ends an alias that the frame contradicts.
    ///
    /// The two sources of a node with an alias are never heard on the same LAN.
    pub(in crate::prp) fn of_source(&mut self, source: MacAddress, lan: usize) -> MacAddress {
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
    pub(super) fn end_alias_of(&mut self, source: MacAddress) {
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
    pub(super) fn note_alias(
        &mut self,
        source: MacAddress,
        mac: MacAddress,
        lan: usize,
        now_ns: u64,
    ) {
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
}

/// For a data plane that notes frames elsewhere.
impl<N> Nodes<N> {
    /// Adds an alias that was found before: the source, the LAN on which it is one, and the node.
    pub fn adopt_alias(&mut self, alias: MacAddress, lan: usize, mac: MacAddress) {
        if let Some(node) = self.by_mac.get_mut(&mac) {
            node.alias = Some((alias, lan));
            self.aliases.insert(alias, mac);
        }
    }

    /// Forgets which sources claim to be of another node.
    pub fn forget_claims(&mut self) {
        self.by_mac.values_mut().for_each(|node| node.claim = None);
    }

    /// Returns the aliases: the source, the LAN on which it is one, and the node.
    pub fn aliases(&self) -> impl Iterator<Item = (MacAddress, usize, MacAddress)> {
        self.by_mac.iter().filter_map(|(mac, node)| node.alias.map(|(of, lan)| (of, lan, *mac)))
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
        let frames = lre(NODE).supervise(1_000_000_000).frames;
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
        let of_node = lre(NODE).supervise(1_000_000_000).frames;
        let of_other = lre(OTHER).supervise(1_000_000_000).frames;
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
