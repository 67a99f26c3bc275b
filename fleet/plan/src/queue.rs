//! Longest waits in first-in-first-out queues: the least fixed point of total-flow analysis with shaping by lines.
//!
//! The arrivals of an arc are grouped by the arc before it. The frames of a group come over one line. In a time t it
//! carries at most t, one frame more, and the frames that the node delayed. The work that arrives in t is the sum over
//! the groups of the smaller of two bounds: that of the line and that of the streams (Mifdaoui and Leydier 2017; for
//! cycles Thomas, Le Boudec and Mifdaoui 2019). Its largest excess over t is the longest wait.
//!
//! The values of the arcs depend on each other by jitter. An arc is computed again while a value that it depends on
//! grows. The order does not change the result: all values grow from 0 to the least fixed point.
//!
//! The search of the largest excess sorts few frames. The sum of their line time in short spans bounds the excess in
//! each span. Frames are sorted in the spans whose bound exceeds the largest excess found.

use crate::delay::OTHER;
use crate::network::{Arc, GAP, Network};

/// Above it, a delay counts as unbounded: 100 ms.
pub(crate) const UNBOUNDED_NS: u64 = 100_000_000;

/// Longest busy period for which a bound is searched: 1 s.
const BUSY_NS: u64 = 1_000_000_000;

/// Computations of all arcs after which the values count as unbounded.
const SWEEPS: usize = 1000;

const NONE: u32 = u32::MAX;

/// Work is counted in 2^-16 ns, so that slopes of lines of different speed are exact enough.
pub(crate) const FRACTION: u32 = 16;

/// Number of spans of time of a search: one for this number of arrivals, within limits.
const SPAN_ARRIVALS: u64 = 4;
const SPANS: std::ops::RangeInclusive<u64> = 8..=64;

/// The frames of a stream at an arc.
#[derive(Debug, Clone, Copy, Default)]
struct Arrival {
    /// The arrival of the stream at the previous arc, if jitter depends on it.
    previous: u32,
    line_ns: u32,
    /// At most 4.3 s: a shorter interval than the real one is safe.
    interval_ns: u32,
    /// Frames that can arrive at once: 1 more than the intervals in the jitter.
    burst: u32,
    /// Time from then to the next frame, from 1 to the interval.
    further_ns: u32,
}

impl Arrival {
    fn jitter_ns(&self) -> u64 {
        u64::from(self.burst) * u64::from(self.interval_ns) - u64::from(self.further_ns)
    }

    /// Returns whether the value differs.
    fn set_jitter(&mut self, jitter_ns: u64) -> bool {
        let interval = u64::from(self.interval_ns);
        let before = u64::from(self.burst.max(1) - 1) * interval;
        let rest = match jitter_ns.checked_sub(before) {
            Some(rest) if rest < interval => rest,
            _ => {
                self.burst = (jitter_ns / interval + 1) as u32;
                jitter_ns % interval
            }
        };
        let further_ns = (interval - rest) as u32;
        let differs =
            further_ns != self.further_ns || before != u64::from(self.burst - 1) * interval;
        self.further_ns = further_ns;
        differs
    }

    /// Line time of the burst.
    fn burst_ns(&self) -> u64 {
        u64::from(self.burst) * u64::from(self.line_ns)
    }

    /// Calls a function with the times of the frames behind the burst, up to an end.
    fn later(&self, end: u64, mut frame: impl FnMut(u64)) {
        let mut time = u64::from(self.further_ns);
        while time < end {
            frame(time);
            time += u64::from(self.interval_ns);
        }
    }
}

/// The arrivals of an arc that come over one line.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The arc before; none: talkers, and streams whose copies change paths.
    from: u32,
    first: u32,
    last: u32,
    /// Work that the line brings at once, and in each nanosecond, in 2^-16 ns.
    at_once: u64,
    slope: u64,
    /// Line time of the bursts.
    burst_ns: u64,
}

impl Group {
    /// The most work that the line brings up to the end of this nanosecond.
    fn line(&self, time_ns: u64) -> u64 {
        self.at_once + self.slope * (time_ns + 1)
    }
}

