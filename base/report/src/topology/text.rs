//! The network in box-drawing characters.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Color, Link, LinkState, Topology};
use crate::table::{printable, width};

// Directions of the lines of a cell.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;
const LINES: [char; 16] =
    [' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼'];

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    lines: u8,
    broken: bool,
    text: Option<char>,
    color: Option<Color>,
}

#[derive(Debug, Default)]
struct Canvas {
    cells: BTreeMap<(usize, usize), Cell>,
}

/// A box: left, top, right and bottom line.
#[derive(Debug, Clone, Copy)]
struct Frame {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

impl Frame {
    fn middle(self) -> (usize, usize) {
        (self.left.midpoint(self.right), self.top.midpoint(self.bottom))
    }
}

#[derive(Debug, Clone, Copy)]
struct Pen {
    broken: bool,
    color: Option<Color>,
}

impl Canvas {
    fn cell(&mut self, x: usize, y: usize) -> &mut Cell {
        self.cells.entry((y, x)).or_default()
    }

    fn line(&mut self, x: usize, y: usize, lines: u8, pen: Pen) {
        let cell = self.cell(x, y);
        // Where lines meet, the first one (that of a box) determines the color.
        if cell.lines == 0 {
            cell.color = pen.color;
        }
        cell.lines |= lines;
        cell.broken |= pen.broken;
    }

    fn horizontal(&mut self, x: (usize, usize), y: usize, pen: Pen) {
        let (from, to) = (x.0.min(x.1), x.0.max(x.1));
        for x in from..to {
            self.line(x, y, RIGHT, pen);
            self.line(x + 1, y, LEFT, pen);
        }
    }

    fn vertical(&mut self, x: usize, y: (usize, usize), pen: Pen) {
        let (from, to) = (y.0.min(y.1), y.0.max(y.1));
        for y in from..to {
            self.line(x, y, DOWN, pen);
            self.line(x, y + 1, UP, pen);
        }
    }

    fn frame(&mut self, frame: Frame) {
        let pen = Pen { broken: false, color: None };
        for y in [frame.top, frame.bottom] {
            self.horizontal((frame.left, frame.right), y, pen);
        }
        for x in [frame.left, frame.right] {
            self.vertical(x, (frame.top, frame.bottom), pen);
        }
    }

    fn text(&mut self, x: usize, y: usize, text: &[(char, Option<Color>)]) {
        let mut x = x;
        for &(letter, color) in text {
            let cell = self.cell(x, y);
            (cell.text, cell.color) = (Some(letter), color);
            x += width(letter.encode_utf8(&mut [0; 4])).max(1);
        }
    }

