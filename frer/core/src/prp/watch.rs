//! Events of a PRP node, from successive readings.

use alloc::vec::Vec;

use hashbrown::HashMap;
use onbeat_wire::MacAddress;
use onbeat_wire::prp::Lan;

use super::{ABSENCE_NS, BlockCause, LanCounters, NS_PER_MS, NodeKind, NodeReading, Reading};

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
    /// A node that sent frames of the other LAN on this one sends those of this LAN.
    WrongLanEnded(MacAddress, Lan),
    /// Frames that this node sent return on this LAN. `true`: those of the other LAN, so that the LANs are connected.
    OwnFramesReturn(Lan, bool),
    /// Further nodes appeared or were gone, which are not reported one by one.
    FurtherNodes(u64),
    /// A LAN brought fewer frames of a node than the other one: this number less, of this number.
    LanLoses(MacAddress, Lan, u64, u64),
    /// A LAN brings frames of a node with redundancy without their trailers.
    TrailersRemoved(MacAddress, Lan),
    /// A LAN brings frames of another protocol of redundancy, the last one from this source. `None`: not
    /// noted.
    OtherProtocol(Lan, Option<MacAddress>),
    /// A LAN brings supervision frames of another version, or incomplete frames.
    InvalidFrames(Lan),
    /// A LAN brings more supervision frames than are read.
    SupervisionFlood(Lan),
    /// The host port of a RedBox is blocked.
    HostPortBlocked(BlockCause),
    /// The host port of a RedBox forwards again.
    HostPortForwards,
    /// The NodesTable is full of nodes in use: frames of further nodes may be delivered twice.
    TableFull,
    /// The ProxyNodeTable is full: further stations are not supervised.
    ProxiesFull,
}

#[derive(Debug, Clone, Copy, Default)]
struct ObservedNode {
    /// Time of the first reading with the node.
    since_ns: u64,
    lost: [bool; 2],
    crossed: [LastingCondition; 2],
    untagged: [Condition; 2],
    comparison: Comparison,
    budget: NodeBudget,
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
    /// Counts from `count` on.
    fn after(count: u64) -> Self {
        Self { count, last_ns: None }
    }

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

/// Conditions of a LAN.
#[derive(Debug)]
struct LanConditions {
    own: u64,
    own_of_other_lan: u64,
    /// Those of them that show a fault.
    returned: u64,
    returns: Condition,
    other_protocol: Condition,
    invalid: Condition,
    flood: Condition,
}

impl LanConditions {
    fn after(counters: &LanCounters) -> Self {
        Self {
            own: counters.own,
            own_of_other_lan: counters.own_of_other_lan,
            returned: 0,
            returns: Condition::default(),
            other_protocol: Condition::after(counters.other_protocol),
            invalid: Condition::after(invalid_frames(counters)),
            flood: Condition::after(counters.unread_supervision),
        }
    }

