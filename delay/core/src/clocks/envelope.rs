//! The lower envelope of delays over time, in segments between clock steps.

use super::hull::{Hull, Line, Point, slope};
use crate::change::{change_points, median, noise, penalty};

/// Maximum number of time bins. Above it, each two are merged.
const MAX_BINS: usize = 4096;
/// Initial length of a bin, in nanoseconds.
const FIRST_BIN_NS: i64 = 1 << 16;
/// Minimum number of bins of a level: fewer are an outlier, not a step.
const SHORTEST: usize = 4;
/// A step is reported if it exceeds this number of standard deviations of the lower envelope's noise...
const STEP_DEVIATIONS: f64 = 6.0;
/// ... and this number of nanoseconds.
const STEP_NS: f64 = 100.0;

/// Shortest delays return to a level within this share of their rise.
const RETURN: f64 = 0.1;

/// Collects delays in order of time, in bounded memory.
#[derive(Debug, Clone)]
pub struct Envelope {
    bins: Vec<Bin>,
    bin_ns: i64,
    start_ns: Option<i64>,
}

#[derive(Debug, Clone, Default)]
struct Bin {
    hull: Hull,
    count: u64,
    /// Sum of times since the start.
    time_sum: i128,
}

impl Bin {
    fn merge(&mut self, later: Bin) {
        later.hull.corners().iter().for_each(|corner| self.hull.push(*corner));
        self.count += later.count;
        self.time_sum += later.time_sum;
    }
}

/// A period without a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its start, in nanoseconds.
    pub from_ns: i64,
    /// Its end, exclusive.
    pub to_ns: i64,
    /// The clock difference plus the delay of the fastest packet.
    pub line: Line,
    /// The distance of the fastest packet above the line, in nanoseconds, in nine of ten bins: the possible error
    /// of the line.
    pub residual_ns: f64,
    /// The number of delays in it.
    pub count: u64,
}

/// An estimate of two clocks from delays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clocks {
    segments: Vec<Segment>,
    queues: Vec<StandingQueue>,
    steps: Vec<Step>,
}

/// A shift of the shortest delays that did not return, or that a clock caused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its time, in nanoseconds.
    pub at_ns: i64,
    /// The delay of the fastest packets after it, less that before it, in nanoseconds.
    pub size_ns: f64,
    /// Its cause.
    pub cause: StepCause,
}

/// The cause of a step of the shortest delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepCause {
    /// A clock: the delays of the other direction changed by the same time, in the opposite sense.
    Clock,
    /// The path: those of the other direction did not change.
    Path,
    /// Either, or both: there are no delays of the other direction, or they changed otherwise.
    Unknown,
}

/// A period in which all delays were longer, and after which they returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StandingQueue {
    /// Its start, in nanoseconds.
    pub from_ns: i64,
    /// Its end, exclusive.
    pub to_ns: i64,
    /// The median of the additional delay of the fastest packets, in nanoseconds.
    pub size_ns: f64,
    /// [`StepCause::Path`] if the delays of the other direction did not change, else unknown.
    pub cause: StepCause,
}

impl Default for Envelope {
    fn default() -> Self {
        Self::new()
    }
}

impl Envelope {
    /// Creates an envelope without delays.
    pub fn new() -> Self {
        Envelope { bins: Vec::new(), bin_ns: FIRST_BIN_NS, start_ns: None }
    }

    /// Adds a delay. Times are in order, with a little disorder.
    #[inline]
    pub fn push(&mut self, point: Point) {
        let start = *self.start_ns.get_or_insert(point.time_ns);
        // A time before the start belongs to the first bin.
        let since_start = (i128::from(point.time_ns) - i128::from(start)).max(0);
        let mut place = (since_start / i128::from(self.bin_ns)) as usize;
        while place >= MAX_BINS {
            self.halve();
            place = (since_start / i128::from(self.bin_ns)) as usize;
        }
        if self.bins.len() <= place {
            self.bins.resize_with(place + 1, Bin::default);
        }
        let bin = &mut self.bins[place];
        bin.hull.push(point);
        bin.count += 1;
        bin.time_sum += since_start;
    }

    fn halve(&mut self) {
        let mut old = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = old.next() {
            if let Some(later) = old.next() {
                bin.merge(later);
            }
            self.bins.push(bin);
        }
        self.bin_ns = self.bin_ns.saturating_mul(2);
    }

    /// Returns the envelope with coarser bins, so that each has this mean number of delays, if there are enough.
    #[must_use]
    pub fn coarser(&self, delays: u64) -> Self {
        let mut coarse = self.clone();
        let all: u64 = self.bins.iter().map(|bin| bin.count).sum();
        let filled = |of: &Self| of.bins.iter().filter(|bin| bin.count > 0).count();
        while filled(&coarse) > 2 * SHORTEST && all < delays * filled(&coarse) as u64 {
            coarse.halve();
        }
        coarse
    }

