//! Values over time. Delays (figure 6 of the paper): a point per frame, phases shaded, losses marked. Loads:
//! lines.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::scale::Scale;
use super::{Area, LETTER, Layout, class_of_series, label_room, legend, text_width, tick_label};
use crate::figure::{PhaseState, Series, TimeSeries};
use crate::format;
use crate::svg::{Anchor, Svg, short};
use crate::table::width;

/// The strip below the plot in which losses are marked.
const STRIP: f64 = 20.0;

/// Maximum length of units shown at each tick; longer ones are shown once above the axis.
const SHORT_UNIT: usize = 3;

/// Above this ratio of the largest to the median value the axis is logarithmic: a linear one would show one
/// spike and a line.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Draws values over time.
pub fn time_series(figure: &TimeSeries, title: &str, layout: Layout) -> String {
    let height = layout.of(320.0, 260.0);
    let unit_above = width(&figure.unit) > SHORT_UNIT;
    let (top, bottom) = (if unit_above { 44.0 } else { 28.0 }, height - 68.0);
    let y = value_axis(figure, bottom, top);
    let unit = if unit_above { "" } else { figure.unit.as_str() };
    let mut labels: Vec<String> =
        y.ticks().into_iter().map(|tick| tick_label(tick, unit)).collect();
    labels.push(lost_text(figure));
    let left = label_room(labels.iter().map(String::as_str));
    let area = Area { left, top, right: layout.width() - layout.of(16.0, 6.0), bottom };
    let mut svg = Svg::new(layout.width(), height, title);

    let x = time_axis(figure, area);
    draw_phases(&mut svg, figure, area, &x, layout);
    if unit_above {
        svg.text("axis", (0.0, 12.0), Anchor::Start, &figure.unit);
    }
    area.horizontal_grid(&mut svg, &y, |tick| tick_label(tick, unit));
    let labels = area.bottom + STRIP + 20.0;
    area.vertical_grid(&mut svg, &x, labels, format::float);
    let middle = f64::midpoint(area.left, area.right);
    svg.text("axis", (middle, labels + 20.0), Anchor::Middle, "time [s]");
    for (index, series) in figure.series.iter().enumerate() {
        let color = class_of_series(index);
        if figure.continuous {
            svg.path(&format!("curve {color}"), &line(series, area, &x, &y));
        } else {
            svg.path(&format!("dots {color}"), &dots(series, area, &x, &y));
        }
    }
    if !figure.continuous {
        draw_losses(&mut svg, figure, area, &x);
    }
    svg.finish()
}

/// Returns the series if there is more than one, for the legend of the plot.
pub fn time_series_legend(figure: &TimeSeries) -> String {
    if figure.series.len() < 2 {
        return String::new();
    }
    legend(
        figure
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| (class_of_series(index), series.name.clone())),
    )
}

/// Returns whether each phase has room for its name; otherwise all have numbers.
pub fn phase_names_fit(figure: &TimeSeries, layout: Layout) -> bool {
    let area = Area { left: 0.0, top: 0.0, right: layout.width() - 80.0, bottom: 0.0 };
    let x = time_axis(figure, area);
    figure
        .phases
        .iter()
        .all(|phase| text_width(&phase.name) + LETTER <= x.at(phase.to_s) - x.at(phase.from_s))
}

fn time_axis(figure: &TimeSeries, area: Area) -> Scale {
    let points = figure.series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let phases = figure.phases.iter().flat_map(|phase| [phase.from_s, phase.to_s]);
    let losses = figure.losses.iter().flat_map(|loss| [loss.from_s, loss.to_s]);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for time in points.chain(phases).chain(losses) {
        (low, high) = (low.min(time), high.max(time));
    }
    if low > high {
        (low, high) = (0.0, 1.0);
    }
    Scale::exact(low, high, area.left, area.right)
}

fn value_axis(figure: &TimeSeries, bottom: f64, top: f64) -> Scale {
    let mut values: Vec<f64> =
        figure.series.iter().flat_map(|series| &series.points).map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
        return Scale::linear(0.0, 1.0, bottom, top);
    };
    let middle = values[values.len() / 2];
    if !figure.continuous && low > 0.0 && high > LOGARITHMIC_FROM * middle {
        Scale::logarithmic(low, high, bottom, top)
    } else {
        Scale::linear(low.min(0.0), high, bottom, top)
    }
}

/// Draws a dot per point; points on the same half pixel are merged.
fn dots(series: &Series, area: Area, x: &Scale, y: &Scale) -> String {
    let half_pixel = |value: f64| (value * 2.0).round() as i64;
    let mut drawn = BTreeSet::new();
    let mut path = String::new();
    for &(time, value) in &series.points {
        let (px, py) = area.clamp((x.at(time), y.at(value)));
        if drawn.insert((half_pixel(px), half_pixel(py))) {
            let _ = write!(path, "M{} {}h0", short(px), short(py));
        }
    }
    path
}