/// The work of a line of one speed for one of another speed, in 2^-16 ns a nanosecond, with frames of at least `shortest`
/// nanoseconds.
pub(crate) fn slope(before_mbps: u64, own_mbps: u64, shortest_ns: u64) -> u64 {
    let slope = (before_mbps << FRACTION).div_ceil(own_mbps);
    // Line times are rounded up, each by less than 1 ns.
    match (8000 % own_mbps, shortest_ns) {
        (0, _) => slope,
        (_, ..2) => 1 << (2 * FRACTION),
        _ => (slope * shortest_ns).div_ceil(shortest_ns - 1),
    }
}

/// A stream as the queues see it.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub interval_ns: u64,
    pub octets: u64,
    /// Copies may pass its arcs in any order: its jitter is the same at all arcs.
    pub is_cyclic: bool,
    /// Its steps; those that others depend on come first, unless it is cyclic.
    pub arcs: std::ops::Range<u32>,
    /// Its joins.
    pub joins: std::ops::Range<u32>,
}

/// An arc of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub arc: u32,
    /// Index of the previous step; `u32::MAX` at the talker, and if several are joined.
    pub previous: u32,
}

/// One of several steps before a step; those of a step follow one another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join {
    pub step: u32,
    pub before: u32,
}

/// An arrival whose jitter depends on several arrivals.
#[derive(Debug)]
struct JoinedArrival {
    arc: u32,
    place: u32,
    /// Each with its arc, and the time by which the delay from then on exceeds jitter and wait.
    before: Vec<(u32, u32, i64)>,
}

/// A change of the frames at an arc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// Of frames behind the busy period: the longest wait stays, jitter grows.
    Later,
    /// Of frames in the busy period.
    Busy,
}

/// Queues of all arcs.
pub(crate) struct Queues<'a> {
    network: &'a Network,
    list: Vec<Arrival>,
    groups: Vec<Group>,
    /// First group of each arc.
    starts: Vec<u32>,
    /// Arcs and arrivals of each cyclic flow.
    cyclic: Vec<Vec<(u32, u32)>>,
    joined: Vec<JoinedArrival>,
    /// Longest wait of each arc, its own transmission included.
    pub queue_ns: Vec<u64>,
    /// Length of the last busy period of each arc.
    busy_ns: Vec<u64>,
    is_due: Vec<bool>,
    /// Groups whose arc before them has other values than at their last computation.
    is_group_due: Vec<bool>,
    /// Whether the jitter of a joined arrival or a cyclic flow differs since the last computation.
    is_mixed: Vec<bool>,
    search: Search,
}

/// A frame behind a burst.
#[derive(Debug, Clone, Copy)]
struct Frame {
    time: u64,
    group: u32,
    line_ns: u32,
    /// The next frame of the span.
    next: u32,
}

/// Arrays of a search that the next one uses again.
#[derive(Debug, Default)]
struct Search {
    /// Work before each span, by group.
    work: Vec<u64>,
    width: usize,
    /// Bounds of the excess in each span.
    bounds: Vec<u64>,
    /// Arrivals with frames behind their burst.
    chosen: Vec<u32>,
    frames: Vec<Frame>,
    /// The first frame of each span.
    heads: Vec<u32>,
    /// The frames of one span.
    sorted: Vec<Frame>,
    /// Work of each group.
    current: Vec<u64>,
}