    /// Returns the segments between steps. Delays around a step belong to none.
    ///
    /// Shortest delays that rise and return to the former line are those of a queue: a clock would have to be set
    /// twice, by the same time in both directions.
    pub fn clocks(&self) -> Clocks {
        self.clocks_of(|_, _| true, true, None)
    }

    /// As [`Self::clocks`], with only those steps that `proven` confirms from the delays of a period in
    /// nanoseconds: between the steps before and after.
    pub(super) fn clocks_with(&self, is_proven: impl Fn(i64, i64) -> bool) -> Clocks {
        self.clocks_of(is_proven, false, None)
    }

    /// As [`Self::clocks`], with the cause of each step by the delays of the other direction, in nanoseconds of the same
    /// clock: a clock changes both, in opposite senses, and a path changes one. Delays after a change of the path are
    /// longer, or shorter, than before.
    pub fn clocks_against(&self, back: &Envelope) -> Clocks {
        self.clocks_of(|_, _| true, true, Some(back))
    }

    /// The shortest delays of the bins with delays, in order, without the skew; and the places of these bins.
    fn edge(&self) -> (Vec<usize>, Vec<f64>) {
        let filled: Vec<usize> = (0..self.bins.len()).filter(|&i| self.bins[i].count > 0).collect();
        let origin_ns = self.start_ns.unwrap_or(0);
        let tilt = Line { origin_ns, delay_ns: 0.0, skew: self.skew(&filled) };
        let shortest = |&bin: &usize| self.bins[bin].hull.above(&tilt).unwrap_or(0.0);
        let edge = filled.iter().map(shortest).collect();
        (filled, edge)
    }

    fn clocks_of(
        &self,
        is_proven: impl Fn(i64, i64) -> bool,
        with_queues: bool,
        back: Option<&Envelope>,
    ) -> Clocks {
        let (filled, edge) = self.edge();
        let least = least(&edge);
        let mut steps = steps(&edge, least);
        let time_of = |place: usize| match filled.get(place) {
            Some(&bin) => self.start_of(bin),
            None => self.start_of(self.bins.len()),
        };
        let other = back.map(OtherDirection::new);
        let step = |[before, at, after]: [usize; 3]| {
            let size_ns = level(&edge, at, after) - level(&edge, before, at);
            let times = [before, at, after].map(time_of);
            let cause = other
                .as_ref()
                .map_or(StepCause::Unknown, |other| other.cause(times, size_ns, least));
            Step { at_ns: times[1], size_ns, cause }
        };
        let queues = if with_queues {
            remove_queues(&edge, least, &mut steps, |ends| step(ends).cause)
        } else {
            Vec::new()
        };
        while let Some(unproven) = (0..steps.len()).find(|&i| {
            let [before, _, after] = around(&steps, i, filled.len());
            !is_proven(time_of(before), time_of(after))
        }) {
            steps.remove(unproven);
        }

        let queues = queues.into_iter().map(|(from, to, size_ns, cause)| StandingQueue {
            from_ns: time_of(from),
            to_ns: time_of(to),
            size_ns,
            cause,
        });
        let queues: Vec<StandingQueue> = queues.collect();
        let mut found: Vec<Step> = neighbors(&steps, filled.len()).map(step).collect();
        let mut from = 0;
        let mut segments: Vec<Option<Segment>> = Vec::new();
        for (i, step) in steps.iter().copied().chain([filled.len()]).enumerate() {
            // The step is in the bin in which it appears, or at the end of the previous one.
            let begin = if i == 0 { from } else { from + 1 };
            let end = if step == filled.len() { step } else { step - 1 };
            segments.push(self.segment(filled.get(begin..end).unwrap_or_default(), &queues));
            from = step;
        }
        // The path's delay in each segment, relative to the first one.
        let mut path_ns = vec![0.0];
        for (step, around) in found.iter_mut().zip(segments.windows(2)) {
            if let [Some(before), Some(after)] = around {
                step.size_ns = after.line.at(step.at_ns) - before.line.at(step.at_ns);
            }
            let change_ns = if step.cause == StepCause::Path { step.size_ns } else { 0.0 };
            path_ns.push(path_ns[path_ns.len() - 1] + change_ns);
        }
        let fastest_ns = path_ns.iter().copied().fold(0.0, f64::min);
        for (segment, path_ns) in segments.iter_mut().zip(path_ns) {
            if let Some(segment) = segment {
                segment.line.delay_ns -= path_ns - fastest_ns;
            }
        }
        let segments = segments.into_iter().flatten().collect();
        Clocks { segments, queues, steps: found }
    }