    /// Returns whether frames that this node sent start to return; `true`: on the other LAN.
    fn own_frames_return(
        &mut self,
        now_ns: u64,
        counters: &LanCounters,
        is_standby: bool,
    ) -> Option<bool> {
        let of_other = counters.own_of_other_lan.saturating_sub(self.own_of_other_lan);
        let own = counters.own.saturating_sub(self.own);
        (self.own, self.own_of_other_lan) = (counters.own, counters.own_of_other_lan);
        // The RedBox that serves forwards what the host of its standby sends to the stations, with its address.
        self.returned += if is_standby { of_other } else { own };
        self.returns.starts(now_ns, self.returned).then_some(of_other > 0)
    }
}

/// Conditions of the entity, since the first reading: kernel programs count on while their process restarts.
#[derive(Debug)]
struct EntityConditions {
    lans: [LanConditions; 2],
    full: Condition,
    proxies_full: Condition,
}

impl EntityConditions {
    fn after(reading: &Reading) -> Self {
        let [a, b] = &reading.lans;
        Self {
            lans: [a, b].map(LanConditions::after),
            full: Condition::after(frames_without_entry(reading)),
            proxies_full: Condition::after(reading.unknown_proxies),
        }
    }
}

fn invalid_frames(counters: &LanCounters) -> u64 {
    counters.invalid_supervision + counters.malformed
}

fn frames_without_entry(reading: &Reading) -> u64 {
    reading.lans.iter().map(|lan| lan.without_entry).sum()
}

/// Derives events from successive readings.
#[derive(Debug, Default)]
pub struct Observer {
    nodes: HashMap<MacAddress, ObservedNode>,
    entity: Option<EntityConditions>,
    blocked: Option<BlockCause>,
    limit: NodeEventLimit,
}

/// A condition that ends with a frame without it.
#[derive(Debug, Clone, Copy, Default)]
struct LastingCondition {
    condition: Condition,
    is_present: bool,
}

impl LastingCondition {
    /// Returns `Some(true)` if the condition starts, `Some(false)` if it ends. `heard_ns`: time of the last frame.
    fn change(&mut self, now_ns: u64, count: u64, heard_ns: u64) -> Option<bool> {
        if self.condition.starts(now_ns, count) && !self.is_present {
            self.is_present = true;
            return Some(true);
        }
        let last_ns = self.condition.last_ns.filter(|_| self.is_present)?;
        let ends = now_ns.saturating_sub(last_ns) >= ABSENCE_NS && heard_ns > last_ns;
        self.is_present = !ends;
        ends.then_some(false)
    }
}

/// Limits events of single nodes: a flood of forged sources must not fill the log.
#[derive(Debug, Default)]
struct NodeEventLimit {
    /// Events of the present interval.
    reported: u64,
    since_ns: u64,
    /// Events that were left out in it and are not reported yet.
    left_out: u64,
    /// Whether it was reported that events were left out.
    is_reported: bool,
}

/// Events of a node beside the limit: a flood must not hide a lost path.
#[derive(Debug, Clone, Copy, Default)]
struct NodeBudget {
    /// It was heard on both LANs for [`NodeBudget::AFTER_NS`].
    is_established: bool,
    /// Events in the interval that started then.
    reported: u64,
    since_ns: u64,
}

impl NodeBudget {
    /// Longer than the sources of a flood stay.
    const AFTER_NS: u64 = 10_000 * NS_PER_MS;
    /// Events in an interval: two lost paths that return.
    const MOST: u64 = 4;

    /// Returns whether the budget of this interval has room for an event.
    fn passes(&mut self, since_ns: u64) -> bool {
        if self.since_ns != since_ns {
            (self.since_ns, self.reported) = (since_ns, 0);
        }
        let passes = self.is_established && self.reported < Self::MOST;
        self.reported += u64::from(passes);
        passes
    }
}

impl NodeEventLimit {
    /// Interval of the limit.
    const INTERVAL_NS: u64 = 600_000 * NS_PER_MS;
    /// Events in an interval.
    const MOST: u64 = 256;

    /// Returns whether an event of a known node is reported.
    fn passes_of(&mut self, budget: &mut NodeBudget) -> bool {
        budget.passes(self.since_ns) || self.passes()
    }

    /// Returns the events that were left out, if that is to be reported before the interval ends.
    fn exceeded(&mut self) -> Option<u64> {
        let is_first = self.left_out > 0 && !self.is_reported;
        is_first.then(|| {
            self.is_reported = true;
            core::mem::take(&mut self.left_out)
        })
    }

    /// Returns whether an event is reported.
    fn passes(&mut self) -> bool {
        let passes = self.reported < Self::MOST;
        let count = if passes { &mut self.reported } else { &mut self.left_out };
        *count += 1;
        passes
    }

