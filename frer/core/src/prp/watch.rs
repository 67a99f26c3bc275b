//! Events of a PRP node, from successive readings.

use alloc::vec::Vec;

use hashbrown::HashMap;
use onbeat_wire::MacAddress;
use onbeat_wire::prp::Lan;

use super::{ABSENCE_NS, BlockCause, NS_PER_MS, NodeKind, NodeReading, Reading};

/// An event of a PRP node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrpEvent {
    /// A doubly attached node, a RedBox or a station behind one is heard for the first time.
    NodeAppeared(MacAddress, NodeKind),
    /// A node was not heard for NodeForgetTime.
    NodeGone(MacAddress),
    /// A node is heard on the other LAN only.
    LanLost(MacAddress, Lan),
    /// A node is heard on this LAN again.
    LanRestored(MacAddress, Lan),
    /// A node sends frames of the other LAN on this one: its cables are crossed, or the LANs are connected.
    WrongLan(MacAddress, Lan),
    /// Frames that this node sent return on this LAN. `true`: those of the other LAN, so that the LANs are connected.
    OwnFramesReturn(Lan, bool),
    /// Further nodes appeared or were gone, which are not reported one by one.
    FurtherNodes(u64),
    /// A LAN brought fewer frames of a node than the other one: this number less, of this number.
    LanLoses(MacAddress, Lan, u64, u64),
    /// A LAN brings frames of a node with redundancy without their trailers.
    TrailersRemoved(MacAddress, Lan),
    /// A LAN brings frames of another protocol of redundancy.
    OtherProtocol(Lan),
    /// The host port of a RedBox is blocked.
    HostPortBlocked(BlockCause),
    /// The host port of a RedBox forwards again.
    HostPortForwards,
    /// The NodesTable is full of nodes in use: frames of further nodes may be delivered twice.
    TableFull,
}

#[derive(Debug, Clone, Copy, Default)]
struct ObservedNode {
    /// Time of the first reading with the node.
    since_ns: u64,
    lost: [bool; 2],
    crossed: [Condition; 2],
    untagged: [Condition; 2],
    comparison: Comparison,
}

/// A comparison of what both LANs bring.
#[derive(Debug, Clone, Copy, Default)]
struct Comparison {
    /// Its start.
    since_ns: u64,
    /// Frames of each LAN at its start.
    before: [u64; 2],
    /// Whether each LAN lost frames in the former one.
    loses: [bool; 2],
}

impl Comparison {
    /// Its length: some copies are under way at its ends.
    const LENGTH_NS: u64 = 10_000 * NS_PER_MS;
    /// Frames that it requires.
    const FEWEST: u64 = 16;

    fn restart(&mut self, now_ns: u64, frames: [u64; 2]) {
        (self.since_ns, self.before) = (now_ns, frames);
    }

    /// Returns the LAN that starts to lose frames, with those lost and all of them.
    fn observe(&mut self, now_ns: u64, frames: [u64; 2]) -> Option<(usize, u64, u64)> {
        if now_ns.saturating_sub(self.since_ns) < Self::LENGTH_NS {
            return None;
        }
        let of: [u64; 2] = core::array::from_fn(|lan| frames[lan].saturating_sub(self.before[lan]));
        let (fewer, all) = (of[0].min(of[1]), of[0].max(of[1]));
        if all < Self::FEWEST {
            return None;
        }
        self.restart(now_ns, frames);
        let loses = (all - fewer) * 8 > all;
        let lan = usize::from(of[1] == fewer);
        let former = core::mem::take(&mut self.loses);
        self.loses[lan] = loses;
        (loses && !former[lan]).then_some((lan, all - fewer, all))
    }
}

/// A condition that lasts while frames are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Condition {
    count: u64,
    /// Time of the last reading with another frame.
    last_ns: Option<u64>,
}

impl Condition {
    /// Returns whether the condition starts.
    fn starts(&mut self, now_ns: u64, count: u64) -> bool {
        let is_present = count > self.count;
        self.count = count;
        let lasts = self.last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) < ABSENCE_NS);
        if is_present {
            self.last_ns = Some(now_ns);
        }
        is_present && !lasts
    }
}

/// Derives events from successive readings.
#[derive(Debug, Default)]
pub struct Observer {
    nodes: HashMap<MacAddress, ObservedNode>,
    returns: [Condition; 2],
    own_of_other_lan: [u64; 2],
    other_protocol: [Condition; 2],
    blocked: Option<BlockCause>,
    full: Condition,
    limit: NodeEventLimit,
}

/// Limits events of single nodes: a flood of forged sources must not fill the log.
#[derive(Debug, Default)]
struct NodeEventLimit {
    /// Events of the present interval.
    reported: u64,
    since_ns: u64,
    /// Events that were left out in it.
    left_out: u64,
}

impl NodeEventLimit {
    /// Interval of the limit.
    const INTERVAL_NS: u64 = 600_000 * NS_PER_MS;
    /// Events in an interval.
    const MOST: u64 = 256;