    /// An upper bound of the round trip of the fastest packets, in nanoseconds, whatever the clocks: in a short period their
    /// difference is the same for both directions. The median of the periods does not depend on the few that contain a
    /// step. Negative: the directions are exchanged. `None`: no period has packets of both.
    pub fn round_trip_ns(&self, back: &Envelope) -> Option<f64> {
        let back: Vec<Point> =
            back.bins.iter().flat_map(|bin| bin.hull.corners()).copied().collect();
        let fastest = |points: &[Point]| points.iter().map(|point| point.delay_ns).min();
        let sum = |bin: usize| {
            let [from, to] = [bin, bin + 1]
                .map(|bin| back.partition_point(|point| point.time_ns < self.start_of(bin)));
            let there = fastest(self.bins[bin].hull.corners())?;
            Some((i128::from(there) + i128::from(fastest(&back[from..to])?)) as f64)
        };
        median((0..self.bins.len()).filter_map(sum).collect())
    }

    /// The lower hull of the delays of a period.
    pub(super) fn hull_between(&self, from_ns: i64, to_ns: i64) -> Hull {
        let mut hull = Hull::new();
        for (place, bin) in self.bins.iter().enumerate() {
            if (from_ns..to_ns).contains(&self.start_of(place)) {
                bin.hull.corners().iter().for_each(|corner| hull.push(*corner));
            }
        }
        hull
    }

    /// Start of a bin, in nanoseconds.
    fn start_of(&self, bin: usize) -> i64 {
        let start_ns = self.start_ns.unwrap_or(0);
        start_ns.saturating_add((bin as i64).saturating_mul(self.bin_ns))
    }

    /// The skew on which most pairs of bins agree, robust against clock steps between a few of them.
    fn skew(&self, filled: &[usize]) -> f64 {
        let fastest = |bin: usize| {
            self.bins[bin].hull.corners().iter().copied().min_by_key(|corner| corner.delay_ns)
        };
        let apart = (filled.len() / 8).max(1);
        let pairs = filled.iter().zip(filled.iter().skip(apart));
        let slopes = pairs.filter_map(|(&early, &late)| slope(fastest(early)?, fastest(late)?));
        median(slopes.collect()).unwrap_or(0.0)
    }

    fn segment(&self, bins: &[usize], queues: &[StandingQueue]) -> Option<Segment> {
        let mut whole = Bin::default();
        for &bin in bins {
            whole.merge(self.bins[bin].clone());
        }
        if whole.count < 2 {
            return None;
        }
        let start = self.start_ns?;
        let mean = (i128::from(start) + whole.time_sum / i128::from(whole.count)) as i64;
        let line = whole.hull.line(mean)?;
        let is_free = |bin: &&usize| {
            let time_ns = self.start_of(**bin);
            !queues.iter().any(|queue| (queue.from_ns..queue.to_ns).contains(&time_ns))
        };
        let bins_of_line = bins.iter().filter(is_free);
        let mut above: Vec<f64> =
            bins_of_line.filter_map(|&bin| self.bins[bin].hull.above(&line)).collect();
        above.sort_unstable_by(f64::total_cmp);
        let residual_ns = above.get(above.len() * 9 / 10).or(above.last()).copied()?;
        Some(Segment {
            from_ns: self.start_of(*bins.first()?),
            to_ns: self.start_of(*bins.last()? + 1),
            line,
            residual_ns,
            count: whole.count,
        })
    }
}

fn level(edge: &[f64], from: usize, to: usize) -> f64 {
    median(edge[from..to].to_vec()).unwrap_or(0.0)
}

/// The least step that the noise of the shortest delays does not explain, in nanoseconds.
fn least(edge: &[f64]) -> f64 {
    (STEP_DEVIATIONS * noise(edge)).max(STEP_NS)
}

/// Each step with the places of the one before it and of the one after it, or of the ends.
fn neighbors(steps: &[usize], len: usize) -> impl Iterator<Item = [usize; 3]> + '_ {
    (0..steps.len()).map(move |i| around(steps, i, len))
}

fn around(steps: &[usize], i: usize, len: usize) -> [usize; 3] {
    let before = if i == 0 { 0 } else { steps[i - 1] };
    [before, steps[i], steps.get(i + 1).copied().unwrap_or(len)]
}

