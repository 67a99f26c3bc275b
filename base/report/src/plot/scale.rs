//! Conversion of values to coordinates, with ticks at round values.

/// A linear or logarithmic axis.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// Creates a linear scale over at least `low..=high`, from coordinate `from` to `to`, with ends at ticks.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 5.0);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        let (low, high) = (first as f64 * step, last as f64 * step);
        Self { logarithmic: false, low, high, from, to, ticks }
    }

    /// Creates a linear scale over exactly `low..=high`, with ticks in between: for time, which has fixed
    /// ends.
    pub(super) fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 8.0);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        let ticks = (first..=last).map(|n| n as f64 * step).collect();
        Self { logarithmic: false, low, high, from, to, ticks }
    }

    /// Creates a logarithmic scale over at least `low..=high`, both above 0; its ends are 1, 2 or 5 of a
    /// decade.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let high = high.max(low);
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let steps: Vec<f64> = (first..=last)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)))
            .collect();
        // Rounding must not move a value at a tick to the next one.
        let begin = steps.iter().rposition(|step| *step <= low * (1.0 + 1e-9)).unwrap_or(0);
        let end = steps.iter().position(|step| *step >= high * (1.0 - 1e-9));
        let mut end = end.unwrap_or(steps.len() - 1);
        if end == begin {
            end = (begin + 1).min(steps.len() - 1);
        }
        let shown = &steps[begin..=end];
        let decades = (shown[shown.len() - 1] / shown[0]).log10();
        let is_decade = |step: &f64| {
            let exponent = step.log10();
            (exponent - exponent.round()).abs() < 1e-9
        };
        let ticks = if decades > 3.0 {
            shown.iter().copied().filter(is_decade).collect()
        } else {
            shown.to_vec()
        };
        let (low, high) = (shown[0], shown[shown.len() - 1]);
        Self { logarithmic: true, low, high, from, to, ticks }
    }

    /// Returns the coordinate of a value, limited to the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            let value = value.max(self.low);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        self.ticks.clone()
    }
}

/// Returns the next of 1, 2, 5 x 10^n.
fn round_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade >= step * 0.999_999);
    digit.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn linear_ends_at_ticks() {
        let scale = Scale::linear(0.0, 93.0, 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!((scale.at(0.0), scale.at(50.0), scale.at(1e9)), (0.0, 50.0, 100.0));
    }

    #[test]
    fn logarithmic_ends_at_one_two_or_five() {
        let scale = Scale::logarithmic(0.001, 1.0, 0.0, 30.0);
        assert!((scale.at(0.01) - 10.0).abs() < 1e-9, "{}", scale.at(0.01));
        let scale = Scale::logarithmic(3_000.0, 90_000.0, 0.0, 1.0);
        let ticks = scale.ticks();
        assert_eq!((ticks[0], ticks[ticks.len() - 1]), (2_000.0, 100_000.0));
        assert_eq!(scale.at(0.0), 0.0, "zero has no logarithm, but a coordinate");
    }

    proptest! {
        #[test]
        fn scales_rise_and_have_few_ticks(
            low in 1e-9..1e9_f64,
            factor in 1.0..1e9_f64,
        ) {
            let high = low * factor;
            for scale in [
                Scale::linear(low, high, 0.0, 100.0),
                Scale::exact(low, high, 0.0, 100.0),
                Scale::logarithmic(low, high, 0.0, 100.0),
            ] {
                prop_assert!(scale.ticks().len() <= 20, "{scale:?}");
                prop_assert!(scale.at(low) <= scale.at(high));
                prop_assert!(scale.ticks().iter().all(|t| (0.0..=100.0).contains(&scale.at(*t))));
            }
        }
    }
}