    /// Returns whether an event is reported.
    fn passes(&mut self) -> bool {
        let passes = self.reported < Self::MOST;
        let count = if passes { &mut self.reported } else { &mut self.left_out };
        *count += 1;
        passes
    }

    /// Starts an interval if one has ended; returns the events that were left out in it.
    fn end_interval(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns.saturating_sub(self.since_ns) < Self::INTERVAL_NS {
            return None;
        }
        let left_out = self.left_out;
        *self = Self { since_ns: now_ns, ..Self::default() };
        (left_out > 0).then_some(left_out)
    }
}

const LANS: [Lan; 2] = [Lan::A, Lan::B];

impl Observer {
    /// Returns the events since the former reading. A condition is reported when it starts.
    pub fn observe(&mut self, now_ns: u64, reading: &Reading) -> Vec<PrpEvent> {
        let mut events: Vec<_> =
            self.limit.end_interval(now_ns).map(PrpEvent::FurtherNodes).into_iter().collect();
        let redundant = |node: &&NodeReading| node.kind != NodeKind::San;
        for node in reading.nodes.iter().filter(redundant) {
            self.observe_node(now_ns, node, &mut events);
        }
        let present = |mac: &MacAddress| {
            let at = reading.nodes.binary_search_by_key(mac, |node| node.mac);
            at.is_ok_and(|at| reading.nodes[at].kind != NodeKind::San)
        };
        let mut gone: Vec<_> =
            self.nodes.extract_if(|mac, _| !present(mac)).map(|(mac, _)| mac).collect();
        gone.sort_unstable();
        let limit = &mut self.limit;
        let gone = gone.into_iter().filter(|_| limit.passes());
        events.extend(gone.map(PrpEvent::NodeGone));
        for (index, lan) in LANS.into_iter().enumerate() {
            let counters = &reading.lans[index];
            let of_other = counters.own_of_other_lan > self.own_of_other_lan[index];
            self.own_of_other_lan[index] = counters.own_of_other_lan;
            if self.returns[index].starts(now_ns, counters.own) {
                events.push(PrpEvent::OwnFramesReturn(lan, of_other));
            }
            if self.other_protocol[index].starts(now_ns, counters.other_protocol) {
                events.push(PrpEvent::OtherProtocol(lan));
            }
        }
        let blocked = reading.host_port.blocked(reading.mac, now_ns);
        if blocked != core::mem::replace(&mut self.blocked, blocked) {
            events.push(blocked.map_or(PrpEvent::HostPortForwards, PrpEvent::HostPortBlocked));
        }
        let without_entry = reading.lans.iter().map(|lan| lan.without_entry).sum();
        if self.full.starts(now_ns, without_entry) {
            events.push(PrpEvent::TableFull);
        }
        events
    }

    fn observe_node(&mut self, now_ns: u64, node: &NodeReading, events: &mut Vec<PrpEvent>) {
        let limit = &mut self.limit;
        let known = self.nodes.entry(node.mac).or_insert_with(|| {
            if limit.passes() {
                events.push(PrpEvent::NodeAppeared(node.mac, node.kind));
            }
            let before = node.lans.map(|lan| lan.tagged);
            let mut known = ObservedNode { since_ns: now_ns, ..ObservedNode::default() };
            known.comparison.restart(now_ns, before);
            known
        });
        let last: [u64; 2] =
            core::array::from_fn(|lan| node.lans[lan].last_ns.unwrap_or(known.since_ns));
        for (index, lan) in LANS.into_iter().enumerate() {
            let (here, there) = (last[index], last[1 - index]);
            let is_alive = now_ns.saturating_sub(here.max(there)) < ABSENCE_NS;
            let is_lost = there.saturating_sub(here) > ABSENCE_NS;
            if is_alive && is_lost && !known.lost[index] {
                known.lost[index] = true;
                if limit.passes() {
                    events.push(PrpEvent::LanLost(node.mac, lan));
                }
            } else if !is_lost && known.lost[index] {
                known.lost[index] = false;
                if limit.passes() {
                    events.push(PrpEvent::LanRestored(node.mac, lan));
                }
            }
            let untagged = node.lans[index].untagged;
            if known.untagged[index].starts(now_ns, untagged) && limit.passes() {
                events.push(PrpEvent::TrailersRemoved(node.mac, lan));
            }
            if known.crossed[index].starts(now_ns, node.lans[index].wrong_lan) && limit.passes() {
                events.push(PrpEvent::WrongLan(node.mac, lan));
            }
        }
        let frames = node.lans.map(|lan| lan.tagged);
        // Of a broken path there is another event.
        if last[0].abs_diff(last[1]) > ABSENCE_NS / 2 || known.lost != [false; 2] {
            known.comparison.restart(now_ns, frames);
        } else if let Some((index, lost, of)) = known.comparison.observe(now_ns, frames)
            && limit.passes()
        {
            events.push(PrpEvent::LanLoses(node.mac, LANS[index], lost, of));
        }
    }
}
