//! Distributions as curves (figures 7 to 9 of the paper): the share of frames with a longer delay, on a
//! logarithmic axis, over the delay. The relevant tail takes the most room.

use std::fmt::Write;

use super::scale::Scale;
use super::{Area, Layout, class_of_series, label_room, legend, tick_label};
use crate::figure::{Distribution, DistributionSeries};
use crate::format;
use crate::svg::{Anchor, Svg, short};

/// Above this ratio of the largest to the smallest delay the axis of delays is logarithmic.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Draws distributions.
pub fn distribution(figure: &Distribution, title: &str, layout: Layout) -> String {
    let height = layout.of(360.0, 280.0);
    let (top, bottom) = (12.0, height - 50.0);
    let most = figure.series.iter().map(|series| series.count).max().unwrap_or(0).max(10);
    let y = Scale::logarithmic(1.0 / most as f64, 1.0, bottom, top);
    let labels: Vec<String> = y.ticks().into_iter().map(share_label).collect();
    let left = 22.0 + label_room(labels.iter().map(String::as_str));
    let area = Area { left, top, right: layout.width() - layout.of(24.0, 8.0), bottom };
    let mut svg = Svg::new(layout.width(), height, title);

    let x = delay_axis(figure, area);
    area.horizontal_grid(&mut svg, &y, share_label);
    area.vertical_grid(&mut svg, &x, area.bottom + 18.0, |tick| tick_label(tick, &figure.unit));
    let middle = f64::midpoint(area.left, area.right);
    svg.text("axis", (middle, area.bottom + 40.0), Anchor::Middle, "delay");
    svg.text_upwards(
        "axis",
        (14.0, f64::midpoint(area.top, area.bottom)),
        "share of frames delayed longer",
    );

    for (index, series) in figure.series.iter().enumerate() {
        let class = class_of_series(index);
        let points = curve(series, &x, &y);
        let mut path = String::new();
        for (position, point) in points.iter().enumerate() {
            let command = if position == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{} {}", short(point.0), short(point.1));
        }
        svg.path(&format!("curve {class}"), &path);
        // The longest delay ends the curve.
        if let Some(&(x, y)) = points.last() {
            svg.path(&format!("end {class}"), &format!("M{} {}h0", short(x), short(y)));
        }
    }
    svg.finish()
}

/// Returns the series of a distribution, for the legend of its plot.
pub fn distribution_legend(figure: &Distribution) -> String {
    legend(
        figure
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| (class_of_series(index), legend_text(series, &figure.unit))),
    )
}

fn legend_text(series: &DistributionSeries, unit: &str) -> String {
    match series.max {
        Some(max) => format!("{} (max {})", series.name, format::quantity(max.into(), unit)),
        None => format!("{} (nothing arrived)", series.name),
    }
}

fn delay_axis(figure: &Distribution, area: Area) -> Scale {
    let low = figure.series.iter().filter_map(|series| series.min).min().unwrap_or(0) as f64;
    let high = figure.series.iter().filter_map(|series| series.max).max().unwrap_or(1) as f64;
    if high > LOGARITHMIC_FROM * low.max(1.0) {
        Scale::logarithmic(low.max(1.0), high, area.left, area.right)
    } else {
        Scale::linear(low, high, area.left, area.right)
    }
}

/// Returns the coordinates of the curve's points; coinciding ones are merged.
fn curve(series: &DistributionSeries, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let one = 1.0 / series.count.max(1) as f64;
    let mut points: Vec<(f64, f64)> = series
        .curve
        .iter()
        .map(|&(percentile, value)| {
            // No delay is longer than the longest: it is at the share of one frame.
            (x.at(value as f64), y.at((1.0 - percentile / 100.0).max(one)))
        })
        .collect();
    points.dedup_by(|a, b| (a.0 - b.0).abs() < 0.1 && (a.1 - b.1).abs() < 0.1);
    points
}

/// Formats a share of frames: `1 %`, `0.001 %`.
fn share_label(share: f64) -> String {
    format!("{} %", format::float(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Recorder;

    fn figure() -> Distribution {
        let mut recorder = Recorder::new();
        for (name, factor) in [("idle", 1), ("load", 40)] {
            let phase = recorder.phase(name);
            (1..=100_000_u64).for_each(|i| recorder.record(phase, 10_000 + i % 977 * factor));
        }
        let cut = recorder.phase("cut");
        recorder.lose(cut, 10);
        recorder.figure()
    }

    #[test]
    fn curves_fall_from_all_frames_to_one() {
        let figure = figure();
        let x = Scale::linear(0.0, 50_000.0, 0.0, 100.0);
        let y = Scale::logarithmic(1e-5, 1.0, 100.0, 0.0);
        let points = curve(&figure.series[0], &x, &y);
        assert!(points[0].1.abs() < 1e-6, "begins at 100 %");
        assert!((points[points.len() - 1].1 - 100.0).abs() < 1e-6, "ends at one of 100,000");
        assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1 + 1e-9));
    }

    #[test]
    fn every_series_is_in_the_legend_even_without_a_frame() {
        let legend = distribution_legend(&figure());
        for name in ["idle (max", "load (max", "cut (nothing arrived)"] {
            assert!(legend.contains(name), "{name}");
        }
        assert!(
            Layout::ALL.iter().all(|layout| !distribution(&figure(), "", *layout).contains("NaN"))
        );
    }

    #[test]
    fn shares_are_written_short() {
        assert_eq!(share_label(1.0), "100 %");
        assert_eq!(share_label(1e-3), "0.1 %");
        assert_eq!(share_label(1e-6), "0.0001 %");
    }
}