impl<'a> Queues<'a> {
    pub(crate) fn new(
        network: &'a Network,
        flows: &[Flow],
        steps: &[Step],
        joins: &[Join],
    ) -> Self {
        let arcs = 2 * network.links.len();
        // The groups of an arc: one without line, then one for each arc into its node.
        let mut entering = vec![1u32; network.nodes.len()];
        let rank: Vec<u32> = network
            .arcs()
            .map(|arc| {
                let count = &mut entering[network.ends(arc).1 as usize];
                *count += 1;
                *count - 1
            })
            .collect();
        let mut starts = vec![0u32; arcs + 1];
        for arc in network.arcs() {
            let (from, _) = network.ends(arc);
            starts[arc.index() + 1] = starts[arc.index()] + entering[from as usize];
        }
        let group = |flow: &Flow, step: &Step| {
            let first = starts[step.arc as usize];
            let previous = steps.get(step.previous as usize).filter(|_| !flow.is_cyclic);
            (first + previous.map_or(0, |previous| rank[previous.arc as usize])) as usize
        };
        let own = |flow: &Flow| flow.arcs.start as usize..flow.arcs.end as usize;
        let empty =
            Group { from: NONE, first: 0, last: 0, at_once: 1 << 60, slope: 0, burst_ns: 0 };
        let mut groups = vec![empty; starts[arcs] as usize];
        for flow in flows {
            steps[own(flow)].iter().for_each(|step| groups[group(flow, step)].last += 1);
        }
        let mut sum = 0;
        for group in &mut groups {
            (group.first, group.last, sum) = (sum, sum, sum + group.last);
        }
        let mut list = vec![Arrival::default(); steps.len()];
        let mut places = vec![0u32; steps.len()];
        let mut cyclic = Vec::new();
        for flow in flows {
            // Most links of a flow have one speed.
            let (mut speed, mut line_ns) = (0, 0);
            for index in own(flow) {
                let link = &network.links[Arc(steps[index].arc).link()];
                if link.speed_mbps != speed {
                    speed = link.speed_mbps;
                    line_ns = network.line_time(Arc(steps[index].arc), flow.octets) as u32;
                }
                let (step, slot) = (steps[index], &mut groups[group(flow, &steps[index])]);
                let previous = steps.get(step.previous as usize).filter(|_| !flow.is_cyclic);
                slot.from = previous.map_or(NONE, |previous| previous.arc);
                places[index] = slot.last;
                let interval_ns = u32::try_from(flow.interval_ns).unwrap_or(u32::MAX);
                list[slot.last as usize] = Arrival {
                    previous: previous.map_or(NONE, |_| places[step.previous as usize]),
                    line_ns,
                    interval_ns,
                    burst: 1,
                    further_ns: interval_ns,
                };
                slot.last += 1;
            }
            if flow.is_cyclic {
                cyclic.push(own(flow).map(|at| (steps[at].arc, places[at])).collect());
            }
        }
        let joined = flows
            .iter()
            .filter(|flow| !flow.joins.is_empty())
            .flat_map(|flow| joined(network, flow, steps, joins, &places))
            .collect();
        let mut filled = Vec::with_capacity(groups.len());
        for arc in 0..arcs {
            let span = starts[arc] as usize..starts[arc + 1] as usize;
            starts[arc] = filled.len() as u32;
            filled.extend(groups[span].iter().filter(|group| group.first < group.last));
        }
        starts[arcs] = filled.len() as u32;
        let groups = filled;
        let is_group_due = vec![true; groups.len()];
        let mut queues = Self {
            network,
            list,
            groups,
            starts,
            cyclic,
            joined,
            queue_ns: vec![0; arcs],
            busy_ns: vec![0; arcs],
            is_due: vec![true; arcs],
            is_group_due,
            is_mixed: vec![false; arcs],
            search: Search::default(),
        };
        network.arcs().for_each(|arc| queues.set_lines(arc));
        queues
    }

    /// Sets the lines of the groups of an arc.
    fn set_lines(&mut self, arc: Arc) {
        let speed = |arc: Arc| u64::from(self.network.links[arc.link()].speed_mbps);
        let (from, _) = self.network.ends(arc);
        let forwarding_ns = self.network.nodes[from as usize].forwarding_ns;
        let span = self.starts[arc.index()] as usize..self.starts[arc.index() + 1] as usize;
        for group in &mut self.groups[span] {
            if group.from == NONE {
                continue;
            }
            let list = &self.list[group.first as usize..group.last as usize];
            let lines = list.iter().map(|arrival| u64::from(arrival.line_ns));
            let (longest, shortest) = lines
                .map(|line| (line, line))
                .reduce(|(high, low), (line, _)| (high.max(line), low.min(line)))
                .unwrap_or_default();
            let (before, own) = (speed(Arc(group.from)), speed(arc));
            let slope = slope(before, own, shortest);
            group.slope = slope;
            group.at_once = (longest << FRACTION) + slope * forwarding_ns;
        }
    }

