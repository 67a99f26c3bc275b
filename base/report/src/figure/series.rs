//! Values over time, downsampled with exact extremes.

use serde::{Deserialize, Serialize};

/// Maximum number of points of a series: [`downsample`] to 1,000 columns, about the pixels of a plot.
pub const MAX_POINTS: usize = 4 * COLUMNS;
const COLUMNS: usize = 1000;

/// Maximum number of losses of a series; close ones are joined.
pub const MAX_LOSSES: usize = 500;

/// Values over time, with the phases of the run and the losses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TimeSeries {
    /// Unit of the values; time is in seconds from the start.
    pub unit: String,
    /// The series.
    pub series: Vec<Series>,
    /// Phases, shown shaded.
    pub phases: Vec<Phase>,
    /// Losses, in order of time.
    pub losses: Vec<Loss>,
    /// Whether the values are continuous, such as a load: they are drawn as lines, and no value can be lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continuous: bool,
}

/// One series of at most [`MAX_POINTS`] points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Stream or direction.
    pub name: String,
    /// Number of points before downsampling.
    pub total: u64,
    /// (time in seconds, value), in order of time.
    pub points: Vec<(f64, f64)>,
}

/// A part of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `path 1 down`.
    pub name: String,
    /// Start, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// The state of the network.
    pub state: PhaseState,
}

/// The state of the network in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseState {
    /// Every path is up.
    Up,
    /// A path is down, and another one delivers.
    Degraded,
    /// No path is left.
    Down,
}

/// Frames that were sent in `from_s..=to_s` and not received.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Send time of the first, in seconds.
    pub from_s: f64,
    /// Send time of the last, in seconds.
    pub to_s: f64,
    /// The number of frames.
    pub frames: u64,
}

impl TimeSeries {
    /// Creates a figure without series.
    pub fn new(unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), ..Self::default() }
    }

    /// Creates a figure of continuous values without series.
    pub fn continuous(unit: impl Into<String>) -> Self {
        Self { continuous: true, ..Self::new(unit) }
    }

    /// Adds a series of (time in seconds, value); points that are not numbers are omitted.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series::new(name, points));
        self
    }

    /// Adds a phase.
    #[must_use]
    pub fn phase(
        mut self,
        name: impl Into<String>,
        from_s: f64,
        to_s: f64,
        state: PhaseState,
    ) -> Self {
        self.phases.push(Phase { name: name.into(), from_s, to_s, state });
        self
    }

    /// Sets the losses; joins them until at most [`MAX_LOSSES`] remain.
    #[must_use]
    pub fn losses(mut self, losses: Vec<Loss>) -> Self {
        self.losses = join_losses(losses);
        self
    }
}

