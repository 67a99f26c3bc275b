//! Ratios to a limit as bars.

use super::scale::Scale;
use super::{Area, LETTER, Layout, text_width};
use crate::figure::{Ratio, Spread};
use crate::format;
use crate::svg::{Anchor, Svg};
use crate::table::wrap;

const BAR: f64 = 16.0;
/// Height of a line of text.
const TEXT: f64 = 17.0;
/// Width of a letter of a name, which is larger than small text.
const NAME_LETTER: f64 = 1.3 * LETTER;

/// The label of a bar, in lines above it.
struct Label {
    name: Vec<String>,
    text: Vec<String>,
}

impl Label {
    fn new(name: &str, ratio: &Ratio, room: f64) -> Self {
        let text = format!(
            "{} of {} ({})",
            format::quantity(ratio.value, &ratio.unit),
            format::quantity(ratio.limit, &ratio.unit),
            ratio.limit_name
        );
        let columns = |letter: f64| ((room / letter) as usize).max(1);
        Self { name: wrap(name, columns(NAME_LETTER)), text: wrap(&text, columns(LETTER)) }
    }

    fn height(&self) -> f64 {
        TEXT * (self.name.len() + self.text.len()) as f64
    }
}

/// Draws ratios by name, one bar each, with the limit as a line at 100 %.
pub fn ratios(figures: &[(&str, &Ratio)], title: &str, layout: Layout) -> String {
    let (left, right) = (layout.of(16.0, 4.0), layout.width() - layout.of(40.0, 20.0));
    let labels: Vec<Label> =
        figures.iter().map(|(name, ratio)| Label::new(name, ratio, right - left)).collect();
    let gap = 12.0;
    let heights: f64 = labels.iter().map(|label| label.height() + BAR + gap).sum();
    let area = Area { left, top: 12.0, right, bottom: 12.0 + heights };
    let mut svg = Svg::new(layout.width(), area.bottom + 46.0, title);

    let reach = figures.iter().map(|(_, ratio)| reach(ratio)).fold(1.0, f64::max);
    let x = Scale::linear(0.0, reach, area.left, area.right);
    area.vertical_grid(&mut svg, &x, area.bottom + 18.0, |tick| {
        format!("{} %", format::float(tick * 100.0))
    });
    let middle = f64::midpoint(area.left, area.right);
    svg.text("axis", (middle, area.bottom + 38.0), Anchor::Middle, "of the limit");

    let mut top = area.top;
    for ((_, ratio), label) in figures.iter().zip(&labels) {
        let names = label.name.iter().map(|line| ("strong halo", line));
        for (class, line) in names.chain(label.text.iter().map(|line| ("small halo", line))) {
            svg.text(class, (area.left, top + 13.0), Anchor::Start, line);
            top += TEXT;
        }
        draw_bar(&mut svg, ratio, &x, top);
        top += BAR + gap;
    }
    let limit = x.at(1.0);
    svg.line("limit", (limit, area.top - 8.0), (limit, area.bottom));
    svg.finish()
}

fn reach(ratio: &Ratio) -> f64 {
    let spread = match &ratio.spread {
        Some(Spread::Runs { max, .. }) => max.as_f64(),
        Some(Spread::Interval { high, .. }) => high.as_f64(),
        None => 0.0,
    };
    let values = [ratio.ratio.as_f64(), spread];
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max)
}

fn draw_bar(svg: &mut Svg, ratio: &Ratio, x: &Scale, top: f64) {
    let value = ratio.ratio.as_f64();
    let begin = x.at(0.0);
    if !value.is_finite() {
        svg.text("small", (begin + 6.0, top + 12.0), Anchor::Start, "not measured");
        return;
    }
    let end = x.at(value);
    svg.rect("bar", (begin, top), (end - begin, BAR), 2.0);
    let mut beyond = end;
    let whisker = match &ratio.spread {
        Some(Spread::Runs { min, max, .. }) => Some((min, max)),
        Some(Spread::Interval { low, high, .. }) => Some((low, high)),
        None => None,
    };
    if let Some((low, high)) = whisker {
        let (low, high, middle) = (x.at(low.as_f64()), x.at(high.as_f64()), top + BAR / 2.0);
        svg.line("whisker", (low, middle), (high, middle));
        for x in [low, high] {
            svg.line("whisker", (x, top + 3.0), (x, top + BAR - 3.0));
        }
        beyond = beyond.max(high);
    }
    // Inside the bar if there is room, to avoid the line of the limit.
    let text = format::percent(value);
    let text_width = text_width(&text);
    let room = text_width + 12.0;
    let inside = whisker.map_or(end, |(low, _)| x.at(low.as_f64()).min(end));
    if inside - begin > room {
        svg.text("on-bar", (inside - 8.0, top + 12.0), Anchor::End, &text);
    } else {
        let at = (beyond + 6.0).min(svg.width() - text_width);
        svg.text("small halo", (at, top + 12.0), Anchor::Start, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_has_a_bar_and_the_limit_a_line() {
        let fast = Ratio::of_runs("frames/s", &[(9e5, 1e6), (9.1e5, 1e6)], "plain redirect");
        let none = Ratio::new("frames/s", 0_u64, 0_u64, "plain redirect");
        let svg = ratios(&[("1 stream", &fast), ("broken", &none)], "bench", Layout::Wide);
        assert_eq!(svg.matches("class=\"bar\"").count(), 1);
        assert_eq!(svg.matches("class=\"limit\"").count(), 1);
        assert!(svg.contains("not measured") && !svg.contains("NaN"));
        assert!(svg.contains("90.5 %"), "{svg}");
    }

    #[test]
    fn a_bar_above_the_limit_fits() {
        let slow = Ratio::new("ns", 3000_u64, 1000_u64, "plain redirect");
        let svg = ratios(&[("delay", &slow)], "bench", Layout::Narrow);
        assert!(svg.contains(">300 %<") || svg.contains("300.0 %"), "{svg}");
    }
}
