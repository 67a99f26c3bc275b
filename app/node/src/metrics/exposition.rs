//! The text format of Prometheus, version 0.0.4.

use onbeat_frer::counters::{Counters, Field};
use onbeat_frer::reading::PortLosses;

use super::NodeReading;
use crate::control::{
    DetailedStream, GuardStatus, LinkState, MemberStatus, NodeSummary, PortMode, PortStatus,
    StreamTrouble,
};
use onbeat_host::ptp::{PtpState, PtpStatus};
use onbeat_report::metrics::{MetricType, MetricsText, seconds};

/// Prints the metrics of nodes, by name.
#[must_use]
pub fn exposition(nodes: &[NodeReading]) -> String {
    let mut text = MetricsText::default();
    text.metric("onbeat_build_info", MetricType::Gauge, "Version of the exporter")
        .add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut up = text.metric("onbeat_up", MetricType::Gauge, "Whether the node answers");
    for (node, summary) in nodes {
        up.add(&[("node", node)], u8::from(summary.is_ok()));
    }
    let nodes: Vec<&NodeSummary> =
        nodes.iter().filter_map(|(_, summary)| summary.as_ref().ok()).collect();
    node_metrics(&mut text, &nodes);
    ptp_metrics(&mut text, &nodes);
    guard_metrics(&mut text, &nodes);
    port_metrics(&mut text, &nodes);
    total_metrics(&mut text, &nodes);
    stream_metrics(&mut text, &nodes);
    text.into_string()
}

fn node_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    let mut metric =
        text.metric("onbeat_node_info", MetricType::Gauge, "Version and data plane of the node");
    for node in nodes {
        let labels =
            [("node", &*node.node), ("version", &*node.version), ("data_plane", &*node.data_plane)];
        metric.add(&labels, 1);
    }
    type Value = fn(&NodeSummary) -> Option<u64>;
    let values: [(&str, &str, Value); 4] = [
        ("onbeat_node_uptime_seconds", "Time since the daemon started", |node| Some(node.uptime_s)),
        ("onbeat_node_table_bytes", "Memory of the stream tables", |node| {
            node.memory.map(|memory| memory.octets)
        }),
        ("onbeat_streams", "Number of streams", |node| Some(node.streams)),
        ("onbeat_streams_hidden", "Number of streams without metrics of their own", |node| {
            Some(node.streams.saturating_sub(node.detailed.len() as u64))
        }),
    ];
    for (name, help, value) in values {
        let mut metric = text.metric(name, MetricType::Gauge, help);
        for node in nodes {
            value(node).into_iter().for_each(|value| metric.add(&[("node", &node.node)], value));
        }
    }
    let help = "Number of streams in trouble, by its kind";
    let mut metric = text.metric("onbeat_streams_in_trouble", MetricType::Gauge, help);
    for node in nodes {
        for (kind, count) in &node.in_trouble {
            metric.add(&[("node", &node.node), ("kind", &kind.to_string())], count);
        }
    }
    let help = "Events since the start of the daemon";
    let mut metric = text.metric("onbeat_events_total", MetricType::Counter, help);
    for node in nodes {
        for (event, count) in &node.events {
            metric.add(&[("node", &node.node), ("event", event)], count);
        }
    }
}

