//! Metrics of a running node, in a file for the textfile collector of node_exporter.
//!
//! The thread of the node only copies counters, every few seconds. Another thread, without its real-time settings, writes
//! the file.

use std::fmt::Display;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_powerlink::mn::{BootRecord, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::observe::{Frames, Node, Request};
use onbeat_report::metrics::{LastWrite, MetricType, MetricsFile, MetricsText, seconds};
use onbeat_wire::powerlink::NodeId;

use crate::runner::cycle_ns;
use crate::{Counts, Runner, Station};

/// Interval of the file.
const INTERVAL_NS: u64 = 5_000_000_000;

/// The counters of a node at one time.
#[derive(Debug, Clone, Default)]
struct Snapshot {
    device: String,
    node: Option<NodeId>,
    state: Option<State>,
    is_in_target_state: bool,
    cycle_ns: u64,
    frames: Frames,
    counts: Counts,
    late_requests: u64,
    skipped_cycles: u64,
    other_manager_frames: u64,
    peers: Vec<(NodeId, Node)>,
    boots: Vec<BootRecord>,
}

impl Snapshot {
    fn of<S: Station>(runner: &Runner<S>, device: &str) -> Self {
        let station = runner.station();
        Self {
            device: device.to_owned(),
            node: Some(station.node()),
            state: Some(station.state()),
            is_in_target_state: station.state() == station.goal(),
            cycle_ns: cycle_ns(station),
            frames: *runner.bus().frames(),
            counts: runner.counts(),
            late_requests: runner.late_requests(),
            skipped_cycles: runner.skipped_cycles(),
            other_manager_frames: station.foreign_frames(),
            peers: runner.bus().nodes().iter().map(|(id, node)| (*id, *node)).collect(),
            boots: station.boots(),
        }
    }

    /// Prints the metrics. `seen_s`: Unix time.
    fn text(&self, seen_s: u64) -> String {
        use MetricType::{Counter, Gauge};
        let mut text = MetricsText::default();
        let id = self.node.map(|node| node.to_string()).unwrap_or_default();
        let own = [("device", &*self.device), ("id", &*id)];
        let help = "State of the node";
        let mut metric = text.metric("onbeat_powerlink_state", Gauge, help);
        if let Some(state) = self.state {
            metric.add(&[own[0], own[1], ("state", &label(state))], 1);
        }
        let cycle = seconds(self.cycle_ns.into());
        let values: [(&str, MetricType, &str, &dyn Display); 8] = [
            (
                "onbeat_powerlink_in_target_state",
                Gauge,
                "Whether the node is in the state that it is to reach",
                &u8::from(self.is_in_target_state),
            ),
            (
                "onbeat_powerlink_cycle_seconds",
                Gauge,
                "Length of a cycle, 0 before it is set",
                &cycle,
            ),
            (
                "onbeat_powerlink_exchanges_total",
                Counter,
                "Exchanges of process data",
                &self.counts.turns,
            ),
            (
                "onbeat_powerlink_not_sent_packets_total",
                Counter,
                "Frames that the port did not accept",
                &self.counts.not_sent,
            ),
            (
                "onbeat_powerlink_late_requests_total",
                Counter,
                "Requests that were not answered since their slot was over",
                &self.late_requests,
            ),
            (
                "onbeat_powerlink_skipped_cycles_total",
                Counter,
                "Cycles without a SoC since the one before exceeded its length",
                &self.skipped_cycles,
            ),
            (
                "onbeat_powerlink_other_manager_packets_total",
                Counter,
                "Frames of other managing nodes",
                &self.other_manager_frames,
            ),
            ("onbeat_powerlink_seen_seconds", Gauge, "Unix time of these metrics", &seen_s),
        ];
        for (name, kind, help, value) in values {
            text.metric(name, kind, help).add(&own, value);
        }
        let help = "Frames of the bus that the node received or sent, by message";
        let mut metric = text.metric("onbeat_powerlink_packets_total", Counter, help);
        let Frames { soc, preq, pres, soa, asnd, amni, foreign, malformed } = self.frames;
        for (message, count) in [
            ("soc", soc),
            ("preq", preq),
            ("pres", pres),
            ("soa", soa),
            ("asnd", asnd),
            ("amni", amni),
            ("other_protocol", foreign),
            ("malformed", malformed),
        ] {
            metric.add(&[own[0], own[1], ("message", message)], count);
        }
        self.peers(&mut text, own);
        text.into_string()
    }

    /// Metrics of the nodes of the bus.
    fn peers(&self, text: &mut MetricsText, [device, id]: [(&str, &str); 2]) {
        use MetricType::{Counter, Gauge};
        let help = "State that a node of the bus reported last";
        let mut metric = text.metric("onbeat_powerlink_peer_state", Gauge, help);
        for (peer, node) in &self.peers {
            if let Some(state) = node.state {
                let (peer, state) = (peer.to_string(), label(state));
                metric.add(&[device, id, ("peer", &peer), ("state", &state)], 1);
            }
        }
        type OfNode = fn(&Node) -> u64;
        let values: [(&str, &str, OfNode); 3] = [
            ("onbeat_powerlink_peer_polls_total", "Polls of a node of the bus", |node| {
                node.requests(Request::Poll).sent
            }),
            (
                "onbeat_powerlink_peer_unanswered_polls_total",
                "Polls of a node without a response in time",
                |node| node.requests(Request::Poll).unanswered,
            ),
            ("onbeat_powerlink_peer_responses_total", "Responses of a node to polls", |node| {
                node.responses
            }),
        ];
        for (name, help, value) in values {
            let mut metric = text.metric(name, Counter, help);
            for (peer, node) in self.peers.iter().filter(|(peer, _)| !peer.is_managing()) {
                metric.add(&[device, id, ("peer", &peer.to_string())], value(node));
            }
        }
        if self.boots.is_empty() {
            return;
        }
        type OfBoot = fn(&BootRecord) -> u64;
        let values: [(&str, MetricType, &str, OfBoot); 3] = [
            (
                "onbeat_powerlink_peer_mandatory",
                Gauge,
                "Whether the network waits for a node",
                |boot| boot.mandatory.into(),
            ),
            (
                "onbeat_powerlink_peer_operational",
                Gauge,
                "Whether the managing node has started a node",
                |boot| (boot.step == Step::Operational).into(),
            ),
            ("onbeat_powerlink_peer_failures_total", Counter, "Failures of a node", |boot| {
                boot.failures
            }),
        ];
        for (name, kind, help, value) in values {
            let mut metric = text.metric(name, kind, help);
            for boot in &self.boots {
                metric.add(&[device, id, ("peer", &boot.node.to_string())], value(boot));
            }
        }
    }
}

/// A state as the value of a label.
fn label(state: impl Display) -> String {
    state.to_string().to_lowercase().replace(' ', "_")
}

/// Writes the metrics of a node.
#[derive(Debug)]
pub(crate) struct MetricsWriter {
    /// `None` at the end.
    snapshots: Option<SyncSender<Snapshot>>,
    thread: Option<JoinHandle<()>>,
    due_ns: u64,
}

impl MetricsWriter {
    /// Starts the thread that writes. To be called before the thread of the node has its real-time settings.
    pub(crate) fn start(file: MetricsFile) -> std::io::Result<Self> {
        let (snapshots, received) = sync_channel(1);
        let write = move || write_all(&received, &file);
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(write)?;
        Ok(Self { snapshots: Some(snapshots), thread: Some(thread), due_ns: 0 })
    }

    /// Passes the metrics to the other thread, if that is due. If it has not written the former ones yet, they are left
    /// out.
    pub(crate) fn update<S: Station>(&mut self, now_ns: u64, runner: &Runner<S>, device: &str) {
        if now_ns >= self.due_ns {
            self.due_ns = now_ns + INTERVAL_NS;
            if let Some(snapshots) = &self.snapshots {
                let _ = snapshots.try_send(Snapshot::of(runner, device));
            }
        }
    }

    /// Writes the last metrics.
    pub(crate) fn finish<S: Station>(mut self, runner: &Runner<S>, device: &str) {
        // Waits until the former ones are being written. Fails only if the thread has panicked.
        if let Some(snapshots) = self.snapshots.take() {
            let _ = snapshots.send(Snapshot::of(runner, device));
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write_all(snapshots: &Receiver<Snapshot>, file: &MetricsFile) {
    let mut last = LastWrite::default();
    for snapshot in snapshots {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(failure) = last.news(file.replace(&snapshot.text(now.as_secs()))) {
            tracing::warn!("metrics: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_powerlink::observe::Requests;
    use onbeat_testing::check_metrics;
    use onbeat_wire::powerlink::NmtState;

    use super::*;

    fn snapshot() -> Snapshot {
        let poll = Requests { sent: 10, unanswered: 2 };
        let requests = [poll, Requests::default(), Requests::default(), Requests::default()];
        let state = Some(NmtState::PRE_OPERATIONAL_2);
        let peer = Node { requests, responses: 8, state, ..Node::default() };
        Snapshot {
            device: "eth1".into(),
            node: Some(NodeId::MN),
            state: Some(State::Operational),
            is_in_target_state: true,
            cycle_ns: 400_000,
            frames: Frames { soc: 7, malformed: 3, ..Frames::default() },
            counts: Counts { turns: 7, ..Counts::default() },
            skipped_cycles: 5,
            peers: vec![(NodeId(1), peer), (NodeId::MN, Node::default())],
            boots: vec![BootRecord {
                node: NodeId(1),
                mandatory: true,
                step: Step::Enable,
                operational: 0,
                failures: 4,
                last_failure: None,
                skipped: 0,
                foreign: 0,
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn each_value_has_its_metric() {
        let text = snapshot().text(1_700_000_000);
        for line in [
            "state{device=\"eth1\",id=\"240\",state=\"operational\"} 1",
            "in_target_state{device=\"eth1\",id=\"240\"} 1",
            "cycle_seconds{device=\"eth1\",id=\"240\"} 0.000400000",
            "exchanges_total{device=\"eth1\",id=\"240\"} 7",
            "skipped_cycles_total{device=\"eth1\",id=\"240\"} 5",
            "seen_seconds{device=\"eth1\",id=\"240\"} 1700000000",
            "packets_total{device=\"eth1\",id=\"240\",message=\"soc\"} 7",
            "packets_total{device=\"eth1\",id=\"240\",message=\"malformed\"} 3",
            "peer_state{device=\"eth1\",id=\"240\",peer=\"1\",state=\"pre_operational_2\"} 1",
            "peer_polls_total{device=\"eth1\",id=\"240\",peer=\"1\"} 10",
            "peer_unanswered_polls_total{device=\"eth1\",id=\"240\",peer=\"1\"} 2",
            "peer_responses_total{device=\"eth1\",id=\"240\",peer=\"1\"} 8",
            "peer_operational{device=\"eth1\",id=\"240\",peer=\"1\"} 0",
            "peer_mandatory{device=\"eth1\",id=\"240\",peer=\"1\"} 1",
            "peer_failures_total{device=\"eth1\",id=\"240\",peer=\"1\"} 4",
        ] {
            assert!(text.contains(&format!("\nonbeat_powerlink_{line}\n")), "{line}: {text}");
        }
        assert!(!text.contains("peer_polls_total{device=\"eth1\",id=\"240\",peer=\"240\"}"));
    }

    #[test]
    fn promtool_accepts_the_metrics() {
        check_metrics(&snapshot().text(1));
    }
}
