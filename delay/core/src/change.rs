//! Change points of a series' level: penalized least squares, exactly (PELT: Killick, Fearnhead, Eckley 2012).

/// Returns the indexes at which a new level starts, in order; empty if the level does not change.
///
/// They minimize the sum of squared distances from the mean of each segment, plus `penalty` per change; no segment
/// is shorter than `shortest`. [`penalty`] is the usual choice.
pub fn change_points(values: &[f64], penalty: f64, shortest: usize) -> Vec<usize> {
    let n = values.len();
    let shortest = shortest.max(1);
    if n < 2 * shortest {
        return Vec::new();
    }
    let sums = Sums::of(values);
    // For the first `end` values: the least cost, and the start of the last segment.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0] = (-penalty, 0);
    let mut candidates = vec![0];
    for end in shortest..=n {
        let costs: Vec<f64> =
            candidates.iter().map(|&start| best[start].0 + sums.cost(start, end)).collect();
        best[end] = costs
            .iter()
            .zip(&candidates)
            .map(|(cost, &start)| (cost + penalty, start))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((f64::INFINITY, 0));
        // If even a change without a penalty does not pay now, none does later.
        let (least, _) = best[end];
        let mut costs = costs.iter();
        candidates.retain(|_| costs.next().is_some_and(|cost| *cost <= least));
        if end + 1 >= 2 * shortest {
            candidates.push(end + 1 - shortest);
        }
    }
    let mut points = Vec::new();
    let mut end = n;
    while best[end].1 > 0 {
        end = best[end].1;
        points.push(end);
    }
    points.reverse();
    points
}

/// Returns the penalty of the Bayesian information criterion for a mean and an index per change, with the noise
/// estimated from differences of neighbors, on which a change of level has little effect.
pub fn penalty(values: &[f64]) -> f64 {
    let noise = noise(values);
    3.0 * noise * noise * (values.len().max(2) as f64).ln()
}

/// The standard deviation of the noise around the levels, robust against the changes.
pub(crate) fn noise(values: &[f64]) -> f64 {
    let differences = values.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    // The median of |difference| of normal noise is 0.6745 of √2 standard deviations.
    median(differences.collect()).unwrap_or(0.0) / (0.674_489_75 * std::f64::consts::SQRT_2)
}

/// The median; for an even number of values, the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = below.iter().copied().max_by(f64::total_cmp).unwrap_or(upper);
    Some(if odd { upper } else { 0.5 * (lower + upper) })
}

/// Sums of the values and of their squares up to each index, less the mean of all values, which limits the rounding
/// error of differences.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let running = |of: fn(f64) -> f64| {
            std::iter::once(0.0)
                .chain(values.iter().scan(0.0, |sum, value| {
                    *sum += of(value - mean);
                    Some(*sum)
                }))
                .collect()
        };
        Sums { values: running(|value| value), squares: running(|value| value * value) }
    }

    /// Returns the sum of squared distances of `start..end` from their mean.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let sum = self.values[end] - self.values[start];
        let squares = self.squares[end] - self.squares[start];
        squares - sum * sum / (end - start) as f64
    }
}