    /// Computes all values; returns whether they are bounded.
    pub(crate) fn solve(&mut self) -> bool {
        let arcs = self.queue_ns.len();
        // The arcs behind each arc, each with the group of the frames that come from there.
        let mut heads: Vec<Vec<(u32, u32)>> = vec![Vec::new(); arcs];
        for arc in 0..arcs {
            for group in self.starts[arc]..self.starts[arc + 1] {
                let from = self.groups[group as usize].from;
                if from != NONE {
                    heads[from as usize].push((arc as u32, group));
                }
            }
        }
        for sweep in 0..SWEEPS {
            self.mix();
            let mut is_changed = false;
            for position in 0..arcs {
                let arc = if sweep % 2 == 0 { position } else { arcs - 1 - position };
                if !std::mem::take(&mut self.is_due[arc]) {
                    continue;
                }
                let is_first = self.busy_ns[arc] == 0;
                let change = self.pull(arc);
                if change == Change::None && !is_first {
                    continue;
                }
                is_changed = true;
                if change == Change::Busy || is_first {
                    self.queue_ns[arc] = self.longest_ns(arc);
                }
                if self.queue_ns[arc] > UNBOUNDED_NS {
                    return false;
                }
                for (head, group) in &heads[arc] {
                    self.is_due[*head as usize] = true;
                    self.is_group_due[*group as usize] = true;
                }
            }
            if !is_changed {
                return true;
            }
        }
        false
    }

    /// Sets the jitter of the flows whose copies change paths.
    fn mix(&mut self) {
        for flow in &self.cyclic {
            let each = flow.iter().map(|(arc, _)| {
                let (_, to) = self.network.ends(Arc(*arc));
                let fixed = self.network.links[*arc as usize / 2].delay_ns
                    + self.network.nodes[to as usize].forwarding_ns;
                self.queue_ns[*arc as usize] + fixed
            });
            let whole = each.sum();
            for (arc, place) in flow {
                if self.list[*place as usize].set_jitter(whole) {
                    self.is_due[*arc as usize] = true;
                    self.is_mixed[*arc as usize] = true;
                }
            }
        }
        for JoinedArrival { arc, place, before } in &self.joined {
            let each = before.iter().map(|(arc, place, further)| {
                let jitter_ns = self.list[*place as usize].jitter_ns();
                (jitter_ns + self.queue_ns[*arc as usize]).saturating_add_signed(*further)
            });
            let jitter_ns = each.max().unwrap_or_default();
            if self.list[*place as usize].set_jitter(jitter_ns) {
                self.is_due[*arc as usize] = true;
                self.is_mixed[*arc as usize] = true;
            }
        }
    }

    /// Sets the jitter of the arrivals of an arc; returns what changes by it.
    fn pull(&mut self, arc: usize) -> Change {
        let (from, _) = self.network.ends(Arc(arc as u32));
        let forwarding_ns = self.network.nodes[from as usize].forwarding_ns;
        let mut is_busy = std::mem::take(&mut self.is_mixed[arc]);
        let (mut differs, busy_ns) = (is_busy, self.busy_ns[arc]);
        for index in self.starts[arc] as usize..self.starts[arc + 1] as usize {
            let group = &mut self.groups[index];
            let is_group_due = std::mem::take(&mut self.is_group_due[index]);
            let own = group.first as usize..group.last as usize;
            let Some(&queue_ns) = self.queue_ns.get(group.from as usize) else {
                if is_group_due || is_busy {
                    group.burst_ns = self.list[own].iter().map(Arrival::burst_ns).sum();
                }
                continue;
            };
            if !is_group_due {
                continue;
            }
            group.burst_ns = 0;
            for index in own {
                let previous = self.list[self.list[index].previous as usize];
                let wait_ns = queue_ns.saturating_sub(u64::from(previous.line_ns));
                let arrival = &mut self.list[index];
                let before = *arrival;
                if arrival.set_jitter(previous.jitter_ns() + wait_ns + forwarding_ns) {
                    differs = true;
                    // Frames come earlier; those behind the busy period do not change it.
                    let is_inside = u64::from(arrival.further_ns) < busy_ns;
                    is_busy |= is_inside || arrival.burst != before.burst;
                }
                group.burst_ns += arrival.burst_ns();
            }
        }
        match (differs, is_busy) {
            (_, true) => Change::Busy,
            (true, false) => Change::Later,
            (false, false) => Change::None,
        }
    }

    /// The longest wait at an arc: the largest excess of a busy period.
    fn longest_ns(&mut self, arc: usize) -> u64 {
        let groups = &self.groups[self.starts[arc] as usize..self.starts[arc + 1] as usize];
        if groups.is_empty() {
            return 0;
        }
        let other_ns = self.network.line_time(Arc(arc as u32), OTHER);
        self.search.longest_ns(groups, &self.list, other_ns, &mut self.busy_ns[arc])
    }
}

