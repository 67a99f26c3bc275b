//! The report of a plan: checks and tables for terminal, HTML and JSON.

use std::collections::BTreeMap;

use onbeat_report::format::{count, duration_ns};
use onbeat_report::{Cell, Check, Counters, Outcome};

use crate::bridge::{self, StaticEntry};
use crate::difference;
use crate::failure::FailureEffect;
use crate::manifest::{self, Manifest};
use crate::network::{Arc, Network};
use crate::plan::{Plan, Refusal, StreamPlan};
use crate::route::Element;
use crate::window::Window;

/// Why a stream is not protected as requested, and the remedy.
#[must_use]
pub fn reason(network: &Network, plan: &Plan, index: usize) -> Option<String> {
    let stream = &network.streams[index];
    let node = |node: u32| network.nodes[node as usize].name.as_str();
    let list = |elements: &[Element]| {
        let names: Vec<String> =
            elements.iter().take(4).map(|element| element.describe(network)).collect();
        match elements.len() {
            0..=4 => names.join(", "),
            n => format!("{} and {} more", names.join(", "), n - 4),
        }
    };
    Some(match &plan.streams[index] {
        StreamPlan::Protected => return None,
        StreamPlan::Shared { elements, is_proven } => {
            let count = stream.paths;
            let others = match is_proven {
                true => format!("no {count} paths share less"),
                false => {
                    "paths that share less were not found within the budget of the search".into()
                }
            };
            format!("its paths share {}; {others}; add a link around it", list(elements))
        }
        StreamPlan::Refused(Refusal::Unreachable { listener }) => format!(
            "no path through relays leads to listener {}; add a link, or set relay = true on a node between",
            node(*listener)
        ),
        StreamPlan::Refused(Refusal::NoTrees { listener, cut }) => {
            let cut = match cut.is_empty() {
                true => "links with room in both directions".to_owned(),
                false => list(cut),
            };
            format!(
                "listener {} has no two disjoint paths beside the other listeners: {cut}; add a link, or a stream \
                 for this listener alone",
                node(*listener)
            )
        }
        StreamPlan::Refused(Refusal::Capacity { arcs }) => {
            let hops: Vec<String> =
                arcs.iter().take(3).map(|arc| manifest::hop(network, *arc)).collect();
            format!(
                "too little capacity for {:.3} Mbit/s on {}; use faster links, a longer interval, or a larger \
                 load-percent",
                stream.rate() as f64 / 1e6,
                hops.join(", ")
            )
        }
        StreamPlan::Refused(Refusal::NodeFull { node: full }) => format!(
            "node {} would exceed {}, or {} of a stream; use further relays",
            node(*full),
            count(crate::plan::MAX_STREAMS.into(), "stream"),
            count(crate::plan::MAX_EGRESS as u64, "egress port")
        ),
        StreamPlan::Refused(Refusal::Delay { listener, bound_ns: Some(bound) }) => format!(
            "the delay to listener {} is up to {}, more than the permitted {}; permit more, or remove streams \
             from its links",
            node(*listener),
            duration_ns(*bound as f64),
            duration_ns(stream.max_delay_ns.unwrap_or(0) as f64)
        ),
        StreamPlan::Refused(Refusal::Delay { listener, bound_ns: None }) => format!(
            "no bound of the delay to listener {} exists at this load; set a smaller load-percent",
            node(*listener)
        ),
        StreamPlan::Refused(Refusal::Displaces { stream: delayed }) => format!(
            "it would delay stream {}, which keeps its paths, beyond the permitted delay; permit more there, or use other \
             links",
            network.streams[*delayed].name
        ),
        StreamPlan::Refused(Refusal::Bridge { node: bridge }) => format!(
            "foreign bridge {} would have to eliminate copies, or to copy frames of an individual address to several \
             ports; add a link around it",
            node(*bridge)
        ),
        StreamPlan::Refused(Refusal::NoRung) => {
            "no link with room joins both paths, so that no relay can recover; add a link between relays, or use \
             recover-at = \"auto\""
                .into()
        }
        StreamPlan::Refused(Refusal::Label) => format!(
            "no VLAN of label-vlans is free on its paths: other streams have its address {}; use another address, or \
             more VLANs",
            stream.address
        ),
        StreamPlan::Refused(Refusal::Window(error)) => format!(
            "the delay difference of its paths requires a history of {}, and the longest is 32768; use a longer interval",
            error.required
        ),
    })
}

