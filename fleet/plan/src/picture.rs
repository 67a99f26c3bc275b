//! A picture of the network as SVG: nodes, links with their load, and the paths of some streams.

use std::fmt::Write;

use onbeat_report::format::markup as escape_markup;

use crate::network::{Arc, Network};
use crate::plan::Plan;
use crate::report::load_percent;

/// Iterations of the layout.
const ITERATIONS: usize = 300;

/// Passes that move names apart.
const PASSES: usize = 60;

/// Colors of streams, readable with color blindness (Okabe and Ito).
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];

/// Draws the network with the paths of these streams, by index.
#[must_use]
pub fn draw(network: &Network, plan: &Plan, streams: &[usize]) -> String {
    let nodes = network.nodes.len().max(1);
    // An area for each node keeps names apart.
    let side = 90.0 * (nodes as f64).sqrt() + 120.0;
    let radius = if nodes > 60 { 5.0 } else { 8.0 };
    let size = if nodes > 60 { 9 } else { 13 };
    let mut places = layout(network, side);
    separate_names(network, &mut places, f64::from(size), side);
    let legend = 20.0 * streams.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side:.0} {:.0}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"{size}\">\n<title>Network with the load of its links</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        side + legend
    );
    for (index, link) in network.links.iter().enumerate() {
        let arc = Arc(2 * index as u32);
        let load = load_percent(network, plan, arc).max(load_percent(network, plan, arc.reverse()));
        let [a, b] = link.ends.map(|end| places[end.node as usize]);
        // From gray to red, and wider.
        let share = (load / 100.0).clamp(0.0, 1.0);
        let red = 190.0 + 30.0 * share;
        let other = 190.0 * (1.0 - share);
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"rgb({red:.0},{other:.0},{other:.0})\" \
             stroke-width=\"{:.1}\"><title>{}: {load:.1} %</title></line>",
            a.0,
            a.1,
            b.0,
            b.1,
            1.0 + 5.0 * share,
            escape_markup(&link.name)
        );
    }
    for (number, &index) in streams.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        for (path, arcs) in plan.routes[index].iter().flat_map(|route| route.paths()).enumerate() {
            // Paths of a stream differ by their dashes, streams by color and distance from the link.
            let dashes = if path % 2 == 0 { "" } else { " stroke-dasharray=\"6 3\"" };
            let aside = 3.0 + 3.0 * number as f64;
            for arc in arcs {
                let (from, to) = network.ends(*arc);
                let (a, b) = shifted(places[from as usize], places[to as usize], aside);
                let _ = writeln!(
                    svg,
                    "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" \
                     stroke-width=\"2\"{dashes}/>",
                    a.0, a.1, b.0, b.1
                );
            }
        }
        let y = side + 20.0 * number as f64 + 6.0;
        let name = escape_markup(&network.streams[index].name);
        let _ = writeln!(
            svg,
            "<line x1=\"20\" y1=\"{y:.0}\" x2=\"50\" y2=\"{y:.0}\" stroke=\"{color}\" stroke-width=\"3\"/>\
             <text x=\"58\" y=\"{:.0}\">{name}</text>",
            y + 4.0
        );
    }
    for (node, (x, y)) in network.nodes.iter().zip(&places) {
        let fill = if node.relay { "#444" } else { "white" };
        let name = escape_markup(&node.name);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"#444\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" paint-order=\"stroke\" stroke=\"white\" stroke-width=\"3\">{name}</text>",
            x + radius + 2.0,
            y - radius
        );
    }
    svg + "</svg>\n"
}

/// Shifts a line to the right of its direction.
fn shifted(a: (f64, f64), b: (f64, f64), aside: f64) -> ((f64, f64), (f64, f64)) {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy).max(1.0);
    let (x, y) = (-dy / length * aside, dx / length * aside);
    ((a.0 + x, a.1 + y), (b.0 + x, b.1 + y))
}

/// Places nodes by attraction along links and repulsion of near nodes (Fruchterman and Reingold 1991), from a spiral.
fn layout(network: &Network, side: f64) -> Vec<(f64, f64)> {
    let nodes = network.nodes.len();
    let ideal = 0.9 * side / (nodes.max(1) as f64).sqrt();
    let start = |index: usize| {
        let angle = 2.4 * index as f64;
        let radius = 0.45 * side * ((index as f64 + 0.5) / nodes as f64).sqrt();
        (side / 2.0 + radius * angle.cos(), side / 2.0 + radius * angle.sin())
    };
    let mut places: Vec<(f64, f64)> = (0..nodes).map(start).collect();
    // The effort is bounded for large networks.
    let iterations = ITERATIONS.min(1 + 60_000_000 / (nodes * nodes).max(1));
    for iteration in 0..iterations {
        let limit = side / 10.0 * (1.0 - iteration as f64 / iterations as f64) + 0.5;
        let mut forces = vec![(0.0, 0.0); nodes];
        for a in 0..nodes {
            for b in a + 1..nodes {
                let (dx, dy) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
                let square = (dx * dx + dy * dy).max(0.01);
                if square > 16.0 * ideal * ideal {
                    continue;
                }
                let force = ideal * ideal / square;
                forces[a] = (forces[a].0 + dx * force, forces[a].1 + dy * force);
                forces[b] = (forces[b].0 - dx * force, forces[b].1 - dy * force);
            }
        }
        for link in &network.links {
            let [a, b] = link.ends.map(|end| end.node as usize);
            let (dx, dy) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
            let force = dx.hypot(dy) / ideal;
            forces[a] = (forces[a].0 - dx * force, forces[a].1 - dy * force);
            forces[b] = (forces[b].0 + dx * force, forces[b].1 + dy * force);
        }
        for (place, force) in places.iter_mut().zip(&forces) {
            let length = force.0.hypot(force.1).max(0.001);
            let step = length.min(limit) / length;
            *place = (place.0 + force.0 * step, place.1 + force.1 * step);
        }
    }
    // Nodes at a border would cover each other: the whole layout is scaled to the area.
    let (mut low, mut high) = ((f64::MAX, f64::MAX), (f64::MIN, f64::MIN));
    for place in &places {
        low = (low.0.min(place.0), low.1.min(place.1));
        high = (high.0.max(place.0), high.1.max(place.1));
    }
    for place in &mut places {
        place.0 = 20.0 + (place.0 - low.0) / (high.0 - low.0).max(1.0) * (side - 90.0);
        place.1 = 20.0 + (place.1 - low.1) / (high.1 - low.1).max(1.0) * (side - 40.0);
    }
    places
}

/// Moves nodes up and down until no name covers another, or for [`PASSES`].
fn separate_names(network: &Network, places: &mut [(f64, f64)], size: f64, side: f64) {
    let height = size + 2.0;
    let width = |node: usize| 0.62 * size * network.nodes[node].name.chars().count() as f64 + 4.0;
    let mut order: Vec<usize> = (0..places.len()).collect();
    for _ in 0..PASSES {
        order.sort_by(|a, b| places[*a].1.total_cmp(&places[*b].1));
        let mut is_separate = true;
        for (position, &upper) in order.iter().enumerate() {
            for &lower in &order[position + 1..] {
                let distance = places[lower].1 - places[upper].1;
                if distance >= height {
                    break;
                }
                let right = places[lower].0 - places[upper].0;
                if right < width(upper) && -right < width(lower) {
                    let push = (height - distance) / 2.0 + 0.5;
                    places[upper].1 = (places[upper].1 - push).max(20.0);
                    places[lower].1 = (places[lower].1 + push).min(side - 20.0);
                    is_separate = false;
                }
            }
        }
        if is_separate {
            return;
        }
    }
}
