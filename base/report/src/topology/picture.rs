//! The network as SVG.

use super::{LinkState, Node, Role, Topology};
use crate::plot::{self, Layout, text_width};
use crate::svg::{Anchor, Svg};
use crate::table::width;

const COLUMN: f64 = 190.0;
const ROW: f64 = 110.0;
const MARGIN: f64 = 16.0;
const NODE_WIDTH: f64 = 96.0;
const NODE_HEIGHT: f64 = 56.0;
/// Distance of parallel links.
const LINK_DISTANCE: f64 = 26.0;
/// Distance of the streams on a link.
const STREAM_DISTANCE: f64 = 4.0;

/// The layout of nodes.
struct Grid {
    column: f64,
    row: f64,
    node_width: f64,
    /// Whether columns of the network are rows of the picture.
    upright: bool,
    /// Left edge of the first column.
    left: f64,
}

impl Grid {
    /// Lays out columns from left to right; on a narrow page from top to bottom, if that is narrower.
    fn new(network: &Topology, layout: Layout) -> Self {
        let node_width = node_width(network);
        let lying = Self { column: COLUMN, row: ROW, node_width, upright: false, left: MARGIN };
        // Labels are beside vertical links, and between the nodes of others.
        let label = network.links.iter().map(|link| text_width(&link.label));
        let label = label.fold(0.0, f64::max);
        let aside = (label + LINK_DISTANCE - node_width / 2.0).max(0.0);
        let column = node_width + 24.0 + label;
        let upright = Self { column, row: ROW, node_width, upright: true, left: MARGIN + aside };
        let fits = lying.size(network).0 <= layout.width();
        match fits || lying.size(network).0 <= upright.size(network).0 {
            true => lying,
            false => upright,
        }
    }

    /// Returns column and row in the picture.
    fn place(&self, node: &Node) -> (f64, f64) {
        let (column, row) = (f64::from(node.column), f64::from(node.row));
        if self.upright { (row, column) } else { (column, row) }
    }

    fn center(&self, node: &Node) -> (f64, f64) {
        let (column, row) = self.place(node);
        let x = self.left + self.node_width / 2.0 + column * self.column;
        (x, MARGIN + NODE_HEIGHT / 2.0 + row * self.row)
    }

    fn size(&self, network: &Topology) -> (f64, f64) {
        let places = network.nodes.iter().map(|node| self.place(node));
        let (columns, rows) =
            places.fold((0.0, 0.0), |most: (f64, f64), at| (most.0.max(at.0), most.1.max(at.1)));
        let width = columns * self.column + self.node_width + 2.0 * self.left;
        (width, rows * self.row + NODE_HEIGHT + 2.0 * MARGIN)
    }
}

pub(super) fn draw(network: &Topology, layout: Layout) -> String {
    let grid = Grid::new(network, layout);
    let (picture_width, picture_height) = grid.size(network);
    let mut svg = Svg::new(picture_width, picture_height, "Topology of the network");
    for (index, link) in network.links.iter().enumerate() {
        let Some(ends) = network.ends(link) else { continue };
        let twins: Vec<usize> = (0..network.links.len())
            .filter(|&other| network.ends(&network.links[other]) == Some(ends))
            .collect();
        let position = twins.iter().position(|&twin| twin == index).unwrap_or(0);
        let aside = (position as f64 - (twins.len() - 1) as f64 / 2.0) * LINK_DISTANCE;
        let from = grid.center(&network.nodes[ends.0]);
        let to = grid.center(&network.nodes[ends.1]);
        draw_link(&mut svg, network, index, shifted(from, to, aside), aside > 0.0);
    }
    for node in &network.nodes {
        draw_node(&mut svg, node, grid.center(node), grid.node_width);
    }
    svg.finish()
}

/// Returns the streams if there is more than one, for the legend of the picture.
pub(super) fn stream_legend(network: &Topology) -> String {
    if network.streams.len() < 2 {
        return String::new();
    }
    plot::legend(
        network.streams.iter().map(|stream| (stream.color.class().into(), stream.name.clone())),
    )
}

fn node_width(network: &Topology) -> f64 {
    let texts = network
        .nodes
        .iter()
        .map(|node| (8.5 * width(&node.name) as f64).max(7.0 * width(&node.detail) as f64) + 20.0);
    texts.fold(NODE_WIDTH, f64::max).min(COLUMN - 40.0)
}

type Segment = ((f64, f64), (f64, f64));

