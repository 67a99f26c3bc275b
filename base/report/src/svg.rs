//! SVG output: the elements required by plots and pictures, with all text escaped.

use std::fmt::{Display, Write};

/// The alignment of text to its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug)]
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// Creates an image that scales with its page; `title` is the text for screen readers.
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.put(format_args!("<title>{}</title>\n", escape(title)));
        svg
    }

    pub(crate) fn width(&self) -> f64 {
        self.width
    }

    fn put(&mut self, markup: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.body, "{markup}");
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1)
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64) {
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            short(at.0),
            short(at.1),
            short(size.0.max(0.0)),
            short(size.1.max(0.0))
        ));
        if radius > 0.0 {
            self.put(format_args!(" rx=\"{}\"", short(radius)));
        }
        self.put("/>\n");
    }

    /// Adds a path; `d` contains numbers and commands only.
    pub(crate) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            self.put(format_args!("<path class=\"{class}\" d=\"{d}\"/>\n"));
        }
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
            short(at.0),
            short(at.1),
            escape(text)
        ));
    }

    /// Adds text that runs from bottom to top.
    pub(crate) fn text_upwards(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = (short(at.0), short(at.1));
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 {x} {y})\">{}</text>\n",
            escape(text)
        ));
    }

    pub(crate) fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
             height=\"{h}\" role=\"img\">\n{}</svg>\n",
            self.body,
            w = short(self.width),
            h = short(self.height),
        )
    }
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn short(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    // Avoids a negative zero.
    if tenths == 0.0 { "0".into() } else { format!("{tenths}") }
}

/// Escapes text for HTML and XML, in elements and in quoted attributes. Characters that are invalid in XML
/// are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(
            escape("<script>\"a\" & 'b'\u{0}\u{ffff}"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(short(1.0 / 3.0), "0.3");
        assert_eq!(short(12.0), "12");
        assert_eq!(short(-0.01), "0");
    }
}