/// The joined arrivals of a flow. Jitter at a step is the longest delay up to there less its `base`; the bases of steps in a
/// row differ by line time and propagation. At a join the base is the shortest delay, in which frames have no gap.
fn joined(
    network: &Network,
    flow: &Flow,
    steps: &[Step],
    joins: &[Join],
    places: &[u32],
) -> Vec<JoinedArrival> {
    let first = flow.arcs.start;
    let own = &steps[first as usize..flow.arcs.end as usize];
    let (mut base, mut shortest) = (vec![0; own.len()], vec![0; own.len()]);
    let mut joins = joins[flow.joins.start as usize..flow.joins.end as usize].iter().peekable();
    let mut joined = Vec::new();
    let delay_ns = |step: usize| network.links[Arc(own[step].arc).link()].delay_ns;
    let line_ns = |step: usize, octets| network.line_time(Arc(own[step].arc), octets);
    let without_gap = flow.octets - u64::from(GAP);
    for (at, step) in own.iter().enumerate() {
        if step.previous != NONE {
            let before = (step.previous - first) as usize;
            base[at] = base[before] + line_ns(before, flow.octets) + delay_ns(before);
            shortest[at] = shortest[before] + line_ns(before, without_gap) + delay_ns(before);
            continue;
        }
        let mut before = Vec::new();
        while let Some(join) = joins.next_if(|join| join.step == first + at as u32) {
            before.push((join.before - first) as usize);
        }
        let least = before
            .iter()
            .map(|before| shortest[*before] + line_ns(*before, without_gap) + delay_ns(*before));
        let Some(least) = least.min() else { continue };
        (base[at], shortest[at]) = (least, least);
        let further = |before: usize| {
            let (_, to) = network.ends(Arc(own[before].arc));
            let fixed_ns = delay_ns(before) + network.nodes[to as usize].forwarding_ns;
            (base[before] + fixed_ns) as i64 - least as i64
        };
        let before = before
            .into_iter()
            .map(|before| (own[before].arc, places[first as usize + before], further(before)));
        joined.push(JoinedArrival {
            arc: step.arc,
            place: places[first as usize + at],
            before: before.collect(),
        });
    }
    joined
}

impl Search {
    /// Returns the longest wait, and sets the length of the busy period, which is a first guess.
    fn longest_ns(
        &mut self,
        groups: &[Group],
        list: &[Arrival],
        other_ns: u64,
        busy_ns: &mut u64,
    ) -> u64 {
        let arrivals = groups.iter().map(|group| u64::from(group.last - group.first)).sum::<u64>();
        let spans = (arrivals / SPAN_ARRIVALS).clamp(*SPANS.start(), *SPANS.end());
        // Busy periods grow from one computation to the next.
        let mut limit = (*busy_ns + *busy_ns / 8).max(2 * other_ns);
        loop {
            if limit > BUSY_NS {
                // The line is overloaded, or nearly.
                return UNBOUNDED_NS + 1;
            }
            // Spans have a length of a power of two.
            let shift = limit.div_ceil(spans).next_power_of_two().trailing_zeros();
            if self.fill(groups, list, other_ns << FRACTION, limit, shift) {
                *busy_ns = (self.bounds.len() as u64) << shift;
                return self.longest_of(groups, other_ns << FRACTION, shift);
            }
            limit = (limit + limit / 2).max(self.bounds[0] >> FRACTION);
        }
    }