/// Returns the segment shifted to the right of its direction.
fn shifted(from: (f64, f64), to: (f64, f64), aside: f64) -> Segment {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1.0);
    let (x, y) = (-dy / length * aside, dx / length * aside);
    ((from.0 + x, from.1 + y), (to.0 + x, to.1 + y))
}

fn draw_link(svg: &mut Svg, network: &Topology, index: usize, (from, to): Segment, below: bool) {
    let link = &network.links[index];
    let down = link.state == LinkState::Down;
    let state = if down { " cut" } else { "" };
    let colors = network.colors_of(link);
    if colors.is_empty() {
        svg.line(&format!("link{state}"), from, to);
    }
    for (position, color) in colors.iter().enumerate() {
        let aside = (position as f64 - (colors.len() - 1) as f64 / 2.0) * STREAM_DISTANCE;
        let (from, to) = shifted(from, to, aside);
        svg.line(&format!("stream {}{state}", color.class()), from, to);
    }
    let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
    // The label of a vertical link is beside the line, otherwise above it, and below the lower of two
    // parallel links. A vertical link that is shifted to the right of a downward line is on the left.
    let half = 7.0 + STREAM_DISTANCE * colors.len() as f64 / 2.0;
    let (label, anchor) = if (to.0 - from.0).abs() < 1.0 {
        match below {
            true => ((middle.0 - half, middle.1 + 4.0), Anchor::End),
            false => ((middle.0 + half, middle.1 + 4.0), Anchor::Start),
        }
    } else if below {
        ((middle.0, middle.1 + half + 8.0), Anchor::Middle)
    } else {
        ((middle.0, middle.1 - half), Anchor::Middle)
    };
    if down {
        let (x, y, arm) = (middle.0, middle.1, 6.0);
        svg.line("cross", (x - arm, y - arm), (x + arm, y + arm));
        svg.line("cross", (x - arm, y + arm), (x + arm, y - arm));
    }
    if !link.label.is_empty() {
        svg.text("small halo", label, anchor, &link.label);
    }
}

fn draw_node(svg: &mut Svg, node: &Node, (x, y): (f64, f64), node_width: f64) {
    let (class, radius) = match node.role {
        Role::Host => ("host", NODE_HEIGHT / 2.0),
        Role::Node => ("node", 8.0),
    };
    let corner = (x - node_width / 2.0, y - NODE_HEIGHT / 2.0);
    svg.rect(class, corner, (node_width, NODE_HEIGHT), radius);
    if node.detail.is_empty() {
        svg.text("strong", (x, y + 5.0), Anchor::Middle, &node.name);
    } else {
        svg.text("strong", (x, y - 2.0), Anchor::Middle, &node.name);
        svg.text("small", (x, y + 16.0), Anchor::Middle, &node.detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ladder, two_paths};
    use super::*;

    #[test]
    fn every_stream_on_every_link_is_drawn() {
        let network = ladder();
        let svg = draw(&network, Layout::Wide);
        let drawn = svg.matches("class=\"stream ").count();
        let expected: usize = network.links.iter().map(|link| link.streams.len()).sum();
        assert_eq!(drawn, expected);
        let legend = stream_legend(&network);
        assert!(network.streams.iter().all(|stream| legend.contains(&stream.name)), "{legend}");
        assert_eq!(svg.matches("class=\"cross\"").count(), 2);
    }

    #[test]
    fn parallel_links_do_not_cover_each_other() {
        let svg = draw(&two_paths(), Layout::Wide);
        let ys: Vec<&str> = svg
            .lines()
            .filter(|line| line.contains("class=\"stream"))
            .filter_map(|line| line.split("y1=\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(ys.len(), 4);
        assert_ne!(ys[1], ys[2]);
    }

    #[test]
    fn a_narrow_picture_is_vertical() {
        let size = |svg: String| {
            let view_box = svg.split("viewBox=\"0 0 ").nth(1).unwrap().split('"').next().unwrap();
            let (width, height) = view_box.split_once(' ').unwrap();
            (width.parse::<f64>().unwrap(), height.parse::<f64>().unwrap())
        };
        for network in [two_paths(), ladder()] {
            let (width, height) = size(draw(&network, Layout::Narrow));
            assert!(width <= Layout::Narrow.width() && width < height, "{width} x {height}");
            let (width, height) = size(draw(&network, Layout::Wide));
            assert!(width <= Layout::Wide.width() && width > height, "{width} x {height}");
        }
    }

    #[test]
    fn a_link_to_a_missing_node_is_not_drawn() {
        let mut network = two_paths();
        network.link("A", "Z", "lost", &[]);
        assert!(!draw(&network, Layout::Wide).contains("lost"));
    }
}