impl Series {
    /// Creates a series of (time in seconds, value) in any order.
    pub fn new(name: impl Into<String>, mut points: Vec<(f64, f64)>) -> Self {
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        for (x, _) in &mut points {
            *x = round_us(*x);
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total = points.len() as u64;
        if points.len() > MAX_POINTS {
            points = downsample(&points, COLUMNS);
        }
        Self { name: name.into(), total, points }
    }
}

/// Rounds to a microsecond: shorter times are not visible, and the JSON stays short.
fn round_us(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// Divides time into `columns` and keeps the first, smallest, largest and last point of each: with that
/// number of pixels the plot looks as if it had all points. `points` are in order of time.
pub fn downsample(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let columns = columns.max(1);
    let span = last.0 - first.0;
    let column_of = |x: f64| {
        let share = if span > 0.0 { (x - first.0) / span } else { 0.0 };
        ((share * columns as f64) as usize).min(columns - 1)
    };

    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| column_of(a.0) == column_of(b.0)) {
        let by_value = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let min = (0..column.len()).min_by(by_value).unwrap_or(0);
        let max = (0..column.len()).max_by(by_value).unwrap_or(0);
        let mut indices = [0, min, max, column.len() - 1];
        indices.sort_unstable();
        for (position, &index) in indices.iter().enumerate() {
            if position == 0 || indices[position - 1] != index {
                kept.push(column[index]);
            }
        }
    }
    kept
}

fn join_losses(mut losses: Vec<Loss>) -> Vec<Loss> {
    losses.retain(|loss| loss.frames > 0 && loss.from_s.is_finite() && loss.to_s.is_finite());
    for loss in &mut losses {
        (loss.from_s, loss.to_s) = (round_us(loss.from_s), round_us(loss.to_s));
    }
    losses.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    // Start with the resolution of a plot and coarsen: one pass is mostly sufficient.
    let begin = losses.first().map_or(0.0, |loss| loss.from_s);
    let span = losses.last().map_or(0.0, |loss| loss.from_s) - begin;
    let mut distance = span / COLUMNS as f64;
    while losses.len() > MAX_LOSSES {
        losses = join_within(losses, distance);
        distance *= 2.0;
        if span <= 0.0 {
            distance = f64::INFINITY;
        }
    }
    losses
}

fn join_within(losses: Vec<Loss>, distance: f64) -> Vec<Loss> {
    let mut joined: Vec<Loss> = Vec::new();
    for loss in losses {
        match joined.last_mut() {
            Some(last) if loss.from_s - last.from_s <= distance => {
                last.to_s = last.to_s.max(loss.to_s);
                last.frames += loss.frames;
            }
            _ => joined.push(loss),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extremes(points: &[(f64, f64)]) -> (f64, f64) {
        let values = points.iter().map(|point| point.1);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    }

    proptest! {
        #[test]
        fn downsampling_keeps_ends_and_extremes(
            mut points in prop::collection::vec((0.0..1e4_f64, -1e9..1e9_f64), 1..3000),
            columns in 1..200_usize,
        ) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let kept = downsample(&points, columns);
            prop_assert!(kept.len() <= 4 * columns);
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
            prop_assert_eq!(extremes(&kept), extremes(&points));
            // In order, and only original points.
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            prop_assert!(kept.iter().all(|point| points.contains(point)));
        }

        #[test]
        fn joining_losses_keeps_their_sum(
            times in prop::collection::vec((0.0..100.0_f64, 1..5_u64), 0..2000),
        ) {
            let losses: Vec<Loss> = times
                .iter()
                .map(|&(at, frames)| Loss { from_s: at, to_s: at, frames })
                .collect();
            let joined = join_losses(losses.clone());
            prop_assert!(joined.len() <= MAX_LOSSES);
            let sum = |losses: &[Loss]| losses.iter().map(|loss| loss.frames).sum::<u64>();
            prop_assert_eq!(sum(&joined), sum(&losses));
            prop_assert!(joined.windows(2).all(|pair| pair[0].from_s <= pair[1].from_s));
        }
    }

    #[test]
    fn losses_at_one_instant_become_one() {
        let loss = Loss { from_s: 1.0, to_s: 1.0, frames: 1 };
        let joined = join_losses(vec![loss; 2 * MAX_LOSSES]);
        assert_eq!(joined, [Loss { frames: 2 * MAX_LOSSES as u64, ..loss }]);
    }

    #[test]
    fn a_short_series_is_kept_whole_and_sorted() {
        let series = Series::new("a", vec![(2.0, 1.0), (1.0, 5.0), (f64::NAN, 1.0)]);
        assert_eq!(series.points, [(1.0, 5.0), (2.0, 1.0)]);
        assert_eq!(series.total, 2);
    }

    #[test]
    fn a_long_series_is_bounded_and_records_its_length() {
        let points: Vec<_> =
            (0..50_000).map(|i| (f64::from(i) * 1e-3, f64::from(i % 977))).collect();
        let series = Series::new("a", points);
        assert_eq!(series.total, 50_000);
        assert!(series.points.len() <= MAX_POINTS);
        assert_eq!(extremes(&series.points), (0.0, 976.0));
    }
}