/// Adds checks and tables of a plan.
pub fn describe(outcome: &mut Outcome, network: &Network, plan: &Plan) {
    let count = |wanted: fn(&StreamPlan) -> bool| {
        plan.streams.iter().filter(|stream| wanted(stream)).count() as u64
    };
    let shared = count(|stream| matches!(stream, StreamPlan::Shared { .. }));
    let refused = count(|stream| matches!(stream, StreamPlan::Refused(_)));
    outcome.check(Check::eq("refused", refused, 0_u64, "streams"));
    outcome.check(Check::eq("paths that share elements", shared, 0_u64, "streams"));
    let mut unprotected = Counters::new(["stream", "reason"]);
    for (index, stream) in network.streams.iter().enumerate() {
        if let Some(reason) = reason(network, plan, index) {
            unprotected.row([stream.name.clone(), reason]);
        }
    }
    if !unprotected.rows.is_empty() {
        outcome.figure("streams not protected as requested", unprotected);
    }
    let totals = [
        ("nodes", network.nodes.len()),
        ("links", network.links.len()),
        ("streams", network.streams.len()),
        ("streams with paths", plan.routed().count()),
        ("paths kept from the previous plan", plan.kept),
    ];
    let totals = totals.map(|(name, count)| (name, count as u64));
    outcome.figure("totals", Counters::named(["item", "count"], totals));
    let entries = bridge::entries(network, plan);
    if !entries.is_empty() {
        outcome.figure("static entries of foreign bridges", static_entries(network, &entries));
    }
    outcome.figure("links with the highest load", loads(network, plan));
    outcome.figure("streams with the longest delay", delays(network, plan));
}

/// Rows of the tables of links and streams.
const ROWS: usize = 20;

/// Load of an arc, in % of its speed.
#[must_use]
pub fn load_percent(network: &Network, plan: &Plan, arc: Arc) -> f64 {
    let speed = f64::from(network.links[arc.link()].speed_mbps) * 1e6;
    100.0 * plan.load[arc.index()] as f64 / speed
}