/// Removes each pair of steps that raises the edge and returns it to its level, unless a clock caused one of them;
/// returns their places, sizes and causes.
fn remove_queues(
    edge: &[f64],
    least: f64,
    steps: &mut Vec<usize>,
    cause: impl Fn([usize; 3]) -> StepCause,
) -> Vec<(usize, usize, f64, StepCause)> {
    let mut queues = Vec::new();
    let mut place = 0;
    while place + 1 < steps.len() {
        let ends = [place, place + 1].map(|i| around(steps, i, edge.len()));
        let [[before, up, _], [_, down, after]] = ends;
        let [low, high, end] =
            [(before, up), (up, down), (down, after)].map(|(from, to)| level(edge, from, to));
        let returns = high > low && (end - low).abs() < least.max(RETURN * (high - low));
        let causes = ends.map(&cause);
        if returns && !causes.contains(&StepCause::Clock) {
            steps.drain(place..place + 2);
            let cause =
                if causes == [StepCause::Path; 2] { StepCause::Path } else { StepCause::Unknown };
            queues.push((up, down, high - low, cause));
        } else {
            place += 1;
        }
    }
    queues
}

/// The shortest delays of the other direction, which distinguish a step of a clock from a change of the path.
struct OtherDirection {
    /// Times of the bins, in order, in nanoseconds.
    times_ns: Vec<i64>,
    edge: Vec<f64>,
    least: f64,
}

impl OtherDirection {
    fn new(envelope: &Envelope) -> Self {
        let (filled, edge) = envelope.edge();
        let times_ns = filled.into_iter().map(|bin| envelope.start_of(bin)).collect();
        let least = least(&edge);
        Self { times_ns, edge, least }
    }

    /// The median of the shortest delays of a period.
    fn level(&self, from_ns: i64, to_ns: i64) -> Option<f64> {
        let [from, to] =
            [from_ns, to_ns].map(|ns| self.times_ns.partition_point(|time_ns| *time_ns < ns));
        median(self.edge.get(from..to)?.to_vec())
    }

    /// The cause of a step of this size, between the steps before and after.
    fn cause(&self, [before, at, after]: [i64; 3], size_ns: f64, least: f64) -> StepCause {
        let error_ns = self.least.max(least).max(RETURN * size_ns.abs());
        let (Some(then), Some(now)) = (self.level(before, at), self.level(at, after)) else {
            return StepCause::Unknown;
        };
        let change_ns = now - then;
        if size_ns.abs() <= 2.0 * error_ns {
            StepCause::Unknown
        } else if (size_ns + change_ns).abs() <= error_ns {
            StepCause::Clock
        } else if change_ns.abs() <= error_ns {
            StepCause::Path
        } else {
            StepCause::Unknown
        }
    }
}

/// Finds shifts of the lower envelope that its noise cannot explain.
fn steps(edge: &[f64], least: f64) -> Vec<usize> {
    let penalty = penalty(edge).max(least * least);
    let mut points = change_points(edge, penalty, SHORTEST);
    // Small shifts that the sum of squares accepts as changes are noise of another shape.
    loop {
        let level = |from: usize, to: usize| level(edge, from, to);
        let small = (0..points.len()).find(|&i| {
            let [before, at, after] = around(&points, i, edge.len());
            (level(at, after) - level(before, at)).abs() < least
        });
        match small {
            Some(i) => drop(points.remove(i)),
            None => return points,
        }
    }
}

impl Clocks {
    /// The segments, in order of time.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Periods in which the fastest packets were slower, in order of time.
    pub fn queues(&self) -> &[StandingQueue] {
        &self.queues
    }

    /// Shifts of the shortest delays, in order of time.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The largest possible error of the lines, in nanoseconds: by it a delay may be measured too long.
    pub fn error_ns(&self) -> f64 {
        self.segments.iter().map(|segment| segment.residual_ns).fold(0.0, f64::max)
    }

    /// The segment that contains a time; `None` around a step.
    pub fn segment(&self, time_ns: i64) -> Option<&Segment> {
        let place = self.segments.partition_point(|segment| segment.to_ns <= time_ns);
        self.segments.get(place).filter(|segment| segment.from_ns <= time_ns)
    }

    /// As [`Self::segment`], with the first and the last segment extended to times before and after all delays.
    pub(super) fn nearest_segment(&self, time_ns: i64) -> Option<&Segment> {
        let (first, last) = (self.segments.first()?, self.segments.last()?);
        match time_ns {
            _ if time_ns < first.from_ns => Some(first),
            _ if time_ns >= last.to_ns => Some(last),
            _ => self.segment(time_ns),
        }
    }

    /// The difference of a delay from that of the fastest packet, in nanoseconds, without skew and steps; `None`
    /// around a step.
    pub fn above_fastest(&self, point: Point) -> Option<f64> {
        let segment = self.segment(point.time_ns)?;
        Some(point.delay_ns as f64 - segment.line.at(point.time_ns))
    }
}
