//! Cables from reports of links: two directions, two ends and several files can describe one cable.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{DraftLink, LinkValues};

/// A file and a direction: their reports between two nodes are of different cables, unless they name the same port.
type View = (usize, bool);

/// A cable between two nodes.
#[derive(Debug, Clone)]
pub(super) struct Cable {
    pub(super) nodes: [usize; 2],
    pub(super) ports: [Option<String>; 2],
    pub(super) values: LinkValues,
    views: BTreeSet<View>,
    /// Whether a report without a port of this cable was taken for it.
    is_assumed: bool,
    /// The same, where the report is of another file and names no port.
    is_assumed_of_other_file: bool,
}

/// Returns the cables that reports describe.
pub(super) fn cables(reports: &[DraftLink]) -> Vec<Cable> {
    let mut index = HashMap::new();
    let mut pairs: Vec<Vec<Cable>> = Vec::new();
    for report in reports {
        let [(a, at_a), (b, at_b)] = report.ends.clone();
        let is_reverse = a > b;
        let (nodes, ports) =
            if is_reverse { ([b, a], [at_b, at_a]) } else { ([a, b], [at_a, at_b]) };
        let pair = *index.entry(nodes).or_insert(pairs.len());
        if pair == pairs.len() {
            pairs.push(Vec::new());
        }
        pairs[pair].push(Cable {
            nodes,
            ports,
            values: report.values.clone(),
            views: [(report.file, is_reverse && report.has_opposite)].into(),
            is_assumed: false,
            is_assumed_of_other_file: false,
        });
    }
    pairs.into_iter().flat_map(of_pair).collect()
}

/// Merges the reports between two nodes, those with most ports first: a port has one cable.
fn of_pair(mut reports: Vec<Cable>) -> Vec<Cable> {
    reports.sort_by_key(|report| report.ports.iter().filter(|port| port.is_none()).count());
    let mut cables: Vec<Cable> = Vec::new();
    let mut at_port: HashMap<(usize, String), usize> = HashMap::new();
    // Cables before these can take no further report of the view that names the same ends.
    let mut next: HashMap<(View, [bool; 2]), usize> = HashMap::new();
    for report in reports {
        let named = |side: usize| Some((side, report.ports[side].clone()?));
        let by_port = [named(0), named(1)].into_iter().flatten();
        let mut by_port = by_port.filter_map(|port| at_port.get(&port).copied());
        let found = by_port.find(|cable| cables[*cable].agrees(&report)).or_else(|| {
            let view = *report.views.first()?;
            let next =
                next.entry((view, report.ports.each_ref().map(Option::is_some))).or_default();
            let rest = &cables[*next..];
            let is_free = |cable: &Cable| !cable.views.contains(&view) && cable.agrees(&report);
            let found = rest.iter().position(is_free);
            *next += found.map_or(rest.len(), |found| found + 1);
            found.map(|_| *next - 1)
        });
        let index = found.unwrap_or(cables.len());
        match cables.get_mut(index) {
            Some(cable) => cable.merge(report),
            None => cables.push(report),
        }
        for (side, port) in cables[index].ports.iter().enumerate() {
            if let Some(port) = port {
                at_port.entry((side, port.clone())).or_insert(index);
            }
        }
    }
    add_remarks(&mut cables);
    cables
}

impl Cable {
    /// Whether no end has two ports.
    fn agrees(&self, other: &Self) -> bool {
        let mut ends = self.ports.iter().zip(&other.ports);
        ends.all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }

    fn files(&self) -> BTreeSet<usize> {
        self.views.iter().map(|(file, _)| *file).collect()
    }

    fn merge(&mut self, other: Self) {
        let is_same = self.ports.iter().zip(&other.ports).any(|(a, b)| a.is_some() && a == b);
        let has_ports = other.ports.iter().any(Option::is_some);
        let is_of_other_file = self.files().is_disjoint(&other.files());
        self.is_assumed |= !is_same;
        self.is_assumed_of_other_file |= !is_same && !has_ports && is_of_other_file;
        for (port, other) in self.ports.iter_mut().zip(other.ports) {
            *port = port.take().or(other);
        }
        let LinkValues { speed_mbps, delay_ns, remarks } = other.values;
        let values = &mut self.values;
        values.speed_mbps = [values.speed_mbps, speed_mbps].into_iter().flatten().min();
        values.delay_ns = values.delay_ns.max(delay_ns);
        values.remarks.extend(remarks);
        self.views.extend(other.views);
    }
}

/// Remarks where reports do not show which cables they describe.
fn add_remarks(cables: &mut [Cable]) {
    let files: HashSet<BTreeSet<usize>> = cables.iter().map(Cable::files).collect();
    let are_several = cables.len() > 1;
    for cable in cables {
        let own = cable.files();
        let has_ports = cable.ports.iter().any(Option::is_some);
        if cable.is_assumed_of_other_file || cable.is_assumed && has_ports && are_several {
            cable.values.remarks.push(
                "check this link: reports that do not name both ports were taken for one cable"
                    .into(),
            );
        }
        if files.iter().any(|other| other.is_disjoint(&own)) {
            cable.values.remarks.push(
                "check this link: another file has other ports here, two reports may be one cable"
                    .into(),
            );
        }
    }
}