    fn render(&self, colors: bool) -> String {
        let mut out = String::new();
        let (mut row, mut column) = (0, 0);
        let mut current = None;
        let mut switch = |out: &mut String, color: Option<Color>| {
            if colors && color != current {
                let _ = write!(out, "\x1b[{}m", color.map_or(0, Color::sgr));
                current = color;
            }
        };
        for (&(y, x), cell) in &self.cells {
            if y > row {
                switch(&mut out, None);
                out.push_str(&"\n".repeat(y - row));
                (row, column) = (y, 0);
            }
            let glyph = cell.text.unwrap_or_else(|| glyph(*cell));
            if x < column {
                continue; // the second half of a wide letter
            }
            if x > column {
                switch(&mut out, None);
                out.push_str(&" ".repeat(x - column));
            }
            column = x + width(glyph.encode_utf8(&mut [0; 4])).max(1);
            switch(&mut out, cell.color);
            out.push(glyph);
        }
        switch(&mut out, None);
        let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }
}

fn glyph(cell: Cell) -> char {
    match (LINES[usize::from(cell.lines & 15)], cell.broken) {
        ('─', true) => '╌',
        ('│', true) => '╎',
        (line, _) => line,
    }
}

pub(super) fn draw(network: &Topology, colors: bool) -> String {
    if network.nodes.is_empty() {
        return String::new();
    }
    let marks = stream_marks(network);
    let ports = Ports::new(network);
    let frames = place(network, &ports, &marks);
    let mut canvas = Canvas::default();
    for frame in &frames {
        canvas.frame(*frame);
    }
    for (index, link) in network.links.iter().enumerate() {
        draw_link(&mut canvas, network, index, link, &ports, &frames, &marks);
    }
    for (node, frame) in network.nodes.iter().zip(&frames) {
        let lines: Vec<&str> =
            [node.name.as_str(), &node.detail].into_iter().filter(|l| !l.is_empty()).collect();
        let top = frame.middle().1 - lines.len() / 2;
        for (offset, line) in lines.iter().enumerate() {
            let line = printable(line);
            let room = frame.right - frame.left - 1;
            let x = frame.left + 1 + (room - width(&line)) / 2;
            let letters: Vec<_> = line.chars().map(|letter| (letter, None)).collect();
            canvas.text(x, top + offset, &letters);
        }
    }
    canvas.render(colors) + &legend(network, &marks, colors)
}

/// Returns a letter per stream, if there is more than one: its first letter, or a number.
fn stream_marks(network: &Topology) -> Vec<char> {
    if network.streams.len() < 2 {
        return Vec::new();
    }
    let firsts: Vec<Option<char>> =
        network.streams.iter().map(|stream| printable(&stream.name).chars().next()).collect();
    let unique = |c: &char| firsts.iter().filter(|first| **first == Some(*c)).count() == 1;
    let number = |index: usize| {
        u32::try_from(index + 1).ok().and_then(|n| char::from_digit(n, 36)).unwrap_or('*')
    };
    let mark = |(index, first): (usize, &Option<char>)| {
        first.filter(|c| unique(c) && c.is_alphabetic()).unwrap_or_else(|| number(index))
    };
    firsts.iter().enumerate().map(mark).collect()
}

fn legend(network: &Topology, marks: &[char], colors: bool) -> String {
    let mut parts = Vec::new();
    for (stream, mark) in network.streams.iter().zip(marks) {
        let name = printable(&stream.name);
        parts.push(if colors {
            format!("\x1b[{}m{mark} {name}\x1b[0m", stream.color.sgr())
        } else {
            format!("{mark} {name}")
        });
    }
    if network.links.iter().any(|link| link.state == LinkState::Down) {
        parts.push("╳ cut".into());
    }
    if parts.is_empty() { String::new() } else { format!("\n{}\n", parts.join("   ")) }
}

/// Returns the inscription of a link: `╳` if it is cut, its label, its streams.
fn inscription(network: &Topology, link: &Link, marks: &[char]) -> Vec<(char, Option<Color>)> {
    let mut text: Vec<(char, Option<Color>)> = Vec::new();
    let mut part = |letters: Vec<(char, Option<Color>)>| {
        if !text.is_empty() && !letters.is_empty() {
            text.push((' ', None));
        }
        text.extend(letters);
    };
    if link.state == LinkState::Down {
        part(vec![('╳', Some(Color::Red))]);
    }
    part(printable(&link.label).chars().map(|letter| (letter, None)).collect());
    let on_link = network.streams.iter().zip(marks);
    let on_link = on_link.filter(|(stream, _)| link.streams.contains(&stream.name));
    part(on_link.map(|(stream, mark)| (*mark, Some(stream.color))).collect());
    text
}

fn inscription_width(network: &Topology, link: &Link, marks: &[char]) -> usize {
    let text: String = inscription(network, link, marks).iter().map(|part| part.0).collect();
    width(&text)
}

/// Positions of links at their nodes: for each link and end, the distance from the middle of the side.
#[derive(Debug)]
struct Ports {
    offsets: Vec<[isize; 2]>,
    /// Room required on the sides of a node: half the height, half the width.
    half_height: Vec<usize>,
    half_width: Vec<usize>,
    /// Each bent link has a separate vertical line; numbered within the gap right of a column.
    lanes: BTreeMap<usize, (u16, usize)>,
    lanes_in_gap: BTreeMap<u16, usize>,
}

impl Ports {
    fn new(network: &Topology) -> Self {
        // Sides: 0 left, 1 right, 2 top, 3 bottom. Ends: (row of the other node, link, which end).
        type Ends = Vec<(u16, usize, usize)>;
        let mut sides: BTreeMap<(usize, u8), Ends> = BTreeMap::new();
        let mut ports = Self {
            offsets: vec![[0; 2]; network.links.len()],
            half_height: vec![0; network.nodes.len()],
            half_width: vec![0; network.nodes.len()],
            lanes: BTreeMap::new(),
            lanes_in_gap: BTreeMap::new(),
        };
        for (index, link) in network.links.iter().enumerate() {
            let Some((a, b)) = network.ends(link) else { continue };
            let (from, to) = (&network.nodes[a], &network.nodes[b]);
            let (side_a, side_b) = if from.column == to.column { (3, 2) } else { (1, 0) };
            sides.entry((a, side_a)).or_default().push((to.row, index, 0));
            sides.entry((b, side_b)).or_default().push((from.row, index, 1));
            if from.column != to.column && from.row != to.row {
                let used = ports.lanes_in_gap.entry(from.column).or_default();
                ports.lanes.insert(index, (from.column, *used));
                *used += 1;
            }
        }
        for ((node, side), mut ends) in sides {
            ends.sort_unstable();
            let reach = ends.len() - 1;
            for (position, (_, link, end)) in ends.into_iter().enumerate() {
                ports.offsets[link][end] = 2 * position as isize - reach as isize;
            }
            let half = if side < 2 { &mut ports.half_height } else { &mut ports.half_width };
            half[node] = half[node].max(reach);
        }
        ports
    }
}

/// Places the boxes of all nodes: every column is as wide and every row as high as its largest node.
fn place(network: &Topology, ports: &Ports, marks: &[char]) -> Vec<Frame> {
    let mut half_widths: BTreeMap<u16, usize> = BTreeMap::new();
    let mut half_heights: BTreeMap<u16, usize> = BTreeMap::new();
    for (index, node) in network.nodes.iter().enumerate() {
        let text = width(&printable(&node.name)).max(width(&printable(&node.detail)));
        let half = (text / 2 + 2).max(ports.half_width[index] + 2);
        let entry = half_widths.entry(node.column).or_default();
        *entry = half.max(*entry);
        let lines = usize::from(!node.detail.is_empty());
        let entry = half_heights.entry(node.row).or_default();
        *entry = (ports.half_height[index].max(lines) + 1).max(*entry);
    }

    // The inscriptions of links determine the distances of columns and rows.
    let mut gaps: BTreeMap<u16, usize> = BTreeMap::new();
    let mut row_gap = 1;
    for link in &network.links {
        let Some((a, b)) = network.ends(link) else { continue };
        let text = inscription_width(network, link, marks);
        let (from, to) = (&network.nodes[a], &network.nodes[b]);
        if from.column == to.column {
            row_gap = 3;
            let beside = gaps.entry(from.column).or_default();
            *beside = (*beside).max((text + 2).saturating_sub(half_widths[&from.column]));
        } else {
            let lanes = ports.lanes_in_gap.get(&from.column).copied().unwrap_or(0);
            let padding = if text > 0 { text + 6 } else { 6 };
            let gap = gaps.entry(from.column).or_default();
            *gap = (*gap).max(padding + 2 * lanes);
        }
    }

    let mut center_x = BTreeMap::new();
    let mut next = 0;
    for (column, half) in &half_widths {
        center_x.insert(*column, next + half);
        next += 2 * half + 1 + gaps.get(column).copied().unwrap_or(3);
    }
    let mut center_y = BTreeMap::new();
    let mut next = 0;
    for (row, half) in &half_heights {
        center_y.insert(*row, next + half);
        next += 2 * half + 1 + row_gap;
    }
    let frame = |(index, node): (usize, &super::Node)| {
        let (x, y) = (center_x[&node.column], center_y[&node.row]);
        let half_width = half_widths[&node.column];
        let lines = usize::from(!node.detail.is_empty());
        let half_height = ports.half_height[index].max(lines) + 1;
        Frame {
            left: x - half_width,
            right: x + half_width,
            top: y - half_height,
            bottom: y + half_height,
        }
    };
    network.nodes.iter().enumerate().map(frame).collect()
}

fn draw_link(
    canvas: &mut Canvas,
    network: &Topology,
    index: usize,
    link: &Link,
    ports: &Ports,
    frames: &[Frame],
    marks: &[char],
) {
    let Some((a, b)) = network.ends(link) else { return };
    let color = match network.colors_of(link).as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let broken = link.state == LinkState::Down;
    let pen = Pen { broken, color: if broken { Some(Color::Red) } else { color } };
    let text = inscription(network, link, marks);
    let padded = |text: &[(char, Option<Color>)]| {
        let mut padded = vec![(' ', None)];
        padded.extend_from_slice(text);
        padded.push((' ', None));
        padded
    };
    let (from, to) = (frames[a], frames[b]);
    let [offset_a, offset_b] = ports.offsets[index];

    if network.nodes[a].column == network.nodes[b].column {
        let x = from.middle().0.saturating_add_signed(offset_a);
        canvas.vertical(x, (from.bottom, to.top), pen);
        if !text.is_empty() {
            canvas.text(x + 2, from.bottom.midpoint(to.top), &text);
        }
        return;
    }
    let y_a = from.middle().1.saturating_add_signed(offset_a);
    let y_b = to.middle().1.saturating_add_signed(offset_b);
    // A straight link has its inscription in the middle, a bent one after the verticals of its gap.
    let mut label_from = from.right;
    if y_a == y_b {
        canvas.horizontal((from.right, to.left), y_a, pen);
    } else {
        let (column, lane) = ports.lanes.get(&index).copied().unwrap_or((0, 0));
        let x = (from.right + 2 + 2 * lane).min(to.left - 1);
        canvas.horizontal((from.right, x), y_a, pen);
        canvas.vertical(x, (y_a, y_b), pen);
        canvas.horizontal((x, to.left), y_b, pen);
        let lanes = ports.lanes_in_gap.get(&column).copied().unwrap_or(0);
        label_from = from.right + 2 * lanes;
    }
    if !text.is_empty() {
        let text = padded(&text);
        let room = to.left.saturating_sub(label_from + 1);
        let x = label_from + 1 + room.saturating_sub(text.len()) / 2;
        canvas.text(x, y_b, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{diamond, ladder, two_paths};
    use super::*;

    #[test]
    fn two_parallel_paths() {
        let expected = "
             ┌─────────────┐              ┌─────────────┐
┌─────┐      │      A      ├╌╌ ╳ path 1 ╌╌┤      B      │      ┌─────┐
│ pc1 ├──────┤ replicates  │              │ eliminates  ├──────┤ pc2 │
└─────┘      │             ├─── path 2 ───┤             │      └─────┘
             └─────────────┘              └─────────────┘

╳ cut
";
        assert_eq!(format!("\n{}", two_paths().text(false)), expected);
    }

    #[test]
    fn a_ladder_with_rungs_and_streams() {
        let expected = "
┌───┐         ┌───┐         ┌───┐
│ A ├── rgb ──┤ B ├── rg ───┤ D │
└─┬─┘         └─┬─┘         └─┬─┘
  │             ╎             │
  │ gb          ╎ ╳ cut rgb   │ rg
  │             ╎             │
┌─┴─┐         ┌─┴─┐         ┌─┴─┐
│ C ├── gb ───┤ E ├── rg ───┤ F │
└───┘         └───┘         └───┘

r red   g green   b blue   ╳ cut
";
        assert_eq!(format!("\n{}", ladder().text(false)), expected);
    }

    #[test]
    fn links_between_rows_bend() {
        let text = diamond().text(false);
        for part in ["├─┘", "├───┐", "└── b ──┤", "┌──── a ──┤", "├─┐", "└──── c ──┤"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn colors_do_not_change_the_text() {
        let colored = ladder().text(true);
        let mut plain = String::new();
        let mut letters = colored.chars();
        while let Some(letter) = letters.next() {
            if letter == '\u{1b}' {
                letters.by_ref().find(|c| *c == 'm').expect("an escape sequence ends");
            } else {
                plain.push(letter);
            }
        }
        assert_eq!(plain, ladder().text(false));
        assert!(colored.contains("\u{1b}[31mr\u{1b}[32mg"), "red's mark is red");
    }

    #[test]
    fn unusual_networks_are_drawn() {
        assert_eq!(Topology::default().text(false), "");
        let mut odd = Topology::default();
        odd.node("A\u{1b}[2J", 7, 9).node("B", 7, 9).host("停", 300, 9);
        odd.link("A", "A", "loop", &[]).link("B", "missing", "", &["none"]);
        odd.link("B", "停", "", &["none"]).link("停", "B", "", &[]);
        let text = odd.text(false);
        assert!(text.contains('停') && !text.contains('\u{1b}'), "{text}");
    }
}