fn ptp_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    let clocks: Vec<(&str, &PtpStatus)> =
        nodes.iter().filter_map(|node| Some((&*node.node, node.ptp.as_ref()?))).collect();
    let help = "Whether the clock of the host has this state, by ptp4l";
    let mut metric = text.metric("onbeat_ptp_state", MetricType::Gauge, help);
    for (node, clock) in &clocks {
        for state in PtpState::ALL {
            let labels = [("node", *node), ("state", state.name())];
            metric.add(&labels, u8::from(clock.state == state));
        }
    }
    type Value = fn(&PtpStatus) -> Option<i64>;
    let values: [(&str, &str, Value); 3] = [
        ("offset", "Time of the clock minus that of its master", |clock| clock.offset_ns),
        ("path_delay", "Mean delay of the path to the master", |clock| clock.path_delay_ns),
        ("nic_offset", "Time of the NIC minus that of the system, as UTC", |clock| {
            clock.phc_offset_ns
        }),
    ];
    for (name, help, value) in values {
        let name = format!("onbeat_ptp_{name}_seconds");
        let mut metric = text.metric(&name, MetricType::Gauge, help);
        for (node, clock) in &clocks {
            let value = value(clock).map(|ns| seconds(ns.into()));
            value.into_iter().for_each(|value| metric.add(&[("node", node)], value));
        }
    }
    let help = "Whether a program keeps the clock of the system synchronized, by its own word";
    let mut metric = text.metric("onbeat_ptp_system_synchronized", MetricType::Gauge, help);
    for (node, clock) in &clocks {
        metric.add(&[("node", node)], u8::from(clock.system_synchronized));
    }
}

fn guard_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    let guards: Vec<(&str, &GuardStatus)> =
        nodes.iter().filter_map(|node| Some((&*node.node, node.guard.as_ref()?))).collect();
    type Value = fn(&GuardStatus) -> u64;
    let values: [(&str, &str, Value); 4] = [
        (
            "onbeat_guard_armed",
            "Whether the guard runs, and schedules all its interfaces",
            |guard| guard.armed.into(),
        ),
        ("onbeat_guard_interfaces", "Number of interfaces that the guard schedules", |guard| {
            guard.interfaces
        }),
        ("onbeat_guard_budget_processes", "Number of processes with a budget", |guard| {
            guard.budget_processes
        }),
        (
            "onbeat_guard_limited_processes",
            "Number of processes that the guard limits now",
            |guard| guard.limited_processes,
        ),
    ];
    for (name, help, value) in values {
        let mut metric = text.metric(name, MetricType::Gauge, help);
        for (node, guard) in &guards {
            metric.add(&[("node", node)], value(guard));
        }
    }
    let help = "Events of the guard since the start of the daemon";
    let mut metric = text.metric("onbeat_guard_events_total", MetricType::Counter, help);
    for (node, guard) in &guards {
        for (event, count) in &guard.events {
            metric.add(&[("node", node), ("event", event)], count);
        }
    }
}

fn port_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    let ports = || nodes.iter().flat_map(|node| node.ports.iter().map(|port| (&*node.node, port)));
    fn labels<'a>(node: &'a str, port: &'a PortStatus) -> [(&'a str, &'a str); 3] {
        [("node", node), ("port", &port.name), ("device", &port.interface)]
    }
    type Value = fn(&PortStatus) -> u64;
    let values: [(&str, MetricType, &str, Value); 8] = [
        ("link_up", MetricType::Gauge, "Whether frames can go through the interface", |port| {
            (port.link == LinkState::Up).into()
        }),
        (
            "attached",
            MetricType::Gauge,
            "Whether the data plane is attached to the interface",
            |port| (port.mode != PortMode::Detached).into(),
        ),
        (
            "loses_received_frames",
            MetricType::Gauge,
            "Whether received frames are known to be lost",
            |port| port.frames_lost.is_some().into(),
        ),
        (
            "input_packets_total",
            MetricType::Counter,
            "Packets of streams received (802.1CB 9.3.1)",
            |port| port.input_packets,
        ),
        (
            "output_packets_total",
            MetricType::Counter,
            "Packets of streams sent (802.1CB 9.3.2)",
            |port| port.output_packets,
        ),
        (
            "passed_packets_total",
            MetricType::Counter,
            "Packets that recovery accepted (802.1CB 10.9.1)",
            |port| port.passed,
        ),
        (
            "discarded_packets_total",
            MetricType::Counter,
            "Packets that recovery discarded (802.1CB 10.9.2)",
            |port| port.discard,
        ),
        (
            "unmatched_packets_total",
            MetricType::Counter,
            "Received frames without a stream",
            |port| port.unmatched,
        ),
    ];
    for (name, kind, help, value) in values {
        let mut metric = text.metric(&format!("onbeat_port_{name}"), kind, help);
        for (node, port) in ports() {
            metric.add(&labels(node, port), value(port));
        }
    }
    let help = "Mode of the attachment of the data plane";
    let mut metric = text.metric("onbeat_port_mode_info", MetricType::Gauge, help);
    for (node, port) in ports() {
        let mode = port.mode.to_string().replace([' ', '-'], "_");
        metric.add(&[&labels(node, port)[..], &[("mode", &mode)]].concat(), 1);
    }
    let help = "Frames that the data plane lost at the port, by cause";
    let mut metric = text.metric("onbeat_port_lost_packets_total", MetricType::Counter, help);
    for (node, port) in ports() {
        for (cause, count) in causes(&port.lost) {
            metric.add(&[&labels(node, port)[..], &[("cause", cause)]].concat(), count);
        }
    }
}