fn line(series: &Series, area: Area, x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    for (at, &(time, value)) in series.points.iter().enumerate() {
        let (px, py) = area.clamp((x.at(time), y.at(value)));
        let command = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{} {}", short(px), short(py));
    }
    path
}

fn draw_phases(svg: &mut Svg, figure: &TimeSeries, area: Area, x: &Scale, layout: Layout) {
    let named = phase_names_fit(figure, layout);
    for (index, phase) in figure.phases.iter().enumerate() {
        let (from, to) = (x.at(phase.from_s), x.at(phase.to_s));
        let class = match phase.state {
            PhaseState::Up => "phase up",
            PhaseState::Degraded => "phase degraded",
            PhaseState::Down => "phase down",
        };
        let height = area.bottom - area.top;
        svg.rect(class, (from, area.top), (to - from, height), 0.0);
        let label = if named { phase.name.clone() } else { (index + 1).to_string() };
        if text_width(&label) <= to - from {
            let at = (f64::midpoint(from, to), area.top - 9.0);
            svg.text("small", at, Anchor::Middle, &label);
        }
    }
}

/// Draws losses as bars in the strip, with their number at its left.
fn draw_losses(svg: &mut Svg, figure: &TimeSeries, area: Area, x: &Scale) {
    let top = area.bottom + STRIP - 11.0;
    svg.rect("strip", (area.left, top), (area.right - area.left, STRIP / 2.0), 0.0);
    for loss in &figure.losses {
        let (from, to) = (x.at(loss.from_s), x.at(loss.to_s));
        // A single lost frame must be visible, too.
        let bar = (to - from).max(2.0);
        let from = from.min(area.right - bar);
        svg.rect("lost", (from, top), (bar, STRIP / 2.0), 0.0);
    }
    let class = if figure.losses.is_empty() { "tick" } else { "tick bad" };
    svg.text(class, (area.left - 8.0, top + 9.0), Anchor::End, &lost_text(figure));
}

fn lost_text(figure: &TimeSeries) -> String {
    let lost: u64 = figure.losses.iter().map(|loss| loss.frames).sum();
    format!("{} lost", format::integer(i64::try_from(lost).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Loss;

    fn figure(frames: u32) -> TimeSeries {
        let point = |i: u32| (f64::from(i) * 1e-3, f64::from(10_000 + i * 7919 % 5000));
        TimeSeries::new("ns").series("control", (0..frames).map(point).collect())
    }

    #[test]
    fn fifty_thousand_frames_stay_small() {
        let svg = time_series(&figure(50_000), "delay", Layout::Wide);
        assert!(svg.len() < 100_000, "{} octets", svg.len());
        let dots = svg.matches("h0").count();
        assert!((1000..=crate::figure::MAX_POINTS).contains(&dots), "{dots} dots");
    }

    #[test]
    fn a_single_loss_is_visible() {
        let loss = Loss { from_s: 0.5, to_s: 0.5, frames: 1 };
        let svg = time_series(&figure(1000).losses(vec![loss]), "delay", Layout::Wide);
        let bar = svg.lines().find(|line| line.contains("class=\"lost\"")).expect("a bar");
        assert!(bar.contains("width=\"2\""), "{bar}");
        assert!(svg.contains(">1 lost<"));
    }

    #[test]
    fn phases_are_shaded_and_named_or_numbered() {
        let figure = figure(1000).phase("both paths up", 0.0, 0.9, PhaseState::Up).phase(
            "a name much too long for a tenth",
            0.9,
            1.0,
            PhaseState::Degraded,
        );
        let svg = time_series(&figure, "delay", Layout::Wide);
        assert!(svg.contains("phase up") && svg.contains("phase degraded"));
        assert!(!svg.contains("both paths up") && !svg.contains("much too long"));
        assert!(svg.contains(">1</text>"), "the first has room for its number");
        assert!(!phase_names_fit(&figure, Layout::Wide));
        let roomy = self::figure(1000).phase("both paths up", 0.0, 0.9, PhaseState::Up);
        assert!(phase_names_fit(&roomy, Layout::Narrow));
        assert!(time_series(&roomy, "delay", Layout::Narrow).contains("both paths up"));
    }

    #[test]
    fn loads_are_lines_without_losses() {
        let points = vec![(0.0, 1.0), (1.0, 40.0), (2.0, 2.0)];
        let figure = TimeSeries::continuous("%").series("a", points);
        let svg = time_series(&figure, "load", Layout::Wide);
        let path = svg.lines().find(|line| line.contains("<path class=\"curve")).expect(&svg);
        assert_eq!(path.matches('L').count(), 2, "{path}");
        assert!(!svg.contains("lost") && !svg.contains("dots"), "{svg}");
        let json = serde_json::to_value(&figure).unwrap();
        assert_eq!(json["continuous"], true);
        assert!(serde_json::to_value(TimeSeries::new("ns")).unwrap().get("continuous").is_none());
    }

    #[test]
    fn an_empty_series_is_drawn() {
        let svg = time_series(&TimeSeries::new("ns"), "delay", Layout::Wide);
        assert!(svg.contains(">0 lost<") && !svg.contains("NaN"));
    }
}
