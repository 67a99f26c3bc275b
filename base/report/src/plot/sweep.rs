//! Values by a parameter as lines, with a standard deviation of each value as a whisker.

use std::fmt::Write;

use super::scale::Scale;
use super::{Area, Layout, class_of_series, label_room, legend, tick_label};
use crate::figure::{Sweep, SweepPoint};
use crate::svg::{Anchor, Svg, short};

/// Half the width of the ends of a whisker.
const END: f64 = 3.0;

/// Draws a sweep.
pub fn sweep(figure: &Sweep, title: &str, layout: Layout) -> String {
    let height = layout.of(320.0, 260.0);
    let (top, bottom) = (12.0, height - 50.0);
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let highest = points().map(|point| bounds(point).1).filter(|value| value.is_finite());
    let y = Scale::linear(0.0, highest.fold(0.0, f64::max), bottom, top);
    let label = |tick| tick_label(tick, &figure.unit);
    let labels: Vec<String> = y.ticks().into_iter().map(label).collect();
    let left = layout.of(12.0, 4.0) + label_room(labels.iter().map(String::as_str));
    let area = Area { left, top, right: layout.width() - layout.of(24.0, 8.0), bottom };
    let last = points().map(|point| point.at.as_f64()).fold(0.0, f64::max);
    let x = Scale::linear(0.0, last, area.left, area.right);
    let mut svg = Svg::new(layout.width(), height, title);
    area.horizontal_grid(&mut svg, &y, label);
    area.vertical_grid(&mut svg, &x, area.bottom + 18.0, |tick| {
        tick_label(tick, &figure.parameter.unit)
    });
    let middle = f64::midpoint(area.left, area.right);
    svg.text("axis", (middle, area.bottom + 40.0), Anchor::Middle, &figure.parameter.name);
    for (index, series) in figure.series.iter().enumerate() {
        let class = class_of_series(index);
        let mut path = String::new();
        for point in series.points.iter().filter(|point| point.mean.as_f64().is_finite()) {
            let at = (x.at(point.at.as_f64()), y.at(point.mean.as_f64()));
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{} {}", short(at.0), short(at.1));
            svg.path(&format!("end {class}"), &format!("M{} {}h0", short(at.0), short(at.1)));
            draw_whisker(&mut svg, at.0, point, &y);
        }
        svg.path(&format!("curve {class}"), &path);
    }
    svg.finish()
}

/// Returns the series of a sweep, for the legend of its plot.
pub fn sweep_legend(figure: &Sweep) -> String {
    let series = figure.series.iter().enumerate();
    legend(series.map(|(index, series)| (class_of_series(index), series.name.clone())))
}

/// Returns the mean less and plus a standard deviation.
fn bounds(point: &SweepPoint) -> (f64, f64) {
    let (mean, deviation) = (point.mean.as_f64(), point.deviation.unwrap_or(0.0));
    (mean - deviation, mean + deviation)
}

fn draw_whisker(svg: &mut Svg, x: f64, point: &SweepPoint, y: &Scale) {
    if point.deviation.is_none() {
        return;
    }
    let (low, high) = bounds(point);
    let (low, high) = (y.at(low), y.at(high));
    svg.line("whisker", (x, low), (x, high));
    for end in [low, high] {
        svg.line("whisker", (x - END, end), (x + END, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn each_value_of_several_runs_has_a_whisker() {
        let runs = [[1.0, 3.0], [5.0, 9.0]];
        let points = (1_u64..).zip(&runs).map(|(at, values)| (Number::from(at), &values[..]));
        let figure = Sweep::new(("rate", "packets/s"), "%")
            .runs("a", points)
            .runs("nothing", [(Number::from(1_u64), &[][..])])
            .published("b", [(Number::from(2_u64), 40.0)]);
        for layout in Layout::ALL {
            let svg = sweep(&figure, "", layout);
            assert_eq!(svg.matches("class=\"whisker\"").count(), 3 * 2, "{svg}");
            assert!(!svg.contains("NaN") && svg.contains(">40 %<"), "{svg}");
        }
        let legend = sweep_legend(&figure);
        assert!(["a", "b", "nothing"].iter().all(|name| legend.contains(&format!("{name}</li>"))));
    }
}
