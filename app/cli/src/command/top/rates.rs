//! Rates of a node between two readings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use onbeat_node::control::{LinkState, NodeSummary, PortStatus, StreamStatus, StreamTrouble};
use serde::Serialize;

use super::source::Reading;

/// Name and version of the JSON.
const SCHEMA: &str = "onbeat-top/1";

/// A node between two readings. Rates are per second; `None`: not known, since the counter is new or was reset.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Rates {
    pub(super) schema: &'static str,
    /// The end of the interval, RFC 3339 in UTC.
    pub(super) time: String,
    pub(super) interval_s: f64,
    pub(super) node: String,
    pub(super) data_plane: String,
    pub(super) uptime_s: u64,
    /// Number of all streams.
    pub(super) number_of_streams: u64,
    /// Number of streams in trouble, by its kind.
    pub(super) in_trouble: BTreeMap<StreamTrouble, u64>,
    pub(super) ports: Vec<PortRates>,
    /// Up to 500 that match the search, and up to 500 further ones that match and are in trouble.
    pub(super) streams: Vec<StreamRates>,
}

/// A port.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PortRates {
    pub(super) name: String,
    pub(super) interface: String,
    pub(super) mode: String,
    pub(super) link: LinkState,
    pub(super) input_per_s: Option<f64>,
    pub(super) output_per_s: Option<f64>,
    pub(super) discarded_per_s: Option<f64>,
    pub(super) unmatched_per_s: Option<f64>,
    /// Frames that the data plane lost.
    pub(super) lost_per_s: Option<f64>,
    /// Cause and remedy, while frames are lost or the mode is not the intended one.
    pub(super) remark: Option<String>,
}

/// A stream.
#[derive(Debug, Clone, Serialize)]
pub(super) struct StreamRates {
    pub(super) name: String,
    pub(super) troubles: Vec<StreamTrouble>,
    /// Of all members.
    pub(super) input_per_s: Option<f64>,
    /// Frames handed to the egress ports, each counted once.
    pub(super) output_per_s: Option<f64>,
    pub(super) discarded_per_s: Option<f64>,
    /// Packets that were sent and arrived on no path.
    pub(super) lost_per_s: Option<f64>,
    pub(super) out_of_order_per_s: Option<f64>,
    /// By member.
    pub(super) paths: Vec<PathRate>,
}

/// A path of a stream.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PathRate {
    pub(super) port: String,
    pub(super) input_per_s: Option<f64>,
    /// It delivers nothing, while others do.
    pub(super) lost: bool,
}

/// The order of streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Those in trouble, then the others, each by name.
    #[default]
    Trouble,
    Name,
    Input,
    Lost,
    Discarded,
}

impl Order {
    pub(super) const ALL: [Self; 5] =
        [Self::Trouble, Self::Name, Self::Input, Self::Lost, Self::Discarded];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Name => "name",
            Self::Input => "input",
            Self::Lost => "lost",
            Self::Discarded => "discarded",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

/// The growth of counters in an interval.
#[derive(Clone, Copy)]
struct Growth {
    seconds: f64,
    /// A new daemon may count from 0.
    restarted: bool,
}

impl Growth {
    fn per_s(self, before: Option<u64>, now: u64) -> Option<f64> {
        let grown = now.checked_sub(before.filter(|_| !self.restarted)?)?;
        (self.seconds > 0.0).then(|| grown as f64 / self.seconds)
    }
}

impl Rates {
    /// The rates between two readings of one node.
    pub(super) fn between(before: &Reading, now: &Reading) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let rates = Self::of(&before.summary, &now.summary, seconds);
        Self { time: now.time.clone(), ..rates }
    }

    /// The rates between two summaries, this time apart.
    pub(super) fn of(before: &NodeSummary, now: &NodeSummary, seconds: f64) -> Self {
        let growth = Growth { seconds, restarted: is_restarted(before, now, seconds) };
        let former_port = |port: &PortStatus| before.ports.iter().find(|p| p.name == port.name);
        let former: HashMap<&str, &StreamStatus> = before
            .detailed
            .iter()
            .map(|stream| (stream.status.name.as_str(), &stream.status))
            .collect();
        let stream = |stream: &onbeat_node::control::DetailedStream| {
            let status = &stream.status;
            let rates = of_stream(former.get(status.name.as_str()).copied(), status, growth);
            StreamRates { troubles: stream.troubles.clone(), ..rates }
        };
        Self {
            schema: SCHEMA,
            time: String::new(),
            interval_s: seconds,
            node: now.node.clone(),
            data_plane: now.data_plane.clone(),
            uptime_s: now.uptime_s,
            number_of_streams: now.streams,
            in_trouble: now.in_trouble.clone(),
            ports: now.ports.iter().map(|port| of_port(former_port(port), port, growth)).collect(),
            streams: now.detailed.iter().map(stream).collect(),
        }
    }