/// Losses by the names of their keys in JSON.
fn causes(losses: &PortLosses) -> [(&'static str, u64); 8] {
    let PortLosses {
        queue_full,
        no_socket,
        too_long,
        interface_down,
        exceeds_mtu,
        not_sent,
        no_headroom,
        no_metadata,
    } = *losses;
    [
        ("queue_full", queue_full),
        ("no_socket", no_socket),
        ("too_long", too_long),
        ("interface_down", interface_down),
        ("exceeds_mtu", exceeds_mtu),
        ("not_sent", not_sent),
        ("no_headroom", no_headroom),
        ("no_metadata", no_metadata),
    ]
}

/// The name of a counter of recovery in a metric.
fn counter_name(name: &str) -> String {
    // These count no packets.
    if name.ends_with("resets") { format!("{name}_total") } else { format!("{name}_packets_total") }
}

/// Counters of recovery functions, one metric for each.
fn counter_metrics<'a, const N: usize>(
    text: &mut MetricsText,
    prefix: &str,
    of: &str,
    fields: impl Iterator<Item = &'static Field<Counters>>,
    sets: &[([(&'a str, &'a str); N], Counters)],
) {
    for field in fields {
        let clause = match field.clause {
            "extension" => String::new(),
            clause => format!(" (802.1CB {clause})"),
        };
        let help = format!("{}{clause}, {of}", field.help.replace('`', ""));
        let name = format!("{prefix}_{}", counter_name(field.name));
        let mut metric = text.metric(&name, MetricType::Counter, &help);
        for (labels, set) in sets {
            metric.add(labels, (field.value)(set));
        }
    }
}

fn total_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    let sets = |of: fn(&NodeSummary) -> Counters| {
        nodes.iter().map(|node| ([("node", &*node.node)], of(node))).collect::<Vec<_>>()
    };
    let sequence = sets(|node| node.totals.sequence);
    // The daemon counts resets of latent error detection by stream, and keeps no sum of them.
    let summed = || Counters::FIELDS.iter().filter(|field| field.name != "latent_error_resets");
    let of = "sum of sequence recovery of all streams";
    counter_metrics(text, "onbeat_recovery", of, summed(), &sequence);
    let individual = sets(|node| node.totals.individual);
    let of = "sum of individual recovery of all streams";
    counter_metrics(text, "onbeat_individual_recovery", of, summed(), &individual);
    let help = "Packets whose sequence tag could not be decoded (802.1CB 10.8.11)";
    let mut metric = text.metric("onbeat_undecodable_packets_total", MetricType::Counter, help);
    for node in nodes {
        metric.add(&[("node", &node.node)], node.totals.seq_enc_errored);
    }
}