fn static_entries(network: &Network, entries: &[StaticEntry]) -> Counters {
    let mut table = Counters::new(["bridge", "VLAN", "address", "ports"]);
    for StaticEntry { node, vlan, address, egress, .. } in entries {
        let node = &network.nodes[*node as usize];
        let ports = egress.iter().map(|port| node.ports[*port as usize].interface.as_str());
        table.row([
            Cell::from(node.name.clone()),
            u64::from(*vlan).into(),
            address.to_string().into(),
            ports.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    table
}

fn loads(network: &Network, plan: &Plan) -> Counters {
    let mut arcs: Vec<Arc> = network.arcs().filter(|arc| plan.load[arc.index()] > 0).collect();
    arcs.sort_by(|a, b| {
        load_percent(network, plan, *b).total_cmp(&load_percent(network, plan, *a))
    });
    let columns = [("from>to", ""), ("load", "%"), ("longest queue", "µs")];
    let mut table = Counters::new(columns);
    for arc in arcs.into_iter().take(ROWS) {
        table.row([
            Cell::from(manifest::hop(network, arc)),
            load_percent(network, plan, arc).into(),
            (plan.bounds.queue_ns[arc.index()] as f64 / 1e3).into(),
        ]);
    }
    table
}

fn delays(network: &Network, plan: &Plan) -> Counters {
    let mut rows = Vec::new();
    for (index, route) in plan.routed() {
        for (position, range) in plan.delays[index].iter().enumerate() {
            rows.push((range.longest_ns, index, route.listeners[position].listener, *range));
        }
    }
    rows.sort_by_key(|(longest, index, ..)| (std::cmp::Reverse(*longest), *index));
    let columns = [
        ("stream", ""),
        ("listener", ""),
        ("shortest", "µs"),
        ("longest", "µs"),
        ("history", ""),
        ("reset timeout", "ms"),
    ];
    let mut table = Counters::new(columns);
    for (longest, index, listener, range) in rows.into_iter().take(ROWS) {
        let window = plan.windows[index];
        let history = window.map_or(0, |window| u64::from(window.history_length));
        let timeout = window.map_or(0, |window| u64::from(window.reset_timeout_ms));
        table.row([
            Cell::from(network.streams[index].name.clone()),
            network.nodes[listener as usize].name.clone().into(),
            (range.shortest_ns as f64 / 1e3).into(),
            (longest as f64 / 1e3).into(),
            history.into(),
            timeout.into(),
        ]);
    }
    table
}

/// Adds the effects of failures: those that cut streams first.
pub fn describe_failures(outcome: &mut Outcome, network: &Network, effects: &[FailureEffect]) {
    let cut = effects.iter().filter(|effect| !effect.cut.is_empty()).count() as u64;
    outcome.check(Check::eq("single failures that cut streams", cut, 0_u64, "elements"));
    let mut rows: Vec<&FailureEffect> = effects.iter().collect();
    rows.sort_by_key(|effect| {
        (std::cmp::Reverse((effect.cut.len(), effect.single.len())), effect.element)
    });
    let columns = ["failure", "streams cut", "with one path left", "ended", "cut streams"];
    let mut table = Counters::new(columns);
    for effect in rows {
        let cut = effect.cut.iter().take(5).map(|index| network.streams[*index].name.as_str());
        let mut names = cut.collect::<Vec<_>>().join(", ");
        if effect.cut.len() > 5 {
            names += ", ...";
        }
        table.row([
            Cell::from(effect.element.describe(network)),
            (effect.cut.len() as u64).into(),
            (effect.single.len() as u64).into(),
            (effect.ended.len() as u64).into(),
            names.into(),
        ]);
    }
    outcome.figure("failures", table);
}

/// Describes the paths, delays and recovery of one stream, and which elements its paths exclude.
#[must_use]
pub fn explain(network: &Network, plan: &Plan, index: usize) -> Counters {
    let mut table = Counters::new(["property", "value"]);
    let stream = &network.streams[index];
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("stream", stream.name.clone());
    let rate = stream.rate() as f64 / 1e6;
    row("rate of one copy", format!("{rate:.3} Mbit/s, with R-TAG, preamble and gap"));
    if let Some(reason) = reason(network, plan, index) {
        row("not protected as requested", reason);
    }
    if let Some(window) = plan.windows[index] {
        let Window { history_length, reset_timeout_ms } = window;
        row("recovery", format!("history {history_length}, reset timeout {reset_timeout_ms} ms"));
    }
    let Some(route) = &plan.routes[index] else { return table };
    if let [first, further @ ..] = &plan.labels[index][..] {
        let further: String = further.iter().map(|vlan| format!(", {vlan}")).collect();
        row("VLAN between talker and listeners", format!("{first}{further}"));
    }
    for (paths, range) in route.listeners.iter().zip(&plan.delays[index]) {
        let node = &network.nodes[paths.listener as usize].name;
        row(
            &format!("delay to {node}"),
            format!(
                "{} to {}",
                duration_ns(range.shortest_ns as f64),
                duration_ns(range.longest_ns as f64)
            ),
        );
        for (number, path) in paths.paths.iter().enumerate() {
            let hops: Vec<String> = path.iter().map(|arc| manifest::hop(network, *arc)).collect();
            let (shortest, longest) = plan.bounds.path(stream, path);
            row(
                &format!("path {} to {node}", number + 1),
                format!(
                    "{}; {} to {}",
                    hops.join(" "),
                    duration_ns(shortest as f64),
                    duration_ns(longest as f64)
                ),
            );
        }
    }
    for part in route.parts(network, stream).iter().filter(|part| part.recovers) {
        let window = plan.window_at(index, part.node);
        let window = window.map_or(String::new(), |window| {
            format!(
                "; history {}, reset timeout {} ms",
                window.history_length, window.reset_timeout_ms
            )
        });
        row("copies are eliminated at", network.nodes[part.node as usize].name.clone() + &window);
    }
    let full: Vec<String> = network
        .arcs()
        .filter(|arc| network.capacity(*arc) < plan.load[arc.index()] + stream.rate())
        .map(|arc| manifest::hop(network, arc))
        .collect();
    if !full.is_empty() {
        row("links without room for a further copy", full.join(" "));
    }
    table
}

/// Tables of the differences of two plans: by stream, and by node.
#[must_use]
pub fn differences(old: &Manifest, new: &Manifest) -> [Counters; 2] {
    let mut streams = Counters::new(["stream", "difference", "nodes"]);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for change in difference::between(old, new) {
        let row = [change.name.as_str(), change.kind.name(), &change.nodes.join(" ")];
        streams.row(row.map(str::to_owned));
        for node in change.nodes {
            *counts.entry(node).or_default() += 1;
        }
    }
    let files = difference::files(old, new);
    for node in files.keys() {
        counts.entry((*node).into()).or_default();
    }
    let mut nodes = Counters::new(["node", "streams that differ", "file"]);
    for (node, count) in counts {
        let file = files.get(&node[..]).map_or("same", |change| change.name());
        nodes.row([Cell::from(node), Cell::from(count), Cell::from(file)]);
    }
    [streams, nodes]
}
