//! Pictures of a network: for the terminal ([`Topology::text`]) and for the report ([`Topology::svg`]). The
//! caller defines column and row of each node.

mod picture;
mod text;

use serde::{Deserialize, Serialize};

use crate::plot::Layout;

/// A network to draw.
///
/// ```
/// use onbeat_report::topology::{Color, LinkState, Topology};
///
/// let mut network = Topology::default();
/// network.host("talker", 0, 0).node("A", 1, 0).node("B", 2, 0).host("listener", 3, 0);
/// network.stream("control", Color::Blue);
/// network.link("talker", "A", "", &["control"]).link("A", "B", "path 1", &["control"]);
/// network.link("A", "B", "path 2", &["control"]).link("B", "listener", "", &["control"]);
/// network.set_state("path 1", LinkState::Down);
/// assert!(network.text(false).contains("╳ path 1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// Hosts and nodes, with unique names.
    pub nodes: Vec<Node>,
    /// Links between them; a link to a missing node is not drawn.
    pub links: Vec<Link>,
    /// Streams, for their colors.
    pub streams: Vec<Stream>,
}

/// A host or node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// A second line, `replicates`; may be empty.
    pub detail: String,
    /// From left to right.
    pub column: u16,
    /// From top to bottom.
    pub row: u16,
}

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends or receives, without FRER.
    Host,
    /// Runs FRER.
    Node,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name of the node at one end.
    pub a: String,
    /// Name of the node at the other end.
    pub b: String,
    /// Its inscription; may be empty.
    pub label: String,
    /// Its state.
    pub state: LinkState,
    /// Names of the streams that use it.
    pub streams: Vec<String>,
}

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Carries frames.
    #[default]
    Up,
    /// Carries no frames, or is cut during the run.
    Down,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Its color.
    pub color: Color,
}

/// Colors that are distinguishable, on light and on dark background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are sufficient")]
pub enum Color {
    Blue,
    Orange,
    Green,
    Violet,
    Teal,
    Red,
}

impl Color {
    /// In the order of assignment to series.
    pub const ALL: [Self; 6] =
        [Self::Blue, Self::Orange, Self::Green, Self::Violet, Self::Teal, Self::Red];

    /// Returns the color of the series with this index; they repeat.
    pub fn of_series(index: usize) -> Self {
        Self::ALL[index % Self::ALL.len()]
    }

    /// Returns its class in SVG.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Green => "green",
            Self::Violet => "violet",
            Self::Teal => "teal",
            Self::Red => "red",
        }
    }

    /// Returns its number in the select-graphic-rendition sequence of a terminal.
    fn sgr(self) -> u8 {
        match self {
            Self::Blue => 94,
            Self::Orange => 33,
            Self::Green => 32,
            Self::Violet => 35,
            Self::Teal => 36,
            Self::Red => 31,
        }
    }
}

impl Topology {
    /// Adds a host.
    pub fn host(&mut self, name: &str, column: u16, row: u16) -> &mut Self {
        self.add(name, Role::Host, column, row)
    }

    /// Adds a node.
    pub fn node(&mut self, name: &str, column: u16, row: u16) -> &mut Self {
        self.add(name, Role::Node, column, row)
    }

    fn add(&mut self, name: &str, role: Role, column: u16, row: u16) -> &mut Self {
        self.nodes.push(Node { name: name.into(), role, detail: String::new(), column, row });
        self
    }

    /// Adds a second line to the node of this name.
    pub fn detail(&mut self, name: &str, detail: &str) -> &mut Self {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.name == name) {
            node.detail = detail.into();
        }
        self
    }

    /// Adds a stream.
    pub fn stream(&mut self, name: &str, color: Color) -> &mut Self {
        self.streams.push(Stream { name: name.into(), color });
        self
    }

    /// Adds a link that is up.
    pub fn link(&mut self, a: &str, b: &str, label: &str, streams: &[&str]) -> &mut Self {
        self.links.push(Link {
            a: a.into(),
            b: b.into(),
            label: label.into(),
            state: LinkState::Up,
            streams: streams.iter().map(|name| (*name).into()).collect(),
        });
        self
    }

    /// Sets the state of all links with this label.
    pub fn set_state(&mut self, label: &str, state: LinkState) -> &mut Self {
        for link in self.links.iter_mut().filter(|link| link.label == label) {
            link.state = state;
        }
        self
    }

    /// Renders the picture for a terminal, with or without ANSI colors.
    pub fn text(&self, colors: bool) -> String {
        text::draw(self, colors)
    }

    /// Renders the picture as SVG; the style sheet of the report defines the colors.
    pub fn svg(&self, layout: Layout) -> String {
        picture::draw(self, layout)
    }

    /// Returns the names of its streams, for the legend of the picture.
    pub(crate) fn legend(&self) -> String {
        picture::stream_legend(self)
    }

    /// Returns the two ends of a link, the one further left (or further up) first.
    fn ends(&self, link: &Link) -> Option<(usize, usize)> {
        let find = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let (a, b) = (find(&link.a)?, find(&link.b)?);
        let place = |index: usize| (self.nodes[index].column, self.nodes[index].row);
        (a != b).then(|| if place(a) <= place(b) { (a, b) } else { (b, a) })
    }

    fn colors_of(&self, link: &Link) -> Vec<Color> {
        let used = self.streams.iter().filter(|stream| link.streams.contains(&stream.name));
        used.map(|stream| stream.color).collect()
    }
}

/// The networks of the paper, for tests: two paths (figure 5) and the ladder (figure 1).
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) fn two_paths() -> Topology {
        let mut network = Topology::default();
        network.host("pc1", 0, 0).node("A", 1, 0).node("B", 2, 0).host("pc2", 3, 0);
        network.detail("A", "replicates").detail("B", "eliminates");
        network.stream("control", Color::Blue);
        network.link("pc1", "A", "", &["control"]).link("A", "B", "path 1", &["control"]);
        network.link("A", "B", "path 2", &["control"]).link("B", "pc2", "", &["control"]);
        network.set_state("path 1", LinkState::Down);
        network
    }

    pub(crate) fn ladder() -> Topology {
        let mut network = Topology::default();
        network.node("A", 0, 0).node("B", 1, 0).node("D", 2, 0);
        network.node("C", 0, 1).node("E", 1, 1).node("F", 2, 1);
        network.stream("red", Color::Red);
        network.stream("green", Color::Green).stream("blue", Color::Blue);
        network.link("A", "B", "", &["red", "green", "blue"]).link("B", "D", "", &["red", "green"]);
        network.link("C", "E", "", &["green", "blue"]).link("E", "F", "", &["red", "green"]);
        network.link("A", "C", "", &["green", "blue"]).link("D", "F", "", &["red", "green"]);
        network.link("B", "E", "cut", &["red", "green", "blue"]);
        network.set_state("cut", LinkState::Down);
        network
    }

    /// Two relays between the end systems, with bent links.
    pub(crate) fn diamond() -> Topology {
        let mut network = Topology::default();
        network.node("talker", 0, 1).node("up", 1, 0).node("down", 1, 2).node("listener", 2, 1);
        network.link("talker", "up", "a", &[]).link("talker", "down", "b", &[]);
        network.link("up", "listener", "c", &[]).link("down", "listener", "d", &[]);
        network
    }
}