fn stream_metrics(text: &mut MetricsText, nodes: &[&NodeSummary]) {
    type Entry<'a> = (&'a str, &'a DetailedStream);
    let streams: Vec<Entry<'_>> = (nodes.iter())
        .flat_map(|node| node.detailed.iter().map(|stream| (&*node.node, stream)))
        .collect();
    fn labels<'a>((node, stream): &Entry<'a>) -> [(&'a str, &'a str); 2] {
        [("node", node), ("stream", &stream.status.name)]
    }
    let help = "Whether the stream is in trouble, by its kind";
    let mut metric = text.metric("onbeat_stream_in_trouble", MetricType::Gauge, help);
    for entry in &streams {
        for kind in StreamTrouble::ALL {
            let kind_label = kind.to_string();
            let labels = [&labels(entry)[..], &[("kind", &kind_label)]].concat();
            metric.add(&labels, u8::from(entry.1.troubles.contains(&kind)));
        }
    }
    let recovery = |entry: &Entry<'_>| entry.1.status.recovery.as_ref().map(|r| r.counters);
    let sets: Vec<_> =
        streams.iter().filter_map(|entry| Some((labels(entry), recovery(entry)?))).collect();
    let of = "of the stream's sequence recovery";
    counter_metrics(text, "onbeat_stream_recovery", of, Counters::FIELDS.iter(), &sets);
    let help = "Latent error signals (802.1CB 7.4.4.1.3)";
    let mut metric = text.metric("onbeat_stream_latent_errors_total", MetricType::Counter, help);
    for entry in &streams {
        let errors = entry.1.status.recovery.as_ref().map(|recovery| recovery.latent_errors);
        errors.into_iter().for_each(|errors| metric.add(&labels(entry), errors));
    }

    let members: Vec<(Entry<'_>, String, &MemberStatus)> = (streams.iter())
        .flat_map(|entry| {
            let members = entry.1.status.members.iter().enumerate();
            members.map(move |(number, member)| (*entry, number.to_string(), member))
        })
        .collect();
    type Value = fn(&MemberStatus) -> u64;
    let values: [(&str, MetricType, &str, Value); 2] = [
        (
            "onbeat_stream_member_input_packets_total",
            MetricType::Counter,
            "Packets of the member stream received (802.1CB 9.2.1)",
            |member| member.input_packets,
        ),
        (
            "onbeat_stream_member_lost",
            MetricType::Gauge,
            "Whether the member delivers no packets, while others do",
            |member| member.lost.into(),
        ),
    ];
    for (name, kind, help, value) in values {
        let mut metric = text.metric(name, kind, help);
        for (entry, number, member) in &members {
            let of_member = [("member", &**number), ("port", &*member.port)];
            metric.add(&[&labels(entry)[..], &of_member].concat(), value(member));
        }
    }
    let help = "Packets of the stream sent by the port (802.1CB 9.2.2)";
    let mut metric = text.metric("onbeat_stream_output_packets_total", MetricType::Counter, help);
    for entry in &streams {
        for (number, egress) in entry.1.status.egress.iter().enumerate() {
            let of_egress = [("egress", &*number.to_string()), ("port", &*egress.port)];
            let labels = [&labels(entry)[..], &of_egress].concat();
            metric.add(&labels, egress.output_packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_its_state_and_seconds() {
        let clock = PtpStatus {
            state: PtpState::NotLocked,
            offset_ns: Some(-1_000_000_120),
            path_delay_ns: Some(512),
            ..PtpStatus::default()
        };
        let node = NodeSummary { node: "a".into(), ptp: Some(clock), ..NodeSummary::default() };
        let page = exposition(&[("a".into(), Ok(node))]);
        for line in [
            "onbeat_ptp_state{node=\"a\",state=\"locked\"} 0\n",
            "onbeat_ptp_state{node=\"a\",state=\"not_locked\"} 1\n",
            "onbeat_ptp_offset_seconds{node=\"a\"} -1.000000120\n",
            "onbeat_ptp_path_delay_seconds{node=\"a\"} 0.000000512\n",
            "onbeat_ptp_system_synchronized{node=\"a\"} 0\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("onbeat_ptp_nic_offset_seconds{"), "{page}");
    }
}
