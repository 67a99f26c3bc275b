//! Metrics of an agent, as a file for the textfile collector of node_exporter.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_report::metrics::{LastWrite, MetricsFile};
use onbeat_rollout::agent::{Action, Outcome};
use onbeat_rollout::{Agent, Phase};

use crate::agent::unix_time;
use crate::error::Result;

/// Time after which the file is written again without a change: its time shows that the agent runs.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the agent of a node has done.
#[derive(Debug)]
pub(crate) struct AgentMetrics {
    file: Option<MetricsFile>,
    node: String,
    step: u64,
    phase: Phase,
    /// Unix time of the first read of the store after the last failure; 0: the store cannot be read.
    connected_since: u64,
    refuses: bool,
    is_twin: bool,
    refusals: u64,
    drifts: u64,
    written: Option<(String, Instant)>,
    last_write: LastWrite,
}

impl AgentMetrics {
    /// Metrics of a node; without a file, they are not written.
    pub(crate) fn new(node: &str, file: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            file: file.map(MetricsFile::new).transpose()?,
            node: node.to_owned(),
            step: 0,
            phase: Phase::Rest,
            connected_since: 0,
            refuses: false,
            is_twin: false,
            refusals: 0,
            drifts: 0,
            written: None,
            last_write: LastWrite::default(),
        })
    }

    /// Counts an action.
    pub(crate) fn note(&mut self, agent: &Agent, action: &Action, outcome: &Outcome) {
        match (action, outcome) {
            (Action::Read, Outcome::Failed) => self.connected_since = 0,
            (Action::Read, _) if self.connected_since == 0 => self.connected_since = unix_time(),
            (Action::Inspect, Outcome::Hash(hash)) => {
                let expected = agent.saved().map(|saved| saved.hash);
                self.drifts += u64::from(expected.is_some_and(|expected| expected != *hash));
            }
            (Action::Acknowledge(state, _), Outcome::Done) => {
                (self.step, self.phase) = (state.current.step, state.current.phase);
                self.refuses = !state.ok;
                self.refusals += u64::from(!state.ok);
            }
            _ => {}
        }
    }

    /// Writes the file, if it has changed or is old. A failure is reported once, and has no other effect.
    pub(crate) fn write(&mut self, agent: &Agent) {
        let Some(file) = self.file.clone() else { return };
        self.is_twin = agent.is_twin();
        if let (0, Some(saved)) = (self.step, agent.saved()) {
            (self.step, self.phase) = (saved.current.step, saved.current.phase);
        }
        let text = self.text();
        let is_known = |(known, at): &(String, Instant)| *known == text && at.elapsed() < INTERVAL;
        if self.written.as_ref().is_some_and(is_known) {
            return;
        }
        let seen = sample(
            "onbeat_fleet_agent_seen_seconds",
            "gauge",
            "Unix time of this file",
            &self.node,
            unix_time(),
        );
        let result = file.replace(&(text.clone() + &seen));
        if result.is_ok() {
            self.written = Some((text, Instant::now()));
        }
        if let Some(failure) = self.last_write.news(result) {
            tracing::warn!("metrics: {failure}");
        }
    }

    fn text(&self) -> String {
        let one = |name: &str, kind: &str, help: &str, value: u64| {
            sample(name, kind, help, &self.node, value)
        };
        let mut text = one(
            "onbeat_fleet_agent_step",
            "gauge",
            "Last step that the agent acknowledged",
            self.step,
        );
        text += &head("onbeat_fleet_agent_phase", "gauge", "Phase of this step");
        for phase in Phase::ALL {
            let (node, value) = (&self.node, u8::from(phase == self.phase));
            let _ = writeln!(
                text,
                "onbeat_fleet_agent_phase{{node=\"{node}\",phase=\"{phase}\"}} {value}"
            );
        }
        let since = "Unix time since when the store can be read, 0 if it cannot";
        text += &one(
            "onbeat_fleet_agent_connected_since_seconds",
            "gauge",
            since,
            self.connected_since,
        );
        text += &one(
            "onbeat_fleet_agent_refuses",
            "gauge",
            "Whether plan or node refuse this step",
            self.refuses.into(),
        );
        let twin = "Whether another agent has the name of the node";
        text += &one("onbeat_fleet_agent_twin", "gauge", twin, self.is_twin.into());
        text +=
            &one("onbeat_fleet_agent_refusals_total", "counter", "Refused steps", self.refusals);
        let drifts = "Times at which the node ran another file than that of the step";
        text + &one("onbeat_fleet_agent_drifts_total", "counter", drifts, self.drifts)
    }
}

fn head(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n")
}

/// A metric with one sample. Names of nodes need no escape.
fn sample(name: &str, kind: &str, help: &str, node: &str, value: u64) -> String {
    head(name, kind, help) + &format!("{name}{{node=\"{node}\"}} {value}\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use onbeat_rollout::Current;
    use onbeat_rollout::agent::DiskRecord;
    use onbeat_rollout::record::{FileHash, NodeState};
    use onbeat_testing::{TemporaryDirectory, check_metrics};

    use super::*;

    #[test]
    fn the_file_has_the_state_of_the_agent() {
        let directory = TemporaryDirectory::new("fleet-metrics");
        let file = directory.file("agent.prom");
        assert!(AgentMetrics::new("a", Some(directory.file("agent.txt"))).is_err());
        let mut metrics = AgentMetrics::new("relay1", Some(file.clone())).unwrap();
        let current = Current { step: 7, phase: Phase::Send, ..Current::FIRST };
        let agent = Agent::start(1, Some(DiskRecord { current, hash: FileHash::of("a") }));
        let read = |metrics: &mut AgentMetrics| {
            metrics.write(&agent);
            fs::read_to_string(&file).unwrap()
        };
        let text = read(&mut metrics);
        assert!(text.contains("agent_step{node=\"relay1\"} 7\n"), "{text}");
        assert!(
            text.contains("phase=\"send\"} 1\n") && text.contains("phase=\"rest\"} 0\n"),
            "{text}"
        );
        assert!(text.contains("connected_since_seconds{node=\"relay1\"} 0\n"), "{text}");

        let known = Outcome::Read { current: Some(current), own: None, revision: 1 };
        metrics.note(&agent, &Action::Read, &known);
        metrics.note(&agent, &Action::Inspect, &Outcome::Hash(FileHash::of("b")));
        metrics.note(&agent, &Action::Inspect, &Outcome::Hash(FileHash::of("a")));
        let state = NodeState {
            current: Current { step: 8, ..current },
            hash: FileHash::of("a"),
            ok: false,
            why: "no room".into(),
            instance: 1,
            proved: 0,
            lost: 0,
            proof: String::new(),
        };
        metrics.note(&agent, &Action::Acknowledge(state, 0), &Outcome::Done);
        let text = read(&mut metrics);
        for line in [
            "step{node=\"relay1\"} 8",
            "refuses{node=\"relay1\"} 1",
            "refusals_total{node=\"relay1\"} 1",
            "drifts_total{node=\"relay1\"} 1",
        ] {
            assert!(text.contains(&format!("onbeat_fleet_agent_{line}\n")), "{line}: {text}");
        }
        assert!(!text.contains("connected_since_seconds{node=\"relay1\"} 0\n"), "{text}");
        metrics.note(&agent, &Action::Read, &Outcome::Failed);
        assert!(read(&mut metrics).contains("connected_since_seconds{node=\"relay1\"} 0\n"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");

        check_metrics(&fs::read_to_string(&file).unwrap());
    }
}
