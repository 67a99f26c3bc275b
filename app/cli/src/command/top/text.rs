//! Cells of the tables, and the text of an interval.

use onbeat_node::control::{Event, LinkState};
use onbeat_report::format::{count, integer};
use onbeat_report::table::{Alignment, TextTable};

use super::rates::{PortRates, Rates, StreamRates, trouble_name};

/// Columns of ports: name, alignment, width.
pub(super) const PORTS: [(&str, Alignment, u16); 9] = [
    ("PORT", Alignment::Left, 0),
    ("INTERFACE", Alignment::Left, 10),
    ("MODE", Alignment::Left, 8),
    ("LINK", Alignment::Left, 7),
    ("IN/s", Alignment::Right, 9),
    ("OUT/s", Alignment::Right, 9),
    ("DISC/s", Alignment::Right, 8),
    ("OTHER/s", Alignment::Right, 8),
    ("LOST/s", Alignment::Right, 7),
];

/// Columns of streams; the last one needs a wide screen.
pub(super) const STREAMS: [(&str, Alignment, u16); 8] = [
    ("STREAM", Alignment::Left, 0),
    ("TROUBLE", Alignment::Left, 17),
    ("IN/s", Alignment::Right, 9),
    ("OUT/s", Alignment::Right, 9),
    ("DISC/s", Alignment::Right, 8),
    ("ORDER/s", Alignment::Right, 8),
    ("LOST/s", Alignment::Right, 7),
    ("BY PATH, IN/s", Alignment::Left, 30),
];

/// Frames per second.
pub(super) fn rate(per_s: Option<f64>) -> String {
    match per_s {
        None => "–".into(),
        Some(rate) if rate == 0.0 || rate >= 9.95 => integer(rate.round() as i64),
        Some(rate) => format!("{rate:.1}"),
    }
}

pub(super) fn port(port: &PortRates) -> [String; 9] {
    let link = match port.link {
        LinkState::Up => "up",
        LinkState::Down => "DOWN",
        LinkState::Missing => "MISSING",
    };
    [
        port.name.clone(),
        port.interface.clone(),
        port.mode.clone(),
        link.into(),
        rate(port.input_per_s),
        rate(port.output_per_s),
        rate(port.discarded_per_s),
        rate(port.unmatched_per_s),
        rate(port.lost_per_s),
    ]
}

pub(super) fn stream(stream: &StreamRates) -> [String; 8] {
    let troubles: Vec<String> = stream.troubles.iter().copied().map(trouble_name).collect();
    let path = |path: &super::rates::PathRate| {
        let rate = if path.lost { "lost".into() } else { rate(path.input_per_s) };
        format!("{} {rate}", path.port)
    };
    let paths: Vec<String> = stream.paths.iter().map(path).collect();
    [
        stream.name.clone(),
        troubles.join(", "),
        rate(stream.input_per_s),
        rate(stream.output_per_s),
        rate(stream.discarded_per_s),
        rate(stream.out_of_order_per_s),
        rate(stream.lost_per_s),
        paths.join("  "),
    ]
}

/// The first line: the node and its frames per second.
pub(super) fn head(rates: &Rates) -> String {
    let [input, output] = rates.in_and_out().map(rate);
    format!(
        "{}  {}  up {}  {}  in {input}/s  out {output}/s",
        rates.node,
        rates.data_plane,
        onbeat_node::control::uptime(rates.uptime_s),
        count(rates.number_of_streams, "stream"),
    )
}

/// The line below the streams, if not all are listed.
pub(super) fn not_listed(rates: &Rates) -> Option<String> {
    let others = rates.number_of_streams.saturating_sub(rates.streams.len() as u64);
    (others > 0).then(|| format!("{} not listed", count(others, "stream")))
}

/// The tables of an interval, and its events.
pub(super) fn render(rates: &Rates, events: &[Event]) -> String {
    let table = |columns: &[(&'static str, Alignment, u16)]| {
        TextTable::new(columns.iter().map(|(name, align, _)| (*name, *align))).without_rule()
    };
    let (mut ports, mut streams) = (table(&PORTS), table(&STREAMS));
    rates.ports.iter().for_each(|row| ports.row(port(row)));
    rates.streams.iter().for_each(|row| streams.row(stream(row)));
    let mut text = format!("{}\n{}\n\n{ports}", head(rates), rates.trouble());
    for port in &rates.ports {
        if let Some(remark) = &port.remark {
            text += &format!("port {:?}: {remark}\n", port.name);
        }
    }
    if !streams.is_empty() {
        text += &format!("\n{streams}");
    }
    text.extend(not_listed(rates).map(|line| line + "\n"));
    if !events.is_empty() {
        text.push('\n');
    }
    for event in events {
        text += &format!("{}  {}  {event}\n", event.time, event.number);
    }
    text + "\n"
}
