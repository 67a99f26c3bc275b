//! Plots as SVG. The style sheet of the report defines colors and fonts.

mod curves;
mod ratios;
mod scale;
mod sweep;
mod time;

pub use curves::{distribution, distribution_legend};
pub use ratios::ratios;
pub use sweep::{sweep, sweep_legend};
pub use time::{phase_names_fit, time_series, time_series_legend};

use crate::format;
use crate::number::Number;
use crate::svg::{Anchor, Svg, escape};
use crate::table::width;
use crate::topology::Color;
use scale::Scale;

/// The width of a picture. A page contains each picture in both widths and shows the one that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A desktop window.
    Wide,
    /// A phone.
    Narrow,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Returns the class of the picture in a page.
    pub fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }

    /// Returns the width in units of the image, in which small letters are 12 high.
    pub(crate) fn width(self) -> f64 {
        match self {
            Self::Wide => 800.0,
            Self::Narrow => 320.0,
        }
    }

    /// Returns `wide` or `narrow`, depending on the layout.
    fn of(self, wide: f64, narrow: f64) -> f64 {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}

/// Mean width of a letter of the small text, in units of the image.
const LETTER: f64 = 7.2;

/// The rectangle of the values.
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

    /// Labels stay within the image; a label that would touch the previous one is omitted.
    fn vertical_grid(self, svg: &mut Svg, scale: &Scale, y: f64, label: impl Fn(f64) -> String) {
        let mut taken = f64::NEG_INFINITY;
        for tick in scale.ticks() {
            let x = scale.at(tick);
            svg.line("grid", (x, self.top), (x, self.bottom));
            let label = label(tick);
            let half = text_width(&label) / 2.0;
            let middle = x.clamp(half, (svg.width() - half).max(half));
            if middle - half > taken {
                svg.text("tick", (middle, y), Anchor::Middle, &label);
                taken = middle + half + LETTER;
            }
        }
    }
}

/// Returns the width of a small text, based on DejaVu Sans, which has wide letters.
pub(crate) fn text_width(text: &str) -> f64 {
    let letter = |c: char| match c {
        ' ' | ',' | '.' | ':' | ';' | '\'' | '|' | 'i' | 'j' | 'l' | 't' | 'f' | 'r' | '('
        | ')' => 5.0,
        '%' | 'm' | 'w' | 'M' | 'W' | '@' => 11.8,
        c => 7.8 * width(c.encode_utf8(&mut [0; 4])) as f64,
    };
    text.chars().map(letter).sum()
}

/// Returns the room for the labels of a vertical axis, with a gap.
fn label_room<'a>(labels: impl IntoIterator<Item = &'a str>) -> f64 {
    labels.into_iter().map(text_width).fold(0.0, f64::max) + 10.0
}

/// Formats a value on an axis, without trailing zeros: `20 µs`.
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

/// Returns the class of the series with this index: when colors repeat, lines are dashed and dots faint.
fn class_of_series(index: usize) -> String {
    let color = Color::of_series(index).class();
    if index < Color::ALL.len() { color.into() } else { format!("{color} again") }
}

/// Returns the names of series with their appearance, as a list in HTML.
pub(crate) fn legend(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let entry = |(class, name): (String, String)| {
        format!(
            "<li><svg class=\"key\" viewBox=\"0 0 18 8\" width=\"18\" height=\"8\" aria-hidden=\"true\">\
             <line class=\"curve {class}\" x1=\"1\" y1=\"4\" x2=\"17\" y2=\"4\"/></svg>{}</li>\n",
            escape(&name)
        )
    };
    let entries: String = entries.into_iter().map(entry).collect();
    if entries.is_empty() { entries } else { format!("<ul class=\"legend\">\n{entries}</ul>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_distinguishable_when_colors_repeat() {
        let classes: Vec<String> = (0..2 * Color::ALL.len()).map(class_of_series).collect();
        assert!((1..classes.len()).all(|place| !classes[..place].contains(&classes[place])));
    }

    #[test]
    fn labels_do_not_touch_each_other_and_stay_in_the_image() {
        let area = Area { left: 30.0, top: 0.0, right: 200.0, bottom: 50.0 };
        let mut svg = Svg::new(200.0, 70.0, "");
        let scale = Scale::exact(0.0, 80_000.0, area.left, area.right);
        area.vertical_grid(&mut svg, &scale, 60.0, |tick| format!("{tick:.0} frames/s"));
        let svg = svg.finish();
        let texts = svg.lines().filter(|line| line.starts_with("<text"));
        let spans: Vec<(f64, f64)> = texts
            .map(|line| {
                let x = line.split(" x=\"").nth(1).unwrap().split('"').next().unwrap();
                let text = line.split('>').nth(1).unwrap().split('<').next().unwrap();
                let (x, half) = (x.parse::<f64>().unwrap(), text_width(text) / 2.0);
                (x - half, x + half)
            })
            .collect();
        assert!(spans.len() > 1 && spans.len() < scale.ticks().len(), "{spans:?}");
        assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
        assert!(spans.iter().all(|span| span.0 >= -0.1 && span.1 <= 200.1), "{spans:?}");
    }

    #[test]
    fn tick_labels_have_no_trailing_zeros() {
        assert_eq!(tick_label(20_000.0, "ns"), "20 µs");
        assert_eq!(tick_label(1_500_000.0, "ns"), "1.5 ms");
        assert_eq!(tick_label(0.0, "ns"), "0");
        assert_eq!(tick_label(100.0, "ns"), "100 ns");
        assert_eq!(tick_label(2000.0, "frames/s"), "2,000 frames/s");
        assert_eq!(tick_label(1000.0, ""), "1,000");
    }
}