    /// Starts an interval if one has ended; returns the events that were left out in it and not reported.
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
        let mut gone: Vec<_> = self
            .nodes
            .extract_if(|mac, _| !present(mac))
            .map(|(mac, of)| (mac, of.budget))
            .collect();
        gone.sort_unstable_by_key(|(mac, _)| *mac);
        for (mac, mut budget) in gone {
            if self.limit.passes_of(&mut budget) {
                events.push(PrpEvent::NodeGone(mac));
            }
        }
        events.extend(self.limit.exceeded().map(PrpEvent::FurtherNodes));
        let blocked = reading.host_port.blocked(reading.mac, now_ns);
        let before = core::mem::replace(&mut self.blocked, blocked);
        let is_standby =
            [before, blocked].iter().any(|cause| matches!(cause, Some(BlockCause::ByRedBox(_))));
        let entity = self.entity.get_or_insert_with(|| EntityConditions::after(reading));
        for (index, lan) in LANS.into_iter().enumerate() {
            let (counters, known) = (&reading.lans[index], &mut entity.lans[index]);
            if let Some(of_other) = known.own_frames_return(now_ns, counters, is_standby) {
                events.push(PrpEvent::OwnFramesReturn(lan, of_other));
            }
            if known.other_protocol.starts(now_ns, counters.other_protocol) {
                events.push(PrpEvent::OtherProtocol(lan, reading.other_protocol[index]));
            }
            if known.invalid.starts(now_ns, invalid_frames(counters)) {
                events.push(PrpEvent::InvalidFrames(lan));
            }
            if known.flood.starts(now_ns, counters.unread_supervision) {
                events.push(PrpEvent::SupervisionFlood(lan));
            }
        }
        if entity.full.starts(now_ns, frames_without_entry(reading)) {
            events.push(PrpEvent::TableFull);
        }
        if entity.proxies_full.starts(now_ns, reading.unknown_proxies) {
            events.push(PrpEvent::ProxiesFull);
        }
        if blocked != before {
            events.push(blocked.map_or(PrpEvent::HostPortForwards, PrpEvent::HostPortBlocked));
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
        known.budget.is_established |=
            last.iter().all(|last| last.saturating_sub(known.since_ns) >= NodeBudget::AFTER_NS);
        for (index, lan) in LANS.into_iter().enumerate() {
            let (here, there) = (last[index], last[1 - index]);
            let is_alive = now_ns.saturating_sub(here.max(there)) < ABSENCE_NS;
            let is_lost = there.saturating_sub(here) > ABSENCE_NS;
            if is_alive && is_lost && !known.lost[index] {
                known.lost[index] = true;
                if limit.passes_of(&mut known.budget) {
                    events.push(PrpEvent::LanLost(node.mac, lan));
                }
            } else if !is_lost && known.lost[index] {
                known.lost[index] = false;
                if limit.passes_of(&mut known.budget) {
                    events.push(PrpEvent::LanRestored(node.mac, lan));
                }
            }
            let untagged = node.lans[index].untagged;
            if known.untagged[index].starts(now_ns, untagged) && limit.passes_of(&mut known.budget)
            {
                events.push(PrpEvent::TrailersRemoved(node.mac, lan));
            }
            let wrong_lan = node.lans[index].wrong_lan;
            if let Some(starts) = known.crossed[index].change(now_ns, wrong_lan, here)
                && limit.passes_of(&mut known.budget)
            {
                let event = if starts { PrpEvent::WrongLan } else { PrpEvent::WrongLanEnded };
                events.push(event(node.mac, lan));
            }
        }
        let frames = node.lans.map(|lan| lan.tagged);
        // Of a broken path there is another event.
        if last[0].abs_diff(last[1]) > ABSENCE_NS / 2 || known.lost != [false; 2] {
            known.comparison.restart(now_ns, frames);
        } else if let Some((index, lost, of)) = known.comparison.observe(now_ns, frames)
            && limit.passes_of(&mut known.budget)
        {
            events.push(PrpEvent::LanLoses(node.mac, LANS[index], lost, of));
        }
    }
}
