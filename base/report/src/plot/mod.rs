//! Plots as SVG. Their colours and letters come from the style sheet of the report.

mod curves;
mod ratios;
mod scale;
mod time;

pub use curves::distribution;
pub use ratios::ratios;
pub use time::time_series;

use crate::format;
use crate::number::Number;
use crate::svg::{Anchor, Svg};
use crate::table::width;
use crate::topology::Colour;
use scale::Scale;

const WIDTH: f64 = 860.0;
/// Width of a letter of the small text, in the units of the image: an upper estimate.
const LETTER: f64 = 6.6;

/// The rectangle in which values are drawn.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn clamp(self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    fn horizontal_grid(self, svg: &mut Svg, scale: &Scale, label: impl Fn(f64) -> String) {
        for tick in scale.ticks() {
            let y = scale.at(tick);
            svg.line("grid", (self.left, y), (self.right, y));
            svg.text("tick", (self.left - 8.0, y + 4.0), Anchor::End, &label(tick));
        }
    }

    fn vertical_grid(self, svg: &mut Svg, scale: &Scale, y: f64, label: impl Fn(f64) -> String) {
        for tick in scale.ticks() {
            let x = scale.at(tick);
            svg.line("grid", (x, self.top), (x, self.bottom));
            svg.text("tick", (x, y), Anchor::Middle, &label(tick));
        }
    }
}

/// A value on an axis, without the zeros that a table would show: `20 µs`.
fn tick_label(value: f64, unit: &str) -> String {
    let text = format::quantity(Number::Float(value), unit);
    let (number, unit) = text.split_once(' ').map_or((text.as_str(), None), |(n, u)| (n, Some(u)));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    match unit {
        Some(_) if number == "0" => "0".into(),
        Some(unit) => format!("{number} {unit}"),
        None => number.into(),
    }
}

/// What the series with this index looks like: where colours repeat, lines are dashed and dots faint.
fn class_of_series(index: usize) -> String {
    let colour = Colour::of_series(index).class();
    if index < Colour::ALL.len() { colour.into() } else { format!("{colour} again") }
}

/// Lines and names below a plot, as many beside each other as fit: class and name of each. Returns
/// their height.
fn legend(svg: &mut Svg, area: Area, top: f64, entries: &[(String, String)]) -> f64 {
    let (mut x, mut y) = (area.left, top);
    for (class, name) in entries {
        let entry_width = 34.0 + LETTER * width(name) as f64;
        if x > area.left && x + entry_width > area.right {
            (x, y) = (area.left, y + LEGEND_LINE);
        }
        svg.line(&format!("curve {class}"), (x, y - 4.0), (x + 18.0, y - 4.0));
        svg.text("small", (x + 24.0, y), Anchor::Start, name);
        x += entry_width + 16.0;
    }
    y + LEGEND_LINE - top
}

/// Height of the legend that [`legend`] will draw.
fn legend_height(area: Area, entries: &[(String, String)]) -> f64 {
    legend(&mut Svg::new(0.0, 0.0, ""), area, 0.0, entries)
}

const LEGEND_LINE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_can_be_told_apart_where_colours_repeat() {
        let classes: Vec<String> = (0..2 * Colour::ALL.len()).map(class_of_series).collect();
        assert!((1..classes.len()).all(|place| !classes[..place].contains(&classes[place])));
    }

    #[test]
    fn tick_labels_have_no_idle_zeros() {
        assert_eq!(tick_label(20_000.0, "ns"), "20 µs");
        assert_eq!(tick_label(1_500_000.0, "ns"), "1.5 ms");
        assert_eq!(tick_label(0.0, "ns"), "0");
        assert_eq!(tick_label(100.0, "ns"), "100 ns");
        assert_eq!(tick_label(2000.0, "frames/s"), "2,000 frames/s");
        assert_eq!(tick_label(1000.0, ""), "1,000");
    }
}