    /// Frames per second that all ports receive, and those that leave.
    pub(super) fn in_and_out(&self) -> [Option<f64>; 2] {
        let sum = |rate: fn(&PortRates) -> Option<f64>| self.ports.iter().map(rate).sum();
        [sum(|port| port.input_per_s), sum(|port| port.output_per_s)]
    }

    pub(super) fn sort(&mut self, order: Order) {
        let highest = |rate: Option<f64>| Reverse((rate.unwrap_or(-1.0) * 1000.0) as i64);
        self.streams.sort_by(|a, b| {
            let key = |stream: &StreamRates| match order {
                Order::Name => (false, Reverse(0)),
                Order::Trouble => (stream.troubles.is_empty(), Reverse(0)),
                Order::Input => (false, highest(stream.input_per_s)),
                Order::Lost => (false, highest(stream.lost_per_s)),
                Order::Discarded => (false, highest(stream.discarded_per_s)),
            };
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
    }

    /// The number of streams in each kind of trouble, if there is any.
    pub(super) fn trouble(&self) -> String {
        let kinds = self.in_trouble.iter().filter(|(_, streams)| **streams > 0);
        let kinds: Vec<String> = kinds
            .map(|(kind, streams)| {
                let streams = onbeat_report::format::count(*streams, "stream");
                format!("{}: {streams}", trouble_name(*kind))
            })
            .collect();
        if kinds.is_empty() { "no stream in trouble".into() } else { kinds.join("  ") }
    }
}

/// Whether the daemon has not run for all of the time between: its age is in whole seconds.
fn is_restarted(before: &NodeSummary, now: &NodeSummary, seconds: f64) -> bool {
    now.uptime_s < before.uptime_s || now.uptime_s as f64 + 2.0 < before.uptime_s as f64 + seconds
}

/// The name of a trouble in tables.
pub(super) fn trouble_name(kind: StreamTrouble) -> String {
    kind.to_string().replace('_', " ")
}

fn of_port(before: Option<&PortStatus>, now: &PortStatus, growth: Growth) -> PortRates {
    let rate = |of: fn(&PortStatus) -> u64| growth.per_s(before.map(of), of(now));
    let remark =
        [&now.not_attached, &now.frames_lost, &now.not_native].into_iter().flatten().next();
    PortRates {
        name: now.name.clone(),
        interface: now.interface.clone(),
        mode: now.mode.to_string(),
        link: now.link,
        input_per_s: rate(|port| port.input_packets),
        output_per_s: rate(|port| port.output_packets),
        discarded_per_s: rate(|port| port.discard),
        unmatched_per_s: rate(|port| port.unmatched),
        lost_per_s: rate(|port| port.lost.total()),
        remark: remark.cloned(),
    }
}

fn of_stream(before: Option<&StreamStatus>, now: &StreamStatus, growth: Growth) -> StreamRates {
    let rate = |of: fn(&StreamStatus) -> u64| growth.per_s(before.map(of), of(now));
    let recovered = |of: fn(&StreamStatus) -> u64| now.recovery.as_ref().and_then(|_| rate(of));
    let paths = now.members.iter().enumerate().map(|(place, member)| {
        let former = before.and_then(|before| before.members.get(place));
        let former = former.filter(|former| former.port == member.port);
        let former = former.map(|former| former.input_packets);
        PathRate {
            port: member.port.clone(),
            input_per_s: growth.per_s(former, member.input_packets),
            lost: member.lost,
        }
    });
    StreamRates {
        name: now.name.clone(),
        troubles: Vec::new(),
        input_per_s: rate(|stream| stream.members.iter().map(|m| m.input_packets).sum()),
        output_per_s: rate(|stream| {
            stream.egress.iter().map(|egress| egress.output_packets).max().unwrap_or(0)
        }),
        discarded_per_s: rate(|stream| {
            let individual = stream.members.iter().filter_map(|m| m.individual.as_ref());
            let functions = individual.chain(&stream.recovery);
            functions.map(|function| function.counters.discarded).sum()
        }),
        lost_per_s: recovered(|stream| {
            stream.recovery.as_ref().map_or(0, |recovery| recovery.really_lost())
        }),
        out_of_order_per_s: recovered(|stream| {
            stream.recovery.as_ref().map_or(0, |recovery| recovery.counters.out_of_order)
        }),
        paths: paths.collect(),
    }
}