    /// Sums the work by span, and bounds the excess in each; returns whether the busy period ends before the limit.
    fn fill(
        &mut self,
        groups: &[Group],
        list: &[Arrival],
        other: u64,
        limit_ns: u64,
        shift: u32,
    ) -> bool {
        let spans = (limit_ns >> shift) as usize + 1;
        // The work before a span is at its index, that before the end of the last one behind it.
        self.width = spans + 1;
        self.work.clear();
        self.work.resize(self.width * groups.len(), 0);
        self.bounds.clear();
        self.bounds.resize(spans, other);
        let end = (spans as u64) << shift;
        self.frames.clear();
        self.heads.clear();
        self.heads.resize(spans, NONE);
        let works = self.work.chunks_exact_mut(self.width);
        for (number, (group, work)) in groups.iter().zip(works).enumerate() {
            // Without a branch for each arrival: few have frames behind their burst in a busy period.
            let own = group.first..group.last;
            self.chosen.resize(self.chosen.len().max(own.len()), 0);
            let mut count = 0;
            for index in own {
                self.chosen[count] = index;
                count += usize::from(u64::from(list[index as usize].further_ns) < end);
            }
            for index in &self.chosen[..count] {
                let arrival = &list[*index as usize];
                let line = u64::from(arrival.line_ns);
                arrival.later(end, |time| {
                    let span = (time >> shift) as usize;
                    work[span + 1] += line;
                    let next = std::mem::replace(&mut self.heads[span], self.frames.len() as u32);
                    self.frames.push(Frame {
                        time,
                        group: number as u32,
                        line_ns: arrival.line_ns,
                        next,
                    });
                });
            }
            work[0] = group.burst_ns << FRACTION;
            let mut sum = work[0];
            let (mut line, step) = (group.at_once, group.slope << shift);
            for (own, bound) in work[1..].iter_mut().zip(&mut self.bounds) {
                sum += *own << FRACTION;
                line += step;
                *own = sum;
                *bound += sum.min(line);
            }
        }
        let span_ns = 1 << shift << FRACTION;
        let mut start = 0;
        for (span, bound) in self.bounds.iter_mut().enumerate() {
            // All work that arrives before the end is done by then.
            if *bound <= start + span_ns {
                *bound = bound.saturating_sub(start);
                self.bounds.truncate(span + 1);
                return true;
            }
            *bound -= start;
            start += span_ns;
        }
        false
    }

    /// The largest excess: that of the span with the largest bound, then of those whose bound exceeds it.
    fn longest_of(&mut self, groups: &[Group], other: u64, shift: u32) -> u64 {
        let spans = self.bounds.len();
        let first = (0..spans).max_by_key(|span| self.bounds[*span]).unwrap_or(0);
        let mut longest = 0;
        for span in std::iter::once(first).chain(0..spans) {
            if self.bounds[span] > longest {
                longest = longest.max(self.excess(groups, other, span, shift));
                // No further search in it.
                self.bounds[span] = 0;
            }
        }
        longest.div_ceil(1 << FRACTION)
    }

    /// The largest excess within a span.
    fn excess(&mut self, groups: &[Group], other: u64, span: usize, shift: u32) -> u64 {
        let (start, end) = ((span as u64) << shift, (span as u64 + 1) << shift);
        self.sorted.clear();
        let mut next = self.heads[span];
        while let Some(frame) = self.frames.get(next as usize) {
            self.sorted.push(*frame);
            next = frame.next;
        }
        self.sorted.sort_unstable_by_key(|frame| frame.time);
        self.current.clear();
        self.current.extend(self.work.iter().skip(span).step_by(self.width));
        let work = &mut self.current;
        let (mut time, mut longest) = (start, 0);
        for frame in &self.sorted {
            if frame.time > time {
                longest = longest.max(constant_excess(groups, work, other, time..frame.time));
                time = frame.time;
            }
            work[frame.group as usize] += u64::from(frame.line_ns) << FRACTION;
        }
        longest.max(constant_excess(groups, work, other, time..end))
    }
}

/// The largest excess in a span of time in which no frames arrive: the sum of the smaller one of line and work is concave,
/// so that it lies at the start or where a line reaches its work.
fn constant_excess(groups: &[Group], work: &[u64], other: u64, span: std::ops::Range<u64>) -> u64 {
    let at = |time: u64| {
        let each = groups.iter().zip(work).map(|(group, work)| group.line(time).min(*work));
        (other + each.sum::<u64>()).saturating_sub(time << FRACTION)
    };
    let rising = |(group, work): &(&Group, &u64)| group.line(span.start) < **work;
    let slope: u64 = groups.iter().zip(work).filter(rising).map(|(group, _)| group.slope).sum();
    let mut longest = at(span.start);
    if slope > 1 << FRACTION {
        for (group, work) in groups.iter().zip(work).filter(rising) {
            let time = ((work - group.at_once) / group.slope).max(1) - 1;
            for time in [time, time + 1] {
                longest = longest.max(at(time.clamp(span.start, span.end - 1)));
            }
        }
    }
    longest
}
